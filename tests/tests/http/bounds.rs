//! The memory of a client is bounded for any behaviour of its server.

use std::time::Duration;

use http::{HeaderValue, Response};
use mcp_proto::{
    connection::{Failure, Outcome},
    protocol::{ProtocolVersion, VersionSet},
};
use mcp_tests::harness::full_client_with;
use mcp_tests::http_client::{
    HttpClient, event, header, initialized, json_response, message, options, stream_response,
};
use serde_json::json;

use super::{
    recovery::renewed,
    requests::{answer, failure, list, outcome},
};

/// The share of one exchange depends on the others, also if it began when there were fewer of them.
#[test]
fn body_limit_covers_exchanges_added_over_time() {
    let mut options = options();
    options.limits.body_bytes = 10_000;
    let mut caller = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, options).0;
    for count in 1..=20 {
        let (_, exchange, _) = list(&mut caller);
        caller.head(exchange, json_response(200));
        caller.body(exchange, vec![b'x'; 10_000 / count]);
        let bytes = caller.core.usage().bytes;
        assert!(bytes <= 10_000, "{bytes} bytes of {count} exchanges");
    }
}

/// Each response is within its limit, and all of them together are not.
#[test]
fn total_body_size_is_limited() {
    for head in [|| json_response(200), stream_response] as [fn() -> http::response::Builder; 2] {
        let mut options = options();
        options.limits.body_bytes = 10_000;
        let mut caller = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, options).0;
        let calls: Vec<_> = (0..8).map(|_| list(&mut caller)).collect();
        let mut failed = 0;
        for (_, exchange, _) in &calls {
            caller.head(*exchange, head());
        }
        for round in 0..40 {
            for (_, exchange, _) in &calls {
                caller.body(*exchange, if round == 0 { "data: {\"xxxxxxxxx" } else { "xxxxxxxxxxxxxxxxx" });
                assert!(caller.core.usage().bytes <= 10_000);
            }
            failed += std::mem::take(&mut caller.aborted).len();
        }
        assert_eq!(failed, 0, "40 pieces of 17 bytes for each of eight are no more than the limit");
        // One response grows until the total limit is reached and then fails. The others continue.
        let (call, exchange, _) = &calls[0];
        let mut sent = 0;
        while caller.aborted.is_empty() {
            caller.body(*exchange, [b'x'; 100]);
            sent += 100;
            assert!(caller.core.usage().bytes <= 10_000);
        }
        assert!((4500..4800).contains(&sent), "{sent}");
        assert_eq!(failure(&mut caller, *call), Failure::TooLarge);
        assert_eq!(std::mem::take(&mut caller.aborted), [*exchange]);
        for (_, exchange, _) in &calls[1..] {
            caller.body(*exchange, "xxxxxxxxxx");
        }
        assert_eq!(caller.take_events(), []);
    }
}

/// The type of an event is kept as text, in which each wrong byte takes three.
#[test]
fn replaced_bytes_of_event_types_are_counted() {
    let mut options = options();
    options.limits.body_bytes = 20_000;
    let mut caller = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, options).0;
    let calls: Vec<_> = (0..8).map(|_| list(&mut caller)).collect();
    for (_, exchange, _) in &calls {
        caller.head(*exchange, stream_response());
    }
    for (_, exchange, _) in &calls {
        caller.body(*exchange, [b"event: ".as_slice(), &[0xff; 1000], b"\n"].concat());
        let bytes = caller.core.usage().bytes;
        assert!(bytes <= 20_000 + 2_000, "{bytes}");
    }
    assert!(!caller.aborted.is_empty());
}

/// What the stream of the server holds leaves less room for responses, which do not limit it in turn.
#[test]
fn server_stream_takes_room_of_responses() {
    let mut options = options();
    options.limits.body_bytes = 10_000;
    let (mut caller, stream) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, options);
    let (call, exchange, _) = list(&mut caller);
    caller.head(exchange, json_response(200));
    caller.body(exchange, "x");
    caller.body(stream, ["data: {\"", &"x".repeat(9_000)].concat());
    caller.body(exchange, vec![b'x'; 900]);
    assert!(caller.aborted.is_empty());
    caller.body(exchange, vec![b'x'; 900]);
    assert_eq!(failure(&mut caller, call), Failure::TooLarge);
    caller.body(stream, "x".repeat(9_000));
    assert_eq!(std::mem::take(&mut caller.aborted), [exchange]);
}

#[test]
fn body_size_is_limited() {
    let mut config = full_client_with(VersionSet::ALL);
    config.settings.limits.frame_bytes = 2000;
    let mut caller = HttpClient::new(config, options());
    let (exchange, request) = caller.posted("server/discover");
    caller.answer(exchange, &mcp_tests::http_client::discovered(&message(&request)["id"]));
    caller.take_events();
    for head in [json_response(200), stream_response()] {
        let (call, exchange, _) = list(&mut caller);
        caller.head(exchange, head);
        let mut sent = 0;
        while caller.aborted.is_empty() {
            caller.body(exchange, if sent == 0 { "data: {\"x\":\"" } else { "xxxxxxxxxx" });
            sent += 10;
            assert!(caller.core.usage().bytes <= 2000);
        }
        assert!((2000..2100).contains(&sent), "{sent}");
        assert_eq!(failure(&mut caller, call), Failure::TooLarge);
        assert_eq!(std::mem::take(&mut caller.aborted), [exchange]);
    }
    // Only the beginning of a body that is not a JSON-RPC response is kept.
    let (call, exchange, _) = list(&mut caller);
    caller.head(exchange, Response::builder().status(500));
    let mut sent = 0;
    while caller.aborted.is_empty() {
        caller.body(exchange, [b'x'; 1000]);
        sent += 1000;
    }
    assert_eq!(sent, 66_000);
    let Failure::Status { status: 500, body, .. } = failure(&mut caller, call) else { panic!("it has a status") };
    assert_eq!(body.len(), 64 << 10);
    assert_eq!(caller.core.usage().bytes, 0);
}

#[test]
fn many_empty_events_are_skipped() {
    for modern in [false, true] {
        let mut caller =
            if modern { HttpClient::modern() } else { HttpClient::in_session(ProtocolVersion::V2025_11_25).0 };
        let (call, exchange, id) = list(&mut caller);
        caller.head(exchange, stream_response());
        let nothing = ": x\n\nevent: ping\ndata: junk\n\nid: 1\ndata: \n\n".repeat(20_000);
        caller.body(exchange, nothing + &event("", &answer(&id)));
        assert!(matches!(outcome(&mut caller, call), Outcome::Result(_)));
    }
}

#[test]
fn concurrent_exchanges_are_limited() {
    let mut options = options();
    options.limits.exchanges = 3;
    let mut caller = HttpClient::new(full_client_with(VersionSet::ALL), options);
    let (exchange, request) = caller.posted("server/discover");
    caller.answer(exchange, &mcp_tests::http_client::discovered(&message(&request)["id"]));
    for _ in 0..10 {
        caller.call("tools/list", &json!({}));
    }
    let mut seen = 0;
    while let Some((exchange, request)) = caller.requests.pop() {
        assert!(caller.core.usage().exchanges <= 3);
        caller.answer(exchange, &answer(&message(&request)["id"]));
        seen += 1;
    }
    assert_eq!((seen, caller.take_events().len()), (10, 11));
    // Messages that are not requests have a limit of their own.
    let now = caller.now;
    for _ in 0..40 {
        caller.core.connection(now).notify_raw("vendor/news", None).expect("it may tell");
    }
    caller.settle();
    assert_eq!(caller.core.usage().exchanges, 3 + 16);
}

/// The server does not accept any message and causes more and more of them.
#[test]
fn cancelling_a_call_frees_an_exchange() {
    let mut options = options();
    options.limits.exchanges = 4;
    let (mut caller, stream) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, options);
    let (call, exchange, _) = list(&mut caller);
    for id in 0..30 {
        caller.body(stream, format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n\n"));
    }
    assert_eq!(caller.core.usage().exchanges, 4 + 16, "there is no room for more");
    assert_eq!(caller.aborted, []);
    caller.core.connection(caller.now).cancel(call, None).expect("it is in flight");
    caller.settle();
    assert_eq!(caller.aborted, [exchange]);
    // Messages that the server does not accept time out.
    let sent = caller.requests.len();
    for _ in 0..3 {
        caller.advance(Duration::from_secs(60));
    }
    assert!(caller.aborted.len() >= 30, "{}", caller.aborted.len());
    assert!(caller.requests.len() > sent, "what waited for room was sent");
    caller.advance(Duration::from_secs(60));
    assert_eq!(caller.core.usage().exchanges, 1, "the stream");
    assert!(caller.core.view().is_ready());
}

/// The number of exchanges of a client, those that wait to be resumed included. Messages other than new requests have
/// reserved exchanges.
fn exchanges(caller: &HttpClient) -> usize {
    caller.core.usage().exchanges + caller.core.usage().retry_timers
}

// Requests that waited for a new session are sent one after the other.
#[test]
fn a_renewed_session_keeps_the_limit_of_exchanges() {
    for (calls, accepted) in [(100, 0), (100, 1), (3, 2)] {
        let mut options = options();
        options.limits.exchanges = 3;
        let mut caller = HttpClient::in_session_without_stream(ProtocolVersion::V2025_11_25, options);
        let mut calls: Vec<_> = (0..calls).map(|_| caller.call("tools/list", &json!({}))).collect();
        let lost = std::mem::take(&mut caller.requests);
        assert_eq!(lost.len(), 3);
        for (exchange, _) in &lost[..accepted] {
            caller.head(*exchange, stream_response());
        }
        for (exchange, _) in &lost[accepted..] {
            caller.respond(*exchange, Response::builder().status(404), "");
        }
        assert!(caller.core.usage().queued <= 3, "{:?}", caller.core.usage());
        calls.drain(..accepted);
        let mut posted = renewed(&mut caller, ProtocolVersion::V2025_11_25);
        let mut answered = 0;
        while !posted.is_empty() {
            assert!(exchanges(&caller) <= 3, "{:?}", caller.core.usage());
            for (exchange, request) in posted {
                let result = json!({"jsonrpc": "2.0", "id": message(&request)["id"], "result": {"tools": []}});
                caller.answer(exchange, &result);
                answered += 1;
            }
            posted = std::mem::take(&mut caller.requests);
        }
        assert_eq!((answered, caller.core.usage().queued), (calls.len(), 0));
    }
}

// A server may end each stream after an event id, so that all are resumed.
#[test]
fn streams_that_wait_to_be_resumed_count_as_exchanges() {
    let mut options = options();
    options.limits.exchanges = 4;
    let mut caller = HttpClient::in_session_without_stream(ProtocolVersion::V2025_11_25, options);
    let calls: Vec<_> = (0..100).map(|_| caller.call("tools/list", &json!({}))).collect();
    let mut answered = 0;
    for _ in 0..1000 {
        assert!(exchanges(&caller) <= 4, "{:?}", caller.core.usage());
        let requests = std::mem::take(&mut caller.requests);
        if requests.is_empty() && exchanges(&caller) == 0 {
            break;
        }
        for (exchange, request) in requests {
            caller.head(exchange, stream_response());
            if request.method() == "POST" {
                let id = message(&request)["id"].to_string();
                caller.body(exchange, format!("id: {id}\nretry: 100\ndata: \n\n"));
                caller.end(exchange);
            } else {
                let id: u64 = header(&request, "last-event-id").and_then(|id| id.parse().ok()).expect("a number");
                caller.body(exchange, event("", &json!({"jsonrpc": "2.0", "id": id, "result": {"tools": []}})));
                answered += 1;
            }
        }
        caller.advance(Duration::from_millis(100));
    }
    assert_eq!(answered, calls.len());
}

/// Challenges are kept until the body has arrived, and while the driver obtains credentials.
#[test]
fn challenges_count_with_responses() {
    for authenticates in [false, true] {
        let mut options = options();
        (options.authenticates, options.limits.body_bytes) = (authenticates, 10_000);
        let mut caller = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, options).0;
        let calls: Vec<_> = (0..4).map(|_| list(&mut caller)).collect();
        for (_, exchange, _) in &calls {
            let head =
                Response::builder().status(401).header("www-authenticate", format!("Bearer {}", "x".repeat(3000)));
            caller.head(*exchange, head);
            let bytes = caller.core.usage().bytes;
            assert!((3000..=10_000).contains(&bytes), "{bytes}");
        }
        assert_eq!(failure(&mut caller, calls[3].0), Failure::TooLarge);
        assert_eq!(caller.authentications.len(), if authenticates { 3 } else { 0 });
        // No challenges are kept beyond 64 KiB.
        let mut caller = HttpClient::in_session(ProtocolVersion::V2025_11_25).0;
        let (_, exchange, _) = list(&mut caller);
        let mut head = Response::builder().status(401);
        for _ in 0..100 {
            head = head.header("www-authenticate", "x".repeat(1000));
        }
        caller.head(exchange, head);
        let bytes = caller.core.usage().bytes;
        assert!((60_000..=64 << 10).contains(&bytes), "{bytes}");
    }
}

/// A client keeps the id of its session, without the rest of the head.
#[test]
fn session_ids_are_copied_and_bounded() {
    for (length, is_kept) in [(4096, true), (4097, false)] {
        let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options());
        let (exchange, request) = caller.posted("initialize");
        let id = HeaderValue::from_str(&"x".repeat(length)).expect("a header");
        let text = initialized("2025-11-25", &message(&request)["id"]).to_string();
        caller.respond(exchange, json_response(200).header("mcp-session-id", id.clone()), text);
        let (_, request) = caller.posted("notifications/initialized");
        let sent = request.headers().get("mcp-session-id");
        assert_eq!(sent, Some(&id).filter(|_| is_kept));
        assert!(sent.is_none_or(|sent| sent.as_bytes().as_ptr() != id.as_bytes().as_ptr()), "a copy");
    }
}
