//! Requests of 2026-07-28 from clients that describe themselves as in an earlier request.

use http::Request;
use mcp_proto::{connection::ServerConfig, protocol::VersionSet};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, post},
};

const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
const INFO: &str = r#""io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"}"#;
const CAPABILITIES: &str = r#""io.modelcontextprotocol/clientCapabilities":{"sampling":{}}"#;

fn stateless() -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = VersionSet::MODERN;
    config
}

/// Returns a call with this `_meta`, and the revision of the header.
fn call(meta: &str, version: &str, id: &str) -> Request<Vec<u8>> {
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","_meta":{{{meta}}}}}}}"#);
    let request = post("/mcp").header("mcp-protocol-version", version).header("mcp-method", "tools/call");
    request.header("mcp-name", "t").body(body.into_bytes()).expect("a request")
}

/// Returns the requests that are sent in all orders, valid and invalid ones.
fn requests() -> Vec<Request<Vec<u8>>> {
    let known = format!("{VERSION},{INFO},{CAPABILITIES}");
    let metas = [
        known.clone(),
        // The same client: with other members before, behind and between, and with members of the same name.
        format!(r#"{known},"progressToken":7"#),
        format!(r#""progressToken":"x, y",{known}"#),
        format!(r#"{known},"io.modelcontextprotocol/logLevel":"debug""#),
        format!(r#"{VERSION},{INFO},"io.modelcontextprotocol/logLevel":"alert",{CAPABILITIES}"#),
        format!(r#"{known},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#),
        format!(r#"{known},"io.modelcontextprotocol/logLevel":"loud""#),
        format!("{known},{INFO}"),
        format!(r#"{known},"io.modelcontextprotocol/\u0063lientInfo":{{}}"#),
        format!(r#""x":{{{known}}}"#),
        // The same members in another order or spelling, fewer of them, and other values.
        format!("{CAPABILITIES},{INFO},{VERSION}"),
        format!("{VERSION}, {INFO},{CAPABILITIES}"),
        format!("{VERSION},{CAPABILITIES}"),
        format!("{VERSION},{INFO}"),
        format!("{INFO},{CAPABILITIES}"),
        known.replace(r#""name":"a""#, r#""name":"b""#),
        known.replace("sampling", "elicitation"),
        known.replace(r#"{"sampling":{}}"#, "[]"),
        known.replace(r#"{"name":"a","version":"1"}"#, "7"),
        known.replace("2026-07-28", "2027-01-01"),
        known.replace("2026-07-28", "2025-11-25"),
    ];
    let requests = metas.iter().map(|meta| call(meta, "2026-07-28", "1"));
    // The header differs from the body, or is of a revision that is not served; and a body that is not valid.
    let others = [call(&known, "2027-01-01", "1"), call(&known, "2025-11-25", "1"), call(&known, "2026-07-28", "nul")];
    requests.chain(others).collect()
}

/// Sends a request. Returns all that the server says about it: the response, or what the application sees.
fn outcome(server: &mut HttpServer, request: Request<Vec<u8>>) -> String {
    let sent = server.send(request);
    let mut seen = String::new();
    for (index, key) in server.take_requests() {
        let now = server.now;
        let session = server.sessions.get_mut(&index).expect("it is open");
        seen += &format!("{:?}", session.connection(now).context(key).expect("a request in flight"));
        server.respond((index, key), &serde_json::json!({"content": []}));
    }
    server.take_events();
    let reply = server.reply(sent);
    let body = String::from_utf8_lossy(&reply.body).into_owned();
    format!("{seen} {} {body}", reply.status())
}

#[test]
fn a_known_client_is_read_as_an_unknown_one() {
    let requests = requests();
    let alone: Vec<_> =
        requests.iter().map(|request| outcome(&mut HttpServer::new(stateless()), request.clone())).collect();
    let accepted = alone.iter().filter(|outcome| outcome.contains("RequestContext")).count();
    assert!((10..requests.len() - 5).contains(&accepted), "{accepted}: {alone:#?}");
    for (first, before) in requests.iter().enumerate() {
        let mut server = HttpServer::new(stateless());
        assert_eq!(outcome(&mut server, before.clone()), alone[first]);
        for (second, (request, alone)) in requests.iter().zip(&alone).enumerate() {
            assert_eq!(&outcome(&mut server, request.clone()), alone, "{second} after {first}");
            assert_eq!(&outcome(&mut server, request.clone()), alone, "{second} again, after {first}");
        }
    }
}

/// Returns the number of times that this process has allocated memory for a call.
fn allocations(server: &mut HttpServer, request: &Request<Vec<u8>>) -> u64 {
    let (head, body) = request.clone().into_parts();
    let count = allocation_counter::measure(|| {
        let mut reader = server.endpoint.begin(&head, server.caller.clone()).expect("it is accepted");
        reader.feed(&body).expect("it is small");
        let mut request = reader.end().expect("it is valid");
        let mut session = None;
        let route = server.endpoint.route(server.now, &request, [0; 24], |new| {
            session = Some(new);
            0
        });
        route.expect("there is room");
        let mut session = session.expect("a new session");
        session.open(server.now, &mut request).expect("it is accepted").1.expect("a request");
    });
    count.count_total
}

#[test]
fn a_known_client_takes_less_memory() {
    let mut server = HttpServer::new(stateless());
    let meta = |name: &str| format!("{VERSION},{INFO},{CAPABILITIES}").replace(r#""a""#, &format!("\"{name}\""));
    let [first, other] = ["first", "other"].map(|name| call(&meta(name), "2026-07-28", "1"));
    let unknown = allocations(&mut server, &first);
    let known = allocations(&mut server, &first);
    assert!(known < unknown, "{known} of {unknown}");
    assert_eq!(allocations(&mut server, &first), known);
    assert!(allocations(&mut server, &other) > known);
    // Each principal has a slot, mostly.
    server.set_principal("someone");
    let unknown = allocations(&mut server, &first);
    assert!(allocations(&mut server, &first) < unknown);
}
