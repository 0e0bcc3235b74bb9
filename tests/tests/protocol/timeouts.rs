//! Timeouts of calls, with a clock that is only an argument.

use std::time::Duration;

use mcp_proto::{
    connection::{CloseReason, Deadline, Event, Outcome, RequestOptions, ResourceUsage, Wake},
    protocol::{ProtocolVersion, VersionSet},
    rpc::{CallId, Timestamp},
    schema::{CallToolParams, ListToolsParams, PingParams},
};
use mcp_tests::{
    harness::{Harness, full_client},
    message::{notification, progress, request, result},
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];
const SECOND: Duration = Duration::from_secs(1);
const INSTANT: Duration = Duration::from_nanos(1);

fn options(idle: impl Into<Option<Duration>>, total: impl Into<Option<Duration>>) -> RequestOptions {
    RequestOptions { idle_timeout: idle.into(), total_timeout: total.into(), ..RequestOptions::default() }
}

fn timed_out(call: CallId, total: bool) -> Event<'static> {
    Event::Response { call, outcome: Outcome::TimedOut { total } }
}

// req: LIFE-033 LIFE-034 LIFE-035
#[test]
fn idle_timeout_ends_a_call() {
    fn check<E>(mut harness: Harness<E>) {
        let call = harness.call("vendor/a");
        let idle = RequestOptions::default().idle_timeout.expect("a default is set");
        let deadline = Deadline { at: harness.now + idle, wake: Wake::RequestTimeout };
        assert_eq!(harness.conn.poll_timeout(), Some(deadline));
        harness.advance(idle - INSTANT);
        assert_eq!((harness.take_events(), harness.sent()), (vec![], vec![]));
        harness.advance(INSTANT);
        assert_eq!(harness.take_events(), [timed_out(call, false)]);
        let sent = harness.sent();
        assert_eq!(sent[0]["method"], "notifications/cancelled");
        assert_eq!(sent[0]["params"], json!({"requestId": call.as_u64(), "reason": "timed out"}));
        assert_eq!((harness.conn.poll_timeout(), harness.conn.usage()), (None, ResourceUsage::default()));
        harness.feed(&result(call.as_u64(), json!({})));
        assert_eq!(harness.take_events(), [Event::Late(call)]);
        assert_eq!((harness.conn.stats().timed_out, harness.conn.stats().late_responses), (1, 1));
        assert!(harness.conn.is_ready(), "only the call has ended");
        harness.call("vendor/b");
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

#[test]
fn calls_have_a_timeout_by_default() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_11_25);
    let default = RequestOptions::default();
    assert!(default.idle_timeout.is_some() && default.total_timeout.is_some() && default.progress);
    let (now, conn) = (client.now, &mut client.conn);
    let calls = [
        conn.request(now, &ListToolsParams::default(), default.clone()),
        conn.request(now, &CallToolParams::new("t"), default.clone()),
        conn.request(now, &PingParams::default(), default.clone()),
        conn.request_raw(now, "vendor/a", None, default),
        conn.request_raw(now, "ping", None, RequestOptions::within(SECOND)),
        conn.request_raw(now, "vendor/a", None, options(None, SECOND)),
        conn.request_raw(now, "vendor/a", None, options(SECOND, None)),
    ];
    let forever = conn.request_raw(now, "vendor/a", None, RequestOptions::no_timeout()).expect("it is ready");
    client.sent();
    client.advance(Duration::from_secs(3600));
    assert_eq!(client.take_events().len(), calls.len());
    assert_eq!(client.conn.poll_timeout(), None);
    client.advance(Duration::from_secs(1_000_000_000));
    client.feed(&result(forever.as_u64(), json!({})));
    assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
}

// req: LIFE-036 LIFE-037 LIFE-038
#[test]
fn progress_does_not_extend_the_total_timeout() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Harness::ready_client(version);
        let call = client.call_with("vendor/a", options(SECOND, 10 * SECOND));
        let step = SECOND * 9 / 10;
        for report in 1..=11 {
            client.advance(step);
            client.feed(&progress(call.as_u64(), report));
            assert!(matches!(client.take_events()[..], [Event::Progress { .. }]), "after {report} reports");
        }
        let left = 10 * SECOND - 11 * step;
        client.advance(left - INSTANT);
        assert_eq!(client.take_events(), []);
        client.advance(INSTANT);
        assert_eq!(client.take_events(), [timed_out(call, true)]);
    }
}

#[test]
fn only_own_progress_extends_the_idle_timeout() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
    let idle = client.call_with("vendor/a", options(SECOND, None));
    let without_progress = client.call_with("vendor/a", RequestOptions { progress: false, ..options(SECOND, None) });
    let lively = client.call_with("vendor/a", options(SECOND, None));
    client.advance(SECOND / 2);
    client.feed(&progress(lively.as_u64(), 1));
    client.feed(&progress(without_progress.as_u64(), 1));
    client.feed(&notification("vendor/b"));
    client.feed(&request(1, "ping"));
    client.take_events();
    client.advance(SECOND / 2);
    assert_eq!(client.take_events(), [timed_out(idle, false), timed_out(without_progress, false)]);
    client.advance(SECOND / 2);
    assert_eq!(client.take_events(), [timed_out(lively, false)]);
}

#[test]
fn timeouts_start_at_the_request_not_at_the_write() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
    let within = RequestOptions::within(SECOND);
    let queued = client.conn.request_raw(client.now, "vendor/a", None, within.clone()).expect("it is ready");
    client.now = client.now + SECOND / 2;
    let other = client.conn.request_raw(client.now, "vendor/b", None, within).expect("it is ready");
    client.advance(SECOND / 2);
    assert_eq!(client.take_events(), [timed_out(queued, true)]);
    let sent = client.sent();
    assert_eq!(sent.len(), 1, "what never left needs no cancellation: {sent:?}");
    assert_eq!(sent[0]["id"], other.as_u64());
    client.advance(SECOND / 2);
    assert_eq!(client.take_events(), [timed_out(other, true)]);
    assert_eq!(client.sent()[0]["method"], "notifications/cancelled");
}

#[test]
fn poll_timeout_returns_the_earliest_deadline() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
    let start = client.now;
    let at = |seconds: u32| Some(Deadline { at: start + seconds * SECOND, wake: Wake::RequestTimeout });
    let calls = [3, 1, 2, 1].map(|seconds| client.call_with("vendor/a", options(seconds * SECOND, None)));
    assert_eq!(client.conn.poll_timeout(), at(1));
    client.conn.cancel(calls[1], None).expect("it is in flight");
    client.feed(&result(calls[3].as_u64(), json!({})));
    assert_eq!(client.conn.poll_timeout(), at(2), "what has ended has no deadline");
    client.now = start + SECOND;
    client.feed(&progress(calls[2].as_u64(), 1));
    assert_eq!(client.conn.poll_timeout(), at(3), "what has moved has another");
    client.take_events();
    client.advance(2 * SECOND);
    assert_eq!(client.take_events(), [timed_out(calls[0], false), timed_out(calls[2], false)]);
    assert_eq!(client.conn.poll_timeout(), None);
}

#[test]
fn late_timeout_calls_handle_deadlines_in_order() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
    let calls: Vec<_> =
        [5, 3, 4, 3, 9].map(|seconds| client.call_with("vendor/a", options(None, seconds * SECOND))).into();
    client.advance(6 * SECOND);
    let order = [1, 3, 2, 0].map(|at| timed_out(calls[at], true));
    assert_eq!(client.take_events(), order);
    let cancelled: Vec<_> = client.sent().iter().map(|message| message["params"]["requestId"].as_u64()).collect();
    assert_eq!(cancelled, [1, 3, 2, 0].map(|at| Some(calls[at].as_u64())));
}

#[test]
fn early_timeout_calls_have_no_effect() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
    let call = client.call_with("vendor/a", options(SECOND, None));
    let due = client.conn.poll_timeout();
    for _ in 0..1000 {
        client.conn.handle_timeout(client.now);
    }
    assert_eq!((client.take_events(), client.sent(), client.conn.poll_timeout()), (vec![], vec![], due));
    client.advance(SECOND);
    assert_eq!(client.take_events(), [timed_out(call, false)]);
}

#[test]
fn clock_jumps_do_not_break_timeouts() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
    client.now = Timestamp::after_zero(100 * SECOND);
    let call = client.call_with("vendor/a", options(SECOND, 5 * SECOND));
    client.now = Timestamp::after_zero(SECOND);
    client.feed(&progress(call.as_u64(), 1));
    client.conn.handle_timeout(client.now);
    assert!(matches!(client.take_events()[..], [Event::Progress { .. }]));
    client.now = Timestamp::after_zero(100 * SECOND);
    client.advance(SECOND);
    assert_eq!(client.take_events(), [timed_out(call, false)], "progress in the past moves nothing");

    let endless = client.call_with("vendor/a", options(Duration::MAX, Duration::MAX));
    client.sent();
    client.now = Timestamp::from_nanos(u64::MAX - 1);
    client.conn.handle_timeout(client.now);
    assert_eq!(client.take_events(), []);
    client.advance(Duration::MAX);
    assert_eq!(client.take_events(), [timed_out(endless, true)]);
}

// req: CANC-005 LIFE-033
#[test]
fn handshake_timeout_cannot_be_extended() {
    for version in ProtocolVersion::LEGACY {
        let mut config = full_client();
        config.settings.versions = VersionSet::only(version);
        config.settings.handshake_timeout = 3 * SECOND;
        let mut client = Harness::client(config);
        let id = client.sent()[0]["id"].clone();
        let ping = client.conn.request_raw(client.now, "ping", None, RequestOptions::default()).expect("it is a ping");
        for report in 0..2 {
            client.advance(SECOND);
            client.feed(&progress(id.clone(), report));
            client.feed(&request(report, "ping"));
            client.feed_text("starting …");
        }
        client.take_events();
        client.sent();
        client.advance(SECOND);
        let reason = CloseReason::HandshakeTimeout;
        let ended = Event::Response { call: ping, outcome: Outcome::Closed(reason.clone()) };
        assert_eq!(client.take_events(), [ended, Event::Closed(reason)]);
        assert_eq!(client.sent(), NOTHING);
        assert!(client.conn.is_drained());
        assert_eq!(client.conn.poll_timeout(), None);
    }
}

#[test]
fn unsent_handshake_times_out_cleanly() {
    let mut client = Harness::client(full_client());
    client.advance(client.conn.settings().handshake_timeout);
    assert_eq!(client.take_events(), [Event::Closed(CloseReason::HandshakeTimeout)]);
    assert_eq!(client.sent(), NOTHING);
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}
