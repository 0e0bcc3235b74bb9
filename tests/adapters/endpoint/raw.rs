//! Requests as bytes, and what comes back.

use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    thread,
};

use serde_json::{Value, json};

use crate::LONG;

/// A request that is fine, to be changed into one that is not.
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

    /// A message, to this path.
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

    /// A request of 2026-07-28, with the headers that belong to it.
    pub(crate) fn modern(method: &str, mut params: Value) -> Self {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let name = params["name"].as_str().map(str::to_owned);
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let request = Self::post("/mcp", &message).set("mcp-protocol-version", "2026-07-28").set("mcp-method", method);
        name.into_iter().fold(request, |request, name| request.set("mcp-name", &name))
    }

    /// A call of a tool one of whose arguments is repeated in a header.
    pub(crate) fn pick() -> Self {
        Self::modern("tools/call", json!({"name": "pick", "arguments": {"row": 12}})).set("mcp-param-row", "12")
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// One more header, behind all others.
    pub(crate) fn add(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The header with this name, once.
    pub(crate) fn set(self, name: &str, value: &str) -> Self {
        self.without(name).add(name, value)
    }

    pub(crate) fn line(self, line: &str) -> Self {
        Self { line: line.to_owned(), ..self }
    }

    /// The same with another body, about whose length nothing is said.
    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self.without("content-length") }
    }

    /// What goes over the wire.
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

/// What has come back until the end of a connection.
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Heard {
    fn new(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
        Self { status: status.unwrap_or(0), text }
    }

    /// How many answers there are.
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

/// Everything up to the end of a connection, which is no reset.
pub(crate) fn hear(mut stream: &TcpStream) -> Heard {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it ends, in time, and is not reset");
    Heard::new(&bytes)
}

/// What comes back up to the end of the head, on a connection that stays.
pub(crate) fn hear_head(mut stream: &TcpStream) -> Heard {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("the head comes, in time");
        bytes.push(byte[0]);
    }
    Heard::new(&bytes)
}

/// Sends bytes over a connection of their own, and hears what comes of them.
pub(crate) fn say(address: SocketAddr, bytes: &[u8]) -> Heard {
    let mut stream = connect(address);
    stream.write_all(bytes).expect("it is read");
    hear(&stream)
}

/// Sends a head, and behind it as much as this, whether anybody wants it or not; only then it listens.
pub(crate) fn pour(address: SocketAddr, head: &[u8], chunk: &'static [u8], times: usize) -> Heard {
    let stream = connect(address);
    let head = head.to_vec();
    let mut mouth = stream.try_clone().expect("there are descriptors");
    let pouring = thread::spawn(move || {
        mouth.write_all(&head).expect("it is read");
        for _ in 0..times {
            mouth.write_all(chunk).expect("it is read, to be thrown away");
        }
        let _ = mouth.shutdown(Shutdown::Write);
    });
    pouring.join().expect("it could be said");
    hear(&stream)
}
