//! Slow blocking handlers, over HTTP: they run on the threads of their connections and delay no other request.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use mcp_blocking::{
    Client, StopHandle,
    http::{EndpointOptions, Listener, Paths, Policy},
};
use mcp_driver::Watched;
use mcp_proto::{connection::SendError, protocol::VersionSet, schema::Root};
use mcp_service::{Context, Host, Roots, Service, Tool};
use serde_json::{Value, json};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(60);

/// A server whose handlers wait at a gate.
struct Site {
    address: SocketAddr,
    stop: StopHandle,
    served: JoinHandle<()>,
    /// The number of handlers that have begun, the number of cancelled ones, and whether they may continue.
    begun: Arc<Watched<usize>>,
    cancelled: Arc<Watched<usize>>,
    gate: Arc<Watched<bool>>,
}

impl Site {
    fn new() -> Self {
        let (begun, cancelled, gate) = <(Arc<Watched<usize>>, Arc<Watched<usize>>, Arc<Watched<bool>>)>::default();
        let enter = |begun: &Arc<Watched<usize>>| {
            let begun = begun.clone();
            move || begun.update(|begun| *begun += 1)
        };
        let (waits, says, minds) = (enter(&begun), enter(&begun), enter(&begun));
        let [gate_of_wait, gate_of_output] = [gate.clone(), gate.clone()];
        let told = cancelled.clone();
        let service = Service::builder("slow", "1")
            .tool(Tool::new("quick", || "quick"))
            .tool(Tool::new("panics", || -> &str { panic!("on purpose") }))
            .tool(Tool::new("waits", move || {
                waits();
                assert!(gate_of_wait.wait_until(LONG, |open| *open), "the test opens it");
                "waited"
            }))
            .tool(Tool::new("naps", {
                let (naps, never) = (AtomicU64::new(0), Watched::new(()));
                move || {
                    // About as long as it takes until another thread takes over the connection.
                    let nap = Duration::from_micros(600 + naps.fetch_add(97, Ordering::Relaxed) % 2000);
                    never.wait_until(nap, |()| false);
                    "napped"
                }
            }))
            .tool(Tool::new("says", move |context: Context| {
                context.progress(1.0, None, None).wait()?;
                says();
                assert!(gate_of_output.wait_until(LONG, |open| *open), "the test opens it");
                Ok::<_, SendError>("said")
            }))
            .tool(Tool::new("asks", |context: Context| {
                context.roots().wait().map(|roots| format!("{} roots", roots.len()))
            }))
            .tool(Tool::new("minds", move |context: Context| {
                minds();
                context.cancelled().wait();
                told.update(|told| *told += 1);
                "cancelled"
            }))
            .build()
            .expect("all names differ");
        let mut options = EndpointOptions::new(Policy::loopback());
        options.paths = Paths::at("/mcp");
        let listener = Listener::bind("127.0.0.1:0").expect("there is a port").endpoint(options);
        let (address, stop) = (listener.local_addr(), listener.stop_handle());
        let served = thread::spawn(move || listener.serve(&service).expect("it was told to stop"));
        Self { address, stop, served, begun, cancelled, gate }
    }

    fn open(&self) {
        self.gate.update(|open| *open = true);
    }

    fn stop(self) {
        (self.stop)();
        self.served.join().expect("no panic");
    }

    /// Connects a client with a session.
    fn client(&self, host: &Host) -> Client {
        Client::connect_http(&format!("http://{}/mcp", self.address), host).expect("it serves")
    }
}

/// Opens a connection without an HTTP client.
fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a time");
    stream
}

/// Sends a hand-written call of a tool, in 2026-07-28.
fn call(stream: &mut TcpStream, tool: &str) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    });
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).expect("it is read");
}

/// Reads until a text has arrived.
fn read_until(mut stream: &TcpStream, wanted: &str) {
    let (mut received, mut chunk) = (String::new(), [0; 1024]);
    while !received.contains(wanted) {
        let read = stream.read(&mut chunk).expect("it goes on");
        assert!(read > 0, "{wanted} comes before the end: {received}");
        received.push_str(&String::from_utf8_lossy(&chunk[..read]));
    }
}

fn host() -> Host {
    Host::builder("test", "1").build()
}

#[test]
fn disconnect_cancels_slow_handler() {
    let site = Site::new();
    for round in 1..=3 {
        let mut stream = connect(site.address);
        call(&mut stream, "minds");
        assert!(site.begun.wait_until(LONG, |begun| *begun == round), "it begins");
        drop(stream);
        assert!(site.cancelled.wait_until(LONG, |cancelled| *cancelled == round), "it is told");
    }
    site.stop();
}

#[test]
fn progress_is_sent_before_slow_handler_returns() {
    let site = Site::new();
    let mut stream = connect(site.address);
    call(&mut stream, "says");
    read_until(&stream, "notifications/progress");
    site.open();
    read_until(&stream, "said");
    // The connection continues on another thread.
    call(&mut stream, "quick");
    read_until(&stream, "quick");
    site.stop();
}

#[test]
fn blocking_handler_requests_roots_on_call_stream() {
    let site = Site::new();
    let roots = Roots::new([Root::new("file:///here")]).expect("a good root");
    let host = Host::builder("test", "1").versions(VersionSet::LEGACY).roots(&roots).build();
    let client = site.client(&host);
    for _ in 0..20 {
        let answer = client.call_tool("asks", ()).expect("it is sent").wait().expect("it is answered");
        assert_eq!(answer.content[0].as_text(), Some("1 roots"));
    }
    drop(client);
    site.stop();
}

#[test]
fn slow_handlers_do_not_delay_other_connections() {
    const CONNECTIONS: usize = 32;
    let site = Site::new();
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| connect(site.address)).collect();
    for (stream, number) in streams.iter_mut().zip(1..) {
        call(stream, "waits");
        assert!(site.begun.wait_until(LONG, |begun| *begun == number), "it begins while the others wait");
    }
    // Neither a new connection nor a session waits for them.
    let mut other = connect(site.address);
    call(&mut other, "quick");
    read_until(&other, "quick");
    let client = site.client(&host());
    client.call_tool("quick", ()).expect("it is sent").wait().expect("it is answered");
    site.open();
    streams.iter().for_each(|stream| read_until(stream, "waited"));
    drop(client);
    site.stop();
}

#[test]
fn connection_thread_handoff_loses_no_response() {
    let site = Site::new();
    let address = site.address;
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut stream = connect(address);
                for _ in 0..100 {
                    call(&mut stream, "naps");
                    read_until(&stream, "napped");
                }
            });
        }
    });
    site.stop();
}

#[test]
fn slow_handlers_do_not_delay_same_session() {
    let site = Site::new();
    let host = Host::builder("test", "1").versions(VersionSet::LEGACY).build();
    let client = site.client(&host);
    let slow: Vec<_> = (0..4).map(|_| client.call_tool("waits", ()).expect("it is sent")).collect();
    assert!(site.begun.wait_until(LONG, |begun| *begun == 4), "they begin");
    let minds = client.call_tool("minds", ()).expect("it is sent");
    assert!(site.begun.wait_until(LONG, |begun| *begun == 5), "it begins");
    client.call_tool("quick", ()).expect("it is sent").wait().expect("it is answered");
    drop(minds);
    assert!(site.cancelled.wait_until(LONG, |cancelled| *cancelled == 1), "a call that is given up is cancelled");
    site.open();
    slow.into_iter().for_each(|call| drop(call.wait().expect("it is answered")));
    drop(client);
    site.stop();
}

#[test]
fn panicking_handler_gets_response_keeps_connection() {
    let site = Site::new();
    let mut stream = connect(site.address);
    for _ in 0..3 {
        call(&mut stream, "panics");
        read_until(&stream, "}}");
        call(&mut stream, "quick");
        read_until(&stream, "quick");
    }
    site.stop();
}

#[test]
fn server_stops_with_busy_and_idle_connections() {
    let site = Site::new();
    // One connection has sent no request, one is idle, and two wait for handlers, one of which handles cancellation.
    let (fresh, mut answered, mut told, mut waits) =
        (connect(site.address), connect(site.address), connect(site.address), connect(site.address));
    call(&mut answered, "quick");
    read_until(&answered, "quick");
    call(&mut told, "minds");
    call(&mut waits, "waits");
    assert!(site.begun.wait_until(LONG, |begun| *begun == 2), "they begin");
    (site.stop)();
    for mut idle in [fresh, answered] {
        let mut rest = Vec::new();
        // The connection may be reset.
        let _ = idle.read_to_end(&mut rest);
    }
    assert!(site.cancelled.wait_until(LONG, |cancelled| *cancelled == 1), "it is told");
    site.open();
    site.served.join().expect("no panic");
}

#[test]
fn pipelined_requests_get_responses_in_order() {
    let site = Site::new();
    let mut stream = connect(site.address);
    for tool in ["quick", "panics", "quick", "quick"] {
        call(&mut stream, tool);
    }
    let mut reader = BufReader::new(&stream);
    let mut answers = Vec::new();
    while answers.len() < 4 {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).expect("it goes on") > 0, "all are answered");
        let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::trim).map(str::to_owned)
        else {
            continue;
        };
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).expect("a head");
        }
        let mut body = vec![0; length.parse().expect("a number")];
        reader.read_exact(&mut body).expect("a body");
        let answer: Value = serde_json::from_slice(&body).expect("an answer");
        answers.push(answer.to_string().contains("\"quick\""));
    }
    assert_eq!(answers, [true, false, true, true]);
    site.stop();
}
