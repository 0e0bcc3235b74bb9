//! Pings: answered at once, and sent to a peer that has been quiet.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientConfig, CloseReason, Event, Keepalive, Outcome, RequestOptions, Wake},
    protocol::ProtocolVersion,
    rpc::CallId,
    schema::PingParams,
};
use mcp_tests::{
    message::{error, notification, request, request_with, result},
    solo::{Solo, full_client, full_server},
};
use serde_json::{Value, json};

type Client = Solo<mcp_proto::connection::ClientRole>;

const NOTHING: [Value; 0] = [];
const INTERVAL: Duration = Duration::from_secs(10);

fn keeping_alive() -> ClientConfig {
    let mut config = full_client();
    config.settings.keepalive = Some(Keepalive { interval: INTERVAL, max_missed: 3 });
    config
}

fn ready(config: ClientConfig) -> Client {
    Solo::ready_client_with(config, ProtocolVersion::V2025_06_18)
}

/// The id of the ping that is all that leaves.
#[track_caller]
fn ping(client: &mut Client) -> Value {
    let sent = client.sent();
    let [ping] = &sent[..] else { panic!("this is not one ping: {sent:?}") };
    assert_eq!(*ping, request(ping["id"].clone(), "ping"));
    ping["id"].clone()
}

// req: PING-001
#[test]
fn a_ping_carries_nothing_but_itself() {
    fn check<E>(mut solo: Solo<E>) {
        let options = RequestOptions { progress: true, ..RequestOptions::default() };
        let typed = solo.conn.request(solo.now, &PingParams::default(), options.clone()).expect("it is allowed");
        let named = solo.conn.request_raw(solo.now, "ping", None, options).expect("it is allowed");
        assert_eq!(solo.sent(), [typed, named].map(|call: CallId| request(call.as_u64(), "ping")));
        solo.feed(&result(typed.as_u64(), json!({})));
        solo.feed(&error(named.as_u64(), -32601, "no"));
        assert_eq!(solo.take_events().len(), 2);
    }
    for version in ProtocolVersion::LEGACY {
        check(Solo::ready_client(version));
        check(Solo::ready_server(version));
    }
}

// req: PING-002 PING-003
#[test]
fn a_ping_is_answered_before_anything_that_waits() {
    fn check<E>(mut solo: Solo<E>) {
        let working = solo.ask(&request(1, "vendor/a"));
        for _ in 0..100 {
            solo.conn.request_raw(solo.now, "vendor/b", None, RequestOptions::default()).expect("it is ready");
        }
        solo.feed(&request(2, "ping"));
        solo.feed(&request_with("3", "ping", json!({"_meta": {"vendor/x": 1}})));
        assert_eq!(solo.take_events(), [], "the application has nothing to do with it");
        assert_eq!(solo.sent()[..2], [result(2, json!({})), result("3", json!({}))]);
        solo.answer(working, &json!({}));
    }
    for version in ProtocolVersion::LEGACY {
        check(Solo::ready_client(version));
        check(Solo::ready_server(version));
    }
}

#[test]
fn a_ping_is_answered_when_nothing_of_ours_fits_any_more() {
    let mut config = full_server();
    config.settings.limits.outbox_bytes = 100;
    let mut server = Solo::ready_server_with(config, ProtocolVersion::V2025_06_18);
    while server.conn.notify_raw("vendor/a", None).is_ok() {}
    server.feed(&request(2, "ping"));
    assert_eq!(server.sent().last(), Some(&result(2, json!({}))));
}

// req: PING-005 PING-006
#[test]
fn a_quiet_peer_is_pinged_and_one_that_talks_is_not() {
    let mut client = ready(keeping_alive());
    assert_eq!(client.conn.poll_timeout().map(|deadline| deadline.wake), Some(Wake::Keepalive));
    for _ in 0..10 {
        client.advance(INTERVAL - Duration::from_secs(1));
        client.feed(&notification("vendor/a"));
    }
    assert_eq!(client.sent(), NOTHING);
    client.take_events();
    for answer in 0..6 {
        client.advance(INTERVAL);
        let id = ping(&mut client);
        client.advance(INTERVAL / 2);
        client.feed(&if answer % 2 == 0 { result(id, json!({})) } else { error(id, -32603, "busy") });
        assert_eq!(client.take_events(), [], "the application does not hear of it");
    }
    assert!(client.conn.is_ready());
}

// req: PING-004 PING-007
#[test]
fn a_peer_that_stays_silent_is_left_after_the_pings_it_may_miss() {
    let mut client = ready(keeping_alive());
    let call = client.call_with("vendor/a", RequestOptions::no_timeout());
    client.advance(INTERVAL);
    let mut last = ping(&mut client);
    for missed in 1..3 {
        client.advance(INTERVAL);
        let sent = client.sent();
        assert_eq!(sent.len(), 2, "after {missed} missed: {sent:?}");
        assert_eq!(sent[0]["params"]["requestId"], last);
        assert_eq!(sent[1]["method"], "ping");
        last = sent[1]["id"].clone();
        assert_eq!(client.take_events(), []);
    }
    client.advance(INTERVAL);
    let reason = CloseReason::PeerSilent;
    let ended = Event::Response { call, outcome: Outcome::Closed(reason.clone()) };
    assert_eq!(client.take_events(), [ended, Event::Closed(reason)]);
    assert_eq!(client.conn.poll_timeout(), None);
    client.sent();
    client.advance(100 * INTERVAL);
    assert_eq!((client.take_events(), client.sent()), (vec![], vec![]));
}

#[test]
fn any_sign_of_life_sets_the_count_back() {
    let mut client = ready(keeping_alive());
    for _ in 0..5 {
        client.advance(INTERVAL);
        client.advance(INTERVAL);
        // The ping is not answered, but a peer that says something else is there.
        client.feed_text("hello");
        client.advance(INTERVAL / 2);
        client.events.retain(|event| !matches!(event, Event::Violation(_)));
        assert_eq!(client.take_events(), []);
    }
    assert!(client.conn.is_ready());
}

#[test]
fn a_peer_that_does_not_know_pings_is_spared_more_of_them() {
    let mut client = ready(keeping_alive());
    client.advance(INTERVAL);
    let id = ping(&mut client);
    client.feed(&error(id, -32601, "Method not found"));
    assert_eq!(client.conn.poll_timeout(), None);
    client.advance(1000 * INTERVAL);
    assert_eq!((client.take_events(), client.sent()), (vec![], vec![]));
    assert!(client.conn.is_ready());
}

#[test]
fn a_peer_is_not_taken_for_silent_because_we_wait_for_many_answers() {
    let mut config = keeping_alive();
    config.settings.limits.calls = 2;
    let mut client = ready(config);
    for _ in 0..2 {
        client.call_with("vendor/a", RequestOptions::no_timeout());
    }
    client.advance(INTERVAL);
    let id = ping(&mut client);
    assert_eq!(client.take_events(), []);
    client.feed(&result(id, json!({})));
    assert!(client.conn.is_ready());
}

#[test]
fn there_are_no_pings_outside_of_a_session() {
    let mut client = Solo::client(keeping_alive());
    client.sent();
    client.advance(2 * INTERVAL);
    assert_eq!((client.take_events(), client.sent()), (vec![], vec![]), "the handshake has a deadline of its own");

    let mut config = full_server();
    config.settings.keepalive = keeping_alive().settings.keepalive;
    let mut server = Solo::server(config.clone());
    server.advance(100 * INTERVAL);
    assert_eq!((server.take_events(), server.sent()), (vec![], vec![]));

    let mut server = Solo::ready_server_with(config, ProtocolVersion::V2025_06_18);
    let key = server.ask(&request(1, "vendor/a"));
    server.conn.handle_eof(server.now);
    assert_eq!(server.conn.poll_timeout().map(|deadline| deadline.wake), Some(Wake::Drain));
    server.answer(key, &json!({}));
    server.advance(100 * INTERVAL);
    assert_eq!(server.sent(), [result(1, json!({}))]);
    assert_eq!(server.conn.poll_timeout(), None);
}

#[test]
fn without_the_setting_nobody_is_pinged() {
    let mut client = ready(full_client());
    assert_eq!(client.conn.poll_timeout(), None);
    client.advance(1000 * INTERVAL);
    assert_eq!((client.take_events(), client.sent()), (vec![], vec![]));
}

#[test]
fn a_peer_that_says_something_else_than_an_answer_has_missed_nothing() {
    let mut client = ready(keeping_alive());
    client.advance(INTERVAL);
    ping(&mut client);
    client.advance(INTERVAL / 2);
    client.feed(&notification("vendor/a"));
    client.advance(INTERVAL / 2);
    assert_eq!(client.sent().len(), 1, "the ping has had its time");
    client.take_events();
    client.advance(INTERVAL / 2);
    ping(&mut client);
    for _ in 1..3 {
        client.advance(INTERVAL);
        assert_eq!(client.sent().len(), 2, "one is given up, and the next leaves");
    }
    assert!(client.conn.is_ready());
    client.advance(INTERVAL);
    assert_eq!(client.take_events(), [Event::Closed(CloseReason::PeerSilent)]);
}
