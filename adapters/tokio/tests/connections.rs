//! Clients, servers and listeners on tokio, as users have them.

use std::{
    env, fs, io,
    pin::Pin,
    process,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context as Task, Poll},
    time::{Duration, Instant},
};

use mcp_proto::{
    connection::{CloseReason, RequestOptions, Settings},
    protocol::VersionSet,
    schema::{CreateMessageParams, CreateMessageResult, Role, SamplingContent, SamplingMessage, TaskSupport},
};
use mcp_service::{CallError, Context, Failure, Host, Service, Started, TaskPolicy, Tool, drive::Watch};
use mcp_tokio::{Client, Error, Listener, Messages, Options, Server, Transport};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixStream, unix::pipe},
    task::JoinSet,
    time::timeout,
};

/// More than anything takes; a test that needs it has failed.
const LONG: Duration = Duration::from_secs(20);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

fn service() -> Service {
    service_with(Settings::default())
}

fn service_with(settings: Settings) -> Service {
    Service::builder("front", "1")
        .settings(settings)
        .tool(Tool::new_async("echo", async |echo: Echo| echo.message))
        .tool(Tool::new("echo_on_a_thread", |echo: Echo| echo.message))
        .tool(Tool::new_async("ask", async |context: Context| {
            let answer = context.sample(CreateMessageParams::new([SamplingMessage::user("who?")], 10_u64)).await?;
            Ok::<_, Failure>(answer.model)
        }))
        .tool(Tool::new("ask_on_a_thread", |context: Context| {
            let answer = context.sample(CreateMessageParams::new([SamplingMessage::user("who?")], 10_u64)).wait()?;
            Ok::<_, Failure>(answer.model)
        }))
        .tool(Tool::new_async("wait", async |context: Context| context.sleep(LONG).await.map(|()| "waited")))
        .tool(Tool::new_async("stubborn", async || {
            tokio::time::sleep(LONG).await;
            "waited"
        }))
        .tool(Tool::new_async("panic", async || -> &'static str { panic!("on purpose") }))
        .tool(Tool::new("block", |context: Context| context.sleep(LONG).wait().map(|()| "waited")))
        .build()
        .expect("all names differ")
}

fn host() -> Host {
    Host::builder("test", "1").build()
}

fn host_with_model(model: &'static str, versions: VersionSet) -> Host {
    let sample = move |_, _| {
        let result = CreateMessageResult::new(Role::Assistant, SamplingContent::text("hm"), model);
        async move { Ok::<_, Failure>(result) }
    };
    Host::builder("test", "1").versions(versions).sampling_async(sample).build()
}

async fn echo(client: &Client, tool: &str, message: &str) -> String {
    let result = client.call_tool(tool, json!({ "message": message })).expect("it is sent").await;
    result.expect("it is answered").content[0].as_text().expect("a text").to_owned()
}

/// A client and a server over these transports.
async fn joined((left, right): (Transport, Transport), host: &Host) -> (Client, Server) {
    let server = Server::start(&service(), right, &Options::default()).expect("there is a runtime");
    (Client::over(left, host).await.expect("it serves"), server)
}

/// Fails the test, rather than hanging, if it takes too long.
async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(LONG, future).await.expect("it takes too long")
}

/// Answers small and large, one by one and many at once; then an end that both sides know of.
async fn converse(pair: (Transport, Transport)) {
    within(async {
        let (client, server) = joined(pair, &host_with_model("m", VersionSet::ALL)).await;
        for tool in ["echo", "echo_on_a_thread"] {
            for text in ["", "ü \u{1F600} \\n", &"x".repeat(300_000)] {
                assert_eq!(echo(&client, tool, text).await, text);
            }
        }
        for tool in ["ask", "ask_on_a_thread"] {
            let result = client.call_tool(tool, ()).expect("it is sent").await.expect("it is answered");
            assert_eq!(result.content[0].as_text(), Some("m"));
        }
        let mut calls = JoinSet::new();
        for number in 0..500 {
            let client = client.clone();
            calls
                .spawn(async move { assert_eq!(echo(&client, "echo", &number.to_string()).await, number.to_string()) });
        }
        while let Some(call) = calls.join_next().await {
            call.expect("no panic");
        }
        assert_eq!(client.close().await.reason, CloseReason::Local);
        assert_eq!(server.wait().await, CloseReason::Eof);
    })
    .await;
}

#[tokio::test]
async fn memory() {
    converse(Transport::pair(64 * 1024)).await;
    converse(Transport::pair(100)).await;
}

#[tokio::test]
async fn unix() {
    let (left, right) = UnixStream::pair().expect("there are sockets");
    converse((Transport::unix(left), Transport::unix(right))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_reader_and_writer() {
    let ((a, b), (c, d)) = (pipe::pipe().expect("a pipe"), pipe::pipe().expect("a pipe"));
    converse((Transport::over(b, c), Transport::over(d, a))).await;
    let (left, right) = UnixStream::pair().expect("there are sockets");
    converse((Transport::duplex(left), Transport::duplex(right))).await;
}

/// Messages that travel whole, with line breaks in them as some peers write them, and now and then not at once.
struct Post {
    incoming: tokio::sync::mpsc::Receiver<Vec<u8>>,
    outgoing: Option<tokio::sync::mpsc::Sender<Vec<u8>>>,
    reluctant: bool,
}

impl Messages for Post {
    fn poll_receive(&mut self, cx: &mut Task<'_>, message: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        self.incoming.poll_recv(cx).map(|received| {
            message.extend(received.iter().flatten());
            Ok(received.is_some())
        })
    }

    fn poll_send(&mut self, cx: &mut Task<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        self.reluctant = !self.reluctant;
        if self.reluctant {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let json: Value = serde_json::from_slice(message).expect("a message is JSON");
        let sent =
            self.outgoing.as_ref().expect("it is open").try_send(serde_json::to_vec_pretty(&json).expect("JSON"));
        Poll::Ready(sent.map_err(|_| io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(&mut self, _: &mut Task<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Task<'_>) -> Poll<io::Result<()>> {
        self.outgoing = None;
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn whole_messages() {
    let ((to_right, from_left), (to_left, from_right)) =
        (tokio::sync::mpsc::channel(10_000), tokio::sync::mpsc::channel(10_000));
    let post = |incoming, outgoing| Transport::messages(Post { incoming, outgoing: Some(outgoing), reluctant: false });
    converse((post(from_right, to_right), post(from_left, to_left))).await;
}

#[tokio::test]
async fn many_clients_over_tcp() {
    within(async {
        let listener = Listener::tcp("127.0.0.1:0").await.expect("loopback is there");
        let (address, stop) = (listener.local_addr().expect("it is TCP"), listener.stopper());
        let serving = tokio::spawn(async move { listener.serve(&service()).await });
        let mut clients = JoinSet::new();
        for number in 0..10 {
            clients.spawn(async move {
                let client = Client::connect_tcp(address, &host()).await.expect("it listens");
                for round in 0..20 {
                    let message = format!("{number}/{round}");
                    assert_eq!(echo(&client, "echo", &message).await, message);
                }
                assert_eq!(client.close().await.reason, CloseReason::Local);
            });
        }
        while let Some(client) = clients.join_next().await {
            client.expect("no panic");
        }
        let client = Client::connect_tcp(address, &host()).await.expect("it listens");
        stop();
        serving.await.expect("no panic").expect("somebody listens");
        assert_eq!(client.wait().await.reason, CloseReason::Eof);
    })
    .await;
}

#[tokio::test]
async fn a_unix_socket_is_there_while_it_is_listened_to() {
    within(async {
        let path = env::temp_dir().join(format!("mcp-tokio-{}", process::id()));
        let _ = fs::remove_file(&path);
        let listener = Listener::unix(&path).expect("the path is free").connections(1);
        let stop = listener.stopper();
        let serving = tokio::spawn(async move { listener.serve(&service()).await });
        let client = Client::connect_unix(&path, &host()).await.expect("it listens");
        assert_eq!(echo(&client, "echo", "ü").await, "ü");
        let error = Client::connect_unix(&path, &host()).await.expect_err("one too many");
        assert!(matches!(error, Error::Handshake(_)), "{error}");
        client.close().await;
        stop();
        serving.await.expect("no panic").expect("somebody listens");
        assert!(!path.exists());
        assert!(matches!(Client::connect_unix(&path, &host()).await, Err(Error::Io(_))));
    })
    .await;
}

#[tokio::test]
async fn handlers_that_are_busy_hold_nothing_up() {
    within(async {
        let options = Options { handlers: 2, async_handlers: 2, ..Options::default() };
        let (left, right) = Transport::pair(512);
        let server = Server::start(&service(), right, &options).expect("there is a runtime");
        // Pings are of a session.
        let host = host_with_model("m", VersionSet::LEGACY);
        let client = Client::over(left, &host).await.expect("it serves");
        let waiting: Vec<_> = ["wait", "block"]
            .iter()
            .flat_map(|tool| (0..10).map(|_| client.call_tool(tool, ()).expect("it is sent")))
            .collect();
        for _ in 0..100 {
            client.ping().expect("it is sent").await.expect("it is answered");
        }
        client.all_tools().gather().await.expect("a list");
        // Cancelled, they make room for others.
        drop(waiting);
        for tool in ["ask", "ask_on_a_thread"] {
            let result = client.call_tool(tool, ()).expect("it is sent").await.expect("it is answered");
            assert_eq!(result.content[0].as_text(), Some("m"));
        }
        assert_eq!(client.close().await.reason, CloseReason::Local);
        server.wait().await;
    })
    .await;
}

#[tokio::test]
async fn a_panic_is_an_error_of_one_request() {
    within(async {
        let (client, _server) = joined(Transport::pair(4096), &host()).await;
        for _ in 0..3 {
            let error = client.call_tool("panic", ()).expect("it is sent").await.expect_err("it panics");
            assert!(matches!(error, CallError::Rpc(error) if error.code.0 == -32603));
            assert_eq!(echo(&client, "echo", "on").await, "on");
        }
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_does_not_read_holds_nothing_up() {
    within(async {
        let mut settings = Settings::default();
        settings.limits.drain = Duration::from_millis(50);
        let host = Host::builder("test", "1").settings(settings).versions(VersionSet::LEGACY).build();
        let (near, mut far) = UnixStream::pair().expect("there are sockets");
        let connecting = Client::over(Transport::unix(near), &host);
        let server = async {
            let hello = br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#;
            // Not before it is asked.
            let mut byte = [0];
            while byte != *b"\n" {
                far.read_exact(&mut byte).await.expect("it asks");
            }
            far.write_all(&[&hello[..], b"\n"].concat()).await.expect("it reads");
            far
        };
        let (client, mut far) = tokio::join!(connecting, server);
        let client = client.expect("it is a server");
        let raw = mcp_proto::wire::Json::new(&json!({"text": "x".repeat(100_000)})).expect("JSON");
        let stuck: Vec<_> = (0..20)
            .map(|_| client.request_raw("test/stuff", Some(&(&raw).into())).expect("there is room"))
            .collect();
        let hurried = client.within(Duration::from_millis(50)).request_raw("test/any", None).expect("there is room");
        // Nothing can be written. It is read all the same, calls are given up, and time passes.
        far.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"test/news\"}\n").await.expect("it reads");
        let start = Instant::now();
        assert_eq!(hurried.await, Err(CallError::TimedOut { total: true }));
        for call in &stuck {
            call.cancel(None);
        }
        for call in stuck {
            assert_eq!(call.await, Err(CallError::Cancelled));
        }
        assert_eq!(client.close().await.reason, CloseReason::Local);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    })
    .await;
}

#[tokio::test]
async fn what_was_asked_before_the_end_is_answered() {
    within(async {
        let (near, mut far) = UnixStream::pair().expect("there are sockets");
        let server = Server::start(&service(), Transport::unix(near), &Options::default()).expect("a runtime");
        let mut input = String::new();
        input += r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
        input += "\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
        for id in 1..=200 {
            let tool = if id % 2 == 0 { "echo" } else { "echo_on_a_thread" };
            input += &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{{\"message\":\"m\"}}}}}}\n");
        }
        far.write_all(input.as_bytes()).await.expect("it reads");
        far.shutdown().await.expect("a socket");
        let mut output = String::new();
        far.read_to_string(&mut output).await.expect("it answers");
        assert_eq!(output.lines().count(), 201);
        assert_eq!(server.wait().await, CloseReason::Eof);
    })
    .await;
}

#[tokio::test]
async fn the_end_comes_soon_whatever_handlers_do() {
    within(async {
        let mut settings = Settings::default();
        settings.limits.drain = Duration::from_millis(50);
        let (left, right) = Transport::pair(4096);
        let server = Server::start(&service_with(settings), right, &Options::default()).expect("a runtime");
        let client = Client::over(left, &host()).await.expect("it serves");
        let calls = ["stubborn", "wait", "block"].map(|tool| client.call_tool(tool, ()).expect("it is sent"));
        while server.link().run(|conn, _| conn.usage().requests) < 3 {
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        assert_eq!(server.close().await, CloseReason::Local);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        for call in calls {
            assert!(call.await.is_err());
        }
    })
    .await;
}

#[tokio::test]
async fn work_on_a_task_outlives_its_connection() {
    within(async {
        let gate = Arc::new(Watch::new(false));
        let (task, thread) = (gate.clone(), gate.clone());
        let on_the_runtime = move |_: Context| {
            let gate = task.clone();
            async move { gate.until(|open| open.then_some("done")).await }
        };
        let on_a_thread = move |_: Context| if thread.wait_until(LONG, |open| *open) { "done" } else { "too late" };
        let mut policy = TaskPolicy::default();
        policy.poll_interval = Duration::from_millis(10);
        let service = Service::builder("tasks", "1")
            .task_policy(policy)
            .tool(Tool::new_async("on_the_runtime", on_the_runtime).task_support(TaskSupport::Required))
            .tool(Tool::new("on_a_thread", on_a_thread).task_support(TaskSupport::Required))
            .build()
            .expect("all names differ");
        let host = Host::builder("test", "1").tasks(TaskPolicy::default()).build();
        let (left, right) = Transport::pair(4096);
        let server = Server::start(&service, right, &Options::default()).expect("a runtime");
        let client = Client::over(left, &host).await.expect("it serves");
        let mut tasks = Vec::new();
        for tool in client.all_tools().gather().await.expect("a list") {
            match client.run_tool(&tool, ()).expect("it is sent").await.expect("it is answered") {
                Started::Task(task) => tasks.push(task.id().to_owned()),
                Started::Done(result) => panic!("{result:?}"),
            }
        }
        assert_eq!(tasks.len(), 2);
        client.close().await;
        server.wait().await;
        gate.change(|open| *open = true);
        let (left, right) = Transport::pair(4096);
        let server = Server::start(&service, right, &Options::default()).expect("a runtime");
        let client = Client::over(left, &host).await.expect("it serves");
        for task in tasks {
            let result = client.follow_task(&task).expect("it is sent").await.expect("it is answered");
            assert_eq!(result.content[0].as_text(), Some("done"));
        }
        client.close().await;
        server.wait().await;
    })
    .await;
}

#[tokio::test]
async fn a_handler_can_close_its_connection() {
    within(async {
        let home = Arc::new(Mutex::new(None::<Arc<Server>>));
        let own = home.clone();
        let leave = move |_: Context| {
            let server = own.lock().expect("no panic").clone().expect("it has started");
            async move {
                let start = Instant::now();
                server.close().await;
                server.close().await;
                format!("{}", start.elapsed() < Duration::from_secs(1))
            }
        };
        let service = Service::builder("x", "1").tool(Tool::new_async("leave", leave)).build().expect("a good name");
        let (left, right) = Transport::pair(4096);
        let server = Arc::new(Server::start(&service, right, &Options::default()).expect("a runtime"));
        *home.lock().expect("no panic") = Some(server.clone());
        let client = Client::over(left, &host()).await.expect("it serves");
        // What was promised before is answered after.
        let result = client.call_tool("leave", ()).expect("it is sent").await.expect("it is answered");
        assert_eq!(result.content[0].as_text(), Some("true"));
        assert_eq!(server.wait().await, CloseReason::Local);
        assert_eq!(client.wait().await.reason, CloseReason::Eof);
        home.lock().expect("no panic").take();
    })
    .await;
}

#[tokio::test]
async fn a_thousand_dropped_futures_lose_nothing() {
    within(async {
        let (client, server) = joined(Transport::pair(64), &host()).await;
        let seen = Arc::new(AtomicUsize::new(0));
        for number in 0..1000_u32 {
            let message = number.to_string();
            let mut call = Box::pin(client.call_tool("echo", json!({ "message": message })).expect("it is sent"));
            // Polled for a while, and dropped at whatever point that is.
            let mut polls = 0;
            let answered = std::future::poll_fn(|cx| {
                polls += 1;
                match Pin::new(&mut call).poll(cx) {
                    Poll::Ready(result) => Poll::Ready(Some(result)),
                    Poll::Pending if polls > number % 3 => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            })
            .await;
            if let Some(result) = answered {
                assert_eq!(result.expect("it is answered").content[0].as_text(), Some(message.as_str()));
                seen.fetch_add(1, Ordering::Relaxed);
            }
        }
        assert_eq!(echo(&client, "echo", "last").await, "last");
        let usage = client.link().run(|conn, _| conn.usage());
        assert_eq!((usage.calls, usage.outbox_frames, usage.events), (0, 0, 0));
        client.close().await;
        server.wait().await;
        let usage = server.link().run(|conn, _| conn.usage());
        assert_eq!((usage.requests, usage.outbox_frames, usage.events), (0, 0, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_calls_in_flight() {
    within(async {
        let (client, server) = joined(Transport::pair(64 * 1024), &host()).await;
        let client = client.with_options(RequestOptions::forever());
        let mut calls = JoinSet::new();
        for number in 0..10_000 {
            let client = client.clone();
            calls.spawn(async move {
                let message = number.to_string();
                let tool = if number % 10 == 0 { "echo_on_a_thread" } else { "echo" };
                let result = client.call_tool(tool, json!({ "message": message })).expect("there is room").await;
                assert_eq!(result.expect("it is answered").content[0].as_text(), Some(message.as_str()));
            });
        }
        while let Some(call) = calls.join_next().await {
            call.expect("no panic");
        }
        assert_eq!(server.link().run(|conn, _| conn.usage()).requests, 0);
        client.close();
        server.wait().await;
    })
    .await;
}

#[test]
fn a_runtime_that_ends_leaves_nobody_waiting() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (client, server) = runtime.block_on(joined(Transport::pair(100), &host()));
    let call = client.call_tool("wait", ()).expect("it is sent");
    let waiting = std::thread::spawn(move || call.wait());
    drop(runtime);
    assert!(matches!(waiting.join().expect("no panic"), Err(CallError::Closed(_))));
    assert!(matches!(client.close().wait().reason, CloseReason::Lost(_)));
    server.close().wait();
    // Without a runtime there is no connection.
    let error = Server::start(&service(), Transport::pair(100).0, &Options::default()).expect_err("there is none");
    assert!(matches!(error, Error::Io(_)));
}
