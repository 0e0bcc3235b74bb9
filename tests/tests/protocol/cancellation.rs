//! Cancellation in both directions, with all races.

use std::time::Duration;

use mcp_proto::{
    connection::{CancelCause, CloseReason, Connection, Event, Outcome, RequestOptions, ResourceUsage, SendError},
    protocol::{ProtocolVersion, VersionSet},
    rpc::{CallId, ReplyKey, Timestamp},
    schema::{CallToolParams, TaskMetadata},
    wire::{ErrorObject, Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    link::LinkConfig,
    message::{cancelled, error, notification, notification_with, request, request_with, request_with_token, result},
    testbed::Testbed,
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn send_request<E>(conn: &mut Connection<E>, now: Timestamp, method: &str) -> CallId {
    conn.request_raw(now, method, None, RequestOptions::default()).expect("it is ready")
}

/// Returns every form of a cancellation: without a reason, and with reasons of each kind.
fn cancellations(id: &Value) -> [Value; 5] {
    [None, Some(json!("why")), Some(json!("")), Some(json!(7)), Some(json!(null))].map(|reason| {
        let mut message = cancelled(id.clone());
        if let Some(reason) = reason {
            message["params"]["reason"] = reason;
        }
        message
    })
}

fn fail<E>(conn: &mut Connection<E>, key: ReplyKey) -> Result<(), SendError> {
    conn.respond_error(key, &ErrorObject::internal("no"))
}

// ---- outbound requests ----

// req: CANC-001 CANC-002 CANC-011 CANC-012
#[test]
fn cancel_ends_the_call_and_notifies_the_peer() {
    fn check<E>(mut harness: Harness<E>) {
        for (reason, rest) in [(None, json!({})), (Some("too \"slow\"\n"), json!({"reason": "too \"slow\"\n"}))] {
            let call = harness.call("vendor/a");
            harness.conn.cancel(call, reason).expect("it is in flight");
            assert_eq!(harness.take_events(), [Event::Response { call, outcome: Outcome::Cancelled }]);
            let mut params = rest;
            params["requestId"] = json!(call.as_u64());
            assert_eq!(harness.sent(), [notification_with("notifications/cancelled", params)]);
            for late in [result(call.as_u64(), json!({})), error(call.as_u64(), 1, "m")] {
                harness.feed(&late);
                assert_eq!(harness.take_events(), [Event::Late(call)]);
            }
            assert_eq!((harness.sent(), harness.conn.usage()), (vec![], ResourceUsage::default()));
        }
        assert_eq!(harness.conn.stats().violations, 0);
        harness.call("vendor/b");
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

// req: CANC-004
#[test]
fn cancelling_an_unsent_call_sends_nothing() {
    fn check<E>(mut harness: Harness<E>) {
        let [first, second, third] =
            ["vendor/a", "vendor/b", "vendor/c"].map(|m| send_request(&mut harness.conn, harness.now, m));
        harness.conn.cancel(second, Some("changed my mind")).expect("it is in flight");
        assert_eq!(harness.take_events(), [Event::Response { call: second, outcome: Outcome::Cancelled }]);
        let sent: Vec<_> = harness.sent().iter().map(|message| message["id"].as_u64()).collect();
        assert_eq!(sent, [Some(first.as_u64()), Some(third.as_u64())]);
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

// req: CANC-004
#[test]
fn ended_calls_cannot_be_cancelled() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Harness::ready_client(version);
        let options = RequestOptions::within(Duration::from_secs(1));
        for way in 0..4 {
            let call = client.call_with("vendor/a", options.clone());
            match way {
                0 => client.feed(&result(call.as_u64(), json!({}))),
                1 => client.feed(&error(call.as_u64(), 1, "m")),
                2 => client.advance(Duration::from_secs(1)),
                _ => client.conn.cancel(call, None).expect("it is in flight"),
            }
            client.sent();
            client.take_events();
            assert_eq!(client.conn.cancel(call, None), Err(SendError::UnknownCall));
            assert_eq!((client.take_events(), client.sent()), (vec![], vec![]));
        }
    }
}

// req: CANC-005
#[test]
fn the_handshake_cannot_be_cancelled() {
    for version in ProtocolVersion::LEGACY {
        let mut config = full_client();
        config.settings.versions = VersionSet::only(version);
        let mut client = Harness::client(config);
        let id = client.sent()[0]["id"].clone();
        // Another connection has a call with the same number.
        let first = Harness::ready_server(version).call("vendor/a");
        assert_eq!(id, first.as_u64());
        assert_eq!(client.conn.cancel(first, None), Err(SendError::NotCancellable));
        assert_eq!((client.take_events(), client.sent()), (vec![], vec![]));
        client.advance(client.conn.settings().handshake_timeout);
        assert_eq!(client.take_events(), [Event::Closed(CloseReason::HandshakeTimeout)]);
        assert_eq!(client.sent(), NOTHING, "nothing leaves behind initialize");
    }
}

#[test]
fn cancelling_does_not_wait_for_the_peer() {
    let mut testbed = Testbed::ready();
    testbed.server.conn.notify_raw("vendor/x", None).expect("ready");
    testbed.settle();
    testbed.up.stalled = true;
    let calls: Vec<_> = (0..1000).map(|_| send_request(&mut testbed.client.conn, testbed.now, "vendor/a")).collect();
    testbed.run();
    let more: Vec<_> = (0..1000).map(|_| send_request(&mut testbed.client.conn, testbed.now, "vendor/a")).collect();
    testbed.client.take_events();
    for call in calls.iter().chain(&more) {
        testbed.client.conn.cancel(*call, None).expect("it is in flight");
    }
    testbed.run();
    let ended = |call: &CallId| Event::Response { call: *call, outcome: Outcome::Cancelled };
    assert_eq!(testbed.client.take_events(), calls.iter().chain(&more).map(ended).collect::<Vec<_>>());
    testbed.up.stalled = false;
    testbed.settle();
    let events = testbed.server.take_events();
    assert_eq!(events.len(), 2 * calls.len(), "those that had left, and their cancellations");
    for event in events {
        if let Event::Request { key, .. } = event {
            fail(&mut testbed.server.conn, key).expect("the answer is swallowed");
        }
    }
    testbed.settle();
    assert_eq!(testbed.client.take_events(), []);
    testbed.assert_idle();
}

// req: CANC-006
#[test]
fn task_calls_send_no_cancelled_notification() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_11_25);
    let tool = CallToolParams { task: Some(TaskMetadata::default()), ..CallToolParams::new("t") };
    let options = RequestOptions::within(Duration::from_secs(1));
    let raw = Json::new(&json!({"name": "t", "task": {}})).expect("it is JSON");
    for times_out in [false, true] {
        let typed = client.conn.request(client.now, &tool, options.clone()).expect("it was declared");
        let named = client
            .conn
            .request_raw(client.now, "tools/call", Some(&RawJson::from(&raw)), options.clone())
            .expect("declared");
        assert_eq!(client.sent().len(), 2);
        if times_out {
            client.advance(Duration::from_secs(1));
        } else {
            client.conn.cancel(typed, None).expect("it is in flight");
            client.conn.cancel(named, None).expect("it is in flight");
        }
        assert_eq!(client.take_events().len(), 2);
        assert_eq!(client.sent(), NOTHING, "only tasks/cancel would end the task");
    }
    // The member has no meaning in a custom method, nor in a revision without tasks.
    let call =
        client.conn.request_raw(client.now, "vendor/a", Some(&RawJson::from(&raw)), options.clone()).expect("ready");
    client.sent();
    client.conn.cancel(call, None).expect("it is in flight");
    assert_eq!(client.sent(), [cancelled(call.as_u64())]);
    for version in ProtocolVersion::LEGACY.into_iter().filter(|version| *version < ProtocolVersion::V2025_11_25) {
        let mut client = Harness::ready_client(version);
        let call = client
            .conn
            .request_raw(client.now, "tools/call", Some(&RawJson::from(&raw)), options.clone())
            .expect("ready");
        client.sent();
        client.conn.cancel(call, None).expect("it is in flight");
        assert_eq!(client.sent(), [cancelled(call.as_u64())], "{version}");
    }
}

// ---- inbound requests ----

// req: CANC-007 CANC-008 CANC-009 CANC-014
#[test]
fn cancelled_requests_get_no_response_or_progress() {
    fn check<E>(mut harness: Harness<E>) {
        for (reason, told) in [(None, None), (Some(json!("why")), Some("why")), (Some(json!(7)), None)] {
            let key = harness.receive_request(&request_with_token(1, "vendor/a", "t"));
            let mut params = json!({"requestId": 1});
            if let Some(reason) = reason {
                params["reason"] = reason;
            }
            let cancellation = notification_with("notifications/cancelled", params);
            harness.feed(&cancellation);
            let cause = CancelCause::Peer(told.map(Into::into));
            assert_eq!(harness.take_events(), [Event::Cancelled { key, cause }]);
            harness.feed(&cancellation);
            assert_eq!(harness.take_events(), [], "once is enough");
            assert_eq!(harness.conn.progress(key, 1.0, None, None), Ok(()));
            assert_eq!(fail(&mut harness.conn, key), Ok(()));
            assert_eq!(fail(&mut harness.conn, key), Err(SendError::Answered));
            assert_eq!((harness.sent(), harness.conn.usage()), (vec![], ResourceUsage::default()));
        }
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

// req: CANC-012
#[test]
fn cancellation_removes_queued_responses() {
    let forms = || cancellations(&json!(2)).into_iter().enumerate();
    for (version, (form, cancellation)) in
        ProtocolVersion::LEGACY.iter().flat_map(|it| forms().map(move |form| (it, form)))
    {
        let mut server = Harness::ready_server(*version);
        let before = server.receive_request(&request(1, "vendor/a"));
        let key = server.receive_request(&request_with_token(2, "vendor/a", "t"));
        let behind = server.receive_request(&request(3, "vendor/a"));
        server.respond(before, &json!({}));
        server.conn.progress(key, 1.0, None, None).expect("it was requested");
        server.respond(key, &json!({}));
        server.respond(behind, &json!({}));
        server.feed(&cancellation);
        assert_eq!(server.take_events(), [], "the application is done with it");
        assert_eq!(server.sent(), [result(1, json!({})), result(3, json!({}))], "{version}, form {form}");
        assert_eq!(server.conn.usage(), ResourceUsage::default());
    }
}

// req: CANC-009 CANC-012
#[test]
fn cancellation_removes_queued_protocol_responses() {
    fn check<E>(mut harness: Harness<E>, form: usize) {
        let wrong = "notifications/cancelled";
        for message in
            [request(1, "ping"), request("1", "ping"), request(2, wrong), request(3, "ping"), request(2, wrong)]
        {
            harness.feed(&message);
        }
        for id in [json!(1), json!(2), json!(4), json!(1)] {
            harness.feed(&cancellations(&id)[form]);
        }
        let answered: Vec<_> = harness.sent().iter().map(|message| message["id"].clone()).collect();
        assert_eq!(answered, [json!("1"), json!(3), json!(2)], "one cancellation is for one request");
        assert_eq!((harness.conn.usage(), harness.conn.stats().cancelled), (ResourceUsage::default(), 2));
    }
    for version in ProtocolVersion::LEGACY {
        for form in 0..cancellations(&json!(1)).len() {
            check(Harness::ready_client(version), form);
            check(Harness::ready_server(version), form);
        }
    }

    let mut server = Harness::ready_server(ProtocolVersion::V2025_03_26);
    server.feed(&json!([request(1, "ping"), request(2, "initialize"), request(3, "vendor/a"), request(4, "ping")]));
    let events = server.take_events();
    let [Event::Violation(_), Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
    server.feed(&cancelled(1));
    server.feed(&cancelled(2));
    server.respond(key, &json!({}));
    assert_eq!(server.sent(), [json!([result(4, json!({})), result(3, json!({}))])]);
    server.feed(&json!([request(1, "ping"), notification("vendor/b")]));
    server.feed(&cancelled(1));
    assert_eq!((server.sent(), server.conn.usage()), (vec![], ResourceUsage::default()));
}

#[test]
fn cancelled_ids_can_be_reused_immediately() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
    let old = server.receive_request(&request(1, "vendor/a"));
    server.feed(&cancelled(1));
    server.take_events();
    let new = server.receive_request(&request(1, "vendor/b"));
    server.respond(old, &json!({"old": true}));
    assert_eq!(server.sent(), NOTHING);
    server.respond(new, &json!({"new": true}));
    assert_eq!(server.sent(), [result(1, json!({"new": true}))]);
    server.feed(&cancelled(1));
    assert_eq!((server.take_events(), server.sent()), (vec![], vec![]), "it is too late for the answer that left");
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

// req: CANC-003 CANC-004 CANC-013
#[test]
fn cancellations_of_unknown_ids_are_ignored() {
    fn check<E>(mut harness: Harness<E>) {
        let key = harness.receive_request(&request("a", "vendor/a"));
        // Ids are separate for each direction: the peer cannot cancel an outbound request.
        let own = harness.call("vendor/b").as_u64();
        let params = [
            json!({}),
            json!({"reason": "no id"}),
            json!({"requestId": null}),
            json!({"requestId": 1.5}),
            json!({"requestId": {"id": "a"}}),
            json!({"requestId": ["a"]}),
            json!({"requestId": "A"}),
            json!({"requestId": own}),
            json!({"requestId": own.to_string()}),
            json!({"request_id": "a", "id": "a", "RequestId": "a"}),
        ];
        harness.feed(&notification("notifications/cancelled"));
        for params in params {
            harness.feed(&notification_with("notifications/cancelled", params));
        }
        assert_eq!((harness.take_events(), harness.sent()), (vec![], vec![]));
        assert_eq!((harness.conn.stats().violations, harness.conn.stats().cancelled), (0, 0));
        harness.feed(&result(own, json!({})));
        assert!(matches!(harness.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
        harness.respond(key, &json!({}));
        assert_eq!(harness.sent(), [result("a", json!({}))]);
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

/// A step in the life of an inbound request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Answer,
    Fail,
    Progress,
    Cancel,
    CancelWithReason,
    Write,
    Break,
}

// req: CANC-009 CANC-012 PROG-011
#[test]
fn no_order_yields_a_second_response() {
    use Step::{Answer, Break, Cancel, CancelWithReason, Fail, Progress, Write};
    let steps = [Answer, Fail, Progress, Cancel, CancelWithReason, Write, Break];
    const LENGTH: u32 = 5;
    for play in 0..steps.len().pow(LENGTH) {
        let order: Vec<_> = (0..LENGTH).map(|at| steps[play / steps.len().pow(at) % steps.len()]).collect();
        let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
        let key = server.receive_request(&request_with_token(1, "vendor/a", "t"));
        let mut wire = Vec::new();
        let (mut silent_from, mut amount) = (None, 0.0);
        for step in &order {
            match step {
                Answer => _ = server.conn.respond_raw(key, &RawJson::from(&Json::parse("{}").expect("JSON"))),
                Fail => _ = fail(&mut server.conn, key),
                Progress => {
                    amount += 1.0;
                    let _ = server.conn.progress(key, amount, None, None);
                }
                Cancel | CancelWithReason => {
                    server.feed(&cancellations(&json!(1))[usize::from(*step == CancelWithReason)]);
                    silent_from.get_or_insert(wire.len());
                }
                Write => wire.extend(server.sent()),
                Break => {
                    server.conn.handle_disconnect();
                    silent_from.get_or_insert(wire.len());
                }
            }
        }
        wire.extend(server.sent());
        let answers: Vec<_> = (0..wire.len()).filter(|at| wire[*at]["method"].is_null()).collect();
        assert!(answers.len() <= 1, "{order:?}: {wire:?}");
        assert!(answers.iter().all(|at| at + 1 == wire.len()), "progress behind the answer in {order:?}: {wire:?}");
        assert!(silent_from.is_none_or(|from| wire.len() <= from), "{order:?}: {wire:?}");
        let _ = fail(&mut server.conn, key);
        server.sent();
        server.take_events();
        assert_eq!(server.conn.usage(), ResourceUsage::default(), "{order:?}");
    }
}

// req: CANC-010 CANC-011 CANC-012
#[test]
fn cancellation_may_cross_the_response() {
    let link = LinkConfig { delay: Duration::from_millis(3), ..LinkConfig::default() };
    for (cancel_at, answer_at) in (0..12).flat_map(|cancel| (0..12).map(move |answer| (cancel, answer))) {
        let mut testbed = Testbed::ready_over(link);
        let call = send_request(&mut testbed.client.conn, testbed.now, "vendor/a");
        let mut key = None;
        let mut ends = Vec::new();
        for millisecond in 0..24 {
            if millisecond == cancel_at {
                let _ = testbed.client.conn.cancel(call, (answer_at % 2 == 0).then_some("why"));
            }
            testbed.advance(Duration::from_millis(1));
            for event in testbed.server.take_events() {
                if let Event::Request { key: new, .. } = event {
                    key = Some(new);
                }
            }
            if millisecond >= answer_at
                && let Some(key) = key.take()
            {
                let _ = fail(&mut testbed.server.conn, key);
            }
            ends.extend(testbed.client.take_events().into_iter().filter(|event| !matches!(event, Event::Late(_))));
        }
        assert!(
            matches!(
                ends[..],
                [Event::Response { outcome: Outcome::Cancelled | Outcome::Error(_), call: ended }] if ended == call
            ),
            "cancelled at {cancel_at}, answered at {answer_at}: {ends:?}"
        );
        testbed.assert_idle();
        assert_eq!((testbed.client.conn.stats().violations, testbed.server.conn.stats().violations), (0, 0));
    }
}

#[test]
fn counts_every_cancelled_request() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
    for (id, method) in [(1, "ping"), (2, "vendor/a"), (3, "ping"), (4, "vendor/a")] {
        server.feed(&request(id, method));
        server.feed(&cancelled(id));
        assert_eq!(server.conn.stats().cancelled, id);
    }
    assert_eq!(server.sent(), [Value::Null; 0]);
}

/// The handshake frees its tables when it is over, including the ids of sent responses.
#[test]
fn cancellation_works_after_the_handshake_is_dropped() {
    let mut server = Harness::server(full_server());
    server.feed(&request_with(
        "init",
        "initialize",
        json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}),
    ));
    for id in 100..110 {
        server.feed(&request(id, "ping"));
    }
    server.feed(&cancelled("nope"));
    server.sent();
    server.feed(&notification("notifications/initialized"));
    assert_eq!(server.take_events(), [Event::Ready]);
    server.feed(&request(5, "ping"));
    server.feed(&cancelled(5));
    assert_eq!((server.sent(), server.conn.stats().cancelled), (vec![], 1));
}
