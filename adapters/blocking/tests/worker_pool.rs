//! Slow blocking handlers, over a pipe: they run on the thread that reads their connection and delay no other request.
// Pairs of Unix domain sockets are the transports.
#![cfg(unix)]

use std::{
    hint::black_box,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_blocking::{DriverOptions, Server, Transport};
use mcp_driver::Watched;
use mcp_service::{Context, Service, Tool};
use serde_json::{Value, json};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(60);

/// The number of handlers that have begun, and whether they may continue.
#[derive(Default)]
struct Gate {
    begun: Watched<usize>,
    open: Watched<bool>,
}

impl Gate {
    /// Blocks without notifying the worker pool.
    fn pass(&self) {
        self.begun.update(|begun| *begun += 1);
        assert!(self.open.wait_until(LONG, |open| *open), "the test opens it");
    }

    fn wait_for(&self, begun: usize) {
        assert!(self.begun.wait_until(LONG, |now| *now == begun), "{begun} begin: {:?}", self.begun);
    }
}

/// A client of hand-written messages, with its server.
struct Peer {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
    _server: Server,
}

impl Peer {
    fn new(service: &Service, handlers: usize) -> Self {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        ours.set_read_timeout(Some(LONG)).expect("a time");
        let options = DriverOptions { handlers, ..DriverOptions::default() };
        let server = Server::start(service, Transport::unix(theirs).expect("descriptors"), &options).expect("threads");
        let lines = BufReader::new(ours.try_clone().expect("a descriptor"));
        let mut peer = Self { stream: ours, lines, _server: server };
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": client});
        peer.send(&[json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})]);
        assert_eq!(peer.receive()["id"], 0);
        peer.send(&[json!({"jsonrpc": "2.0", "method": "notifications/initialized"})]);
        peer
    }

    /// Sends all messages in one write.
    fn send(&mut self, messages: &[Value]) {
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.stream.write_all(text.as_bytes()).expect("it is read");
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it goes on");
        serde_json::from_str(&line).expect("a message")
    }
}

fn call(id: usize, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

fn service(gate: &Arc<Gate>) -> Service {
    let (blocks, requires_input) = (gate.clone(), gate.clone());
    Service::builder("slow", "1")
        .tool(Tool::new("quick", || "quick"))
        .tool(Tool::new("blocks", move || {
            blocks.pass();
            "blocked"
        }))
        .tool(Tool::new("asks", move |context: Context| {
            requires_input.begun.update(|begun| *begun += 1);
            context.roots().wait().map(|roots| format!("{} roots", roots.len()))
        }))
        .build()
        .expect("all names differ")
}

#[test]
fn calls_in_one_write_run_concurrently() {
    const CALLS: usize = 64;
    let gate = Arc::new(Gate::default());
    let mut peer = Peer::new(&service(&gate), CALLS);
    for round in 1..=3 {
        gate.open.update(|open| *open = false);
        peer.send(&(0..CALLS).map(|number| call(round * CALLS + number, "blocks")).collect::<Vec<_>>());
        gate.wait_for(round * CALLS);
        gate.open.update(|open| *open = true);
        let mut answered: Vec<_> = (0..CALLS).map(|_| peer.receive()["id"].as_u64()).collect();
        answered.sort_unstable();
        assert_eq!(answered, (round * CALLS..(round + 1) * CALLS).map(|id| Some(id as u64)).collect::<Vec<_>>());
    }
}

#[test]
fn blocking_call_does_not_delay_other_requests() {
    let gate = Arc::new(Gate::default());
    let mut peer = Peer::new(&service(&gate), 2);
    let ping = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    // One call blocks. The others get their responses at the same time or later.
    peer.send(&[call(1, "quick"), call(2, "blocks"), call(3, "quick"), ping(4)]);
    let mut answered: Vec<_> = (0..3).map(|_| peer.receive()["id"].as_u64()).collect();
    answered.sort_unstable();
    assert_eq!(answered, [1, 3, 4].map(Some));
    for id in 5..200 {
        peer.send(&[if id % 2 == 0 { ping(id) } else { call(id, "quick") }]);
        assert_eq!(peer.receive()["id"], id);
    }
    // All threads for handlers are busy.
    peer.send(&[call(200, "blocks"), call(201, "quick"), ping(202)]);
    assert_eq!(peer.receive()["id"], 202);
    gate.wait_for(2);
    gate.open.update(|open| *open = true);
    let mut answered: Vec<_> = (0..3).map(|_| peer.receive()["id"].as_u64()).collect();
    answered.sort_unstable();
    assert_eq!(answered, [2, 200, 201].map(Some));
}

#[test]
fn calls_waiting_for_roots_do_not_block_others() {
    const CALLS: usize = 32;
    let gate = Arc::new(Gate::default());
    let mut peer = Peer::new(&service(&gate), CALLS);
    for _ in 0..20 {
        peer.send(&(1..=CALLS).map(|id| call(id, "asks")).collect::<Vec<_>>());
        let requests: Vec<_> = (0..CALLS).map(|_| peer.receive()).collect();
        assert!(requests.iter().all(|request| request["method"] == "roots/list"), "{requests:?}");
        let answer = |request: &Value| json!({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": []}});
        peer.send(&requests.iter().map(answer).collect::<Vec<_>>());
        for _ in 0..CALLS {
            assert_eq!(peer.receive()["result"]["content"][0]["text"], "0 roots");
        }
    }
}

#[test]
fn worker_takeover_loses_no_response() {
    let turns = AtomicU64::new(0);
    let computes = Tool::new("computes", move || {
        // From no time to more than the time after which another thread takes over.
        let steps = turns.fetch_add(97, Ordering::Relaxed) % 2500 * 100;
        (0..steps).fold(0, |sum, step| black_box(sum ^ step)).to_string()
    });
    let service = Service::builder("computes", "1").tool(computes).build().expect("one name");
    let mut peer = Peer::new(&service, 4);
    for round in 0..100 {
        let calls = 1 + round % 7;
        peer.send(&(1..=calls).map(|id| call(id, "computes")).collect::<Vec<_>>());
        let mut answered: Vec<_> = (0..calls).map(|_| peer.receive()["id"].as_u64()).collect();
        answered.sort_unstable();
        assert_eq!(answered, (1..=calls).map(|id| Some(id as u64)).collect::<Vec<_>>());
    }
}
