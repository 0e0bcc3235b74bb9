//! Messages of a backend on the streams of its calls, as in a session over Streamable HTTP.

use std::{
    collections::BTreeMap,
    future::Future,
    ops::Deref,
    pin::{Pin, pin},
    task::{Context as TaskContext, Waker},
    time::Duration,
};

use mcp_proto::{
    connection::ClientRole,
    protocol::ProtocolVersion::{self, V2025_11_25, V2026_07_28},
    rpc::CallId,
    schema::{CallToolResult, ElicitFormParams, ElicitResult, LoggingLevel, Map, TaskSupport},
};

use super::{Backend, ProxyLimits};
use crate::{Context, Failure, Host, Peer, Pending, Service, Tool, testing::TestClient};

struct Link(Peer<ClientRole>);

impl Deref for Link {
    type Target = Peer<ClientRole>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A service with one backend, and its clients.
struct World {
    run: Pin<Box<dyn Future<Output = ()>>>,
    back: TestClient,
    clients: Vec<TestClient>,
}

impl World {
    /// Connects two clients to the service.
    fn new(front: ProtocolVersion) -> Self {
        Self::with(front, ProxyLimits::default())
    }

    fn with(front: ProtocolVersion, limits: ProxyLimits) -> Self {
        let wait = async |context: Context| {
            context.cancelled().await;
        };
        let task = Tool::new_async("task", wait).task_support(TaskSupport::Required);
        let server = Service::builder("back", "1.0.0").tool(Tool::new_async("wait", wait)).tool(task);
        let server = server.build().expect("a service");
        let service = Service::builder("front", "1.0.0").enable_backends().build().expect("a service");
        let backend = Backend::builder("back").limits(limits).join(&service).expect("a backend");
        let back = TestClient::of(&server).host(backend.host()).version(V2025_11_25).connect();
        let peer = back.server();
        let run = Box::pin(async move {
            let connect = || async { Ok::<_, String>(Link(peer.clone())) };
            backend.run(connect).await.expect("it does not end");
        });
        let host = Host::builder("client", "1.0.0")
            .elicitation(|_: ElicitFormParams, _| Ok::<_, Failure>(ElicitResult::accept(Map::new())));
        let host = host.build();
        let mut world = Self { run, back, clients: Vec::new() };
        world.settle();
        let connect = || TestClient::of(&service).host(&host).version(front).connect();
        world.clients = vec![connect(), connect()];
        world
    }

    fn settle(&mut self) {
        for _ in 0..10 {
            let _ = pin!(&mut self.run).poll(&mut TaskContext::from_waker(Waker::noop()));
            self.back.settle();
            self.clients.iter().for_each(TestClient::settle);
        }
    }

    /// Calls a tool, and asks for log messages. In a session all are sent.
    fn call(&mut self, client: usize, tool: &str) -> Pending<CallToolResult> {
        let peer = self.clients[client].server();
        let call = peer.logging(LoggingLevel::Error).call_tool(tool, ()).expect("it is sent");
        self.settle();
        call
    }

    /// Sends a call with about this many KiB, while the backend reads nothing.
    fn begin(&self, client: usize, kib: usize) -> Pending<CallToolResult> {
        let text = BTreeMap::from([("text", "x".repeat(kib << 10))]);
        let call = self.clients[client].server().call_tool("back__wait", text).expect("it is sent");
        self.clients[client].settle();
        call
    }

    /// Returns the latest request to the backend.
    fn latest(&self) -> CallId {
        let latest = self.back.server().connection().read(|conn| conn.calls().last().map(|call| call.call));
        latest.expect("a request is in flight")
    }

    /// Sends a question and a log message on the stream of a request.
    fn send_on(&mut self, call: CallId, about: &str) {
        let params = format!(r#"{{"message":"{about}","requestedSchema":{{"type":"object","properties":{{}}}}}}"#);
        let line = format!(r#"{{"jsonrpc":"2.0","id":"{about}","method":"elicitation/create","params":{params}}}"#);
        self.back.send_server_line_on(call, &line);
        let params = format!(r#"{{"level":"error","data":"log {about}"}}"#);
        let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#);
        self.back.send_server_line_on(call, &line);
        self.settle();
    }

    fn respond(&mut self, call: CallId) {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[]}}}}"#, call.as_u64());
        self.back.send_server_line(&line);
        self.settle();
    }

    /// Returns whether a client has received the question and the log message.
    fn got(&self, client: usize, about: &str) -> [bool; 2] {
        let transcript = self.clients[client].transcript().to_string();
        [format!(r#""message":"{about}""#), format!("log {about}")].map(|text| transcript.contains(&text))
    }
}

#[test]
fn messages_on_streams_reach_the_clients_of_their_calls() {
    for front in [V2025_11_25, V2026_07_28] {
        let mut world = World::new(front);
        let mut calls = Vec::new();
        for client in [0, 1] {
            let pending = world.call(client, "back__wait");
            calls.push((pending, world.latest()));
        }
        for (client, about) in [(0, "first"), (1, "second")] {
            world.send_on(calls[client].1, about);
            assert_eq!(world.got(client, about), [true; 2], "{front}");
            assert_eq!(world.got(1 - client, about), [false; 2], "{front}");
        }
        // A call that has ended has no messages, also if there is one call only.
        world.respond(calls[0].1);
        world.send_on(calls[0].1, "late");
        assert_eq!([world.got(0, "late"), world.got(1, "late")], [[false; 2]; 2], "{front}");
        world.back.transcript().assert_contains("No call of a client is in flight");
        world.send_on(calls[1].1, "last");
        assert_eq!([world.got(0, "last"), world.got(1, "last")], [[false; 2], [true; 2]], "{front}");
    }
}

/// The stream of a task is that of the request for its result (2025-11-25).
#[test]
fn messages_of_a_task_reach_its_client() {
    let mut world = World::new(V2025_11_25);
    let peer = world.clients[0].server();
    let tools = world.clients[0].wait(peer.list_tools(None).expect("allowed")).expect("a list").tools;
    let tool = tools.iter().find(|tool| tool.name == "back__task").expect("it is offered");
    let task = peer.run_tool(tool, ()).expect("allowed");
    world.settle();
    let of_task = world.latest();
    world.back.transcript().assert_contains("tasks/result");
    let waiting = world.call(1, "back__wait");
    assert_ne!(world.latest(), of_task);
    world.send_on(of_task, "task");
    assert_eq!([world.got(0, "task"), world.got(1, "task")], [[true; 2], [false; 2]]);
    world.respond(of_task);
    world.send_on(of_task, "late");
    assert_eq!([world.got(0, "late"), world.got(1, "late")], [[false; 2]; 2]);
    drop((task, waiting));
}

/// Returns the sizes of the requests to the backend that have arrived there, in KiB, in order.
fn arrived(world: &World) -> Vec<usize> {
    let transcript = world.back.transcript();
    let lines = transcript.lines().iter().filter(|line| line.text().contains("tools/call"));
    lines.map(|line| line.text().len() >> 10).collect()
}

// Issue: 14 calls of 15 MiB of one client delayed that of another one by 13.6 s, which waited behind all of them.
#[test]
fn large_requests_of_a_client_do_not_delay_those_of_others() {
    for front in [V2025_11_25, V2026_07_28] {
        let mut world = World::new(front);
        let mut calls: Vec<_> = (0..6).map(|number| world.begin(0, 1100 + number)).collect();
        calls.extend([world.begin(1, 0), world.begin(1, 2000)]);
        for _ in 0..10 {
            world.settle();
        }
        assert_eq!(arrived(&world), [1100, 1101, 0, 1102, 2000, 1103, 1104, 1105], "{front}");
    }
}

#[test]
fn requests_that_wait_to_be_sent_time_out() {
    let mut world = World::with(V2025_11_25, ProxyLimits { call_time: Duration::ZERO, ..ProxyLimits::default() });
    let calls = [0, 0, 1].map(|client| world.begin(client, 1100));
    let refused = [0, 1].map(|client| world.clients[client].transcript().to_string().matches("in time").count());
    assert_eq!(refused, [1, 1], "those behind the first one");
    world.settle();
    assert_eq!(arrived(&world), [1100]);
    drop(calls);
}
