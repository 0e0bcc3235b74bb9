//! Streams that a client holds open, loses, and takes up again.

use std::time::Duration;

use http::Response;
use mcp_proto::{
    connection::{Event, Failure, Outcome, RequestOptions},
    http::client::ExchangeId,
    protocol::{ProtocolVersion, VersionSet},
    rpc::CallId,
};
use mcp_tests::caller::{
    Caller, event, header, initialized, json_response, message, options, speaking, stream_response,
};
use serde_json::{Value, json};

const SESSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25];

fn news() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

/// A call whose answer is a stream that has begun.
fn streaming(caller: &mut Caller) -> (CallId, ExchangeId, Value) {
    streaming_with(caller, RequestOptions::default())
}

fn streaming_with(caller: &mut Caller, options: RequestOptions) -> (CallId, ExchangeId, Value) {
    let call = caller.call_with("tools/call", &json!({"name": "t"}), options);
    let (exchange, request) = caller.posted("tools/call");
    caller.head(exchange, stream_response());
    (call, exchange, message(&request)["id"].clone())
}

fn answer(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}})
}

// req: HTTP-035 HTTP-038 HTTP-039 HTTP-042 HTTP-076
#[test]
fn a_session_is_listened_to() {
    for version in SESSIONS {
        let (mut caller, stream) = Caller::in_session(version);
        caller.head(stream, stream_response());
        assert!(caller.client.is_listening());
        caller.body(stream, event("", &news()));
        let roots = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
        caller.body(stream, event("", &roots));
        let events = caller.take_events();
        let [Event::Notification { .. }, Event::Request { key, .. }] = &events[..] else { panic!("{events:?}") };
        let roots = mcp_proto::wire::Json::parse("{\"roots\":[]}").expect("JSON");
        let now = caller.now;
        caller.client.connection(now).respond_raw(*key, &mcp_proto::wire::RawJson::from(&roots)).expect("it is owed");
        caller.settle();
        let (exchange, request) = caller.request();
        assert_eq!((request.method().as_str(), &message(&request)["id"]), ("POST", &json!("q")));
        assert_eq!(header(&request, "mcp-session-id"), Some("s-1"));
        caller.accept(exchange);
        assert!(caller.client.is_listening());
    }
    // A server that has no such stream is not asked for one again.
    for status in [405, 400, 404, 501, 200] {
        let mut options = options();
        options.limits.attempts = 2;
        let mut caller = Caller::new(speaking(VersionSet::LEGACY), options);
        let (exchange, request) = caller.posted("initialize");
        caller.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
        let (exchange, _) = caller.posted("notifications/initialized");
        caller.accept(exchange);
        let (exchange, request) = caller.request();
        assert_eq!(request.method(), "GET");
        caller.respond(exchange, Response::builder().status(status), "");
        caller.advance(Duration::from_secs(3600));
        assert_eq!(caller.requests.len(), 0, "{status}");
        assert_eq!(caller.take_events(), [Event::Ready]);
        assert!(!caller.client.is_listening());
    }
    let mut quiet = options();
    quiet.listen = false;
    let mut caller = Caller::new(speaking(VersionSet::LEGACY), quiet);
    let (exchange, request) = caller.posted("initialize");
    caller.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
    let (exchange, _) = caller.posted("notifications/initialized");
    caller.accept(exchange);
    assert_eq!(caller.requests.len(), 0);
}

/// A client whose session has begun, and whose stream has been asked for.
fn asking_for_a_stream() -> (Caller, ExchangeId) {
    let mut caller = Caller::new(speaking(VersionSet::LEGACY), options());
    let (exchange, request) = caller.posted("initialize");
    caller.answer(exchange, &initialized("2025-11-25", &message(&request)["id"]));
    let (exchange, _) = caller.posted("notifications/initialized");
    caller.accept(exchange);
    let (stream, request) = caller.request();
    assert_eq!(request.method(), "GET");
    (caller, stream)
}

/// What a server asks for the sake of a request, it may ask on the stream of the session: it has to be there first.
#[test]
fn requests_wait_until_the_server_can_say_something_unasked() {
    let outcomes: [fn(&mut Caller, ExchangeId); 6] = [
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
        // One that does not say a word before it has something to say is not waited for.
        |caller, _| {
            caller.advance(Duration::from_millis(499));
            assert_eq!(caller.requests.len(), 0);
            caller.advance(Duration::from_millis(1));
        },
    ];
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let (mut caller, stream) = asking_for_a_stream();
        caller.call("tools/call", &json!({"name": "t"}));
        caller.call("tools/list", &json!({}));
        assert_eq!(caller.requests.len(), 0, "{n}");
        outcome(&mut caller, stream);
        let methods: Vec<_> =
            caller.requests.drain(..).map(|(_, request)| message(&request)["method"].clone()).collect();
        assert_eq!(methods, ["tools/call", "tools/list"], "{n}");
        // Later no call waits, also if the stream is lost.
        caller.fail(stream);
        caller.call("tools/list", &json!({}));
        caller.posted("tools/list");
    }
    // Who has given up meanwhile is never heard of.
    let (mut caller, stream) = asking_for_a_stream();
    let call = caller.call("tools/call", &json!({"name": "t"}));
    let now = caller.now;
    caller.client.connection(now).cancel(call, None).expect("it has not ended");
    caller.head(stream, stream_response());
    assert_eq!(caller.requests.len(), 0);
}

// req: HTTP-028 HTTP-029 HTTP-031 HTTP-034 HTTP-049 HTTP-050 HTTP-052
#[test]
fn the_stream_of_a_request_is_taken_up_where_it_was_lost() {
    for version in SESSIONS {
        for broken in [false, true] {
            let (mut caller, _) = Caller::in_session(version);
            let (call, exchange, id) = streaming(&mut caller);
            caller.body(exchange, format!("id: e-1\ndata: \n\nretry: 500\n\nid: e-2\n{}", event("", &news())));
            // What has not ended does not count.
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
            // It has what it wanted: no exchange comes back.
            caller.end(exchange);
            caller.advance(Duration::from_secs(600));
            assert_eq!(caller.requests.len(), 0);
        }
    }
}

// req: HTTP-031
#[test]
fn the_latest_time_to_wait_counts() {
    // What came on the stream of a call, what on the one that took it up, and the pause behind each.
    let table = [
        (["retry: 9000\nretry: 500\n\nid: 1\ndata: \n\n", "id: 2\ndata: \n\n"], [500, 500]),
        (["retry: 500\n\nid: 1\ndata: \n\nretry: 9000\n", "id: 2\ndata: \n\n"], [9000, 9000]),
        (["retry: 9000\nid: 1\ndata: \n\n", "retry: 500\nid: 2\ndata: \n\n"], [9000, 500]),
        (["retry: 500\nid: 1\ndata: \n\n", "retry: 9000\nid: 2\ndata: \n\n"], [500, 9000]),
        (["retry: 9000\nid: 1\ndata: \n\nretry: 500\nretry: x\n\n", "id: 2\ndata: \n\nretry: 1\n"], [500, 1]),
    ];
    for (bodies, pauses) in table {
        for whole in [true, false] {
            let (mut caller, _) = Caller::in_session(ProtocolVersion::V2025_11_25);
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
fn an_id_that_is_too_long_is_not_sent_back() {
    for (length, resumed) in [(4096, true), (4097, false), (1 << 20, false)] {
        let (mut caller, _) = Caller::in_session(ProtocolVersion::V2025_11_25);
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
fn a_stream_without_ids_cannot_be_taken_up() {
    for version in SESSIONS {
        let (mut caller, _) = Caller::in_session(version);
        let (call, exchange, _) = streaming(&mut caller);
        caller.body(exchange, event("", &news()));
        caller.take_events();
        caller.end(exchange);
        assert_eq!(caller.take_events(), [Event::Response { call, outcome: Outcome::Failed(Failure::StreamLost) }]);
        // Nor can one whose id was taken back.
        let (call, exchange, _) = streaming(&mut caller);
        caller.body(exchange, "id: 1\ndata: \n\nid\ndata: \n\n");
        caller.end(exchange);
        assert_eq!(caller.take_events(), [Event::Response { call, outcome: Outcome::Failed(Failure::StreamLost) }]);
        assert_eq!(caller.requests.len(), 0);
    }
}

#[test]
fn a_stream_that_brings_nothing_new_is_given_up() {
    for version in SESSIONS {
        let (mut caller, _) = Caller::in_session(version);
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
        // Anything new gives it its patience back.
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
        // A refusal that will not change is final at once.
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

/// When a stream that is lost again and again is taken up, in milliseconds from when it was lost.
fn pauses(options: mcp_proto::http::client::ClientOptions, first: &str) -> Vec<u128> {
    let mut caller = Caller::new(speaking(VersionSet::LEGACY), options);
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
        let Some(deadline) = caller.client.poll_timeout() else { return pauses };
        pauses.push(deadline.at.saturating_since(lost).as_millis());
        caller.advance(deadline.at.saturating_since(lost));
        (exchange, _) = caller.request();
        caller.head(exchange, stream_response());
    }
}

#[test]
fn pauses_become_longer_and_differ() {
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
    // What the server says counts, but not for ever.
    assert_eq!(pauses(limited(1), "retry: 500\n\n"), [500; 8]);
    assert_eq!(pauses(limited(1), "retry: 99999999999999999999\n\n"), [300_000; 8]);
    // However often it was tried, there is a pause, and it is not longer.
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
fn a_listener_comes_back_with_what_it_has_read() {
    let (mut caller, stream) = Caller::in_session(ProtocolVersion::V2025_11_25);
    caller.head(stream, stream_response());
    caller.body(stream, event("g1-7", &news()));
    caller.end(stream);
    caller.advance(Duration::from_secs(1));
    let (stream, request) = caller.request();
    assert_eq!(header(&request, "last-event-id"), Some("g1-7"));
    // If that means nothing to the server, it starts anew.
    caller.respond(stream, json_response(400), "{}");
    caller.advance(Duration::from_secs(2));
    let (stream, request) = caller.request();
    assert_eq!(header(&request, "last-event-id"), None);
    caller.head(stream, stream_response());
    assert!(caller.client.is_listening());
}

#[test]
fn whoever_is_not_waited_for_any_more_is_not_come_back_to() {
    let (mut caller, _) = Caller::in_session(ProtocolVersion::V2025_11_25);
    let (call, exchange, _) = streaming(&mut caller);
    caller.body(exchange, "id: 1\nretry: 60000\ndata: \n\n");
    caller.end(exchange);
    assert_eq!(caller.client.usage().pauses, 1);
    caller.advance(Duration::from_secs(59));
    let now = caller.now;
    caller.client.connection(now).cancel(call, None).expect("it is in flight");
    let (_, _) = caller.posted("notifications/cancelled");
    assert_eq!(caller.client.usage().pauses, 0);
    let (call, exchange, _) = streaming(&mut caller);
    caller.body(exchange, "id: 1\nretry: 100000\ndata: \n\n");
    caller.end(exchange);
    caller.take_events();
    caller.advance(Duration::from_secs(61));
    assert!(
        matches!(&caller.take_events()[..], [Event::Response { call: ended, outcome: Outcome::TimedOut { .. } }] if *ended == call)
    );
    assert_eq!(caller.client.usage().pauses, 0);
}

// req: M-SUBS-018
#[test]
fn a_subscription_that_is_lost_is_begun_again_if_that_was_asked_for() {
    let acknowledged = |id: &Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "notifications": {"toolsListChanged": true}, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}})
    };
    let filter = json!({"notifications": {"toolsListChanged": true}});
    for resubscribe in [true, false] {
        let mut caller = Caller::modern();
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
            // A refusal that will not change is final.
            let (exchange, _) = caller.posted("subscriptions/listen");
            caller.respond(exchange, Response::builder().status(405), "");
            assert!(matches!(caller.take_events()[..], [Event::Response { outcome: Outcome::Failed(_), .. }]));
        }
        caller.advance(Duration::from_secs(600));
        assert_eq!((caller.requests.len(), caller.client.usage().pauses), (0, 0));
    }
}
