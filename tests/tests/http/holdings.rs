//! What a session says that it holds, and what it drops when it is ended for holding too much.

use std::time::Duration;

use http::Request;
use mcp_proto::{
    connection::{Event, SendError, ServerConfig, SessionSnapshot},
    http::{
        Policy, SessionId,
        server::{EndpointOptions, ResourceUsage, Session},
    },
    protocol::VersionSet,
    rpc::ReplyKey,
    schema::ResourceUpdatedParams,
    wire::{Json, RawJson},
};
use mcp_tests::{
    solo::full_server,
    web::{Asked, Web, get, initialize, modern, post},
};
use serde_json::{Value, json};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn both_eras() -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    config
}

/// Calls a tool whose progress is reported, and reads nothing of the answer.
fn unread_call(web: &mut Web, call: impl FnOnce(&mut Web, Value) -> Asked) -> (Asked, usize, ReplyKey) {
    web.reads = false;
    let asked = call(web, json!({"name": "t", "_meta": {"progressToken": 1}}));
    web.reads = true;
    let (session, key) = web.asked();
    (asked, session, key)
}

/// Reports progress with so much text. Returns whether there was room.
fn report(web: &mut Web, (session, key): (usize, ReplyKey), step: u32, bytes: usize) -> Result<(), SendError> {
    let now = web.now;
    let session = web.sessions.get_mut(&session).expect("it is open");
    let reported = session.connection(now).progress(key, step.into(), None, Some(&"x".repeat(bytes)));
    web.settle();
    reported
}

fn respond(web: &mut Web, (session, key): (usize, ReplyKey), bytes: usize) {
    let now = web.now;
    let result = Json::new(&json!({"content": [], "x": "x".repeat(bytes)})).expect("JSON");
    let session = web.sessions.get_mut(&session).expect("it is open");
    session.connection(now).respond_raw(key, &RawJson::from(&result)).expect("an answer is owed");
    web.settle();
}

fn usage(web: &Web, session: usize) -> ResourceUsage {
    web.sessions.get(&session).expect("it is open").usage()
}

fn held(web: &Web, session: usize) -> usize {
    web.sessions.get(&session).expect("it is open").held_bytes()
}

/// A request of 2026-07-28 has one exchange. What that has no room for waits in the connection, and is counted there.
#[test]
fn messages_that_wait_in_the_connection_are_counted() {
    let mut web = Web::new(both_eras());
    let (_, session, key) = unread_call(&mut web, |web, params| web.send(modern(&json!(1), "tools/call", params)));
    let mut reported = 0;
    while report(&mut web, (session, key), u32::try_from(reported).expect("few"), 256 * KIB).is_ok() {
        reported += 1;
    }
    assert!(reported * 256 * KIB > 32 * MIB, "{reported} messages were taken");
    let held = held(&web, session);
    assert!(held >= reported * 256 * KIB, "{held} bytes for {reported} messages of 256 KiB");
}

/// Answers of a batch (2025-03-26) wait for the last of them.
#[test]
fn answers_that_wait_for_their_batch_are_counted() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-03-26");
    let call = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}});
    web.say(&id, &json!([call(1), call(2)]));
    let events = std::mem::take(&mut web.events);
    let key = |(session, event): &(usize, Event<'static>)| match event {
        Event::Request { key, .. } => Some((*session, *key)),
        _ => None,
    };
    let keys: Vec<_> = events.iter().filter_map(key).collect();
    respond(&mut web, keys[0], MIB);
    let before = held(&web, keys[0].0);
    assert!(before > MIB, "{before} bytes for an answer of 1 MiB");
    respond(&mut web, keys[1], 1);
    assert!(held(&web, keys[0].0) < KIB);
}

#[test]
fn messages_that_wait_for_a_stream_are_counted() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let now = web.now;
    let params = ResourceUpdatedParams::new(format!("mem://{}", "x".repeat(100 * KIB)));
    for _ in 0..3 {
        web.named(&id).expect("it is open").connection(now).notify(&params).expect("there is room");
        web.settle();
    }
    let held = web.named(&id).expect("it is open").held_bytes();
    assert!(held > 300 * KIB, "{held} bytes for three messages of 100 KiB");
    web.listen(&id, None);
    assert!(web.named(&id).expect("it is open").held_bytes() < KIB);
}

/// `initialize` of a client that says much of itself.
fn large_initialize(version: &str) -> Value {
    let mut message = initialize(version);
    message["params"]["clientInfo"]["title"] = json!("x".repeat(MIB));
    message
}

fn described(web: &mut Web) -> usize {
    web.settle();
    web.last_session().described_bytes()
}

/// The params of `initialize` are kept as long as the session is, whichever way that was begun.
#[test]
fn what_is_kept_of_initialize_is_counted() {
    let body = |version| large_initialize(version).to_string().into_bytes();
    let post_to = |path: &str, version| -> Request<Vec<u8>> { post(path).body(body(version)).expect("a request") };
    let within = |bytes: usize| assert!((MIB..MIB + 8 * KIB).contains(&bytes), "{bytes}");

    let mut web = Web::new(full_server());
    web.ask(post_to("/mcp", "2025-11-25"));
    within(described(&mut web));
    let snapshot: SessionSnapshot = web.last_session().snapshot().expect("its handshake is over");

    let mut there = Web::new(full_server());
    there.endpoint.share();
    let id = SessionId::parse("0123456789abcdef0123456789abcdef").expect("an id");
    let sessions = &mut there.sessions;
    let make = |session: Session| {
        sessions.insert(1, session);
        1
    };
    there.endpoint.adopt(there.now, (&id, 1), None, &snapshot, make).expect("there is room");
    within(described(&mut there));

    let mut old = Web::new(full_server());
    let stream = old.send(get("/sse").body(Vec::new()).expect("a request"));
    let endpoint = old.reply(stream).events().remove(0).1;
    old.ask(post_to(&endpoint, "2024-11-05"));
    old.read(stream, true);
    within(described(&mut old));

    // A member without a meaning is kept as text, and counts as that however many elements it has.
    let mut vain = Web::new(full_server());
    let mut message = initialize("2025-11-25");
    message["params"]["x"] = json!(vec![0; 50 * KIB]);
    vain.ask(post("/mcp").body(message.to_string().into_bytes()).expect("a request"));
    let bytes = described(&mut vain);
    assert!((100 * KIB..101 * KIB).contains(&bytes), "{bytes}");

    // A text keeps the space in which it was written.
    let mut escaped = Web::new(full_server());
    let written = initialize("2025-11-25")
        .to_string()
        .replace("\"name\":\"", &format!("\"name\":\"{}", "\\u0041".repeat(20 * KIB)));
    escaped.ask(post("/mcp").body(written.into_bytes()).expect("a request"));
    let bytes = described(&mut escaped);
    assert!((120 * KIB..121 * KIB).contains(&bytes), "{bytes}");

    let mut small = Web::new(full_server());
    small.begin("2025-11-25");
    assert!(described(&mut small) < KIB);
}

/// An answer whose head has not left becomes 503, a stream that has begun breaks off, and nothing is left of either, nor of
/// what was kept to be sent again.
#[test]
fn a_session_that_is_aborted_drops_what_it_holds() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let call = |number: u64| {
        let id = id.clone();
        move |web: &mut Web, params: Value| {
            web.say(&id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}))
        }
    };
    let (whole, session, key) = unread_call(&mut web, call(1));
    respond(&mut web, (session, key), MIB);
    let (stream, _, key) = unread_call(&mut web, call(2));
    report(&mut web, (session, key), 1, MIB).expect("there is room");
    assert!(web.read_once(stream), "the head is taken");
    let before = usage(&web, session);
    assert!(before.queued_bytes > 2 * MIB && before.replay_bytes > MIB, "{before:?}");
    let now = web.now;
    web.sessions.get_mut(&session).expect("it is open").abort(now, "it holds too much");
    let after = usage(&web, session);
    assert_eq!((after.queued_bytes, after.replay_bytes, after.replay), (0, 0, 0));
    assert!(held(&web, session) < KIB);
    for asked in [whole, stream] {
        web.read(asked, true);
    }
    assert_eq!((web.reply(whole).status(), web.reply(whole).body.len()), (503, 0));
    assert!(web.reply(stream).aborted, "{:?}", web.reply(stream).head);
    assert!(!web.sessions.contains_key(&session), "it is over");
}

/// A session goes on without the messages that are kept to be sent again.
#[test]
fn a_replay_that_is_dropped_is_missing_and_ends_nothing() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let (asked, session, key) = unread_call(&mut web, |web, params| {
        web.say(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    });
    web.read(asked, true);
    report(&mut web, (session, key), 1, 10).expect("there is room");
    web.read(asked, true);
    let last = web.reply(asked).events().pop().expect("an event").2;
    web.hang_up(asked);
    report(&mut web, (session, key), 2, 10).expect("there is room");
    let held = web.sessions.get_mut(&session).expect("it is open");
    held.forget_replay();
    assert_eq!((held.usage().replay, held.usage().replay_bytes), (0, 0));
    report(&mut web, (session, key), 3, 10).expect("there is room");
    respond(&mut web, (session, key), 1);
    let again = web.listen(&id, Some(&last));
    web.advance(Duration::from_millis(1));
    let text = String::from_utf8_lossy(&web.reply(again).body).into_owned();
    assert!(text.contains("1 message is not kept any more"), "{text}");
    let messages = web.reply(again).messages();
    assert_eq!((&messages[0]["params"]["progress"], &messages[1]["id"]), (&json!(3), &json!(1)), "{messages:?}");
}

/// A small request takes more than its length: the tables that it is in, until its handler has answered it.
#[test]
fn small_requests_in_flight_are_bounded_by_what_they_take() {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.request_bytes = 256 * KIB;
    let mut web = Web::with(full_server(), options);
    let id = web.begin("2025-11-25");
    for number in 1..1000_u64 {
        let asked =
            web.say(&id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "t"}}));
        // Its client does not wait for it.
        web.hang_up(asked);
    }
    let requests = web.named(&id).expect("it is open").view().usage().requests;
    assert!((150..250).contains(&requests), "{requests} requests with room for 256 KiB");
}
