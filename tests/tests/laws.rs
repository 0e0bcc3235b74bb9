//! The laws of the house, as properties over random conversations.
//!
//! Law 1 (no I/O, no clock, no randomness in the core) is a matter of what is linked: see `floors.rs` and `no_std.rs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mcp_proto::{
    codec::LineDecoder,
    connection::{CancelCause, Connection, Event, RequestOptions, Usage},
    protocol::ProtocolVersion,
    rpc::{CallId, ReplyKey, Timestamp},
    wire::ErrorObject,
};
use mcp_tests::{
    bed::{Bed, End},
    link::LinkConfig,
    solo::Solo,
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

/// Which end does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Client,
    Server,
}

/// Something that an application or the world may do. Numbers pick among what there is at the moment.
#[derive(Clone, Debug)]
enum Op {
    Request(Who, u8),
    Notify(Who),
    Cancel(Who, usize),
    Respond(Who, usize, bool),
    Progress(Who, usize),
    ListChanged,
    Run,
    Wait(u16),
    Stall(Who, bool),
    Close(Who),
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![Just(Who::Client), Just(Who::Server)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (who(), any::<u8>()).prop_map(|(who, kind)| Op::Request(who, kind)),
        1 => who().prop_map(Op::Notify),
        3 => (who(), any::<usize>()).prop_map(|(who, n)| Op::Cancel(who, n)),
        5 => (who(), any::<usize>(), any::<bool>()).prop_map(|(who, n, ok)| Op::Respond(who, n, ok)),
        3 => (who(), any::<usize>()).prop_map(|(who, n)| Op::Progress(who, n)),
        1 => Just(Op::ListChanged),
        8 => Just(Op::Run),
        2 => any::<u16>().prop_map(Op::Wait),
        1 => (who(), any::<bool>()).prop_map(|(who, stalled)| Op::Stall(who, stalled)),
    ]
}

fn link() -> impl Strategy<Value = LinkConfig> {
    let size = prop_oneof![Just(1), Just(2), 1usize..64, Just(usize::MAX)];
    (size.clone(), size, prop_oneof![Just(0u64), 1u64..50]).prop_map(|(capacity, chunk, delay)| LinkConfig {
        capacity,
        chunk,
        delay: Duration::from_micros(delay),
        cut_after: None,
    })
}

/// What one end has seen, checked as it happens.
#[derive(Default)]
struct Ledger {
    calls: BTreeSet<CallId>,
    ended: BTreeMap<CallId, u32>,
    open: Vec<ReplyKey>,
    cancelled: BTreeSet<ReplyKey>,
    progress: BTreeMap<ReplyKey, u32>,
    closed: bool,
}

impl Ledger {
    fn take<E>(&mut self, end: &mut End<E>) {
        for event in end.take_events() {
            assert!(!self.closed, "an event after the last one: {event:?}");
            match event {
                Event::Closed(_) => {
                    self.closed = true;
                    let open = self.calls.iter().find(|call| !self.ended.contains_key(call));
                    assert_eq!(open, None, "the connection has ended and a call has not");
                }
                Event::Request { key, .. } => self.open.push(key),
                Event::Cancelled { key, cause } => {
                    assert!(self.open.contains(&key), "a cancellation of what is not open");
                    assert!(self.cancelled.insert(key), "cancelled twice");
                    let _: CancelCause<'_> = cause;
                }
                Event::Response { call, .. } => {
                    assert!(self.calls.contains(&call), "a call that was never made has ended");
                    *self.ended.entry(call).or_default() += 1;
                    assert_eq!(self.ended[&call], 1, "a call has ended twice");
                }
                Event::Progress { call, .. } => {
                    assert!(!self.ended.contains_key(&call), "progress for a call that has ended");
                }
                Event::Violation(violation) => panic!("two good peers and yet: {violation}"),
                _ => {}
            }
        }
    }
}

struct Play {
    bed: Bed,
    client: Ledger,
    server: Ledger,
}

fn apply<E>(conn: &mut Connection<E>, ledger: &mut Ledger, now: Timestamp, op: &Op) {
    match *op {
        Op::Request(who, kind) => {
            let method = match (who, kind % 4) {
                (_, 0) => "vendor/custom",
                (_, 1) => "ping",
                (Who::Client, _) => "tools/list",
                (Who::Server, _) => "roots/list",
            };
            let options = RequestOptions {
                idle_timeout: Some(Duration::from_millis(u64::from(kind) * 10 + 1)),
                total_timeout: Some(Duration::from_secs(2)),
                progress: kind & 0x80 != 0,
                ..RequestOptions::default()
            };
            if let Ok(call) = conn.request_raw(now, method, None, options) {
                ledger.calls.insert(call);
            }
        }
        Op::Cancel(_, n) => {
            let open: Vec<_> = ledger.calls.iter().filter(|call| !ledger.ended.contains_key(call)).copied().collect();
            if let Some(call) = open.get(n % open.len().max(1)) {
                // It may have ended without the ledger knowing it yet.
                let _ = conn.cancel(*call, Some("changed my mind"));
            }
        }
        Op::Respond(_, n, ok) => {
            if !ledger.open.is_empty() {
                let key = ledger.open.remove(n % ledger.open.len());
                let answered = if ok {
                    conn.respond_raw(
                        key,
                        &(&mcp_proto::wire::Json::parse("{\"tools\":[],\"roots\":[]}").expect("JSON")).into(),
                    )
                } else {
                    conn.respond_error(key, &ErrorObject::internal("no"))
                };
                assert_eq!(answered, Ok(()), "a request is owed exactly one answer");
                assert!(conn.respond_error(key, &ErrorObject::internal("twice")).is_err(), "a second answer");
            }
        }
        Op::Progress(_, n) => {
            if let Some(key) = ledger.open.get(n % ledger.open.len().max(1)) {
                let count = ledger.progress.entry(*key).or_default();
                *count += 1;
                assert_eq!(conn.progress(*key, f64::from(*count), None, None), Ok(()));
            }
        }
        Op::Notify(_) => {
            let _ = conn.notify_raw("vendor/noted", None);
        }
        Op::ListChanged => {
            let _ = conn.notify_raw("notifications/tools/list_changed", None);
        }
        Op::Close(_) => conn.close(now),
        Op::Run | Op::Wait(_) | Op::Stall(..) => {}
    }
}

impl Play {
    fn new(config: LinkConfig) -> Self {
        Self { bed: Bed::ready_over(config), client: Ledger::default(), server: Ledger::default() }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Run => self.bed.run(),
            Op::Wait(millis) => self.bed.advance(Duration::from_millis(u64::from(millis) % 3000)),
            Op::Stall(Who::Client, stalled) => self.bed.down.stalled = stalled,
            Op::Stall(Who::Server, stalled) => self.bed.up.stalled = stalled,
            Op::Request(Who::Client, _)
            | Op::Notify(Who::Client)
            | Op::Cancel(Who::Client, _)
            | Op::Respond(Who::Client, ..)
            | Op::Progress(Who::Client, _)
            | Op::Close(Who::Client) => apply(&mut self.bed.client.conn, &mut self.client, self.bed.now, op),
            _ => apply(&mut self.bed.server.conn, &mut self.server, self.bed.now, op),
        }
        self.collect();
    }

    fn collect(&mut self) {
        self.client.take(&mut self.bed.client);
        self.server.take(&mut self.bed.server);
    }

    /// Lets everything come to an end: answers what is open, and waits for what is not answered.
    fn finish(&mut self) {
        self.bed.up.stalled = false;
        self.bed.down.stalled = false;
        self.bed.settle();
        self.collect();
        for who in [Who::Client, Who::Server] {
            for n in 0..10_000 {
                self.step(&Op::Respond(who, n, true));
            }
        }
        self.bed.advance(Duration::from_secs(5));
        self.collect();
    }
}

/// What left on the wire for each request of the peer: an answer at most once, and nothing behind it.
fn check_wire(asked: &[String], answered: &[String]) {
    let mut requests = BTreeSet::new();
    let parse = |line: &String| serde_json::from_str::<Value>(line).expect("lines are JSON");
    for message in asked.iter().map(parse) {
        if message.get("method").is_some() && message.get("id").is_some() {
            assert!(requests.insert(message["id"].to_string()), "an id was used twice");
        }
    }
    let mut done = BTreeSet::new();
    for message in answered.iter().map(parse) {
        if message.get("method").is_none() {
            let id = message["id"].to_string();
            assert!(requests.contains(&id), "an answer to nothing: {message}");
            assert!(done.insert(id), "a second answer: {message}");
        } else if message["method"] == "notifications/progress" {
            let token = message["params"]["progressToken"].to_string();
            assert!(!done.contains(&token), "progress behind the answer: {message}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Law 3: every accepted request ends exactly once, every inbound request gets at most one answer.
    // req: BASE-006 BASE-007 BASE-029 PROG-011 CANC-012 LIFE-042
    #[test]
    fn everything_that_begins_ends_exactly_once(config in link(), ops in vec(op(), 0..120)) {
        let mut play = Play::new(config);
        for op in &ops {
            play.step(op);
        }
        play.finish();
        for ledger in [&play.client, &play.server] {
            for call in &ledger.calls {
                prop_assert_eq!(ledger.ended.get(call), Some(&1), "call {:?}", call);
            }
        }
        check_wire(&play.bed.client.log, &play.bed.server.log);
        check_wire(&play.bed.server.log, &play.bed.client.log);
        play.bed.assert_at_rest();
    }

    /// Law 3, when either end closes in the middle of it: calls end, and so does the connection.
    // req: LIFE-041
    #[test]
    fn everything_ends_when_an_end_closes(config in link(), ops in vec(op(), 0..60), who in who(), more in vec(op(), 0..30)) {
        let mut play = Play::new(config);
        for op in ops.iter().chain([&Op::Close(who)]).chain(&more) {
            play.step(op);
        }
        play.finish();
        play.bed.advance(Duration::from_secs(60));
        play.collect();
        for ledger in [&play.client, &play.server] {
            for call in &ledger.calls {
                prop_assert_eq!(ledger.ended.get(call), Some(&1), "call {:?}", call);
            }
        }
        prop_assert!(play.bed.client.conn.is_drained() && play.bed.server.conn.is_drained());
        play.finish();
        play.bed.assert_at_rest();
    }

    /// Law 5: over any lossless link, two peers come to rest, and at rest nothing waits to be written.
    #[test]
    fn two_peers_come_to_rest_without_help_from_a_timer(config in link(), ops in vec(op(), 0..80)) {
        let mut play = Play::new(config);
        for op in ops.iter().filter(|op| !matches!(op, Op::Wait(_) | Op::Stall(..))) {
            play.step(op);
        }
        // Time passes only as bytes need it to arrive.
        play.bed.settle();
        let mut out = Vec::new();
        prop_assert_eq!(play.bed.client.conn.poll_transmit(&mut out), None);
        prop_assert_eq!(play.bed.server.conn.poll_transmit(&mut out), None);
        for usage in [play.bed.client.conn.usage(), play.bed.server.conn.usage()] {
            prop_assert_eq!((usage.outbox_bytes, usage.changes), (0, 0));
        }
    }

    /// Law 2: the same inputs give the same outputs, byte for byte.
    #[test]
    fn the_same_inputs_give_the_same_outputs(config in link(), ops in vec(op(), 0..80)) {
        let run = || {
            let mut play = Play::new(config);
            for op in &ops {
                play.step(op);
            }
            (play.bed.client.log, play.bed.server.log)
        };
        prop_assert_eq!(run(), run());
    }
}

/// Lines of every kind: good messages, wrong ones, and junk.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let text = |value: Value| value.to_string().into_bytes();
    let id = prop_oneof![
        Just(json!(1)),
        Just(json!("1")),
        Just(json!(null)),
        (0u64..6).prop_map(|n| json!(n)),
        Just(json!(1.5))
    ];
    let method = prop_oneof![
        Just("ping"),
        Just("initialize"),
        Just("tools/list"),
        Just("roots/list"),
        Just("logging/setLevel"),
        Just("vendor/x"),
        Just("notifications/initialized"),
        Just("notifications/cancelled"),
        Just("notifications/progress"),
        Just("notifications/message"),
        Just("")
    ];
    let params = prop_oneof![
        Just(json!({})),
        Just(json!(null)),
        Just(json!([1])),
        Just(json!({"requestId": 1, "reason": "r"})),
        Just(json!({"progressToken": 2, "progress": 0.5})),
        Just(json!({"level": "info", "_meta": {"progressToken": "t"}})),
        Just(json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "n", "version": "v"}})),
    ];
    let message = prop_oneof![
        4 => (id.clone(), method.clone(), params.clone()).prop_map(move |(id, method, params)| {
            text(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        }),
        2 => (method, params.clone()).prop_map(move |(method, params)| {
            text(json!({"jsonrpc": "2.0", "method": method, "params": params}))
        }),
        2 => (id.clone(), params).prop_map(move |(id, result)| text(json!({"jsonrpc": "2.0", "id": id, "result": result}))),
        1 => id.prop_map(move |id| text(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "m"}}))),
    ];
    let batch = vec(message.clone(), 0..4).prop_map(|members| {
        let mut text = b"[".to_vec();
        text.extend(members.join(&b','));
        text.push(b']');
        text
    });
    prop_oneof![
        8 => message,
        2 => batch,
        1 => vec(any::<u8>(), 0..40),
        1 => "[{}\\[\\]\",:0-9a-z\\\\ ]{0,40}".prop_map(String::into_bytes),
        1 => (0usize..300).prop_map(|n| b"[".repeat(n)),
        1 => (0usize..3000).prop_map(|n| b"x".repeat(n)),
    ]
}

type Seen = (Vec<Event<'static>>, Vec<String>);

fn replay<E>(mut solo: Solo<E>, chunks: &[&[u8]]) -> (Seen, Usage) {
    let mut lines = LineDecoder::new(2000);
    for chunk in chunks {
        solo.feed_stream(&mut lines, chunk);
    }
    lines.end();
    solo.feed_stream(&mut lines, b"");
    let events = solo.take_events();
    ((events, solo.sent_text()), solo.conn.usage())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Laws 2 and 4: however a stream is cut, whatever is in it, the same events and answers come out, and no panic.
    // req: STDIO-017
    #[test]
    fn any_cut_of_the_same_bytes_gives_the_same_events(
        lines in vec(line(), 0..30),
        cuts in vec(any::<prop::sample::Index>(), 0..20),
        version in prop::sample::select(ProtocolVersion::LEGACY.to_vec()),
    ) {
        let stream = lines.join(&b'\n');
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();

        let server = |chunks: &[&[u8]]| replay(Solo::ready_server(version), chunks);
        let whole = server(&[&stream]);
        prop_assert_eq!(&server(&pieces), &whole);
        prop_assert_eq!(&server(&bytes), &whole);
        let client = |chunks: &[&[u8]]| replay(Solo::ready_client(version), chunks);
        let whole = client(&[&stream]);
        prop_assert_eq!(&client(&pieces), &whole);
        prop_assert_eq!(&client(&bytes), &whole);
    }
}

/// Law 4: memory stays under what the limits add up to, whatever comes in and whoever does not read.
#[test]
fn a_flood_stays_within_the_limits() {
    flood(50, usize::MAX);
    flood(usize::MAX, 4000);
}

fn flood(requests: usize, request_bytes: usize) {
    let mut config = mcp_tests::solo::full_server();
    let limits = &mut config.settings.limits;
    (limits.requests, limits.request_bytes) = (requests, request_bytes);
    (limits.outbox_bytes, limits.control_bytes) = (10_000, 5_000);
    let limits = limits.clone();
    let mut solo = Solo::ready_server_with(config, ProtocolVersion::LATEST_LEGACY);
    let mut ended = false;
    for n in 0..200_000u64 {
        let message = match n % 4 {
            0 => json!({"jsonrpc": "2.0", "id": n, "method": "tools/list"}),
            1 => json!({"jsonrpc": "2.0", "id": n, "method": "ping"}),
            2 => json!({"jsonrpc": "2.0", "id": n, "method": "nothing/like/it", "params": {"pad": "x".repeat(100)}}),
            _ => json!({"id": n, "method": 5}),
        };
        solo.feed(&message);
        let usage = solo.conn.usage();
        assert!(usage.requests <= limits.requests && usage.request_bytes <= limits.request_bytes, "{usage:?}");
        assert!(usage.outbox_bytes <= limits.outbox_bytes + limits.control_bytes + 1000, "{usage:?}");
        assert!(usage.events == 0);
        ended |= solo.take_events().iter().any(|event| matches!(event, Event::Closed(_)));
    }
    assert!(ended, "a peer that never reads its refusals is left in the end");
}
