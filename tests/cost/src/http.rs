//! HTTP: headers, bodies of both sides, header-mirrored arguments, streams and their ids.

use std::time::Duration;

use http::{Request, header};
use mcp_proto::{
    connection::RequestOptions,
    protocol::{HeaderParam, MirroredHeaders, MirroredValue, decode_header},
    wire::{Json, RawJson},
};
use mcp_tests::{
    harness::full_server,
    http_client::{HttpClient, json_response, message, stream_response},
    http_server::{HttpServer, get, modern, post},
};
use serde_json::json;

use super::{Case, Work, descending, list};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "header/a base64 value",
        make: |size| header_value(format!("=?base64?{}?=", "QUJD".repeat(size / 4))),
    },
    Case {
        name: "x-mcp-header/many properties below a long name",
        make: |size| of_schema(below_a_long_name(size, "")),
    },
    Case {
        name: "x-mcp-header/many annotations below a long name",
        make: |size| of_schema(below_a_long_name(size, "x")),
    },
    Case {
        name: "x-mcp-header/many annotations",
        make: |size| {
            of_schema(format!(
                "{{\"type\":\"object\",\"properties\":{{{}}}}}",
                list(size, |index| format!("\"{index}\":{{\"type\":\"string\",\"x-mcp-header\":\"h{index}\"}}"))
            ))
        },
    },
    Case { name: "x-mcp-header/deep objects", make: |size| of_schema(deep(size)) },
    Case { name: "x-mcp-header/verified in many arguments", make: verified },
    Case { name: "client/tools of many annotations", make: |size| listed(below_a_long_name(size, "x")) },
    Case {
        name: "client/a body byte by byte",
        make: |size| {
            body(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"a\":\"{}\"}}}}", "x".repeat(size)), false)
        },
    },
    Case {
        name: "client/a stream byte by byte behind a long id",
        make: |size| body(format!("id: {}\n\n:{}", "i".repeat(size / 2), "x".repeat(size / 2)), true),
    },
    Case { name: "client/a stream of comments", make: |size| body(":\n\n".repeat(size / 3), true) },
    Case { name: "client/WWW-Authenticate of many parameters", make: challenged },
    Case { name: "server/a body in pieces", make: posted },
    Case { name: "server/headers that mirror arguments", make: mirrored },
    Case { name: "server/Accept of many ranges", make: accepted },
    Case { name: "server/pings of one session that are not read", make: pings },
    Case { name: "server/Last-Event-ID of one stream, again and again", make: resumed },
];

fn header_value(text: String) -> Work {
    Work::new(text.len(), move || drop(decode_header(&text)))
}

/// A schema with a name of half of `size`, and below it properties for the other half.
fn below_a_long_name(size: usize, annotation: &str) -> String {
    let property = |index| match annotation {
        "" => format!("\"{index}\":{{\"type\":\"string\"}}"),
        _ => format!("\"{index}\":{{\"type\":\"string\",\"x-mcp-header\":\"{annotation}{index}\"}}"),
    };
    let properties = list(size / 2, property);
    let name = "a".repeat(size / 2);
    format!(
        "{{\"type\":\"object\",\"properties\":{{\"{name}\":{{\"type\":\"object\",\"properties\":{{{properties}}}}}}}}}"
    )
}

/// Objects as deep as they may be, with long names on the way.
fn deep(size: usize) -> String {
    const LEVELS: usize = 40;
    let name = "a".repeat(size / LEVELS);
    let open = format!("{{\"type\":\"object\",\"properties\":{{\"{name}\":").repeat(LEVELS);
    format!("{open}{{\"type\":\"string\",\"x-mcp-header\":\"h\"}}{}", "}}".repeat(LEVELS))
}

fn of_schema(schema: String) -> Work {
    let input = schema.len();
    let schema = Json::parse(schema).expect("it is JSON");
    Work::new(input, move || drop(HeaderParam::of_schema(&RawJson::from(&schema))))
}

fn verified(size: usize) -> Work {
    let schema = Json::new(&json!({"type": "object", "properties": {"z": {"type": "string", "x-mcp-header": "z"}}}));
    let params = HeaderParam::of_schema(&RawJson::from(&schema.expect("it is JSON"))).expect("it is allowed");
    let arguments = Json::parse(descending(size, "1")).expect("it is JSON");
    let headers =
        MirroredHeaders { params: vec![("z".into(), MirroredValue::Text("v".into()))], ..MirroredHeaders::default() };
    Work::new(size, move || drop(params[0].verify(Some(&RawJson::from(&arguments)), &headers)))
}

/// A client lists tools, of which one has this schema.
fn listed(schema: String) -> Work {
    let mut caller = HttpClient::modern();
    caller.call("tools/list", &json!({}));
    let (exchange, request) = caller.posted("tools/list");
    let id = message(&request)["id"].take();
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{{"name":"t","inputSchema":{schema}}}]}}}}"#
    );
    Work::new(answer.len(), move || {
        caller.respond(exchange, json_response(200), answer);
        drop(caller.take_events());
    })
}

/// The response to a call, byte by byte.
fn body(text: String, stream: bool) -> Work {
    let mut caller = HttpClient::modern();
    caller.call("tools/list", &json!({}));
    let (exchange, _) = caller.posted("tools/list");
    caller.head(exchange, if stream { stream_response() } else { json_response(200) });
    Work::new(text.len(), move || {
        for byte in text.as_bytes() {
            caller.core.handle_body(caller.now, exchange, std::slice::from_ref(byte));
        }
        drop(caller.take_events());
    })
}

fn challenged(size: usize) -> Work {
    let mut caller = HttpClient::modern();
    caller.call_with("tools/list", &json!({}), RequestOptions::default());
    let (exchange, _) = caller.posted("tools/list");
    let challenge = format!("Bearer {}", list(size, |index| format!("p{index}=\"v\"")));
    Work::new(challenge.len(), move || {
        caller.head(exchange, json_response(401).header(header::WWW_AUTHENTICATE, challenge));
        caller.end(exchange);
        drop(caller.take_events());
    })
}

fn posted(size: usize) -> Work {
    let mut server = HttpServer::new(full_server());
    let request = modern(&json!(1), "tools/list", json!({"x": "y".repeat(size)}));
    Work::new(request.body().len(), move || {
        server.send(request);
    })
}

fn mirrored(size: usize) -> Work {
    let mut server = HttpServer::new(full_server());
    let mut request = modern(&json!(1), "tools/call", json!({"name": "t"}));
    for index in 0..size / 32 {
        let name = header::HeaderName::from_bytes(format!("mcp-param-p{index}").as_bytes()).expect("a name");
        request.headers_mut().append(name, header::HeaderValue::from_static("v"));
    }
    Work::new(size, move || {
        server.send(request);
    })
}

fn accepted(size: usize) -> Work {
    let mut server = HttpServer::new(full_server());
    let accept = list(size, |index| format!("a/b{index};q=0.5"));
    let request = Request::post("/mcp")
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, &accept)
        .body(b"{}".to_vec())
        .expect("a request");
    Work::new(accept.len(), move || {
        server.send(request);
    })
}

fn pings(size: usize) -> Work {
    let mut server = HttpServer::new(full_server());
    let session = server.begin("2025-11-25");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let count = size / 128;
    Work::new(count * 128, move || {
        for _ in 0..count {
            let request = post("/mcp").header("mcp-session-id", &session);
            server.send(request.body(ping.to_string().into_bytes()).expect("a request"));
        }
        server.advance(Duration::from_millis(1));
    })
}

fn resumed(size: usize) -> Work {
    let mut server = HttpServer::new(full_server());
    let session = server.begin("2025-11-25");
    let count = size / 128;
    Work::new(count * 128, move || {
        for _ in 0..count {
            let request = get("/mcp").header("mcp-session-id", &session).header("last-event-id", "0-0");
            server.send(request.body(Vec::new()).expect("a request"));
        }
    })
}
