//! Misbehaving peers of a server over HTTP, on any adapter: they disconnect, send incomplete requests, read nothing,
//! and connect many times. The including test has the adapter as `crate::adapter`, and its runtime as `crate::{run,
//! spawn}`.

use std::{
    future::{Future, poll_fn},
    io::{self, ErrorKind, Read as _, Write as _},
    mem,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use mcp_driver::Watched;
use mcp_proto::{connection::Settings, protocol::VersionSet};
use mcp_service::{Context, Failure, Host, Service, Tool};
use serde_json::json;

use crate::{
    adapter::{Client, Error, StopHandle, http::Listener},
    run, spawn,
};

/// A timeout that no operation of a passing test reaches.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// The timeout of a request, in tests that depend on it.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// Counters of the handlers.
#[derive(Default)]
struct Handlers {
    begun: usize,
    cancelled: usize,
    /// Whether blocking handlers continue.
    released: bool,
}

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: StopHandle,
    served: Pin<Box<dyn Future<Output = Result<(), Error>>>>,
    received: Arc<Watched<Handlers>>,
}

impl Running {
    pub(crate) async fn new(set: impl FnOnce(Listener) -> Listener) -> Self {
        let received = Arc::new(Watched::<Handlers>::default());
        let (waiting, telling, blocking) = (received.clone(), received.clone(), received.clone());
        let mut settings = Settings::default();
        settings.limits.drain = Duration::from_millis(100);
        let wait = |received: Arc<Watched<Handlers>>, context: Context| async move {
            received.update(|received| received.begun += 1);
            context.cancelled().await;
            received.update(|received| received.cancelled += 1);
            "cancelled"
        };
        let service = Service::builder("web", "1")
            .settings(settings)
            .tool(Tool::new_async("hello", async || "good day"))
            .tool(Tool::new_async("large", async || "x".repeat(15 << 20)))
            .tool(Tool::new_async("panic", async || -> &'static str { panic!("on purpose") }))
            .tool(Tool::new("panic_on_a_thread", || -> &'static str { panic!("on purpose") }))
            .tool(Tool::new("block", move || {
                blocking.update(|received| received.begun += 1);
                blocking.wait_until(LONG, |received| received.released);
                "released"
            }))
            .tool(Tool::new_async("wait", move |context: Context| wait(waiting.clone(), context)))
            .tool(Tool::new_async("tell_and_wait", move |context: Context| {
                let received = telling.clone();
                async move {
                    context.progress(1.into(), None, None).await?;
                    Ok::<_, Failure>(wait(received, context).await)
                }
            }))
            .tool(Tool::new_async("flood", async |context: Context| {
                for step in 1_u32.. {
                    context.check()?;
                    context.progress(step.into(), None, Some(&"x".repeat(1000))).await?;
                    // Yields to other tasks.
                    let mut turn = false;
                    poll_fn(|cx| {
                        cx.waker().wake_by_ref();
                        if mem::replace(&mut turn, true) { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                }
                Ok::<_, Failure>("all of it")
            }))
            .build()
            .expect("all names differ");
        let listener = set(Listener::bind("127.0.0.1:0".to_owned()).await.expect("there is a port"));
        let (address, stop) = (listener.local_addr(), listener.stop_handle());
        Self { address, stop, served: Box::pin(spawn(async move { listener.serve(&service).await })), received }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a time");
        stream.set_write_timeout(Some(LONG)).expect("a time");
        stream
    }

    pub(crate) async fn stop(self) {
        (self.stop)();
        self.served.await.expect("it was told to");
    }

    pub(crate) fn release(&self) {
        self.received.update(|received| received.released = true);
    }

    pub(crate) fn wait_until_begun(&self, count: usize) {
        self.wait_until(|received| received.begun == count);
    }

    /// Returns how many waiting handlers have begun.
    pub(crate) fn begun(&self) -> usize {
        self.received.read(|received| received.begun)
    }

    /// Returns how many of them were cancelled.
    pub(crate) fn cancelled(&self) -> usize {
        self.received.read(|received| received.cancelled)
    }

    fn wait_until(&self, condition: impl Fn(&Handlers) -> bool) {
        assert!(self.received.wait_until(LONG, condition), "it does not take that long");
    }
}

/// Returns a call of a tool, in 2026-07-28.
pub(crate) fn call(tool: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    });
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let head = format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n");
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{head}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads until a text has arrived.
pub(crate) fn read_until(stream: &mut TcpStream, what: &str) -> String {
    let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut chunk).expect("it is said in time");
        received.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&received);
        if text.contains(what) {
            return text.into_owned();
        }
        assert!(read > 0, "it ended with {text}");
    }
}

/// Reads to the end, which is not an error.
fn read_rest(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("it ends in good order");
    String::from_utf8_lossy(&received).into_owned()
}

// req: M-HTTP-026 M-CANC-006
#[test]
fn idle_disconnect_cancels_the_handler() {
    run(async {
        let server = Running::new(|listener| listener).await;
        let mut expected = 0;
        for tool in ["wait", "tell_and_wait"] {
            for half in [false, true] {
                let mut stream = server.connect();
                stream.write_all(call(tool).as_bytes()).expect("it reads");
                expected += 1;
                if tool == "tell_and_wait" {
                    read_until(&mut stream, "notifications/progress");
                }
                server.wait_until(|received| received.begun == expected);
                if half {
                    stream.shutdown(Shutdown::Write).expect("it is open");
                } else {
                    drop(stream);
                }
                server.wait_until(|received| received.cancelled == expected);
            }
        }
        server.stop().await;
    });
}

#[test]
fn server_keeps_connections_alive() {
    run(async {
        let server = Running::new(|listener| listener).await;
        let mut stream = server.connect();
        for tool in ["hello", "nothing", "hello"] {
            stream.write_all(call(tool).as_bytes()).expect("it reads");
            read_until(&mut stream, "\"id\":1");
        }
        // Pipelined requests get their responses in order.
        stream.write_all(call("hello").repeat(3).as_bytes()).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        let received = read_rest(&mut stream);
        assert!(received.matches("good day").count() >= 1, "{received}");
        server.stop().await;
    });
}

/// Forwards connections to a server. Returns its address, and the number of connections.
fn relay(server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it has an address");
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("it listens");
            counted.fetch_add(1, Ordering::SeqCst);
            let Ok(server) = TcpStream::connect(server) else { return };
            for stream in [&client, &server] {
                stream.set_nodelay(true).expect("it is open");
            }
            for (from, to) in [(&client, &server), (&server, &client)] {
                let both = from.try_clone().and_then(|from| Ok((from, to.try_clone()?)));
                let (mut from, mut to) = both.expect("there are descriptors");
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    (address, count)
}

#[test]
fn client_reuses_connections() {
    run(async {
        let server = Running::new(|listener| listener).await;
        for versions in [VersionSet::ALL, VersionSet::LEGACY] {
            let (address, connections) = relay(server.address);
            let host = Host::builder("x", "1").versions(versions).build();
            let client = Client::connect_http(&format!("http://{address}/mcp"), &host).await.expect("it serves");
            for _ in 0..200 {
                client.call_tool("hello", ()).expect("it is sent").await.expect("it is answered");
            }
            // One for calls, one for the stream of a session, and a few for calls that begin before the last connection
            // is back in the pool.
            assert!(connections.load(Ordering::SeqCst) < 10, "{connections:?} in {versions:?}");
            client.close().await;
        }
        server.stop().await;
    });
}

#[test]
fn misbehaving_peers_do_not_affect_others() {
    run(async {
        let server = Running::new(|listener| listener).await;
        let mut waits = server.connect();
        waits.write_all(call("tell_and_wait").as_bytes()).expect("it reads");
        read_until(&mut waits, "notifications/progress");
        // This client reads nothing of its response.
        let mut silent = server.connect();
        silent.write_all(call("flood").as_bytes()).expect("it reads");
        read_until(&mut silent, "notifications/progress");
        let mut lasting = server.connect();
        for round in 0..20 {
            for tool in ["panic", "panic_on_a_thread"] {
                let mut stream = server.connect();
                stream.write_all(call(tool).as_bytes()).expect("it reads");
                read_until(&mut stream, "-32603");
            }
            for begun in [&call("flood"), "POST /mcp HTTP/1.1\r\nhost:", "junk\r\n\r\n"] {
                server.connect().write_all(begun.as_bytes()).expect("it reads");
            }
            lasting.write_all(call("hello").as_bytes()).expect("it reads");
            assert!(read_until(&mut lasting, "\"id\":1").contains("good day"), "{round}");
            server.wait_until(|received| (received.begun, received.cancelled) == (1, 0));
        }
        waits.shutdown(Shutdown::Both).expect("it is open");
        server.wait_until(|received| received.cancelled == 1);
        drop(silent);
        server.stop().await;
    });
}

#[test]
fn incomplete_requests_time_out() {
    run(async {
        let server = Running::new(|listener| listener.read_timeout(PATIENCE).connections(1)).await;
        let whole = call("hello");
        let (head, body) = whole.split_once("\r\n\r\n").expect("it has a head");
        let begun = format!("{head}\r\n\r\n{}", &body[..body.len() / 2]);
        for (sent, status) in [("", ""), ("POST /m", ""), (&head[..head.len() / 2], ""), (&begun, "HTTP/1.1 408 ")] {
            let start = Instant::now();
            let mut stream = server.connect();
            stream.write_all(sent.as_bytes()).expect("it reads");
            let received = read_rest(&mut stream);
            assert!(received.starts_with(status), "{status} for {sent:?}: {received}");
            assert!(start.elapsed() >= PATIENCE, "{sent:?} had no time");
        }
        // Its slot is free again.
        let mut stream = server.connect();
        stream.write_all(whole.as_bytes()).expect("it reads");
        read_until(&mut stream, "good day");
        server.stop().await;
    });
}

#[test]
fn concurrent_connections_are_limited() {
    run(async {
        let server = Running::new(|listener| listener.connections(4)).await;
        let mut streams: Vec<_> = (0..4).map(|_| server.connect()).collect();
        for stream in &mut streams {
            stream.write_all(call("wait").as_bytes()).expect("it reads");
        }
        server.wait_until(|received| received.begun == 4);
        let mut fifth = server.connect();
        fifth.write_all(call("wait").as_bytes()).expect("the system reads");
        // The fifth connection is served only after another one has ended.
        drop(streams.pop());
        server.wait_until(|received| received.begun == 5 && received.cancelled == 1);
        drop((streams, fifth));
        server.wait_until(|received| received.begun == 5 && received.cancelled == 5);
        // Slots are released each time.
        for _ in 0..200 {
            let mut stream = server.connect();
            stream.write_all(call("hello").as_bytes()).expect("it reads");
            read_until(&mut stream, "good day");
        }
        server.stop().await;
    });
}

#[test]
fn stop_closes_open_connections() {
    run(async {
        let server = Running::new(|listener| listener).await;
        // A connection without a request, one in the middle of a head, one in a call, an idle one, and one that reads
        // nothing.
        let idle = server.connect();
        let mut half = server.connect();
        half.write_all(b"POST /mcp HTTP/1.1\r\nhost:").expect("it reads");
        let mut waits = server.connect();
        waits.write_all(call("tell_and_wait").as_bytes()).expect("it reads");
        read_until(&mut waits, "notifications/progress");
        let mut done = server.connect();
        done.write_all(call("hello").as_bytes()).expect("it reads");
        read_until(&mut done, "good day");
        let mut silent = server.connect();
        silent.write_all(call("flood").as_bytes()).expect("it reads");
        read_until(&mut silent, "notifications/progress");
        let start = Instant::now();
        let address = server.address;
        server.stop().await;
        assert!(start.elapsed() < LONG, "it took {:?}", start.elapsed());
        for (name, mut stream) in [("idle", idle), ("half", half), ("waits", waits), ("done", done), ("silent", silent)]
        {
            let mut rest = Vec::new();
            let ended = stream.read_to_end(&mut rest);
            // Some bytes may not have been read.
            let is_over = ended.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |_| true);
            assert!(is_over, "{name}: {ended:?}");
        }
        assert!(TcpStream::connect(address).is_err(), "the listener is closed");
    });
}

#[test]
fn quiet_client_does_not_delay_stop() {
    run(async {
        // The test that the server does not wait for such a client to disconnect is in `mcp_driver::http::linger`.
        let server = Running::new(|listener| listener).await;
        let mut stream = server.connect();
        stream.write_all(call("hello").as_bytes()).expect("it reads");
        read_until(&mut stream, "good day");
        server.stop().await;
        assert_eq!(read_rest(&mut stream), "", "it ends in good order");
    });
}

/// Sends a request whose client waits for `100 Continue` before it sends the body. Returns the rest of the request.
fn begin_request<'a>(stream: &mut TcpStream, request: &'a str) -> &'a str {
    let (head, body) = request.split_once("\r\n\r\n").expect("it has a body");
    stream.write_all(format!("{head}\r\nexpect: 100-continue\r\n\r\n").as_bytes()).expect("it reads");
    read_until(stream, "100 Continue");
    body
}

// A request that was arriving when its server was told to end got 503 or 404: its session had ended before its body
// came.
#[test]
fn stop_serves_requests_that_are_arriving() {
    run(async {
        let server = Running::new(|listener| listener).await;
        let (mut modern, mut legacy) = (server.connect(), server.connect());
        let post = |headers: &str, body: &str| {
            format!(
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"},
        }});
        legacy.write_all(post("", &initialize.to_string()).as_bytes()).expect("it reads");
        let received = read_until(&mut legacy, "\"id\":0");
        let id = received.split_once("mcp-session-id: ").expect("it has a session").1.split("\r\n").next();
        let call_of_session = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hello"}});
        let headers = format!("mcp-session-id: {}\r\n", id.expect("a line"));
        let (first, second) = (call("hello"), post(&headers, &call_of_session.to_string()));
        let bodies = [begin_request(&mut modern, &first), begin_request(&mut legacy, &second)];
        (server.stop)();
        while TcpStream::connect(server.address).is_ok() {
            thread::yield_now();
        }
        for (stream, body) in [&mut modern, &mut legacy].into_iter().zip(bodies) {
            stream.write_all(body.as_bytes()).expect("it reads");
            let received = read_rest(stream);
            assert!(received.contains("good day"), "{received}");
        }
        server.served.await.expect("it was told to");
    });
}

// A connection without a request was closed at the stop, with the request that its client was about to send.
#[test]
fn stop_serves_the_first_request_of_a_new_connection() {
    run(async {
        let server = Running::new(|listener| listener).await;
        let mut streams = [(); 3].map(|()| server.connect());
        (server.stop)();
        while TcpStream::connect(server.address).is_ok() {
            thread::yield_now();
        }
        for stream in &mut streams[1..] {
            stream.write_all(call("hello").as_bytes()).expect("it reads");
            let received = read_rest(stream);
            assert!(received.contains("good day"), "{received}");
        }
        // The first one sends nothing.
        server.served.await.expect("it was told to");
        assert_eq!(read_rest(&mut streams[0]), "", "it ends in good order");
    });
}
