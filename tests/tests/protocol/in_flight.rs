//! The lists of requests in flight, and deadlines of requests of the peer.

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
    message::{cancelled, modern_with, request, result},
    modern::answer,
    solo::{Solo, full_server},
};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);
const INSTANT: Duration = Duration::from_nanos(1);

fn expired<E>(solo: &mut Solo<E>) -> Vec<Event<'static>> {
    solo.take_events().into_iter().filter(|event| matches!(event, Event::Cancelled { .. })).collect()
}

#[test]
fn requests_of_the_peer_are_listed_with_their_age_and_state() {
    fn check<E>(mut solo: Solo<E>) {
        let begin = solo.now;
        let keys = ["a", "b", "c"].map(|id| {
            solo.advance(SECOND);
            solo.ask(&request(id, if id == "c" { "vendor/own" } else { "tools/list" }))
        });
        solo.answer(keys[0], &json!({"tools": []}));
        solo.feed(&cancelled("b"));
        solo.conn.set_deadline(keys[2], Some(begin + 9 * SECOND)).expect("it is open");
        let list: Vec<_> = solo.conn.requests().collect();
        assert_eq!(solo.conn.requests().len(), 3);
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
        assert_eq!(keys.map(|key| solo.conn.is_open(key)), [false, false, true]);

        solo.sent();
        for key in &keys[1..] {
            solo.conn.respond(*key, &EmptyResult::default()).expect("it is owed");
        }
        solo.sent();
        assert_eq!(solo.conn.requests().len(), 0);
    }
    for version in ProtocolVersion::LEGACY {
        check(Solo::ready_server(version));
    }
}

#[test]
fn requests_of_this_side_are_listed_with_their_age_and_deadline() {
    fn check<E>(mut solo: Solo<E>) {
        let begin = solo.now;
        let options = |idle| RequestOptions { idle_timeout: idle, total_timeout: None, ..RequestOptions::default() };
        let ask = |solo: &mut Solo<E>, method, idle| {
            solo.conn.request_raw(solo.now, method, None, options(idle)).expect("it may be asked")
        };
        let first = ask(&mut solo, "ping", Some(9 * SECOND));
        solo.sent();
        solo.advance(SECOND);
        let second = ask(&mut solo, "vendor/own", None);
        let expected = [
            (first, Some(Method::Ping), begin, Some(begin + 9 * SECOND), true),
            (second, None, begin + SECOND, None, false),
        ];
        let list = |it: OutboundRequest| (it.call, it.method, it.since, it.deadline, it.sent);
        assert_eq!(solo.conn.calls().map(list).collect::<Vec<_>>(), expected);
        assert!(solo.conn.is_in_flight(first) && solo.conn.is_in_flight(second));
        solo.feed(&result(first.as_u64(), json!({})));
        assert!(!solo.conn.is_in_flight(first));
        solo.conn.cancel(second, None).expect("it is in flight");
        assert_eq!((solo.conn.calls().count(), solo.conn.is_in_flight(second)), (0, false));
    }
    for version in ProtocolVersion::LEGACY {
        check(Solo::ready_client(version));
        check(Solo::ready_server(version));
    }
    // The handshake is not a request of the application.
    assert_eq!(Solo::client(mcp_tests::solo::full_client()).conn.calls().count(), 0);
}

#[test]
fn a_request_that_is_not_answered_in_time_is_answered_with_an_error() {
    for version in ProtocolVersion::LEGACY {
        let mut config = full_server();
        config.settings.reply_timeout = Some(10 * SECOND);
        let mut server = Solo::ready_server_with(config, version);
        let begin = server.now;
        let [lost, early, own] = [1, 2, 3].map(|id| server.ask(&request(id, "tools/list")));
        server.conn.set_deadline(own, Some(begin + SECOND)).expect("it is open");
        let due = |at: Timestamp| Some(Deadline { at, wake: Wake::ReplyTimeout });
        assert_eq!(server.conn.poll_timeout(), due(begin + SECOND), "the earliest one counts");
        server.answer(early, &json!({"tools": []}));
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
        let next = server.ask(&request(1, "tools/list"));
        server.conn.set_deadline(next, None).expect("it is open");
        assert_eq!(server.conn.poll_timeout(), None, "its deadline was removed");
        server.advance(3600 * SECOND);
        assert!(server.conn.is_open(next));
    }
}

#[test]
fn a_request_that_was_cancelled_and_forgotten_gives_its_slot_back() {
    let mut config = full_server();
    config.settings.reply_timeout = Some(10 * SECOND);
    config.settings.limits.requests = 2;
    let mut server = Solo::ready_server_with(config, ProtocolVersion::V2025_11_25);
    for id in [1, 2] {
        server.ask(&request(id, "tools/list"));
        server.feed(&cancelled(id));
        server.take_events();
    }
    assert_eq!(server.conn.usage().requests, 2);
    server.advance(10 * SECOND);
    assert_eq!((server.sent(), server.take_events()), (vec![], vec![]), "both sides know that it is over");
    assert_eq!((server.conn.usage(), server.conn.poll_timeout()), (ResourceUsage::default(), None));
    server.ask(&request(3, "tools/list"));
}

#[test]
fn an_answer_that_waits_to_be_written_has_no_deadline() {
    let mut config = full_server();
    config.settings.reply_timeout = Some(SECOND);
    let mut server = Solo::ready_server_with(config, ProtocolVersion::V2025_11_25);
    let key = server.ask(&request(1, "tools/list"));
    server.answer(key, &json!({"tools": []}));
    assert_eq!(server.conn.poll_timeout(), None);
    server.advance(SECOND);
    assert_eq!(server.sent(), [json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}})]);
}

#[test]
fn members_of_a_batch_that_are_not_answered_in_time_complete_it() {
    let mut config = full_server();
    config.settings.reply_timeout = Some(SECOND);
    let mut server = Solo::ready_server_with(config, ProtocolVersion::V2025_03_26);
    server.feed(&json!([request(1, "tools/list"), request(2, "tools/list")]));
    let events = server.take_events();
    let [Event::Request { key, .. }, _] = events[..] else { panic!("{events:?}") };
    server.answer(key, &json!({"tools": []}));
    assert_eq!(server.sent(), Vec::<Value>::new());
    server.advance(SECOND);
    let sent = server.sent();
    assert_eq!((sent.len(), sent[0].as_array().map(Vec::len)), (1, Some(2)));
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

#[test]
fn a_server_that_drains_is_done_when_the_last_deadline_has_passed() {
    let mut config = full_server();
    config.settings.reply_timeout = Some(SECOND);
    let mut server = Solo::ready_server_with(config, ProtocolVersion::V2025_11_25);
    server.ask(&request(1, "tools/list"));
    server.conn.handle_eof(server.now);
    server.advance(SECOND);
    assert_eq!(server.sent()[0]["error"]["code"], -32603);
    server.take_events();
    assert!(server.conn.is_drained());
}

#[test]
fn a_question_that_is_not_answered_in_time_ends_its_call() {
    let mut client = Solo::modern_client();
    let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default());
    let (call, sent) = (call.expect("it is ready"), client.sent_one());
    let question = json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}});
    client.feed(&answer(&sent, question));
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
fn an_open_subscription_has_no_deadline() {
    let mut config = full_server();
    config.settings.versions = mcp_tests::modern::modern_only();
    config.settings.reply_timeout = Some(SECOND);
    let mut server = Solo::server(config);
    let filter = json!({"notifications": {"toolsListChanged": true}});
    server.feed(&modern_with("s", "subscriptions/listen", filter, json!({})));
    assert_eq!(server.conn.poll_timeout(), None);
    let keys: Vec<_> = server.conn.requests().map(|it| (it.key, it.method)).collect();
    let [(key, Some(Method::Listen))] = keys[..] else { panic!("{keys:?}") };
    server.conn.set_deadline(key, Some(server.now)).expect("it is open");
    server.advance(3600 * SECOND);
    assert_eq!((server.conn.usage().subscriptions, server.take_events()), (1, vec![]));
}
