//! Sessions that were begun elsewhere, and streams that were sent there.

use std::time::Duration;

use http::Request;
use mcp_proto::{
    connection::{Event, SessionSnapshot},
    http::server::{ReplayChunk, ReplayRequest, Session},
    protocol::VersionSet,
    schema::{CreateMessageParams, LoggingLevel, SamplingMessage},
};
use mcp_tests::{
    solo::full_server,
    web::{Asked, Web, initialize, post},
};
use serde_json::json;

/// A server whose sessions may be elsewhere.
fn sharing() -> Web {
    let mut web = Web::new(full_server());
    web.endpoint.share();
    web
}

/// Begins a session at one server, and has another one go on with it.
fn moved(version: &str) -> (Web, Web, String, SessionSnapshot) {
    let (mut here, mut there) = (sharing(), sharing());
    let id = here.begin(version);
    here.last_session().share();
    let snapshot = here.last_session().snapshot().expect("its handshake is over");
    adopt(&mut there, &id, 1, &snapshot);
    assert_eq!(there.take_events(), [Event::Ready]);
    (here, there, id, snapshot)
}

fn adopt(web: &mut Web, id: &str, part: u32, snapshot: &SessionSnapshot) {
    let id = mcp_proto::http::SessionId::parse(id).expect("an id");
    let sessions = &mut web.sessions;
    let handle = 1000 + part as usize;
    let make = |session: Session| {
        sessions.insert(handle, session);
        handle
    };
    let (_, is_new) = web.endpoint.adopt(web.now, (&id, part), None, snapshot, make).expect("there is room");
    assert!(is_new);
    let again = web.endpoint.adopt(web.now, (&id, 99), None, snapshot, |_| panic!("it is there"));
    assert_eq!(again.expect("it is there"), (handle, false));
    web.settle();
}

fn fetch(web: &mut Web) -> Option<ReplayRequest> {
    web.last_session().poll_replay_request()
}

/// Brings what was found of a stream.
fn found(web: &mut Web, fetch: ReplayRequest, messages: &[u64], done: bool) {
    let messages = messages.iter().map(|seq| (*seq, json!({"n": seq}).to_string().into_bytes())).collect();
    let now = web.now;
    web.last_session().handle_replay(now, fetch.exchange, Some(&ReplayChunk { messages, done }));
    web.settle();
}

/// What has come of a stream: the id and number of each message.
fn heard(web: &Web, asked: Asked) -> Vec<(String, u64)> {
    let events = web.reply(asked).events().into_iter().filter(|(_, data, _)| !data.is_empty());
    events
        .map(|(_, data, id)| {
            (id, serde_json::from_str::<serde_json::Value>(&data).expect("JSON")["n"].as_u64().unwrap_or(0))
        })
        .collect()
}

#[test]
fn a_session_goes_on_elsewhere_as_it_stands() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let (mut here, mut there, id, snapshot) = moved(version);
        assert!(snapshot.ready && snapshot.version.as_str() == version);
        let asked = there.say(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
        let key = there.asked();
        there.answer(key, &json!({"tools": []}));
        assert_eq!(there.reply(asked).json()["id"], 1);
        // What is asked from there has a number of its own, and an answer to what was asked here is late there.
        let params = CreateMessageParams::new([SamplingMessage::user("who?")], 10_u64);
        for (web, first) in [(&mut here, 1_u64), (&mut there, (1 << 32) + 1)] {
            let listens = web.listen(&id, None);
            let now = web.now;
            let session = web.last_session();
            session.connection(now).request(now, &params, Default::default()).expect("the client has sampling");
            web.settle();
            assert_eq!(web.reply(listens).messages()[0]["id"], first);
        }
        let late = there.say(&id, &json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        assert_eq!(there.reply(late).status(), 202);
    }
}

#[test]
fn what_is_said_elsewhere_is_caught_up_with() {
    let (mut here, mut there) = (sharing(), sharing());
    let reply = here.ask(post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request"));
    let id = reply.header("mcp-session-id").expect("a session").to_owned();
    let snapshot = here.last_session().snapshot().expect("its handshake is over");
    assert!(!snapshot.ready);
    adopt(&mut there, &id, 1, &snapshot);
    assert_eq!(there.take_events(), []);
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let asked = there.say(&id, &ready);
    assert_eq!((there.reply(asked).status(), there.take_events()), (202, vec![Event::Ready]));
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
    // A revision that is not served is none that a session can go on in.
    let mut config = full_server();
    config.settings.versions = VersionSet::only(mcp_proto::protocol::ProtocolVersion::V2025_03_26);
    let mut other = Web::new(config);
    let id = mcp_proto::http::SessionId::parse(&id).expect("an id");
    let refused = other.endpoint.adopt(other.now, (&id, 1), None, &snapshot, |_| 1).expect_err("it is not served");
    assert_eq!(refused.status(), 404);
}

#[test]
fn a_stream_that_was_sent_elsewhere_is_asked_for_until_its_end() {
    let (_, mut web, id, _) = moved("2025-11-25");
    let asked = web.listen(&id, Some("7-2"));
    let reply = web.reply(asked);
    assert_eq!((reply.status(), reply.ended), (200, false));
    let first = fetch(&mut web).expect("it is wanted");
    assert_eq!((first.stream, first.after, first.waits), (7, 2, true));
    assert_eq!(fetch(&mut web), None, "it is wanted once");
    found(&mut web, first, &[3, 4], false);
    assert_eq!(heard(&web, asked), [("7-3".to_owned(), 3), ("7-4".to_owned(), 4)]);
    let second = fetch(&mut web).expect("what follows is wanted");
    assert_eq!((second.exchange, second.after), (first.exchange, 4));
    // A waiting client gets an answer.
    let before = web.reply(asked).body.len();
    web.advance(Duration::from_secs(20));
    assert!(web.reply(asked).body.len() > before);
    found(&mut web, second, &[], false);
    let third = fetch(&mut web).expect("it is wanted still");
    found(&mut web, third, &[5], true);
    assert_eq!(heard(&web, asked).last(), Some(&("7-5".to_owned(), 5)));
    assert!(web.reply(asked).ended);
    assert_eq!(fetch(&mut web), None);
    web.assert_at_rest();
}

#[test]
fn a_stream_of_which_something_is_missing_ends() {
    for (messages, whole) in [(vec![4], 0), (vec![3, 5], 1), (vec![3, 3], 1), (vec![2], 0)] {
        let (_, mut web, id, _) = moved("2025-11-25");
        let asked = web.listen(&id, Some("7-2"));
        let wanted = fetch(&mut web).expect("it is wanted");
        found(&mut web, wanted, &messages, false);
        assert!(web.reply(asked).ended, "{messages:?}");
        assert_eq!(heard(&web, asked).len(), whole, "{messages:?}");
        assert!(String::from_utf8_lossy(&web.reply(asked).body).contains("retry: "), "its client may come back");
        web.assert_at_rest();
    }
    // As does one that cannot be asked for, and one whose client has left.
    let (_, mut web, id, _) = moved("2025-11-25");
    let asked = web.listen(&id, Some("7-2"));
    let wanted = fetch(&mut web).expect("it is wanted");
    let now = web.now;
    web.last_session().handle_replay(now, wanted.exchange, None);
    web.settle();
    assert!(web.reply(asked).ended);
    let asked = web.listen(&id, Some("7-2"));
    let wanted = fetch(&mut web).expect("it is wanted");
    web.hang_up(asked);
    assert!(!web.last_session().follows(wanted.exchange));
    found(&mut web, wanted, &[3], true);
    web.assert_at_rest();
}

#[test]
fn what_belonged_to_no_request_goes_on_here() {
    let (_, mut web, id, _) = moved("2025-11-25");
    let asked = web.listen(&id, Some("g3-1"));
    let wanted = fetch(&mut web).expect("it is wanted");
    assert_eq!((wanted.stream, wanted.after, wanted.waits), (3, 1, false));
    found(&mut web, wanted, &[2], false);
    assert_eq!((heard(&web, asked), fetch(&mut web)), (vec![("g3-2".to_owned(), 2)], None));
    // What is said from now on is said here.
    let changed = mcp_proto::schema::ToolsListChangedParams::default();
    let now = web.now;
    web.last_session().connection(now).notify(&changed).expect("it was declared");
    web.settle();
    assert_eq!(heard(&web, asked).last(), Some(&(format!("g{}-1", (1_u64 << 32) + 1), 0)));
}

#[test]
fn nothing_is_elsewhere_where_nothing_is_shared() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    for last in ["7-2", "4294967297-1", "g4294967297-1"] {
        let asked = web.listen(&id, Some(last));
        assert_eq!(web.reply(asked).status(), 400, "{last}");
    }
    assert_eq!(fetch(&mut web), None);
    let unknown = Request::get("/mcp")
        .header("host", "localhost")
        .header("accept", "*/*")
        .header("mcp-session-id", "A".repeat(32));
    let (head, ()) = unknown.body(()).expect("a request").into_parts();
    let refused = web.endpoint.begin(&head, web.caller.clone()).expect_err("it is nowhere");
    assert_eq!(refused.status(), 404);
    // Where there may be others, a driver looks first; and if none does, it is nowhere as well.
    let mut web = sharing();
    let reader = web.endpoint.begin(&head, web.caller.clone()).expect("it may be elsewhere");
    assert!(reader.session().is_some() && reader.lost().status() == 404);
    let (mut head, ()) = Request::get("/mcp")
        .header("host", "localhost")
        .header("accept", "*/*")
        .body(())
        .expect("a request")
        .into_parts();
    head.headers.insert("mcp-session-id", http::HeaderValue::from_static("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
    assert_eq!(web.ask(Request::from_parts(head, Vec::new())).status(), 404);
}

fn ping() -> serde_json::Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
}

/// A process asks the store about a session before it reads the body of a request, and so the session is used from then on.
#[test]
fn a_session_that_is_caught_up_with_does_not_expire_before_its_request_has_come() {
    let (mut here, _, id, snapshot) = moved("2025-11-25");
    here.advance(Duration::from_secs(30 * 60 - 5));
    let now = here.now;
    here.last_session().apply_snapshot(now, &snapshot);
    here.advance(Duration::from_secs(20));
    assert_eq!(here.sessions.len(), 1);
    let asked = here.say(&id, &ping());
    assert_eq!(here.reply(asked).json()["result"], json!({}));
    // It ends when it is not used all the same.
    here.advance(Duration::from_secs(30 * 60 + 1));
    assert_eq!(here.sessions.len(), 0);
}

#[test]
fn a_shared_session_that_ends_here_is_not_said_to_be_gone() {
    let (mut here, _, id, _) = moved("2025-11-25");
    let (head, body) = here.in_session(&id, &ping()).into_parts();
    let key = mcp_proto::http::SessionId::parse(&id).expect("an id");
    let request = |web: &mut Web| {
        let mut reader = web.endpoint.begin(&head, web.caller.clone()).expect("it is known");
        reader.feed(&body).expect("it is short");
        reader.end().expect("it is a message")
    };
    // Between its head and its body, it has given way to another one.
    let late = request(&mut here);
    let mut asked = request(&mut here);
    let handle = here.endpoint.route(here.now, &asked, [0; 24], |_| panic!("it is there")).expect("it is there");
    here.endpoint.forget(&key);
    let now = here.now;
    let refused =
        here.endpoint.route(now, &late, [0; 24], |_| panic!("it begins nothing")).expect_err("it is not here");
    assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
    // Or before it was brought there.
    let session = here.sessions.get_mut(&handle).expect("it is there");
    session.give_up(now);
    let refused = session.open(now, &mut asked).expect_err("it is over");
    assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
    // Where nothing is shared, it is gone.
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let (head, body) = web.in_session(&id, &ping()).into_parts();
    let mut reader = web.endpoint.begin(&head, web.caller.clone()).expect("it is known");
    reader.feed(&body).expect("it is short");
    let mut asked = reader.end().expect("it is a message");
    let now = web.now;
    web.last_session().give_up(now);
    assert_eq!(web.last_session().open(now, &mut asked).expect_err("it is over").status(), 404);
    web.endpoint.forget(&mcp_proto::http::SessionId::parse(&id).expect("an id"));
    let refused =
        web.endpoint.route(now, &asked, [0; 24], |_| panic!("it begins nothing")).expect_err("it is not here");
    assert_eq!(refused.status(), 404);
}
