//! The costs of many idle clients of a server over HTTP: 10,000 sessions, and 1,000 open streams, on mcp-tokio.
//!
//! ```sh
//! cargo test -p mcp-tests-adapters --test crowd
//! ```
//!
//! It prints the memory of the process for each of them, without socket buffers of the system, compares it with the
//! promised limits, and checks that all of it is released when they have expired.

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
use raw::{Raw, connect, read_head};
use serde_json::json;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// A timeout that no operation reaches, also on a busy machine.
const LONG: Duration = Duration::from_secs(600);

const SESSIONS: usize = 10_000;
const STREAMS: usize = 1_000;

/// The limit for one idle session, in bytes.
const PER_SESSION: usize = 4 << 10;

/// The limit for one open stream without its session, in bytes: that of this crate, and the two buffers of 8 KiB that
/// hyper has for each connection, one for each direction.
const PER_STREAM: usize = (8 << 10) + (16 << 10);

/// The limit for the growth of tables of the runtime and the server.
const LEFT: usize = 2 << 20;

#[expect(clippy::print_stdout, reason = "what it has measured is what it is for")]
fn print_line(what: &str) {
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
        // All of them have the same address, which gets seven eighths.
        options.limits.sessions = sessions.div_ceil(7) * 8;
        options.limits.idle = idle;
        let server = Tokio::serve(&service.expect("a service"), options);
        let stream = connect(server.address);
        Self { server, stream }
    }

    /// Sends a request over the connection. Returns its status, and the session id of the response.
    fn send_request(&mut self, request: &Raw) -> (u16, Option<String>) {
        self.stream.write_all(&request.clone().without("connection").bytes()).expect("it is read");
        let head = read_head(&self.stream);
        let header = |name: &str| head.text.lines().find_map(|line| Some(line.strip_prefix(name)?.to_owned()));
        let length = header("content-length: ").map_or(0, |length| length.parse().expect("a number"));
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("it is all there");
        (head.status, header("mcp-session-id: "))
    }

    /// Begins sessions, with their handshakes. Returns up to `STREAMS` of their ids, and the duration.
    fn begin(&mut self, sessions: usize) -> (Vec<String>, Duration) {
        let start = Instant::now();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let mut ids = Vec::with_capacity(STREAMS);
        for index in 0..sessions {
            let (status, id) = self.send_request(&Raw::initialize());
            let id = id.filter(|_| status == 200).unwrap_or_else(|| panic!("session {index}: {status}"));
            assert_eq!(self.send_request(&Raw::post("/mcp", &ready).set("mcp-session-id", &id)).0, 202);
            if index < STREAMS {
                ids.push(id);
            }
        }
        (ids, start.elapsed())
    }

    /// Returns whether a session exists.
    fn has(&mut self, id: &str) -> bool {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        match self.send_request(&Raw::post("/mcp", &ping).set("mcp-session-id", id)).0 {
            200 => true,
            404 => false,
            status => panic!("{status}"),
        }
    }
}

/// Waits until at most this much memory is allocated.
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

/// Begins the sessions and measures their memory. Returns the duration.
fn sessions() -> Duration {
    let mut crowd = Crowd::serve(SESSIONS, LONG);
    // The first sessions also allocate memory that all share.
    let (first, _) = crowd.begin(10);
    let before = PEAK.current_usage();
    let (_, took) = crowd.begin(SESSIONS - 10);
    let each = (PEAK.current_usage() - before) / (SESSIONS - 10);
    assert!(crowd.has(&first[0]), "all are there");
    // A session that was idle longer is removed for a new one.
    crowd.begin(1);
    assert!(crowd.has(&first[0]), "a session that was used a moment ago stays");
    print_line(&format!("{SESSIONS} idle sessions: {each} bytes each; begun in {took:.1?}"));
    assert!(each <= PER_SESSION, "an idle session takes {each} bytes, {PER_SESSION} are promised");
    took
}

/// Sessions expire after about as long as it takes to begin them, so most of them exist at the same time.
fn expire(idle: Duration) {
    let mut crowd = Crowd::serve(SESSIONS, idle);
    crowd.begin(10);
    let before = PEAK.current_usage();
    crowd.begin(SESSIONS - 10);
    let left = until_released(before, "sessions that have expired");
    print_line(&format!("  {left} bytes are left when they have expired"));
    // The connection may have been idle for longer than the timeout of heads.
    crowd.stream = connect(crowd.server.address);
    crowd.begin(1);
}

fn listen(address: SocketAddr, id: &str) -> TcpStream {
    let request = Raw::new("GET /mcp HTTP/1.1").without("connection").set("mcp-session-id", id);
    let mut stream = connect(address);
    stream.write_all(&request.bytes()).expect("it is read");
    assert_eq!(read_head(&stream).status, 200);
    stream
}

fn streams() {
    let mut crowd = Crowd::serve(SESSIONS, LONG);
    let (ids, _) = crowd.begin(STREAMS);
    let first = listen(crowd.server.address, &ids[0]);
    let before = PEAK.current_usage();
    let streams: Vec<_> = ids[1..].iter().map(|id| listen(crowd.server.address, id)).collect();
    let each = (PEAK.current_usage() - before) / streams.len();
    print_line(&format!("{STREAMS} open streams: {each} bytes each beside their sessions"));
    assert!(each <= PER_STREAM, "an open stream takes {each} bytes, {PER_STREAM} are promised");
    drop((streams, first));
    let left = until_released(before, "streams that have been closed");
    print_line(&format!("  {left} bytes are left when they are closed"));
}
