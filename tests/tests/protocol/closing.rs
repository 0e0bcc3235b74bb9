//! How a connection ends: closed here, closed there, broken; and what is still said on the way.

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
    bed::Bed,
    link::LinkConfig,
    message::{cancelled, notification, request, request_with_token, result},
    solo::{Solo, full_client, full_server},
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

/// How a connection comes to its end.
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
fn with_nothing_to_do_a_connection_ends_at_once_in_every_phase() {
    fn check<E>(begin: impl Fn() -> Solo<E>, phase: Phase) {
        for end in ENDS {
            let mut solo = begin();
            assert_eq!(solo.conn.phase(), phase);
            end.happens(&mut solo.conn, solo.now);
            assert_eq!(solo.conn.usage().events, 1, "the end waits to be told");
            assert!(!solo.conn.is_drained());
            assert_eq!(solo.take_events(), [Event::Closed(end.reason())], "{end:?} in {phase:?}");
            assert_eq!(solo.sent(), NOTHING, "{end:?} in {phase:?}");
            assert!(solo.conn.is_drained());
            assert_eq!((solo.conn.usage(), solo.conn.poll_timeout()), (ResourceUsage::default(), None));
        }
    }
    let initializing = || {
        let mut server = Solo::server(full_server());
        let client =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        server.feed(&mcp_tests::message::request_with(1, "initialize", client));
        server.sent();
        server
    };
    check(|| Solo::client(full_client()), Phase::Opening);
    check(|| Solo::server(full_server()), Phase::Opening);
    check(initializing, Phase::Initializing);
    for version in ProtocolVersion::LEGACY {
        check(|| Solo::ready_client(version), Phase::Ready);
        check(|| Solo::ready_server(version), Phase::Ready);
    }
}

// req: LIFE-041 STDIO-014
#[test]
fn calls_end_with_the_connection_and_with_its_reason() {
    fn check<E>(ready: impl Fn() -> Solo<E>) {
        for end in ENDS {
            let mut solo = ready();
            let sent = solo.call("vendor/a");
            let also = solo.call_with("vendor/b", RequestOptions::no_timeout());
            let queued =
                solo.conn.request_raw(solo.now, "vendor/c", None, RequestOptions::default()).expect("it is ready");
            end.happens(&mut solo.conn, solo.now);
            let ended = |call| Event::Response { call, outcome: Outcome::Closed(end.reason()) };
            let expected = [ended(sent), ended(also), ended(queued), Event::Closed(end.reason())];
            assert_eq!(solo.take_events(), expected, "{end:?}");
            assert_eq!(solo.sent(), NOTHING, "nothing is sent any more: {end:?}");
            assert_eq!((solo.conn.usage(), solo.conn.poll_timeout()), (ResourceUsage::default(), None));
        }
    }
    for version in ProtocolVersion::LEGACY {
        check(|| Solo::ready_client(version));
        check(|| Solo::ready_server(version));
    }
}

#[test]
fn a_closed_connection_does_nothing_any_more() {
    fn check<E>(mut solo: Solo<E>, end: End) {
        let key = solo.ask(&request_with_token(1, "vendor/a", "t"));
        let call = solo.call("vendor/b");
        solo.conn.close(solo.now);
        end.happens(&mut solo.conn, solo.now);
        solo.advance(Duration::from_secs(60));
        solo.take_events();
        solo.sent();
        let options = RequestOptions::default();
        assert_eq!(solo.conn.request_raw(solo.now, "ping", None, options), Err(SendError::Closed));
        assert_eq!(solo.conn.notify_raw("vendor/x", None), Err(SendError::Closed));
        assert_eq!(solo.conn.cancel(call, None), Err(SendError::UnknownCall));
        assert_eq!(solo.conn.progress(key, 1.0, None, None), Ok(()), "swallowed, like the answer");
        assert_eq!(solo.conn.respond_error(key, &ErrorObject::internal("no")), Ok(()));
        assert_eq!(solo.conn.respond_error(key, &ErrorObject::internal("no")), Err(SendError::Answered));
        for line in ["{", r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#] {
            assert_eq!(solo.conn.handle_frame(solo.now, Frame::new(line.as_bytes())), None);
        }
        for end in ENDS {
            end.happens(&mut solo.conn, solo.now);
        }
        solo.advance(Duration::from_secs(3600));
        assert_eq!((solo.take_events(), solo.sent()), (vec![], vec![]));
        assert!(solo.conn.is_drained());
        assert_eq!((solo.conn.usage(), solo.conn.poll_timeout()), (ResourceUsage::default(), None));
    }
    for end in ENDS {
        check(Solo::ready_client(ProtocolVersion::V2025_11_25), end);
        check(Solo::ready_server(ProtocolVersion::V2025_11_25), end);
    }
}

#[test]
fn everyone_who_works_for_nobody_is_told_once_and_before_the_end() {
    fn check<E>(mut solo: Solo<E>, end: End) {
        let keys: Vec<_> = (0..50).map(|id| solo.ask(&request(id, "vendor/a"))).collect();
        end.happens(&mut solo.conn, solo.now);
        // Half of the work is done in time, if there is any.
        for key in &keys[..25] {
            let _ = solo.conn.respond_error(*key, &ErrorObject::internal("no"));
        }
        solo.advance(Duration::from_secs(60));
        let told = |key: &_| Event::Cancelled { key: *key, cause: CancelCause::Closed };
        let in_time = solo.sent().len();
        let mut expected: Vec<_> = keys[in_time..].iter().map(told).collect();
        expected.push(Event::Closed(end.reason()));
        assert_eq!(solo.take_events(), expected, "{end:?}");
        for key in &keys[in_time..] {
            let _ = solo.conn.respond_error(*key, &ErrorObject::internal("too late"));
        }
        assert_eq!(solo.sent(), NOTHING);
        assert_eq!(solo.conn.usage(), ResourceUsage::default());
    }
    for end in ENDS {
        check(Solo::ready_client(ProtocolVersion::V2025_06_18), end);
        check(Solo::ready_server(ProtocolVersion::V2025_06_18), end);
    }
}

// req: STDIO-015
#[test]
fn a_server_whose_input_has_ended_still_answers_what_it_was_asked() {
    for end in [End::Eof, End::Close] {
        let mut server = Solo::ready_server(ProtocolVersion::V2025_06_18);
        let keys = [1, 2, 3].map(|id| server.ask(&request_with_token(id, "vendor/a", id)));
        end.happens(&mut server.conn, server.now);
        assert_eq!((server.conn.phase(), server.take_events()), (Phase::Draining, vec![]));
        assert_eq!(server.conn.poll_timeout().map(|deadline| deadline.wake), Some(Wake::Drain));
        server.conn.progress(keys[0], 1.0, None, None).expect("it is still in progress");
        server.conn.notify_raw("vendor/x", None).expect("the peer may be listening");
        server.answer(keys[0], &json!({}));
        assert_eq!(server.sent().len(), 3);
        server.feed(&cancelled(2));
        assert_eq!(server.take_events(), [Event::Cancelled { key: keys[1], cause: CancelCause::Peer(None) }]);
        server.answer(keys[2], &json!({}));
        assert_eq!(server.take_events(), [Event::Closed(end.reason())]);
        assert!(!server.conn.is_drained(), "the last answer waits to be written");
        assert_eq!(server.sent(), [result(3, json!({}))]);
        assert!(server.conn.is_drained());
        server.answer(keys[1], &json!({}));
        assert_eq!(server.conn.usage(), ResourceUsage::default());
    }
}

#[test]
fn the_last_cancellation_is_told_before_the_end() {
    let mut server = Solo::ready_server(ProtocolVersion::V2025_06_18);
    let key = server.ask(&request(1, "vendor/a"));
    server.conn.close(server.now);
    server.feed(&cancelled(1));
    let told = Event::Cancelled { key, cause: CancelCause::Peer(None) };
    assert_eq!(server.take_events(), [told, Event::Closed(CloseReason::Local)]);
}

#[test]
fn what_takes_longer_than_the_drain_is_given_up() {
    let mut config = full_server();
    config.settings.limits.drain = Duration::from_secs(2);
    let mut server = Solo::ready_server_with(config, ProtocolVersion::V2025_06_18);
    let key = server.ask(&request(1, "vendor/a"));
    server.conn.handle_eof(server.now);
    // Closing again neither shortens nor prolongs it.
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
fn a_connection_that_is_closing_takes_nothing_new() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Solo::ready_client(version);
        let key = client.ask(&request(1, "vendor/a"));
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
        client.answer(key, &json!({}));
        assert_eq!(client.sent(), [result(1, json!({}))]);
    }
}

#[test]
fn what_breaks_is_told_with_what_is_known_of_it() {
    let mut client = Solo::ready_client(ProtocolVersion::V2025_06_18);
    let call = client.call("vendor/a");
    let key = client.ask(&request(1, "vendor/b"));
    client.answer(key, &json!({}));
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
fn what_was_not_written_when_it_broke_is_forgotten() {
    for end in [End::Close, End::Eof] {
        let mut server = Solo::ready_server(ProtocolVersion::V2025_03_26);
        let key = server.ask(&request(1, "vendor/a"));
        server.feed(&json!([request(2, "ping"), notification("vendor/x")]));
        server.answer(key, &json!({}));
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
fn both_ends_close_whoever_begins_and_whatever_is_under_way() {
    for (link, client_begins) in
        [LinkConfig::default(), LinkConfig::one_byte()].into_iter().flat_map(|link| [(link, true), (link, false)])
    {
        let mut bed = Bed::ready_over(link);
        let options = RequestOptions::default();
        bed.client.conn.request_raw(bed.now, "vendor/a", None, options.clone()).expect("ready");
        bed.server.conn.request_raw(bed.now, "vendor/b", None, options).expect("ready");
        bed.settle();
        if client_begins {
            bed.client.conn.close(bed.now)
        } else {
            bed.server.conn.close(bed.now)
        }
        bed.advance(Duration::from_secs(20));
        for (events, drained) in [
            (bed.client.take_events(), bed.client.conn.is_drained()),
            (bed.server.take_events(), bed.server.conn.is_drained()),
        ] {
            assert!(drained);
            assert!(matches!(events.last(), Some(Event::Closed(reason)) if reason.is_clean()), "{events:?}");
            let count = |wanted: fn(&Event<'_>) -> bool| events.iter().filter(|event| wanted(event)).count();
            assert_eq!(count(|event| matches!(event, Event::Response { outcome: Outcome::Closed(_), .. })), 1);
            assert_eq!(count(|event| matches!(event, Event::Closed(_))), 1);
        }
    }
}
