//! Sessions that the server has lost, and how clients leave.

use std::time::Duration;

use http::Response;
use mcp_proto::{
    connection::{CloseReason, Event, Failure, Outcome},
    http::client::ExchangeId,
    protocol::{ProtocolVersion, VersionSet},
};
use mcp_tests::caller::{
    Caller, event, header, initialized, json_response, message, options, speaking, stream_response,
};
use serde_json::{Value, json};

const SESSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25];

fn not_found() -> http::response::Builder {
    Response::builder().status(404)
}

fn answer(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"tools": []}})
}

/// The client begins another session, called `s-2`. What it sends then.
#[track_caller]
fn renewed(caller: &mut Caller, version: ProtocolVersion) -> Vec<(ExchangeId, http::Request<std::sync::Arc<[u8]>>)> {
    let (exchange, request) = caller.posted("initialize");
    assert_eq!((header(&request, "mcp-session-id"), header(&request, "mcp-protocol-version")), (None, None));
    assert_eq!(message(&request)["params"]["protocolVersion"], version.as_str());
    let response = json_response(200).header("mcp-session-id", "s-2");
    caller.respond(exchange, response, initialized(version.as_str(), &message(&request)["id"]).to_string());
    let (exchange, request) = caller.posted("notifications/initialized");
    assert_eq!(header(&request, "mcp-session-id"), Some("s-2"));
    caller.accept(exchange);
    let mut requests = std::mem::take(&mut caller.requests);
    // What waits goes when the stream is there.
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
fn a_session_that_is_lost_is_begun_anew_once_for_all() {
    for version in SESSIONS {
        let (mut caller, stream) = Caller::in_session(version);
        caller.head(stream, stream_response());
        // One request was accepted; twenty were not.
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
        // What is asked meanwhile waits.
        let meanwhile = caller.call("tools/list", &json!({}));
        let again = renewed(&mut caller, version);
        assert_eq!(caller.take_events(), [Event::Renewed]);
        // A refusal of the old session that comes late is none of the new one.
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
        assert!(caller.client.is_listening());
        assert_eq!(caller.client.usage().held, 0);
    }
}

/// What is asked in a session does not wait for ever until the server has accepted that it is ready.
#[test]
fn a_server_that_does_not_accept_that_its_session_is_ready_is_asked_all_the_same() {
    let mut caller = Caller::new(speaking(VersionSet::LEGACY), options());
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
fn a_request_is_sent_again_once_only() {
    let (mut caller, stream) = Caller::in_session(ProtocolVersion::V2025_11_25);
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
fn whatever_finds_out_that_the_session_is_lost_begins_another() {
    for finder in ["stream", "resumption", "notification", "answer"] {
        let (mut caller, stream) = Caller::in_session(ProtocolVersion::V2025_11_25);
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
                caller.client.connection(now).notify_raw("vendor/news", None).expect("it may tell");
                let (exchange, _) = caller.posted("vendor/news");
                caller.respond(exchange, not_found(), "");
            }
            _ => {
                caller.head(stream, stream_response());
                let ask = json!({"jsonrpc": "2.0", "id": "q", "method": "ping"});
                caller.body(stream, event("", &ask));
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
fn a_session_that_cannot_be_begun_anew_is_the_end() {
    for way in 0..4 {
        let (mut caller, _) = Caller::in_session(ProtocolVersion::V2025_11_25);
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
        assert!(caller.requests.is_empty() && caller.client.is_over());
    }
}

#[test]
fn the_session_is_that_of_the_handshake() {
    // One that comes with a refusal, or later, is none.
    let (mut caller, _) = Caller::in_session(ProtocolVersion::V2025_11_25);
    for status in [200, 400, 500] {
        let _ = caller.call("tools/list", &json!({}));
        let (exchange, request) = caller.posted("tools/list");
        let response = json_response(status).header("mcp-session-id", "s-9");
        caller.respond(exchange, response, answer(&message(&request)["id"]).to_string());
    }
    let _ = caller.call("tools/list", &json!({}));
    let (_, request) = caller.posted("tools/list");
    assert_eq!(header(&request, "mcp-session-id"), Some("s-1"));
    // Nor is one that is no text, or there twice.
    for ids in [&["s 1"][..], &[""], &["s-1", "s-2"]] {
        let mut caller = Caller::new(speaking(VersionSet::LEGACY), options());
        let (exchange, request) = caller.posted("initialize");
        let response = ids.iter().fold(json_response(200), |response, id| response.header("mcp-session-id", *id));
        caller.respond(exchange, response, initialized("2025-11-25", &message(&request)["id"]).to_string());
        let (_, request) = caller.posted("notifications/initialized");
        assert_eq!(header(&request, "mcp-session-id"), None);
    }
}

// req: HTTP-057
#[test]
fn the_session_is_a_secret() {
    let (caller, _) = Caller::in_session(ProtocolVersion::V2025_11_25);
    let printed = format!("{:?}", caller.client);
    assert!(!printed.contains("s-1"), "{printed}");
}

// req: HTTP-062 HTTP-063 LIFE-040
#[test]
fn leaving_ends_the_session_and_waits_for_nobody() {
    let sessions = [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25];
    let statuses = [200, 202, 204, 404, 405, 500];
    for (version, status) in sessions.into_iter().flat_map(|version| statuses.map(|status| (version, status))) {
        let (mut caller, stream) = Caller::in_session(version);
        let call = caller.call("tools/list", &json!({}));
        let (exchange, _) = caller.posted("tools/list");
        let now = caller.now;
        caller.client.close(now);
        let closed = Outcome::Closed(CloseReason::Local);
        let expected = [Event::Response { call, outcome: closed }, Event::Closed(CloseReason::Local)];
        assert_eq!(caller.take_events(), expected);
        assert_eq!(caller.aborted, [stream, exchange]);
        let (exchange, request) = caller.request();
        assert_eq!((request.method().as_str(), header(&request, "mcp-session-id")), ("DELETE", Some("s-1")));
        assert!(request.body().is_empty() && !caller.client.is_over());
        caller.respond(exchange, Response::builder().status(status), "");
        assert!(caller.client.is_over());
    }
    // A server that does not even say goodbye is not waited for.
    let (mut caller, _) = Caller::in_session(ProtocolVersion::V2025_11_25);
    let now = caller.now;
    caller.client.close(now);
    caller.take_events();
    let (exchange, _) = caller.request();
    caller.aborted.clear();
    caller.advance(Duration::from_secs(3));
    assert_eq!(caller.aborted, [exchange]);
    assert!(caller.client.is_over());
    // Wherever the farewell has to go, and whatever has to be proved, it names the session, and has no more time.
    for status in [307, 401] {
        let mut options = options();
        options.proves = true;
        let (mut caller, _) = Caller::in_session_with(ProtocolVersion::V2025_11_25, options);
        let now = caller.now;
        caller.client.close(now);
        caller.take_events();
        let (first, _) = caller.request();
        caller.advance(Duration::from_secs(1));
        caller.respond(first, Response::builder().status(status).header("location", "/mcp"), "");
        let now = caller.now;
        caller.client.retry(now, first);
        let (exchange, request) = caller.request();
        assert_eq!((request.method().as_str(), header(&request, "mcp-session-id")), ("DELETE", Some("s-1")));
        assert_eq!(header(&request, "mcp-protocol-version"), Some("2025-11-25"));
        caller.aborted.clear();
        caller.advance(Duration::from_secs(2));
        assert_eq!(caller.aborted, [exchange], "{status}");
        assert!(caller.client.is_over());
    }
    // There is nothing to delete without a session.
    let mut caller = Caller::modern();
    let now = caller.now;
    caller.client.close(now);
    assert_eq!(caller.take_events(), [Event::Closed(CloseReason::Local)]);
    assert!(caller.requests.is_empty() && caller.client.is_over());
}
