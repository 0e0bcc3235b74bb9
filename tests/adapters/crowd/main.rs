//! What many clients cost a server over HTTP that do nothing: 10,000 sessions, and 1,000 open streams, on mcp-tokio.
//!
//! ```sh
//! cargo test -p mcp-tests-adapters --test crowd
//! ```
//!
//! It says what each takes of the memory of the process (what the system keeps for sockets is not in that), holds it against
//! what is promised, and sees that all of it is given back when they have expired.

#[path = "../endpoint/adapter.rs"]
#[expect(dead_code, reason = "the endpoint is tested on all adapters")]
mod adapter;
#[path = "../endpoint/raw.rs"]
#[expect(dead_code, reason = "the tests of the endpoint need more of a request")]
mod raw;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::ExitCode,
    time::{Duration, Instant},
};

use adapter::{Site, Tokio};
use mcp_proto::http::{
    Policy,
    server::{EndpointOptions, Paths},
};
use mcp_service::{Service, Tool};
use peak_alloc::PeakAlloc;
use raw::{Raw, connect, hear_head};
use serde_json::json;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// More than anything takes, also on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(600);

const SESSIONS: usize = 10_000;
const STREAMS: usize = 1_000;

/// What one idle session may take, in bytes.
const PER_SESSION: usize = 4 << 10;

/// What one open stream may take beside its session, in bytes: ours, and the two buffers of 8 KiB that hyper has for each
/// connection, one for each direction.
const PER_STREAM: usize = (8 << 10) + (16 << 10);

/// What the tables of runtime and server may have grown by when all is over.
const LEFT: usize = 2 << 20;

#[expect(clippy::print_stdout, reason = "what it has measured is what it is for")]
fn say(what: &str) {
    println!("{what}");
}

fn main() -> ExitCode {
    if std::env::args().any(|arg| arg == "--list") {
        return ExitCode::SUCCESS;
    }
    let took = sessions();
    expire(took.max(Duration::from_secs(3)));
    streams();
    ExitCode::SUCCESS
}

/// A server, and one connection to it.
struct Crowd {
    server: adapter::Served,
    stream: TcpStream,
}

impl Crowd {
    fn serve(sessions: usize, idle: Duration) -> Self {
        let service = Service::builder("crowd", "1").tool(Tool::new_async("one", async || "one")).build();
        let mut options = EndpointOptions::new(Policy::loopback());
        options.paths = Paths::at("/mcp");
        // All of them are those of one address, which gets seven eighths.
        options.limits.sessions = sessions.div_ceil(7) * 8;
        options.limits.idle = idle;
        let server = Tokio::serve(&service.expect("a service"), options);
        let stream = connect(server.address);
        Self { server, stream }
    }

    /// Sends a request on the one connection. Its status, and the id of a session in its answer.
    fn ask(&mut self, request: &Raw) -> (u16, Option<String>) {
        self.stream.write_all(&request.clone().without("connection").bytes()).expect("it is read");
        let head = hear_head(&self.stream);
        let header = |name: &str| head.text.lines().find_map(|line| Some(line.strip_prefix(name)?.to_owned()));
        let length = header("content-length: ").map_or(0, |length| length.parse().expect("a number"));
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("it is all there");
        (head.status, header("mcp-session-id: "))
    }

    /// Begins so many sessions, handshake and all. The last of their ids, and how long it took.
    fn begin(&mut self, sessions: usize) -> (Vec<String>, Duration) {
        let start = Instant::now();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let mut ids = Vec::with_capacity(STREAMS);
        for index in 0..sessions {
            let (status, id) = self.ask(&Raw::initialize());
            let id = id.filter(|_| status == 200).unwrap_or_else(|| panic!("session {index}: {status}"));
            assert_eq!(self.ask(&Raw::post("/mcp", &ready).set("mcp-session-id", &id)).0, 202);
            if index < STREAMS {
                ids.push(id);
            }
        }
        (ids, start.elapsed())
    }

    /// Whether a session is there.
    fn has(&mut self, id: &str) -> bool {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        match self.ask(&Raw::post("/mcp", &ping).set("mcp-session-id", id)).0 {
            200 => true,
            404 => false,
            status => panic!("{status}"),
        }
    }
}

/// Waits until no more than this is left.
fn until_released(before: usize, what: &str) -> usize {
    let start = Instant::now();
    loop {
        let left = PEAK.current_usage().saturating_sub(before);
        if left <= LEFT {
            return left;
        }
        assert!(start.elapsed() < LONG, "{left} bytes are left of {what}");
        std::thread::yield_now();
    }
}

/// How long it takes to begin them.
fn sessions() -> Duration {
    let mut crowd = Crowd::serve(SESSIONS, LONG);
    // What the first ones take that is there for all.
    let (first, _) = crowd.begin(10);
    let before = PEAK.current_usage();
    let (_, took) = crowd.begin(SESSIONS - 10);
    let each = (PEAK.current_usage() - before) / (SESSIONS - 10);
    assert!(crowd.has(&first[0]), "all are there");
    // One that is idle longer gives way to one more.
    crowd.begin(1);
    assert!(crowd.has(&first[0]), "a session that was used a moment ago stays");
    say(&format!("{SESSIONS} idle sessions: {each} bytes each; begun in {took:.1?}"));
    assert!(each <= PER_SESSION, "an idle session takes {each} bytes, {PER_SESSION} are promised");
    took
}

/// Sessions expire after about as long as it takes to begin them, so most of them are there at once.
fn expire(idle: Duration) {
    let mut crowd = Crowd::serve(SESSIONS, idle);
    crowd.begin(10);
    let before = PEAK.current_usage();
    crowd.begin(SESSIONS - 10);
    let left = until_released(before, "sessions that have expired");
    say(&format!("  {left} bytes are left when they have expired"));
    // The connection may have been quiet for longer than a head is waited for.
    crowd.stream = connect(crowd.server.address);
    crowd.begin(1);
}

fn listen(address: SocketAddr, id: &str) -> TcpStream {
    let request = Raw::new("GET /mcp HTTP/1.1").without("connection").set("mcp-session-id", id);
    let mut stream = connect(address);
    stream.write_all(&request.bytes()).expect("it is read");
    assert_eq!(hear_head(&stream).status, 200);
    stream
}

fn streams() {
    let mut crowd = Crowd::serve(SESSIONS, LONG);
    let (ids, _) = crowd.begin(STREAMS);
    let first = listen(crowd.server.address, &ids[0]);
    let before = PEAK.current_usage();
    let streams: Vec<_> = ids[1..].iter().map(|id| listen(crowd.server.address, id)).collect();
    let each = (PEAK.current_usage() - before) / streams.len();
    say(&format!("{STREAMS} open streams: {each} bytes each beside their sessions"));
    assert!(each <= PER_STREAM, "an open stream takes {each} bytes, {PER_STREAM} are promised");
    drop((streams, first));
    let left = until_released(before, "streams that have been closed");
    say(&format!("  {left} bytes are left when they are closed"));
}
