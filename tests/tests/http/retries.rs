//! Requests that are sent again after a refusal or a redirect, or cancelled, while their session is replaced.

use std::time::Duration;

use http::Response;
use mcp_proto::{
    connection::{Event, Failure, Outcome, RequestOptions},
    http::{Wake, client::ClientOptions},
    protocol::ProtocolVersion,
};
use mcp_tests::http_client::{HttpClient, header, initialized, json_response, message, options, stream_response};
use serde_json::json;

use crate::recovery::{SESSIONS, answer, not_found, renewed};

/// A request that is sent again after a refusal or a redirect waits for the next session, if its own was lost
/// meanwhile.
#[test]
fn repeated_requests_wait_for_the_next_session() {
    for version in SESSIONS {
        let mut options = options();
        options.authenticates = true;
        let (mut caller, stream) = HttpClient::in_session_with(version, options);
        caller.head(stream, stream_response());
        let mut calls: Vec<_> = (0..5).map(|_| caller.call("tools/list", &json!({}))).collect();
        let posts = std::mem::take(&mut caller.requests);
        let [refused, late, redirected, resumed, lost] = [0, 1, 2, 3, 4].map(|at: usize| posts[at].0);
        caller.respond(refused, Response::builder().status(401), "");
        caller.respond(late, Response::builder().status(401), "");
        // The stream of this one is resumed, which is refused.
        caller.head(resumed, stream_response());
        caller.body(resumed, "id: 1\nretry: 0\ndata: \n\n");
        caller.end(resumed);
        caller.advance(Duration::ZERO);
        let (resumed, request) = caller.request();
        assert_eq!(header(&request, "last-event-id"), Some("1"));
        caller.respond(resumed, Response::builder().status(401), "");
        caller.respond(lost, not_found(), "");
        let now = caller.now;
        for exchange in [refused, resumed] {
            assert_eq!(caller.core.retry(now, exchange), None);
        }
        caller.respond(redirected, Response::builder().status(307).header("location", "/mcp"), "");
        // What was on the lost stream is not in the next session.
        let call = calls.remove(3);
        assert_eq!(caller.take_events(), [Event::Response { call, outcome: Outcome::Failed(Failure::SessionLost) }]);
        let again = renewed(&mut caller, version);
        assert_eq!(caller.take_events(), [Event::Renewed]);
        let next = caller.core.retry(now, late).expect("there is a session");
        let (exchange, request) = caller.request();
        assert_eq!((exchange, header(&request, "mcp-session-id")), (next, Some("s-2")));
        let mut posts: Vec<_> = again.into_iter().filter(|(_, request)| request.method() == "POST").collect();
        posts.push((exchange, request));
        for (exchange, request) in posts {
            caller.answer(exchange, &answer(&message(&request)["id"]));
        }
        let is_answered = |event: &Event<'_>| match event {
            Event::Response { call, outcome: Outcome::Result(_) } => *call,
            other => panic!("{other:?}"),
        };
        let mut answered: Vec<_> = caller.take_events().iter().map(is_answered).collect();
        answered.sort();
        assert_eq!(answered, calls);
    }
}

/// Options of a client whose driver can sign in.
fn with_sign_in() -> ClientOptions {
    let mut options = options();
    options.authenticates = true;
    options
}

/// A cancellation takes effect at once, and the next session does not get it.
#[test]
fn cancelled_call_ends_during_sign_in_of_renewed_session() {
    for is_refused in [false, true] {
        let (mut client, stream) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, with_sign_in());
        client.head(stream, stream_response());
        let calls: Vec<_> = (0..3).map(|_| client.call("tools/list", &json!({}))).collect();
        let posts = std::mem::take(&mut client.requests);
        client.respond(posts[0].0, Response::builder().status(404), "");
        client.aborted.clear();
        let (exchange, request) = client.posted("initialize");
        if is_refused {
            client.respond(exchange, Response::builder().status(401), "");
        } else {
            client.core.handle_authentication_started(client.now, exchange);
        }
        client.advance(Duration::from_secs(10));
        // One that was refused with the old session, one that it may work on, and one that was not sent.
        let unsent = client.call("tools/list", &json!({}));
        for call in [calls[0], calls[1], unsent] {
            client.core.connection(client.now).cancel(call, None).expect("it is in flight");
            client.settle();
            assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::Cancelled }], "{is_refused}");
        }
        assert_eq!(client.aborted, [posts[1].0], "{is_refused}");
        assert_eq!(client.requests.len(), 0, "{is_refused}");
        let exchange = if is_refused {
            client.core.retry(client.now, exchange).expect("it is needed")
        } else {
            client.core.handle_authentication_ended(client.now, exchange);
            exchange
        };
        client.settle();
        client.requests.clear();
        let response = json_response(200).header("mcp-session-id", "s-2");
        client.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
        let (exchange, _) = client.posted("notifications/initialized");
        client.accept(exchange);
        let (stream, _) = client.request();
        client.head(stream, stream_response());
        let sent: Vec<_> = client.requests.iter().map(|(_, request)| message(request)).collect();
        assert_eq!(sent, [json!(null); 0], "{is_refused}");
        // The third one is refused with the old session, and repeated in the new one.
        client.respond(posts[2].0, Response::builder().status(404), "");
        let (exchange, request) = client.posted("tools/list");
        client.answer(exchange, &answer(&message(&request)["id"]));
        let events = client.take_events();
        assert!(
            matches!(events[..], [Event::Renewed, Event::Response { call, outcome: Outcome::Result(_) }] if call == calls[2]),
            "{events:?}"
        );
    }
}

/// Each client varies its pauses by up to a quarter, in a sequence of its own: xorshift with 64 bits.
#[test]
fn pauses_vary_by_the_seed_of_a_client() {
    for seed in [0, 1, 2, 0x9e37_79b9_7f4a_7c15, u64::MAX] {
        let mut options = options();
        (options.seed, options.limits.attempts) = (seed, 12);
        let (backoff, longest) = (options.backoff, options.limits.max_retry_delay);
        let (mut caller, mut stream) = HttpClient::in_session_with(SESSIONS[2], options);
        let mut state = seed | 1;
        for attempt in 1..=12 {
            caller.fail(stream);
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let pause = backoff.delay(attempt).min(longest);
            let part = f64::from(u32::try_from(state >> 40).expect("24 bits")) / f64::from(1_u32 << 24);
            let expected = pause - (pause / 4).mul_f64(part);
            let next = caller.core.poll_timeout().expect("it is resumed");
            assert_eq!((next.wake, next.at), (Wake::Reconnect, caller.now + expected), "{seed} {attempt}");
            assert!(expected <= pause && expected >= pause * 3 / 4);
            assert_eq!((caller.core.usage().retry_timers, caller.core.usage().exchanges), (1, 0));
            caller.advance(expected);
            (stream, _) = caller.request();
        }
        caller.fail(stream);
        assert_eq!((caller.core.poll_timeout(), caller.core.usage().retry_timers), (None, 0), "it has given up");
    }
}

/// Only a request that waits for the credentials of another one has no deadline meanwhile.
#[test]
fn deadlines_pass_during_a_sign_in_for_another_request() {
    let (mut client, stream) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, with_sign_in());
    client.head(stream, stream_response());
    let within = RequestOptions::within(Duration::from_secs(10));
    let [refused, lost] = [0, 1].map(|_| client.call_with("tools/list", &json!({}), within.clone()));
    let posts = std::mem::take(&mut client.requests);
    client.respond(posts[0].0, Response::builder().status(401), "");
    assert_eq!(client.authentications.len(), 1);
    client.respond(posts[1].0, Response::builder().status(404), "");
    client.posted("initialize");
    client.advance(Duration::from_secs(10));
    let events = client.take_events();
    assert!(
        matches!(events[..], [Event::Response { call, outcome: Outcome::TimedOut { .. } }] if call == lost),
        "{events:?}, not {refused:?}"
    );
}
