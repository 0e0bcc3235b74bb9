//! A client over HTTP that sends many requests before it reads: requests wait instead of being refused.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use mcp_proto::connection::Settings;
use mcp_service::{Service, Tool};
use serde_json::{Value, json};

use crate::{
    LONG,
    adapter::{Adapter, Listener},
    flood::SCALE,
    minimal_peer::Gate,
    scenario::scenarios,
};

scenarios![slow_reader_receives_every_response, large_pending_calls_are_not_refused,];

/// How long a write may block until the test assumes that the server does not read. If that is too short, the test is
/// less strict.
const STUCK: Duration = Duration::from_millis(100);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Pad {
    pad: String,
}

/// Serves a tool that returns its argument, and one that returns when the gate is open, until `f` returns.
fn serving<A: Adapter>(gate: &Gate, f: impl FnOnce(SocketAddr)) {
    let (listener, gate) = (A::listen_http(), gate.clone());
    let mut settings = Settings::default();
    settings.limits.frame_bytes /= SCALE;
    settings.limits.requests /= SCALE;
    settings.limits.request_bytes /= SCALE;
    settings.limits.outbox_bytes /= SCALE;
    let service = Service::builder("flood", "1")
        .settings(settings)
        .tool(Tool::new_async("echo", async |pad: Pad| pad.pad))
        .tool(Tool::new("wait", move |pad: Pad| {
            gate.pass();
            pad.pad.len().to_string()
        }))
        .build()
        .expect("all names differ");
    let (address, stop) = (listener.address().expect("it is TCP"), listener.stop_handle());
    let served = thread::spawn(move || listener.serve(&service).is_ok());
    f(address);
    stop();
    assert!(served.join().expect("no panic"), "it was told to stop");
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("not zero");
    stream.set_write_timeout(Some(LONG)).expect("not zero");
    stream
}

fn post(session: &str, message: &Value) -> Vec<u8> {
    let body = message.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{session}\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends a message over a new connection. Returns the bytes of the response.
fn round_trip(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    stream.write_all(request).expect("it is read");
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("it ends in good order");
    String::from_utf8_lossy(&received).into_owned()
}

/// Begins a session. Returns the header with its id.
fn begin(address: SocketAddr) -> String {
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "flood", "version": "1"}}});
    let received = round_trip(address, &post("connection: close\r\n", &initialize));
    let id = received.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
    let session = format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-11-25\r\n");
    let ready = round_trip(
        address,
        &post(
            &format!("connection: close\r\n{session}"),
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ),
    );
    assert!(ready.starts_with("HTTP/1.1 202 "), "{ready}");
    session
}

fn call(session: &str, (id, tool): (usize, &str), padding: usize) -> Vec<u8> {
    let params = json!({"name": tool, "arguments": {"pad": "x".repeat(padding)}});
    post(session, &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
}

/// Writes until a write blocks for a while. Returns the bytes that were not written.
fn write_until_stuck<'a>(stream: &mut TcpStream, mut bytes: &'a [u8]) -> &'a [u8] {
    stream.set_write_timeout(Some(STUCK)).expect("not zero");
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => panic!("a call cannot be written: {error}"),
        }
    }
    stream.set_write_timeout(Some(LONG)).expect("not zero");
    bytes
}

/// Counts the results in the bytes that were read, none of which may be an error.
fn results(received: &[u8]) -> usize {
    let text = String::from_utf8_lossy(received);
    let refused = text.matches("HTTP/1.1 503 ").count() + text.matches(r#""error":{"#).count();
    assert_eq!(refused, 0, "{}", &text[text.len().saturating_sub(400)..]);
    text.matches(r#""result":{"#).count()
}

/// One session, several connections with pipelined requests. The client reads nothing until all connections are full.
fn slow_reader_receives_every_response<A: Adapter>() {
    const CONNECTIONS: usize = 8;
    const CALLS: usize = 40_000 / SCALE / CONNECTIONS;
    serving::<A>(&Gate::default(), |address| {
        let session = begin(address);
        let calls: Vec<Vec<u8>> = (0..CONNECTIONS)
            .map(|connection| {
                let ids = (0..CALLS).map(|call| 1 + connection * CALLS + call);
                ids.flat_map(|id| call(&session, (id, "echo"), 4096)).collect()
            })
            .collect();
        let mut streams: Vec<_> = calls.iter().map(|_| connect(address)).collect();
        let rests: Vec<_> =
            streams.iter_mut().zip(&calls).map(|(stream, calls)| write_until_stuck(stream, calls)).collect();
        let answered: usize = thread::scope(|scope| {
            let reading: Vec<_> = streams
                .iter()
                .zip(rests)
                .map(|(stream, rest)| {
                    let (mut reader, mut writer) = (stream, stream);
                    scope.spawn(move || {
                        writer.write_all(rest).expect("it is read, since the answers are");
                    });
                    scope.spawn(move || {
                        let mut received = Vec::new();
                        let mut chunk = vec![0; 64 << 10];
                        while results(&received) < CALLS {
                            let read = reader.read(&mut chunk).expect("an answer comes in time");
                            assert!(read > 0, "it ends after {} answers", results(&received));
                            received.extend_from_slice(&chunk[..read]);
                        }
                        results(&received)
                    })
                })
                .collect();
            reading.into_iter().map(|reading| reading.join().expect("no panic")).sum()
        });
        assert_eq!(answered, CALLS * CONNECTIONS);
    });
}

/// Together they exceed the limit of request bytes of a session. No handler returns before all of them were written.
fn large_pending_calls_are_not_refused<A: Adapter>() {
    const CALLS: usize = 64;
    let gate = Gate::default();
    serving::<A>(&gate, |address| {
        let session = begin(address);
        let mut streams: Vec<_> = (0..CALLS).map(|_| connect(address)).collect();
        for (index, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&call(&session, (index + 1, "wait"), (1 << 20) / SCALE)).expect("it is read");
        }
        gate.open();
        let answered: usize = streams
            .iter_mut()
            .map(|stream| {
                let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
                while results(&received) == 0 {
                    let read = stream.read(&mut chunk).expect("an answer comes in time");
                    assert!(read > 0, "it ends without an answer: {}", String::from_utf8_lossy(&received));
                    received.extend_from_slice(&chunk[..read]);
                }
                1
            })
            .sum();
        assert_eq!(answered, CALLS);
    });
}
