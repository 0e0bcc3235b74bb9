//! Connections under attack, under virtual time: memory stays below the bound of the limits for all input, and the
//! connection is idle at the end.

use std::time::Duration;

use allocation_counter::{AllocationInfo, measure, opt_out};
use mcp_proto::{
    codec::LineDecoder,
    connection::{
        Client, ClientConfig, Connection, Event, Keepalive, Limits, RequestOptions, ResourceUsage, Server,
        ServerConfig, Settings,
    },
    protocol::{Capability, ProtocolVersion, Role, VersionSet},
    rpc::{CallId, ReplyKey, Timestamp},
    wire::{Json, RawJson},
};
use mcp_tests::{
    harness::{full_client, full_server},
    hostile::{Attack, CLIENTS, Ending, HostilePeer, PeerIo, SERVERS},
};

/// The bytes that a driver reads at once, and the bytes that it polls before it writes.
const CHUNK: usize = 4096;
const HIGH_WATER: usize = 16 << 10;

/// The start of the buffer for output, which peers ignore. The connection exchanges its own buffer for an empty one to
/// avoid a copy of a large message, and this buffer is not measured.
const EMPTY_LINE: &[u8] = b"\n";

/// Returns limits that are small enough to be reached soon.
fn small_limits() -> Limits {
    let mut limits = Limits::default();
    limits.frame_bytes = 16 << 10;
    (limits.outbox_bytes, limits.control_bytes) = (128 << 10, 32 << 10);
    (limits.requests, limits.request_bytes) = (100, 128 << 10);
    (limits.calls, limits.call_bytes) = (100, 64 << 10);
    (limits.cache_entries, limits.cache_bytes) = (50, 64 << 10);
    (limits.batch_members, limits.tasks, limits.subscriptions) = (50, 50, 20);
    (limits.input_requests, limits.task_input_requests, limits.noise_lines) = (50, 200, 100);
    limits
}

/// Returns limits for a system with a few hundred kilobytes of memory.
fn tiny_limits() -> Limits {
    let mut limits = Limits::new();
    (limits.frame_bytes, limits.outbox_bytes, limits.control_bytes) = (2048, 2048, 512);
    (limits.requests, limits.request_bytes) = (4, 4096);
    (limits.calls, limits.call_bytes) = (4, 2048);
    (limits.cache_entries, limits.cache_bytes) = (0, 0);
    (limits.batch_members, limits.tasks, limits.subscriptions) = (4, 1, 1);
    (limits.input_requests, limits.task_input_requests, limits.noise_lines) = (1, 4, 100);
    limits
}

/// Sizes of messages below and at 16 KiB, up to which `Limits::memory` counts smaller buffers too. In a list of 12,450
/// bytes there are just more empty strings than a vector of 4,096 holds.
const MIDDLE: [usize; 2] = [12_450, 16 << 10];

/// Returns limits with messages of this size and little else, so that their bound has little besides the messages.
fn middle_limits(frame_bytes: usize) -> Limits {
    let mut limits = Limits::new();
    (limits.frame_bytes, limits.outbox_bytes, limits.control_bytes) = (frame_bytes, 2048, 512);
    (limits.requests, limits.request_bytes) = (1, 4096);
    (limits.calls, limits.call_bytes) = (2, 1024);
    (limits.cache_entries, limits.cache_bytes) = (0, 0);
    (limits.batch_members, limits.tasks, limits.subscriptions) = (0, 0, 0);
    (limits.input_requests, limits.task_input_requests, limits.noise_lines) = (0, 0, 100);
    limits
}

fn settings(version: ProtocolVersion, limits: &Limits) -> Settings {
    let mut settings = Settings { limits: limits.clone(), versions: VersionSet::only(version), ..Settings::default() };
    settings.keepalive = Some(Keepalive { interval: Duration::from_secs(5), max_missed: 3 });
    settings
}

fn server_config(version: ProtocolVersion, limits: &Limits) -> ServerConfig {
    let mut config = full_server();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings = settings(version, limits);
    config
}

fn client_config(version: ProtocolVersion, limits: &Limits) -> ClientConfig {
    let mut config = full_client();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings = settings(version, limits);
    config
}

/// How the application behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    /// Responds at once.
    Quick,
    /// Responds when the attack is over.
    Slow,
}

/// One side under attack. Only the memory of the connection is measured.
struct AttackedSide<E> {
    conn: Connection<E>,
    lines: LineDecoder,
    now: Timestamp,
    pace: Pace,
    owed: Vec<ReplyKey>,
    calls: Vec<CallId>,
    out: Vec<u8>,
}

/// Runs `f` without counting its memory, which does not belong to the connection.
fn aside<T>(f: impl FnOnce() -> T) -> T {
    let mut done = None;
    opt_out(|| done = Some(f()));
    done.expect("it was done")
}

fn json(text: &str) -> Json {
    Json::parse(text).expect("it is JSON")
}

impl<E> AttackedSide<E> {
    fn new(conn: Connection<E>, pace: Pace) -> Self {
        let limit = conn.settings().limits.frame_bytes;
        let mut out = aside(|| Vec::with_capacity(1 << 20));
        out.extend_from_slice(EMPTY_LINE);
        let (owed, calls) = aside(|| (Vec::with_capacity(100_000), Vec::with_capacity(100_000)));
        Self { conn, lines: LineDecoder::new(limit), now: Timestamp::ZERO, pace, owed, calls, out }
    }

    fn on_event(&mut self, event: Event<'_>) {
        match event {
            Event::Request { key, .. } => {
                if self.pace == Pace::Slow {
                    return self.owed.push(key);
                }
                let result = aside(|| json(r#"{"content":[],"roots":[]}"#));
                // The outbox may be full.
                if self.conn.respond_raw(key, &RawJson::from(&result)).is_err() {
                    self.owed.push(key);
                }
                aside(|| drop(result));
            }
            Event::Cancelled { key, .. } if self.pace == Pace::Quick => self.owed.push(key),
            Event::Response { call, .. } => self.calls.retain(|open| *open != call),
            _ => {}
        }
    }

    fn poll(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            self.on_event(event);
        }
    }

    fn feed(&mut self, bytes: &[u8], chunk: usize) {
        for chunk in bytes.chunks(chunk) {
            self.lines.feed(chunk);
            self.take_lines();
        }
    }

    fn take_lines(&mut self) {
        let mut lines = std::mem::replace(&mut self.lines, LineDecoder::new(0));
        while let Some(frame) = lines.next_frame() {
            if let Some(event) = self.conn.handle_frame(self.now, frame) {
                self.on_event(event);
            }
            self.poll();
        }
        self.lines = lines;
    }

    /// Responds to the open requests as far as the outbox has capacity.
    fn settle(&mut self) {
        let error = mcp_proto::wire::ErrorObject::internal("no");
        for _ in 0..self.owed.len() {
            let Some(key) = self.owed.pop() else { return };
            if let Err(mcp_proto::connection::SendError::Busy) = self.conn.respond_error(key, &error) {
                self.owed.push(key);
                return;
            }
        }
    }

    /// Advances the clock and writes the output to a peer that reads.
    fn turn(&mut self, attack: &mut Attack, reads: bool) {
        self.now = self.now + Duration::from_millis(20);
        self.conn.handle_timeout(self.now);
        self.poll();
        loop {
            while self.out.len() < HIGH_WATER && self.conn.poll_transmit(&mut self.out).is_some() {}
            if !reads || self.out.len() == EMPTY_LINE.len() {
                break;
            }
            aside(|| attack.receive(&self.out));
            self.out.truncate(EMPTY_LINE.len());
        }
    }

    /// Ends the connection after the attack, and checks that nothing is left.
    fn finish(&mut self, attack: &mut Attack, end: Ending, reads: bool, what: &str) {
        match end {
            Ending::StaysOpen => self.conn.close(self.now),
            Ending::HalfCloses => {
                self.lines.end();
                self.take_lines();
                self.conn.handle_eof(self.now);
            }
            Ending::Disconnects => self.conn.handle_disconnect(),
        }
        self.poll();
        for _ in 0..10_000 {
            self.settle();
            self.turn(attack, reads);
            if self.conn.is_drained() {
                break;
            }
        }
        if !self.conn.is_drained() {
            // The peer does not read, so the connection is closed from this side.
            self.conn.handle_disconnect();
            self.poll();
        }
        self.settle();
        assert_eq!(self.conn.usage(), ResourceUsage::default(), "{what}");
        assert!(self.conn.is_drained() && self.conn.poll_timeout().is_none(), "{what}");
        assert!(self.calls.is_empty() && self.owed.is_empty(), "{what}: {:?} {:?}", self.calls, self.owed);
    }
}

impl<E> Drop for AttackedSide<E> {
    fn drop(&mut self) {
        let (owed, calls, out) =
            (std::mem::take(&mut self.owed), std::mem::take(&mut self.calls), std::mem::take(&mut self.out));
        aside(|| drop((owed, calls, out)));
    }
}

/// Sends requests of a client application.
fn send_request(client: &mut AttackedSide<mcp_proto::connection::ClientRole>, step: u64) {
    let params = aside(|| match step % 6 {
        0 => ("tools/call", json(r#"{"name":"t","task":{"ttl":1000}}"#)),
        1 => ("tools/list", json(&format!(r#"{{"cursor":"{step}"}}"#))),
        2 => ("resources/read", json(&format!(r#"{{"uri":"test://{step}"}}"#))),
        3 => (
            "subscriptions/listen",
            json(r#"{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}}"#),
        ),
        4 => ("tools/call", json(r#"{"name":"t"}"#)),
        _ => {
            let pad = "x".repeat(client.conn.settings().limits.frame_bytes - 600);
            ("tools/call", json(&format!(r#"{{"name":"t","arguments":{{"pad":"{pad}"}}}}"#)))
        }
    });
    let options = RequestOptions { resubscribe: true, ..RequestOptions::default() };
    for _ in 0..3 {
        if let Ok(call) =
            client.conn.request_raw(client.now, params.0, Some(&RawJson::from(&params.1)), options.clone())
        {
            client.calls.push(call);
        }
    }
    aside(|| drop(params));
    client.poll();
    if step % 7 == 6
        && let Some(call) = client.calls.first().copied()
    {
        client.conn.cancel(call, Some("not wanted")).expect("it is open");
        client.poll();
    }
}

fn attack_server(
    hostile: HostilePeer,
    version: ProtocolVersion,
    pace: Pace,
    limits: &Limits,
    what: &str,
) -> AllocationInfo {
    let config = std::sync::Arc::new(server_config(version, limits));
    let mut attack = Attack::new(hostile, Role::Client, version, config.settings.limits.frame_bytes);
    measure(|| {
        let mut attacked = AttackedSide::new(Server::new(config.clone(), Timestamp::ZERO), pace);
        while let Some(said) = aside(|| attack.next_bytes()) {
            attacked.feed(&said, hostile.chunk.min(CHUNK));
            aside(|| drop(said));
            attacked.turn(&mut attack, hostile.reads);
        }
        attacked.finish(&mut attack, hostile.end, hostile.reads, what);
    })
}

fn attack_client(
    hostile: HostilePeer,
    version: ProtocolVersion,
    pace: Pace,
    limits: &Limits,
    what: &str,
) -> AllocationInfo {
    let config = std::sync::Arc::new(client_config(version, limits));
    let mut attack = Attack::new(hostile, Role::Server, version, config.settings.limits.frame_bytes);
    measure(|| {
        let mut attacked = AttackedSide::new(Client::new(config.clone(), Timestamp::ZERO), pace);
        for step in 0.. {
            send_request(&mut attacked, step);
            attacked.turn(&mut attack, hostile.reads || step == 0);
            let Some(said) = aside(|| attack.next_bytes()) else { break };
            attacked.feed(&said, hostile.chunk.min(CHUNK));
            aside(|| drop(said));
        }
        attacked.finish(&mut attack, hostile.end, hostile.reads, what);
    })
}

/// Batches exist only in the first one, tasks of sessions only in the second.
const VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

type Run = fn(HostilePeer, ProtocolVersion, Pace, &Limits, &str) -> AllocationInfo;

fn attack_all(peers: &[HostilePeer], versions: &[ProtocolVersion], limits: &Limits, run: Run) {
    // The chunk that is read is counted beside the sum of the limits.
    let bound = (limits.memory() + 2 * CHUNK) as u64;
    for hostile in peers {
        for version in versions.iter().copied() {
            for pace in [Pace::Quick, Pace::Slow] {
                let what = format!("{} {version} {pace:?}", hostile.name);
                let cost = run(*hostile, version, pace, limits, &what);
                assert!(cost.bytes_max <= bound, "{what}: {cost:?}, bound {bound}");
                assert_eq!((cost.bytes_current, cost.count_current), (0, 0), "{what}: something is left");
            }
        }
    }
}

#[test]
fn servers_stay_within_their_limits() {
    attack_all(CLIENTS, &VERSIONS, &small_limits(), attack_server);
}

#[test]
fn clients_stay_within_their_limits() {
    attack_all(SERVERS, &VERSIONS[1..], &small_limits(), attack_client);
}

/// With these limits the bound has little that does not depend on them.
#[test]
fn tiny_servers_stay_within_their_limits() {
    assert!(tiny_limits().memory() < 120 << 10);
    attack_all(CLIENTS, &VERSIONS, &tiny_limits(), attack_server);
}

#[test]
fn tiny_clients_stay_within_their_limits() {
    attack_all(SERVERS, &VERSIONS[1..], &tiny_limits(), attack_client);
}

#[test]
fn servers_with_middle_messages_stay_within_limits() {
    for frame_bytes in MIDDLE {
        attack_all(CLIENTS, &VERSIONS, &middle_limits(frame_bytes), attack_server);
    }
}

#[test]
fn clients_with_middle_messages_stay_within_limits() {
    for frame_bytes in MIDDLE {
        attack_all(SERVERS, &VERSIONS[1..], &middle_limits(frame_bytes), attack_client);
    }
}

/// Sends requests that each describe another client with many icons, whose decoded form takes many times their text.
fn many_icons(io: &mut PeerIo, step: u64) {
    let icons = [r#"{"src":""}"#; 33].join(",");
    let prefix = "io.modelcontextprotocol/";
    io.line(&format!(
        r#"{{"jsonrpc":"2.0","id":{step},"method":"vendor/a","params":{{"_meta":{{"{prefix}protocolVersion":"2026-07-28","{prefix}clientCapabilities":{{}},"{prefix}clientInfo":{{"name":"{step}","version":"1","icons":[{icons}]}}}}}}}}"#
    ));
}

#[test]
fn requests_with_icons_stay_within_limits() {
    let mut limits = tiny_limits();
    (limits.requests, limits.request_bytes) = (110, 400 << 10);
    let hostile = HostilePeer {
        name: "many_icons",
        steps: 150,
        chunk: CHUNK,
        reads: true,
        end: Ending::StaysOpen,
        completes_handshake: true,
        step: many_icons,
    };
    attack_all(&[hostile], &VERSIONS[2..], &limits, attack_server);
}
