//! The clients: threads with connections, and hand-written requests.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use crate::Outcome;

const CLIENTS: usize = 8;
const CONNECTIONS: usize = 32;
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(1500);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cores","version":"1.0.0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const MESSAGE: &str = "thirty-two bytes of plain text..";

/// How connections use sessions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// The server has none.
    None,
    /// One for each connection.
    Each,
    /// One for each client.
    Client,
    /// One for all.
    One,
}

impl Sessions {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Each => "each",
            Self::Client => "client",
            Self::One => "one",
        }
    }

    pub(crate) fn parse(name: &str) -> Outcome<Self> {
        let all = [Self::None, Self::Each, Self::Client, Self::One];
        all.into_iter().find(|it| it.name() == name).ok_or_else(|| format!("no such use: {name}").into())
    }
}

/// A connection, and the bytes that were read from it.
struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
    request: Vec<u8>,
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|it| it == wanted)
}

/// Returns the value of a header, whose name is in lower case with a colon after it.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n")
        .find(|line| line.get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name)))
        .map(|line| line[name.len()..].trim())
}

impl Connection {
    fn new(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: Vec::new(), request: Vec::new() })
    }

    /// Reads a response, and returns where its body begins and ends in `bytes`. A body in chunks has their sizes in it.
    fn read(&mut self) -> Outcome<(usize, usize)> {
        const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";
        self.bytes.clear();
        let mut chunk = [0; 4 << 10];
        // Where the body begins, and its length, unless it has chunks.
        let mut head = None;
        // Where the end of the chunks may begin.
        let mut unread = 0;
        loop {
            if head.is_none()
                && let Some(at) = find(&self.bytes, b"\r\n\r\n")
            {
                let fields = str::from_utf8(&self.bytes[..at])?;
                let has_chunks = header(fields, "transfer-encoding:").is_some_and(|it| it == "chunked");
                let length = header(fields, "content-length:").map_or(Ok(0), str::parse::<usize>)?;
                head = Some((at + 4, (!has_chunks).then_some(length)));
            }
            let end = head.and_then(|(body, length)| match length {
                Some(length) => Some(body + length),
                None => {
                    let from = unread.max(body - 2);
                    unread = self.bytes.len().saturating_sub(LAST_CHUNK.len() - 1);
                    find(&self.bytes[from..], LAST_CHUNK).map(|at| from + at + LAST_CHUNK.len())
                }
            });
            match (head, end) {
                (Some((body, _)), Some(end)) if self.bytes.len() >= end => return Ok((body, end)),
                _ => {}
            }
            match self.stream.read(&mut chunk)? {
                0 => return Err("the server has closed a connection".into()),
                read => self.bytes.extend_from_slice(&chunk[..read]),
            }
        }
    }

    /// Reads a response, and compares it with the message.
    fn check(&mut self) -> Outcome<()> {
        let (body, end) = self.read()?;
        match find(&self.bytes[body..end], MESSAGE.as_bytes()) {
            Some(_) => Ok(()),
            None => Err(format!("a wrong response: {}", String::from_utf8_lossy(&self.bytes)).into()),
        }
    }

    /// Begins a session, and returns its id.
    fn begin(&mut self) -> Outcome<String> {
        self.stream.write_all(&post(None, INITIALIZE))?;
        let (body, _) = self.read()?;
        let head = str::from_utf8(&self.bytes[..body])?;
        let id = header(head, "mcp-session-id:").ok_or("no session")?.to_owned();
        self.stream.write_all(&post(Some(&id), INITIALIZED))?;
        self.read()?;
        Ok(id)
    }
}

fn post(session: Option<&str>, body: &str) -> Vec<u8> {
    let session = session.map(|id| format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-06-18\r\n"));
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{}content-length: {}\r\n\r\n{body}",
        session.unwrap_or_default(),
        body.len()
    )
    .into_bytes()
}

/// Opens the connections of all clients, with their sessions.
fn open(address: SocketAddr, sessions: Sessions) -> Outcome<Vec<Vec<Connection>>> {
    let mut clients = Vec::new();
    let mut id = None;
    for client in 0..CLIENTS {
        let mut connections = Vec::new();
        for number in 0..CONNECTIONS {
            let mut connection = Connection::new(address)?;
            let begins = match sessions {
                Sessions::None => false,
                Sessions::Each => true,
                Sessions::Client => number == 0,
                Sessions::One => number == 0 && client == 0,
            };
            if begins {
                id = Some(connection.begin()?);
            }
            let call = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/call\",\"params\":\
                 {{\"name\":\"echo\",\"arguments\":{{\"message\":\"{MESSAGE}\"}}}}}}",
                1 + client * CONNECTIONS + number
            );
            connection.request = post(id.as_deref(), &call);
            connections.push(connection);
        }
        clients.push(connections);
    }
    Ok(clients)
}

/// Makes calls over these connections until `end`. Returns how many responses arrived after `begin`.
fn call(connections: &mut [Connection], begin: Instant, end: Instant) -> Outcome<usize> {
    let mut calls = 0;
    loop {
        for connection in &mut *connections {
            connection.stream.write_all(&connection.request)?;
        }
        for connection in &mut *connections {
            connection.check()?;
        }
        let now = Instant::now();
        if now >= end {
            return Ok(calls);
        }
        if now >= begin {
            calls += connections.len();
        }
    }
}

/// Runs all clients, and returns the number of calls per second.
pub(crate) fn run(address: SocketAddr, sessions: Sessions) -> Outcome<f64> {
    let ready = Arc::new(Barrier::new(CLIENTS));
    let threads: Vec<_> = open(address, sessions)?
        .into_iter()
        .map(|mut connections| {
            let ready = ready.clone();
            thread::spawn(move || {
                ready.wait();
                let begin = Instant::now() + WARM_UP;
                call(&mut connections, begin, begin + MEASURED)
            })
        })
        .collect();
    let mut calls = 0;
    for thread in threads {
        calls += thread.join().map_err(|_| "a client has panicked")??;
    }
    Ok(calls as f64 / MEASURED.as_secs_f64())
}
