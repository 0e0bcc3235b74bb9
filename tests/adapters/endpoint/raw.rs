//! Requests as bytes, and responses.

use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    thread,
};

use serde_json::{Value, json};

use crate::LONG;

/// A valid request, from which tests create invalid ones.
#[derive(Clone)]
pub(crate) struct Raw {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Raw {
    pub(crate) fn new(line: &str) -> Self {
        let headers =
            [("host", "localhost"), ("connection", "close"), ("accept", "application/json, text/event-stream")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { line: line.to_owned(), headers, body: Vec::new() }
    }

    /// A POST request with a message.
    pub(crate) fn post(path: &str, message: &Value) -> Self {
        let body = message.to_string().into_bytes();
        let length = body.len().to_string();
        let request = Self::new(&format!("POST {path} HTTP/1.1")).set("content-type", "application/json");
        Self { body, ..request }.set("content-length", &length)
    }

    /// The first message of a session.
    pub(crate) fn initialize() -> Self {
        Self::post(
            "/mcp",
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}}),
        )
    }

    /// A request of 2026-07-28, with its headers.
    pub(crate) fn modern(method: &str, mut params: Value) -> Self {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let name = params["name"].as_str().map(str::to_owned);
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let request = Self::post("/mcp", &message).set("mcp-protocol-version", "2026-07-28").set("mcp-method", method);
        name.into_iter().fold(request, |request, name| request.set("mcp-name", &name))
    }

    /// A call of a tool, one of whose arguments is repeated in a header.
    pub(crate) fn pick() -> Self {
        Self::modern("tools/call", json!({"name": "pick", "arguments": {"row": 12}})).set("mcp-param-row", "12")
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// Adds a header after all others.
    pub(crate) fn add(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the only header of this name.
    pub(crate) fn set(self, name: &str, value: &str) -> Self {
        self.without(name).add(name, value)
    }

    pub(crate) fn line(self, line: &str) -> Self {
        Self { line: line.to_owned(), ..self }
    }

    /// Replaces the body, without a length.
    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self.without("content-length") }
    }

    /// Returns the bytes of the request.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            write!(text, "{name}: {value}\r\n").expect("it is memory");
        }
        let mut bytes = (text + "\r\n").into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// The bytes that were received until the end of a connection.
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Received {
    fn new(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
        Self { status: status.unwrap_or(0), text }
    }

    /// Returns the number of responses.
    pub(crate) fn answers(&self) -> usize {
        self.text.matches("HTTP/1.").count()
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.text.to_ascii_lowercase().contains(text)
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a time that is not zero");
    stream.set_write_timeout(Some(LONG)).expect("a time that is not zero");
    stream
}

/// Reads to the end of a connection, which must not be reset.
pub(crate) fn read_response(mut stream: &TcpStream) -> Received {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it ends, in time, and is not reset");
    Received::new(&bytes)
}

/// Reads to the end of the head, on a connection that is kept alive.
pub(crate) fn read_head(mut stream: &TcpStream) -> Received {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("the head comes, in time");
        bytes.push(byte[0]);
    }
    Received::new(&bytes)
}

/// Sends bytes over a new connection. Returns the response.
pub(crate) fn round_trip(address: SocketAddr, bytes: &[u8]) -> Received {
    let mut stream = connect(address);
    stream.write_all(bytes).expect("it is read");
    read_response(&stream)
}

/// Sends a head and this many chunks, even if the server does not need them. Reads the response only then.
pub(crate) fn write_until_closed(address: SocketAddr, head: &[u8], chunk: &'static [u8], times: usize) -> Received {
    let stream = connect(address);
    let head = head.to_vec();
    let mut writer = stream.try_clone().expect("there are descriptors");
    let pouring = thread::spawn(move || {
        writer.write_all(&head).expect("it is read");
        for _ in 0..times {
            writer.write_all(chunk).expect("it is read, to be thrown away");
        }
        let _ = writer.shutdown(Shutdown::Write);
    });
    pouring.join().expect("it could be said");
    read_response(&stream)
}
