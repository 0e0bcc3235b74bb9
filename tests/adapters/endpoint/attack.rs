//! One address uses up its share of a server and holds it. Another address is served at the same time, and the process
//! takes less memory than documented.
//!
//! The tests do not measure time: the other address must be served while the first one holds its share.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use mcp_driver::Watched;
use mcp_proto::{
    connection::Settings,
    http::{
        Policy,
        server::{EndpointOptions, Paths},
    },
    schema::TaskSupport,
};
use mcp_service::{Context, Failure, Service, TaskPolicy, Tool};
use rustix::net::{AddressFamily, SocketType, bind, connect as connect_to, socket};
use serde_json::{Value, json};

use crate::{
    LONG, PEAK,
    adapter::{Served, Site},
    raw::Raw,
};

const MIB: usize = 1 << 20;

/// An address gets seven eighths of each of these limits.
const CONNECTIONS: usize = 128;
const FUNCTIONS: usize = 16;
const UNWRITTEN: usize = 4 * MIB;

/// The limit of sessions. Sessions in use are not removed for others.
const SESSIONS: usize = 512;

/// The limit of streams of a session.
const STREAMS: usize = 8;

/// Unread responses: if they were not counted, they would take more memory than documented.
const FLOODS: usize = 32;

/// The limit of tasks, of which an address gets a quarter.
const TASKS: usize = 64;

const ATTACKER: u8 = 1;
const HONEST: u8 = 2;

/// The state of the handlers.
#[derive(Default)]
struct Handlers {
    blocked: usize,
    released: bool,
}

fn service(received: &Arc<Watched<Handlers>>) -> Service {
    let mut settings = Settings::default();
    settings.limits.drain = Duration::from_millis(50);
    settings.limits.frame_bytes = MIB / 2;
    let mut tasks = TaskPolicy::default();
    (tasks.max_shared_tasks, tasks.max_tasks_per_principal) = (TASKS, TASKS / 4);
    tasks.max_shared_bytes = 4 * MIB;
    let blocking = received.clone();
    Service::builder("attacked", "1")
        .settings(settings)
        .task_policy(tasks)
        .tool(Tool::new_async("hello", async || "good day"))
        .tool(Tool::new("function", || "computed"))
        .tool(Tool::new("block", move || {
            blocking.update(|received| received.blocked += 1);
            blocking.wait_until(LONG, |received| received.released);
            "released"
        }))
        .tool(
            Tool::new_async("later", async |context: Context| {
                context.cancelled().await;
                "cancelled"
            })
            .task_support(TaskSupport::Optional),
        )
        .tool(Tool::new_async("flood", async |context: Context| {
            // More than one exchange holds, so the rest waits in its connection.
            for step in 0..192_u32 {
                context.progress(step.into(), None, Some(&"x".repeat(32 << 10))).await?;
            }
            context.cancelled().await;
            Ok::<_, Failure>("cancelled")
        }))
        .build()
        .expect("a service")
}

/// A request of 2026-07-28 with all capabilities, on a connection that is kept alive.
fn modern(method: &str, mut params: Value) -> Vec<u8> {
    let name = params["name"].as_str().or_else(|| params["taskId"].as_str()).map(str::to_owned);
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 1,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let request = Raw::post("/mcp", &message).without("connection").set("mcp-protocol-version", "2026-07-28");
    let request = request.set("mcp-method", method);
    name.into_iter().fold(request, |request, name| request.set("mcp-name", &name)).bytes()
}

fn call(tool: &str) -> Vec<u8> {
    modern("tools/call", json!({"name": tool, "arguments": {}}))
}

/// A response on a connection that is kept alive.
struct Answer {
    status: u16,
    head: String,
    body: Value,
}

/// A connection of a client.
struct Client(TcpStream);

impl Client {
    fn new(last: u8, address: SocketAddr) -> Self {
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("there are sockets");
        bind(&fd, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))).expect("all of 127.0.0.0/8 is there");
        connect_to(&fd, &address).expect("it listens");
        let stream = TcpStream::from(fd);
        stream.set_read_timeout(Some(LONG)).expect("not zero");
        stream.set_write_timeout(Some(LONG)).expect("not zero");
        Self(stream)
    }

    /// Sends a request. Returns whether the write has succeeded.
    fn send(&mut self, request: &[u8]) -> bool {
        self.0.write_all(request).is_ok()
    }

    /// Reads the next head. Returns `None` if the connection was closed.
    fn head(&mut self) -> Option<(u16, String)> {
        let (mut bytes, mut byte) = (Vec::new(), [0]);
        while !bytes.ends_with(b"\r\n\r\n") {
            if self.0.read(&mut byte).ok()? == 0 {
                return None;
            }
            bytes.push(byte[0]);
        }
        let head = String::from_utf8(bytes).expect("a head is text");
        Some((head.get(9..12)?.parse().ok()?, head))
    }

    /// Sends a request, and reads a response with a `Content-Length`.
    #[track_caller]
    fn send_request(&mut self, request: &[u8]) -> Answer {
        assert!(self.send(request), "the connection is there");
        let (status, head) = self.head().expect("an answer");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.0.read_exact(&mut body).expect("all of it comes");
        Answer { status, head, body: serde_json::from_slice(&body).unwrap_or_default() }
    }

    /// Begins a session. Returns its id, if there was room for it.
    #[track_caller]
    fn begin(&mut self, initialize: &Raw) -> Option<String> {
        let answer = self.send_request(&initialize.clone().without("connection").bytes());
        let id = answer.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).map(str::to_owned);
        assert_eq!(id.is_some(), answer.status == 200, "{}", answer.head);
        id
    }
}

/// A request in a session.
fn in_session(id: &str, message: &Value) -> Vec<u8> {
    Raw::post("/mcp", message).without("connection").set("mcp-session-id", id).bytes()
}

/// A server under attack.
struct Attacked {
    server: Served,
    received: Arc<Watched<Handlers>>,
    name: &'static str,
    /// The documented limit of memory, and the memory before.
    limit: usize,
    before: usize,
}

impl Attacked {
    fn new<S: Site>() -> Self {
        let received = Arc::new(Watched::<Handlers>::default());
        let before = PEAK.current_usage();
        PEAK.reset_peak_usage();
        let mut endpoint = EndpointOptions::new(Policy::loopback());
        endpoint.paths = Paths::at("/mcp");
        let limits = &mut endpoint.limits;
        (limits.sessions, limits.requests, limits.streams) = (SESSIONS, CONNECTIONS, STREAMS);
        (limits.body_bytes, limits.request_bytes) = (4 * MIB, 4 * MIB);
        let options = mcp_driver::DriverOptions {
            functions: FUNCTIONS,
            unwritten: UNWRITTEN,
            ..mcp_driver::DriverOptions::default()
        };
        let (server, limit) = S::serve_with(&service(&received), endpoint, Some((options, CONNECTIONS)));
        Self { server, received, name: S::NAME, limit, before }
    }

    fn client(&self, last: u8) -> Client {
        Client::new(last, self.server.address)
    }

    /// Checks that a client at another address can use a session, a large call, a blocking handler, and a task.
    #[track_caller]
    fn another_is_served(&self) {
        let mut client = self.client(HONEST);
        let id = client.begin(&Raw::initialize()).expect("there is room for a session");
        let pad = "x".repeat(256 << 10);
        let params = json!({"name": "hello", "arguments": {}, "_meta": {"pad": pad}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = client.send_request(&in_session(&id, &message));
        assert_eq!(answer.body["result"]["content"][0]["text"], json!("good day"), "{}{}", answer.head, answer.body);
        let answer = client.send_request(&call("function"));
        assert_eq!(answer.body["result"]["content"][0]["text"], json!("computed"), "{}{}", answer.head, answer.body);
        let answer = client.send_request(&call("later"));
        let task = answer.body["result"]["taskId"].as_str();
        let task = task.unwrap_or_else(|| panic!("{}{}", answer.head, answer.body)).to_owned();
        let answer = client.send_request(&modern("tasks/cancel", json!({"taskId": task})));
        assert!(answer.status == 200 && answer.body["error"].is_null(), "{}", answer.body);
        // The session is deleted, so the next check needs a slot for a new one.
        assert!(
            client
                .send_request(
                    &Raw::new("DELETE /mcp HTTP/1.1").without("connection").set("mcp-session-id", &id).bytes()
                )
                .status
                < 300
        );
    }

    /// Compares the peak of memory with the documented limit.
    #[expect(clippy::print_stdout, reason = "what it has measured is what it is for")]
    fn finish(self, held: &str, least: usize) {
        let peak = PEAK.peak_usage().saturating_sub(self.before);
        println!("{}, {held}: at most {} of {} MiB", self.name, peak / MIB, self.limit / MIB);
        assert!(peak > least, "no more than {peak} bytes were taken: it was no attack");
        assert!(peak < self.limit, "{peak} bytes were taken, {} are documented", self.limit);
        self.received.update(|received| received.released = true);
    }
}

/// Blocking handlers, tasks, streams and sessions, all held at the same time.
pub(crate) fn one_address_cannot_exhaust_the_server<S: Site>() {
    let attacked = Attacked::new::<S>();
    let mut attacker = attacked.client(ATTACKER);
    let mut held: Vec<Client> = Vec::new();

    // Its share of blocking handlers runs, and others wait.
    let share = FUNCTIONS * 7 / 8;
    for _ in 0..2 * FUNCTIONS {
        let mut client = attacked.client(ATTACKER);
        assert!(client.send(&call("block")));
        held.push(client);
    }
    assert!(attacked.received.wait_until(LONG, |received| received.blocked == share), "its share begins");
    attacked.another_is_served();

    let tasks =
        (0..TASKS).filter(|_| attacker.send_request(&call("later")).body["result"]["taskId"].is_string()).count();
    assert_eq!(tasks, TASKS / 4, "its share of tasks");
    attacked.another_is_served();

    // As many streams as it gets connections for.
    let (mut streams, mut session) = (0, String::new());
    loop {
        if streams % STREAMS == 0 {
            session = attacker.begin(&Raw::initialize()).expect("there is room for a session");
            attacker
                .send_request(&in_session(&session, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})));
        }
        let listen = Raw::new("GET /mcp HTTP/1.1").without("connection").set("mcp-session-id", &session).bytes();
        let mut client = attacked.client(ATTACKER);
        if !client.send(&listen) {
            break;
        }
        let Some((status, head)) = client.head() else { break };
        assert_eq!(status, 200, "{head}");
        held.push(client);
        streams += 1;
    }
    // One connection is used for the requests of the attacker.
    assert_eq!(held.len(), CONNECTIONS * 7 / 8 - 1, "its share of connections");
    attacked.another_is_served();

    // More sessions than the limit, all of which are used.
    for _ in 0..SESSIONS + 64 {
        let id = attacker.begin(&Raw::initialize()).expect("there is room for a session");
        attacker.send_request(&in_session(&id, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})));
        attacker.send_request(&in_session(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})));
    }
    attacked.another_is_served();

    assert_eq!(attacked.received.read(|received| received.blocked), share, "all of it was held until here");
    attacked.finish("functions, tasks, streams and sessions", 0);
    drop((held, attacker));
}

/// Responses of 6 MiB that are not read.
pub(crate) fn unread_responses_of_one_address_are_bounded<S: Site>() {
    let attacked = Attacked::new::<S>();
    let mut held = Vec::new();
    for _ in 0..FLOODS {
        let mut client = attacked.client(ATTACKER);
        if client.send(&call("flood")) {
            held.push(client);
        }
        if held.len() % 16 == 0 {
            attacked.another_is_served();
        }
    }
    attacked.another_is_served();
    attacked.finish("unread answers", UNWRITTEN / 2);
    drop(held);
}

/// Sessions with large client information, which is kept as long as they are.
pub(crate) fn large_client_info_of_one_address_is_bounded<S: Site>() {
    let attacked = Attacked::new::<S>();
    let mut attacker = attacked.client(ATTACKER);
    // The limit for it is a quarter of `UNWRITTEN`.
    let (title, room) = ("x".repeat(MIB / 16 - 1000), UNWRITTEN / 4);
    let named = Raw::post(
        "/mcp",
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "large", "version": "1", "title": title}}}),
    );
    let sessions = (0..SESSIONS / 2).filter(|_| attacker.begin(&named).is_some()).count();
    assert!((room / 2 / title.len()..=room / title.len()).contains(&sessions), "it gets a share: {sessions}");
    attacked.another_is_served();
    attacked.finish("large params of initialize", UNWRITTEN / 2);
    drop(attacker);
}
