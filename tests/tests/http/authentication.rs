//! Deadlines while the driver obtains credentials: before a request is sent, and after the server has refused it.

use std::time::Duration;

use http::{Method, Response};
use mcp_proto::{
    connection::{CloseReason, Event, Failure, Keepalive, Outcome, RequestOptions},
    http::client::{ClientOptions, ExchangeId},
    protocol::{ProtocolVersion, VersionSet},
    rpc::CallId,
};
use mcp_tests::harness::full_client_with;
use mcp_tests::http_client::{
    HttpClient, discovered, event, header, initialized, json_response, message, options, stream_response,
};
use serde_json::{Value, json};

/// How long a user takes to sign in.
const SIGN_IN: Duration = Duration::from_secs(5 * 60);

const SECOND: Duration = Duration::from_secs(1);

fn authenticating() -> ClientOptions {
    let mut options = options();
    options.authenticates = true;
    options
}

/// When a request waits for credentials.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    /// Before it is sent.
    First,
    /// After the server has refused it.
    Refused,
    Both,
}

const WAITS: [Wait; 3] = [Wait::First, Wait::Refused, Wait::Both];

/// Waits for a sign-in at each time of `wait`, with one second on the network before each response. Returns the
/// exchange that carries the request then.
#[track_caller]
fn sign_in(client: &mut HttpClient, mut exchange: ExchangeId, wait: Wait) -> ExchangeId {
    if wait != Wait::Refused {
        client.core.handle_authentication_started(client.now, exchange);
        client.advance(SIGN_IN);
        client.core.handle_authentication_ended(client.now, exchange);
        client.advance(SECOND);
    }
    if wait != Wait::First {
        exchange = refuse(client, exchange);
    }
    exchange
}

/// Refuses a request, and sends it again after a sign-in.
#[track_caller]
fn refuse(client: &mut HttpClient, exchange: ExchangeId) -> ExchangeId {
    client.respond(exchange, Response::builder().status(401), "");
    client.advance(SIGN_IN);
    let next = client.core.retry(client.now, exchange).expect("it is still needed");
    client.settle();
    let at = client.requests.iter().position(|(id, _)| *id == next).expect("it is sent again");
    client.requests.remove(at);
    client.advance(SECOND);
    next
}

fn timed_out(events: &[Event<'_>], call: CallId) -> bool {
    matches!(events, [Event::Response { call: ended, outcome: Outcome::TimedOut { .. } }] if *ended == call)
}

fn tools(request: &http::Request<std::sync::Arc<[u8]>>) -> Value {
    json!({"jsonrpc": "2.0", "id": message(request)["id"], "result": {"tools": []}})
}

/// A client of a server of the modern era, and its options.
fn modern() -> HttpClient {
    let mut client = HttpClient::new(full_client_with(VersionSet::ALL), authenticating());
    let (exchange, request) = client.posted("server/discover");
    client.answer(exchange, &discovered(&message(&request)["id"]));
    assert_eq!(client.take_events(), [Event::Ready]);
    client
}

/// Returns a client that has requested the stream of its session.
fn listening() -> (HttpClient, ExchangeId) {
    let mut client = HttpClient::new(full_client_with(VersionSet::LEGACY), authenticating());
    let (exchange, request) = client.posted("initialize");
    client.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
    let (exchange, _) = client.posted("notifications/initialized");
    client.accept(exchange);
    let stream = client.request().0;
    (client, stream)
}

#[test]
fn sign_in_does_not_count_against_handshake() {
    for wait in WAITS {
        let mut client = HttpClient::new(full_client_with(VersionSet::LEGACY), authenticating());
        let (exchange, request) = client.posted("initialize");
        client.advance(25 * SECOND);
        let exchange = sign_in(&mut client, exchange, wait);
        let response = initialized("2025-11-25", &message(&request)["id"]);
        client.answer(exchange, &response);
        assert_eq!(client.take_events(), [Event::Ready], "{wait:?}");
    }
}

#[test]
fn sign_in_does_not_count_against_probe() {
    for wait in WAITS {
        let mut client = HttpClient::new(full_client_with(VersionSet::ALL), authenticating());
        let (exchange, request) = client.posted("server/discover");
        client.advance(25 * SECOND);
        let exchange = sign_in(&mut client, exchange, wait);
        client.answer(exchange, &discovered(&message(&request)["id"]));
        assert_eq!(client.take_events(), [Event::Ready], "{wait:?}");
    }
}

/// The handshake of the other era has its whole time.
#[test]
fn fallback_after_sign_in_begins_at_that_time() {
    let text = || Response::builder().status(200).header("content-type", "text/html");
    for wait in WAITS {
        for response in [Response::builder().status(404), Response::builder().status(405), text()] {
            let mut client = HttpClient::new(full_client_with(VersionSet::ALL), authenticating());
            let (exchange, _) = client.posted("server/discover");
            let exchange = sign_in(&mut client, exchange, wait);
            client.respond(exchange, response, "no");
            let (exchange, request) = client.posted("initialize");
            client.advance(29 * SECOND);
            assert_eq!(client.take_events(), [], "{wait:?}");
            client.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
            let (exchange, _) = client.posted("notifications/initialized");
            client.accept(exchange);
            assert_eq!(client.take_events(), [Event::Ready], "{wait:?}");
        }
    }
}

#[test]
fn handshake_deadline_goes_on_after_sign_in() {
    for (versions, method) in [(VersionSet::LEGACY, "initialize"), (VersionSet::ALL, "server/discover")] {
        for wait in WAITS {
            let mut client = HttpClient::new(full_client_with(versions), authenticating());
            let (exchange, _) = client.posted(method);
            client.advance(20 * SECOND);
            sign_in(&mut client, exchange, wait);
            let spent = 20 + if wait == Wait::Both { 2 } else { 1 };
            client.advance((29 - spent) * SECOND);
            assert_eq!(client.take_events(), [], "{method} {wait:?}");
            client.advance(SECOND);
            assert_eq!(client.take_events(), [Event::Closed(CloseReason::HandshakeTimeout)], "{method} {wait:?}");
        }
    }
}

#[test]
fn deadlines_of_a_call_go_on_after_sign_in() {
    let within = |idle: u64, total: u64| RequestOptions {
        idle_timeout: Some(Duration::from_secs(idle)),
        total_timeout: Some(Duration::from_secs(total)),
        progress: false,
        ..RequestOptions::default()
    };
    for (limits, left, total) in [(within(10, 60), 10, false), (within(60, 10), 10, true)] {
        for wait in WAITS {
            for in_session in [false, true] {
                let mut client = if in_session {
                    HttpClient::in_session_with(ProtocolVersion::V2025_11_25, authenticating()).0
                } else {
                    modern()
                };
                let call = client.call_with("tools/list", &json!({}), limits.clone());
                let (exchange, _) = client.posted("tools/list");
                client.advance(2 * SECOND);
                sign_in(&mut client, exchange, wait);
                let spent = 2 + if wait == Wait::Both { 2 } else { 1 };
                client.advance((left - spent) * SECOND - Duration::from_nanos(1));
                assert_eq!(client.take_events(), [], "{wait:?}");
                client.advance(Duration::from_nanos(1));
                let events = client.take_events();
                assert_eq!(events, [Event::Response { call, outcome: Outcome::TimedOut { total } }], "{wait:?}");
            }
        }
    }
}

#[test]
fn failed_sign_in_fails_the_request() {
    let mut client = modern();
    let call = client.call("tools/list", &json!({}));
    let (exchange, _) = client.posted("tools/list");
    client.core.handle_authentication_started(client.now, exchange);
    client.advance(SIGN_IN);
    client.core.handle_failure(client.now, exchange, "the user has cancelled");
    let failed = Outcome::Failed(Failure::Network("the user has cancelled".to_owned()));
    assert_eq!(client.take_events(), [Event::Response { call, outcome: failed }]);
    let call = client.call("tools/list", &json!({}));
    let (exchange, _) = client.posted("tools/list");
    client.respond(exchange, Response::builder().status(401), "");
    client.advance(SIGN_IN);
    client.core.fail_authentication(client.now, exchange);
    let events = client.take_events();
    let failed = |outcome: &Outcome<'_>| matches!(outcome, Outcome::Failed(Failure::Status { status: 401, .. }));
    assert!(matches!(&events[..], [Event::Response { call: ended, outcome }] if *ended == call && failed(outcome)));
    assert_eq!(client.core.usage().exchanges, 0);
}

/// The peer must not stop the clock: between two refusals it goes on.
#[test]
fn a_server_that_refuses_for_ever_is_bounded_by_the_deadline() {
    let mut client = HttpClient::new(full_client_with(VersionSet::ALL), authenticating());
    let (mut exchange, _) = client.posted("server/discover");
    for _ in 0..29 {
        exchange = refuse(&mut client, exchange);
        assert_eq!(client.take_events(), []);
    }
    client.respond(exchange, Response::builder().status(401), "");
    client.advance(SIGN_IN);
    client.core.retry(client.now, exchange);
    client.advance(SECOND);
    assert_eq!(client.take_events(), [Event::Closed(CloseReason::HandshakeTimeout)]);
}

#[test]
fn a_call_is_cancelled_during_sign_in() {
    for wait in [Wait::First, Wait::Refused] {
        for in_session in [false, true] {
            let mut client = if in_session {
                HttpClient::in_session_with(ProtocolVersion::V2025_11_25, authenticating()).0
            } else {
                modern()
            };
            let call = client.call("tools/list", &json!({}));
            let (exchange, _) = client.posted("tools/list");
            if wait == Wait::First {
                client.core.handle_authentication_started(client.now, exchange);
            } else {
                client.respond(exchange, Response::builder().status(401), "");
            }
            client.advance(SIGN_IN);
            let now = client.now;
            client.core.connection(now).cancel(call, None).expect("it is in flight");
            assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::Cancelled }]);
            assert_eq!(client.aborted, [exchange], "{wait:?}");
            // The server has not accepted the request, so it needs no notification, which would wait as well.
            assert!(client.requests.is_empty(), "{wait:?}: {:?}", client.requests);
            assert_eq!(client.core.poll_timeout().map(|it| it.at).filter(|at| *at <= now), None);
            client.core.handle_authentication_ended(now, exchange);
            assert_eq!(client.core.retry(now, exchange), None);
        }
    }
}

#[test]
fn closing_during_sign_in_takes_a_bounded_time() {
    for wait in [Wait::First, Wait::Refused] {
        let mut client = HttpClient::new(full_client_with(VersionSet::ALL), authenticating());
        let (exchange, _) = client.posted("server/discover");
        sign_in(&mut client, exchange, wait);
        client.core.close(client.now);
        assert_eq!(client.take_events(), [Event::Closed(CloseReason::Local)]);
        assert!(client.core.is_over());
        // The end of the session keeps its deadline.
        let (mut client, stream) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, authenticating());
        client.core.close(client.now);
        let (exchange, request) = client.request();
        assert_eq!((request.method(), &client.aborted[..]), (&Method::DELETE, &[stream][..]));
        client.core.handle_authentication_started(client.now, exchange);
        client.take_events();
        client.advance(3 * SECOND);
        assert!(client.core.is_over(), "{wait:?}");
        assert_eq!(client.aborted, [stream, exchange]);
    }
}

#[test]
fn keepalive_does_not_end_a_connection_during_sign_in() {
    for wait in [Wait::First, Wait::Refused] {
        let mut config = full_client_with(VersionSet::LEGACY);
        config.settings.keepalive = Some(Keepalive { interval: 10 * SECOND, max_missed: 1 });
        let mut options = authenticating();
        options.listen = false;
        let mut client = HttpClient::new(config, options);
        let (exchange, request) = client.posted("initialize");
        client.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
        let (exchange, _) = client.posted("notifications/initialized");
        client.accept(exchange);
        assert_eq!(client.take_events(), [Event::Ready]);
        client.advance(10 * SECOND);
        let (exchange, request) = client.posted("ping");
        let exchange = sign_in(&mut client, exchange, wait);
        assert_eq!(client.take_events(), []);
        client.answer(exchange, &json!({"jsonrpc": "2.0", "id": message(&request)["id"], "result": {}}));
        client.advance(10 * SECOND);
        client.posted("ping");
        client.advance(10 * SECOND);
        assert_eq!(client.take_events(), [Event::Closed(CloseReason::PeerSilent)], "{wait:?}");
    }
}

/// A call that is made while the session begins waits for its messages, and for their credentials.
#[test]
fn queued_calls_do_not_expire_during_another_sign_in() {
    for wait in WAITS {
        for method in ["notifications/initialized", "GET"] {
            if method == "GET" && wait != Wait::First {
                // See `listen_timeout_is_not_paused_by_a_refusal_of_the_stream`.
                continue;
            }
            let mut client = HttpClient::new(full_client_with(VersionSet::LEGACY), authenticating());
            let (exchange, request) = client.posted("initialize");
            client.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
            assert_eq!(client.take_events(), [Event::Ready]);
            let (mut exchange, _) = client.posted("notifications/initialized");
            if method == "GET" {
                client.accept(exchange);
                exchange = client.request().0;
            }
            let early = client.call("tools/list", &json!({}));
            let exchange = if wait == Wait::Refused {
                refuse(&mut client, exchange)
            } else {
                client.core.handle_authentication_started(client.now, exchange);
                let late = client.call("tools/list", &json!({}));
                client.advance(SIGN_IN);
                client.core.connection(client.now).cancel(late, None).expect("it is in flight");
                assert_eq!(
                    client.take_events(),
                    [Event::Response { call: late, outcome: Outcome::Cancelled }],
                    "{wait:?} {method}"
                );
                client.core.handle_authentication_ended(client.now, exchange);
                client.settle();
                if wait == Wait::Both { refuse(&mut client, exchange) } else { exchange }
            };
            if method == "GET" {
                client.head(exchange, stream_response());
            } else {
                client.accept(exchange);
                let (stream, _) = client.request();
                client.head(stream, stream_response());
            }
            assert_eq!(client.take_events(), [], "{wait:?} {method}");
            client.posted("tools/list");
            // The deadline goes on.
            client.advance(Duration::from_secs(60));
            let events = client.take_events();
            assert!(timed_out(&events, early), "{wait:?} {method}: {events:?}");
        }
    }
}

#[test]
fn calls_do_not_expire_during_sign_in_of_renewed_session() {
    for wait in WAITS {
        let (mut client, _) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, authenticating());
        let lost = client.call("tools/list", &json!({}));
        let (exchange, _) = client.posted("tools/list");
        client.respond(exchange, Response::builder().status(404), "");
        let (exchange, request) = client.posted("initialize");
        let meanwhile = client.call("tools/list", &json!({}));
        let exchange = sign_in(&mut client, exchange, wait);
        let response = json_response(200).header("mcp-session-id", "s-2");
        client.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
        let (exchange, _) = client.posted("notifications/initialized");
        let exchange = sign_in(&mut client, exchange, wait);
        client.accept(exchange);
        let (stream, _) = client.request();
        client.head(stream, stream_response());
        assert_eq!(client.take_events(), [Event::Renewed], "{wait:?}");
        let posts = std::mem::take(&mut client.requests);
        assert_eq!(posts.len(), 2);
        let (first, second) = (&posts[0], &posts[1]);
        client.answer(first.0, &tools(&first.1));
        let events = client.take_events();
        let is_answered =
            |call| matches!(events[..], [Event::Response { call: it, outcome: Outcome::Result(_) }] if it == call);
        assert!(is_answered(lost), "{events:?}");
        client.advance(Duration::from_secs(60));
        assert!(timed_out(&client.take_events(), meanwhile), "{wait:?}");
        assert!(client.aborted.contains(&second.0));
    }
}

/// The deadlines of queued calls go on as soon as the sign-in is over, however it ends.
#[test]
fn deadlines_of_queued_calls_go_on_after_sign_in() {
    for end in ["sent", "failed", "given up"] {
        let mut options = authenticating();
        options.listen = false;
        let mut client = HttpClient::new(full_client_with(VersionSet::LEGACY), options);
        let (exchange, request) = client.posted("initialize");
        let response = json_response(200).header("mcp-session-id", "s-1");
        client.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
        let (exchange, _) = client.posted("notifications/initialized");
        client.accept(exchange);
        assert_eq!(client.take_events(), [Event::Ready]);
        let calls: Vec<_> = (0..3).map(|_| client.call("tools/list", &json!({}))).collect();
        let posts = std::mem::take(&mut client.requests);
        for (exchange, _) in &posts[..2] {
            client.respond(*exchange, Response::builder().status(404), "");
        }
        let (exchange, request) = client.posted("initialize");
        let response = json_response(200).header("mcp-session-id", "s-2");
        client.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
        assert_eq!(client.take_events(), [Event::Renewed]);
        let (exchange, _) = client.posted("notifications/initialized");
        client.advance(10 * SECOND);
        if end == "given up" {
            client.respond(exchange, Response::builder().status(401), "");
        } else {
            client.core.handle_authentication_started(client.now, exchange);
        }
        // This one is queued during the sign-in.
        client.respond(posts[2].0, Response::builder().status(404), "");
        client.advance(SIGN_IN);
        assert_eq!(client.take_events(), [], "{end}");
        match end {
            "sent" => client.core.handle_authentication_ended(client.now, exchange),
            "failed" => client.core.handle_failure(client.now, exchange, "no token"),
            _ => client.core.fail_authentication(client.now, exchange),
        }
        client.settle();
        assert_eq!(client.requests.len(), if end == "sent" { 0 } else { 3 }, "{end}");
        client.advance(49 * SECOND);
        assert_eq!(client.take_events(), [], "{end}");
        client.advance(SECOND);
        let ended: Vec<_> = client.take_events();
        let of = |call: CallId| ended.iter().any(|event| timed_out(std::slice::from_ref(event), call));
        assert!(ended.len() == 3 && calls.into_iter().all(of), "{end}: {ended:?}");
    }
}

/// A call that is sent while others wait for credentials has a deadline.
#[test]
fn deadline_of_a_sent_call_runs_during_another_sign_in() {
    let mut options = authenticating();
    options.limits.exchanges = 2;
    let mut client = HttpClient::new(full_client_with(VersionSet::ALL), options);
    let (exchange, request) = client.posted("server/discover");
    client.answer(exchange, &discovered(&message(&request)["id"]));
    assert_eq!(client.take_events(), [Event::Ready]);
    let calls: Vec<_> = (0..4).map(|_| client.call("tools/list", &json!({}))).collect();
    for (exchange, _) in std::mem::take(&mut client.requests) {
        client.core.handle_authentication_started(client.now, exchange);
    }
    client.advance(SIGN_IN);
    client.core.connection(client.now).cancel(calls[0], None).expect("it is in flight");
    assert_eq!(client.take_events(), [Event::Response { call: calls[0], outcome: Outcome::Cancelled }]);
    client.posted("tools/list");
    client.advance(Duration::from_secs(60));
    assert!(timed_out(&client.take_events(), calls[2]), "the others wait for credentials");
}

#[test]
fn calls_without_room_do_not_expire_during_a_sign_in() {
    let mut options = authenticating();
    options.limits.exchanges = 1;
    let mut client = HttpClient::new(full_client_with(VersionSet::ALL), options);
    let (exchange, request) = client.posted("server/discover");
    client.answer(exchange, &discovered(&message(&request)["id"]));
    assert_eq!(client.take_events(), [Event::Ready]);
    client.call("tools/list", &json!({}));
    let (exchange, request) = client.posted("tools/list");
    client.core.handle_authentication_started(client.now, exchange);
    client.settle();
    let second = client.call("prompts/list", &json!({}));
    client.advance(SIGN_IN);
    client.core.handle_authentication_ended(client.now, exchange);
    client.answer(
        exchange,
        &json!({"jsonrpc": "2.0", "id": message(&request)["id"],
        "result": {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}}),
    );
    assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
    client.posted("prompts/list");
    client.advance(Duration::from_secs(60));
    assert!(timed_out(&client.take_events(), second));
    // Without a sign-in the wait counts.
    client.call("tools/list", &json!({}));
    client.call("prompts/list", &json!({}));
    client.posted("tools/list");
    client.advance(Duration::from_secs(60));
    assert_eq!(client.take_events().len(), 2);
}

/// The stream for messages of the server is awaited for 500 ms, without the time of a sign-in.
#[test]
fn listen_timeout_goes_on_after_sign_in() {
    let (mut client, exchange) = listening();
    client.call("tools/list", &json!({}));
    client.advance(Duration::from_millis(300));
    client.core.handle_authentication_started(client.now, exchange);
    client.advance(SIGN_IN);
    client.core.handle_authentication_ended(client.now, exchange);
    client.advance(Duration::from_millis(199));
    assert_eq!(client.requests.len(), 0);
    client.advance(Duration::from_millis(1));
    client.posted("tools/list");
}

/// The server may accept the credentials for other requests, so these wait for the stream only as long as they always
/// do.
#[test]
fn listen_timeout_is_not_paused_by_a_refusal_of_the_stream() {
    for status in [401, 403] {
        let (mut client, stream) = listening();
        let call = client.call("tools/list", &json!({}));
        client.advance(Duration::from_millis(300));
        client.respond(stream, Response::builder().status(status), "");
        client.advance(Duration::from_millis(199));
        assert_eq!(client.requests.len(), 0);
        client.advance(Duration::from_millis(1));
        client.posted("tools/list");
        client.take_events();
        client.advance(60 * SECOND);
        assert!(timed_out(&client.take_events(), call), "its time is not paused");
        client.core.retry(client.now, stream).expect("the stream is still needed");
    }
}

/// The server has 60 seconds to accept a notification, without the time of a sign-in.
#[test]
fn accept_timeout_goes_on_after_sign_in() {
    for wait in WAITS {
        let (mut client, stream) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, authenticating());
        client.body(stream, event("", &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})));
        let (exchange, _) = client.request();
        client.advance(50 * SECOND);
        let exchange = sign_in(&mut client, exchange, wait);
        let spent = 50 + if wait == Wait::Both { 2 } else { 1 };
        client.advance((59 - spent) * SECOND);
        assert!(!client.aborted.contains(&exchange), "{wait:?}");
        client.advance(SECOND);
        assert!(client.aborted.contains(&exchange), "{wait:?}");
    }
}

/// The transport of 2024-11-05 is tried for `initialize`, whose deadline waits with it.
#[test]
fn sign_in_over_http_sse_does_not_count_for_the_handshake() {
    for wait in WAITS {
        let mut client = HttpClient::new(full_client_with(VersionSet::LEGACY), authenticating());
        let (exchange, _) = client.posted("initialize");
        client.respond(exchange, Response::builder().status(405), "");
        let (stream, request) = client.request();
        assert_eq!(request.method(), Method::GET);
        let stream = sign_in(&mut client, stream, wait);
        client.head(stream, stream_response());
        client.body(stream, "event: endpoint\ndata: /messages\n\n");
        let (exchange, request) = client.posted("initialize");
        let exchange = sign_in(&mut client, exchange, wait);
        client.accept(exchange);
        client.body(stream, event("", &initialized("2024-11-05", &message(&request)["id"])));
        assert_eq!(client.take_events(), [Event::Ready], "{wait:?}");
    }
}

/// A refused call waits for a new list of tools, whose request waits for credentials.
#[test]
fn call_does_not_expire_during_sign_in_for_its_tool_list() {
    for wait in WAITS {
        let mut client = modern();
        let call = client.call("tools/call", &json!({"name": "weather", "arguments": {}}));
        let (exchange, request) = client.posted("tools/call");
        let error = json!({"jsonrpc": "2.0", "id": message(&request)["id"],
            "error": {"code": -32020, "message": "mismatch"}});
        client.respond(exchange, json_response(400), error.to_string());
        let (exchange, request) = client.posted("tools/list");
        let exchange = sign_in(&mut client, exchange, wait);
        assert_eq!(client.take_events(), [], "{wait:?}");
        let tools = json!([{"name": "weather", "inputSchema": {"type": "object"}}]);
        client.answer(
            exchange,
            &json!({"jsonrpc": "2.0", "id": message(&request)["id"],
            "result": {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}}),
        );
        let (_, again) = client.posted("tools/call");
        assert_eq!(header(&again, "mcp-name"), Some("weather"));
        client.advance(59 * SECOND);
        assert_eq!(client.take_events(), [], "{wait:?}");
        client.advance(SECOND);
        assert!(timed_out(&client.take_events(), call), "{wait:?}");
    }
}
