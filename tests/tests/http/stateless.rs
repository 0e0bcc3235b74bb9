//! Requests of 2026-07-28, each on an exchange of its own.

use std::time::Duration;

use http::HeaderValue;
use mcp_proto::{
    connection::{CancelCause, CloseReason, Event, ServerConfig},
    http::{
        Challenge, Policy,
        server::{Caller, EndpointOptions},
    },
    protocol::VersionSet,
    rpc::{ReplyKey, Timestamp},
    schema::{LogMessageParams, LoggingLevel, ResourceUpdatedParams, ToolsListChangedParams},
    wire::{ErrorCode, ErrorObject, Json},
};
use mcp_tests::{
    methods::removed_requests,
    solo::full_server,
    web::{Asked, Web, modern, post},
};
use serde_json::{Value, json};

fn stateless() -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = VersionSet::MODERN;
    config
}

fn web() -> Web {
    Web::new(stateless())
}

/// A call of a tool that reports progress.
fn call(web: &mut Web, id: u64) -> (Asked, usize, ReplyKey) {
    let params = json!({"name": "t", "_meta": {"progressToken": id, "io.modelcontextprotocol/logLevel": "debug"}});
    let asked = web.send(modern(&json!(id), "tools/call", params));
    let (session, key) = web.asked();
    (asked, session, key)
}

fn progress(web: &mut Web, session: usize, key: ReplyKey, progress: f64) {
    let now = web.now;
    let session = web.sessions.get_mut(&session).expect("it is open");
    session.connection(now).progress(key, progress, None, None).expect("it may report");
    web.settle();
}

// req: M-HTTP-001 M-HTTP-015 M-HTTP-018 M-DUAL-019
#[test]
fn a_lone_answer_is_json() {
    let mut web = web();
    let asked = web.send(modern(&json!("x"), "tools/list", json!({})));
    assert!(web.reply(asked).head.is_none(), "nothing is known yet");
    let key = web.asked();
    web.answer(key, &json!({"tools": []}));
    let reply = web.reply(asked);
    assert_eq!((reply.status(), &reply.json()["id"], &reply.json()["result"]["tools"]), (200, &json!("x"), &json!([])));
    assert_eq!(web.take_events(), [Event::Closed(CloseReason::Local)]);
    assert!(web.sessions.is_empty() && web.endpoint.is_empty());
    let reply = web.ask(modern(&json!(1), "server/discover", json!({})));
    assert_eq!((reply.status(), &reply.json()["result"]["supportedVersions"]), (200, &json!(["2026-07-28"])));
}

#[test]
fn there_are_only_so_many_requests_at_once() {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.requests = 2;
    let mut web = Web::with(stateless(), options);
    let (first, session, key) = call(&mut web, 1);
    let (second, ..) = call(&mut web, 2);
    for round in 0..10 {
        let refused = web.ask(modern(&json!(3), "tools/list", json!({})));
        assert_eq!((refused.status(), refused.header("retry-after")), (503, Some("1")), "{round}");
        assert!(refused.json()["error"]["code"].is_i64());
    }
    assert!(web.take_events().is_empty() && web.sessions.len() == 2);
    // What the head says is enough: the body is not read.
    let (head, _) = modern(&json!(3), "tools/list", json!({})).into_parts();
    assert_eq!(web.endpoint.begin(&head, Caller::Anybody).expect_err("there is no room").status(), 503);
    web.answer((session, key), &json!({"content": []}));
    assert_eq!((web.reply(first).status(), web.endpoint.requests()), (200, 1));
    let (third, ..) = call(&mut web, 3);
    web.hang_up(second);
    web.hang_up(third);
    web.take_events();
    assert_eq!((web.endpoint.requests(), web.sessions.len()), (0, 0));
}

// req: M-HTTP-015 M-HTTP-017 M-HTTP-019 M-HTTP-021 M-HTTP-097 M-HTTP-099
#[test]
fn whatever_comes_before_the_answer_makes_it_a_stream() {
    let mut web = web();
    let (asked, session, key) = call(&mut web, 7);
    progress(&mut web, session, key, 1.0);
    let reply = web.reply(asked);
    assert_eq!((reply.status(), reply.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    assert_eq!(reply.header("cache-control"), Some("no-cache, no-transform"));
    assert!(!reply.ended);
    let now = web.now;
    let log = LogMessageParams::new(LoggingLevel::Alert, Json::parse("\"two\\nlines\"").expect("JSON"));
    let open = web.sessions.get_mut(&session).expect("it is open");
    open.connection(now).log(key, &log).expect("it may log");
    progress(&mut web, session, key, 2.0);
    web.answer((session, key), &json!({"content": []}));
    let reply = web.reply(asked);
    assert!(reply.ended);
    let messages = reply.messages();
    let methods: Vec<_> = messages.iter().map(|message| message["method"].as_str().unwrap_or("answer")).collect();
    assert_eq!(methods, ["notifications/progress", "notifications/message", "notifications/progress", "answer"]);
    assert_eq!(messages[3]["id"], json!(7));
    assert!(reply.events().iter().all(|(_, _, id)| id.is_empty()), "there is nothing to come back with");
    assert!(web.sessions.is_empty());
}

// req: M-HTTP-091 M-HTTP-092
#[test]
fn nothing_follows_a_question() {
    let mut web = web();
    let (asked, session, key) = call(&mut web, 7);
    progress(&mut web, session, key, 1.0);
    let question = json!({"resultType": "input_required", "requestState": "s"});
    web.answer((session, key), &question);
    let reply = web.reply(asked);
    assert!(reply.ended);
    assert_eq!(reply.messages()[1]["result"]["resultType"], "input_required");
    assert_eq!(reply.messages().len(), 2);
}

fn refused(request: http::Request<Vec<u8>>) -> (u16, i64, Value) {
    let mut web = web();
    let reply = web.ask(request);
    let body = reply.json();
    assert!(web.sessions.is_empty(), "nothing is left of it");
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
fn refusals_have_the_status_that_is_prescribed() {
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
fn headers_are_read_as_headers_are() {
    let mut web = web();
    let call = || modern(&json!(1), "tools/call", json!({"name": "t"}));
    for request in [
        with(call(), "mcp-name", "\t t "),
        with(call(), "mcp-name", "=?base64?dA==?="),
        with(call(), "mcp-method", " tools/call "),
        with(call(), "mcp-param-unknown", "whatever"),
        modern(&json!(1), "completion/complete", json!({})),
    ] {
        let asked = web.send(request);
        web.asked();
        assert!(web.reply(asked).head.is_none(), "the application is to answer");
    }
}

// req: M-HTTP-095 M-META-015
#[test]
fn errors_of_a_method_have_the_status_of_success() {
    let table = [(-32602, 200), (-32603, 200), (1, 200), (-32601, 404), (-32021, 400), (-32020, 400)];
    for (code, status) in table {
        let mut web = web();
        let (asked, session, key) = call(&mut web, 1);
        let now = web.now;
        let error = ErrorObject::new(ErrorCode(code), "no");
        let open = web.sessions.get_mut(&session).expect("it is open");
        open.connection(now).respond_error(key, &error).expect("an answer is owed");
        web.settle();
        let reply = web.reply(asked);
        assert_eq!((reply.status(), &reply.json()["error"]["code"]), (status, &json!(code)));
        // Once a stream has begun, there is no other status to be had.
        let (asked, session, key) = call(&mut web, 1);
        progress(&mut web, session, key, 1.0);
        let open = web.sessions.get_mut(&session).expect("it is open");
        open.connection(now).respond_error(key, &error).expect("an answer is owed");
        web.settle();
        assert_eq!((web.reply(asked).status(), &web.reply(asked).messages()[1]["error"]["code"]), (200, &json!(code)));
    }
}

// req: M-HTTP-012 M-HTTP-013 M-HTTP-090
#[test]
fn notifications_are_accepted_whatever_they_say() {
    let mut web = web();
    for method in ["notifications/cancelled", "vendor/news", "notifications/initialized"] {
        for named in [true, false] {
            let message = json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}});
            let mut request = post("/mcp").header("mcp-protocol-version", "2026-07-28");
            if named {
                request = request.header("mcp-method", method);
            }
            let reply = web.ask(request.body(message.to_string().into_bytes()).expect("a request"));
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
        assert_eq!(web.ask(request.body(message.to_string().into_bytes()).expect("a request")).status(), 400);
    }
    assert!(web.sessions.is_empty());
}

// req: M-HTTP-026 M-HTTP-027 M-HTTP-028 M-CANC-006 M-CANC-009
#[test]
fn whoever_hangs_up_cancels() {
    for streaming in [false, true] {
        let mut web = web();
        let (asked, session, key) = call(&mut web, 1);
        if streaming {
            progress(&mut web, session, key, 1.0);
        }
        let before = web.reply(asked).body.len();
        web.hang_up(asked);
        let events = web.take_events();
        assert_eq!(events[0], Event::Cancelled { key, cause: CancelCause::Closed });
        assert_eq!(events[1..], [Event::Closed(CloseReason::ConnectionLost)]);
        assert_eq!(web.reply(asked).body.len(), before);
        assert!(web.sessions.is_empty());
    }
}

// req: M-VERS-007 M-VERS-008 M-SUBS-029
#[test]
fn ids_are_those_of_each_exchange() {
    let mut web = web();
    let first = web.send(modern(&json!(1), "tools/list", json!({})));
    let (a, key_a) = web.asked();
    let second = web.send(modern(&json!(1), "prompts/list", json!({})));
    let (b, key_b) = web.asked();
    web.answer((b, key_b), &json!({"prompts": []}));
    web.answer((a, key_a), &json!({"tools": []}));
    assert!(web.reply(first).json()["result"].get("tools").is_some());
    assert!(web.reply(second).json()["result"].get("prompts").is_some());
}

fn listen(web: &mut Web, id: &Value, filter: Value) -> Asked {
    web.send(modern(id, "subscriptions/listen", json!({"notifications": filter})))
}

fn tell_all(web: &mut Web) {
    let now = web.now;
    for session in web.sessions.values_mut() {
        let conn = session.connection(now);
        let _ = conn.notify(&ToolsListChangedParams::default());
        let _ = conn.notify(&ResourceUpdatedParams::new("mem://a"));
    }
    web.settle();
}

// req: M-SUBS-005 M-SUBS-006 M-SUBS-010 M-SUBS-012 M-SUBS-013 M-SUBS-026 M-SUBS-027 M-HTTP-020 M-PROG-014
#[test]
fn a_subscription_is_a_stream_of_its_own() {
    let mut web = web();
    let tools = listen(&mut web, &json!(1), json!({"toolsListChanged": true}));
    let resource = listen(&mut web, &json!("1"), json!({"resourceSubscriptions": ["mem://a"]}));
    tell_all(&mut web);
    let (call, session, key) = call(&mut web, 5);
    progress(&mut web, session, key, 1.0);
    tell_all(&mut web);
    web.answer((session, key), &json!({"content": []}));
    let methods = |web: &Web, asked| {
        let messages = web.reply(asked).messages();
        messages.iter().map(|it| it["method"].as_str().unwrap_or("answer").to_owned()).collect::<Vec<_>>()
    };
    let acknowledged = "notifications/subscriptions/acknowledged";
    let changed = "notifications/tools/list_changed";
    let updated = "notifications/resources/updated";
    assert_eq!(methods(&web, tools), [acknowledged, changed, changed]);
    assert_eq!(methods(&web, resource), [acknowledged, updated, updated]);
    assert_eq!(methods(&web, call), ["notifications/progress", "answer"]);
    let key = "io.modelcontextprotocol/subscriptionId";
    for (asked, id) in [(tools, json!(1)), (resource, json!("1"))] {
        assert!(web.reply(asked).messages().iter().all(|message| message["params"]["_meta"][key] == id));
        assert_eq!(web.reply(asked).status(), 200);
    }
}

// req: M-SUBS-014 M-SUBS-015 M-SUBS-016 M-SUBS-017 M-SUBS-021 M-CANC-007
#[test]
fn a_subscription_ends_with_its_stream_or_with_its_result() {
    let mut web = web();
    let asked = listen(&mut web, &json!(1), json!({"toolsListChanged": true}));
    web.hang_up(asked);
    assert!(web.sessions.is_empty());
    let asked = listen(&mut web, &json!(2), json!({"toolsListChanged": true}));
    let now = web.now;
    web.last_session().close(now);
    web.settle();
    let reply = web.reply(asked);
    assert!(reply.ended);
    let messages = reply.messages();
    assert_eq!(messages.len(), 2, "the result, and nothing behind it: {messages:?}");
    assert_eq!((&messages[1]["id"], &messages[1]["result"]["resultType"]), (&json!(2), &json!("complete")));
    assert!(web.sessions.is_empty());
}

// req: M-SUBS-003 M-SUBS-028 M-SUBS-031
#[test]
fn a_subscription_is_refused_only_if_it_cannot_be_read() {
    let mut web = web();
    let reply = web.ask(modern(&json!(1), "subscriptions/listen", json!({})));
    assert_eq!((reply.status(), &reply.json()["error"]["code"]), (200, &json!(-32602)));
    let mut config = stateless();
    config.capabilities = Default::default();
    let mut web = Web::new(config);
    let asked = listen(&mut web, &json!(1), json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}));
    assert_eq!(web.reply(asked).messages()[0]["params"]["notifications"], json!({}));
}

// req: M-HTTP-022
#[test]
fn a_quiet_stream_is_kept_alive() {
    let mut web = web();
    let asked = listen(&mut web, &json!(1), json!({"toolsListChanged": true}));
    let mut seen = web.reply(asked).body.len();
    for _ in 0..20 {
        web.advance(Duration::from_secs(15));
        let body = &web.reply(asked).body;
        assert_eq!(&body[seen..], b":\n\n");
        seen = body.len();
    }
    tell_all(&mut web);
    let seen = web.reply(asked).body.len();
    web.advance(Duration::from_millis(14_999));
    assert_eq!(web.reply(asked).body.len(), seen);
    assert_eq!(web.reply(asked).messages().len(), 2);
}

#[test]
fn an_answer_that_takes_long_becomes_a_stream() {
    let mut web = web();
    let (asked, session, key) = call(&mut web, 1);
    web.advance(Duration::from_millis(9_999));
    assert!(web.reply(asked).head.is_none());
    web.advance(Duration::from_millis(1));
    assert_eq!((web.reply(asked).status(), &*web.reply(asked).body), (200, &b":\n\n"[..]));
    web.answer((session, key), &json!({"content": []}));
    assert_eq!(web.reply(asked).messages().len(), 1);
    assert!(web.reply(asked).ended);
}

#[test]
fn a_request_can_be_challenged_after_it_was_read() {
    let mut web = web();
    let how = || Challenge::forbidden(Some(HeaderValue::from_static("Bearer error=\"insufficient_scope\"")));
    let (asked, session, key) = call(&mut web, 1);
    web.sessions.get_mut(&session).expect("it is open").challenge(Timestamp::ZERO, key, how()).expect("it is owed");
    web.settle();
    let reply = web.reply(asked);
    assert_eq!((reply.status(), reply.header("www-authenticate")), (403, Some("Bearer error=\"insufficient_scope\"")));
    assert_eq!((&reply.json()["id"], &reply.json()["error"]["code"]), (&json!(1), &json!(-32600)));
    // Once a stream has begun, there is no status to say it with.
    let (asked, session, key) = call(&mut web, 2);
    progress(&mut web, session, key, 1.0);
    web.sessions.get_mut(&session).expect("it is open").challenge(Timestamp::ZERO, key, how()).expect("it is owed");
    web.settle();
    assert_eq!((web.reply(asked).status(), &web.reply(asked).messages()[1]["error"]["code"]), (200, &json!(-32600)));
}

#[test]
fn a_client_that_reads_nothing_costs_no_more_than_its_limit() {
    let mut config = stateless();
    config.settings.limits.outbox_bytes = 10_000;
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.queued_bytes = 10_000;
    let mut web = Web::with(config, options);
    // Sent past the bed, so that it is not read.
    let (head, body) =
        modern(&json!(1), "tools/call", json!({"name": "t", "_meta": {"progressToken": 1}})).into_parts();
    let mut reader = web.endpoint.begin(&head, web.caller.clone()).expect("it is fine");
    reader.feed(&body).expect("it is small");
    let mut request = reader.end().expect("it is a message");
    let mut session = None;
    web.endpoint
        .route(web.now, &request, [0; 24], |made| {
            session = Some(made);
            0
        })
        .expect("there is room");
    let mut session = session.expect("it was made");
    let (exchange, event) = session.open(web.now, &mut request).expect("there is room");
    let Some(Event::Request { key, .. }) = event else { panic!("{event:?}") };
    let message = "x".repeat(100);
    let mut told = 0;
    let refused = loop {
        if let Err(refused) = session.connection(web.now).progress(key, f64::from(told), None, Some(&message)) {
            break refused;
        }
        told += 1;
        assert_eq!(session.poll_event(), None);
        assert!(session.usage().queued_bytes < 11_000);
    };
    assert_eq!(refused, mcp_proto::connection::SendError::Busy);
    assert!((80..200).contains(&told), "{told} were accepted");
    // A client that begins to read gets everything that was accepted.
    let mut out = Vec::new();
    while session.poll_output(exchange, &mut out).is_some() {}
    assert_eq!(String::from_utf8_lossy(&out).matches("data: ").count(), usize::try_from(told).expect("few"));
}
