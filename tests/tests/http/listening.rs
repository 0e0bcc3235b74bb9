//! Streams that a client keeps open, loses and resumes.

use std::time::Duration;

use http::Response;
use mcp_proto::{
    connection::{Event, Failure, Outcome, RequestOptions},
    http::client::ExchangeId,
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

fn news() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

/// Returns a call whose response has begun as a stream.
fn streaming(caller: &mut HttpClient) -> (CallId, ExchangeId, Value) {
    streaming_with(caller, RequestOptions::default())
}

fn streaming_with(caller: &mut HttpClient, options: RequestOptions) -> (CallId, ExchangeId, Value) {
    let call = caller.call_with("tools/call", &json!({"name": "t"}), options);
    let (exchange, request) = caller.posted("tools/call");
    caller.head(exchange, stream_response());
    (call, exchange, message(&request)["id"].clone())
}

fn answer(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}})
}

#[test]
fn messages_on_the_stream_of_a_call_name_it() {
    for version in SESSIONS {
        let (mut caller, stream) = HttpClient::in_session(version);
        caller.head(stream, stream_response());
        let (first, second) = (streaming(&mut caller), streaming(&mut caller));
        let roots = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"});
        let mut number = 0;
        let mut related = |caller: &mut HttpClient, exchange: ExchangeId| {
            number += 1;
            caller.body(exchange, event("7", &news()));
            caller.body(exchange, event("8", &roots(number)));
            let events = caller.take_events();
            let [Event::Notification { related_call, .. }, Event::Request { key, .. }] = events[..] else {
                panic!("{events:?}")
            };
            let now = caller.now;
            assert_eq!(caller.core.connection(now).related_call(key), related_call, "{version:?}");
            related_call
        };
        assert_eq!(related(&mut caller, stream), None, "{version:?}");
        assert_eq!(related(&mut caller, second.1), Some(second.0), "{version:?}");
        assert_eq!(related(&mut caller, first.1), Some(first.0), "{version:?}");
        // Also when it is resumed.
        caller.end(first.1);
        caller.advance(Duration::from_secs(5));
        let (resumed, request) = caller.request();
        assert_eq!(header(&request, "last-event-id"), Some("8"));
        caller.head(resumed, stream_response());
        assert_eq!(related(&mut caller, resumed), Some(first.0), "{version:?}");
        assert_eq!(related(&mut caller, stream), None, "{version:?}");
    }
}

// req: HTTP-035 HTTP-038 HTTP-039 HTTP-042 HTTP-076
#[test]
fn client_opens_the_session_stream() {
    for version in SESSIONS {
        let (mut caller, stream) = HttpClient::in_session(version);
        caller.head(stream, stream_response());
        assert!(caller.core.is_listening());
        caller.body(stream, event("", &news()));
        let roots = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
        caller.body(stream, event("", &roots));
        let events = caller.take_events();
        let [Event::Notification { .. }, Event::Request { key, .. }] = &events[..] else { panic!("{events:?}") };
        let roots = mcp_proto::wire::Json::parse("{\"roots\":[]}").expect("JSON");
        let now = caller.now;
        caller.core.connection(now).respond_raw(*key, &mcp_proto::wire::RawJson::from(&roots)).expect("it is owed");
        caller.settle();
        let (exchange, request) = caller.request();
        assert_eq!((request.method().as_str(), &message(&request)["id"]), ("POST", &json!("q")));
        assert_eq!(header(&request, "mcp-session-id"), Some("s-1"));
        caller.accept(exchange);
        assert!(caller.core.is_listening());
    }
    // A client does not repeat the request for the stream if the server has none.
    for (status, session) in [405, 400, 404, 501, 200].into_iter().flat_map(|it| [(it, None), (it, Some("s-1"))]) {
        let mut options = options();
        options.limits.attempts = 2;
        let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options);
        let (exchange, request) = caller.posted("initialize");
        let response = Response::builder().status(200).header("content-type", "application/json");
        let response = session.into_iter().fold(response, |response, id| response.header("mcp-session-id", id));
        caller.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
        let (exchange, _) = caller.posted("notifications/initialized");
        caller.accept(exchange);
        let (exchange, request) = caller.request();
        assert_eq!(request.method(), "GET");
        caller.respond(exchange, Response::builder().status(status), "");
        caller.advance(Duration::from_secs(3600));
        assert_eq!(caller.requests.len(), 0, "{status}");
        assert_eq!(caller.take_events(), [Event::Ready]);
        assert!(!caller.core.is_listening());
    }
    let mut quiet = options();
    quiet.listen = false;
    let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), quiet);
    let (exchange, request) = caller.posted("initialize");
    caller.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
    let (exchange, _) = caller.posted("notifications/initialized");
    caller.accept(exchange);
    assert_eq!(caller.requests.len(), 0);
}

/// Returns a client whose session has begun and whose session stream is requested.
fn stream_request() -> (HttpClient, ExchangeId) {
    let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options());
    let (exchange, request) = caller.posted("initialize");
    caller.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
    let (exchange, _) = caller.posted("notifications/initialized");
    caller.accept(exchange);
    let (stream, request) = caller.request();
    assert_eq!(request.method(), "GET");
    (caller, stream)
}

/// A server may send requests for a call on the stream of the session, so this stream has to exist first.
#[test]
fn requests_wait_for_the_session_stream() {
    let outcomes: [fn(&mut HttpClient, ExchangeId); 6] = [
        |caller, stream| caller.head(stream, stream_response()),
        |caller, stream| caller.respond(stream, Response::builder().status(405), ""),
        |caller, stream| caller.respond(stream, Response::builder().status(503), ""),
        |caller, stream| caller.fail(stream),
        |caller, stream| {
            let elsewhere = Response::builder().status(307).header("Location", "/elsewhere");
            caller.respond(stream, elsewhere, "");
            let (stream, request) = caller.request();
            assert_eq!((request.method().as_str(), request.uri().path()), ("GET", "/elsewhere"));
            caller.head(stream, stream_response());
        },
        // A server that sends no head before its first event is not waited for.
        |caller, _| {
            caller.advance(Duration::from_millis(499));
            assert_eq!(caller.requests.len(), 0);
            caller.advance(Duration::from_millis(1));
        },
    ];
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let (mut caller, stream) = stream_request();
        caller.call("tools/call", &json!({"name": "t"}));
        caller.call("tools/list", &json!({}));
        assert_eq!(caller.requests.len(), 0, "{n}");
        outcome(&mut caller, stream);
        let methods: Vec<_> =
            caller.requests.drain(..).map(|(_, request)| message(&request)["method"].clone()).collect();
        assert_eq!(methods, ["tools/call", "tools/list"], "{n}");
        // Later calls do not wait, also if the stream is lost.
        caller.fail(stream);
        caller.call("tools/list", &json!({}));
        caller.posted("tools/list");
    }
    // A call that is cancelled before is never sent.
    let (mut caller, stream) = stream_request();
    let call = caller.call("tools/call", &json!({"name": "t"}));
    let now = caller.now;
    caller.core.connection(now).cancel(call, None).expect("it has not ended");
    caller.head(stream, stream_response());
    assert_eq!(caller.requests.len(), 0);
}

// req: HTTP-028 HTTP-029 HTTP-031 HTTP-034 HTTP-049 HTTP-050 HTTP-052
#[test]
fn resumes_request_streams_with_last_event_id() {
    for version in SESSIONS {
        for broken in [false, true] {
            let (mut caller, _) = HttpClient::in_session(version);
            let (call, exchange, id) = streaming(&mut caller);
            caller.body(exchange, format!("id: e-1\ndata: \n\nretry: 500\n\nid: e-2\n{}", event("", &news())));
            // An incomplete event does not count.
            caller.body(exchange, "id: e-3\ndata: {\"jsonrpc\"");
            if broken {
                caller.fail(exchange);
            } else {
                caller.end(exchange);
            }
            caller.take_events();
            caller.advance(Duration::from_millis(499));
            assert_eq!(caller.requests.len(), 0);
            caller.advance(Duration::from_millis(1));
            let (exchange, request) = caller.request();
            assert_eq!((request.method().as_str(), header(&request, "last-event-id")), ("GET", Some("e-2")));
            assert_eq!(header(&request, "accept"), Some("text/event-stream"));
            assert_eq!(header(&request, "mcp-session-id"), Some("s-1"));
            caller.head(exchange, stream_response());
            caller.body(exchange, event("e-3", &answer(&id)));
            let events = caller.take_events();
            assert!(
                matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }] if *ended == call)
            );
            // The call has ended, so its stream is not resumed.
            caller.end(exchange);
            caller.advance(Duration::from_secs(600));
            assert_eq!(caller.requests.len(), 0);
        }
    }
}

// req: HTTP-031
#[test]
fn the_last_retry_field_applies() {
    // The stream of a call, the resumed stream, and the delay after each of them.
    let table = [
        (["retry: 9000\nretry: 500\n\nid: 1\ndata: \n\n", "id: 2\ndata: \n\n"], [500, 500]),
        (["retry: 500\n\nid: 1\ndata: \n\nretry: 9000\n", "id: 2\ndata: \n\n"], [9000, 9000]),
        (["retry: 9000\nid: 1\ndata: \n\n", "retry: 500\nid: 2\ndata: \n\n"], [9000, 500]),
        (["retry: 500\nid: 1\ndata: \n\n", "retry: 9000\nid: 2\ndata: \n\n"], [500, 9000]),
        (["retry: 9000\nid: 1\ndata: \n\nretry: 500\nretry: x\n\n", "id: 2\ndata: \n\nretry: 1\n"], [500, 1]),
    ];
    for (bodies, pauses) in table {
        for whole in [true, false] {
            let (mut caller, _) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
            let (_, mut exchange, _) = streaming(&mut caller);
            for (body, pause) in bodies.iter().zip(pauses) {
                let pieces = if whole { body.len() } else { 1 };
                body.as_bytes().chunks(pieces).for_each(|piece| caller.body(exchange, piece));
                caller.end(exchange);
                caller.advance(Duration::from_millis(pause) - Duration::from_millis(1));
                assert_eq!(caller.requests.len(), 0, "{bodies:?}");
                caller.advance(Duration::from_millis(1));
                exchange = caller.request().0;
                caller.head(exchange, stream_response());
            }
        }
    }
}

#[test]
fn overlong_event_ids_are_not_sent_back() {
    for (length, resumed) in [(4096, true), (4097, false), (1 << 20, false)] {
        let (mut caller, _) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
        let (call, exchange, _) = streaming(&mut caller);
        caller.body(exchange, format!("id: 1\ndata: \n\nid: {}\n{}", "z".repeat(length), event("", &news())));
        caller.end(exchange);
        let events = caller.take_events();
        assert!(matches!(events[0], Event::Notification { .. }), "the event counts all the same");
        caller.advance(Duration::from_secs(2));
        if resumed {
            let (_, request) = caller.request();
            assert_eq!(header(&request, "last-event-id").map(str::len), Some(length));
        } else {
            assert_eq!(events[1..], [Event::Response { call, outcome: Outcome::Failed(Failure::StreamLost) }]);
            assert_eq!(caller.requests.len(), 0);
        }
    }
}

// req: HTTP-025 HTTP-034
#[test]
fn streams_without_ids_are_not_resumed() {
    for version in SESSIONS {
        let (mut caller, _) = HttpClient::in_session(version);
        let (call, exchange, _) = streaming(&mut caller);
        caller.body(exchange, event("", &news()));
        caller.take_events();
        caller.end(exchange);
        assert_eq!(caller.take_events(), [Event::Response { call, outcome: Outcome::Failed(Failure::StreamLost) }]);
        // A stream whose last id is reset cannot be resumed either.
        let (call, exchange, _) = streaming(&mut caller);
        caller.body(exchange, "id: 1\ndata: \n\nid\ndata: \n\n");
        caller.end(exchange);
        assert_eq!(caller.take_events(), [Event::Response { call, outcome: Outcome::Failed(Failure::StreamLost) }]);
        assert_eq!(caller.requests.len(), 0);
    }
}

#[test]
fn stops_resuming_a_stream_without_progress() {
    for version in SESSIONS {
        let (mut caller, _) = HttpClient::in_session(version);
        let (call, exchange, id) = streaming_with(&mut caller, RequestOptions::no_timeout());
        caller.body(exchange, "id: 1\ndata: \n\n");
        caller.end(exchange);
        let mut pauses = Vec::new();
        let mut now = caller.now;
        for attempt in 0..4 {
            caller.advance(Duration::from_secs(30));
            let (exchange, _) = caller.request();
            pauses.push(now);
            now = caller.now;
            match attempt {
                0 => caller.fail(exchange),
                1 => caller.respond(exchange, Response::builder().status(503), ""),
                2 => caller.respond(exchange, stream_response(), ": nothing\n\nid: 1\n\n"),
                _ => caller.respond(exchange, stream_response(), ""),
            }
        }
        // A new event resets the number of attempts.
        caller.advance(Duration::from_secs(30));
        let (exchange, _) = caller.request();
        caller.respond(exchange, stream_response(), "id: 2\ndata: \n\n");
        for _ in 0..5 {
            caller.advance(Duration::from_secs(30));
            let (exchange, request) = caller.request();
            assert_eq!(header(&request, "last-event-id"), Some("2"));
            caller.fail(exchange);
        }
        assert_eq!(caller.take_events(), [Event::Response { call, outcome: Outcome::Failed(Failure::StreamLost) }]);
        caller.advance(Duration::from_secs(600));
        assert_eq!(caller.requests.len(), 0);
        // A permanent refusal ends the attempts.
        for status in [400, 403, 405, 410] {
            let (call, exchange, _) = streaming(&mut caller);
            caller.body(exchange, "id: 1\ndata: \n\n");
            caller.end(exchange);
            caller.advance(Duration::from_secs(30));
            let (exchange, _) = caller.request();
            caller.respond(exchange, Response::builder().status(status), "");
            assert_eq!(caller.take_events(), [Event::Response { call, outcome: Outcome::Failed(Failure::StreamLost) }]);
        }
        let _ = id;
    }
}

/// Returns the delays before the attempts to resume a stream that is lost repeatedly, in milliseconds.
fn pauses(options: mcp_proto::http::client::ClientOptions, first: &str) -> Vec<u128> {
    let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options);
    let (exchange, request) = caller.posted("initialize");
    caller.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
    let (exchange, _) = caller.posted("notifications/initialized");
    caller.accept(exchange);
    let (mut exchange, _) = caller.request();
    caller.head(exchange, stream_response());
    caller.body(exchange, first);
    let mut pauses = Vec::new();
    loop {
        let lost = caller.now;
        caller.end(exchange);
        let Some(deadline) = caller.core.poll_timeout() else { return pauses };
        pauses.push(deadline.at.saturating_since(lost).as_millis());
        caller.advance(deadline.at.saturating_since(lost));
        (exchange, _) = caller.request();
        caller.head(exchange, stream_response());
    }
}

#[test]
fn retry_delays_grow_with_jitter() {
    let limited = |seed: u64| {
        let mut options = options();
        options.limits.attempts = 8;
        options.seed = seed;
        options
    };
    let found = pauses(limited(1), "");
    assert_eq!(found.len(), 8);
    for (pause, most) in found.iter().zip([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]) {
        assert!((most * 3 / 4..=most).contains(pause), "{pause} of {most}");
    }
    assert_ne!(found, pauses(limited(2), ""), "not everybody comes back at once");
    assert_eq!(found, pauses(limited(1), ""), "and the same client always does the same");
    // The delay of the server applies, up to a limit.
    assert_eq!(pauses(limited(1), "retry: 500\n\n"), [500; 8]);
    assert_eq!(pauses(limited(1), "retry: 99999999999999999999\n\n"), [300_000; 8]);
    // The delay stays at its maximum, however many attempts there are.
    let mut stubborn = limited(1);
    stubborn.limits.attempts = 100;
    let found = pauses(stubborn, "");
    assert_eq!(found.len(), 100);
    assert!(found[5..].iter().all(|pause| (22_500..=30_000).contains(pause)), "{found:?}");
    let mut impatient = limited(1);
    impatient.limits.attempts = 0;
    assert_eq!(pauses(impatient, "retry: 500\n\n"), []);
}

#[test]
fn session_stream_resumes_with_last_event_id() {
    let (mut caller, stream) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    caller.head(stream, stream_response());
    caller.body(stream, event("g1-7", &news()));
    caller.end(stream);
    caller.advance(Duration::from_secs(1));
    let (stream, request) = caller.request();
    assert_eq!(header(&request, "last-event-id"), Some("g1-7"));
    // If the id is unknown to the server, the client opens a new stream.
    caller.respond(stream, json_response(400), "{}");
    caller.advance(Duration::from_secs(2));
    let (stream, request) = caller.request();
    assert_eq!(header(&request, "last-event-id"), None);
    caller.head(stream, stream_response());
    assert!(caller.core.is_listening());
}

#[test]
fn ended_calls_stop_stream_retries() {
    let (mut caller, _) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    let (call, exchange, _) = streaming(&mut caller);
    caller.body(exchange, "id: 1\nretry: 60000\ndata: \n\n");
    caller.end(exchange);
    assert_eq!(caller.core.usage().retry_timers, 1);
    caller.advance(Duration::from_secs(59));
    let now = caller.now;
    caller.core.connection(now).cancel(call, None).expect("it is in flight");
    let (_, _) = caller.posted("notifications/cancelled");
    assert_eq!(caller.core.usage().retry_timers, 0);
    let (call, exchange, _) = streaming(&mut caller);
    caller.body(exchange, "id: 1\nretry: 100000\ndata: \n\n");
    caller.end(exchange);
    caller.take_events();
    caller.advance(Duration::from_secs(61));
    assert!(
        matches!(&caller.take_events()[..], [Event::Response { call: ended, outcome: Outcome::TimedOut { .. } }] if *ended == call)
    );
    assert_eq!(caller.core.usage().retry_timers, 0);
}

// req: M-SUBS-018
#[test]
fn lost_subscriptions_resubscribe_on_request() {
    let acknowledged = |id: &Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "notifications": {"toolsListChanged": true}, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}})
    };
    let filter = json!({"notifications": {"toolsListChanged": true}});
    for resubscribe in [true, false] {
        let mut caller = HttpClient::modern();
        let call = caller.call_with(
            "subscriptions/listen",
            &filter,
            RequestOptions { resubscribe, ..RequestOptions::no_timeout() },
        );
        let mut ids = Vec::new();
        for how in 0..4 {
            let (exchange, request) = caller.posted("subscriptions/listen");
            let id = message(&request)["id"].clone();
            assert!(!ids.contains(&id), "it is a new request");
            if how < 2 {
                caller.head(exchange, stream_response());
                caller.body(exchange, event("", &acknowledged(&id)));
                assert!(matches!(caller.take_events()[..], [Event::Notification { .. }]));
            }
            match how {
                0 => caller.end(exchange),
                1 | 2 => caller.fail(exchange),
                _ => caller.respond(exchange, Response::builder().status(503), ""),
            }
            ids.push(id);
            if !resubscribe {
                let lost = Event::Response { call, outcome: Outcome::Failed(Failure::StreamLost) };
                assert_eq!(caller.take_events(), [lost]);
                break;
            }
            assert_eq!(caller.take_events(), []);
            caller.advance(Duration::from_secs(30));
        }
        if resubscribe {
            // A permanent refusal is final.
            let (exchange, _) = caller.posted("subscriptions/listen");
            caller.respond(exchange, Response::builder().status(405), "");
            assert!(matches!(caller.take_events()[..], [Event::Response { outcome: Outcome::Failed(_), .. }]));
        }
        caller.advance(Duration::from_secs(600));
        assert_eq!((caller.requests.len(), caller.core.usage().retry_timers), (0, 0));
    }
}

/// The reason may be temporary, and later requests get credentials.
#[test]
fn streams_without_credentials_are_tried_again() {
    let unauthorized = || Response::builder().status(401);
    for kind in ["listening", "resumption"] {
        let mut options = options();
        options.authenticates = true;
        let attempts = options.limits.attempts;
        let (mut caller, stream) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, options);
        let call = (kind == "resumption").then(|| {
            let call = caller.call_with("tools/list", &json!({}), RequestOptions::no_timeout());
            let (exchange, _) = caller.posted("tools/list");
            caller.respond(exchange, stream_response(), "id: 1\ndata: \n\n");
            call
        });
        if call.is_none() {
            caller.end(stream);
        }
        caller.advance(Duration::from_secs(2));
        let (exchange, request) = caller.request();
        assert_eq!(header(&request, "last-event-id"), call.map(|_| "1"));
        caller.respond(exchange, unauthorized(), "");
        let now = caller.now;
        caller.core.fail_authentication(now, exchange);
        caller.advance(Duration::from_secs(5));
        let (exchange, request) = caller.request();
        assert_eq!(
            (request.method().as_str(), header(&request, "last-event-id")),
            ("GET", call.map(|_| "1")),
            "{kind}"
        );
        assert_eq!(caller.take_events(), [], "{kind}");
        // The number of attempts is limited.
        let mut waiting = Some(exchange);
        let mut refusals = 1;
        while let Some(exchange) = waiting.take() {
            caller.respond(exchange, unauthorized(), "");
            let now = caller.now;
            caller.core.fail_authentication(now, exchange);
            refusals += 1;
            caller.advance(Duration::from_secs(50));
            waiting = caller.requests.pop().map(|(exchange, _)| exchange);
        }
        assert_eq!(refusals, attempts, "{kind}");
        let lost = call.map(|call| Event::Response { call, outcome: Outcome::Failed(Failure::StreamLost) });
        assert_eq!(caller.take_events(), Vec::from_iter(lost), "{kind}");
    }
}

/// Some servers refuse `GET` with 404 instead of 405. Whether the client had credentials makes no difference.
#[test]
fn a_404_to_a_stream_that_never_was_open_keeps_the_session() {
    let mut options = options();
    options.authenticates = true;
    let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options);
    let (exchange, request) = caller.posted("initialize");
    let response = json_response(200).header("mcp-session-id", "s-1");
    caller.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
    let (exchange, _) = caller.posted("notifications/initialized");
    caller.accept(exchange);
    let (exchange, _) = caller.request();
    caller.respond(exchange, Response::builder().status(401), "");
    let now = caller.now;
    caller.core.fail_authentication(now, exchange);
    caller.advance(Duration::from_secs(2));
    let (exchange, request) = caller.request();
    assert_eq!(request.method(), "GET");
    caller.respond(exchange, Response::builder().status(404), "");
    caller.advance(Duration::from_secs(600));
    assert_eq!(caller.requests.len(), 0);
    assert_eq!(caller.take_events(), [Event::Ready]);
}
