//! Sessions that the server has lost, and how clients close theirs.

use std::time::Duration;

use http::Response;
use mcp_proto::{
    connection::{CancelCause, CloseReason, Event, Failure, Outcome},
    http::client::ExchangeId,
    protocol::{ProtocolVersion, VersionSet},
    wire::{Json, RawJson},
};
use mcp_tests::harness::full_client_with;
use mcp_tests::http_client::{
    HttpClient, event, header, initialized, json_response, message, options, stream_response,
};
use serde_json::{Value, json};

pub(crate) const SESSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25];

pub(crate) fn not_found() -> http::response::Builder {
    Response::builder().status(404)
}

pub(crate) fn answer(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"tools": []}})
}

/// Begins another session, called `s-2`, and returns the requests that the client sends then.
#[track_caller]
pub(crate) fn renewed(
    caller: &mut HttpClient,
    version: ProtocolVersion,
) -> Vec<(ExchangeId, http::Request<std::sync::Arc<[u8]>>)> {
    let (exchange, request) = caller.posted("initialize");
    assert_eq!((header(&request, "mcp-session-id"), header(&request, "mcp-protocol-version")), (None, None));
    assert_eq!(message(&request)["params"]["protocolVersion"], version.as_str());
    let response = json_response(200).header("mcp-session-id", "s-2");
    caller.respond(exchange, response, initialized(version.as_str(), &message(&request)["id"]).to_string());
    let (exchange, request) = caller.posted("notifications/initialized");
    assert_eq!(header(&request, "mcp-session-id"), Some("s-2"));
    caller.accept(exchange);
    let mut requests = std::mem::take(&mut caller.requests);
    // Waiting requests are sent when the stream is open.
    if let [(stream, get)] = &requests[..]
        && get.method() == "GET"
    {
        caller.head(*stream, stream_response());
    }
    requests.append(&mut caller.requests);
    assert!(requests.iter().all(|(_, request)| header(request, "mcp-session-id") == Some("s-2")));
    requests
}

// req: HTTP-061
#[test]
fn a_lost_session_is_renewed_once() {
    for version in SESSIONS {
        let (mut caller, stream) = HttpClient::in_session(version);
        caller.head(stream, stream_response());
        // One request was accepted, and twenty were not.
        let accepted = caller.call("tools/list", &json!({}));
        let (exchange, _) = caller.posted("tools/list");
        caller.head(exchange, stream_response());
        caller.body(exchange, "id: 1\ndata: \n\n");
        let calls: Vec<_> = (0..20).map(|_| caller.call("tools/list", &json!({}))).collect();
        let posts = std::mem::take(&mut caller.requests);
        assert_eq!(posts.len(), 20);
        let (first, rest) = posts.split_first().expect("there are twenty");
        caller.respond(first.0, not_found(), "");
        assert_eq!(
            caller.take_events(),
            [Event::Response { call: accepted, outcome: Outcome::Failed(Failure::SessionLost) }]
        );
        assert_eq!(std::mem::take(&mut caller.aborted), [stream, exchange]);
        for (exchange, _) in &rest[..10] {
            caller.respond(*exchange, not_found(), "");
        }
        // A request that is made during the renewal waits.
        let meanwhile = caller.call("tools/list", &json!({}));
        let again = renewed(&mut caller, version);
        assert_eq!(caller.take_events(), [Event::Renewed]);
        // A late refusal of the old session does not affect the new one.
        for (exchange, _) in &rest[10..] {
            caller.respond(*exchange, not_found(), "");
        }
        let late = std::mem::take(&mut caller.requests);
        assert_eq!(again.len() + late.len(), 22, "the stream, those that were refused, and the one that waited");
        let mut answered = 0;
        for (exchange, request) in again.into_iter().chain(late) {
            if request.method() == "GET" {
                assert_eq!(header(&request, "last-event-id"), None, "the old stream is gone");
                caller.head(exchange, stream_response());
            } else {
                caller.answer(exchange, &answer(&message(&request)["id"]));
                answered += 1;
            }
        }
        let mut ended: Vec<_> = caller
            .take_events()
            .into_iter()
            .map(|event| match event {
                Event::Response { call, outcome: Outcome::Result(_) } => call,
                other => panic!("{other:?}"),
            })
            .collect();
        ended.sort();
        assert_eq!((answered, ended), (21, calls.into_iter().chain([meanwhile]).collect()));
        assert!(caller.core.is_listening());
        assert_eq!(caller.core.usage().queued, 0);
    }
}

/// The server numbers its requests anew in each session, so a late response would match another request.
#[test]
fn responses_to_a_lost_session_are_not_sent() {
    for version in SESSIONS {
        let (mut caller, stream) = HttpClient::in_session(version);
        caller.head(stream, stream_response());
        let requires_input = json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage",
            "params": {"messages": [], "maxTokens": 1}});
        let send_request = |caller: &mut HttpClient, stream| {
            caller.body(stream, event("", &requires_input));
            match &caller.take_events()[..] {
                [Event::Request { key, .. }] => *key,
                events => panic!("{events:?}"),
            }
        };
        let reply = |caller: &mut HttpClient, key| {
            let result = json!({"role": "assistant", "content": {"type": "text", "text": ""}, "model": "m"});
            let result = Json::new(&result).expect("JSON");
            let conn = caller.core.connection(caller.now);
            conn.respond_raw(key, &RawJson::from(&result)).expect("an answer is taken");
            caller.settle();
        };
        let lost = send_request(&mut caller, stream);
        caller.call("tools/list", &json!({}));
        let (exchange, _) = caller.posted("tools/list");
        caller.respond(exchange, not_found(), "");
        assert_eq!(caller.take_events(), [Event::Cancelled { key: lost, cause: CancelCause::Closed }]);
        let again = renewed(&mut caller, version);
        assert_eq!(caller.take_events(), [Event::Renewed]);
        let (stream, _) = again.iter().find(|(_, request)| request.method() == "GET").expect("it listens");
        let requested = send_request(&mut caller, *stream);
        reply(&mut caller, lost);
        assert!(caller.requests.is_empty(), "a late answer is not sent");
        reply(&mut caller, requested);
        let (_, request) = caller.request();
        assert_eq!((&message(&request)["id"], header(&request, "mcp-session-id")), (&json!(1), Some("s-2")));
    }
}

fn ping(id: usize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

/// Fails the test if any of these requests carries a response.
#[track_caller]
fn assert_no_response(requests: &[(ExchangeId, http::Request<std::sync::Arc<[u8]>>)]) {
    for (_, request) in requests.iter().filter(|(_, request)| request.method() == "POST") {
        assert!(message(request)["method"].is_string(), "this belongs to the lost session: {request:?}");
    }
}

/// Responses that wait for an exchange, and those whose exchange was not over, belong to the lost session.
#[test]
fn responses_that_wait_for_room_are_dropped_with_their_session() {
    for (version, batches) in SESSIONS.into_iter().map(|version| (version, false)).chain([(SESSIONS[0], true)]) {
        let mut options = options();
        options.limits.exchanges = 1;
        let (mut caller, stream) = HttpClient::in_session_with(version, options);
        let requires_input = json!({"jsonrpc": "2.0", "id": 100, "method": "sampling/createMessage",
            "params": {"messages": [], "maxTokens": 1}});
        let as_sent = |message: Value| if batches { json!([message]) } else { message };
        // The stream takes the only exchange of the application. Sixteen more are reserved for responses.
        for id in 0..20 {
            caller.body(stream, event("", &as_sent(ping(id))));
        }
        caller.body(stream, event("", &as_sent(requires_input)));
        let events = caller.take_events();
        let [Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
        let result = json!({"role": "assistant", "content": {"type": "text", "text": ""}, "model": "m"});
        let result = Json::new(&result).expect("JSON");
        let conn = caller.core.connection(caller.now);
        conn.respond_raw(key, &RawJson::from(&result)).expect("the response is accepted");
        if batches {
            // The second request of this batch has no response yet.
            let open = json!({"jsonrpc": "2.0", "id": 30, "method": "sampling/createMessage",
                "params": {"messages": [], "maxTokens": 1}});
            caller.body(stream, event("", &json!([ping(29), open])));
            assert!(matches!(caller.take_events()[..], [Event::Request { .. }]));
        }
        caller.settle();
        let posts = std::mem::take(&mut caller.requests);
        assert_eq!(posts.len(), 16, "the others wait");
        caller.respond(posts[0].0, not_found(), "");
        let cancelled = caller.take_events();
        assert_eq!(cancelled.len(), usize::from(batches), "{cancelled:?}");
        let again = renewed(&mut caller, version);
        assert_no_response(&again);
        assert_eq!((again.len(), caller.take_events()), (1, vec![Event::Renewed]));
        let aborted: Vec<_> = posts[1..].iter().map(|(exchange, _)| *exchange).collect();
        assert_eq!(caller.aborted, [&[stream][..], &aborted].concat(), "no server reads these responses any more");
        let now = caller.now;
        let usage = caller.core.connection(now).usage();
        assert_eq!((usage.batches, caller.core.usage().exchanges, caller.core.usage().queued), (0, 1, 0));
        // The next session has the same ids, and each of its requests gets its own response.
        let (stream, _) = again[0];
        caller.body(stream, event("", &ping(7)));
        let (exchange, request) = caller.request();
        assert_eq!((&message(&request)["id"], header(&request, "mcp-session-id")), (&json!(7), Some("s-2")));
        caller.accept(exchange);
        assert_eq!(caller.core.usage().exchanges, 1);
    }
}

/// A response that waits for new credentials is not sent with them if its session was lost meanwhile. A redirect of it
/// is not followed.
#[test]
fn responses_that_were_refused_are_dropped_with_their_session() {
    for (version, batches) in SESSIONS.into_iter().map(|version| (version, false)).chain([(SESSIONS[0], true)]) {
        let mut options = options();
        options.authenticates = true;
        let (mut caller, stream) = HttpClient::in_session_with(version, options);
        let requested = |id| if batches { json!([ping(id)]) } else { ping(id) };
        let post = |caller: &mut HttpClient, id| {
            caller.body(stream, event("", &requested(id)));
            caller.request().0
        };
        let (refused, redirected, lost) = (post(&mut caller, 1), post(&mut caller, 2), post(&mut caller, 3));
        caller.respond(refused, Response::builder().status(401), "");
        assert_eq!(caller.authentications.len(), 1);
        caller.respond(lost, not_found(), "");
        let now = caller.now;
        assert_eq!(caller.core.retry(now, refused), None);
        caller.respond(redirected, Response::builder().status(307).header("location", "/mcp"), "");
        let again = renewed(&mut caller, version);
        assert_no_response(&again);
        assert_eq!((again.len(), caller.take_events()), (1, vec![Event::Renewed]));
        assert_eq!(caller.core.usage().exchanges, 1);
    }
}

/// A session may be lost before it is ready, with a response that waits for that.
#[test]
fn responses_that_are_queued_are_dropped_with_their_session() {
    for (version, batches) in SESSIONS.into_iter().map(|version| (version, false)).chain([(SESSIONS[0], true)]) {
        let (mut caller, stream) = HttpClient::in_session(version);
        caller.body(stream, event("", &ping(9)));
        let (exchange, _) = caller.request();
        caller.respond(exchange, not_found(), "");
        for session in ["s-2", "s-3"] {
            let (exchange, request) = caller.posted("initialize");
            caller.head(exchange, stream_response().header("mcp-session-id", session));
            if session == "s-2" {
                let requested = if batches { json!([ping(1)]) } else { ping(1) };
                caller.body(exchange, event("", &requested));
            }
            caller.body(exchange, event("", &initialized(version.as_str(), &message(&request)["id"])));
            caller.end(exchange);
            let (exchange, request) = caller.posted("notifications/initialized");
            assert_eq!(header(&request, "mcp-session-id"), Some(session));
            if session == "s-2" {
                // The response waits: a single one behind the gate, an array in the connection.
                let now = caller.now;
                let in_connection = caller.core.connection(now).usage().batches;
                assert_eq!((caller.core.usage().queued, in_connection), if batches { (0, 1) } else { (1, 0) });
                caller.respond(exchange, not_found(), "");
            } else {
                caller.accept(exchange);
            }
        }
        let (stream, request) = caller.request();
        assert_eq!(request.method(), "GET");
        caller.head(stream, stream_response());
        assert_no_response(&caller.requests);
        assert_eq!((caller.requests.len(), caller.core.usage().queued), (0, 0));
    }
}

/// Requests wait a limited time for the server to accept `notifications/initialized`.
#[test]
fn unaccepted_initialized_notification_times_out() {
    let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options());
    let (exchange, request) = caller.posted("initialize");
    let response = json_response(200).header("mcp-session-id", "s-1");
    caller.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
    let (ready, _) = caller.posted("notifications/initialized");
    caller.advance(Duration::from_secs(70));
    assert_eq!(caller.aborted, [ready]);
    let (stream, request) = caller.request();
    assert_eq!(request.method(), "GET");
    caller.head(stream, stream_response());
    assert_eq!(caller.take_events(), [Event::Ready]);
    let call = caller.call("tools/list", &json!({}));
    let (exchange, request) = caller.posted("tools/list");
    caller.answer(exchange, &answer(&message(&request)["id"]));
    let events = caller.take_events();
    assert!(matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }] if *ended == call));
}

#[test]
fn requests_are_resent_at_most_once() {
    let (mut caller, stream) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    caller.respond(stream, Response::builder().status(405), "");
    let call = caller.call("tools/list", &json!({}));
    let (exchange, _) = caller.posted("tools/list");
    caller.respond(exchange, not_found(), "");
    let mut again = renewed(&mut caller, ProtocolVersion::V2025_11_25);
    again.retain(|(_, request)| request.method() == "POST");
    let (exchange, _) = again.pop().expect("it is sent again");
    caller.respond(exchange, not_found(), "");
    let events = caller.take_events();
    let failed = Outcome::Failed(Failure::Status {
        status: 404,
        challenges: Vec::new(),
        retry_after: None,
        body: String::new(),
    });
    assert_eq!(events, [Event::Renewed, Event::Response { call, outcome: failed }]);
}

#[test]
fn any_404_renews_the_session() {
    for finder in ["stream", "resumption", "notification", "answer"] {
        let (mut caller, stream) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
        match finder {
            "stream" => {
                caller.head(stream, stream_response());
                caller.end(stream);
                caller.advance(Duration::from_secs(1));
                let (exchange, _) = caller.request();
                caller.respond(exchange, not_found(), "");
            }
            "resumption" => {
                caller.head(stream, stream_response());
                let call = caller.call("tools/list", &json!({}));
                let (exchange, _) = caller.posted("tools/list");
                caller.respond(exchange, stream_response(), "id: 1\ndata: \n\n");
                caller.advance(Duration::from_secs(1));
                let (exchange, _) = caller.request();
                caller.respond(exchange, not_found(), "");
                let lost = Outcome::Failed(Failure::SessionLost);
                assert_eq!(caller.take_events(), [Event::Response { call, outcome: lost }]);
            }
            "notification" => {
                let now = caller.now;
                caller.core.connection(now).notify_raw("vendor/news", None).expect("it may tell");
                let (exchange, _) = caller.posted("vendor/news");
                caller.respond(exchange, not_found(), "");
            }
            _ => {
                caller.head(stream, stream_response());
                let send_request = json!({"jsonrpc": "2.0", "id": "q", "method": "ping"});
                caller.body(stream, event("", &send_request));
                let (exchange, request) = caller.request();
                assert_eq!(message(&request)["id"], "q");
                caller.respond(exchange, not_found(), "");
            }
        }
        let requests = renewed(&mut caller, ProtocolVersion::V2025_11_25);
        assert_eq!(caller.take_events(), [Event::Renewed], "{finder}");
        assert_eq!(requests.len(), 1, "{finder}: what was said in the old session stays unsaid");
        assert_eq!(requests[0].1.method(), "GET");
    }
}

#[test]
fn closes_when_the_session_cannot_be_renewed() {
    for way in 0..4 {
        let (mut caller, _) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
        let call = caller.call("tools/list", &json!({}));
        let (exchange, _) = caller.posted("tools/list");
        caller.respond(exchange, not_found(), "");
        let (exchange, request) = caller.posted("initialize");
        let id = message(&request)["id"].clone();
        match way {
            0 => caller.respond(exchange, not_found(), ""),
            1 => caller.fail(exchange),
            2 => caller
                .answer(exchange, &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no"}})),
            _ => caller.answer(exchange, &initialized("2025-03-26", &id)),
        }
        let events = caller.take_events();
        let [Event::Response { call: ended, outcome: Outcome::Closed(_) }, Event::Closed(reason)] = &events[..] else {
            panic!("{way}: {events:?}")
        };
        assert_eq!(*ended, call);
        let expected = match reason {
            CloseReason::Failed(Failure::Status { status: 404, .. }) => 0,
            CloseReason::Failed(Failure::Network(_)) => 1,
            CloseReason::Refused(_) => 2,
            CloseReason::UnsupportedVersion(_) => 3,
            _ => 9,
        };
        assert_eq!(way, expected, "{reason:?}");
        caller.settle();
        assert!(caller.requests.is_empty() && caller.core.is_over());
    }
}

/// Loses the session that a client has just begun, in one of the ways that need no request of the application.
#[track_caller]
fn lose_new_session(caller: &mut HttpClient, way: &str) {
    let (exchange, request) = caller.posted("initialize");
    let response = json_response(200).header("mcp-session-id", "s-2");
    caller.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
    let (exchange, _) = caller.posted("notifications/initialized");
    if way == "initialized" {
        return caller.respond(exchange, not_found(), "what?");
    }
    match way {
        "failure" => caller.fail(exchange),
        _ => caller.accept(exchange),
    }
    let (stream, request) = caller.request();
    assert_eq!(request.method(), "GET");
    caller.head(stream, stream_response());
    if way == "request" {
        let _ = caller.call("tools/list", &json!({}));
        let (exchange, request) = caller.posted("tools/list");
        caller.answer(exchange, &answer(&message(&request)["id"]));
    }
    caller.body(stream, event("", &ping(1)));
    let (exchange, _) = caller.request();
    caller.respond(exchange, not_found(), "");
}

/// The processes behind a balancer may each have sessions of their own.
#[test]
fn closes_when_new_sessions_are_lost_in_sequence() {
    for way in ["initialized", "response", "failure"] {
        let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options());
        for _ in 0..3 {
            lose_new_session(&mut caller, way);
        }
        assert!(caller.take_events().iter().all(|event| matches!(event, Event::Ready | Event::Renewed)));
        lose_new_session(&mut caller, way);
        let events = caller.take_events();
        assert!(
            matches!(&events[..], [.., Event::Closed(CloseReason::Failed(Failure::Status { status: 404, .. }))]),
            "{way}: {events:?}"
        );
        assert!(caller.requests.iter().all(|(_, request)| request.method() == "DELETE"), "{way}");
    }
    // A response to a request, or a minute, ends the sequence.
    for way in ["request", "pause"] {
        let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options());
        for _ in 0..10 {
            let (exchange, request) = caller.request();
            assert_eq!(message(&request)["method"], "initialize");
            caller.requests.push((exchange, request));
            lose_new_session(&mut caller, way);
            if way == "pause" {
                let (exchange, request) = caller.posted("initialize");
                let response = json_response(200).header("mcp-session-id", "s-3");
                caller.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
                let (exchange, _) = caller.posted("notifications/initialized");
                caller.accept(exchange);
                let (stream, _) = caller.request();
                caller.head(stream, stream_response());
                caller.advance(Duration::from_secs(60));
                caller.body(stream, event("", &ping(1)));
                let (exchange, _) = caller.request();
                caller.respond(exchange, not_found(), "");
            }
        }
    }
}

/// The last event id of a lost session may belong to another stream in the next one.
#[test]
fn resumption_during_sign_in_is_lost_with_its_session() {
    let mut options = options();
    options.authenticates = true;
    let (mut caller, stream) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, options);
    caller.head(stream, stream_response());
    let call = caller.call("tools/list", &json!({}));
    let (exchange, _) = caller.posted("tools/list");
    caller.respond(exchange, stream_response(), "id: 1\ndata: \n\n");
    caller.advance(Duration::from_secs(1));
    let (resumption, request) = caller.request();
    assert_eq!(header(&request, "last-event-id"), Some("1"));
    caller.respond(resumption, Response::builder().status(401), "");
    let now = caller.now;
    caller.core.connection(now).notify_raw("vendor/news", None).expect("it is allowed");
    let (exchange, _) = caller.posted("vendor/news");
    caller.respond(exchange, not_found(), "");
    let lost = Outcome::Failed(Failure::SessionLost);
    assert_eq!(caller.take_events(), [Event::Response { call, outcome: lost }]);
    let now = caller.now;
    assert_eq!(caller.core.retry(now, resumption), None);
    renewed(&mut caller, ProtocolVersion::V2025_11_25);
}

#[test]
fn takes_session_id_only_from_initialize_response() {
    // A session id in an error or in a later response is ignored.
    let (mut caller, _) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    for status in [200, 400, 500] {
        let _ = caller.call("tools/list", &json!({}));
        let (exchange, request) = caller.posted("tools/list");
        let response = json_response(status).header("mcp-session-id", "s-9");
        caller.respond(exchange, response, answer(&message(&request)["id"]).to_string());
    }
    let _ = caller.call("tools/list", &json!({}));
    let (_, request) = caller.posted("tools/list");
    assert_eq!(header(&request, "mcp-session-id"), Some("s-1"));
    // An invalid or repeated session id is ignored.
    for ids in [&["s 1"][..], &[""], &["s-1", "s-2"]] {
        let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), options());
        let (exchange, request) = caller.posted("initialize");
        let response = ids.iter().fold(json_response(200), |response, id| response.header("mcp-session-id", *id));
        caller.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
        let (_, request) = caller.posted("notifications/initialized");
        assert_eq!(header(&request, "mcp-session-id"), None);
    }
}

// req: HTTP-057
#[test]
fn debug_output_hides_the_session_id() {
    let (caller, _) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    let printed = format!("{:?}", caller.core);
    assert!(!printed.contains("s-1"), "{printed}");
}

// req: HTTP-062 HTTP-063 LIFE-040
#[test]
fn close_deletes_the_session_without_waiting() {
    let sessions = [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25];
    let statuses = [200, 202, 204, 404, 405, 500];
    for (version, status) in sessions.into_iter().flat_map(|version| statuses.map(|status| (version, status))) {
        let (mut caller, stream) = HttpClient::in_session(version);
        let call = caller.call("tools/list", &json!({}));
        let (exchange, _) = caller.posted("tools/list");
        let now = caller.now;
        caller.core.close(now);
        let closed = Outcome::Closed(CloseReason::Local);
        let expected = [Event::Response { call, outcome: closed }, Event::Closed(CloseReason::Local)];
        assert_eq!(caller.take_events(), expected);
        assert_eq!(caller.aborted, [stream, exchange]);
        let (exchange, request) = caller.request();
        assert_eq!((request.method().as_str(), header(&request, "mcp-session-id")), ("DELETE", Some("s-1")));
        assert!(request.body().is_empty() && !caller.core.is_over());
        caller.respond(exchange, Response::builder().status(status), "");
        assert!(caller.core.is_over());
    }
    // The client waits a limited time for the response to DELETE.
    let (mut caller, _) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    let now = caller.now;
    caller.core.close(now);
    caller.take_events();
    let (exchange, _) = caller.request();
    caller.aborted.clear();
    caller.advance(Duration::from_secs(3));
    assert_eq!(caller.aborted, [exchange]);
    assert!(caller.core.is_over());
    // A redirect of the DELETE does not drop the session id and does not extend its timeout.
    let (mut caller, _) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    let now = caller.now;
    caller.core.close(now);
    caller.take_events();
    let (first, _) = caller.request();
    caller.advance(Duration::from_secs(1));
    caller.respond(first, Response::builder().status(307).header("location", "/mcp"), "");
    let (exchange, request) = caller.request();
    assert_eq!((request.method().as_str(), header(&request, "mcp-session-id")), ("DELETE", Some("s-1")));
    assert_eq!(header(&request, "mcp-protocol-version"), Some("2025-11-25"));
    caller.aborted.clear();
    caller.advance(Duration::from_secs(2));
    assert_eq!(caller.aborted, [exchange]);
    assert!(caller.core.is_over());
    // A challenge of the DELETE is not handled: the user is not asked for a client that is being closed.
    for status in [401, 403] {
        let mut options = options();
        options.authenticates = true;
        let (mut caller, _) = HttpClient::in_session_with(ProtocolVersion::V2025_11_25, options);
        let now = caller.now;
        caller.core.close(now);
        caller.take_events();
        let (exchange, _) = caller.request();
        caller.respond(exchange, Response::builder().status(status), "");
        assert_eq!(caller.authentications, []);
        assert!(caller.core.is_over());
    }
    // Without a session there is nothing to delete.
    let mut caller = HttpClient::modern();
    let now = caller.now;
    caller.core.close(now);
    assert_eq!(caller.take_events(), [Event::Closed(CloseReason::Local)]);
    assert!(caller.requests.is_empty() && caller.core.is_over());
}
