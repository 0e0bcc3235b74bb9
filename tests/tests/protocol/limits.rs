//! Queues and tables are bounded, and the sender gets an error.

use std::time::Duration;

use mcp_proto::{
    connection::{
        CancelCause, CloseReason, Event, Limits, Outcome, RequestOptions, SendError, ServerConfig, Violation,
    },
    protocol::{Phase, ProtocolVersion},
    schema::{CreateTaskResult, Task, TaskStatus},
    wire::{ErrorObject, MalformedKind},
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{cancelled, notification, progress, request, request_with, request_with_token, result},
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn server_with(change: impl FnOnce(&mut Limits)) -> ServerConfig {
    let mut config = full_server();
    change(&mut config.settings.limits);
    config
}

fn ready_with(change: impl FnOnce(&mut Limits)) -> Harness<mcp_proto::connection::ServerRole> {
    Harness::ready_server_with(server_with(change), ProtocolVersion::V2025_11_25)
}

fn send_request(id: u64) -> Value {
    request_with_token(id, "tools/list", id)
}

#[test]
fn output_to_a_stalled_peer_is_bounded() {
    const OUTBOX: usize = 10_000;
    type Send = fn(&mut Harness<mcp_proto::connection::ServerRole>) -> Result<(), SendError>;
    let kinds: [(&str, Send); 4] = [
        ("request", |server| {
            let options = RequestOptions { progress: false, ..RequestOptions::default() };
            server.conn.request_raw(server.now, "vendor/x", None, options).map(|_| ())
        }),
        ("request that is cancelled", |server| {
            let call = server.conn.request_raw(server.now, "vendor/x", None, RequestOptions::default())?;
            server.conn.notify_raw("vendor/y", None)?;
            server.conn.cancel(call, None)?;
            server.take_events();
            Ok(())
        }),
        ("notification", |server| server.conn.notify_raw("vendor/x", None)),
        ("list that changes", |server| server.conn.notify_raw("notifications/tools/list_changed", None)),
    ];
    for (kind, send) in kinds {
        let mut server = ready_with(|limits| limits.outbox_bytes = OUTBOX);
        let mut busy = 0;
        for _ in 0..1_000_000 {
            match send(&mut server) {
                Ok(()) => assert_eq!(busy, 0, "{kind}: what is full stays full"),
                Err(error) => {
                    assert_eq!(error, SendError::Busy, "{kind}");
                    assert!(!server.conn.has_room() && !server.conn.has_room_for_request(), "{kind}");
                    busy += 1;
                }
            }
        }
        let usage = server.conn.usage();
        assert!(usage.outbox_bytes < OUTBOX + 200, "{kind}: {usage:?}");
        assert_eq!(busy == 0, kind == "list that changes", "{kind}");
        server.sent();
        assert!(server.conn.has_room() && server.conn.has_room_for_request(), "{kind}");
        assert_eq!(send(&mut server), Ok(()), "{kind}: there is room again");
    }
}

#[test]
fn busy_progress_and_responses_can_be_retried() {
    let mut server = ready_with(|limits| limits.outbox_bytes = 1000);
    let reporting = server.receive_request(&send_request(1));
    let became_task = server.receive_request(&send_request(2));
    let task = Task::new("t", TaskStatus::Working, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
    let mut task = server
        .conn
        .respond_task(became_task, &CreateTaskResult::new(task))
        .expect("an answer is owed")
        .expect("it has a token");
    let mut step = 0.0;
    while server.conn.progress(reporting, step, None, None).is_ok() {
        step += 1.0;
        assert!(server.conn.usage().outbox_bytes < 1200);
    }
    assert_eq!(server.conn.progress(reporting, step, None, None), Err(SendError::Busy));
    assert_eq!(server.conn.task_progress(&mut task, 1.0, None, None), Err(SendError::Busy));
    let result = mcp_proto::wire::Json::new(&json!({})).expect("it is JSON");
    assert_eq!(server.conn.respond_raw(reporting, &(&result).into()), Err(SendError::Busy));
    assert_eq!(server.conn.respond_error(reporting, &ErrorObject::internal("no")), Err(SendError::Busy));
    let sent = server.sent();
    server.conn.task_progress(&mut task, 1.0, None, None).expect("the report that failed does not count");
    server.conn.progress(reporting, step, None, None).expect("the report that failed does not count");
    server.respond(reporting, &json!({}));
    assert_eq!(sent.len() + server.sent().len(), 1 + step as usize + 3);
}

#[test]
fn calls_in_flight_are_bounded() {
    let mut server = ready_with(|limits| limits.calls = 3);
    let calls = [server.call("vendor/x"), server.call("vendor/x"), server.call("vendor/x")];
    let more = server.conn.request_raw(server.now, "vendor/x", None, RequestOptions::default());
    assert_eq!((more, server.sent()), (Err(SendError::Busy), vec![]));
    // A response needs no call slot, since the peer may wait for it before it responds itself.
    assert!(server.conn.has_room() && !server.conn.has_room_for_request());
    server.feed(&result(calls[1].as_u64(), json!({})));
    assert!(server.conn.has_room_for_request());
    server.call("vendor/x");
    server.conn.close(server.now);
    assert!(server.conn.has_room() && server.conn.has_room_for_request(), "a closed connection has room");
}

#[test]
fn deadlines_of_ended_calls_are_removed() {
    let mut server = ready_with(|_| ());
    // This call is due first, so the deadlines of the others stay in the heap until they are swept.
    server.call_with("vendor/x", RequestOptions::within(Duration::from_secs(1)));
    for _ in 0..1000 {
        let call = server.call_with("vendor/x", RequestOptions::within(Duration::from_secs(10)));
        server.sent();
        server.feed(&result(call.as_u64(), json!({})));
        server.take_events();
        let usage = server.conn.usage();
        assert!(usage.calls == 1 && usage.deadlines <= 100, "{usage:?}");
    }
}

#[test]
fn requests_are_bounded_by_count_and_bytes() {
    let big = |id: u64| request_with(id, "vendor/x", json!({"pad": "x".repeat(400)}));
    for (limits, message) in [((3, usize::MAX), send_request as fn(u64) -> Value), ((usize::MAX, 1500), big)] {
        let mut server = ready_with(|l| (l.requests, l.request_bytes) = limits);
        let keys = [1, 2, 3].map(|id| server.receive_request(&message(id)));
        for refused in 4..8 {
            server.feed(&message(refused));
            assert_eq!(server.take_events(), [Event::Violation(Violation::TooManyRequests)]);
            let sent = server.sent();
            assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(refused), &json!(-32603)));
        }
        // A ping needs no slot.
        server.feed(&request(8, "ping"));
        assert_eq!(server.sent().len(), 1);
        // A cancelled request holds its slot until the application responds.
        server.feed(&cancelled(1));
        server.take_events();
        server.feed(&message(9));
        assert_eq!(server.take_events(), [Event::Violation(Violation::TooManyRequests)]);
        server.respond(keys[0], &json!({}));
        let tenth = server.receive_request(&message(10));
        for key in [keys[1], keys[2], tenth] {
            server.respond(key, &json!({}));
        }
        server.sent();
        assert_eq!(server.conn.usage(), mcp_proto::connection::ResourceUsage::default());
    }
}

#[test]
fn request_bytes_may_reach_the_limit() {
    let mut server = ready_with(|_| ());
    server.receive_request(&send_request(1));
    let size = server.conn.usage().request_bytes;
    let mut server = ready_with(|limits| limits.request_bytes = 2 * size);
    server.receive_request(&send_request(1));
    server.receive_request(&send_request(2));
    server.feed(&send_request(3));
    assert_eq!(server.take_events(), [Event::Violation(Violation::TooManyRequests)]);
}

#[test]
fn control_responses_may_exceed_limits_by_one() {
    let mut server = ready_with(|_| ());
    server.feed(&request(1, "ping"));
    let size = server.conn.usage().outbox_bytes;
    let mut server = ready_with(|limits| (limits.outbox_bytes, limits.control_bytes) = (size, size));
    for id in 1..=3 {
        server.feed(&request(id, "ping"));
        assert_eq!(server.take_events(), [], "{id}");
    }
    server.feed(&request(4, "ping"));
    assert_eq!(server.take_events(), [Event::Closed(CloseReason::PeerNotReading)]);
}

#[test]
fn peers_that_send_but_do_not_read_are_closed() {
    let ping = request(1, "ping");
    let one = ping.to_string();
    let bad = json!({"jsonrpc": "2.0", "id": 1}).to_string();
    let batch = json!(vec![ping; 20]).to_string();
    let mixed =
        format!(r#"[{{"jsonrpc":"2.0","method":"vendor/x"}},{one},{bad},{{"jsonrpc":"2.0","method":"vendor/x"}}]"#);
    for line in [one, bad, batch, mixed] {
        let config = server_with(|limits| (limits.outbox_bytes, limits.control_bytes) = (3000, 1000));
        let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_03_26);
        let open = server.receive_request(&send_request(77));
        let call = server.call("vendor/x");
        let mut lines = 0;
        while server.conn.phase() != Phase::Closed {
            server.feed_text(&line);
            lines += 1;
            assert!(server.conn.usage().outbox_bytes <= 4000 + line.len() * 3, "{line}");
            assert!(lines < 1000, "{line}");
        }
        let events = server.take_events();
        let reason = CloseReason::PeerNotReading;
        assert_eq!(events.last(), Some(&Event::Closed(reason.clone())), "the last event is the last");
        assert!(events.contains(&Event::Response { call, outcome: Outcome::Closed(reason) }));
        assert!(events.contains(&Event::Cancelled { key: open, cause: CancelCause::Closed }));
        // Queued output can still be written.
        assert!(!server.conn.is_drained());
        assert!(!server.sent().is_empty());
        assert!(server.conn.is_drained());
        assert_eq!(server.conn.handle_frame(server.now, mcp_proto::codec::Frame::new(line.as_bytes())), None);
    }
}

// req: BASE-023 STDIO-017
#[test]
fn parse_error_responses_are_limited() {
    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        let budget = server.conn.settings().limits.parse_errors as usize;
        let mut parse_errors = 0;
        for id in 0..100 {
            for junk in 0..100 {
                server.feed_text(["{", "junk", "[1,", "\"", "}{"][junk % 5]);
                assert_eq!(server.take_events().len(), 1);
            }
            server.feed(&request(id, "ping"));
            let mut sent = server.sent();
            assert_eq!(sent.pop(), Some(result(id, json!({}))));
            assert!(sent.iter().all(|refusal| refusal["error"]["code"] == -32700));
            parse_errors += sent.len();
        }
        assert_eq!(parse_errors, budget);
        assert_eq!(server.conn.stats().parse_errors, 10_000);
        assert!(server.conn.is_ready());
    }
}

#[test]
fn client_skips_noise_up_to_a_limit() {
    let mut config = full_client();
    config.settings.limits.noise_lines = 10;
    let mut client = Harness::client(config);
    let id = client.sent()[0]["id"].clone();
    let noise = |client: &mut Harness<_>, lines: usize| {
        for _ in 0..lines {
            client.feed_text("npm WARN deprecated");
            assert_eq!(client.sent(), NOTHING, "a banner is not answered");
        }
        client.take_events()
    };
    let shown = Event::Violation(Violation::Noise(b"npm WARN deprecated".into()));
    assert_eq!(noise(&mut client, 10), vec![shown.clone(); 10]);
    let server =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    client.feed(&result(id, server));
    assert_eq!(client.take_events(), [Event::Ready], "noise does not disturb the handshake");
    client.sent();
    assert_eq!(noise(&mut client, 10), vec![shown.clone(); 10], "a message in between sets the count back");
    let call = client.call("vendor/x");
    let ended = Event::Response { call, outcome: Outcome::Closed(CloseReason::TooMuchNoise) };
    assert_eq!(noise(&mut client, 1), [ended, Event::Closed(CloseReason::TooMuchNoise)]);

    let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
    client.feed_bytes(&[0xff; 10_000]);
    let events = client.take_events();
    let [Event::Violation(Violation::Noise(shown))] = &events[..] else { panic!("{events:?}") };
    assert_eq!(shown.len(), 256, "only the beginning is shown");
}

#[test]
fn batch_members_are_bounded() {
    let config = server_with(|limits| limits.batch_members = 3);
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_03_26);
    let batch = |members: usize| json!(vec![notification("vendor/x"); members]);
    server.feed(&batch(3));
    assert_eq!(server.take_events().len(), 3);
    server.feed(&batch(4));
    assert_eq!(server.take_events(), [Event::Violation(Violation::BatchSize)]);
    assert_eq!(server.sent()[0]["error"]["code"], -32600);
}

#[test]
fn followed_tasks_are_bounded() {
    let mut config = full_client();
    config.settings.limits.tasks = 2;
    let mut client = Harness::ready_client_with(config, ProtocolVersion::V2025_11_25);
    let params = mcp_proto::wire::Json::new(&json!({"name": "t", "task": {}})).expect("it is JSON");
    let calls: Vec<_> = (0..3)
        .map(|n| {
            let options = RequestOptions { total_timeout: Some(Duration::from_secs(1)), ..RequestOptions::default() };
            let call =
                client.conn.request_raw(client.now, "tools/call", Some(&(&params).into()), options).expect("ready");
            client.sent();
            let task = json!({"taskId": n.to_string(), "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": null});
            client.feed(&result(call.as_u64(), json!({"task": task})));
            call
        })
        .collect();
    client.take_events();
    assert_eq!(client.conn.usage().tasks, 2);
    for (call, followed) in calls.iter().zip([false, true, true]) {
        client.feed(&progress(call.as_u64(), 1));
        assert_eq!(client.take_events().len(), usize::from(followed), "the oldest one is forgotten");
    }
}

#[test]
fn parse_errors_are_counted_when_not_answered() {
    let mut server = ready_with(|limits| limits.parse_errors = 0);
    server.feed_text("{");
    assert_eq!(server.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::Syntax(1)))]);
    assert_eq!(server.sent(), NOTHING);
    assert_eq!((server.conn.stats().parse_errors, server.conn.stats().violations), (1, 1));
}
