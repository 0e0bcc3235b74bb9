//! Pings: answered at once, and sent to a quiet peer.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientConfig, CloseReason, Event, Keepalive, Outcome, RequestOptions, Wake},
    protocol::ProtocolVersion,
    rpc::CallId,
    schema::PingParams,
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{error, notification, request, request_with, result},
};
use serde_json::{Value, json};

type Client = Harness<mcp_proto::connection::ClientRole>;

const NOTHING: [Value; 0] = [];
const INTERVAL: Duration = Duration::from_secs(10);

fn keeping_alive() -> ClientConfig {
    let mut config = full_client();
    config.settings.keepalive = Some(Keepalive { interval: INTERVAL, max_missed: 3 });
    config
}

fn ready(config: ClientConfig) -> Client {
    Harness::ready_client_with(config, ProtocolVersion::V2025_06_18)
}

/// Returns the id of the ping, which is the only output.
#[track_caller]
fn ping(client: &mut Client) -> Value {
    let sent = client.sent();
    let [ping] = &sent[..] else { panic!("this is not one ping: {sent:?}") };
    assert_eq!(*ping, request(ping["id"].clone(), "ping"));
    ping["id"].clone()
}

// req: PING-001
#[test]
fn pings_have_no_params() {
    fn check<E>(mut harness: Harness<E>) {
        let options = RequestOptions { progress: true, ..RequestOptions::default() };
        let typed = harness.conn.request(harness.now, &PingParams::default(), options.clone()).expect("it is allowed");
        let named = harness.conn.request_raw(harness.now, "ping", None, options).expect("it is allowed");
        assert_eq!(harness.sent(), [typed, named].map(|call: CallId| request(call.as_u64(), "ping")));
        harness.feed(&result(typed.as_u64(), json!({})));
        harness.feed(&error(named.as_u64(), -32601, "no"));
        assert_eq!(harness.take_events().len(), 2);
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

// req: PING-002 PING-003
#[test]
fn pings_are_answered_before_queued_output() {
    fn check<E>(mut harness: Harness<E>) {
        let working = harness.receive_request(&request(1, "vendor/a"));
        for _ in 0..100 {
            harness.conn.request_raw(harness.now, "vendor/b", None, RequestOptions::default()).expect("it is ready");
        }
        harness.feed(&request(2, "ping"));
        harness.feed(&request_with("3", "ping", json!({"_meta": {"vendor/x": 1}})));
        assert_eq!(harness.take_events(), [], "the application has nothing to do with it");
        assert_eq!(harness.sent()[..2], [result(2, json!({})), result("3", json!({}))]);
        harness.respond(working, &json!({}));
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

#[test]
fn pings_are_answered_with_a_full_outbox() {
    let mut config = full_server();
    config.settings.limits.outbox_bytes = 100;
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_06_18);
    while server.conn.notify_raw("vendor/a", None).is_ok() {}
    server.feed(&request(2, "ping"));
    assert_eq!(server.sent().last(), Some(&result(2, json!({}))));
}

// req: PING-005 PING-006
#[test]
fn only_quiet_peers_are_pinged() {
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
fn silent_peers_are_closed_after_missed_pings() {
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
fn any_input_resets_the_missed_ping_count() {
    let mut client = ready(keeping_alive());
    for _ in 0..5 {
        client.advance(INTERVAL);
        client.advance(INTERVAL);
        // The ping has no response, but other input shows that the peer is alive.
        client.feed_text("hello");
        client.advance(INTERVAL / 2);
        client.events.retain(|event| !matches!(event, Event::Violation(_)));
        assert_eq!(client.take_events(), []);
    }
    assert!(client.conn.is_ready());
}

#[test]
fn pings_stop_after_method_not_found() {
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
fn keepalive_pings_bypass_the_call_limit() {
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
fn pings_are_sent_only_in_a_ready_session() {
    let mut client = Harness::client(keeping_alive());
    client.sent();
    client.advance(2 * INTERVAL);
    assert_eq!((client.take_events(), client.sent()), (vec![], vec![]), "the handshake has a deadline of its own");

    let mut config = full_server();
    config.settings.keepalive = keeping_alive().settings.keepalive;
    let mut server = Harness::server(config.clone());
    server.advance(100 * INTERVAL);
    assert_eq!((server.take_events(), server.sent()), (vec![], vec![]));

    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_06_18);
    let key = server.receive_request(&request(1, "vendor/a"));
    server.conn.handle_eof(server.now);
    assert_eq!(server.conn.poll_timeout().map(|deadline| deadline.wake), Some(Wake::Drain));
    server.respond(key, &json!({}));
    server.advance(100 * INTERVAL);
    assert_eq!(server.sent(), [result(1, json!({}))]);
    assert_eq!(server.conn.poll_timeout(), None);
}

#[test]
fn no_pings_without_keepalive() {
    let mut client = ready(full_client());
    assert_eq!(client.conn.poll_timeout(), None);
    client.advance(1000 * INTERVAL);
    assert_eq!((client.take_events(), client.sent()), (vec![], vec![]));
}

#[test]
fn other_messages_reset_the_missed_ping_count() {
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

/// What arrives at the time of a ping is older than its timeout.
#[test]
fn input_at_the_time_of_a_ping_does_not_count_for_it() {
    for (later, is_closed) in [(Duration::ZERO, true), (Duration::from_nanos(1), false)] {
        let mut config = full_client();
        config.settings.keepalive = Some(Keepalive { interval: INTERVAL, max_missed: 1 });
        let mut client = ready(config);
        client.advance(INTERVAL);
        ping(&mut client);
        client.advance(later);
        client.feed(&notification("vendor/a"));
        client.take_events();
        client.advance(INTERVAL - later);
        let expected = if is_closed { vec![Event::Closed(CloseReason::PeerSilent)] } else { vec![] };
        assert_eq!((client.take_events(), client.conn.is_ready()), (expected, !is_closed), "{later:?}");
    }
}
