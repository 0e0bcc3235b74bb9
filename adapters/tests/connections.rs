//! Async clients and servers, on any runtime: awaited, dropped, closed. Tests that all adapters share are in
//! `tests/adapters`.

use std::{
    future::{pending, poll_fn},
    io::{self, Read as _},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{self, Poll},
    time::{Duration, Instant},
};

use mcp_driver::{ByteReader, ByteWriter};
use mcp_proto::{
    connection::{CloseReason, Settings},
    protocol::VersionSet,
    schema::{CreateMessageParams, CreateMessageResult, Role, SamplingContent, SamplingMessage},
};
use mcp_service::{Context, Failure, Host, Service, Tool};
use serde_json::json;

use super::{
    adapter::{Client, Command, DriverOptions, Listener, Server, Supervisor, Transport, serve},
    run, yield_now,
};

/// A timeout that no operation of a passing test reaches.
pub(crate) const LONG: Duration = Duration::from_secs(20);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

pub(crate) fn service() -> Service {
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
            pending::<()>().await;
            "waited"
        }))
        .tool(Tool::new_async("panic", async || -> &'static str { panic!("on purpose") }))
        .tool(Tool::new("block", |context: Context| context.sleep(LONG).wait().map(|()| "waited")))
        .build()
        .expect("all names differ")
}

pub(crate) fn host() -> Host {
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

/// Connects a client and a server over these transports.
pub(crate) async fn joined((left, right): (Transport, Transport), host: &Host) -> (Client, Server) {
    let server = Server::start(&service(), right, &DriverOptions::default()).expect("there is a runtime");
    (Client::connect(left, host).await.expect("it serves"), server)
}

/// Makes small and large calls, one by one and many at once, and then closes the connection.
pub(crate) async fn converse(pair: (Transport, Transport)) {
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
    let call = |number: usize| client.call_tool("echo", json!({ "message": number.to_string() }));
    let calls: Vec<_> = (0..500).map(|number| call(number).expect("it is sent")).collect();
    for (number, call) in calls.into_iter().enumerate() {
        let result = call.await.expect("it is answered");
        assert_eq!(result.content[0].as_text(), Some(number.to_string().as_str()));
    }
    assert_eq!(client.close().await.reason, CloseReason::Local);
    assert_eq!(server.wait().await, CloseReason::Eof);
}

#[test]
fn futures_can_be_sent_to_other_threads() {
    fn assert_send<T: Send>(_: T) {}
    let (host, service) = (host(), service());
    let supervisor = Supervisor::new(Command::new("program"), &host);
    assert_send(supervisor.client());
    assert_send(Client::spawn(Command::new("program"), &host));
    assert_send(Client::connect(Transport::pair(1).0, &host));
    assert_send(Client::connect_tcp("127.0.0.1:0", &host));
    assert_send(Client::connect_unix("socket", &host));
    assert_send(async {
        let listener = Listener::tcp(("127.0.0.1".to_owned(), 0)).await?;
        listener.serve(&service).await
    });
}

#[test]
fn memory() {
    run(async {
        converse(Transport::pair(64 * 1024)).await;
        converse(Transport::pair(100)).await;
    });
}

const INITIALIZE: &str = concat!(
    r#"{"id":0,"jsonrpc":"2.0","method":"initialize","params":{"capabilities":{},"#,
    r#""clientInfo":{"name":"x","version":"1"},"protocolVersion":"2025-06-18"}}"#,
    "\n"
);

/// A reader that has the bytes of a client from the start, and no others.
struct Early(&'static [u8]);

impl ByteReader for Early {
    fn poll_read(&mut self, _: &mut task::Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.0.is_empty() { Poll::Pending } else { Poll::Ready(self.0.read(buffer)) }
    }
}

/// A writer that keeps the bytes.
struct Kept(Arc<Mutex<Vec<u8>>>);

impl ByteWriter for Kept {
    fn poll_write(&mut self, _: &mut task::Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }
}

#[test]
fn early_request_is_served_before_a_task_starts() {
    run(async {
        let (kept, service) = (Arc::default(), service());
        let transport = Transport::new(Early(INITIALIZE.as_bytes()), Kept(Arc::clone(&kept)));
        let mut serving = pin!(serve(&service, transport));
        assert!(poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx).is_pending())).await);
        assert!(kept.lock().expect("no panic").starts_with(br#"{"jsonrpc":"2.0","id":0,"result":{"#));
    });
}

#[test]
fn close_is_bounded_despite_running_handlers() {
    run(async {
        let mut settings = Settings::default();
        settings.limits.drain = Duration::from_millis(50);
        let (left, right) = Transport::pair(4096);
        let server = Server::start(&service_with(settings), right, &DriverOptions::default()).expect("a runtime");
        let client = Client::connect(left, &host()).await.expect("it serves");
        let calls = ["stubborn", "wait", "block"].map(|tool| client.call_tool(tool, ()).expect("it is sent"));
        while server.connection().update(|conn, _| conn.usage().requests) < 3 {
            yield_now().await;
        }
        let start = Instant::now();
        assert_eq!(server.close().await, CloseReason::Local);
        // The close does not wait for the handlers.
        assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
        for call in calls {
            assert!(call.await.is_err());
        }
    });
}

#[test]
fn a_handler_can_close_its_connection() {
    run(async {
        let home = Arc::new(Mutex::new(None::<Arc<Server>>));
        let own = home.clone();
        let leave = move |_: Context| {
            let server = own.lock().expect("no panic").clone().expect("it has started");
            async move {
                let start = Instant::now();
                server.close().await;
                server.close().await;
                format!("{}", start.elapsed() < LONG / 2)
            }
        };
        let mut settings = Settings::default();
        // A drain timeout that long would be noticed.
        settings.limits.drain = LONG;
        let service = Service::builder("x", "1").settings(settings).tool(Tool::new_async("leave", leave)).build();
        let service = service.expect("a good name");
        let (left, right) = Transport::pair(4096);
        let server = Arc::new(Server::start(&service, right, &DriverOptions::default()).expect("a runtime"));
        *home.lock().expect("no panic") = Some(server.clone());
        let client = Client::connect(left, &host()).await.expect("it serves");
        // The response of the handler is sent after the close.
        let result = client.call_tool("leave", ()).expect("it is sent").await.expect("it is answered");
        assert_eq!(result.content[0].as_text(), Some("true"));
        assert_eq!(server.wait().await, CloseReason::Local);
        assert_eq!(client.wait().await.reason, CloseReason::Eof);
        home.lock().expect("no panic").take();
    });
}

#[test]
fn dropped_call_futures_leak_nothing() {
    run(async {
        let (client, server) = joined(Transport::pair(64), &host()).await;
        let seen = Arc::new(AtomicUsize::new(0));
        for number in 0..1000_u32 {
            let message = number.to_string();
            let mut call = Box::pin(client.call_tool("echo", json!({ "message": message })).expect("it is sent"));
            // The future is polled a few times and then dropped.
            let mut polls = 0;
            let answered = poll_fn(|cx| {
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
        let usage = client.connection().update(|conn, _| conn.usage());
        assert_eq!((usage.calls, usage.outbox_frames, usage.events), (0, 0, 0));
        client.close().await;
        server.wait().await;
        let usage = server.connection().update(|conn, _| conn.usage());
        assert_eq!((usage.requests, usage.outbox_frames, usage.events), (0, 0, 0));
    });
}
