//! The lists of requests in flight, and deadlines of inbound requests.

use std::time::Duration;

use mcp_proto::{
    connection::{
        CancelCause, Deadline, Event, OutboundRequest, Outcome, RequestOptions, RequestState, ResourceUsage, SendError,
        Wake,
    },
    protocol::{Method, ProtocolVersion},
    rpc::Timestamp,
    schema::{CallToolParams, EmptyResult},
};
use mcp_tests::{
    harness::{Harness, full_server},
    message::{cancelled, modern_with, request, result},
    modern::answer,
};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);
const INSTANT: Duration = Duration::from_nanos(1);

fn expired<E>(harness: &mut Harness<E>) -> Vec<Event<'static>> {
    harness.take_events().into_iter().filter(|event| matches!(event, Event::Cancelled { .. })).collect()
}

#[test]
fn inbound_requests_are_listed_with_age_and_state() {
    fn check<E>(mut harness: Harness<E>) {
        let begin = harness.now;
        let keys = ["a", "b", "c"].map(|id| {
            harness.advance(SECOND);
            harness.receive_request(&request(id, if id == "c" { "vendor/own" } else { "tools/list" }))
        });
        harness.respond(keys[0], &json!({"tools": []}));
        harness.feed(&cancelled("b"));
        harness.conn.set_deadline(keys[2], Some(begin + 9 * SECOND)).expect("it is open");
        let list: Vec<_> = harness.conn.requests().collect();
        assert_eq!(harness.conn.requests().len(), 3);
        assert_eq!(list.iter().map(|it| it.key).collect::<Vec<_>>(), keys);
        assert_eq!(list.iter().map(|it| it.id.as_json()).collect::<Vec<_>>(), [r#""a""#, r#""b""#, r#""c""#]);
        assert_eq!(list.iter().map(|it| it.since).collect::<Vec<_>>(), [1, 2, 3].map(|age| begin + age * SECOND));
        assert_eq!(
            list.iter().map(|it| it.method).collect::<Vec<_>>(),
            [Some(Method::ListTools), Some(Method::ListTools), None]
        );
        assert_eq!(list.iter().map(|it| it.deadline).collect::<Vec<_>>(), [None, None, Some(begin + 9 * SECOND)]);
        let states = [RequestState::Answered, RequestState::Cancelled, RequestState::Open];
        assert_eq!(list.iter().map(|it| it.state).collect::<Vec<_>>(), states);
        assert_eq!(keys.map(|key| harness.conn.is_open(key)), [false, false, true]);

        harness.sent();
        for key in &keys[1..] {
            harness.conn.respond(*key, &EmptyResult::default()).expect("it is owed");
        }
        harness.sent();
        assert_eq!(harness.conn.requests().len(), 0);
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_server(version));
    }
}

#[test]
fn outbound_requests_are_listed_with_deadlines() {
    fn check<E>(mut harness: Harness<E>) {
        let begin = harness.now;
        let options = |idle| RequestOptions { idle_timeout: idle, total_timeout: None, ..RequestOptions::default() };
        let send_request = |harness: &mut Harness<E>, method, idle| {
            harness.conn.request_raw(harness.now, method, None, options(idle)).expect("it may be sent")
        };
        let first = send_request(&mut harness, "ping", Some(9 * SECOND));
        harness.sent();
        harness.advance(SECOND);
        let second = send_request(&mut harness, "vendor/own", None);
        let expected = [
            (first, Some(Method::Ping), begin, Some(begin + 9 * SECOND), true),
            (second, None, begin + SECOND, None, false),
        ];
        let list = |it: OutboundRequest| (it.call, it.method, it.since, it.deadline, it.sent);
        assert_eq!(harness.conn.calls().map(list).collect::<Vec<_>>(), expected);
        assert!(harness.conn.is_in_flight(first) && harness.conn.is_in_flight(second));
        harness.feed(&result(first.as_u64(), json!({})));
        assert!(!harness.conn.is_in_flight(first));
        harness.conn.cancel(second, None).expect("it is in flight");
        assert_eq!((harness.conn.calls().count(), harness.conn.is_in_flight(second)), (0, false));
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
    // The handshake is not a request of the application.
    assert_eq!(Harness::client(mcp_tests::harness::full_client()).conn.calls().count(), 0);
}

#[test]
fn reply_timeout_sends_an_error_response() {
    for version in ProtocolVersion::LEGACY {
        let mut config = full_server();
        config.settings.reply_timeout = Some(10 * SECOND);
        let mut server = Harness::ready_server_with(config, version);
        let begin = server.now;
        let [lost, early, own] = [1, 2, 3].map(|id| server.receive_request(&request(id, "tools/list")));
        server.conn.set_deadline(own, Some(begin + SECOND)).expect("it is open");
        let due = |at: Timestamp| Some(Deadline { at, wake: Wake::ReplyTimeout });
        assert_eq!(server.conn.poll_timeout(), due(begin + SECOND), "the earliest one counts");
        server.respond(early, &json!({"tools": []}));
        server.sent();
        server.advance(SECOND - INSTANT);
        assert_eq!((server.sent(), server.take_events()), (vec![], vec![]));
        server.advance(INSTANT);
        assert_eq!(expired(&mut server), [Event::Cancelled { key: own, cause: CancelCause::TimedOut }]);
        assert_eq!(server.conn.poll_timeout(), due(begin + 10 * SECOND));
        let sent = server.sent();
        assert_eq!((sent.len(), &sent[0]["id"], &sent[0]["error"]["code"]), (1, &json!(3), &json!(-32603)));

        server.advance(9 * SECOND);
        assert_eq!(expired(&mut server), [Event::Cancelled { key: lost, cause: CancelCause::TimedOut }]);
        assert_eq!(server.sent()[0]["id"], 1);
        assert_eq!(server.conn.respond(lost, &EmptyResult::default()), Err(SendError::Answered));
        assert_eq!(server.conn.set_deadline(lost, None), Err(SendError::Answered));
        assert_eq!((server.conn.poll_timeout(), server.conn.usage()), (None, ResourceUsage::default()));
        // The slot and the id are free.
        let next = server.receive_request(&request(1, "tools/list"));
        server.conn.set_deadline(next, None).expect("it is open");
        assert_eq!(server.conn.poll_timeout(), None, "its deadline was removed");
        server.advance(3600 * SECOND);
        assert!(server.conn.is_open(next));
    }
}

#[test]
fn reply_timeout_frees_cancelled_requests() {
    let mut config = full_server();
    config.settings.reply_timeout = Some(10 * SECOND);
    config.settings.limits.requests = 2;
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_11_25);
    for id in [1, 2] {
        server.receive_request(&request(id, "tools/list"));
        server.feed(&cancelled(id));
        server.take_events();
    }
    assert_eq!(server.conn.usage().requests, 2);
    server.advance(10 * SECOND);
    assert_eq!((server.sent(), server.take_events()), (vec![], vec![]), "both sides know that it is over");
    assert_eq!((server.conn.usage(), server.conn.poll_timeout()), (ResourceUsage::default(), None));
    server.receive_request(&request(3, "tools/list"));
}

#[test]
fn queued_responses_have_no_reply_timeout() {
    let mut config = full_server();
    config.settings.reply_timeout = Some(SECOND);
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_11_25);
    let key = server.receive_request(&request(1, "tools/list"));
    server.respond(key, &json!({"tools": []}));
    assert_eq!(server.conn.poll_timeout(), None);
    server.advance(SECOND);
    assert_eq!(server.sent(), [json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}})]);
}

#[test]
fn reply_timeout_completes_a_batch() {
    let mut config = full_server();
    config.settings.reply_timeout = Some(SECOND);
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_03_26);
    server.feed(&json!([request(1, "tools/list"), request(2, "tools/list")]));
    let events = server.take_events();
    let [Event::Request { key, .. }, _] = events[..] else { panic!("{events:?}") };
    server.respond(key, &json!({"tools": []}));
    assert_eq!(server.sent(), Vec::<Value>::new());
    server.advance(SECOND);
    let sent = server.sent();
    assert_eq!((sent.len(), sent[0].as_array().map(Vec::len)), (1, Some(2)));
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

#[test]
fn reply_timeout_finishes_a_drain() {
    let mut config = full_server();
    config.settings.reply_timeout = Some(SECOND);
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_11_25);
    server.receive_request(&request(1, "tools/list"));
    server.conn.handle_eof(server.now);
    server.advance(SECOND);
    assert_eq!(server.sent()[0]["error"]["code"], -32603);
    server.take_events();
    assert!(server.conn.is_drained());
}

#[test]
fn unanswered_input_requests_end_their_call() {
    let mut client = Harness::modern_client();
    let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default());
    let (call, sent) = (call.expect("it is ready"), client.sent_one());
    let input_request = json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}});
    client.feed(&answer(&sent, input_request));
    let events = client.take_events();
    let [Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
    client.conn.set_deadline(key, Some(client.now + SECOND)).expect("it is open");
    client.advance(SECOND);
    let events = client.take_events();
    assert_eq!(events[0], Event::Cancelled { key, cause: CancelCause::TimedOut });
    assert!(matches!(&events[1..], [Event::Response { call: ended, outcome: Outcome::Error(_) }] if *ended == call));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}

#[test]
fn subscriptions_have_no_reply_timeout() {
    let mut config = full_server();
    config.settings.versions = mcp_tests::modern::modern_only();
    config.settings.reply_timeout = Some(SECOND);
    let mut server = Harness::server(config);
    let filter = json!({"notifications": {"toolsListChanged": true}});
    server.feed(&modern_with("s", "subscriptions/listen", filter, json!({})));
    assert_eq!(server.conn.poll_timeout(), None);
    let keys: Vec<_> = server.conn.requests().map(|it| (it.key, it.method)).collect();
    let [(key, Some(Method::Listen))] = keys[..] else { panic!("{keys:?}") };
    server.conn.set_deadline(key, Some(server.now)).expect("it is open");
    server.advance(3600 * SECOND);
    assert_eq!((server.conn.usage().subscriptions, server.take_events()), (1, vec![]));
}
