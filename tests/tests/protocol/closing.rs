//! How a connection ends: closed on either side or broken, and the output that is still sent.

use std::time::Duration;

use mcp_proto::{
    codec::Frame,
    connection::{
        CancelCause, CloseReason, Connection, Event, Outcome, RequestOptions, ResourceUsage, SendError, Wake,
    },
    protocol::{Phase, ProtocolVersion},
    rpc::Timestamp,
    wire::ErrorObject,
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    link::LinkConfig,
    message::{cancelled, notification, request, request_with_token, result},
    testbed::Testbed,
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

/// The cause of the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Eof,
    Broken,
}

const ENDS: [End; 3] = [End::Close, End::Eof, End::Broken];

impl End {
    fn happens<E>(self, conn: &mut Connection<E>, now: Timestamp) {
        match self {
            Self::Close => conn.close(now),
            Self::Eof => conn.handle_eof(now),
            Self::Broken => conn.handle_disconnect(),
        }
    }

    fn reason(self) -> CloseReason {
        match self {
            Self::Close => CloseReason::Local,
            Self::Eof => CloseReason::Eof,
            Self::Broken => CloseReason::ConnectionLost,
        }
    }
}

#[test]
fn idle_connections_close_immediately() {
    fn check<E>(begin: impl Fn() -> Harness<E>, phase: Phase) {
        for end in ENDS {
            let mut harness = begin();
            assert_eq!(harness.conn.phase(), phase);
            end.happens(&mut harness.conn, harness.now);
            assert_eq!(harness.conn.usage().events, 1, "the end waits to be told");
            assert!(!harness.conn.is_drained());
            assert_eq!(harness.take_events(), [Event::Closed(end.reason())], "{end:?} in {phase:?}");
            assert_eq!(harness.sent(), NOTHING, "{end:?} in {phase:?}");
            assert!(harness.conn.is_drained());
            assert_eq!((harness.conn.usage(), harness.conn.poll_timeout()), (ResourceUsage::default(), None));
        }
    }
    let initializing = || {
        let mut server = Harness::server(full_server());
        let client =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        server.feed(&mcp_tests::message::request_with(1, "initialize", client));
        server.sent();
        server
    };
    check(|| Harness::client(full_client()), Phase::Opening);
    check(|| Harness::server(full_server()), Phase::Opening);
    check(initializing, Phase::Initializing);
    for version in ProtocolVersion::LEGACY {
        check(|| Harness::ready_client(version), Phase::Ready);
        check(|| Harness::ready_server(version), Phase::Ready);
    }
}

// req: LIFE-041 STDIO-014
#[test]
fn calls_end_with_the_close_reason() {
    fn check<E>(ready: impl Fn() -> Harness<E>) {
        for end in ENDS {
            let mut harness = ready();
            let sent = harness.call("vendor/a");
            let also = harness.call_with("vendor/b", RequestOptions::no_timeout());
            let queued = harness
                .conn
                .request_raw(harness.now, "vendor/c", None, RequestOptions::default())
                .expect("it is ready");
            end.happens(&mut harness.conn, harness.now);
            let ended = |call| Event::Response { call, outcome: Outcome::Closed(end.reason()) };
            let expected = [ended(sent), ended(also), ended(queued), Event::Closed(end.reason())];
            assert_eq!(harness.take_events(), expected, "{end:?}");
            assert_eq!(harness.sent(), NOTHING, "nothing is sent any more: {end:?}");
            assert_eq!((harness.conn.usage(), harness.conn.poll_timeout()), (ResourceUsage::default(), None));
        }
    }
    for version in ProtocolVersion::LEGACY {
        check(|| Harness::ready_client(version));
        check(|| Harness::ready_server(version));
    }
}

#[test]
fn closed_connections_do_nothing() {
    fn check<E>(mut harness: Harness<E>, end: End) {
        let key = harness.receive_request(&request_with_token(1, "vendor/a", "t"));
        let call = harness.call("vendor/b");
        harness.conn.close(harness.now);
        end.happens(&mut harness.conn, harness.now);
        harness.advance(Duration::from_secs(60));
        harness.take_events();
        harness.sent();
        let options = RequestOptions::default();
        assert_eq!(harness.conn.request_raw(harness.now, "ping", None, options), Err(SendError::Closed));
        assert_eq!(harness.conn.notify_raw("vendor/x", None), Err(SendError::Closed));
        assert_eq!(harness.conn.cancel(call, None), Err(SendError::UnknownCall));
        assert_eq!(harness.conn.progress(key, 1.0, None, None), Ok(()), "swallowed, like the answer");
        assert_eq!(harness.conn.respond_error(key, &ErrorObject::internal("no")), Ok(()));
        assert_eq!(harness.conn.respond_error(key, &ErrorObject::internal("no")), Err(SendError::Answered));
        for line in ["{", r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#] {
            assert_eq!(harness.conn.handle_frame(harness.now, Frame::new(line.as_bytes())), None);
        }
        for end in ENDS {
            end.happens(&mut harness.conn, harness.now);
        }
        harness.advance(Duration::from_secs(3600));
        assert_eq!((harness.take_events(), harness.sent()), (vec![], vec![]));
        assert!(harness.conn.is_drained());
        assert_eq!((harness.conn.usage(), harness.conn.poll_timeout()), (ResourceUsage::default(), None));
    }
    for end in ENDS {
        check(Harness::ready_client(ProtocolVersion::V2025_11_25), end);
        check(Harness::ready_server(ProtocolVersion::V2025_11_25), end);
    }
}

#[test]
fn open_requests_are_cancelled_once_before_close() {
    fn check<E>(mut harness: Harness<E>, end: End) {
        let keys: Vec<_> = (0..50).map(|id| harness.receive_request(&request(id, "vendor/a"))).collect();
        end.happens(&mut harness.conn, harness.now);
        // Half of the requests get their response in time, if the connection drains.
        for key in &keys[..25] {
            let _ = harness.conn.respond_error(*key, &ErrorObject::internal("no"));
        }
        harness.advance(Duration::from_secs(60));
        let told = |key: &_| Event::Cancelled { key: *key, cause: CancelCause::Closed };
        let in_time = harness.sent().len();
        let mut expected: Vec<_> = keys[in_time..].iter().map(told).collect();
        expected.push(Event::Closed(end.reason()));
        assert_eq!(harness.take_events(), expected, "{end:?}");
        for key in &keys[in_time..] {
            let _ = harness.conn.respond_error(*key, &ErrorObject::internal("too late"));
        }
        assert_eq!(harness.sent(), NOTHING);
        assert_eq!(harness.conn.usage(), ResourceUsage::default());
    }
    for end in ENDS {
        check(Harness::ready_client(ProtocolVersion::V2025_06_18), end);
        check(Harness::ready_server(ProtocolVersion::V2025_06_18), end);
    }
}

// req: STDIO-015
#[test]
fn server_drains_requests_after_eof() {
    for end in [End::Eof, End::Close] {
        let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
        let keys = [1, 2, 3].map(|id| server.receive_request(&request_with_token(id, "vendor/a", id)));
        end.happens(&mut server.conn, server.now);
        assert_eq!((server.conn.phase(), server.take_events()), (Phase::Draining, vec![]));
        assert_eq!(server.conn.poll_timeout().map(|deadline| deadline.wake), Some(Wake::Drain));
        server.conn.progress(keys[0], 1.0, None, None).expect("it is still in progress");
        server.conn.notify_raw("vendor/x", None).expect("the peer may be listening");
        server.respond(keys[0], &json!({}));
        assert_eq!(server.sent().len(), 3);
        server.feed(&cancelled(2));
        assert_eq!(server.take_events(), [Event::Cancelled { key: keys[1], cause: CancelCause::Peer(None) }]);
        server.respond(keys[2], &json!({}));
        assert_eq!(server.take_events(), [Event::Closed(end.reason())]);
        assert!(!server.conn.is_drained(), "the last answer waits to be written");
        assert_eq!(server.sent(), [result(3, json!({}))]);
        assert!(server.conn.is_drained());
        server.respond(keys[1], &json!({}));
        assert_eq!(server.conn.usage(), ResourceUsage::default());
    }
}

#[test]
fn last_cancellation_precedes_the_closed_event() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
    let key = server.receive_request(&request(1, "vendor/a"));
    server.conn.close(server.now);
    server.feed(&cancelled(1));
    let told = Event::Cancelled { key, cause: CancelCause::Peer(None) };
    assert_eq!(server.take_events(), [told, Event::Closed(CloseReason::Local)]);
}

#[test]
fn requests_longer_than_the_drain_are_cancelled() {
    let mut config = full_server();
    config.settings.limits.drain = Duration::from_secs(2);
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_06_18);
    let key = server.receive_request(&request(1, "vendor/a"));
    server.conn.handle_eof(server.now);
    // Another close does not change the deadline.
    server.advance(Duration::from_millis(1000));
    server.conn.close(server.now);
    server.conn.handle_eof(server.now);
    server.advance(Duration::from_millis(999));
    assert_eq!(server.take_events(), []);
    server.advance(Duration::from_millis(1));
    let told = Event::Cancelled { key, cause: CancelCause::Closed };
    assert_eq!(server.take_events(), [told, Event::Closed(CloseReason::Eof)]);
    assert_eq!(server.sent(), NOTHING);
    assert!(server.conn.is_drained());
}

#[test]
fn closing_connections_refuse_new_requests() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Harness::ready_client(version);
        let key = client.receive_request(&request(1, "vendor/a"));
        let call = client.call("vendor/b");
        client.conn.close(client.now);
        assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Closed(_), .. }]));
        let options = RequestOptions::default();
        assert_eq!(client.conn.request_raw(client.now, "ping", None, options), Err(SendError::Closed));
        client.feed(&request(2, "vendor/a"));
        let refusal = client.sent();
        assert_eq!((&refusal[0]["id"], &refusal[0]["error"]["code"]), (&json!(2), &json!(-32603)));
        client.feed(&request(3, "ping"));
        assert_eq!(client.sent(), [result(3, json!({}))]);
        client.feed(&result(call.as_u64(), json!({})));
        assert_eq!(client.take_events(), [Event::Late(call)]);
        assert_eq!(client.conn.stats().violations, 0, "the peer could not know");
        client.respond(key, &json!({}));
        assert_eq!(client.sent(), [result(1, json!({}))]);
    }
}

#[test]
fn transport_errors_report_their_cause() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
    let call = client.call("vendor/a");
    let key = client.receive_request(&request(1, "vendor/b"));
    client.respond(key, &json!({}));
    client.conn.notify_raw("vendor/c", None).expect("it is ready");
    client.conn.handle_transport_error("exit status 1");
    let reason = CloseReason::TransportError("exit status 1".to_owned());
    let ended = Event::Response { call, outcome: Outcome::Closed(reason.clone()) };
    assert_eq!(client.take_events(), [ended, Event::Closed(reason.clone())]);
    assert!(reason.to_string().contains("exit status 1") && !reason.is_clean());
    assert_eq!(client.sent(), NOTHING);
    assert_eq!(client.conn.usage(), ResourceUsage::default(), "an answer that never left holds nothing");
}

#[test]
fn disconnect_discards_unwritten_output() {
    for end in [End::Close, End::Eof] {
        let mut server = Harness::ready_server(ProtocolVersion::V2025_03_26);
        let key = server.receive_request(&request(1, "vendor/a"));
        server.feed(&json!([request(2, "ping"), notification("vendor/x")]));
        server.respond(key, &json!({}));
        end.happens(&mut server.conn, server.now);
        server.take_events();
        assert!(!server.conn.is_drained());
        server.conn.handle_disconnect();
        assert!(server.conn.is_drained(), "{end:?}");
        assert_eq!((server.take_events(), server.sent()), (vec![], vec![]));
        assert_eq!(server.conn.usage(), ResourceUsage::default());
    }
}

// req: LIFE-041
#[test]
fn both_sides_close_cleanly() {
    for (link, client_begins) in
        [LinkConfig::default(), LinkConfig::one_byte()].into_iter().flat_map(|link| [(link, true), (link, false)])
    {
        let mut testbed = Testbed::ready_over(link);
        let options = RequestOptions::default();
        testbed.client.conn.request_raw(testbed.now, "vendor/a", None, options.clone()).expect("ready");
        testbed.server.conn.request_raw(testbed.now, "vendor/b", None, options).expect("ready");
        testbed.settle();
        if client_begins {
            testbed.client.conn.close(testbed.now)
        } else {
            testbed.server.conn.close(testbed.now)
        }
        testbed.advance(Duration::from_secs(20));
        for (events, drained) in [
            (testbed.client.take_events(), testbed.client.conn.is_drained()),
            (testbed.server.take_events(), testbed.server.conn.is_drained()),
        ] {
            assert!(drained);
            assert!(matches!(events.last(), Some(Event::Closed(reason)) if reason.is_clean()), "{events:?}");
            let count = |wanted: fn(&Event<'_>) -> bool| events.iter().filter(|event| wanted(event)).count();
            assert_eq!(count(|event| matches!(event, Event::Response { outcome: Outcome::Closed(_), .. })), 1);
            assert_eq!(count(|event| matches!(event, Event::Closed(_))), 1);
        }
    }
}
