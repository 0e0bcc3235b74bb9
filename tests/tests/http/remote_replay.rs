//! Sessions that began in another process, and streams that were sent there.

use std::time::Duration;

use http::Request;
use mcp_proto::{
    connection::{Event, SessionSnapshot},
    http::server::{ReplayChunk, ReplayRequest, Session},
    protocol::VersionSet,
    schema::{CreateMessageParams, LoggingLevel, SamplingMessage},
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, RequestRef, initialize, post},
};
use serde_json::json;

/// Returns a server that shares its sessions with other processes.
fn sharing() -> HttpServer {
    let mut server = HttpServer::new(full_server());
    server.endpoint.share();
    server
}

/// Begins a session at one server and adopts it at another one.
fn moved(version: &str) -> (HttpServer, HttpServer, String, SessionSnapshot) {
    let (mut here, mut there) = (sharing(), sharing());
    let id = here.begin(version);
    here.last_session().share();
    let snapshot = here.last_session().snapshot().expect("its handshake is over");
    adopt(&mut there, &id, 1, &snapshot);
    assert_eq!(there.take_events(), [Event::Ready]);
    (here, there, id, snapshot)
}

fn adopt(server: &mut HttpServer, id: &str, part: u32, snapshot: &SessionSnapshot) {
    let id = mcp_proto::http::SessionId::parse(id).expect("an id");
    let sessions = &mut server.sessions;
    let handle = 1000 + part as usize;
    let make = |session: Session| {
        sessions.insert(handle, session);
        handle
    };
    let (_, is_new) = server.endpoint.adopt(server.now, (&id, part), None, snapshot, make).expect("there is room");
    assert!(is_new);
    let again = server.endpoint.adopt(server.now, (&id, 99), None, snapshot, |_| panic!("it is there"));
    assert_eq!(again.expect("it is there"), (handle, false));
    server.settle();
}

fn fetch(server: &mut HttpServer) -> Option<ReplayRequest> {
    let session = server.last_session();
    let has_request = session.has_replay_request();
    let request = session.poll_replay_request();
    assert_eq!((has_request, session.has_replay_request()), (request.is_some(), false), "there is one at a time");
    request
}

/// Delivers the replayed messages of a stream.
fn found(server: &mut HttpServer, fetch: ReplayRequest, messages: &[u64], done: bool) {
    let messages = messages.iter().map(|seq| (*seq, json!({"n": seq}).to_string().into_bytes())).collect();
    let now = server.now;
    server.last_session().handle_replay(now, fetch.exchange, Some(&ReplayChunk { messages, done }));
    server.settle();
}

/// Returns the id and the number of each message of a stream.
fn received(server: &HttpServer, requested: RequestRef) -> Vec<(String, u64)> {
    let events = server.reply(requested).events().into_iter().filter(|(_, data, _)| !data.is_empty());
    events
        .map(|(_, data, id)| {
            (id, serde_json::from_str::<serde_json::Value>(&data).expect("JSON")["n"].as_u64().unwrap_or(0))
        })
        .collect()
}

#[test]
fn adopted_session_continues_in_another_process() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let (mut here, mut there, id, snapshot) = moved(version);
        assert!(snapshot.ready && snapshot.version.as_str() == version);
        let requested = there.send_message(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
        let key = there.take_request();
        there.respond(key, &json!({"tools": []}));
        assert_eq!(there.reply(requested).json()["id"], 1);
        // Requests from the other process have numbers of their own. A response to a request of the first process is
        // late there.
        let params = CreateMessageParams::new([SamplingMessage::user("who?")], 10_u64);
        for (server, first) in [(&mut here, 1_u64), (&mut there, (1 << 32) + 1)] {
            let listens = server.listen(&id, None);
            let now = server.now;
            let session = server.last_session();
            session.connection(now).request(now, &params, Default::default()).expect("the client has sampling");
            server.settle();
            assert_eq!(server.reply(listens).messages()[0]["id"], first);
        }
        let late = there.send_message(&id, &json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        assert_eq!(there.reply(late).status(), 202);
    }
}

#[test]
fn snapshot_applies_state_of_another_process() {
    let (mut here, mut there) = (sharing(), sharing());
    let reply = here.request(post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request"));
    let id = reply.header("mcp-session-id").expect("a session").to_owned();
    let snapshot = here.last_session().snapshot().expect("its handshake is over");
    assert!(!snapshot.ready);
    adopt(&mut there, &id, 1, &snapshot);
    assert_eq!(there.take_events(), []);
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let requested = there.send_message(&id, &ready);
    assert_eq!((there.reply(requested).status(), there.take_events()), (202, vec![Event::Ready]));
    let mut snapshot = there.last_session().snapshot().expect("it stands");
    snapshot.log_level = Some(LoggingLevel::Alert);
    here.take_events();
    for expected in [vec![Event::Ready], vec![]] {
        let now = here.now;
        here.last_session().apply_snapshot(now, &snapshot);
        here.settle();
        assert_eq!(here.take_events(), expected);
        assert_eq!(here.last_session().mutable_state(), Some((true, Some(LoggingLevel::Alert))));
    }
    // A session cannot continue in a revision that the server does not serve.
    let mut config = full_server();
    config.settings.versions = VersionSet::only(mcp_proto::protocol::ProtocolVersion::V2025_03_26);
    let mut other = HttpServer::new(config);
    let id = mcp_proto::http::SessionId::parse(&id).expect("an id");
    let refused = other.endpoint.adopt(other.now, (&id, 1), None, &snapshot, |_| 1).expect_err("it is not served");
    assert_eq!(refused.status(), 404);
}

#[test]
fn foreign_stream_is_replayed_until_its_end() {
    let (_, mut server, id, _) = moved("2025-11-25");
    let requested = server.listen(&id, Some("7-2"));
    let first = fetch(&mut server).expect("it is wanted");
    assert_eq!((first.stream, first.after, first.waits), (7, 2, false));
    assert_eq!(fetch(&mut server), None, "it is wanted once");
    assert!(server.reply(requested).head.is_none(), "its client may need scopes");
    found(&mut server, first, &[3, 4], false);
    let reply = server.reply(requested);
    assert_eq!((reply.status(), reply.ended), (200, false));
    assert_eq!(received(&server, requested), [("7-3".to_owned(), 3), ("7-4".to_owned(), 4)]);
    let second = fetch(&mut server).expect("what follows is wanted");
    assert_eq!((second.exchange, second.after, second.waits), (first.exchange, 4, true));
    // A waiting client gets keepalive comments.
    let before = server.reply(requested).body.len();
    server.advance(Duration::from_secs(20));
    assert!(server.reply(requested).body.len() > before);
    found(&mut server, second, &[], false);
    let third = fetch(&mut server).expect("it is wanted still");
    found(&mut server, third, &[5], true);
    assert_eq!(received(&server, requested).last(), Some(&("7-5".to_owned(), 5)));
    assert!(server.reply(requested).ended);
    assert_eq!(fetch(&mut server), None);
    server.assert_idle();
}

#[test]
fn replay_without_the_next_message_is_refused() {
    for messages in [vec![4], vec![2], vec![3, 5], vec![3, 3]] {
        let (_, mut server, id, _) = moved("2025-11-25");
        let requested = server.listen(&id, Some("7-2"));
        let wanted = fetch(&mut server).expect("it is wanted");
        found(&mut server, wanted, &messages, false);
        assert!(server.reply(requested).ended, "{messages:?}");
        let is_begun = messages[0] == 3;
        let reply = server.reply(requested);
        assert_eq!(reply.status(), if is_begun { 200 } else { 400 }, "{messages:?}");
        if is_begun {
            assert_eq!(received(&server, requested), [("7-3".to_owned(), 3)], "{messages:?}");
            assert!(String::from_utf8_lossy(&reply.body).contains("retry: "), "its client may come back");
            // It is refused then, so that it does not come back for ever.
            let requested = server.listen(&id, Some("7-3"));
            let wanted = fetch(&mut server).expect("it is wanted");
            found(&mut server, wanted, &messages[1..], false);
            assert_eq!((server.reply(requested).status(), server.reply(requested).ended), (400, true), "{messages:?}");
        }
        server.assert_idle();
    }
    // A message that is missing while the client waits ends the stream.
    let (_, mut server, id, _) = moved("2025-11-25");
    let requested = server.listen(&id, Some("7-2"));
    for (messages, is_over) in [([3], false), ([5], true)] {
        let wanted = fetch(&mut server).expect("it is wanted");
        found(&mut server, wanted, &messages, false);
        assert_eq!(server.reply(requested).ended, is_over);
    }
    assert_eq!((server.reply(requested).status(), received(&server, requested).len()), (200, 1));
    server.assert_idle();
}

#[test]
fn replay_that_fails_ends_the_stream() {
    // A stream that cannot be replayed ends, and so does one whose client has disconnected.
    let (_, mut server, id, _) = moved("2025-11-25");
    let requested = server.listen(&id, Some("7-2"));
    let wanted = fetch(&mut server).expect("it is wanted");
    let now = server.now;
    server.last_session().handle_replay(now, wanted.exchange, None);
    server.settle();
    assert!(server.reply(requested).ended);
    let requested = server.listen(&id, Some("7-2"));
    let wanted = fetch(&mut server).expect("it is wanted");
    server.disconnect(requested);
    assert!(!server.last_session().follows(wanted.exchange));
    found(&mut server, wanted, &[3], true);
    server.assert_idle();
}

#[test]
fn replay_of_a_lost_stream_is_refused() {
    let (_, mut server, id, _) = moved("2025-11-25");
    let asked = server.listen(&id, Some("7-2"));
    let wanted = fetch(&mut server).expect("it is wanted");
    let now = server.now;
    server.last_session().end_replay(now, wanted.exchange);
    server.settle();
    assert_eq!(server.reply(asked).head.as_ref().map(|head| head.status.as_u16()), Some(400));
    assert!(server.reply(asked).ended);
    // The rest is lost after the first messages: the client comes back, and is refused then.
    let asked = server.listen(&id, Some("7-2"));
    let wanted = fetch(&mut server).expect("it is wanted");
    found(&mut server, wanted, &[3], false);
    let wanted = fetch(&mut server).expect("more is wanted");
    assert!(wanted.waits);
    let now = server.now;
    server.last_session().end_replay(now, wanted.exchange);
    server.settle();
    assert_eq!((received(&server, asked).len(), server.reply(asked).ended), (1, true));
    assert!(String::from_utf8_lossy(&server.reply(asked).body).contains("retry: "), "its client may come back");
    // An exchange that has ended is not ended again.
    let now = server.now;
    server.last_session().end_replay(now, wanted.exchange);
    server.settle();
    server.assert_idle();
}

#[test]
fn foreign_session_stream_continues_locally() {
    let (_, mut server, id, _) = moved("2025-11-25");
    let requested = server.listen(&id, Some("g3-1"));
    let wanted = fetch(&mut server).expect("it is wanted");
    assert_eq!((wanted.stream, wanted.after, wanted.waits), (3, 1, false));
    found(&mut server, wanted, &[2], false);
    assert_eq!((received(&server, requested), fetch(&mut server)), (vec![("g3-2".to_owned(), 2)], None));
    // New messages are sent from this process.
    let changed = mcp_proto::schema::ToolsListChangedParams::default();
    let now = server.now;
    server.last_session().connection(now).notify(&changed).expect("it was declared");
    server.settle();
    assert_eq!(received(&server, requested).last(), Some(&(format!("g{}-1", (1_u64 << 32) + 1), 0)));
}

#[test]
fn unshared_endpoints_reject_foreign_event_ids() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    for last in ["7-2", "4294967297-1", "g4294967297-1"] {
        let requested = server.listen(&id, Some(last));
        assert_eq!(server.reply(requested).status(), 400, "{last}");
    }
    assert_eq!(fetch(&mut server), None);
    let unknown = Request::get("/mcp")
        .header("host", "localhost")
        .header("accept", "*/*")
        .header("mcp-session-id", "A".repeat(32));
    let (head, ()) = unknown.body(()).expect("a request").into_parts();
    let refused = server.endpoint.begin(&head, server.caller.clone()).expect_err("it is nowhere");
    assert_eq!(refused.status(), 404);
    // A driver looks up the session in the store first. If the store does not contain it either, it does not exist.
    let mut server = sharing();
    let reader = server.endpoint.begin(&head, server.caller.clone()).expect("it may be elsewhere");
    assert!(reader.session().is_some() && reader.lost().status() == 404);
    let (mut head, ()) = Request::get("/mcp")
        .header("host", "localhost")
        .header("accept", "*/*")
        .body(())
        .expect("a request")
        .into_parts();
    head.headers.insert("mcp-session-id", http::HeaderValue::from_static("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
    assert_eq!(server.request(Request::from_parts(head, Vec::new())).status(), 404);
}

fn ping() -> serde_json::Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
}

/// A process looks up a session in the store before it reads the body of a request. The session counts as used from
/// then on.
#[test]
fn applying_a_snapshot_delays_session_expiry() {
    let (mut here, _, id, snapshot) = moved("2025-11-25");
    here.advance(Duration::from_secs(30 * 60 - 5));
    let now = here.now;
    here.last_session().apply_snapshot(now, &snapshot);
    here.advance(Duration::from_secs(20));
    assert_eq!(here.sessions.len(), 1);
    let requested = here.send_message(&id, &ping());
    assert_eq!(here.reply(requested).json()["result"], json!({}));
    // The session still expires when it is idle.
    here.advance(Duration::from_secs(30 * 60 + 1));
    assert_eq!(here.sessions.len(), 0);
}

#[test]
fn closed_part_of_a_shared_session_returns_503() {
    let (mut here, _, id, _) = moved("2025-11-25");
    let (head, body) = here.in_session(&id, &ping()).into_parts();
    let key = mcp_proto::http::SessionId::parse(&id).expect("an id");
    let request = |server: &mut HttpServer| {
        let mut reader = server.endpoint.begin(&head, server.caller.clone()).expect("it is known");
        reader.feed(&body).expect("it is short");
        reader.end().expect("it is a message")
    };
    // The session is removed between the head and the body of the request.
    let late = request(&mut here);
    let mut requested = request(&mut here);
    let handle = here.endpoint.route(here.now, &requested, [0; 24], |_| panic!("it is there")).expect("it is there");
    here.endpoint.remove(&key);
    let now = here.now;
    let refused =
        here.endpoint.route(now, &late, [0; 24], |_| panic!("it begins nothing")).expect_err("it is not here");
    assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
    // The session ends before the request is delivered to it.
    let session = here.sessions.get_mut(&handle).expect("it is there");
    session.evict(now);
    let refused = session.open(now, &mut requested).expect_err("it is over");
    assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
    // An endpoint that shares nothing reports that the session does not exist.
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let (head, body) = server.in_session(&id, &ping()).into_parts();
    let mut reader = server.endpoint.begin(&head, server.caller.clone()).expect("it is known");
    reader.feed(&body).expect("it is short");
    let mut requested = reader.end().expect("it is a message");
    let now = server.now;
    server.last_session().evict(now);
    assert_eq!(server.last_session().open(now, &mut requested).expect_err("it is over").status(), 404);
    server.endpoint.remove(&mcp_proto::http::SessionId::parse(&id).expect("an id"));
    let refused =
        server.endpoint.route(now, &requested, [0; 24], |_| panic!("it begins nothing")).expect_err("it is not here");
    assert_eq!(refused.status(), 404);
}
