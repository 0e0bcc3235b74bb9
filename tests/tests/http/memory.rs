//! The memory that a session reports, and what it frees when it is aborted for using too much.

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
    harness::full_server,
    http_server::{HttpServer, RequestRef, get, initialize, modern, post},
};
use serde_json::{Value, json};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn both_eras() -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    config
}

/// Calls a tool with progress, and does not read the response.
fn unread_call(
    server: &mut HttpServer,
    call: impl FnOnce(&mut HttpServer, Value) -> RequestRef,
) -> (RequestRef, usize, ReplyKey) {
    server.reads = false;
    let requested = call(server, json!({"name": "t", "_meta": {"progressToken": 1}}));
    server.reads = true;
    let (session, key) = server.take_request();
    (requested, session, key)
}

/// Reports progress with a message of `bytes` bytes.
fn report(
    server: &mut HttpServer,
    (session, key): (usize, ReplyKey),
    step: u32,
    bytes: usize,
) -> Result<(), SendError> {
    let now = server.now;
    let session = server.sessions.get_mut(&session).expect("it is open");
    let reported = session.connection(now).progress(key, step.into(), None, Some(&"x".repeat(bytes)));
    server.settle();
    reported
}

fn respond(server: &mut HttpServer, (session, key): (usize, ReplyKey), bytes: usize) {
    let now = server.now;
    let result = Json::new(&json!({"content": [], "x": "x".repeat(bytes)})).expect("JSON");
    let session = server.sessions.get_mut(&session).expect("it is open");
    session.connection(now).respond_raw(key, &RawJson::from(&result)).expect("an answer is owed");
    server.settle();
}

fn usage(server: &HttpServer, session: usize) -> ResourceUsage {
    server.sessions.get(&session).expect("it is open").usage()
}

fn held(server: &HttpServer, session: usize) -> usize {
    server.sessions.get(&session).expect("it is open").held_bytes()
}

/// A request of 2026-07-28 has one exchange. Messages that do not fit there wait in the connection and are counted
/// there.
#[test]
fn counts_messages_queued_in_the_connection() {
    let mut server = HttpServer::new(both_eras());
    let (_, session, key) =
        unread_call(&mut server, |server, params| server.send(modern(&json!(1), "tools/call", params)));
    let mut reported = 0;
    while report(&mut server, (session, key), u32::try_from(reported).expect("few"), 256 * KIB).is_ok() {
        reported += 1;
    }
    assert!(reported * 256 * KIB > 32 * MIB, "{reported} messages were taken");
    let held = held(&server, session);
    assert!(held >= reported * 256 * KIB, "{held} bytes for {reported} messages of 256 KiB");
}

/// The responses of a batch (2025-03-26) wait for the last one.
#[test]
fn counts_responses_queued_for_a_batch() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-03-26");
    let call = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}});
    server.send_message(&id, &json!([call(1), call(2)]));
    let events = std::mem::take(&mut server.events);
    let key = |(session, event): &(usize, Event<'static>)| match event {
        Event::Request { key, .. } => Some((*session, *key)),
        _ => None,
    };
    let keys: Vec<_> = events.iter().filter_map(key).collect();
    respond(&mut server, keys[0], MIB);
    let before = held(&server, keys[0].0);
    assert!(before > MIB, "{before} bytes for an answer of 1 MiB");
    respond(&mut server, keys[1], 1);
    assert!(held(&server, keys[0].0) < KIB);
}

#[test]
fn counts_messages_queued_for_a_stream() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let now = server.now;
    let params = ResourceUpdatedParams::new(format!("mem://{}", "x".repeat(100 * KIB)));
    for _ in 0..3 {
        server.session(&id).expect("it is open").connection(now).notify(&params).expect("there is room");
        server.settle();
    }
    let held = server.session(&id).expect("it is open").held_bytes();
    assert!(held > 300 * KIB, "{held} bytes for three messages of 100 KiB");
    server.listen(&id, None);
    assert!(server.session(&id).expect("it is open").held_bytes() < KIB);
}

/// Returns an `initialize` with large client information.
fn large_initialize(version: &str) -> Value {
    let mut message = initialize(version);
    message["params"]["clientInfo"]["title"] = json!("x".repeat(MIB));
    message
}

fn described(server: &mut HttpServer) -> usize {
    server.settle();
    server.last_session().described_bytes()
}

/// The params of `initialize` are kept as long as the session, on every way to begin one.
#[test]
fn counts_retained_initialize_params() {
    let body = |version| large_initialize(version).to_string().into_bytes();
    let post_to = |path: &str, version| -> Request<Vec<u8>> { post(path).body(body(version)).expect("a request") };
    let within = |bytes: usize| assert!((MIB..MIB + 8 * KIB).contains(&bytes), "{bytes}");

    let mut server = HttpServer::new(full_server());
    server.request(post_to("/mcp", "2025-11-25"));
    within(described(&mut server));
    let snapshot: SessionSnapshot = server.last_session().snapshot().expect("its handshake is over");

    let mut there = HttpServer::new(full_server());
    there.endpoint.share();
    let id = SessionId::parse("0123456789abcdef0123456789abcdef").expect("an id");
    let sessions = &mut there.sessions;
    let make = |session: Session| {
        sessions.insert(1, session);
        1
    };
    there.endpoint.adopt(there.now, (&id, 1), None, &snapshot, make).expect("there is room");
    within(described(&mut there));

    let mut old = HttpServer::new(full_server());
    let stream = old.send(get("/sse").body(Vec::new()).expect("a request"));
    let endpoint = old.reply(stream).events().remove(0).1;
    old.request(post_to(&endpoint, "2024-11-05"));
    old.read(stream, true);
    within(described(&mut old));

    // An unknown member is kept as text and counts by its length, however many elements it has.
    let mut vain = HttpServer::new(full_server());
    let mut message = initialize("2025-11-25");
    message["params"]["x"] = json!(vec![0; 50 * KIB]);
    vain.request(post("/mcp").body(message.to_string().into_bytes()).expect("a request"));
    let bytes = described(&mut vain);
    assert!((100 * KIB..101 * KIB).contains(&bytes), "{bytes}");

    // A decoded string keeps the capacity of its escaped form.
    let mut escaped = HttpServer::new(full_server());
    let written = initialize("2025-11-25")
        .to_string()
        .replace("\"name\":\"", &format!("\"name\":\"{}", "\\u0041".repeat(20 * KIB)));
    escaped.request(post("/mcp").body(written.into_bytes()).expect("a request"));
    let bytes = described(&mut escaped);
    assert!((120 * KIB..121 * KIB).contains(&bytes), "{bytes}");

    let mut small = HttpServer::new(full_server());
    small.begin("2025-11-25");
    assert!(described(&mut small) < KIB);
}

/// A response whose head is not sent becomes 503, a stream that has begun is aborted, and the queues and the replay
/// buffer are empty.
#[test]
fn aborting_a_session_frees_its_buffers() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let call = |number: u64| {
        let id = id.clone();
        move |server: &mut HttpServer, params: Value| {
            server.send_message(&id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}))
        }
    };
    let (whole, session, key) = unread_call(&mut server, call(1));
    respond(&mut server, (session, key), MIB);
    let (stream, _, key) = unread_call(&mut server, call(2));
    report(&mut server, (session, key), 1, MIB).expect("there is room");
    assert!(server.read_once(stream), "the head is taken");
    let before = usage(&server, session);
    assert!(before.queued_bytes > 2 * MIB && before.replay_bytes > MIB, "{before:?}");
    let now = server.now;
    server.sessions.get_mut(&session).expect("it is open").abort(now, "it holds too much");
    let after = usage(&server, session);
    assert_eq!((after.queued_bytes, after.replay_bytes, after.replay), (0, 0, 0));
    assert!(held(&server, session) < KIB);
    for requested in [whole, stream] {
        server.read(requested, true);
    }
    assert_eq!((server.reply(whole).status(), server.reply(whole).body.len()), (503, 0));
    assert!(server.reply(stream).aborted, "{:?}", server.reply(stream).head);
    assert!(!server.sessions.contains_key(&session), "it is over");
}

/// A session continues without its replay buffer.
#[test]
fn dropping_the_replay_buffer_keeps_the_session() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let (requested, session, key) = unread_call(&mut server, |server, params| {
        server.send_message(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    });
    server.read(requested, true);
    report(&mut server, (session, key), 1, 10).expect("there is room");
    server.read(requested, true);
    let last = server.reply(requested).events().pop().expect("an event").2;
    server.disconnect(requested);
    report(&mut server, (session, key), 2, 10).expect("there is room");
    let held = server.sessions.get_mut(&session).expect("it is open");
    held.forget_replay();
    assert_eq!((held.usage().replay, held.usage().replay_bytes), (0, 0));
    report(&mut server, (session, key), 3, 10).expect("there is room");
    respond(&mut server, (session, key), 1);
    let again = server.listen(&id, Some(&last));
    server.advance(Duration::from_millis(1));
    let text = String::from_utf8_lossy(&server.reply(again).body).into_owned();
    assert!(text.contains("1 message is not kept any more"), "{text}");
    let messages = server.reply(again).messages();
    assert_eq!((&messages[0]["params"]["progress"], &messages[1]["id"]), (&json!(3), &json!(1)), "{messages:?}");
}

/// A small request takes more memory than its length: its table entries are kept until the response.
#[test]
fn small_in_flight_requests_are_bounded_by_memory() {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.request_bytes = 256 * KIB;
    let mut server = HttpServer::with(full_server(), options);
    let id = server.begin("2025-11-25");
    for number in 1..1000_u64 {
        let requested = server.send_message(
            &id,
            &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "t"}}),
        );
        // The client does not wait for the response.
        server.disconnect(requested);
    }
    let requests = server.session(&id).expect("it is open").view().usage().requests;
    assert!((150..250).contains(&requests), "{requests} requests with room for 256 KiB");
}

/// Returns a request of 2026-07-28 with a header of 60 KiB that repeats an argument.
fn with_large_header(id: u64, method: &str, params: Value) -> Request<Vec<u8>> {
    let mut request = modern(&json!(id), method, params);
    let value = "x".repeat(60 * KIB).parse().expect("it is a header");
    request.headers_mut().insert("mcp-param-x", value);
    request
}

/// Headers of a tool call are kept until its arguments are checked. Other requests do not need them.
#[test]
fn counts_retained_mirrored_headers() {
    let mut server = HttpServer::new(both_eras());
    let subscription = json!({"notifications": {"toolsListChanged": true}});
    let mut bytes = Vec::new();
    for (method, params) in [("tools/call", json!({"name": "t"})), ("subscriptions/listen", subscription)] {
        server.send(with_large_header(1, method, params));
        bytes.push(server.last_session().view().usage().request_bytes);
    }
    assert!(bytes[0] >= 60 * KIB && (1..KIB).contains(&bytes[1]), "{bytes:?}");

    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.request_bytes = 256 * KIB;
    let mut server = HttpServer::with(both_eras(), options);
    for id in 0..10 {
        server.send(with_large_header(id, "tools/call", json!({"name": "t"})));
    }
    let requests = server.take_requests().len();
    assert!((1..=4).contains(&requests), "{requests} requests with headers of 60 KiB have room in 256 KiB");
}

/// Reports progress until the output of a request is full.
fn fill(server: &mut HttpServer, request: (usize, ReplyKey)) {
    let full = (1..1000).any(|step| report(server, request, step, 256 * KIB).is_err());
    assert!(full && held(server, request.0) > 32 * MIB, "{} bytes", held(server, request.0));
}

/// A client of 2026-07-28 that reads nothing does not keep the output of its request.
#[test]
fn unread_request_is_cancelled_after_a_timeout() {
    let mut server = HttpServer::new(both_eras());
    let (requested, session, key) =
        unread_call(&mut server, |server, params| server.send(modern(&json!(1), "tools/call", params)));
    report(&mut server, (session, key), 0, 1).expect("there is room");
    assert!(server.read_once(requested), "the head is taken");
    fill(&mut server, (session, key));
    server.advance(Duration::from_secs(9));
    assert_eq!(server.take_events(), []);
    assert!(held(&server, session) > 32 * MIB);
    server.advance(Duration::from_secs(1));
    let events = server.take_events();
    assert!(matches!(events[..], [Event::Cancelled { key: cancelled, .. }, ..] if cancelled == key), "{events:?}");
    assert!(held(&server, session) < KIB, "{} bytes", held(&server, session));
    server.read(requested, true);
    assert!(server.reply(requested).aborted);
    assert!(!server.sessions.contains_key(&session), "it is over");
}

/// As long as the client reads something, however slowly, its request goes on.
#[test]
fn slowly_read_request_goes_on() {
    let mut server = HttpServer::new(both_eras());
    let (requested, session, key) =
        unread_call(&mut server, |server, params| server.send(modern(&json!(1), "tools/call", params)));
    fill(&mut server, (session, key));
    for step in 0..20 {
        server.advance(Duration::from_secs(9));
        assert!(server.read_once(requested), "{step}: {:?}", server.take_events());
    }
    server.read(requested, true);
    respond(&mut server, (session, key), 1);
    server.read(requested, true);
    assert!(server.reply(requested).ended && !server.reply(requested).aborted);
    // Output that waits on the exchange alone holds nothing up.
    let (requested, session, key) =
        unread_call(&mut server, |server, params| server.send(modern(&json!(2), "tools/call", params)));
    report(&mut server, (session, key), 1, MIB).expect("there is room");
    server.advance(Duration::from_secs(3600));
    respond(&mut server, (session, key), 1);
    server.read(requested, true);
    assert!(server.reply(requested).ended && !server.reply(requested).aborted);
}

/// The stream of a session over HTTP+SSE carries all its messages, so the session ends with it.
#[test]
fn unread_http_sse_session_ends_after_a_timeout() {
    let mut server = HttpServer::new(full_server());
    let stream = server.send(get("/sse").body(Vec::new()).expect("a request"));
    let endpoint = server.reply(stream).events().remove(0).1;
    let post_to = |message: &Value| post(&endpoint).body(message.to_string().into_bytes()).expect("a request");
    server.request(post_to(&initialize("2024-11-05")));
    server.request(post_to(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})));
    server.take_events();
    let params = json!({"name": "t", "_meta": {"progressToken": 1}});
    server.request(post_to(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})));
    let request = server.take_request();
    server.read(stream, false);
    let (now, update) = (server.now, ResourceUpdatedParams::new(format!("mem://{}", "x".repeat(256 * KIB))));
    while server.last_session().connection(now).notify(&update).is_ok() {
        server.settle();
    }
    assert!(held(&server, request.0) > 32 * MIB);
    server.advance(Duration::from_secs(10));
    assert!(held(&server, request.0) < KIB, "{} bytes", held(&server, request.0));
    server.read(stream, true);
    assert!(server.reply(stream).aborted);
    assert!(!server.sessions.contains_key(&request.0), "it is over");
}
