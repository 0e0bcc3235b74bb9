//! Invariants for any input: no panic, bounded memory, deterministic outputs, and one head and one end for each
//! exchange.

use std::{fmt::Write as _, time::Duration};

use http::{Request, Response};
use mcp_proto::{
    connection::{Event, ServerConfig},
    http::{
        Policy,
        client::ExchangeId,
        server::{Caller as Sender, EndpointOptions, Paths},
    },
    protocol::{ProtocolVersion, VersionSet},
    rpc::ReplyKey,
    wire::{Json, RawJson},
};
use mcp_tests::{
    harness::{full_client_with, full_server},
    http_client::{HttpClient, options},
    http_server::{HttpServer, RequestRef, initialize, modern, post},
};
use proptest::prelude::*;
use serde_json::json;

/// A deterministic source of choices, with a seed.
struct Rng(u64);

impl Rng {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.roll(from.len())]
    }
}

const BODIES: [&str; 22] = [
    "",
    "junk",
    "[]",
    "{}",
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":"4","method":"tools/call","params":{"name":"t","_meta":{"progressToken":1}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"4"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#,
    r#"{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"no"}}"#,
    r#"[{"jsonrpc":"2.0","id":5,"method":"tools/list"},{"jsonrpc":"2.0","id":6,"method":"ping"}]"#,
    r#"[{"jsonrpc":"2.0","method":"vendor/news"}]"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":10,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","method":"vendor/news"}"#,
];

fn request(rng: &mut Rng, sessions: &[String]) -> Request<Vec<u8>> {
    let uri = match rng.roll(12) {
        0 => "/sse".to_owned(),
        1 => format!("/message?sessionId={}", sessions.get(rng.roll(9)).map_or("x", |id| &**id)),
        2 => "/nowhere".to_owned(),
        _ => "/mcp".to_owned(),
    };
    let method = rng.pick(&["POST", "POST", "POST", "POST", "GET", "GET", "DELETE", "PUT"]);
    let mut request = Request::builder().method(method).uri(uri);
    for (name, values) in [
        ("host", &["localhost", "localhost", "localhost:80", "localhost", "evil.com"][..]),
        ("content-type", &["application/json", "application/json", "application/json; a=b", "text/plain"]),
        ("accept", &["application/json, text/event-stream", "*/*", "*/*", "text/event-stream"]),
        ("mcp-protocol-version", &["", "", "2025-11-25", "2026-07-28", "2026-07-28", "2031-01-01"]),
        ("mcp-method", &["tools/call", "server/discover", "subscriptions/listen", ""]),
        ("mcp-name", &["t", "t", "=?base64?dA==?=", "x"]),
        ("last-event-id", &["", "", "", "g1-0", "1-0", "2-1", "3-99", "x"]),
        ("origin", &["", "", "", "", "http://localhost", "http://evil.com"]),
    ] {
        let value = rng.pick(values);
        if !value.is_empty() {
            request = request.header(name, value);
        }
    }
    if let Some(id) = sessions.get(rng.roll(sessions.len() + 2)) {
        request = request.header("mcp-session-id", id);
    }
    request.body(rng.pick(&BODIES).as_bytes().to_vec()).expect("a request")
}

/// Returns a request whose head is valid for any message.
fn polite(rng: &mut Rng, sessions: &[String]) -> Request<Vec<u8>> {
    match (rng.roll(4), sessions.get(rng.roll(sessions.len().max(1)))) {
        (0, _) => modern(&json!(rng.roll(9)), "tools/call", json!({"name": "t", "x": "x".repeat(rng.roll(900))})),
        (1..4, Some(id)) => {
            let body = rng.pick(&BODIES).as_bytes().to_vec();
            post("/mcp").header("mcp-session-id", id).body(body).expect("a request")
        }
        _ => {
            let version = rng.pick(&["2025-03-26", "2025-06-18", "2025-11-25"]);
            post("/mcp").body(initialize(version).to_string().into_bytes()).expect("a request")
        }
    }
}

/// The small limit on the memory of requests in flight.
const REQUEST_BYTES: usize = 2000;

fn server() -> (ServerConfig, EndpointOptions) {
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    let mut options = EndpointOptions::new(Policy::loopback());
    options.paths = Paths::at("/mcp").with_http_sse("/sse", "/message");
    options.limits.sessions = 5;
    options.limits.exchanges = 6;
    options.limits.streams = 2;
    options.limits.queued_bytes = 2000;
    options.limits.waiting = 4;
    options.limits.replay = 8;
    options.limits.request_bytes = REQUEST_BYTES;
    (config, options)
}

/// Talks to a server for many steps, and returns everything that it sends. With `takes_whole`, responses of one message
/// are taken in one piece.
fn run_server(seed: u64, steps: usize, takes_whole: bool) -> String {
    let mut rng = Rng(seed);
    let (mut config, options) = server();
    config.settings.reply_timeout = (rng.roll(2) == 0).then_some(Duration::from_secs(2));
    let mut server = HttpServer::with(config, options);
    server.takes_whole = takes_whole;
    let (mut sessions, mut requested): (Vec<String>, Vec<RequestRef>) = (Vec::new(), Vec::new());
    let mut keys: Vec<(usize, ReplyKey)> = Vec::new();
    let mut said = String::new();
    for _ in 0..steps {
        match rng.roll(10) {
            0..=4 => {
                let request = if rng.roll(2) == 0 { request(&mut rng, &sessions) } else { polite(&mut rng, &sessions) };
                server.caller = match u8::try_from(rng.roll(4)).unwrap_or(0) {
                    0 => Sender::Anybody,
                    last => Sender::Anonymous([10, 0, 0, last].into()),
                };
                let one = server.send(request);
                if let Some(id) = server.reply(one).header("mcp-session-id") {
                    sessions.push(id.to_owned());
                }
                requested.push(one);
            }
            5 if !requested.is_empty() => {
                let one = requested[rng.roll(requested.len())];
                server.disconnect(one);
            }
            6 => server.advance(Duration::from_millis(1 << rng.roll(22))),
            7 => {
                let now = server.now;
                for session in server.sessions.values_mut() {
                    let _ = session.connection(now).notify_raw("notifications/tools/list_changed", None);
                    let options = mcp_proto::connection::RequestOptions::default();
                    let _ = session.connection(now).request_raw(now, "roots/list", None, options);
                }
                server.settle();
            }
            _ if !keys.is_empty() => {
                let (session, key) = keys[rng.roll(keys.len())];
                let now = server.now;
                if let Some(session) = server.sessions.get_mut(&session) {
                    let result = Json::parse("{\"content\":[],\"tools\":[]}").expect("JSON");
                    match rng.roll(5) {
                        0 => session.connection(now).release_stream(key, None),
                        1 => drop(session.connection(now).respond_raw(key, &RawJson::from(&result))),
                        2 => session.close(now),
                        _ => drop(session.connection(now).progress(key, f64::from(1 << rng.roll(30)), None, None)),
                    }
                }
                server.settle();
            }
            _ => {}
        }
        for (session, event) in std::mem::take(&mut server.events) {
            let _ = writeln!(said, "{session} {event:?}");
            if let Event::Request { key, .. } = event {
                keys.push((session, key));
            }
        }
        assert!(server.endpoint.len() <= 5);
        for session in server.sessions.values() {
            let usage = session.usage();
            assert!(usage.exchanges <= 7 && usage.waiting <= 4 && usage.replay <= 8, "{usage:?}");
            assert!(usage.queued_bytes == 0, "a client that reads has everything: {usage:?}");
        }
    }
    end_server(server, &requested, &mut said);
    said
}

/// Writes all responses to `said`, and ends all sessions.
fn end_server(mut server: HttpServer, requested: &[RequestRef], said: &mut String) {
    for one in requested {
        let reply = server.reply(*one);
        let _ = writeln!(
            said,
            "{:?} {:?} {}",
            reply.head.as_ref().map(|head| head.status),
            reply.ended,
            String::from_utf8_lossy(&reply.body)
        );
    }
    // Everything ends after the close.
    let now = server.now;
    for session in server.sessions.values_mut() {
        session.close(now);
    }
    server.settle();
    server.advance(Duration::from_secs(6));
    assert!(server.sessions.is_empty() && server.endpoint.is_empty());
    for one in requested {
        let reply = server.reply(*one);
        let hung_up = !reply.ended;
        assert!(hung_up || reply.head.is_some(), "what has ended has begun");
    }
    // No memory is counted now: a request over the limit is accepted only if no client uses any of it.
    let large = json!({"x": "x".repeat(REQUEST_BYTES)});
    let large = server.send(modern(&json!(1), "tools/list", large));
    assert!(server.reply(large).head.is_none(), "something of a session that is over is counted");
}

const HEADS: [(u16, &str); 12] = [
    (200, "application/json"),
    (200, "application/json"),
    (200, "text/event-stream"),
    (200, "text/event-stream"),
    (202, ""),
    (200, "text/html"),
    (307, ""),
    (400, "application/json"),
    (401, ""),
    (404, ""),
    (405, ""),
    (503, ""),
];

fn body(rng: &mut Rng, id: &str) -> String {
    let message = match rng.roll(9) {
        0 => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}"#
        ),
        1 => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}},"ttlMs":0,"cacheScope":"private"}}}}"#
        ),
        2 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]}}}}"#),
        3 => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{},"message":"no"}}}}"#,
            -32022 + i64::try_from(rng.roll(4)).unwrap_or(0)
        ),
        4 => r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}"#.to_owned(),
        5 => r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#.to_owned(),
        6 => r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.to_owned(),
        7 => "junk".to_owned(),
        _ => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState":"s"}}}}"#),
    };
    match rng.roll(6) {
        0 => message,
        1 => "event: endpoint\ndata: /messages\n\n".to_owned(),
        2 => format!("id: {}\nretry: 10\ndata: {message}\n\n", rng.roll(3)),
        3 => "id: 1\ndata: \n\n: x\n\n".to_owned(),
        4 => format!("data: {message}\n"),
        _ => format!("data: {message}\n\n"),
    }
}

/// Handles one event of an exchange: a part of its response, its end, or a step of its authentication.
fn respond(rng: &mut Rng, caller: &mut HttpClient, exchange: ExchangeId, id: &str) {
    match rng.roll(9) {
        0 | 1 => {
            let (status, media_type) = HEADS[rng.roll(HEADS.len())];
            let mut response = Response::builder().status(status);
            if !media_type.is_empty() {
                response = response.header("content-type", media_type);
            }
            if rng.roll(3) == 0 {
                response = response.header("mcp-session-id", "s-1");
            }
            if status == 307 {
                response = response.header("location", rng.pick(&["/other", "http://evil.example/"]));
            }
            caller.head(exchange, response);
        }
        2..=4 => {
            let body = body(rng, id);
            let cut = rng.roll(body.len() + 1);
            caller.body(exchange, &body.as_bytes()[..cut]);
            caller.body(exchange, &body.as_bytes()[cut..]);
        }
        5 => caller.end(exchange),
        6 => caller.fail(exchange),
        7 => {
            let now = caller.now;
            if rng.roll(2) == 0 {
                caller.core.handle_authentication_started(now, exchange);
            } else {
                caller.core.handle_authentication_ended(now, exchange);
            }
        }
        _ => {
            let now = caller.now;
            if rng.roll(2) == 0 {
                caller.core.retry(now, exchange);
            } else {
                caller.core.fail_authentication(now, exchange);
            }
        }
    }
}

/// Talks to a client for many steps, and returns everything that it sends.
fn run_client(seed: u64, steps: usize) -> String {
    let mut rng = Rng(seed);
    let mut options = options();
    options.authenticates = rng.roll(2) == 0;
    options.limits.exchanges = 8;
    let mut open = Vec::new();
    let mut caller = if rng.roll(2) == 0 {
        HttpClient::new(full_client_with(VersionSet::ALL), options)
    } else {
        let (caller, stream) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, options);
        open.push((stream, "1".to_owned()));
        caller
    };
    let mut said = String::new();
    caller.settle();
    for _ in 0..steps {
        for (exchange, request) in std::mem::take(&mut caller.requests) {
            let text = String::from_utf8_lossy(request.body()).into_owned();
            let _ = writeln!(said, "{exchange:?} {} {} {text}", request.method(), request.uri());
            assert_eq!(request.uri().host(), Some("server.example"), "it goes nowhere else");
            let id = serde_json::from_str::<serde_json::Value>(&text).ok();
            let id =
                id.and_then(|message| message.get("id").map(ToString::to_string)).unwrap_or_else(|| "1".to_owned());
            open.push((exchange, id));
        }
        if !open.is_empty() {
            let (exchange, id) = open[rng.roll(open.len())].clone();
            respond(&mut rng, &mut caller, exchange, &id);
        }
        match rng.roll(12) {
            0 => caller.advance(Duration::from_millis(1 << rng.roll(16))),
            1 | 2 => {
                let now = caller.now;
                let options = mcp_proto::connection::RequestOptions::default();
                let _ = caller.core.connection(now).request_raw(now, "tools/list", None, options);
            }
            3 => {
                let now = caller.now;
                let _ = caller.core.connection(now).notify_raw("vendor/news", None);
            }
            _ => {}
        }
        for event in caller.take_events() {
            let _ = writeln!(said, "{event:?}");
        }
        for exchange in std::mem::take(&mut caller.aborted) {
            let _ = writeln!(said, "abort {exchange:?}");
            open.retain(|(found, _)| *found != exchange);
        }
        caller.authentications.clear();
        let usage = caller.core.usage();
        assert!(usage.bytes < 1 << 20 && usage.actions == 0 && usage.events == 0, "{usage:?}");
    }
    // Without authentications that go on, the deadlines end all calls.
    for _ in 0..20 {
        open.extend(std::mem::take(&mut caller.requests).into_iter().map(|(exchange, _)| (exchange, String::new())));
        for (exchange, _) in std::mem::take(&mut open) {
            let now = caller.now;
            caller.core.fail_authentication(now, exchange);
            caller.fail(exchange);
        }
        caller.advance(Duration::from_secs(60));
    }
    assert_eq!(caller.core.view().usage().calls, 0);
    let now = caller.now;
    caller.core.close(now);
    caller.advance(Duration::from_secs(10));
    assert!(caller.core.is_over(), "{:?}", caller.core.usage());
    said
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn server_invariants_hold_for_random_input(seed: u64) {
        prop_assert_eq!(run_server(seed, 200, false), run_server(seed, 200, true));
    }

    #[test]
    fn client_invariants_hold_for_random_input(seed: u64) {
        prop_assert_eq!(run_client(seed, 200), run_client(seed, 200));
    }
}
