//! Streams whose authorization expires.

use std::{sync::Arc, time::Duration};

use mcp_proto::{
    connection::{Event, Principal},
    http::server::ReplayChunk,
    protocol::VersionSet,
    rpc::ReplyKey,
    schema::ResourceUpdatedParams,
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, RequestRef, get, initialize, modern, post},
};
use serde_json::{Value, json};

const SESSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

const MINUTE: Duration = Duration::from_secs(60);

/// How the time of the expiry is reached.
#[derive(Clone, Copy, Debug)]
enum Late {
    /// The driver handles the timeout.
    Timeout,
    /// The driver has not handled it yet.
    No,
}

/// Sends the following requests with a token that expires after this time.
fn authorize(server: &mut HttpServer, time: Option<Duration>) {
    let mut principal = Principal::new("ada");
    principal.expires = time.map(|time| server.now + time);
    server.set_caller(principal);
}

fn pass(server: &mut HttpServer, time: Duration, late: Late) {
    match late {
        Late::Timeout => server.advance(time),
        Late::No => server.now = server.now + time,
    }
}

fn updated(server: &mut HttpServer, number: usize) {
    let now = server.now;
    for session in server.sessions.values_mut() {
        let _ = session.connection(now).notify(&ResourceUpdatedParams::new(format!("mem://{number}")));
    }
    server.settle();
}

fn progress(server: &mut HttpServer, (session, key): (usize, ReplyKey), progress: u32) {
    let now = server.now;
    let session = server.sessions.get_mut(&session).expect("it is open");
    session.connection(now).progress(key, progress.into(), None, None).expect("it may report");
    server.settle();
}

/// Returns what the messages of a response are about: a resource, progress, or the response itself.
fn seen(server: &HttpServer, sent: RequestRef) -> Vec<String> {
    let subject = |message: &Value| match &message["params"] {
        params if params["uri"].is_string() => params["uri"].as_str().unwrap_or_default()["mem://".len()..].to_owned(),
        params if params["progress"].is_number() => params["progress"].to_string(),
        _ => message["method"].as_str().unwrap_or("response").to_owned(),
    };
    server.reply(sent).messages().iter().map(subject).collect()
}

fn last_id(server: &HttpServer, sent: RequestRef) -> String {
    server.reply(sent).events().last().expect("an event").2.clone()
}

#[test]
fn stream_of_the_session_ends_with_its_token() {
    for (version, late) in SESSIONS.into_iter().flat_map(|it| [(it, Late::Timeout), (it, Late::No)]) {
        let mut server = HttpServer::new(full_server());
        authorize(&mut server, Some(2 * MINUTE));
        let id = server.begin(version);
        authorize(&mut server, Some(MINUTE));
        let stream = server.listen(&id, None);
        server.advance(MINUTE - Duration::from_nanos(1));
        updated(&mut server, 1);
        assert!(!server.reply(stream).ended, "{version}");
        pass(&mut server, Duration::from_nanos(1), late);
        updated(&mut server, 2);
        assert!(server.reply(stream).ended && !server.reply(stream).aborted, "{version} {late:?}");
        assert_eq!(seen(&server, stream), ["1"], "{version} {late:?}");
        let body = String::from_utf8_lossy(&server.reply(stream).body).into_owned();
        assert_eq!(body.ends_with("retry: 1000\n\n"), version == "2025-11-25", "{body}");
        // The client reconnects with another token, and gets what it has missed.
        authorize(&mut server, Some(MINUTE));
        let last = last_id(&server, stream);
        let resumed = server.listen(&id, Some(&last));
        updated(&mut server, 3);
        assert_eq!(seen(&server, resumed), ["2", "3"], "{version} {late:?}");
        server.advance(MINUTE);
        assert!(server.reply(resumed).ended, "{version}: the token of the request that resumes it counts");
    }
}

#[test]
fn stream_without_expiry_goes_on() {
    for version in SESSIONS {
        let mut server = HttpServer::new(full_server());
        authorize(&mut server, None);
        let id = server.begin(version);
        let stream = server.listen(&id, None);
        server.advance(10_000 * MINUTE);
        updated(&mut server, 1);
        assert_eq!(seen(&server, stream), ["1"], "{version}");
    }
}

/// The token was valid when the request arrived, so no response is lost: two large ones do not fit into the replay
/// buffer together.
#[test]
fn streams_of_responses_continue_to_the_responses() {
    for (version, late) in SESSIONS.into_iter().flat_map(|it| [(it, Late::Timeout), (it, Late::No)]) {
        // Whether the responses have become streams before the token expires.
        for streams in [true, false] {
            let mut server = HttpServer::new(full_server());
            authorize(&mut server, None);
            let id = server.begin(version);
            authorize(&mut server, Some(Duration::from_millis(1)));
            let calls = [1, 2].map(|number| {
                let params = json!({"name": "t", "_meta": {"progressToken": number}});
                let request = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params});
                let sent = server.send_message(&id, &request);
                (sent, server.take_request())
            });
            let before = if streams { vec!["1"] } else { vec![] };
            if streams {
                calls.iter().for_each(|(_, key)| progress(&mut server, *key, 1));
            }
            pass(&mut server, Duration::from_millis(1), late);
            calls.iter().for_each(|(_, key)| progress(&mut server, *key, 2));
            let text = "x".repeat(700 << 10);
            for (sent, key) in calls {
                server.respond(key, &json!({"content": [{"type": "text", "text": text}]}));
                assert_eq!(seen(&server, sent), [&before[..], &["2", "response"]].concat(), "{version} {late:?}");
                assert!(server.reply(sent).ended && !server.reply(sent).aborted, "{version}");
            }
        }
    }
}

#[test]
fn resumed_stream_of_a_response_continues_to_the_response() {
    for version in SESSIONS {
        let mut server = HttpServer::new(full_server());
        authorize(&mut server, None);
        let id = server.begin(version);
        let params = json!({"name": "t", "_meta": {"progressToken": 1}});
        let sent =
            server.send_message(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        let key = server.take_request();
        progress(&mut server, key, 1);
        server.disconnect(sent);
        authorize(&mut server, Some(MINUTE));
        let last = last_id(&server, sent);
        let resumed = server.listen(&id, Some(&last));
        server.advance(2 * MINUTE);
        server.respond(key, &json!({"content": []}));
        assert_eq!(seen(&server, resumed), ["response"], "{version}");
        assert!(server.reply(resumed).ended);
    }
}

/// The stream of a response continues in another process as well, and a stream of the session ends there.
#[test]
fn streams_resumed_in_another_process_expire_as_others() {
    for (version, late) in SESSIONS.into_iter().flat_map(|it| [(it, Late::Timeout), (it, Late::No)]) {
        let mut here = HttpServer::new(full_server());
        authorize(&mut here, None);
        let id = here.begin(version);
        let snapshot = here.last_session().snapshot().expect("its handshake is over");
        for (last, listens) in [("7-2", false), ("g7-2", true)] {
            let mut server = HttpServer::new(full_server());
            server.endpoint.share();
            let sessions = &mut server.sessions;
            let make = |session| {
                sessions.insert(1, session);
                1
            };
            let ada = Arc::new(Principal::new("ada"));
            let session = mcp_proto::http::SessionId::parse(&id).expect("an id");
            server.endpoint.adopt(server.now, (&session, 1), Some(&ada), &snapshot, make).expect("there is room");
            authorize(&mut server, Some(MINUTE));
            let resumed = server.listen(&id, Some(last));
            let found = |server: &mut HttpServer, messages: &[u64], done: bool| {
                let now = server.now;
                let Some(wanted) = server.last_session().poll_replay_request() else { return };
                let messages = messages.iter().map(|seq| (*seq, b"{\"params\":{\"progress\":1}}".to_vec())).collect();
                server.last_session().handle_replay(now, wanted.exchange, Some(&ReplayChunk { messages, done }));
                server.settle();
            };
            found(&mut server, &[3], false);
            pass(&mut server, MINUTE, late);
            let now = server.now;
            server.last_session().apply_snapshot(now, &snapshot);
            server.settle();
            assert_eq!(server.reply(resumed).ended, listens, "{version} {last} {late:?}");
            found(&mut server, &[4], true);
            let expected = if listens { 1 } else { 2 };
            assert_eq!(seen(&server, resumed), vec!["1"; expected], "{version} {last} {late:?}");
            assert!(server.reply(resumed).ended);
        }
    }
}

/// A response that is no stream is sent: nothing of it could be resumed.
#[test]
fn whole_response_is_sent_after_its_token_has_expired() {
    let mut server = HttpServer::new(full_server());
    for version in SESSIONS {
        authorize(&mut server, Some(Duration::from_millis(1)));
        let id = server.begin(version);
        let sent = server.send_message(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
        let key = server.take_request();
        server.now = server.now + MINUTE;
        server.respond(key, &json!({"tools": []}));
        assert_eq!(server.reply(sent).json()["result"], json!({"tools": []}), "{version}");
    }
}

/// A client that has not read all of a stream that is sent again gets the rest when it resumes the stream.
#[test]
fn replay_stops_when_its_token_expires() {
    let mut server = HttpServer::new(full_server());
    authorize(&mut server, None);
    let id = server.begin("2025-11-25");
    let stream = server.listen(&id, None);
    let first = last_id(&server, stream);
    (0..1000).for_each(|number| updated(&mut server, number));
    server.disconnect(stream);
    authorize(&mut server, Some(MINUTE));
    server.reads = false;
    let resumed = server.listen(&id, Some(&first));
    server.reads = true;
    server.advance(MINUTE);
    server.read(resumed, true);
    let before = seen(&server, resumed).len();
    assert!(server.reply(resumed).ended && (1..1000).contains(&before), "{before}");
    authorize(&mut server, None);
    let last = last_id(&server, resumed);
    let rest = server.listen(&id, Some(&last));
    assert_eq!(before + seen(&server, rest).len(), 1000);
}

#[test]
fn subscription_ends_without_a_result() {
    for late in [Late::Timeout, Late::No] {
        let mut config = full_server();
        config.settings.versions = VersionSet::ALL;
        let mut server = HttpServer::new(config);
        authorize(&mut server, Some(MINUTE));
        let filter = json!({"resourceSubscriptions": ["mem://1", "mem://2"]});
        let sent = server.send(modern(&json!(1), "subscriptions/listen", json!({"notifications": filter})));
        updated(&mut server, 1);
        let params = json!({"name": "t", "_meta": {"progressToken": 1}});
        let call = server.send(modern(&json!(2), "tools/call", params));
        let key = server.take_request();
        progress(&mut server, key, 1);
        pass(&mut server, MINUTE, late);
        updated(&mut server, 2);
        // The client subscribes again: a result would end the subscription for good.
        assert_eq!(seen(&server, sent), ["notifications/subscriptions/acknowledged", "1"], "{late:?}");
        assert!(server.reply(sent).ended && !server.reply(sent).aborted);
        assert_eq!(server.sessions.len(), 1);
        progress(&mut server, key, 2);
        server.respond(key, &json!({"content": []}));
        assert_eq!(seen(&server, call), ["1", "2", "response"], "it cannot be resumed");
        assert!(server.sessions.is_empty());
    }
}

#[test]
fn http_sse_session_ends_with_the_token_of_its_stream() {
    for late in [Late::Timeout, Late::No] {
        let mut server = HttpServer::new(full_server());
        authorize(&mut server, Some(MINUTE));
        let stream = server.send(get("/sse").body(Vec::new()).expect("a request"));
        let uri = server.reply(stream).events()[0].1.clone();
        authorize(&mut server, None);
        let post = |server: &mut HttpServer, message: Value| {
            let request = post(&uri).body(message.to_string().into_bytes()).expect("a request");
            server.request(request).status()
        };
        assert_eq!(post(&mut server, initialize("2024-11-05")), 202);
        assert_eq!(post(&mut server, json!({"jsonrpc": "2.0", "method": "notifications/initialized"})), 202);
        updated(&mut server, 1);
        pass(&mut server, MINUTE, late);
        updated(&mut server, 2);
        assert_eq!(seen(&server, stream), ["response", "1"], "{late:?}");
        assert!(server.reply(stream).ended && server.sessions.is_empty());
        assert!(matches!(server.take_events().last(), Some(Event::Closed(_))));
        assert_eq!(post(&mut server, json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})), 404);
    }
}
