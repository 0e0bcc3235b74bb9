//! When reading pauses, what ends a pause, and when a refused verb may be tried again.

use std::time::Duration;

use mcp_proto::{
    connection::{
        ClientRole, CloseReason, Event, Keepalive, Limits, Outcome, RequestOptions, Room, SendError, ServerRole,
        TaskProgress, Wake,
    },
    protocol::ProtocolVersion,
    rpc::ReplyKey,
    schema::{EmptyResult, ListRootsParams, ResourceUpdatedParams},
    wire::{ErrorObject, Json, RawJson},
};
use mcp_tests::{
    message::{request, request_with, request_with_token, result},
    solo::{Solo, full_client, full_server},
};
use serde_json::{Value, json};

const PAUSE: Duration = Duration::from_secs(30);

fn server_with(change: impl FnOnce(&mut Limits)) -> Solo<ServerRole> {
    let mut config = full_server();
    change(&mut config.settings.limits);
    Solo::ready_server_with(config, ProtocolVersion::V2025_11_25)
}

fn ask(id: u64) -> Value {
    request(id, "tools/list")
}

fn padded(id: u64, bytes: usize) -> Value {
    request_with(id, "tools/call", json!({"name": "t", "arguments": {"pad": "x".repeat(bytes)}}))
}

/// Takes one message off the connection.
fn take_one<E>(solo: &mut Solo<E>) {
    solo.conn.poll_transmit(&mut Vec::new()).expect("something waits to be written");
}

/// A server with so much output waiting that reading pauses.
fn with_much_output(pause: impl FnOnce(&mut Limits)) -> Solo<ServerRole> {
    let mut server = server_with(|limits| {
        limits.outbox_bytes = 20_000;
        pause(limits);
    });
    while server.conn.usage().outbox_bytes <= 10_000 {
        assert!(server.conn.wants_input(server.now), "{:?}", server.conn.usage());
        server.conn.notify_raw("vendor/x", None).expect("there is room");
    }
    assert!(!server.conn.wants_input(server.now));
    server
}

#[test]
fn reading_pauses_at_half_of_the_outbox_and_resumes_at_a_quarter() {
    let mut server = with_much_output(|_| ());
    while server.conn.usage().outbox_bytes > 5_000 {
        assert!(!server.conn.wants_input(server.now), "{:?}", server.conn.usage());
        take_one(&mut server);
    }
    assert!(server.conn.wants_input(server.now));
    assert_eq!(server.conn.poll_timeout(), None, "the pause is over, and so is its deadline");
}

#[test]
fn reading_pauses_when_there_is_no_slot_for_another_request() {
    let mut server = server_with(|limits| limits.requests = 8);
    let mut keys: Vec<ReplyKey> = Vec::new();
    while server.conn.wants_input(server.now) {
        let key = server.ask(&ask(keys.len() as u64));
        keys.push(key);
    }
    assert_eq!(keys.len(), 8, "no request was refused, and no slot is left");
    // An answer frees its slot when it has left.
    server.answer(keys[0], &json!({}));
    server.answer(keys[1], &json!({}));
    assert!(!server.conn.wants_input(server.now));
    take_one(&mut server);
    assert!(!server.conn.wants_input(server.now), "an eighth of the slots is kept free");
    take_one(&mut server);
    assert!(server.conn.wants_input(server.now));
}

/// What was refused before: a client with more calls under way than `request_bytes` holds.
#[test]
fn a_client_with_64_large_calls_loses_none_of_them() {
    let mut server = server_with(|limits| (limits.frame_bytes, limits.request_bytes) = (2_000, 64_000));
    let (mut sent, mut open, mut answers) = (0, Vec::new(), 0);
    while answers < 64 {
        if sent < 64 && server.conn.wants_input(server.now) {
            open.push(server.ask(&padded(sent, 1_900 - 90)));
            sent += 1;
            continue;
        }
        let key: ReplyKey = open.remove(0);
        server.answer(key, &json!({}));
        answers += server.sent().iter().filter(|answer| answer["result"].is_object()).count();
    }
    assert_eq!((sent, server.conn.usage().request_bytes), (64, 0));
}

/// A handler that asks the peer may need what stands behind a request that there is no room for.
#[test]
fn full_tables_do_not_pause_reading_while_an_answer_is_waited_for() {
    let mut server = server_with(|limits| limits.requests = 2);
    let (first, _) = (server.ask(&ask(1)), server.ask(&ask(2)));
    let call =
        server.call_with("roots/list", RequestOptions { related_request: Some(first), ..RequestOptions::default() });
    assert!(server.conn.wants_input(server.now));
    server.feed(&ask(3));
    assert_eq!(server.sent().iter().filter(|message| message["error"].is_object()).count(), 1, "it is refused");
    server.feed(&result(call.as_u64(), json!({"roots": []})));
    assert!(!server.conn.wants_input(server.now), "nothing is waited for any more");
}

#[test]
fn a_pause_without_progress_ends_at_its_deadline() {
    let mut server = with_much_output(|_| ());
    let deadline = server.conn.poll_timeout().expect("a pause has a deadline");
    assert_eq!((deadline.at, deadline.wake), (server.now + PAUSE, Wake::InputPause));
    server.advance(PAUSE - Duration::from_nanos(1));
    assert!(!server.conn.wants_input(server.now));
    server.advance(Duration::from_nanos(1));
    assert!(server.conn.wants_input(server.now), "the peer may wait for this side to read");
    assert_eq!(server.conn.poll_timeout(), None);
    // Until there is room, the limits apply again: requests are refused, and who does not read is left.
    for id in 0..100_000 {
        assert!(server.conn.wants_input(server.now));
        server.feed(&request(id, "ping"));
    }
    assert_eq!(server.take_events(), [Event::Closed(CloseReason::PeerNotReading)]);
}

#[test]
fn progress_starts_the_deadline_anew() {
    type Act = fn(&mut Solo<ServerRole>, ReplyKey);
    let progress: [(&str, Act); 3] = [
        ("output leaves", |server, _| take_one(server)),
        ("bytes of it are written", |server, _| server.conn.handle_written()),
        ("a request is answered", |server, key| server.answer(key, &json!({}))),
    ];
    for (what, progress) in progress {
        let mut server = server_with(|limits| limits.outbox_bytes = 20_000);
        let key = server.ask(&ask(1));
        while server.conn.wants_input(server.now) {
            server.conn.notify_raw("vendor/x", None).expect("there is room");
        }
        progress(&mut server, key);
        server.advance(PAUSE);
        assert!(!server.conn.wants_input(server.now), "{what}");
        assert_eq!(server.conn.poll_timeout().map(|deadline| deadline.at), Some(server.now + PAUSE), "{what}");
        server.advance(PAUSE);
        assert!(server.conn.wants_input(server.now), "{what}");
    }
}

#[test]
fn a_pause_of_zero_is_none() {
    let mut server = server_with(|limits| (limits.requests, limits.input_pause) = (1, Duration::ZERO));
    server.ask(&ask(1));
    assert!(server.conn.wants_input(server.now));
}

#[test]
fn a_connection_that_closes_is_read() {
    let mut server = with_much_output(|_| ());
    server.conn.close(server.now);
    assert!(server.conn.wants_input(server.now));
    assert!(server.conn.poll_timeout().is_none_or(|deadline| deadline.wake != Wake::InputPause));
}

#[test]
fn a_peer_that_is_not_read_is_not_silent() {
    let mut config = full_server();
    config.settings.keepalive = Some(Keepalive { interval: Duration::from_secs(5), max_missed: 1 });
    config.settings.limits.requests = 1;
    let mut server = Solo::ready_server_with(config, ProtocolVersion::V2025_11_25);
    server.advance(Duration::from_secs(5));
    assert_eq!(server.sent().len(), 1, "a ping");
    let key = server.ask(&ask(1));
    assert!(!server.conn.wants_input(server.now), "a ping of the connection waits for no handler");
    server.advance(Duration::from_secs(10));
    server.advance(Duration::from_secs(10));
    let pings = server.sent().iter().filter(|message| message["method"] == "ping").count();
    assert_eq!((server.take_events(), pings), (Vec::new(), 0), "no more pings, and no end");
    server.answer(key, &json!({}));
    take_one(&mut server);
    assert!(server.conn.wants_input(server.now));
    server.advance(Duration::from_secs(5));
    assert_eq!(server.sent().len(), 1, "pings go on");
}

#[test]
fn idle_deadlines_wait_for_input_and_total_ones_do_not() {
    let mut server = server_with(|limits| {
        (limits.outbox_bytes, limits.input_pause) = (20_000, Duration::from_secs(1000));
    });
    let within = |idle, total| RequestOptions {
        idle_timeout: Some(Duration::from_secs(idle)),
        total_timeout: Some(Duration::from_secs(total)),
        ..RequestOptions::default()
    };
    let (idle, _total) =
        (server.call_with("roots/list", within(10, 500)), server.call_with("roots/list", within(10, 50)));
    while server.conn.wants_input(server.now) {
        server.conn.notify_raw("vendor/x", None).expect("there is room");
    }
    server.advance(Duration::from_secs(15));
    assert_eq!(server.take_events(), [], "the answers may be among what was not read");
    server.advance(Duration::from_secs(35));
    let events = server.take_events();
    assert!(matches!(&events[..], [Event::Response { outcome: Outcome::TimedOut { total: true }, .. }]), "{events:?}");
    server.sent();
    assert!(server.conn.wants_input(server.now));
    server.advance(Duration::from_secs(10));
    let [Event::Response { call, outcome: Outcome::TimedOut { total: false } }] = server.take_events()[..] else {
        panic!("what is read and not answered times out");
    };
    assert_eq!(call, idle);
}

#[test]
fn what_was_refused_is_reported_once_when_there_is_room() {
    let mut server = server_with(|limits| limits.outbox_bytes = 200);
    assert_eq!(server.conn.poll_room(), None);
    while server.conn.notify_raw("vendor/x", None).is_ok() {}
    assert_eq!(server.conn.poll_room(), None, "there is no room");
    server.sent();
    assert_eq!([server.conn.poll_room(), server.conn.poll_room()], [Some(Room::Message), None]);
    server.conn.notify_raw("vendor/x", None).expect("there is room");

    let mut config = full_client();
    config.settings.limits.calls = 1;
    let mut client: Solo<ClientRole> = Solo::ready_client_with(config, ProtocolVersion::V2025_11_25);
    let call = client.call("tools/list");
    let refused = client.conn.request_raw(client.now, "tools/list", None, RequestOptions::default());
    assert_eq!((refused, client.conn.poll_room()), (Err(SendError::Busy), None));
    client.feed(&result(call.as_u64(), json!({"tools": []})));
    assert_eq!([client.conn.poll_room(), client.conn.poll_room()], [Some(Room::Request), None]);
}

/// What one verb came to on a connection, with requests of the peer that may be answered.
type Verb<E> = fn(&mut Solo<E>, [ReplyKey; 2], &mut TaskProgress) -> Result<(), SendError>;

/// A verb that finds no room is reported when there is some, if it is the only one that was refused.
fn each_is_reported<E>(begin: impl Fn(Limits) -> Solo<E>, verbs: &[(&str, Room, Verb<E>)]) {
    let task = serde_json::from_value(json!({"task": {"taskId": "T", "status": "working", "ttl": null,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}}));
    let task = task.expect("a task");
    for (name, room, verb) in verbs {
        let mut limits = Limits::default();
        limits.outbox_bytes = 2000;
        let mut solo = begin(limits);
        let began = solo.ask(&request_with_token(1, "vendor/x", "task"));
        let mut progress = solo.conn.respond_task(began, &task).expect("there is room").expect("it has a token");
        let keys = [request_with_token(2, "vendor/x", "a"), request(3, "vendor/x")].map(|request| solo.ask(&request));
        solo.sent();
        let large = solo.ask(&request(4, "vendor/x"));
        let result = format!(r#"{{"pad":"{}"}}"#, "x".repeat(3000));
        solo.conn.respond_raw(large, &RawJson::from(&Json::parse(&result).expect("JSON"))).expect("there is room");
        assert_eq!(verb(&mut solo, keys, &mut progress), Err(SendError::Busy), "{name}");
        assert_eq!(solo.conn.poll_room(), None, "{name}");
        solo.sent();
        assert_eq!([solo.conn.poll_room(), solo.conn.poll_room()], [Some(*room), None], "{name}");
        verb(&mut solo, keys, &mut progress).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// The verbs of both sides.
fn common<E>() -> Vec<(&'static str, Room, Verb<E>)> {
    fn empty() -> Json {
        Json::parse("{}").expect("JSON")
    }
    vec![
        ("notify_raw", Room::Message, |it, _, _| it.conn.notify_raw("vendor/x", None)),
        ("respond", Room::Message, |it, [key, _], _| it.conn.respond(key, &EmptyResult::default())),
        ("respond_or_error", Room::Message, |it, [key, _], _| {
            it.conn.respond_or_error(key, &EmptyResult::default()).map(|replaced| assert_eq!(replaced, None))
        }),
        ("respond_raw", Room::Message, |it, [key, _], _| it.conn.respond_raw(key, &RawJson::from(&empty()))),
        ("respond_raw_or_error", Room::Message, |it, [key, _], _| {
            it.conn.respond_raw_or_error(key, &RawJson::from(&empty())).map(|replaced| assert_eq!(replaced, None))
        }),
        ("respond_error", Room::Message, |it, [key, _], _| {
            it.conn.respond_error(key, &ErrorObject::internal("Internal error"))
        }),
        ("respond_task", Room::Message, |it, [_, key], _| {
            let task = json!({"task": {"taskId": "U", "status": "working", "ttl": null,
                "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}});
            it.conn.respond_task(key, &serde_json::from_value(task).expect("a task")).map(drop)
        }),
        ("progress", Room::Message, |it, [key, _], _| it.conn.progress(key, 1.0, None, None)),
        ("task_progress", Room::Message, |it, _, task| it.conn.task_progress(task, 1.0, None, None)),
        ("task_progress_on", Room::Message, |it, [_, key], task| it.conn.task_progress_on(key, task, 1.0, None, None)),
        ("request_raw", Room::Request, |it, _, _| {
            it.conn.request_raw(it.now, "vendor/x", None, RequestOptions::default()).map(drop)
        }),
    ]
}

#[test]
fn each_refused_verb_is_reported_when_there_is_room() {
    let of_servers: [(&str, Room, Verb<ServerRole>); 3] = [
        ("notify", Room::Message, |it, _, _| it.conn.notify(&ResourceUpdatedParams::new("a:b"))),
        ("log", Room::Message, |it, [key, _], _| {
            let message = json!({"level": "error", "data": "it broke"});
            it.conn.log(key, &serde_json::from_value(message).expect("a message"))
        }),
        ("request", Room::Request, |it, _, _| {
            it.conn.request(it.now, &ListRootsParams::default(), RequestOptions::default()).map(drop)
        }),
    ];
    let server = |limits| server_with(|all| *all = limits);
    each_is_reported(server, &[common(), of_servers.to_vec()].concat());
    let client = |limits| {
        let mut config = full_client();
        config.settings.limits = limits;
        Solo::ready_client_with(config, ProtocolVersion::V2025_11_25)
    };
    each_is_reported(client, &common());
}

#[test]
fn output_is_taken_up_to_a_high_water_mark() {
    let mut server = server_with(|_| ());
    for _ in 0..100 {
        server.conn.notify_raw("vendor/x", None).expect("there is room");
    }
    let (mut out, mut writes) = (Vec::new(), 0);
    loop {
        let mut last = 0;
        while let Some(transmit) = server.conn.poll_transmit_up_to(&mut out, 500) {
            last = transmit.len;
        }
        if out.is_empty() {
            break;
        }
        assert!(out.len() < 500 + last, "the mark and one message: {}", out.len());
        out.clear();
        writes += 1;
    }
    assert!(writes > 5 && !server.conn.has_output(), "{writes}");
}
