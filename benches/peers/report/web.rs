//! A server over HTTP with hand-written requests: connections are kept alive, and requests are formatted before the
//! clock runs.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

use mcp_benches::TEXT;
use memchr::memmem;

use crate::stdio::{memory, stay};

/// Calls per second. Server and client share one processor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// Over one connection.
    pub(crate) one: f64,
    /// Over 32 connections.
    pub(crate) many: f64,
    /// The memory of a session with one call, in bytes, if the server has sessions.
    pub(crate) session: Option<f64>,
}

/// The form of a response, and what a client has to do for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    /// A stream, if the client calls a tool that reports progress.
    Stream,
    /// A stream for each call.
    AlwaysStream,
}

/// Whether requests have the headers of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// They have none.
    None,
    /// They have those of a session that does not exist. The server, which is a limit, ignores them.
    Ignored,
    /// They have those of a session that the server has begun.
    Used,
}

/// A session id of the length of those of this project.
const IGNORED: &str = "0123456789abcdef0123456789abcdef";

const CONNECTIONS: usize = 32;
const CALLS: usize = 64 * CONNECTIONS;
const ROUNDS: usize = 8;
/// How many sessions are begun to measure their memory, after a tenth of them.
const SESSIONS: u16 = 1_000;

struct Connection {
    stream: TcpStream,
    /// The bytes that were read and not parsed yet.
    bytes: Vec<u8>,
}

/// The head and the body of a response.
struct Answer {
    head: String,
    body: Vec<u8>,
}

impl Connection {
    fn new(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: Vec::new() })
    }

    /// Reads until there are `bytes` bytes after `from`, or until `wanted` is found. Returns the position.
    fn until(&mut self, from: usize, wanted: &[u8], bytes: usize) -> io::Result<usize> {
        let mut chunk = [0; 16 << 10];
        loop {
            if !wanted.is_empty()
                && let Some(at) = memmem::find(&self.bytes[from..], wanted)
            {
                return Ok(from + at);
            }
            if wanted.is_empty() && self.bytes.len() >= from + bytes {
                return Ok(from + bytes);
            }
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.bytes.extend_from_slice(&chunk[..length]),
            }
        }
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let body = self.until(0, b"\r\n\r\n", 0)? + 4;
        let head = String::from_utf8_lossy(&self.bytes[..body]).into_owned();
        let end = match header(&head, "content-length").and_then(|length| length.parse().ok()) {
            Some(length) => self.until(body, b"", length)?,
            None if header(&head, "transfer-encoding") == Some("chunked") => self.until(body, b"\r\n0\r\n\r\n", 0)? + 7,
            None => body,
        };
        let answer = Answer { head, body: self.bytes[body..end].to_vec() };
        self.bytes.drain(..end);
        Ok(answer)
    }

    fn send_request(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.stream.write_all(request)?;
        self.answer()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| Some(line.split_once(':').filter(|(it, _)| it.eq_ignore_ascii_case(name))?.1.trim()))
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

/// A call, with a progress token if the response is a stream.
fn call(session: Option<&str>, form: Form, id: usize) -> Vec<u8> {
    let (tool, meta) = match form {
        Form::Json | Form::AlwaysStream => ("echo", String::new()),
        Form::Stream => ("stream", format!("\"_meta\":{{\"progressToken\":{id}}},")),
    };
    let params = format!("{{{meta}\"name\":\"{tool}\",\"arguments\":{{\"message\":\"{TEXT}\"}}}}");
    post(session, &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}"))
}

/// Makes this many calls over these connections, one at a time on each. Returns calls per second.
#[expect(clippy::cast_precision_loss, reason = "they are not that many")]
fn rate(
    connections: &mut [Connection],
    session: Option<&str>,
    form: Form,
    calls: usize,
    next: &mut usize,
) -> io::Result<f64> {
    let requests: Vec<_> = (0..calls).map(|number| call(session, form, *next + number)).collect();
    *next += calls;
    let mut answers = Vec::with_capacity(calls);
    let begin = Instant::now();
    for requests in requests.chunks(connections.len()) {
        for (connection, request) in connections.iter_mut().zip(requests) {
            connection.stream.write_all(request)?;
        }
        for connection in connections.iter_mut() {
            answers.push(connection.answer()?);
        }
    }
    let taken = begin.elapsed();
    let right = answers.iter().filter(|answer| {
        let streams = header(&answer.head, "content-type") == Some("text/event-stream");
        (session.is_none() || streams == (form != Form::Json)) && memmem::find(&answer.body, TEXT.as_bytes()).is_some()
    });
    let right = right.count();
    if right == calls {
        Ok(calls as f64 / taken.as_secs_f64())
    } else {
        let first = answers.first().map(|answer| format!("{}{}", answer.head, String::from_utf8_lossy(&answer.body)));
        Err(io::Error::other(format!("{right} of {calls} answers are right: {}", first.unwrap_or_default())))
    }
}

/// A server with its clients.
pub(crate) struct Server {
    child: Child,
    connections: Vec<Connection>,
    sessions: Sessions,
    session: Option<String>,
    form: Form,
    next: usize,
}

impl Server {
    /// Starts a server that prints its address on standard output, and connects to it. It runs on the processor of its
    /// client.
    pub(crate) fn start(mut command: Command, form: Form, sessions: Sessions) -> io::Result<Self> {
        let starting = move || {
            stay();
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
        };
        let child = thread::spawn(starting).join().unwrap_or_else(|_| Err(io::Error::other("a panic")))?;
        let mut server = Self { child, connections: Vec::new(), sessions, session: None, form, next: 1 };
        let mut address = String::new();
        if let Some(output) = server.child.stdout.take() {
            BufReader::new(output).read_line(&mut address)?;
        }
        let address = address.trim().parse().map_err(io::Error::other)?;
        server.connections = (0..CONNECTIONS).map(|_| Connection::new(address)).collect::<io::Result<_>>()?;
        server.session = match sessions {
            Sessions::None => None,
            Sessions::Ignored => Some(IGNORED.to_owned()),
            Sessions::Used => Some(server.begin_session(0)?),
        };
        Ok(server)
    }

    /// Begins a session over one of its connections. Returns the id.
    fn begin_session(&mut self, connection: usize) -> io::Result<String> {
        let connection = &mut self.connections[connection];
        let answer = connection.send_request(&post(None, crate::stdio::INITIALIZE))?;
        let id = header(&answer.head, "mcp-session-id").map(str::to_owned);
        let id = id.ok_or_else(|| io::Error::other(format!("no session: {}", answer.head)))?;
        connection.send_request(&post(Some(&id), crate::stdio::INITIALIZED))?;
        Ok(id)
    }

    /// Begins many sessions with one call each. Returns the memory of one, in bytes.
    fn memory_per_session(&mut self) -> io::Result<f64> {
        let mut begin = |count: u16| {
            for number in 0..count {
                let connection = usize::from(number) % CONNECTIONS;
                let id = self.begin_session(connection)?;
                rate(&mut self.connections[connection..=connection], Some(&id), self.form, 1, &mut self.next)?;
            }
            Ok::<_, io::Error>(memory(&self.child, "VmRSS:"))
        };
        let before = begin(SESSIONS / 10)?;
        Ok((begin(SESSIONS)? - before) * f64::from(1 << 20) / f64::from(SESSIONS))
    }

    /// Returns calls per second over this many of its connections.
    fn rate(&mut self, connections: usize) -> io::Result<f64> {
        let session = self.session.as_deref();
        rate(&mut self.connections[..connections], session, self.form, CALLS, &mut self.next)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures several servers in turns: each is timed once in each round, and its best round counts.
pub(crate) fn measure(servers: Vec<(String, Server)>) -> io::Result<BTreeMap<String, Rates>> {
    let timed = move || {
        stay();
        let mut servers: Vec<_> = servers.into_iter().map(|it| (it, Rates::default())).collect();
        for _ in 0..ROUNDS {
            for ((_, server), rates) in &mut servers {
                rates.one = rates.one.max(server.rate(1)?);
                rates.many = rates.many.max(server.rate(CONNECTIONS)?);
            }
        }
        for ((_, server), rates) in &mut servers {
            if server.sessions == Sessions::Used {
                rates.session = Some(server.memory_per_session()?);
            }
        }
        Ok(servers.into_iter().map(|((name, _), rates)| (name, rates)).collect())
    };
    thread::spawn(timed).join().unwrap_or_else(|_| Err(io::Error::other("a panic")))
}
