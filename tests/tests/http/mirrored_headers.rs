//! The headers that a client of 2026-07-28 sends, and how it handles servers that refuse them.

use std::time::Duration;

use http::Response;
use mcp_proto::{
    connection::{Event, Failure, Outcome, RequestOptions, Violation},
    http::client::ExchangeId,
    protocol::{InvalidHeaderParam, VersionSet},
    wire::{Json, RawJson},
};
use mcp_tests::harness::full_client_with;
use mcp_tests::http_client::{HttpClient, event, header, json_response, message, stream_response};
use serde_json::{Value, json};

fn answer(id: &Value, result: Value) -> Value {
    let mut result = result;
    result["resultType"] = json!("complete");
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn tool(name: &str, properties: &Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": properties}})
}

/// Lists `tools` on the client, and returns the tools that the application receives.
#[track_caller]
fn list(caller: &mut HttpClient, tools: &Value) -> Vec<Value> {
    caller.call("tools/list", &json!({}));
    let (exchange, request) = caller.posted("tools/list");
    caller.answer(
        exchange,
        &answer(&message(&request)["id"], json!({"tools": tools, "ttlMs": 0, "cacheScope": "private"})),
    );
    let events = caller.take_events();
    let Some(Event::Response { outcome: Outcome::Result(result), .. }) = events.last() else { panic!("{events:?}") };
    let result: Value = result.decode().expect("it is JSON");
    caller.events = events;
    result["tools"].as_array().expect("a list").clone()
}

fn call(caller: &mut HttpClient, name: &str, arguments: &Value) -> (ExchangeId, http::Request<std::sync::Arc<[u8]>>) {
    caller.call("tools/call", &json!({"name": name, "arguments": arguments}));
    caller.posted("tools/call")
}

// req: M-HTTP-007 M-HTTP-008 M-HTTP-009 M-HTTP-029 M-HTTP-030 M-HTTP-036 M-HTTP-037 M-HTTP-038 M-HTTP-039 M-HTTP-094
// req: M-VERS-001
#[test]
fn headers_mirror_the_request_body() {
    let mut caller = HttpClient::modern();
    let table = [
        ("tools/list", json!({}), None),
        ("tools/call", json!({"name": "pick_apples"}), Some("pick_apples")),
        ("tools/call", json!({"name": "päck"}), Some("=?base64?cMOkY2s=?=")),
        ("prompts/get", json!({"name": " x"}), Some("=?base64?IHg=?=")),
        ("resources/read", json!({"uri": "mem://a b"}), Some("mem://a b")),
        ("subscriptions/listen", json!({"notifications": {}, "name": "not mirrored"}), None),
    ];
    for (method, params, name) in table {
        caller.call(method, &params);
        let (_, request) = caller.posted(method);
        let version = message(&request)["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].clone();
        assert_eq!((header(&request, "mcp-protocol-version"), version), (Some("2026-07-28"), json!("2026-07-28")));
        assert_eq!((header(&request, "mcp-method"), header(&request, "mcp-name")), (Some(method), name));
        assert_eq!(header(&request, "content-type"), Some("application/json"));
        assert_eq!(header(&request, "accept"), Some("application/json, text/event-stream"));
        assert_eq!(header(&request, "mcp-session-id"), None);
    }
}

// req: M-HTTP-036 M-HTTP-037
#[test]
fn headers_repeat_texts_of_any_spelling() {
    let mut caller = HttpClient::modern();
    let long = json!({"name": "n".repeat(300)}).to_string();
    let texts = [
        r#"{"name":"b"}"#,
        r#"{"n\u0061me":"a","arguments":{"name":"x"}}"#,
        r#"{"arguments":{"name":"x"},"name":"\u0062"}"#,
        r#"{ "arguments" : [ "name" ] , "name" : "c" , "other" : 1 }"#,
        r#"{"name":7}"#,
        "{}",
        &long,
        &long,
    ];
    let cases = texts.iter().flat_map(|text| [("tools/call", *text), ("prompts/get", *text), ("tools/call", *text)]);
    for (method, text) in cases {
        let params = Json::parse(text).expect("it is JSON");
        let conn = caller.core.connection(caller.now);
        conn.request_raw(caller.now, method, Some(&RawJson::from(&params)), RequestOptions::default())
            .expect("allowed");
        caller.settle();
        let (_, request) = caller.posted(method);
        let name = message(&request)["params"]["name"].as_str().map(str::to_owned);
        assert_eq!(header(&request, "mcp-method"), Some(method), "{text}");
        assert_eq!(header(&request, "mcp-name"), name.as_deref(), "{text}");
    }
    let conn = caller.core.connection(caller.now);
    conn.request_raw(caller.now, "custom/method", None, RequestOptions::no_timeout()).expect("allowed");
    caller.settle();
    let (_, request) = caller.posted("custom/method");
    assert_eq!((header(&request, "mcp-method"), header(&request, "mcp-name")), (Some("custom/method"), None));
}

// req: M-HTTP-010
#[test]
fn requests_of_a_modern_server_are_not_answered() {
    let mut caller = HttpClient::modern();
    let (exchange, _) = call(&mut caller, "t", &json!({}));
    caller.head(exchange, stream_response());
    let send_request = json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"});
    caller.body(exchange, event("", &send_request));
    assert!(matches!(&caller.take_events()[..], [Event::Violation(Violation::UnexpectedRequest(_))]));
    assert_eq!(caller.requests.len(), 0);
}

// req: M-HTTP-050 M-HTTP-051 M-HTTP-059 M-HTTP-060 M-HTTP-061 M-HTTP-077 M-HTTP-078
#[test]
fn header_params_follow_the_latest_tool_list() {
    let mut caller = HttpClient::modern();
    let arguments = json!({"row": 12, "where": {"name": "café"}, "dry": false, "plain": "x", "none": null});
    let headers = ["mcp-param-row", "mcp-param-Where", "mcp-param-dry", "mcp-param-none", "mcp-param-plain"];
    let said = |request: &http::Request<_>| headers.map(|name| header(request, name).map(str::to_owned));
    // The client has no parameters of a tool that it has not listed.
    let (_, request) = call(&mut caller, "pick", &arguments);
    assert_eq!(said(&request), [const { None }; 5]);
    let properties = json!({
        "row": {"type": "integer", "x-mcp-header": "Row"},
        "where": {"type": "object", "properties": {"name": {"type": "string", "x-mcp-header": "WHERE"}}},
        "dry": {"type": ["boolean", "null"], "x-mcp-header": "Dry"},
        "none": {"type": "string", "x-mcp-header": "None"},
        "plain": {"type": "string"},
        "absent": {"type": "string", "x-mcp-header": "Absent"},
    });
    list(&mut caller, &json!([tool("pick", &properties), tool("other", &json!({}))]));
    let (_, request) = call(&mut caller, "pick", &arguments);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(said(&request), [some("12"), some("=?base64?Y2Fmw6k=?="), some("false"), None, None]);
    assert_eq!(header(&request, "mcp-param-absent"), None);
    let (_, request) = call(&mut caller, "other", &arguments);
    assert_eq!(said(&request), [const { None }; 5]);
    list(&mut caller, &json!([tool("pick", &json!({"plain": {"type": "string", "x-mcp-header": "Plain"}}))]));
    let (_, request) = call(&mut caller, "pick", &arguments);
    assert_eq!(said(&request), [None, None, None, None, some("x")]);
}

// req: M-HTTP-056
#[test]
fn unencodable_header_arguments_fail_locally() {
    let mut caller = HttpClient::modern();
    list(&mut caller, &json!([tool("pick", &json!({"row": {"type": "integer", "x-mcp-header": "Row"}}))]));
    caller.take_events();
    let too_large =
        caller.call("tools/call", &json!({"name": "pick", "arguments": {"row": 9_007_199_254_740_993_u64}}));
    let failed = Outcome::Failed(Failure::NoHeader);
    assert_eq!(caller.take_events(), [Event::Response { call: too_large, outcome: failed }]);
    assert_eq!(caller.requests.len(), 0);
}

// req: M-HTTP-062 M-HTTP-063
#[test]
fn unusable_tools_are_dropped_and_reported() {
    let mut caller = HttpClient::modern();
    let annotated = |kind: &str, name: &str| json!({"a": {"type": kind, "x-mcp-header": name}});
    let tools = json!([
        tool("good", &annotated("string", "A")),
        tool("empty", &annotated("string", "")),
        tool("number", &annotated("number", "A")),
        tool("plain", &json!({})),
        tool(
            "twice",
            &json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}})
        ),
    ]);
    let seen = list(&mut caller, &tools);
    assert_eq!(seen, [tools[0].clone(), tools[3].clone()]);
    let reported: Vec<_> = caller
        .take_events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Violation(Violation::UnusableTool { tool, why }) => Some((tool, why)),
            _ => None,
        })
        .collect();
    let expected = [
        ("empty", InvalidHeaderParam::Name("\"\"".to_owned())),
        ("number", InvalidHeaderParam::Type("A".to_owned())),
        ("twice", InvalidHeaderParam::Repeated("a".to_owned())),
    ];
    assert_eq!(reported, expected.map(|(tool, why)| (tool.to_owned(), why)));
    // In a session, tools have no such headers.
    let (mut caller, _) = HttpClient::in_session(mcp_proto::protocol::ProtocolVersion::V2025_11_25);
    assert_eq!(list(&mut caller, &tools), *tools.as_array().expect("a list"));
}

/// Refuses the headers of a call as the server.
fn mismatch(caller: &mut HttpClient, exchange: ExchangeId, id: &Value) {
    mismatch_as("400", caller, exchange, id);
}

/// Refuses the headers of a call with a status, as one JSON text or on a stream.
fn mismatch_as(form: &str, caller: &mut HttpClient, exchange: ExchangeId, id: &Value) {
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32020, "message": "Header mismatch"}});
    match form {
        "400" => caller.respond(exchange, json_response(400), error.to_string()),
        "200" => caller.respond(exchange, json_response(200), error.to_string()),
        _ => caller.respond(exchange, stream_response(), event("", &error)),
    }
}

// req: M-HTTP-076
#[test]
fn header_mismatch_is_found_in_each_form_of_response() {
    for form in ["400", "200", "stream", "notification first"] {
        let mut caller = HttpClient::modern();
        caller.call("tools/call", &json!({"name": "pick", "arguments": {"row": 12}}));
        let (exchange, request) = caller.posted("tools/call");
        mismatch_as(form, &mut caller, exchange, &message(&request)["id"]);
        let (exchange, request) = caller.posted("tools/list");
        let pick = tool("pick", &json!({"row": {"type": "integer", "x-mcp-header": "Row"}}));
        let page = answer(&message(&request)["id"], json!({"tools": [pick], "ttlMs": 0, "cacheScope": "private"}));
        if form == "notification first" {
            let log = json!({"level": "info", "data": "slow"});
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": log});
            caller.respond(exchange, stream_response(), [event("", &log), event("", &page)].concat());
            let events = caller.take_events();
            assert!(matches!(events[..], [Event::Notification { .. }]), "{events:?}");
        } else {
            caller.answer(exchange, &page);
        }
        let (_, request) = caller.posted("tools/call");
        assert_eq!(header(&request, "mcp-param-row"), Some("12"), "{form}");
        assert_eq!(caller.take_events(), [], "{form}");
    }
}

// req: M-HTTP-076
#[test]
fn header_mismatch_relists_tools_and_retries_once() {
    let mut caller = HttpClient::modern();
    let requested = caller.call("tools/call", &json!({"name": "pick", "arguments": {"row": 12}}));
    let (exchange, request) = caller.posted("tools/call");
    let first = message(&request)["id"].clone();
    mismatch(&mut caller, exchange, &first);
    // The client lists the tools by itself, page by page.
    let (exchange, request) = caller.posted("tools/list");
    let page = json!({"tools": [tool("other", &json!({}))], "nextCursor": "2", "ttlMs": 0, "cacheScope": "private"});
    caller.answer(exchange, &answer(&message(&request)["id"], page));
    let (exchange, request) = caller.posted("tools/list");
    assert_eq!(message(&request)["params"]["cursor"], "2");
    let pick = tool("pick", &json!({"row": {"type": "integer", "x-mcp-header": "Row"}}));
    let page = json!({"tools": [pick], "nextCursor": "3", "ttlMs": 0, "cacheScope": "private"});
    caller.answer(exchange, &answer(&message(&request)["id"], page));
    let (exchange, request) = caller.posted("tools/call");
    assert_eq!(header(&request, "mcp-param-row"), Some("12"));
    assert_ne!(message(&request)["id"], first, "it is a new request");
    assert_eq!(message(&request)["params"]["arguments"], json!({"row": 12}));
    assert_eq!(caller.take_events(), [], "the application hears of none of it");
    let again = message(&request)["id"].clone();
    mismatch(&mut caller, exchange, &again);
    let events = caller.take_events();
    assert!(
        matches!(&events[..], [Event::Response { call, outcome: Outcome::Error(error) }]
            if *call == requested && error.code.0 == -32020),
        "{events:?}"
    );
    assert_eq!(caller.requests.len(), 0);
    // Without a list, the call fails with the first error.
    for way in ["error", "silence", "lost", "500", "400", "redirected", "empty", "null id", "other id"] {
        let requested = caller.call("tools/call", &json!({"name": "pick", "arguments": {"row": 12}}));
        let (exchange, request) = caller.posted("tools/call");
        // A server that checks the headers first has not read the id.
        let id = match way {
            "null id" => json!(null),
            "other id" => json!("x"),
            _ => message(&request)["id"].clone(),
        };
        mismatch(&mut caller, exchange, &id);
        let (exchange, request) = caller.posted("tools/list");
        let error =
            json!({"jsonrpc": "2.0", "id": message(&request)["id"], "error": {"code": -32603, "message": "no"}});
        match way {
            "error" => caller.answer(exchange, &error),
            "silence" => caller.advance(Duration::from_secs(30)),
            "lost" => caller.fail(exchange),
            "500" => caller.respond(exchange, Response::builder().status(500), "what?"),
            "400" => caller.respond(exchange, json_response(400), error.to_string()),
            "redirected" => {
                caller.respond(exchange, Response::builder().status(302).header("location", "/login"), "");
            }
            _ => caller.respond(exchange, json_response(200), ""),
        }
        let events = caller.take_events();
        assert!(
            matches!(events.iter().find(|event| matches!(event, Event::Response { .. })),
                Some(Event::Response { call, outcome: Outcome::Error(error) })
                    if *call == requested && error.code.0 == -32020),
            "{way}: {events:?}"
        );
    }
    caller.advance(Duration::from_secs(2));
    assert_eq!(caller.core.usage(), mcp_proto::http::client::ResourceUsage::default());
}

/// The error is kept while the tools are listed, within the limit on response bytes.
#[test]
fn pending_header_mismatches_are_bounded() {
    let mut options = mcp_tests::http_client::options();
    options.limits.body_bytes = 1000;
    let config = full_client_with(VersionSet::ALL);
    let mut caller = HttpClient::new(config, options);
    let (exchange, request) = caller.posted("server/discover");
    caller.answer(exchange, &mcp_tests::http_client::discovered(&message(&request)["id"]));
    caller.take_events();
    let mut requested = Vec::new();
    for _ in 0..5 {
        let (exchange, request) = call(&mut caller, "t", &json!({}));
        let error = json!({"code": -32020, "message": "x".repeat(400)});
        let error = json!({"jsonrpc": "2.0", "id": message(&request)["id"], "error": error});
        caller.respond(exchange, json_response(400), error.to_string());
        requested.extend(caller.requests.drain(..).map(|(_, request)| message(&request)["method"].clone()));
        assert!(caller.core.usage().bytes <= 1000);
    }
    assert_eq!(requested, ["tools/list", "tools/list"]);
    // A response that is being read gets the remaining capacity.
    let (exchange, _) = call(&mut caller, "t", &json!({}));
    caller.head(exchange, json_response(200));
    caller.body(exchange, [b'x'; 900]);
    assert!(caller.core.usage().bytes <= 1000);
    let answered = caller.take_events();
    assert!(matches!(answered.last(), Some(Event::Response { outcome: Outcome::Failed(_), .. })), "{answered:?}");
    assert_eq!(answered.len(), 4, "the others are answered at once: {answered:?}");
}

/// The server chooses the cursors, which become part of the next request.
#[test]
fn cursors_of_pages_are_bounded() {
    const MOST: usize = 100_000;
    let mut options = mcp_tests::http_client::options();
    options.limits.body_bytes = MOST;
    let mut config = full_client_with(VersionSet::ALL);
    config.settings.limits.frame_bytes = 64 << 10;
    let mut caller = HttpClient::new(config, options);
    let (exchange, request) = caller.posted("server/discover");
    caller.answer(exchange, &mcp_tests::http_client::discovered(&message(&request)["id"]));
    caller.take_events();
    let (mut kept, mut calls) = (Vec::new(), 0);
    for number in 0..20 {
        let (exchange, request) = call(&mut caller, "t", &json!({}));
        mismatch(&mut caller, exchange, &message(&request)["id"]);
        let (exchange, request) = caller.posted("tools/list");
        // Escapes take more bytes than the characters that they stand for.
        let cursor = if number % 2 == 0 { "x".repeat(60 << 10) } else { "\u{1}".repeat(10 << 10) };
        let page = json!({"tools": [], "nextCursor": cursor, "ttlMs": 0, "cacheScope": "private"});
        caller.answer(exchange, &answer(&message(&request)["id"], page));
        calls += caller.requests.iter().filter(|(_, request)| message(request)["method"] == "tools/call").count();
        kept.extend(caller.requests.drain(..).map(|(_, request)| request.body().len()));
        assert!(caller.core.usage().bytes <= MOST, "{:?}", caller.core.usage());
    }
    assert_eq!((kept.len(), calls), (1, 0), "{kept:?}");
    assert!(kept[0] > 60 << 10 && kept[0] <= MOST, "{kept:?}");
    let refused = |event: &Event<'_>| matches!(event, Event::Response { outcome: Outcome::Error(error), .. } if error.code.0 == -32020);
    assert_eq!(caller.take_events().iter().filter(|event| refused(event)).count(), 19, "the others end");
    caller.advance(Duration::from_secs(40));
    assert!(caller.take_events().iter().any(refused));
    assert_eq!(caller.core.usage().bytes, 0);
}

/// A server that requires input for a call which it has also refused.
#[test]
fn refused_call_that_requires_input_is_sent_once() {
    let mut caller = HttpClient::modern();
    let (exchange, first) = call(&mut caller, "t", &json!({}));
    let refused = message(&first)["id"].clone();
    mismatch(&mut caller, exchange, &refused);
    let (list, listing) = caller.posted("tools/list");
    let (other, request) = call(&mut caller, "u", &json!({}));
    caller.head(other, stream_response());
    let round = json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}});
    caller.body(other, event("", &json!({"jsonrpc": "2.0", "id": refused, "result": round})));
    let events = caller.take_events();
    let [Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
    caller.body(other, event("", &answer(&message(&request)["id"], json!({"content": []}))));
    caller.take_events();
    let page = json!({"tools": [], "ttlMs": 0, "cacheScope": "private"});
    caller.answer(list, &answer(&message(&listing)["id"], page));
    assert_eq!(caller.requests.len(), 0, "its input is not there");
    // The second answer to the call is a violation. The call has no deadline while a user provides the input.
    assert!(matches!(caller.take_events()[..], [Event::Violation(Violation::UnknownResponse(_))]));
    caller.advance(Duration::from_secs(120));
    assert_eq!(caller.take_events(), []);
    let roots = Json::new(&json!({"roots": []})).expect("JSON");
    let conn = caller.core.connection(caller.now);
    conn.respond_raw(key, &RawJson::from(&roots)).expect("a response is owed");
    let (_, again) = caller.posted("tools/call");
    assert_eq!(message(&again)["params"]["inputResponses"], json!({"r": {"roots": []}}));
}

/// A client that has been idle gets no frames, and no deadline sets its clock.
#[test]
fn a_repeated_call_of_an_idle_client_has_its_whole_timeout() {
    let mut caller = HttpClient::modern();
    caller.advance(Duration::from_secs(600));
    caller.call("tools/call", &json!({"name": "pick", "arguments": {"row": 12}}));
    let (exchange, request) = caller.posted("tools/call");
    mismatch(&mut caller, exchange, &message(&request)["id"]);
    let (exchange, request) = caller.posted("tools/list");
    let page = json!({"tools": [tool("pick", &json!({}))], "ttlMs": 0, "cacheScope": "private"});
    caller.answer(exchange, &answer(&message(&request)["id"], page));
    caller.posted("tools/call");
    caller.advance(Duration::from_secs(59));
    assert_eq!(caller.take_events(), []);
    caller.advance(Duration::from_secs(1));
    assert!(matches!(caller.take_events()[..], [Event::Response { outcome: Outcome::TimedOut { .. }, .. }]));
}
