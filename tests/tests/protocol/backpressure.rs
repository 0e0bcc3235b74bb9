//! When reading pauses, what ends a pause, and when a refused operation can be retried.

use std::time::Duration;

use mcp_proto::{
    connection::{
        ClientRole, CloseReason, Event, Keepalive, Limits, Outcome, RequestOptions, SendError, ServerRole,
        TaskProgress, Wake, Writable,
    },
    protocol::ProtocolVersion,
    rpc::ReplyKey,
    schema::{EmptyResult, ListRootsParams, ResourceUpdatedParams},
    wire::{ErrorObject, Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{request, request_with, request_with_token, result},
};
use serde_json::{Value, json};

const PAUSE: Duration = Duration::from_secs(30);

fn server_with(change: impl FnOnce(&mut Limits)) -> Harness<ServerRole> {
    let mut config = full_server();
    change(&mut config.settings.limits);
    Harness::ready_server_with(config, ProtocolVersion::V2025_11_25)
}

fn send_request(id: u64) -> Value {
    request(id, "tools/list")
}

fn padded(id: u64, bytes: usize) -> Value {
    request_with(id, "tools/call", json!({"name": "t", "arguments": {"pad": "x".repeat(bytes)}}))
}

/// Takes one message from the connection.
fn take_one<E>(harness: &mut Harness<E>) {
    harness.conn.poll_transmit(&mut Vec::new()).expect("something waits to be written");
}

/// Returns a server whose queued output pauses reading.
fn with_much_output(pause: impl FnOnce(&mut Limits)) -> Harness<ServerRole> {
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
fn reading_pauses_at_half_and_resumes_at_a_quarter() {
    let mut server = with_much_output(|_| ());
    while server.conn.usage().outbox_bytes > 5_000 {
        assert!(!server.conn.wants_input(server.now), "{:?}", server.conn.usage());
        take_one(&mut server);
    }
    assert!(server.conn.wants_input(server.now));
    assert_eq!(server.conn.poll_timeout(), None, "the pause is over, and so is its deadline");
}

#[test]
fn reading_pauses_when_request_slots_run_out() {
    let mut server = server_with(|limits| limits.requests = 8);
    let mut keys: Vec<ReplyKey> = Vec::new();
    while server.conn.wants_input(server.now) {
        let key = server.receive_request(&send_request(keys.len() as u64));
        keys.push(key);
    }
    assert_eq!(keys.len(), 8, "no request was refused, and no slot is left");
    // A slot is free when its response is sent.
    server.respond(keys[0], &json!({}));
    server.respond(keys[1], &json!({}));
    assert!(!server.conn.wants_input(server.now));
    take_one(&mut server);
    assert!(!server.conn.wants_input(server.now), "an eighth of the slots is kept free");
    take_one(&mut server);
    assert!(server.conn.wants_input(server.now));
}

/// A client whose calls together exceed `request_bytes`. Without the pause, some of them were refused.
#[test]
fn paused_reading_loses_no_large_call() {
    let mut server = server_with(|limits| (limits.frame_bytes, limits.request_bytes) = (2_000, 64_000));
    let (mut sent, mut open, mut answers) = (0, Vec::new(), 0);
    while answers < 64 {
        if sent < 64 && server.conn.wants_input(server.now) {
            open.push(server.receive_request(&padded(sent, 1_900 - 90)));
            sent += 1;
            continue;
        }
        let key: ReplyKey = open.remove(0);
        server.respond(key, &json!({}));
        answers += server.sent().iter().filter(|answer| answer["result"].is_object()).count();
    }
    assert_eq!((sent, server.conn.usage().request_bytes), (64, 0));
}

/// A handler that waits for the peer may need a message after a request that does not fit.
#[test]
fn full_tables_do_not_pause_while_calls_are_pending() {
    let mut server = server_with(|limits| limits.requests = 2);
    let (first, _) = (server.receive_request(&send_request(1)), server.receive_request(&send_request(2)));
    let call =
        server.call_with("roots/list", RequestOptions { related_request: Some(first), ..RequestOptions::default() });
    assert!(server.conn.wants_input(server.now));
    server.feed(&send_request(3));
    assert_eq!(server.sent().iter().filter(|message| message["error"].is_object()).count(), 1, "it is refused");
    server.feed(&result(call.as_u64(), json!({"roots": []})));
    assert!(!server.conn.wants_input(server.now), "nothing is waited for any more");
}

#[test]
fn read_pause_without_progress_times_out() {
    let mut server = with_much_output(|_| ());
    let deadline = server.conn.poll_timeout().expect("a pause has a deadline");
    assert_eq!((deadline.at, deadline.wake), (server.now + PAUSE, Wake::InputPause));
    server.advance(PAUSE - Duration::from_nanos(1));
    assert!(!server.conn.wants_input(server.now));
    server.advance(Duration::from_nanos(1));
    assert!(server.conn.wants_input(server.now), "the peer may wait for this side to read");
    assert_eq!(server.conn.poll_timeout(), None);
    // Until there is capacity, the limits apply again: requests are refused, and a peer that does not read is
    // disconnected.
    for id in 0..100_000 {
        assert!(server.conn.wants_input(server.now));
        server.feed(&request(id, "ping"));
    }
    assert_eq!(server.take_events(), [Event::Closed(CloseReason::PeerNotReading)]);
}

#[test]
fn output_progress_resets_the_pause_deadline() {
    type Act = fn(&mut Harness<ServerRole>, ReplyKey);
    let progress: [(&str, Act); 3] = [
        ("output leaves", |server, _| take_one(server)),
        ("bytes of it are written", |server, _| server.conn.handle_written()),
        ("a request is answered", |server, key| server.respond(key, &json!({}))),
    ];
    for (what, progress) in progress {
        let mut server = server_with(|limits| limits.outbox_bytes = 20_000);
        let key = server.receive_request(&send_request(1));
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
fn zero_input_pause_disables_pausing() {
    let mut server = server_with(|limits| (limits.requests, limits.input_pause) = (1, Duration::ZERO));
    server.receive_request(&send_request(1));
    assert!(server.conn.wants_input(server.now));
}

#[test]
fn closing_connections_do_not_pause_reading() {
    let mut server = with_much_output(|_| ());
    server.conn.close(server.now);
    assert!(server.conn.wants_input(server.now));
    assert!(server.conn.poll_timeout().is_none_or(|deadline| deadline.wake != Wake::InputPause));
}

#[test]
fn keepalive_stops_while_reading_is_paused() {
    let mut config = full_server();
    config.settings.keepalive = Some(Keepalive { interval: Duration::from_secs(5), max_missed: 1 });
    config.settings.limits.requests = 1;
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_11_25);
    server.advance(Duration::from_secs(5));
    assert_eq!(server.sent().len(), 1, "a ping");
    let key = server.receive_request(&send_request(1));
    assert!(!server.conn.wants_input(server.now), "a ping of the connection waits for no handler");
    server.advance(Duration::from_secs(10));
    server.advance(Duration::from_secs(10));
    let pings = server.sent().iter().filter(|message| message["method"] == "ping").count();
    assert_eq!((server.take_events(), pings), (Vec::new(), 0), "no more pings, and no end");
    server.respond(key, &json!({}));
    take_one(&mut server);
    assert!(server.conn.wants_input(server.now));
    server.advance(Duration::from_secs(5));
    assert_eq!(server.sent().len(), 1, "pings go on");
}

#[test]
fn read_pause_extends_idle_but_not_total_timeouts() {
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
fn regained_capacity_is_reported_once() {
    let mut server = server_with(|limits| limits.outbox_bytes = 200);
    assert_eq!(server.conn.poll_writable(), None);
    while server.conn.notify_raw("vendor/x", None).is_ok() {}
    assert_eq!(server.conn.poll_writable(), None, "there is no room");
    server.sent();
    assert_eq!([server.conn.poll_writable(), server.conn.poll_writable()], [Some(Writable::Message), None]);
    server.conn.notify_raw("vendor/x", None).expect("there is room");

    let mut config = full_client();
    config.settings.limits.calls = 1;
    let mut client: Harness<ClientRole> = Harness::ready_client_with(config, ProtocolVersion::V2025_11_25);
    let call = client.call("tools/list");
    let refused = client.conn.request_raw(client.now, "tools/list", None, RequestOptions::default());
    assert_eq!((refused, client.conn.poll_writable()), (Err(SendError::Busy), None));
    client.feed(&result(call.as_u64(), json!({"tools": []})));
    assert_eq!([client.conn.poll_writable(), client.conn.poll_writable()], [Some(Writable::Request), None]);
}

/// An operation on a connection with open inbound requests.
type Verb<E> = fn(&mut Harness<E>, [ReplyKey; 2], &mut TaskProgress) -> Result<(), SendError>;

/// Checks that each refused operation is reported when there is capacity, if it is the only one that was refused.
fn each_is_reported<E>(begin: impl Fn(Limits) -> Harness<E>, verbs: &[(&str, Writable, Verb<E>)]) {
    let task = serde_json::from_value(json!({"task": {"taskId": "T", "status": "working", "ttl": null,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}}));
    let task = task.expect("a task");
    for (name, room, verb) in verbs {
        let mut limits = Limits::default();
        limits.outbox_bytes = 2000;
        let mut harness = begin(limits);
        let began = harness.receive_request(&request_with_token(1, "vendor/x", "task"));
        let mut progress = harness.conn.respond_task(began, &task).expect("there is room").expect("it has a token");
        let keys = [request_with_token(2, "vendor/x", "a"), request(3, "vendor/x")]
            .map(|request| harness.receive_request(&request));
        harness.sent();
        let large = harness.receive_request(&request(4, "vendor/x"));
        let result = format!(r#"{{"pad":"{}"}}"#, "x".repeat(3000));
        harness.conn.respond_raw(large, &RawJson::from(&Json::parse(&result).expect("JSON"))).expect("there is room");
        assert_eq!(verb(&mut harness, keys, &mut progress), Err(SendError::Busy), "{name}");
        assert_eq!(harness.conn.poll_writable(), None, "{name}");
        harness.sent();
        assert_eq!([harness.conn.poll_writable(), harness.conn.poll_writable()], [Some(*room), None], "{name}");
        verb(&mut harness, keys, &mut progress).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Returns the operations of both sides.
fn common<E>() -> Vec<(&'static str, Writable, Verb<E>)> {
    fn empty() -> Json {
        Json::parse("{}").expect("JSON")
    }
    vec![
        ("notify_raw", Writable::Message, |it, _, _| it.conn.notify_raw("vendor/x", None)),
        ("respond", Writable::Message, |it, [key, _], _| it.conn.respond(key, &EmptyResult::default())),
        ("respond_or_error", Writable::Message, |it, [key, _], _| {
            it.conn.respond_or_error(key, &EmptyResult::default()).map(|replaced| assert_eq!(replaced, None))
        }),
        ("respond_raw", Writable::Message, |it, [key, _], _| it.conn.respond_raw(key, &RawJson::from(&empty()))),
        ("respond_raw_or_error", Writable::Message, |it, [key, _], _| {
            it.conn.respond_raw_or_error(key, &RawJson::from(&empty())).map(|replaced| assert_eq!(replaced, None))
        }),
        ("respond_error", Writable::Message, |it, [key, _], _| {
            it.conn.respond_error(key, &ErrorObject::internal("Internal error"))
        }),
        ("respond_task", Writable::Message, |it, [_, key], _| {
            let task = json!({"task": {"taskId": "U", "status": "working", "ttl": null,
                "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}});
            it.conn.respond_task(key, &serde_json::from_value(task).expect("a task")).map(drop)
        }),
        ("progress", Writable::Message, |it, [key, _], _| it.conn.progress(key, 1.0, None, None)),
        ("task_progress", Writable::Message, |it, _, task| it.conn.task_progress(task, 1.0, None, None)),
        ("task_progress_on", Writable::Message, |it, [_, key], task| {
            it.conn.task_progress_on(key, task, 1.0, None, None)
        }),
        ("request_raw", Writable::Request, |it, _, _| {
            it.conn.request_raw(it.now, "vendor/x", None, RequestOptions::default()).map(drop)
        }),
    ]
}

#[test]
fn busy_senders_are_notified_of_capacity() {
    let of_servers: [(&str, Writable, Verb<ServerRole>); 3] = [
        ("notify", Writable::Message, |it, _, _| it.conn.notify(&ResourceUpdatedParams::new("a:b"))),
        ("log", Writable::Message, |it, [key, _], _| {
            let message = json!({"level": "error", "data": "it broke"});
            it.conn.log(key, &serde_json::from_value(message).expect("a message"))
        }),
        ("request", Writable::Request, |it, _, _| {
            it.conn.request(it.now, &ListRootsParams::default(), RequestOptions::default()).map(drop)
        }),
    ];
    let server = |limits| server_with(|all| *all = limits);
    each_is_reported(server, &[common(), of_servers.to_vec()].concat());
    let client = |limits| {
        let mut config = full_client();
        config.settings.limits = limits;
        Harness::ready_client_with(config, ProtocolVersion::V2025_11_25)
    };
    each_is_reported(client, &common());
}

#[test]
fn poll_transmit_stops_at_the_high_water_mark() {
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
