//! How a client sends requests, and how it handles the responses.

use std::time::Duration;

use http::Response;
use mcp_proto::{
    connection::{CloseReason, Event, Failure, Outcome, RequestOptions},
    protocol::{ProtocolVersion, VersionSet},
    rpc::CallId,
};
use mcp_tests::harness::full_client_with;
use mcp_tests::http_client::{
    HttpClient, event, header, initialized, json_response, message, options, stream_response,
};
use serde_json::{Value, json};

const SESSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25];

pub(super) fn answer(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "tools": []}})
}

/// Calls `tools/list`. Returns the call, its exchange and its id on the wire.
pub(super) fn list(caller: &mut HttpClient) -> (CallId, mcp_proto::http::client::ExchangeId, Value) {
    let call = caller.call("tools/list", &json!({}));
    let (exchange, request) = caller.posted("tools/list");
    (call, exchange, message(&request)["id"].clone())
}

#[track_caller]
pub(super) fn outcome(caller: &mut HttpClient, call: CallId) -> Outcome<'static> {
    let mut events = caller.take_events();
    assert_eq!(events.len(), 1, "{events:?}");
    match events.remove(0) {
        Event::Response { call: ended, outcome } if ended == call => outcome,
        other => panic!("{other:?}"),
    }
}

pub(super) fn failure(caller: &mut HttpClient, call: CallId) -> Failure {
    match outcome(caller, call) {
        Outcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

// req: HTTP-008 HTTP-009 HTTP-011 HTTP-036 HTTP-058 HTTP-065 HTTP-066 HTTP-054
#[test]
fn session_requests_carry_session_headers() {
    for version in SESSIONS {
        let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options());
        let named = version.has_version_header().then_some(version.as_str());
        let (exchange, request) = caller.posted("initialize");
        assert_eq!(request.uri(), "http://server.example/mcp");
        assert_eq!(header(&request, "content-type"), Some("application/json"));
        assert_eq!(header(&request, "accept"), Some("application/json, text/event-stream"));
        assert_eq!((header(&request, "mcp-session-id"), header(&request, "mcp-protocol-version")), (None, None));
        let response = json_response(200).header("MCP-Session-Id", "s-1");
        caller.respond(exchange, response, initialized(version.as_str(), &message(&request)["id"]).to_string());
        // No other message is sent before the server has accepted the notification.
        let call = caller.call("tools/list", &json!({}));
        let (exchange, request) = caller.posted("notifications/initialized");
        assert_eq!(
            (header(&request, "mcp-session-id"), header(&request, "mcp-protocol-version")),
            (Some("s-1"), named)
        );
        caller.accept(exchange);
        let mut requests = std::mem::take(&mut caller.requests);
        assert_eq!(requests.len(), 1, "what the server says unasked comes first");
        caller.head(requests[0].0, stream_response());
        requests.append(&mut caller.requests);
        assert_eq!(requests.len(), 2);
        for (exchange, request) in requests {
            assert_eq!(header(&request, "mcp-session-id"), Some("s-1"));
            assert_eq!(header(&request, "mcp-protocol-version"), named);
            if request.method() == "GET" {
                assert_eq!(
                    (header(&request, "accept"), header(&request, "last-event-id")),
                    (Some("text/event-stream"), None)
                );
                assert!(request.body().is_empty());
            } else {
                assert!(message(&request).is_object());
                caller.answer(exchange, &answer(&message(&request)["id"]));
            }
        }
        assert_eq!(caller.take_events().len(), 2, "it is ready, and {call:?} is answered");
        let now = caller.now;
        caller.core.close(now);
        caller.settle();
        let (exchange, request) = caller.request();
        assert_eq!((request.method().as_str(), header(&request, "mcp-session-id")), ("DELETE", Some("s-1")));
        assert_eq!(header(&request, "mcp-protocol-version"), named);
        caller.respond(exchange, Response::builder().status(204), "");
        assert_eq!(caller.take_events(), [Event::Closed(CloseReason::Local)]);
        assert!(caller.core.is_over());
    }
}

// req: HTTP-018 HTTP-020 M-HTTP-016 M-HTTP-095
#[test]
fn accepts_json_and_event_stream_responses() {
    let sessions = SESSIONS.map(|version| HttpClient::in_session(version).0);
    for mut caller in sessions.into_iter().chain([HttpClient::modern()]) {
        for media_type in ["application/json", "application/json; charset=utf-8", "Application/JSON"] {
            let (call, exchange, id) = list(&mut caller);
            let response = Response::builder().status(200).header("content-type", media_type);
            caller.respond(exchange, response, answer(&id).to_string());
            assert!(matches!(outcome(&mut caller, call), Outcome::Result(_)));
        }
        for cut in [1, 7, usize::MAX] {
            let call = caller.call_with("tools/list", &json!({}), RequestOptions::default());
            let (exchange, request) = caller.posted("tools/list");
            let id = message(&request)["id"].clone();
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": id, "progress": 1}});
            let stream = format!(
                ": hello\n\nevent: ping\ndata: junk\n\nid: 1\ndata: \n\nretry: 5\n\n{}{}",
                event("2", &progress),
                event("", &answer(&id))
            );
            caller.head(exchange, stream_response());
            for chunk in stream.as_bytes().chunks(cut.min(stream.len())) {
                caller.body(exchange, chunk);
            }
            let events = caller.take_events();
            assert!(
                matches!(&events[..], [Event::Progress { call: a, .. }, Event::Response { call: b, outcome: Outcome::Result(_) }]
                    if *a == call && *b == call),
                "{events:?}"
            );
            // The rest of the stream is read for a limited time.
            caller.body(exchange, ": more\n\n");
            assert_eq!(caller.aborted, []);
            caller.advance(Duration::from_secs(1));
            assert_eq!(std::mem::take(&mut caller.aborted), [exchange]);
        }
        let (call, exchange, id) = list(&mut caller);
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no"}});
        caller.answer(exchange, &error);
        assert!(matches!(outcome(&mut caller, call), Outcome::Error(error) if error.code.0 == -32603));
    }
}

// req: HTTP-074
#[test]
fn event_streams_are_parsed_per_the_sse_standard() {
    for version in SESSIONS {
        for end in ["\n", "\r", "\r\n"] {
            let (mut caller, _) = HttpClient::in_session(version);
            let (call, exchange, id) = list(&mut caller);
            // One message on two lines, after a comment and an unknown field. `data` has no space after its colon.
            let lines = [
                ": a comment",
                "",
                "x-own: 1",
                "data: {\"jsonrpc\": \"2.0\",",
                &format!("data:\"id\": {id}, \"result\": {{\"tools\": []}}}}"),
                "",
                "",
            ];
            caller.head(exchange, stream_response());
            caller.body(exchange, lines.join(end));
            let ended = outcome(&mut caller, call);
            assert!(matches!(ended, Outcome::Result(_)), "{version} {end:?}: {ended:?}");
        }
    }
}

// req: HTTP-015 M-HTTP-014 M-HTTP-079 M-HTTP-089
#[test]
fn invalid_http_responses_fail_only_their_request() {
    let json_error = |id: Option<&Value>, code: i64| {
        let mut error = json!({"jsonrpc": "2.0", "error": {"code": code, "message": "no"}});
        if let Some(id) = id {
            error["id"] = id.clone();
        }
        error.to_string()
    };
    for modern in [false, true] {
        let mut caller =
            if modern { HttpClient::modern() } else { HttpClient::in_session(ProtocolVersion::V2025_11_25).0 };
        // A success status without a JSON-RPC response.
        for (response, body) in [
            (Response::builder().status(202), ""),
            (Response::builder().status(204), ""),
            (Response::builder().status(200), ""),
            (Response::builder().status(200).header("content-type", "text/html"), "<html>"),
            (json_response(200), ""),
            (json_response(200), "{}"),
            (json_response(200), "junk"),
            (json_response(200), "[]"),
            (json_response(201).header("content-type", "text/plain"), "{}"),
        ] {
            let (call, exchange, _) = list(&mut caller);
            caller.respond(exchange, response, body);
            let events = caller.take_events();
            let failed = Event::Response { call, outcome: Outcome::Failed(Failure::NoAnswer) };
            assert_eq!(events.last(), Some(&failed), "{body:?}: {events:?}");
        }
        // An HTTP error with a JSON-RPC error, with and without the id of the request.
        for (status, code) in [(400, -32600), (400, -32021), (422, -32602), (500, -32603), (404, -32601)] {
            for named in [true, false] {
                if status == 404 && !modern {
                    continue;
                }
                let (call, exchange, id) = list(&mut caller);
                caller.respond(exchange, json_response(status), json_error(named.then_some(&id), code));
                let ended = outcome(&mut caller, call);
                assert!(matches!(&ended, Outcome::Error(error) if error.code.0 == code), "{status}: {ended:?}");
            }
        }
        // An HTTP error without a JSON-RPC error.
        for (status, body) in
            [(400, "no"), (409, ""), (413, "too large"), (429, "later"), (431, ""), (500, "<html>"), (503, "{}")]
        {
            let (call, exchange, _) = list(&mut caller);
            caller.respond(exchange, Response::builder().status(status), body);
            let failed = Failure::Status { status, challenges: Vec::new(), retry_after: None, body: body.to_owned() };
            assert_eq!(failure(&mut caller, call), failed);
        }
        // A connection that fails before the response.
        let (call, exchange, _) = list(&mut caller);
        caller.fail(exchange);
        assert_eq!(failure(&mut caller, call), Failure::Network("connection reset".to_owned()));
        let (call, exchange, id) = list(&mut caller);
        caller.head(exchange, json_response(200));
        caller.body(exchange, &answer(&id).to_string()[..20]);
        caller.fail(exchange);
        assert_eq!(failure(&mut caller, call), Failure::Network("connection reset".to_owned()));
        // The client continues.
        let (call, exchange, id) = list(&mut caller);
        caller.answer(exchange, &answer(&id));
        assert!(matches!(outcome(&mut caller, call), Outcome::Result(_)));
    }
}

// req: HTTP-015
#[test]
fn notifications_survive_http_errors() {
    let (mut caller, _) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    let error = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}"#;
    for (status, body) in
        [(200, "{}"), (200, "junk"), (201, ""), (202, ""), (204, ""), (400, "no"), (400, error), (500, "")]
    {
        caller.core.connection(mcp_proto::rpc::Timestamp::ZERO).notify_raw("vendor/news", None).expect("it may tell");
        let (exchange, _) = caller.posted("vendor/news");
        caller.respond(exchange, json_response(status), body);
        let events = caller.take_events();
        assert_eq!(events.len(), usize::from(body == error), "{status}: {events:?}");
    }
    assert_eq!(caller.core.usage().exchanges, 1, "only its stream is open");
}

#[test]
fn reports_retry_after_in_seconds() {
    let table = [
        ("120", Some(120)),
        ("0", Some(0)),
        (" 7 ", Some(7)),
        ("99999999999999999999999", Some(u64::MAX)),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("-1", None),
        ("1.5", None),
        ("", None),
    ];
    for mut caller in [HttpClient::in_session(ProtocolVersion::V2025_11_25).0, HttpClient::modern()] {
        for status in [429, 503] {
            for (text, seconds) in table {
                let (call, exchange, _) = list(&mut caller);
                caller.respond(exchange, Response::builder().status(status).header("retry-after", text), "later");
                let Failure::Status { status: said, retry_after, .. } = failure(&mut caller, call) else { panic!() };
                assert_eq!((said, retry_after), (status, seconds.map(Duration::from_secs)), "{text}");
            }
            // A repeated header is ignored.
            let (call, exchange, _) = list(&mut caller);
            let response = Response::builder().status(status).header("retry-after", "1").header("retry-after", "2");
            caller.respond(exchange, response, "");
            assert!(matches!(failure(&mut caller, call), Failure::Status { retry_after: None, .. }));
        }
    }
}

#[test]
fn maps_calls_to_exchanges_and_back() {
    let (mut caller, stream) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    assert_eq!(caller.core.call_on(stream), None);
    let (first, exchange, _) = list(&mut caller);
    let (second, other, id) = list(&mut caller);
    let known = |caller: &HttpClient, call, exchange| {
        (caller.core.call_on(exchange), caller.core.exchange_of(call)) == (Some(call), Some(exchange))
    };
    assert!(known(&caller, first, exchange) && known(&caller, second, other));
    // A redirect creates another exchange.
    caller.head(exchange, Response::builder().status(307).header("location", "/there"));
    let (moved, _) = caller.request();
    assert!(moved != exchange && known(&caller, first, moved));
    // A resumed stream creates another exchange. Before that, the call has none.
    caller.head(moved, stream_response());
    caller.body(moved, "id: 1\ndata: \n\n");
    caller.end(moved);
    assert_eq!(caller.core.exchange_of(first), None);
    caller.advance(Duration::from_secs(2));
    let (resumed, _) = caller.request();
    assert!(known(&caller, first, resumed));
    caller.answer(other, &answer(&id));
    assert_eq!((caller.core.call_on(other), caller.core.exchange_of(second)), (None, None));
}

/// An error with the id of another request does not belong to this call, wherever the id stands in the message.
#[test]
fn errors_with_a_foreign_id_are_not_delivered() {
    for mut caller in [HttpClient::in_session(ProtocolVersion::V2025_11_25).0, HttpClient::modern()] {
        for error in [
            r#"{"jsonrpc":"2.0","id":4711,"error":{"code":-32603,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"no"},"id":4711}"#,
        ] {
            let (call, exchange, _) = list(&mut caller);
            caller.respond(exchange, json_response(200), error);
            let events = caller.take_events();
            let ours = Event::Response { call, outcome: Outcome::Failed(Failure::NoAnswer) };
            assert!(matches!(events[0], Event::Violation(_)) && events[1] == ours, "{events:?}");
        }
    }
}

// req: M-HTTP-025 M-HTTP-100 M-HTTP-024
#[test]
fn modern_streams_are_not_resumed() {
    let mut caller = HttpClient::modern();
    for broken in [false, true] {
        let (call, exchange, _) = list(&mut caller);
        caller.head(exchange, stream_response());
        caller.body(exchange, "id: 5\nretry: 1\ndata: \n\n");
        if broken {
            caller.fail(exchange);
        } else {
            caller.end(exchange);
        }
        assert_eq!(failure(&mut caller, call), Failure::StreamLost);
        caller.advance(Duration::from_secs(600));
        assert_eq!(caller.requests.len(), 0, "the stream is not resumed");
    }
}

// req: M-CANC-005 M-SUBS-014
#[test]
fn modern_requests_are_cancelled_by_aborting() {
    let mut caller = HttpClient::modern();
    for streaming in [false, true] {
        let (call, exchange, _) = list(&mut caller);
        if streaming {
            caller.head(exchange, stream_response());
        }
        let now = caller.now;
        caller.core.connection(now).cancel(call, None).expect("it is in flight");
        assert_eq!(outcome(&mut caller, call), Outcome::Cancelled);
        assert_eq!(std::mem::take(&mut caller.aborted), [exchange]);
        assert_eq!(caller.requests.len(), 0, "nothing is said of it");
    }
    // A call that times out is aborted in the same way.
    let call = caller.call_with("tools/list", &json!({}), RequestOptions::within(Duration::from_secs(1)));
    let (exchange, _) = caller.posted("tools/list");
    caller.advance(Duration::from_secs(1));
    assert_eq!(outcome(&mut caller, call), Outcome::TimedOut { total: true });
    assert_eq!((std::mem::take(&mut caller.aborted), caller.requests.len()), (vec![exchange], 0));
    assert_eq!(caller.core.usage(), mcp_proto::http::client::ResourceUsage::default());
}

// req: HTTP-033
#[test]
fn session_requests_are_cancelled_by_notification() {
    for version in SESSIONS {
        let (mut caller, _) = HttpClient::in_session(version);
        let (call, exchange, id) = list(&mut caller);
        let now = caller.now;
        caller.core.connection(now).cancel(call, Some("enough")).expect("it is in flight");
        assert_eq!(outcome(&mut caller, call), Outcome::Cancelled);
        let (told, request) = caller.posted("notifications/cancelled");
        assert_eq!(message(&request)["params"], json!({"requestId": id, "reason": "enough"}));
        assert_eq!(std::mem::take(&mut caller.aborted), [exchange]);
        caller.accept(told);
        // A call that is not sent yet is removed, and no notification is sent.
        let conn = caller.core.connection(now);
        let call = conn.request_raw(now, "tools/list", None, RequestOptions::default()).expect("it may be sent");
        conn.cancel(call, None).expect("it is in flight");
        assert_eq!(outcome(&mut caller, call), Outcome::Cancelled);
        assert_eq!((caller.requests.len(), caller.aborted.len()), (0, 0));
    }
}

#[test]
fn slow_requests_do_not_block_others() {
    let mut caller = HttpClient::modern();
    let slow: Vec<_> = (0..100).map(|_| list(&mut caller)).collect();
    let (call, exchange, id) = list(&mut caller);
    caller.answer(exchange, &answer(&id));
    assert!(matches!(outcome(&mut caller, call), Outcome::Result(_)));
    for (call, exchange, id) in slow.into_iter().rev() {
        caller.answer(exchange, &answer(&id));
        assert!(matches!(outcome(&mut caller, call), Outcome::Result(_)));
    }
}

#[test]
fn cancellations_bypass_the_exchange_limit() {
    for version in SESSIONS {
        let mut options = options();
        options.limits.exchanges = 17;
        let (mut caller, _) = HttpClient::in_session_with(version, options);
        let slow: Vec<_> = (0..16).map(|_| list(&mut caller)).collect();
        assert_eq!(caller.core.usage().exchanges, 17, "there is no room");
        let waits = caller.call("tools/list", &json!({}));
        assert_eq!(caller.requests.len(), 0);
        let (call, exchange, id) = &slow[7];
        let now = caller.now;
        caller.core.connection(now).cancel(*call, None).expect("it is in flight");
        assert_eq!(outcome(&mut caller, *call), Outcome::Cancelled);
        assert_eq!(std::mem::take(&mut caller.aborted), [*exchange]);
        let mut told = false;
        while let Some((exchange, request)) = caller.requests.pop() {
            if message(&request)["method"] == "notifications/cancelled" {
                assert_eq!(message(&request)["params"]["requestId"], *id);
                caller.accept(exchange);
                told = true;
            } else {
                caller.answer(exchange, &answer(&message(&request)["id"]));
            }
        }
        assert!(told, "the server hears of it");
        assert!(matches!(outcome(&mut caller, waits), Outcome::Result(_)));
    }
}

#[test]
fn follows_only_same_origin_redirects() {
    for (status, location, follows) in [
        (307, "/other", Some("http://server.example/other")),
        (308, "other?x=1", Some("http://server.example/other?x=1")),
        (307, "http://SERVER.example:80/other", Some("http://SERVER.example:80/other")),
        (301, "/other", None),
        (302, "/other", None),
        (303, "/other", None),
        (307, "https://server.example/other", None),
        (307, "http://server.example:8080/other", None),
        (308, "http://evil.example/other", None),
        (308, "//evil.example/other", None),
        (308, "http://me@server.example/other", None),
        (307, "javascript:alert(1)", None),
    ] {
        let mut options = options();
        options.headers.insert("x-secret", "s3cret".parse().expect("a value"));
        let mut caller = HttpClient::new(full_client_with(VersionSet::ALL), options);
        let (exchange, request) = caller.posted("server/discover");
        caller.answer(exchange, &mcp_tests::http_client::discovered(&message(&request)["id"]));
        caller.take_events();
        let call = caller.call("tools/list", &json!({}));
        let (exchange, first) = caller.posted("tools/list");
        caller.respond(exchange, Response::builder().status(status).header("location", location), "");
        let Some(target) = follows else {
            assert_eq!(failure(&mut caller, call), Failure::Redirected(location.to_owned()));
            assert_eq!(caller.requests.len(), 0, "{location}: nothing goes there");
            continue;
        };
        let (exchange, second) = caller.posted("tools/list");
        assert_eq!(second.uri(), target);
        assert_eq!((second.method(), second.body(), second.headers()), (first.method(), first.body(), first.headers()));
        caller.answer(exchange, &answer(&message(&second)["id"]));
        assert!(matches!(outcome(&mut caller, call), Outcome::Result(_)));
    }
    let mut caller = HttpClient::modern();
    let call = caller.call("tools/list", &json!({}));
    for _ in 0..6 {
        let (exchange, _) = caller.posted("tools/list");
        caller.respond(exchange, Response::builder().status(307).header("location", "/mcp"), "");
    }
    assert_eq!(failure(&mut caller, call), Failure::Redirected("/mcp".to_owned()));
}

// req: M-DUAL-035 SEC-001
#[test]
fn challenges_are_reported_or_authenticated() {
    let challenge = "Bearer resource_metadata=\"https://a.example/.well-known/oauth-protected-resource\"";
    let refusal = |status: u16| Response::builder().status(status).header("WWW-Authenticate", challenge);
    for status in [401, 403] {
        let mut caller = HttpClient::modern();
        let (call, exchange, _) = list(&mut caller);
        caller.respond(exchange, refusal(status), "no");
        let shown = Failure::Status {
            status,
            challenges: vec![challenge.to_owned()],
            retry_after: None,
            body: "no".to_owned(),
        };
        assert_eq!(failure(&mut caller, call), shown);

        let mut options = options();
        options.authenticates = true;
        let mut caller = HttpClient::new(full_client_with(VersionSet::ALL), options);
        let (exchange, _) = caller.posted("server/discover");
        caller.respond(exchange, refusal(status), "");
        assert_eq!(std::mem::take(&mut caller.authentications), [(exchange, status, vec![challenge.to_owned()])]);
        let now = caller.now;
        let next = caller.core.retry(now, exchange);
        assert_eq!(caller.core.retry(now, exchange), None, "it is sent again once");
        caller.settle();
        let (exchange, request) = caller.posted("server/discover");
        assert_eq!(next, Some(exchange));
        caller.answer(exchange, &mcp_tests::http_client::discovered(&message(&request)["id"]));
        assert_eq!(caller.take_events(), [Event::Ready]);
        let (call, exchange, _) = list(&mut caller);
        caller.respond(exchange, refusal(status), "no");
        let now = caller.now;
        caller.core.fail_authentication(now, exchange);
        assert_eq!(failure(&mut caller, call), shown);
        assert_eq!(caller.authentications.len(), 1);
    }
    // Messages that wait for a refused request wait for its replacement.
    let mut options = options();
    options.authenticates = true;
    let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options);
    let (exchange, request) = caller.posted("initialize");
    caller.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
    let (exchange, _) = caller.posted("notifications/initialized");
    caller.respond(exchange, refusal(401), "");
    // The authentication has no time limit.
    caller.advance(Duration::from_secs(600));
    let now = caller.now;
    caller.core.handle_timeout(now);
    caller.core.retry(now, exchange);
    let (exchange, _) = caller.posted("notifications/initialized");
    caller.accept(exchange);
    assert_eq!(caller.request().1.method(), "GET", "the session has begun");
    // The status does not reveal the era.
    let mut caller = HttpClient::new(full_client_with(VersionSet::ALL), mcp_tests::http_client::options());
    let (exchange, _) = caller.posted("server/discover");
    caller.respond(exchange, refusal(401), "");
    let events = caller.take_events();
    assert!(
        matches!(&events[..], [Event::Closed(CloseReason::Failed(Failure::Status { status: 401, challenges, .. }))] if challenges.len() == 1),
        "{events:?}"
    );
    assert!(caller.core.is_over());
}
