//! Clients, servers and listeners of the public API: typed handlers over sockets.

use std::{
    env, fs,
    io::Read,
    net::TcpStream,
    os::unix::net::UnixStream,
    process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::channel,
    },
    thread,
    time::{Duration, Instant},
};

use mcp_driver::{DriverOptions, Error, Watched};
use mcp_proto::{
    connection::{CloseReason, Settings},
    protocol::VersionSet,
    schema::{
        CreateMessageParams, CreateMessageResult, PingParams, Role, SamplingContent, SamplingMessage, TaskSupport,
    },
};
use mcp_service::{CallError, Context, Failure, Host, ResultOrTask, Service, TaskPolicy, Tool, block_on};
use serde_json::json;

use crate::{
    LONG, SOON,
    adapter::{Adapter, Client, Listener, Server},
    raw::Raw,
    scenario::scenarios,
};

scenarios![
    serves_many_clients_over_tcp,
    unix_socket_file_is_removed_after_listening,
    closes_connections_over_the_limit,
    // A64
    // req: LIFE-042
    server_requests_reach_the_client_of_the_call,
    server_sends_requests_outside_of_handlers,
    // req: LIFE-036
    calls_time_out_and_cancel_independently,
    // A63
    a_panicking_handler_fails_only_its_own_call,
    // A22
    // req: PING-002 PING-003
    answers_pings_while_all_handlers_are_busy,
    // A40
    // req: PING-004 PING-005 PING-006 PING-007
    client_closes_after_unanswered_pings,
    many_threads_share_one_client,
    // A28
    refuses_requests_over_the_queue_limit,
    async_handlers_need_no_outer_runtime,
    tasks_continue_after_their_connection_closes,
];

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

fn service() -> Service {
    Service::builder("front", "1")
        .tool(Tool::new_async("echo", async |echo: Echo| echo.message))
        .tool(Tool::new("echo_on_a_thread", |echo: Echo| echo.message))
        .tool(Tool::new_async("ask", send_request))
        .tool(Tool::new("ask_on_a_thread", |context: Context| block_on(send_request(context))))
        .tool(Tool::new_async("wait", async |context: Context| context.sleep(LONG).await.map(|()| "waited")))
        .tool(Tool::new("wait_on_a_thread", |context: Context| context.sleep(LONG).wait().map(|()| "waited")))
        .tool(Tool::new_async("panic", async || -> &'static str { panic!("on purpose") }))
        .tool(Tool::new("panic_on_a_thread", || -> &'static str { panic!("on purpose") }))
        .build()
        .expect("all names differ")
}

async fn send_request(context: Context) -> Result<String, Failure> {
    let answer = context.sample(CreateMessageParams::new([SamplingMessage::user("who?")], 10_u64)).await?;
    Ok(answer.model)
}

fn host() -> Host {
    Host::builder("test", "1").build()
}

/// A host with a model of this name.
fn host_with_model(model: &'static str) -> Host {
    let answer = SamplingContent::text("hm");
    let sample = move |_, _| Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, answer.clone(), model));
    Host::builder("test", "1").sampling(sample).build()
}

/// A host that requires a session, with handlers for all requests of a session.
fn host_with_session() -> Host {
    let answer = SamplingContent::text("hm");
    let sample = move |_, _| Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, answer.clone(), "ada"));
    Host::builder("test", "1").versions(VersionSet::LEGACY).sampling(sample).build()
}

fn echo(client: &impl Client, message: &str) -> String {
    let result = client.call_tool("echo", json!({ "message": message })).expect("it is sent").wait();
    result.expect("it is answered").content[0].as_text().expect("a text").to_owned()
}

/// Runs a listener on a thread until `f` returns, and stops it then.
fn listening(listener: impl Listener, f: impl FnOnce()) {
    let (stop, (done, ended)) = (listener.stop_handle(), channel());
    let thread = thread::spawn(move || done.send(listener.serve(&service()).is_ok()));
    f();
    stop();
    assert_eq!(ended.recv_timeout(LONG), Ok(true));
    thread.join().expect("it does not panic").expect("a listener");
}

fn serves_many_clients_over_tcp<A: Adapter>() {
    let listener = A::listen_tcp(64);
    let address = listener.address().expect("it is TCP");
    listening(listener, || {
        let clients: Vec<_> = (0..10)
            .map(|number| {
                thread::spawn(move || {
                    let client = A::connect_tcp(address, &host()).expect("it listens");
                    for round in 0..20 {
                        let message = format!("{number}/{round}");
                        assert_eq!(echo(&client, &message), message);
                    }
                    assert_eq!(client.close().reason, CloseReason::Local);
                })
            })
            .collect();
        for client in clients {
            client.join().expect("it does not panic");
        }
        // A client that stays until the listener stops.
        let client = A::connect_tcp(address, &host()).expect("it listens");
        thread::spawn(move || client.wait());
    });
}

fn unix_socket_file_is_removed_after_listening<A: Adapter>() {
    let path = env::temp_dir().join(format!("mcp-front-{}-{}", A::NAME, process::id()));
    let _ = fs::remove_file(&path);
    let listener = A::listen_unix(&path);
    assert!(listener.address().is_none());
    listening(listener, || {
        let client = A::connect_unix(&path, &host()).expect("it listens");
        assert_eq!(echo(&client, "ü"), "ü");
    });
    assert!(!path.exists());
    assert!(matches!(A::connect_unix(&path, &host()), Err(Error::Io(_))));
}

fn closes_connections_over_the_limit<A: Adapter>() {
    let listener = A::listen_tcp(2);
    let address = listener.address().expect("it is TCP");
    listening(listener, || {
        let first = A::connect_tcp(address, &host()).expect("there is room");
        let second = A::connect_tcp(address, &host()).expect("there is room");
        let mut third = TcpStream::connect(address).expect("it listens");
        third.set_read_timeout(Some(LONG)).expect("not zero");
        assert_eq!(third.read(&mut [0]).expect("the end comes in time"), 0);
        assert_eq!(echo(&first, "a"), "a");
        // After a client has disconnected there is room again, as soon as the server detects it.
        second.close();
        let until = Instant::now() + LONG;
        while A::connect_tcp(address, &host()).is_err() {
            assert!(Instant::now() < until, "there is never room again");
        }
    });
}

fn server_requests_reach_the_client_of_the_call<A: Adapter>() {
    let listener = A::listen_tcp(64);
    let address = listener.address().expect("it is TCP");
    listening(listener, || {
        // Both clients use the same ids.
        let threads: Vec<_> = ["ada", "bob"]
            .into_iter()
            .map(|model| {
                thread::spawn(move || {
                    let client = A::connect_tcp(address, &host_with_model(model)).expect("it listens");
                    for _ in 0..100 {
                        let result = client.call_tool("ask", ()).expect("sent").wait().expect("answered");
                        assert_eq!(result.content[0].as_text(), Some(model));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("it does not panic");
        }
    });
}

fn server_sends_requests_outside_of_handlers<A: Adapter>() {
    let (left, right) = UnixStream::pair().expect("there are sockets");
    let server = A::serve(&service(), A::unix(right));
    let client = A::connect(A::unix(left), &host_with_session()).expect("it serves");
    server.ready().wait().expect("they have shaken hands");
    let params = CreateMessageParams::new(vec![SamplingMessage::user("who?")], 10_u64);
    assert_eq!(server.sample(&params).expect("it is sent").wait().expect("it is answered").model, "ada");
    assert_eq!(server.close(), CloseReason::Local);
    assert_eq!(client.wait().reason, CloseReason::Eof);
}

fn calls_time_out_and_cancel_independently<A: Adapter>() {
    let (left, right) = A::pair(4096);
    let server = A::serve(&service(), right);
    let client = A::connect(left, &host()).expect("it serves");
    let start = Instant::now();
    let hurried = client.within(Duration::from_millis(50)).call_tool("wait", ()).expect("it is sent");
    assert_eq!(hurried.wait(), Err(CallError::TimedOut { total: true }));
    let called = client.call_tool("wait", ()).expect("it is sent");
    let stop = called.canceller();
    let other = thread::spawn(move || stop.cancel(Some("enough")));
    assert_eq!(called.wait(), Err(CallError::Cancelled));
    other.join().expect("it does not panic");
    drop(client.call_tool("wait", ()).expect("it is sent"));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    // The handlers were cancelled, so they do not delay the end of the server.
    client.close();
    assert_eq!(server.wait(), CloseReason::Eof);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn a_panicking_handler_fails_only_its_own_call<A: Adapter>() {
    let (left, right) = A::pair(4096);
    let _server = A::serve_with(&service(), right, &DriverOptions { handlers: 1, ..DriverOptions::default() });
    let client = A::connect(left, &host()).expect("it serves");
    for tool in ["panic", "panic_on_a_thread", "panic", "panic_on_a_thread"] {
        let failed = client.call_tool(tool, ()).expect("it is sent");
        let beside = client.call_tool("echo", json!({"message": "hi"})).expect("it is sent");
        let error = failed.wait().expect_err("it fails");
        assert_eq!(error.rpc().map(|error| error.code.0), Some(-32603));
        assert!(!error.to_string().contains("on purpose"), "{error}");
        assert!(beside.wait().is_ok());
    }
}

fn answers_pings_while_all_handlers_are_busy<A: Adapter>() {
    let (left, right) = A::pair(4096);
    let server =
        A::serve_with(&service(), right, &DriverOptions { handlers: 1, async_handlers: 1, ..DriverOptions::default() });
    let client = A::connect(left, &host_with_session()).expect("it serves");
    let busy: Vec<_> = ["wait", "wait_on_a_thread"]
        .iter()
        .flat_map(|tool| (0..10).map(|_| client.call_tool(tool, ()).expect("it is sent")))
        .collect();
    let start = Instant::now();
    for _ in 0..10 {
        client.request(&PingParams::default()).expect("it is sent").wait().expect("it is answered");
        server.request(&PingParams::default()).expect("it is sent").wait().expect("it is answered");
    }
    client.all_tools().collect::<Result<Vec<_>, _>>().expect("a list");
    // Cancelled handlers make room for others.
    drop(busy);
    for tool in ["ask", "ask_on_a_thread"] {
        let result = client.call_tool(tool, ()).expect("it is sent").wait().expect("it is answered");
        assert_eq!(result.content[0].as_text(), Some("ada"));
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

fn client_closes_after_unanswered_pings<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let keepalive = mcp_proto::connection::Keepalive { interval: Duration::from_millis(300), max_missed: 2 };
    let settings = Settings { keepalive: Some(keepalive), ..Settings::default() };
    let host = Host::builder("test", "1").settings(settings).build();
    let connected = thread::spawn(move || A::connect(transport, &host).expect("it shakes hands"));
    peer.handshake_as_server();
    let client = connected.join().expect("it does not panic");
    // The first ping gets a response, the next ones do not.
    let ping = peer.receive_method("ping");
    peer.send(&json!({"jsonrpc": "2.0", "id": ping["id"], "result": {}}));
    let call = client.request_raw("test/any", None).expect("it is sent");
    assert_eq!(call.wait(), Err(CallError::Closed(CloseReason::PeerSilent)));
    assert_eq!(client.wait().reason, CloseReason::PeerSilent);
}

fn many_threads_share_one_client<A: Adapter>() {
    let (left, right) = A::pair(512);
    let _server = A::serve(&service(), right);
    let client = A::connect(left, &host()).expect("it serves");
    let count = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..100)
        .map(|number| {
            let (client, count) = (client.clone(), count.clone());
            thread::spawn(move || {
                for round in 0..5 {
                    let message = format!("{number}/{round}");
                    assert_eq!(echo(&client, &message), message);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    assert_eq!(count.load(Ordering::Relaxed), 500);
}

fn refuses_requests_over_the_queue_limit<A: Adapter>() {
    let (transport, mut peer) = Raw::pair::<A>();
    let options = DriverOptions { handlers: 1, max_queued_requests: 3, ..DriverOptions::default() };
    let (begin, begun) = channel();
    let hold = move |context: Context| {
        begin.send(()).expect("the test listens");
        context.sleep(LONG).wait().map(|()| "waited")
    };
    let mut settings = Settings::default();
    settings.limits.drain = Duration::from_millis(50);
    let service = Service::builder("front", "1").settings(settings).tool(Tool::new("wait", hold)).build();
    let service = service.expect("a good name");
    let server = A::serve_with(&service, transport, &options);
    peer.handshake_as_client();
    for id in 1..=10 {
        peer.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "wait"}}));
        if id == 1 {
            begun.recv_timeout(LONG).expect("it begins");
        }
    }
    // One runs, three wait, and the others are refused immediately.
    for _ in 0..6 {
        let refused = peer.receive().expect("an answer");
        assert_eq!(refused["error"]["code"], -32603, "{refused}");
        assert_eq!(refused["error"]["message"], "Too many requests wait to be served");
    }
    // Requests without handlers are not affected.
    peer.send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}));
    assert_eq!(peer.receive().expect("an answer")["id"], "ping");
    drop(peer);
    server.wait();
}

fn async_handlers_need_no_outer_runtime<A: Adapter>() {
    let service = Service::builder("front", "1")
        .tool(Tool::new_async("ask", async |context: Context| {
            context.sleep(Duration::from_millis(1)).await?;
            let messages = vec![SamplingMessage::user("who?")];
            let answer = context.sample(CreateMessageParams::new(messages, 10_u64)).await?;
            context.progress(1.0, None, None).await?;
            Ok::<_, Failure>(answer.model)
        }))
        .build()
        .expect("all names differ");
    let (left, right) = A::pair(512);
    let _server = A::serve(&service, right);
    let client = A::connect(left, &host_with_model("m")).expect("it serves");
    let calls: Vec<_> = (0..50).map(|_| client.call_tool("ask", ()).expect("it is sent")).collect();
    for call in calls {
        assert_eq!(call.wait().expect("it is answered").content[0].as_text(), Some("m"));
    }
}

fn tasks_continue_after_their_connection_closes<A: Adapter>() {
    let gate = Arc::new(Watched::new(false));
    let (task, thread) = (gate.clone(), gate.clone());
    let awaits = move |_: Context| {
        let gate = task.clone();
        async move { gate.wait_for(|open| open.then_some("done")).await }
    };
    let blocks = move |_: Context| if thread.wait_until(LONG, |open| *open) { "done" } else { "too late" };
    let mut policy = TaskPolicy::default();
    policy.poll_interval = Duration::from_millis(10);
    let service = Service::builder("front", "1")
        .task_policy(policy)
        .tool(Tool::new_async("awaits", awaits).task_support(TaskSupport::Required))
        .tool(Tool::new("blocks", blocks).task_support(TaskSupport::Required))
        .build()
        .expect("all names differ");
    let host = Host::builder("test", "1").tasks(TaskPolicy::default()).build();
    let connect = || {
        let (left, right) = A::pair(512);
        let server = A::serve(&service, right);
        (A::connect(left, &host).expect("it serves"), server)
    };
    let (client, server) = connect();
    let tasks: Vec<_> = client
        .all_tools()
        .map(|tool| {
            let tool = tool.expect("it is listed");
            match client.run_tool(&tool, ()).expect("it is sent").wait().expect("it is answered") {
                ResultOrTask::Task(task) => task.id().to_owned(),
                ResultOrTask::Result(result) => panic!("{result:?}"),
            }
        })
        .collect();
    assert_eq!(tasks.len(), 2);
    client.close();
    server.wait();
    gate.update(|open| *open = true);
    let (client, _server) = connect();
    for task in tasks {
        let result = client.follow_task(&task).expect("it is sent").wait().expect("it is answered");
        assert_eq!(result.content[0].as_text(), Some("done"));
    }
}
