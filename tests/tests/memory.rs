//! The memory of a connection: ended calls use none, and the total never exceeds the limits.

use std::{sync::Arc, time::Duration};

use allocation_counter::{AllocationInfo, measure};
use mcp_proto::{
    codec::{Frame, LineDecoder},
    connection::{Client, Connection, Event, Limits, Outcome, RequestOptions, ResourceUsage, Server, ServerConfig},
    protocol::{HeaderParam, InvalidHeaderParam, ProtocolVersion, VersionSet},
    rpc::{ReplyKey, Timestamp},
    wire::{ErrorObject, Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_client, full_client_with, full_server},
    http_client::HttpClient,
};

/// Two sides that are connected by a buffer only, so the measured memory is theirs.
struct Pair {
    client: Client,
    server: Server,
    now: Timestamp,
    out: Vec<u8>,
}

impl Pair {
    fn new() -> Self {
        let now = Timestamp::ZERO;
        let mut pair = Self {
            client: Client::new(full_client(), now),
            server: Server::new(full_server(), now),
            now,
            out: Vec::new(),
        };
        pair.handshake();
        pair
    }

    fn handshake(&mut self) {
        self.up(|_, _| {});
        self.down(|_, _| {});
        self.up(|_, _| {});
        assert!(self.client.is_ready() && self.server.is_ready());
    }

    /// Delivers all output to the server.
    fn up(&mut self, on_event: impl FnMut(&mut Server, Event<'_>)) {
        carry(&mut self.client, &mut self.server, self.now, &mut self.out, on_event);
    }

    /// Delivers all output to the client.
    fn down(&mut self, on_event: impl FnMut(&mut Client, Event<'_>)) {
        carry(&mut self.server, &mut self.client, self.now, &mut self.out, on_event);
    }
}

fn carry<A, B>(
    from: &mut Connection<A>,
    to: &mut Connection<B>,
    now: Timestamp,
    out: &mut Vec<u8>,
    mut on_event: impl FnMut(&mut Connection<B>, Event<'_>),
) {
    out.clear();
    while from.poll_transmit(out).is_some() {
        if let Some(event) = to.handle_frame(now, Frame::new(out)) {
            on_event(to, event);
        }
        out.clear();
    }
    while let Some(event) = to.poll_event() {
        on_event(to, event);
    }
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Result,
    Error,
    Timeout,
    Cancelled,
    TakenBack,
}

const ENDS: [End; 5] = [End::Result, End::Error, End::Timeout, End::Cancelled, End::TakenBack];

fn params() -> Json {
    Json::parse(r#"{"name":"t","arguments":{"a":[1,2,3]}}"#).expect("it is JSON")
}

/// Runs one call to its end, with a progress report and a notification on the way.
fn call(pair: &mut Pair, end: End, params: &RawJson<'_>) {
    let timeout = Duration::from_secs(1);
    let options = RequestOptions { idle_timeout: Some(timeout), ..RequestOptions::default() };
    let call = pair.client.request_raw(pair.now, "tools/call", Some(params), options).expect("it is ready");
    if end == End::TakenBack {
        pair.client.cancel(call, None).expect("it is in flight");
        assert!(matches!(pair.client.poll_event(), Some(Event::Response { outcome: Outcome::Cancelled, .. })));
        return;
    }
    let mut key: Option<ReplyKey> = None;
    pair.up(|server, event| {
        let Event::Request { key: received, .. } = event else { panic!("{event:?}") };
        server.progress(received, 1.0, None, None).expect("it was requested");
        server.notify_raw("vendor/x", None).expect("it is ready");
        key = Some(received);
    });
    let key = key.expect("it was requested");
    pair.down(|_, _| {});
    match end {
        End::Result => pair.server.respond_raw(key, params).expect("an answer is owed"),
        End::Error => pair.server.respond_error(key, &ErrorObject::internal("no")).expect("an answer is owed"),
        End::Timeout => {
            pair.now = pair.now + timeout;
            pair.client.handle_timeout(pair.now);
        }
        _ => pair.client.cancel(call, None).expect("it is in flight"),
    }
    if matches!(end, End::Timeout | End::Cancelled) {
        assert!(pair.client.poll_event().is_some());
        pair.up(|server, event| {
            let Event::Cancelled { key: cancelled, .. } = event else { panic!("{event:?}") };
            server.respond_error(cancelled, &ErrorObject::internal("late")).expect("it is swallowed");
        });
    }
    pair.down(|_, event| assert!(matches!(event, Event::Response { .. }), "{event:?}"));
}

fn calls(pair: &mut Pair, count: usize, ends: &[End]) -> AllocationInfo {
    let params = params();
    let params = RawJson::from(&params);
    measure(|| (0..count).for_each(|number| call(pair, ends[number % ends.len()], &params)))
}

#[test]
fn warm_calls_allocate_nothing() {
    let mut pair = Pair::new();
    calls(&mut pair, 1000, &ENDS);
    for end in [End::Result, End::Cancelled, End::TakenBack] {
        // The first round allocates the capacity that the others reuse.
        calls(&mut pair, 1000, &[end]);
        assert_eq!(calls(&mut pair, 1000, &[end]), AllocationInfo::default(), "{end:?}");
    }
}

/// A call of 2026-07-28 describes the client, and its result the server.
#[test]
fn warm_modern_calls_allocate_nothing() {
    let modern = VersionSet::only(ProtocolVersion::V2026_07_28);
    let (mut server, now) = (full_server(), Timestamp::ZERO);
    server.settings.versions = modern;
    let client = Client::new(full_client_with(modern), now);
    let mut pair = Pair { client, server: Server::new(server, now), now, out: Vec::new() };
    pair.up(|_, _| {});
    pair.down(|_, _| {});
    assert!(pair.client.is_ready());
    let params = params();
    let mut calls = |count: usize| {
        measure(|| {
            for _ in 0..count {
                let params = RawJson::from(&params);
                pair.client.request_raw(now, "tools/call", Some(&params), RequestOptions::default()).expect("ready");
                pair.up(|server, event| {
                    let Event::Request { key, .. } = event else { panic!("{event:?}") };
                    let context = server.context(key).expect("it is in flight");
                    assert_eq!(context.client_info.map(|info| &*info.name), Some("client"));
                    server.progress(key, 1.0, None, None).expect("it was requested");
                    server.respond_raw(key, &params).expect("an answer is owed");
                });
                let mut is_answered = false;
                pair.down(|_, event| {
                    is_answered |= matches!(event, Event::Response { outcome: Outcome::Result(_), .. });
                });
                assert!(is_answered);
            }
        })
    };
    calls(1000);
    assert_eq!(calls(1000), AllocationInfo::default());
}

/// A million with optimizations.
const MANY: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

#[test]
fn ended_calls_free_all_memory() {
    let whole = measure(|| {
        let mut pair = Pair::new();
        calls(&mut pair, 1000, &ENDS);
        let after = calls(&mut pair, MANY, &ENDS);
        // Ids become longer, so a buffer may grow once.
        assert!(after.bytes_current < 500, "the heap is flat: {after:?}");
        assert_eq!((pair.client.usage(), pair.server.usage()), (ResourceUsage::default(), ResourceUsage::default()));
        // Calls also end with the connection.
        for _ in 0..1000 {
            let options = RequestOptions::default();
            pair.client.request_raw(pair.now, "vendor/a", None, options).expect("it is ready");
        }
        let mut keys = Vec::new();
        pair.up(|_, event| keys.extend(if let Event::Request { key, .. } = event { Some(key) } else { None }));
        pair.client.close(pair.now);
        pair.server.handle_disconnect();
        pair.down(|_, _| {});
        pair.up(|_, _| {});
        for key in keys {
            pair.server.respond_error(key, &ErrorObject::internal("late")).expect("it is swallowed");
        }
        assert_eq!((pair.client.usage(), pair.server.usage()), (ResourceUsage::default(), ResourceUsage::default()));
    });
    assert_eq!((whole.count_current, whole.bytes_current), (0, 0));
}

const FRAME: usize = 16 << 10;

fn small_limits() -> Limits {
    let mut limits = Limits::default();
    limits.frame_bytes = FRAME;
    limits.outbox_bytes = 256 << 10;
    limits.control_bytes = 64 << 10;
    (limits.requests, limits.request_bytes) = (100, 128 << 10);
    (limits.calls, limits.batch_members) = (100, 50);
    limits
}

/// Returns the sum of the limits: bytes, and a few hundred for each table entry.
fn bound(limits: &Limits) -> u64 {
    let bytes = limits.outbox_bytes + limits.control_bytes + limits.request_bytes + 2 * limits.frame_bytes;
    (bytes + (limits.requests + limits.calls) * 500) as u64
}

#[test]
fn memory_stays_below_the_sum_of_the_limits() {
    type Flood = fn(&mut Server, Timestamp, u64);
    fn feed(server: &mut Server, now: Timestamp, text: &str) -> Option<ReplyKey> {
        let event = server.handle_frame(now, Frame::new(text.as_bytes()));
        let key = if let Some(Event::Request { key, .. }) = event { Some(key) } else { None };
        while server.poll_event().is_some() {}
        key
    }
    let floods: [(&str, Flood); 10] = [
        ("pings", |server, now, id| {
            feed(server, now, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        }),
        ("batches of pings", |server, now, _| {
            let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            feed(server, now, &format!("[{}]", vec![ping; 50].join(",")));
        }),
        ("no requests", |server, now, id| {
            feed(server, now, &format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":7}}"#));
        }),
        ("junk", |server, now, _| {
            feed(server, now, "{{{{");
        }),
        ("requests", |server, now, id| {
            let pad = "x".repeat(id as usize % FRAME);
            feed(
                server,
                now,
                &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"vendor/a","params":{{"pad":"{pad}"}}}}"#),
            );
        }),
        ("cancelled requests", |server, now, id| {
            feed(server, now, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"vendor/a"}}"#));
            let params = format!(r#"{{"requestId":{id}}}"#);
            feed(server, now, &format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#));
        }),
        ("requests in batches", |server, now, id| {
            if let Some(key) = feed(server, now, &format!(r#"[{{"jsonrpc":"2.0","id":{id},"method":"vendor/a"}}]"#)) {
                let _ = server.respond_error(key, &ErrorObject::internal("no"));
            }
        }),
        ("answers", |server, now, id| {
            if let Some(key) = feed(server, now, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"vendor/a"}}"#)) {
                let _ = server.respond_error(key, &ErrorObject::internal("x".repeat(id as usize % FRAME)));
            }
        }),
        ("calls", |server, now, id| {
            if let Ok(call) = server.request_raw(now, "vendor/a", None, RequestOptions::default())
                && id % 3 > 0
            {
                server.cancel(call, None).expect("it is in flight");
            }
            while server.poll_event().is_some() {}
        }),
        ("notifications", |server, _, id| {
            let _ = server.notify_raw(&"x".repeat(id as usize % 50), None);
            let _ = server.notify_raw("notifications/tools/list_changed", None);
        }),
    ];
    let limits = small_limits();
    for (flood, step) in floods {
        let cost = measure(|| {
            let mut config = full_server();
            config.settings.limits = limits.clone();
            let mut harness = Harness::ready_server_with(config, ProtocolVersion::V2025_03_26);
            let warm = measure(|| (0..20_000).for_each(|id| step(&mut harness.conn, harness.now, id)));
            // While a buffer grows, the old one and the new one exist.
            assert!(warm.bytes_max <= 2 * bound(&limits), "{flood}: {warm:?}, bound {}", bound(&limits));
            assert!(warm.bytes_current as u64 <= bound(&limits), "{flood}: {warm:?}, bound {}", bound(&limits));
        });
        assert_eq!(cost.bytes_current, 0, "{flood}");
    }
}

#[test]
fn endless_lines_use_bounded_memory() {
    const LIMIT: usize = 1 << 20;
    for size in [1000, 64 << 10, 3 << 20] {
        let chunk = vec![b'x'; size];
        let cost = measure(|| {
            let mut lines = LineDecoder::new(LIMIT);
            let grown = measure(|| {
                for _ in 0..(64 << 20) / size {
                    lines.feed(&chunk);
                    while lines.next_frame().is_some() {}
                }
            });
            assert!(grown.bytes_current as usize <= LIMIT + size + 2, "chunks of {size}: {grown:?}");
            assert!(grown.bytes_max as usize <= 2 * (LIMIT + size), "chunks of {size}: {grown:?}");
            lines.feed(b"\n{}\n");
            assert_eq!(lines.next_frame().map(Frame::bytes), Some(&b"{}"[..]));
        });
        assert_eq!(cost.bytes_current, 0);
    }
}

/// Returns a server after its handshake, with its input as bytes.
fn idle_server(config: &Arc<ServerConfig>, out: &mut Vec<u8>) -> Server {
    const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"client","version":"1.0.0"}}}"#;
    const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let mut server = Server::new(config.clone(), Timestamp::ZERO);
    assert_eq!(server.handle_frame(Timestamp::ZERO, Frame::new(INITIALIZE)), None);
    out.clear();
    assert!(server.poll_transmit(out).is_some());
    assert_eq!(server.handle_frame(Timestamp::ZERO, Frame::new(INITIALIZED)), Some(Event::Ready));
    server
}

#[test]
fn idle_servers_use_at_most_one_kib() {
    /// The goal is 1 KiB.
    const EACH: u64 = 1 << 10;
    let (config, mut out) = (Arc::new(full_server()), Vec::new());
    drop(idle_server(&config, &mut out));
    let mut servers = Vec::new();
    let held = measure(|| {
        servers.reserve_exact(MANY);
        servers.extend((0..MANY).map(|_| idle_server(&config, &mut out)));
    });
    assert!(servers.iter().all(Server::is_ready));
    let each = held.bytes_current as u64 / MANY as u64;
    assert!(each < EACH, "an idle server takes {each} bytes, and {} of them itself", size_of::<Server>());
}

#[test]
fn in_flight_requests_use_bounded_memory() {
    /// The bytes of an inbound request, and of an outbound one.
    const EACH: (u64, u64) = (256, 256);
    // The bytes hold for any count, though tables grow in steps.
    for count in [1000, 10_000, 13_000] {
        let mut config = full_client();
        config.settings.limits.calls = count;
        let mut server = full_server();
        server.settings.limits.requests = count;
        let now = Timestamp::ZERO;
        let mut pair =
            Pair { client: Client::new(config, now), server: Server::new(server, now), now, out: Vec::new() };
        pair.handshake();
        let mut held = (0, 0);
        for _ in 0..count {
            held.1 += measure(|| {
                pair.client.request_raw(now, "vendor/a", None, RequestOptions::default()).expect("it is ready");
                pair.out.clear();
                pair.client.poll_transmit(&mut pair.out).expect("it asks");
            })
            .bytes_current;
            held.0 += measure(|| {
                let event = pair.server.handle_frame(now, Frame::new(&pair.out));
                assert!(matches!(event, Some(Event::Request { .. })), "{event:?}");
            })
            .bytes_current;
        }
        let each = (held.0 as u64 / count as u64, held.1 as u64 / count as u64);
        assert!(each.0 < EACH.0 && each.1 < EACH.1, "{count} requests take {each:?} each");
    }
}

/// Schemas are read in place: a long name above many short ones is not copied for each of them.
#[test]
fn schema_parsing_does_not_copy_names() {
    let schema = |annotation: &str| {
        let one =
            |number: u32| format!(r#""{number}":{{"type":"string"{}}}"#, annotation.replace('#', &number.to_string()));
        let inner = (0..4000).map(one).collect::<Vec<_>>().join(",");
        format!(r#"{{"properties":{{"{}":{{"properties":{{{inner}}}}}}}}}"#, "a".repeat(1 << 18))
    };
    for (annotation, invalid) in [("", None), (r##","x-mcp-header":"#""##, Some(InvalidHeaderParam::TooLarge))] {
        let schema = Json::parse(schema(annotation)).expect("JSON");
        let mut outcome = Ok(Vec::new());
        let info = measure(|| outcome = HeaderParam::of_schema(&RawJson::from(&schema)));
        assert_eq!(outcome.err(), invalid);
        assert!(info.bytes_total < 64 << 10, "{info:?}");
    }
}

/// An open stream brings many small chunks. They allocate nothing, however long the last event id is.
#[test]
fn stream_chunks_allocate_nothing() {
    let (mut caller, stream) = HttpClient::in_session(ProtocolVersion::V2025_11_25);
    caller.body(stream, format!("id: {}\ndata: \n\n", "z".repeat(4096)));
    let (client, now) = (&mut caller.core, caller.now);
    let info = measure(|| {
        for _ in 0..1000 {
            client.handle_body(now, stream, b":");
        }
    });
    assert_eq!(info.count_total, 0, "{info:?}");
}
