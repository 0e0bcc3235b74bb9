//! Requests as bytes, and connections from an address of the loopback network.

use std::{
    io::{Error, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use rustix::net::{AddressFamily, SocketType, bind, connect as connect_to, socket};
use serde_json::{Value, json};

use crate::Outcome;

/// The time after which a response is given up.
const LONG: Duration = Duration::from_secs(120);

/// Connects from 127.0.0.`last`.
pub(crate) fn connect(last: u8, server: SocketAddr) -> Outcome<TcpStream> {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&fd, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)))?;
    connect_to(&fd, &server)?;
    let stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(LONG))?;
    stream.set_write_timeout(Some(LONG))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns a POST request with a message. `headers` are whole lines.
fn post(headers: &str, message: &Value) -> Vec<u8> {
    let body = message.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Returns a `tools/call` of 2026-07-28.
pub(crate) fn modern_call(tool: &str, arguments: &Value) -> Vec<u8> {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n");
    post(&headers, &message)
}

/// Returns the request that begins a session, with the capability `elicitation`.
pub(crate) fn initialize() -> Vec<u8> {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "attack", "version": "1"}});
    post("", &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
}

/// Returns a request of a session with a message.
pub(crate) fn in_session(session: &str, message: &Value) -> Vec<u8> {
    post(&format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n"), message)
}

/// Begins a session, and returns its id.
pub(crate) fn begin(stream: &mut TcpStream) -> Outcome<String> {
    let session = round_trip(stream, &initialize())?.session.ok_or("there is no session")?;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    round_trip(stream, &in_session(&session, &initialized))?;
    Ok(session)
}

/// A response with its head.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    pub(crate) body: String,
}

/// Reads a response whose body has a length or is chunked.
pub(crate) fn read_response(stream: &mut impl Read) -> Outcome<Response> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        read_exact(stream, &mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head)?;
    let status = head.get(9..12).ok_or("no status")?.parse()?;
    let header = |wanted: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    };
    let mut body = vec![0; header("content-length").map_or(Ok(0), str::parse)?];
    read_exact(stream, &mut body)?;
    if header("transfer-encoding").is_some() {
        loop {
            let mut size = Vec::new();
            while !size.ends_with(b"\r\n") {
                read_exact(stream, &mut byte)?;
                size.push(byte[0]);
            }
            let size = usize::from_str_radix(std::str::from_utf8(&size)?.trim(), 16)?;
            let mut chunk = vec![0; size + 2];
            read_exact(stream, &mut chunk)?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    }
    let session = header("mcp-session-id").map(str::to_owned);
    Ok(Response { status, session, body: String::from_utf8(body)? })
}

fn read_exact(stream: &mut impl Read, bytes: &mut [u8]) -> Outcome<()> {
    stream.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => "no response in 120 seconds".into(),
        _ => error.into(),
    })
}

/// Sends a request and reads the response.
pub(crate) fn round_trip(stream: &mut TcpStream, request: &[u8]) -> Outcome<Response> {
    stream.write_all(request)?;
    read_response(stream)
}

/// A connection to which a request is written as far as the server reads it.
pub(crate) struct Pending {
    stream: TcpStream,
    request: Vec<u8>,
    written: usize,
}

impl Pending {
    pub(crate) fn new(stream: TcpStream, request: Vec<u8>) -> Outcome<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, request, written: 0 })
    }

    /// Returns whether the whole request was written.
    pub(crate) fn is_written(&self) -> bool {
        self.written == self.request.len()
    }

    /// Writes as much as the socket takes. Returns whether bytes were written.
    pub(crate) fn write(&mut self) -> Result<bool, Error> {
        match self.stream.write(&self.request[self.written..]) {
            Ok(count) => {
                self.written += count;
                Ok(count > 0)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}
