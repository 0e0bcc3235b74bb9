//! Requests of 2026-07-28, each on its own exchange.

use std::time::Duration;

use http::HeaderValue;
use mcp_proto::{
    connection::{CancelCause, CloseReason, Event, ServerConfig},
    http::{
        AuthRefusal, Policy,
        server::{Caller, EndpointOptions},
    },
    protocol::VersionSet,
    rpc::{ReplyKey, Timestamp},
    schema::{LogMessageParams, LoggingLevel, ResourceUpdatedParams, ToolsListChangedParams},
    wire::{ErrorCode, ErrorObject, Json},
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, RequestRef, modern, post},
    methods::removed_requests,
};
use serde_json::{Value, json};

fn stateless() -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = VersionSet::MODERN;
    config
}

fn server() -> HttpServer {
    HttpServer::new(stateless())
}

/// Calls a tool that reports progress.
fn call(server: &mut HttpServer, id: u64) -> (RequestRef, usize, ReplyKey) {
    let params = json!({"name": "t", "_meta": {"progressToken": id, "io.modelcontextprotocol/logLevel": "debug"}});
    let requested = server.send(modern(&json!(id), "tools/call", params));
    let (session, key) = server.take_request();
    (requested, session, key)
}

fn progress(server: &mut HttpServer, session: usize, key: ReplyKey, progress: f64) {
    let now = server.now;
    let session = server.sessions.get_mut(&session).expect("it is open");
    session.connection(now).progress(key, progress, None, None).expect("it may report");
    server.settle();
}

// req: M-HTTP-001 M-HTTP-015 M-HTTP-018 M-DUAL-019
#[test]
fn a_response_without_events_is_json() {
    let mut server = server();
    let requested = server.send(modern(&json!("x"), "tools/list", json!({})));
    assert!(server.reply(requested).head.is_none(), "nothing is known yet");
    let key = server.take_request();
    server.respond(key, &json!({"tools": []}));
    let reply = server.reply(requested);
    assert_eq!((reply.status(), &reply.json()["id"], &reply.json()["result"]["tools"]), (200, &json!("x"), &json!([])));
    assert_eq!(server.take_events(), [Event::Closed(CloseReason::Local)]);
    assert!(server.sessions.is_empty() && server.endpoint.is_empty());
    let reply = server.request(modern(&json!(1), "server/discover", json!({})));
    assert_eq!((reply.status(), &reply.json()["result"]["supportedVersions"]), (200, &json!(["2026-07-28"])));
}

#[test]
fn concurrent_requests_are_limited() {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.requests = 2;
    let mut server = HttpServer::with(stateless(), options);
    let (first, session, key) = call(&mut server, 1);
    let (second, ..) = call(&mut server, 2);
    for round in 0..10 {
        let refused = server.request(modern(&json!(3), "tools/list", json!({})));
        assert_eq!((refused.status(), refused.header("retry-after")), (503, Some("1")), "{round}");
        assert!(refused.json()["error"]["code"].is_i64());
    }
    assert!(server.take_events().is_empty() && server.sessions.len() == 2);
    // The head is enough for the refusal: the body is not read.
    let (head, _) = modern(&json!(3), "tools/list", json!({})).into_parts();
    assert_eq!(server.endpoint.begin(&head, Caller::Anybody).expect_err("there is no room").status(), 503);
    server.respond((session, key), &json!({"content": []}));
    assert_eq!((server.reply(first).status(), server.endpoint.requests()), (200, 1));
    let (third, ..) = call(&mut server, 3);
    server.disconnect(second);
    server.disconnect(third);
    server.take_events();
    assert_eq!((server.endpoint.requests(), server.sessions.len()), (0, 0));
}

// req: M-HTTP-015 M-HTTP-017 M-HTTP-019 M-HTTP-021 M-HTTP-097 M-HTTP-099
#[test]
fn early_notifications_turn_a_response_into_a_stream() {
    let mut server = server();
    let (requested, session, key) = call(&mut server, 7);
    progress(&mut server, session, key, 1.0);
    let reply = server.reply(requested);
    assert_eq!((reply.status(), reply.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    assert_eq!(reply.header("cache-control"), Some("no-cache, no-transform"));
    assert!(!reply.ended);
    let now = server.now;
    let log = LogMessageParams::new(LoggingLevel::Alert, Json::parse("\"two\\nlines\"").expect("JSON"));
    let open = server.sessions.get_mut(&session).expect("it is open");
    open.connection(now).log(key, &log).expect("it may log");
    progress(&mut server, session, key, 2.0);
    server.respond((session, key), &json!({"content": []}));
    let reply = server.reply(requested);
    assert!(reply.ended);
    let messages = reply.messages();
    let methods: Vec<_> = messages.iter().map(|message| message["method"].as_str().unwrap_or("answer")).collect();
    assert_eq!(methods, ["notifications/progress", "notifications/message", "notifications/progress", "answer"]);
    assert_eq!(messages[3]["id"], json!(7));
    assert!(reply.events().iter().all(|(_, _, id)| id.is_empty()), "there is nothing to come back with");
    assert!(server.sessions.is_empty());
}

// req: M-HTTP-091 M-HTTP-092
#[test]
fn input_required_ends_the_stream() {
    let mut server = server();
    let (requested, session, key) = call(&mut server, 7);
    progress(&mut server, session, key, 1.0);
    let input_request = json!({"resultType": "input_required", "requestState": "s"});
    server.respond((session, key), &input_request);
    let reply = server.reply(requested);
    assert!(reply.ended);
    assert_eq!(reply.messages()[1]["result"]["resultType"], "input_required");
    assert_eq!(reply.messages().len(), 2);
}

fn refused(request: http::Request<Vec<u8>>) -> (u16, i64, Value) {
    let mut server = server();
    let reply = server.request(request);
    let body = reply.json();
    assert!(server.sessions.is_empty(), "nothing is left of it");
    (reply.status(), body["error"]["code"].as_i64().expect("an error"), body["id"].clone())
}

fn without(mut request: http::Request<Vec<u8>>, header: &str) -> http::Request<Vec<u8>> {
    request.headers_mut().remove(header).expect("it was there");
    request
}

fn with(mut request: http::Request<Vec<u8>>, header: &'static str, value: &str) -> http::Request<Vec<u8>> {
    request.headers_mut().insert(header, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
    request
}

fn with_body(request: http::Request<Vec<u8>>, change: impl FnOnce(&mut Value)) -> http::Request<Vec<u8>> {
    request.map(|body| {
        let mut message = serde_json::from_slice(&body).expect("JSON");
        change(&mut message);
        message.to_string().into_bytes()
    })
}

// req: M-HTTP-031 M-HTTP-032 M-HTTP-033 M-HTTP-034 M-HTTP-040 M-HTTP-041 M-HTTP-042 M-HTTP-043
// req: M-HTTP-044 M-HTTP-045 M-HTTP-047 M-HTTP-049 M-HTTP-099 M-META-008 M-BASE-050
#[test]
fn refusals_use_the_prescribed_status() {
    let id = json!("req-1");
    let call = || modern(&id, "tools/call", json!({"name": "t", "arguments": {}}));
    let list = || modern(&id, "tools/list", json!({}));
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let bad = |status, code| (status, code, id.clone());
    assert_eq!(refused(with_body(list(), |it| it["params"] = json!({}))), bad(400, -32602));
    assert_eq!(refused(with_body(list(), |it| it["params"]["_meta"][capabilities] = json!(1))), bad(400, -32602));
    assert_eq!(
        refused(with_body(list(), |it| it["params"]["_meta"] = json!({version: "2026-07-28"}))),
        bad(400, -32602)
    );
    assert_eq!(refused(without(list(), "mcp-protocol-version")), bad(400, -32020));
    assert_eq!(refused(with(list(), "mcp-protocol-version", "2031-01-01")), bad(400, -32020));
    let future = with_body(list(), |it| it["params"]["_meta"][version] = json!("2031-01-01"));
    assert_eq!(refused(with(future, "mcp-protocol-version", "2031-01-01")), bad(400, -32022));
    assert_eq!(refused(without(list(), "mcp-method")), bad(400, -32020));
    assert_eq!(refused(with(list(), "mcp-method", "TOOLS/LIST")), bad(400, -32020));
    assert_eq!(refused(with(list(), "mcp-method", "tools/call")), bad(400, -32020));
    assert_eq!(refused(without(call(), "mcp-name")), bad(400, -32020));
    assert_eq!(refused(with(call(), "mcp-name", "T")), bad(400, -32020));
    assert_eq!(refused(with(call(), "mcp-name", "=?base64?dA=?=")), bad(400, -32020));
    assert_eq!(refused(with(call(), "mcp-name", "t\u{e9}")), bad(400, -32020));
    for method in removed_requests() {
        assert_eq!(refused(modern(&id, method, json!({"uri": "a:b", "level": "info"}))), bad(404, -32601), "{method}");
    }
}

// req: M-HTTP-046 M-HTTP-048 M-HTTP-068 M-HTTP-096
#[test]
fn accepts_trimmed_and_encoded_headers() {
    let mut server = server();
    let call = || modern(&json!(1), "tools/call", json!({"name": "t"}));
    for request in [
        with(call(), "mcp-name", "\t t "),
        with(call(), "mcp-name", "=?base64?dA==?="),
        with(call(), "mcp-method", " tools/call "),
        with(call(), "mcp-param-unknown", "whatever"),
        modern(&json!(1), "completion/complete", json!({})),
    ] {
        let requested = server.send(request);
        server.take_request();
        assert!(server.reply(requested).head.is_none(), "the application is to answer");
    }
}

// req: M-HTTP-095 M-META-015
#[test]
fn maps_method_errors_to_http_status() {
    let table = [(-32602, 200), (-32603, 200), (1, 200), (-32601, 404), (-32021, 400), (-32020, 400)];
    for (code, status) in table {
        let mut server = server();
        let (requested, session, key) = call(&mut server, 1);
        let now = server.now;
        let error = ErrorObject::new(ErrorCode(code), "no");
        let open = server.sessions.get_mut(&session).expect("it is open");
        open.connection(now).respond_error(key, &error).expect("an answer is owed");
        server.settle();
        let reply = server.reply(requested);
        assert_eq!((reply.status(), &reply.json()["error"]["code"]), (status, &json!(code)));
        // A stream that has begun cannot change its status.
        let (requested, session, key) = call(&mut server, 1);
        progress(&mut server, session, key, 1.0);
        let open = server.sessions.get_mut(&session).expect("it is open");
        open.connection(now).respond_error(key, &error).expect("an answer is owed");
        server.settle();
        assert_eq!(
            (server.reply(requested).status(), &server.reply(requested).messages()[1]["error"]["code"]),
            (200, &json!(code))
        );
    }
}

// req: M-HTTP-012 M-HTTP-013 M-HTTP-090
#[test]
fn stateless_notifications_return_202() {
    let mut server = server();
    for method in ["notifications/cancelled", "vendor/news", "notifications/initialized"] {
        for named in [true, false] {
            let message = json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}});
            let mut request = post("/mcp").header("mcp-protocol-version", "2026-07-28");
            if named {
                request = request.header("mcp-method", method);
            }
            let reply = server.request(request.body(message.to_string().into_bytes()).expect("a request"));
            let expected = if method == "notifications/initialized" { 400 } else { 202 };
            assert_eq!((reply.status(), reply.ended), (expected, true), "{method}");
            assert_eq!(reply.body.is_empty(), expected == 202);
        }
    }
    for version in [None, Some("2031-01-01")] {
        let mut request = post("/mcp");
        if let Some(version) = version {
            request = request.header("mcp-protocol-version", version);
        }
        let message = json!({"jsonrpc": "2.0", "method": "vendor/news"});
        assert_eq!(server.request(request.body(message.to_string().into_bytes()).expect("a request")).status(), 400);
    }
    assert!(server.sessions.is_empty());
}

// req: M-HTTP-026 M-HTTP-027 M-HTTP-028 M-CANC-006 M-CANC-009
#[test]
fn disconnect_cancels_the_request() {
    for streaming in [false, true] {
        let mut server = server();
        let (requested, session, key) = call(&mut server, 1);
        if streaming {
            progress(&mut server, session, key, 1.0);
        }
        let before = server.reply(requested).body.len();
        server.disconnect(requested);
        let events = server.take_events();
        assert_eq!(events[0], Event::Cancelled { key, cause: CancelCause::Closed });
        assert_eq!(events[1..], [Event::Closed(CloseReason::ConnectionLost)]);
        assert_eq!(server.reply(requested).body.len(), before);
        assert!(server.sessions.is_empty());
    }
}

// req: M-VERS-007 M-VERS-008 M-SUBS-029
#[test]
fn request_ids_are_scoped_to_one_exchange() {
    let mut server = server();
    let first = server.send(modern(&json!(1), "tools/list", json!({})));
    let (a, key_a) = server.take_request();
    let second = server.send(modern(&json!(1), "prompts/list", json!({})));
    let (b, key_b) = server.take_request();
    server.respond((b, key_b), &json!({"prompts": []}));
    server.respond((a, key_a), &json!({"tools": []}));
    assert!(server.reply(first).json()["result"].get("tools").is_some());
    assert!(server.reply(second).json()["result"].get("prompts").is_some());
}

fn listen(server: &mut HttpServer, id: &Value, filter: Value) -> RequestRef {
    server.send(modern(id, "subscriptions/listen", json!({"notifications": filter})))
}

fn notify_all(server: &mut HttpServer) {
    let now = server.now;
    for session in server.sessions.values_mut() {
        let conn = session.connection(now);
        let _ = conn.notify(&ToolsListChangedParams::default());
        let _ = conn.notify(&ResourceUpdatedParams::new("mem://a"));
    }
    server.settle();
}

// req: M-SUBS-005 M-SUBS-006 M-SUBS-010 M-SUBS-012 M-SUBS-013 M-SUBS-026 M-SUBS-027 M-HTTP-020 M-PROG-014
#[test]
fn each_subscription_has_its_own_stream() {
    let mut server = server();
    let tools = listen(&mut server, &json!(1), json!({"toolsListChanged": true}));
    let resource = listen(&mut server, &json!("1"), json!({"resourceSubscriptions": ["mem://a"]}));
    notify_all(&mut server);
    let (call, session, key) = call(&mut server, 5);
    progress(&mut server, session, key, 1.0);
    notify_all(&mut server);
    server.respond((session, key), &json!({"content": []}));
    let methods = |server: &HttpServer, requested| {
        let messages = server.reply(requested).messages();
        messages.iter().map(|it| it["method"].as_str().unwrap_or("answer").to_owned()).collect::<Vec<_>>()
    };
    let acknowledged = "notifications/subscriptions/acknowledged";
    let changed = "notifications/tools/list_changed";
    let updated = "notifications/resources/updated";
    assert_eq!(methods(&server, tools), [acknowledged, changed, changed]);
    assert_eq!(methods(&server, resource), [acknowledged, updated, updated]);
    assert_eq!(methods(&server, call), ["notifications/progress", "answer"]);
    let key = "io.modelcontextprotocol/subscriptionId";
    for (requested, id) in [(tools, json!(1)), (resource, json!("1"))] {
        assert!(server.reply(requested).messages().iter().all(|message| message["params"]["_meta"][key] == id));
        assert_eq!(server.reply(requested).status(), 200);
    }
}

// req: M-SUBS-014 M-SUBS-015 M-SUBS-016 M-SUBS-017 M-SUBS-021 M-CANC-007
#[test]
fn subscriptions_end_on_disconnect_or_result() {
    let mut server = server();
    let requested = listen(&mut server, &json!(1), json!({"toolsListChanged": true}));
    server.disconnect(requested);
    assert!(server.sessions.is_empty());
    let requested = listen(&mut server, &json!(2), json!({"toolsListChanged": true}));
    let now = server.now;
    server.last_session().close(now);
    server.settle();
    let reply = server.reply(requested);
    assert!(reply.ended);
    let messages = reply.messages();
    assert_eq!(messages.len(), 2, "the result, and nothing behind it: {messages:?}");
    assert_eq!((&messages[1]["id"], &messages[1]["result"]["resultType"]), (&json!(2), &json!("complete")));
    assert!(server.sessions.is_empty());
}

// req: M-SUBS-003 M-SUBS-028 M-SUBS-031
#[test]
fn only_malformed_subscriptions_are_refused() {
    let mut server = server();
    let reply = server.request(modern(&json!(1), "subscriptions/listen", json!({})));
    assert_eq!((reply.status(), &reply.json()["error"]["code"]), (200, &json!(-32602)));
    let mut config = stateless();
    config.capabilities = Default::default();
    let mut server = HttpServer::new(config);
    let requested = listen(&mut server, &json!(1), json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}));
    assert_eq!(server.reply(requested).messages()[0]["params"]["notifications"], json!({}));
}

// req: M-HTTP-022
#[test]
fn idle_streams_are_kept_alive() {
    let mut server = server();
    let requested = listen(&mut server, &json!(1), json!({"toolsListChanged": true}));
    let mut seen = server.reply(requested).body.len();
    for _ in 0..20 {
        server.advance(Duration::from_secs(15));
        let body = &server.reply(requested).body;
        assert_eq!(&body[seen..], b":\n\n");
        seen = body.len();
    }
    notify_all(&mut server);
    let seen = server.reply(requested).body.len();
    server.advance(Duration::from_millis(14_999));
    assert_eq!(server.reply(requested).body.len(), seen);
    assert_eq!(server.reply(requested).messages().len(), 2);
}

#[test]
fn slow_responses_become_streams() {
    let mut server = server();
    let (requested, session, key) = call(&mut server, 1);
    server.advance(Duration::from_millis(9_999));
    assert!(server.reply(requested).head.is_none());
    server.advance(Duration::from_millis(1));
    assert_eq!((server.reply(requested).status(), &*server.reply(requested).body), (200, &b":\n\n"[..]));
    server.respond((session, key), &json!({"content": []}));
    assert_eq!(server.reply(requested).messages().len(), 1);
    assert!(server.reply(requested).ended);
}

#[test]
fn handlers_can_challenge_a_request() {
    let mut server = server();
    let how = || AuthRefusal::forbidden(Some(HeaderValue::from_static("Bearer error=\"insufficient_scope\"")));
    let (requested, session, key) = call(&mut server, 1);
    server.sessions.get_mut(&session).expect("it is open").challenge(Timestamp::ZERO, key, how()).expect("it is owed");
    server.settle();
    let reply = server.reply(requested);
    assert_eq!((reply.status(), reply.header("www-authenticate")), (403, Some("Bearer error=\"insufficient_scope\"")));
    assert_eq!((&reply.json()["id"], &reply.json()["error"]["code"]), (&json!(1), &json!(-32600)));
    // A stream that has begun cannot carry a challenge.
    let (requested, session, key) = call(&mut server, 2);
    progress(&mut server, session, key, 1.0);
    server.sessions.get_mut(&session).expect("it is open").challenge(Timestamp::ZERO, key, how()).expect("it is owed");
    server.settle();
    assert_eq!(
        (server.reply(requested).status(), &server.reply(requested).messages()[1]["error"]["code"]),
        (200, &json!(-32600))
    );
}

/// The other members may have run, so the batch has no status that asks for it again.
#[test]
fn a_challenged_member_of_a_batch_gets_an_error() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-03-26");
    let call = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}});
    let sent = server.send_message(&id, &json!([call(1), call(2)]));
    let events = std::mem::take(&mut server.events);
    let key = |(session, event): &(usize, Event<'static>)| match event {
        Event::Request { key, .. } => Some((*session, *key)),
        _ => None,
    };
    let keys: Vec<_> = events.iter().filter_map(key).collect();
    server.respond(keys[0], &json!({"content": []}));
    let how = AuthRefusal::forbidden(Some(HeaderValue::from_static("Bearer error=\"insufficient_scope\"")));
    let (session, now) = (server.sessions.get_mut(&keys[1].0).expect("it is open"), server.now);
    session.challenge(now, keys[1].1, how.message("Insufficient scope: a b")).expect("it is owed");
    server.settle();
    let reply = server.reply(sent);
    assert_eq!((reply.status(), reply.header("www-authenticate")), (200, None));
    let error = &reply.json()[1]["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!(-32600), &json!("Insufficient scope: a b")));
}

#[test]
fn unread_output_is_bounded() {
    let mut config = stateless();
    config.settings.limits.outbox_bytes = 10_000;
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.queued_bytes = 10_000;
    let mut server = HttpServer::with(config, options);
    // The request bypasses the test server, so its output is not read.
    let (head, body) =
        modern(&json!(1), "tools/call", json!({"name": "t", "_meta": {"progressToken": 1}})).into_parts();
    let mut reader = server.endpoint.begin(&head, server.caller.clone()).expect("it is fine");
    reader.feed(&body).expect("it is small");
    let mut request = reader.end().expect("it is a message");
    let mut session = None;
    server
        .endpoint
        .route(server.now, &request, [0; 24], |made| {
            session = Some(made);
            0
        })
        .expect("there is room");
    let mut session = session.expect("it was made");
    let (exchange, event) = session.open(server.now, &mut request).expect("there is room");
    let Some(Event::Request { key, .. }) = event else { panic!("{event:?}") };
    let message = "x".repeat(100);
    let mut told = 0;
    let refused = loop {
        if let Err(refused) = session.connection(server.now).progress(key, f64::from(told), None, Some(&message)) {
            break refused;
        }
        told += 1;
        assert_eq!(session.poll_event(), None);
        assert!(session.usage().queued_bytes < 11_000);
    };
    assert_eq!(refused, mcp_proto::connection::SendError::Busy);
    assert!((80..200).contains(&told), "{told} were accepted");
    // A client that reads later gets every accepted message.
    let mut out = Vec::new();
    while session.poll_output(exchange, &mut out).is_some() {}
    assert_eq!(String::from_utf8_lossy(&out).matches("data: ").count(), usize::try_from(told).expect("few"));
}
