//! Batches: only in 2025-03-26, and outbound only as the response to one.

use mcp_proto::{
    connection::{CancelCause, Event, Outcome, ResourceUsage, Violation},
    protocol::{Method, MethodName, ProtocolVersion},
    rpc::ReplyKey,
    wire::{ErrorObject, MalformedKind},
};
use mcp_tests::{
    harness::{Harness, full_server},
    message::{cancelled, error, notification, request, request_with_token, result},
};
use serde_json::{Value, json};

const BATCHES: ProtocolVersion = ProtocolVersion::V2025_03_26;
const NOTHING: [Value; 0] = [];

fn keys(events: &[Event<'_>]) -> Vec<ReplyKey> {
    let key = |event: &Event<'_>| if let Event::Request { key, .. } = event { Some(*key) } else { None };
    events.iter().filter_map(key).collect()
}

/// Returns the members of the only output message, sorted by their ids.
#[track_caller]
fn members<E>(harness: &mut Harness<E>) -> Vec<Value> {
    let sent = harness.sent();
    let [Value::Array(members)] = &sent[..] else { panic!("this is not one array: {sent:?}") };
    let mut members = members.clone();
    members.sort_by_key(|member| member["id"].to_string());
    members
}

// req: BATCH-001 BATCH-005 BATCH-009
#[test]
fn batch_responses_form_one_array() {
    fn check<E>(mut harness: Harness<E>) {
        harness.feed(&json!([
            request(1, "vendor/a"),
            notification("vendor/b"),
            request("2", "vendor/c"),
            request(3, "ping"),
            request(4, "notifications/initialized"),
        ]));
        let events = harness.take_events();
        let [
            Event::Request { key: a, method: a_method, .. },
            Event::Notification { method: b_method, .. },
            Event::Request { key: c, method: c_method, .. },
            Event::Violation(Violation::WrongKind(Method::Initialized)),
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!([a_method, b_method, c_method].map(MethodName::as_str), ["vendor/a", "vendor/b", "vendor/c"]);
        assert_eq!(harness.sent(), NOTHING, "the array waits until it is complete");
        harness.respond(*c, &json!({"c": 1}));
        harness.feed(&request(9, "ping"));
        assert_eq!(harness.sent(), [result(9, json!({}))], "others do not wait for it");
        harness.conn.respond_error(*a, &ErrorObject::internal("no")).expect("an answer is owed");
        let answers = members(&mut harness);
        assert_eq!(answers[..3], [result("2", json!({"c": 1})), error(1, -32603, "no"), result(3, json!({}))]);
        assert_eq!((&answers[3]["id"], &answers[3]["error"]["code"]), (&json!(4), &json!(-32600)));
        assert_eq!(harness.conn.usage(), ResourceUsage::default());
        harness.receive_request(&request(1, "vendor/a"));
    }
    check(Harness::ready_server(BATCHES));
    check(Harness::ready_client(BATCHES));
}

// req: BATCH-002
#[test]
fn response_batches_end_their_calls() {
    fn check<E>(mut harness: Harness<E>) {
        let [a, b, c] = [(); 3].map(|()| harness.call("vendor/call"));
        let (id_a, id_b, id_c) = (a.as_u64(), b.as_u64(), c.as_u64());
        let malformed = json!({"jsonrpc": "2.0", "id": id_c, "result": []});
        harness.feed(&json!([error(id_b, 1, "no"), malformed, result(id_a, json!({})), result(id_a, json!({}))]));
        let events = harness.take_events();
        let [
            Event::Response { call: first, outcome: Outcome::Error(_) },
            Event::Response { call: second, outcome: Outcome::Malformed },
            Event::Response { call: third, outcome: Outcome::Result(_) },
            Event::Late(late),
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!([first, second, third, late], [&b, &c, &a, &a]);
        assert_eq!(harness.sent(), NOTHING);
        assert_eq!(harness.conn.usage(), ResourceUsage::default());
    }
    check(Harness::ready_server(BATCHES));
    check(Harness::ready_client(BATCHES));
}

// req: BATCH-006 BATCH-007 BATCH-008 BATCH-013
#[test]
fn array_responses_match_the_table() {
    /// The response to an array in the revision with batches.
    enum Answer {
        Nothing,
        /// One error outside of an array.
        Refused,
        /// An array with these codes, 0 for a result.
        Codes(&'static [i64]),
    }
    use Answer::{Codes, Nothing, Refused};
    let ping = request(1, "ping");
    let note = notification("vendor/x");
    let table = [
        (json!([]), Refused),
        (json!([ping]), Codes(&[0])),
        (json!([note]), Nothing),
        (json!([note, note, note]), Nothing),
        (json!([1]), Codes(&[-32600])),
        (json!([1, "a", null, {}, true]), Codes(&[-32600; 5])),
        (json!([[]]), Codes(&[-32600])),
        (json!([[ping]]), Codes(&[-32600])),
        (json!([ping, [ping, note], note]), Codes(&[0, -32600])),
        (json!([ping, {"jsonrpc": "1.0", "id": 2, "method": "ping"}, note, {"id": 3}]), Codes(&[0, -32600, -32600])),
        (json!([{"jsonrpc": "2.0", "method": 7}]), Codes(&[-32600])),
        (json!([{"jsonrpc": "2.0", "method": "vendor/x", "params": 7}]), Nothing),
        (json!([{"jsonrpc": "2.0", "id": 1, "method": "vendor/x", "params": 7}, ping]), Codes(&[-32602, 0])),
        (json!([result(77, json!({}))]), Nothing),
        (json!([error(Value::Null, 1, "m"), ping]), Codes(&[0])),
        (json!([request(1, "roots/list")]), Codes(&[-32601])),
        (json!(vec![&note; 1025]), Refused),
        (json!(vec![&ping; 1025]), Refused),
    ];
    for version in ProtocolVersion::LEGACY {
        for (array, answer) in &table {
            let mut server = Harness::ready_server(version);
            server.feed(array);
            let sent = server.sent();
            let single = |message: &Value| {
                assert_eq!(message["error"]["code"], -32600, "{array}");
                let id = if version < ProtocolVersion::V2025_11_25 { Some(&Value::Null) } else { None };
                assert_eq!(message.get("id"), id, "{array}");
            };
            match (answer, &sent[..]) {
                (_, [message]) if version != BATCHES => {
                    single(message);
                    let refused = [Event::Violation(Violation::Malformed(MalformedKind::Array))];
                    assert_eq!(server.take_events(), refused, "{array} at {version}");
                }
                (Nothing, []) => {}
                (Refused, [message]) => single(message),
                (Codes(codes), [Value::Array(answers)]) => {
                    let found: Vec<_> =
                        answers.iter().map(|answer| answer["error"]["code"].as_i64().unwrap_or(0)).collect();
                    assert_eq!(found, *codes, "{array}");
                }
                _ => panic!("{array} at {version}: {sent:?}"),
            }
            assert_eq!(server.conn.usage(), ResourceUsage::default());
            server.feed(&ping);
            assert_eq!(server.sent(), [result(1, json!({}))], "it lives on");
        }
    }
}

// req: BATCH-013
#[test]
fn arrays_are_refused_in_revisions_without_batches() {
    for version in ProtocolVersion::LEGACY.into_iter().filter(|version| *version != BATCHES) {
        let mut client = Harness::ready_client(version);
        let call = client.call("vendor/call").as_u64();
        client.feed(&json!([request(1, "vendor/a"), notification("vendor/b"), result(call, json!({}))]));
        assert_eq!(client.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::Array))]);
        assert_eq!(client.conn.usage().calls, 1);
    }
}

// req: BATCH-003
#[test]
fn initialize_is_refused_in_a_batch() {
    let params =
        json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let mut server = Harness::server(full_server());
    server.feed(&json!([initialize]));
    assert_eq!(server.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::Array))]);
    let sent = server.sent();
    assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&Value::Null, &json!(-32600)));
    // A single `initialize` is still accepted, and after it another one in a batch is refused.
    server.feed(&initialize);
    assert_eq!(server.sent()[0]["result"]["protocolVersion"], "2025-03-26");
    server.feed(&json!([notification("notifications/initialized"), initialize, request(2, "ping")]));
    assert_eq!(server.take_events(), [Event::Ready, Event::Violation(Violation::SecondInitialize)]);
    assert_eq!(members(&mut server)[0]["error"]["code"], -32600);

    let mut client = Harness::client(mcp_tests::harness::full_client());
    assert!(client.sent()[0].is_object());
}

// req: CANC-012
#[test]
fn cancelling_a_batch_member_keeps_the_others() {
    let mut server = Harness::ready_server(BATCHES);
    server.feed(&json!([request(1, "vendor/a"), request(2, "vendor/b"), cancelled(1)]));
    let events = server.take_events();
    let keys = keys(&events);
    assert_eq!(events[2], Event::Cancelled { key: keys[0], cause: CancelCause::Peer(None) });
    server.respond(keys[1], &json!({}));
    assert_eq!(server.sent(), [json!([result(2, json!({}))])]);
    server.respond(keys[0], &json!({}));
    assert_eq!(server.sent(), NOTHING, "the answer is swallowed");
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

#[test]
fn batch_completes_after_its_last_member() {
    let mut server = Harness::ready_server(BATCHES);
    // The cancellation leaves no open member before the next one.
    server.feed(&json!([request(1, "vendor/a"), cancelled(1), request(2, "vendor/b"), request(3, "ping")]));
    let keys = keys(&server.take_events());
    server.respond(keys[0], &json!({}));
    server.respond(keys[1], &json!({}));
    assert_eq!(members(&mut server), [result(2, json!({})), result(3, json!({}))]);
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

#[test]
fn cancelling_removes_a_response_from_its_batch() {
    let mut server = Harness::ready_server(BATCHES);
    server.feed(&json!([request(1, "vendor/a"), request(2, "vendor/b"), request(3, "ping")]));
    let keys = keys(&server.take_events());
    server.respond(keys[0], &json!({"big": "x".repeat(1000)}));
    server.feed(&cancelled(1));
    assert_eq!(server.take_events(), [], "the application is done with it");
    assert!(server.conn.usage().outbox_bytes < 1000);
    server.respond(keys[1], &json!({}));
    assert_eq!(members(&mut server), [result(2, json!({})), result(3, json!({}))]);
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

#[test]
fn fully_cancelled_batches_send_nothing() {
    for answered in [false, true] {
        let mut server = Harness::ready_server(BATCHES);
        server.feed(&json!([request(1, "vendor/a"), request(2, "vendor/b")]));
        let keys = keys(&server.take_events());
        if answered {
            server.respond(keys[0], &json!({}));
        }
        server.feed(&json!([cancelled(1), cancelled(2)]));
        assert_eq!(server.take_events().len(), if answered { 1 } else { 2 });
        assert_eq!(server.sent(), NOTHING, "not even an empty array");
        for key in keys {
            let _ = server.conn.respond_error(key, &ErrorObject::internal("too late"));
        }
        assert_eq!(server.sent(), NOTHING);
        assert_eq!(server.conn.usage(), ResourceUsage::default());
    }
}

// req: BATCH-005 PROG-011
#[test]
fn progress_is_sent_before_the_batch_response() {
    let mut server = Harness::ready_server(BATCHES);
    server.feed(&json!([request_with_token(1, "vendor/a", "t"), request(1, "vendor/b")]));
    let keys = keys(&server.take_events());
    assert_eq!(keys.len(), 1, "an id in flight is taken inside of a batch, too");
    server.conn.progress(keys[0], 1.0, None, None).expect("it was requested");
    server.respond(keys[0], &json!({}));
    let sent = server.sent();
    assert_eq!(sent[0]["method"], "notifications/progress");
    assert_eq!((sent.len(), sent[1].as_array().map(Vec::len)), (2, Some(2)));
}

#[test]
fn pending_batches_are_written_before_close() {
    let mut server = Harness::ready_server(BATCHES);
    server.feed(&json!([request(1, "vendor/a"), request(2, "ping")]));
    let keys = keys(&server.take_events());
    server.conn.handle_eof(server.now);
    server.respond(keys[0], &json!({}));
    assert!(matches!(server.take_events()[..], [Event::Closed(_)]));
    assert!(!server.conn.is_drained(), "the array waits to be written");
    assert_eq!(members(&mut server).len(), 2);
    assert!(server.conn.is_drained());
}

#[test]
fn cancelling_removes_a_ping_response_from_its_batch() {
    let mut server = Harness::ready_server(BATCHES);
    server.feed(&json!([request(1, "ping"), request(2, "ping"), request(3, "vendor/a"), request(4, "vendor/b")]));
    let keys = keys(&server.take_events());
    server.respond(keys[0], &json!({}));
    server.feed(&cancelled(2));
    server.respond(keys[1], &json!({}));
    assert_eq!(members(&mut server), [1, 3, 4].map(|id| result(id, json!({}))));
    assert_eq!((server.conn.usage(), server.conn.stats().cancelled), (ResourceUsage::default(), 1));
}
