//! A server over HTTP/1.1 on a free port of this machine, whose responses are the bytes of a check. A connection has
//! one request.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use mcp_driver::http::seed;

use super::{
    inbox::Outbox,
    link::{Arrival, HttpReply, HttpRequest},
};
use crate::check::wire::header;

/// The last segment of the path of the server. The first one is random, so that other programs do not find it.
const PATH: &str = "/mcp";

const MAX_HEAD: usize = 64 << 10;
const MAX_BODY: usize = 16 << 20;
const MAX_CONNECTIONS: usize = 64;

/// The most bytes of requests that have not arrived as a whole.
const MAX_READING: usize = 64 << 20;

/// How long a request may take to arrive, and how long a response may be left unread.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is looked whether the client has closed a connection.
const TICK: Duration = Duration::from_millis(200);

/// A part of the output of a connection.
enum Piece {
    Head(HttpReply),
    Bytes(Vec<u8>),
    End,
}

/// The state that all connections share.
struct Shared {
    outbox: Outbox,
    exchanges: Mutex<HashMap<u64, Sender<Piece>>>,
    next: AtomicU64,
    connections: AtomicUsize,
    /// Bytes of requests that are being read.
    reading: AtomicUsize,
    is_closed: AtomicBool,
    path: String,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Sender<Piece>>> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Server {
    port: u16,
    shared: Arc<Shared>,
}

impl Server {
    pub(super) fn bind(outbox: Outbox) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            outbox,
            exchanges: Mutex::default(),
            next: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            reading: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            path: format!("/{:016x}{:016x}{PATH}", seed(), seed()),
        });
        let server = Self { port, shared: shared.clone() };
        thread::Builder::new().name("http".into()).spawn(move || accept(&listener, &shared))?;
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.shared.path)
    }

    fn send(&self, exchange: u64, piece: Piece) {
        let mut exchanges = self.shared.lock();
        let has_ended = exchanges.get(&exchange).is_none_or(|sender| sender.send(piece).is_err());
        if has_ended {
            exchanges.remove(&exchange);
        }
    }

    pub(super) fn respond(&self, exchange: u64, reply: HttpReply) {
        let is_stream = reply.body.is_none();
        self.send(exchange, Piece::Head(reply));
        if !is_stream {
            self.shared.lock().remove(&exchange);
        }
    }

    pub(super) fn stream(&self, exchange: u64, bytes: &[u8]) {
        self.send(exchange, Piece::Bytes(bytes.to_vec()));
    }

    pub(super) fn finish(&self, exchange: u64) {
        self.send(exchange, Piece::End);
        self.shared.lock().remove(&exchange);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        self.shared.lock().clear();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming() {
        if shared.is_closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(socket) = socket else { continue };
        // What is over the limit is closed at once.
        if shared.connections.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            drop(socket);
            shared.outbox.send(Arrival::Beyond("the client opens more connections at once than a check takes"));
            continue;
        }
        let shared_here = shared.clone();
        let serve = move || {
            // A client may close its connection at any time.
            let _ = serve(socket, &shared_here);
            shared_here.connections.fetch_sub(1, Ordering::SeqCst);
        };
        if thread::Builder::new().name("exchange".into()).spawn(serve).is_err() {
            return;
        }
    }
}

fn serve(mut socket: TcpStream, shared: &Shared) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut input = Input { socket: &mut socket, buffer: Vec::new(), reading: &shared.reading, taken: 0 };
    let (path, mut request) = match read_request(&mut input) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            shared.outbox.send(Arrival::Beyond("the client sends more bytes at once than a check takes"));
            return Err(error);
        }
        other => other?,
    };
    drop(input);
    // Others than the client are for example the metadata of an authorization server, and the page of a browser.
    let status = match header(&request.headers, "origin") {
        Some(origin) if !is_loopback(origin) => 403,
        _ if path != shared.path => 404,
        _ => 200,
    };
    if status != 200 {
        let reply = HttpReply { status, headers: Vec::new(), body: Some(Vec::new()) };
        return write_head(&mut socket, &reply).map(|_| ());
    }
    request.exchange = shared.next.fetch_add(1, Ordering::SeqCst);
    let exchange = request.exchange;
    let (sender, receiver) = mpsc::channel();
    shared.lock().insert(exchange, sender);
    let outcome = if shared.outbox.send(Arrival::Request(request)) && !shared.is_closed.load(Ordering::SeqCst) {
        write_pieces(&mut socket, &receiver)
    } else {
        Ok(())
    };
    shared.lock().remove(&exchange);
    outcome
}

/// Writes a response until its end, or until the client has closed the connection.
fn write_pieces(socket: &mut TcpStream, pieces: &Receiver<Piece>) -> io::Result<()> {
    let mut is_chunked = false;
    loop {
        match pieces.recv_timeout(TICK) {
            Ok(Piece::Head(reply)) => {
                is_chunked = write_head(socket, &reply)?;
                if !is_chunked {
                    return Ok(());
                }
            }
            Ok(Piece::Bytes(bytes)) if is_chunked && !bytes.is_empty() => {
                let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
                socket.write_all(&chunk)?;
            }
            Ok(Piece::Bytes(_)) => {}
            Ok(Piece::End) => return if is_chunked { socket.write_all(b"0\r\n\r\n") } else { Ok(()) },
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                socket.set_nonblocking(true)?;
                let is_closed = matches!(socket.peek(&mut [0]), Ok(0));
                socket.set_nonblocking(false)?;
                if is_closed {
                    return Ok(());
                }
            }
        }
    }
}

/// Writes the head of a response, and its body. Returns whether it is a stream.
fn write_head(socket: &mut TcpStream, reply: &HttpReply) -> io::Result<bool> {
    let reason = http::StatusCode::from_u16(reply.status).ok().and_then(|it| it.canonical_reason()).unwrap_or("");
    let mut head = format!("HTTP/1.1 {} {reason}\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match &reply.body {
        // A response of these has no body, and no length.
        Some(_) if reply.status == 204 => head.push_str("\r\n"),
        Some(body) => head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len())),
        None => head.push_str("Transfer-Encoding: chunked\r\n\r\n"),
    }
    socket.write_all(&[head.as_bytes(), reply.body.as_deref().unwrap_or_default()].concat())?;
    Ok(reply.body.is_none())
}

/// Returns whether the origin of a request is one of this machine.
fn is_loopback(origin: &str) -> bool {
    let host = origin.split_once("://").map_or("", |(_, rest)| rest);
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| {
        host.strip_prefix(name).is_some_and(|port| port.is_empty() || port.starts_with(':') && !port.contains('@'))
    })
}

/// A request that is being read. Its bytes count until it is taken or dropped.
struct Input<'a> {
    socket: &'a mut TcpStream,
    buffer: Vec<u8>,
    reading: &'a AtomicUsize,
    taken: usize,
}

impl Input<'_> {
    /// Reads more bytes, until the deadline.
    fn read_more(&mut self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        let mut piece = [0; 16 << 10];
        let len = self.socket.read(&mut piece)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.taken += len;
        if self.reading.fetch_add(len, Ordering::SeqCst) + len > MAX_READING {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.buffer.extend_from_slice(&piece[..len]);
        Ok(())
    }
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        self.reading.fetch_sub(self.taken, Ordering::SeqCst);
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Reads a request. Returns its path, too.
fn read_request(input: &mut Input<'_>) -> io::Result<(String, HttpRequest)> {
    let deadline = Instant::now() + PATIENCE;
    let mut searched = 0_usize;
    let end = loop {
        if let Some(at) = input.buffer[searched..].windows(4).position(|it| it == b"\r\n\r\n") {
            break searched + at;
        }
        searched = input.buffer.len().saturating_sub(3);
        if input.buffer.len() > MAX_HEAD {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        input.read_more(deadline)?;
    };
    let head = String::from_utf8_lossy(&input.buffer[..end]).into_owned();
    input.buffer.drain(..end + 4);
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    if header(&headers, "expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        input.socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let is_chunked =
        header(&headers, "transfer-encoding").is_some_and(|it| it.to_ascii_lowercase().contains("chunked"));
    let body = if is_chunked {
        read_chunks(input, deadline)?
    } else {
        let len = header(&headers, "content-length").and_then(|it| it.parse::<usize>().ok()).unwrap_or_default();
        if len > MAX_BODY {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        while input.buffer.len() < len {
            input.read_more(deadline)?;
        }
        input.buffer.truncate(len);
        std::mem::take(&mut input.buffer)
    };
    Ok((path, HttpRequest { exchange: 0, method, headers, body }))
}

fn read_chunks(input: &mut Input<'_>, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut body, mut at) = (Vec::new(), 0_usize);
    loop {
        let end = loop {
            if let Some(found) = input.buffer[at..].windows(2).position(|it| it == b"\r\n") {
                break at + found;
            }
            if input.buffer.len() - at > MAX_HEAD {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            input.read_more(deadline)?;
        };
        let line = String::from_utf8_lossy(&input.buffer[at..end]).into_owned();
        let digits = line.split(';').next().unwrap_or_default().trim();
        let len = usize::from_str_radix(digits, 16).map_err(|_| invalid("the size of a chunk"))?;
        at = end + 2;
        if len == 0 {
            return Ok(body);
        }
        if len > MAX_BODY || body.len() + len > MAX_BODY {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        while input.buffer.len() < at + len + 2 {
            input.read_more(deadline)?;
        }
        body.extend_from_slice(&input.buffer[at..at + len]);
        input.buffer.drain(..at + len + 2);
        at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::client::inbox::inbox;

    fn exchange(server: &Server, request: &str) -> String {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect("a connection");
        socket.write_all(request.as_bytes()).expect("it is written");
        let mut response = String::new();
        socket.read_to_string(&mut response).expect("a response");
        response
    }

    #[test]
    fn requests_are_read_and_answered() {
        let (outbox, inbox) = inbox();
        let server = Server::bind(outbox).expect("a server");
        let path = server.shared.path.clone();
        let bodies =
            ["Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n1\r\nc\r\n0\r\n\r\n"];
        for (number, body) in bodies.into_iter().enumerate() {
            let response = thread::scope(|scope| {
                let client = scope.spawn(|| exchange(&server, &format!("POST {path} HTTP/1.1\r\nA: b \r\n{body}")));
                let Some(Arrival::Request(request)) = inbox.recv(PATIENCE) else { panic!("no request") };
                assert_eq!((request.exchange, request.method.as_str()), (number as u64, "POST"));
                assert_eq!((header(&request.headers, "a"), &request.body[..]), (Some("b"), &b"abc"[..]));
                server.respond(request.exchange, HttpReply { status: 200, headers: Vec::new(), body: None });
                server.stream(request.exchange, b"data: 1\n\n");
                server.finish(request.exchange);
                client.join().expect("a response")
            });
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
            assert!(response.ends_with("\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n"), "{response}");
        }
        assert!(exchange(&server, "GET /.well-known/x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        // The path is part of what only the client knows.
        assert!(exchange(&server, "POST /mcp HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        for origin in ["https://example.com", "http://localhost.example.com", "http://localhost:1@a.com", "null"] {
            let response = exchange(&server, &format!("POST {path} HTTP/1.1\r\nOrigin: {origin}\r\n\r\n"));
            assert!(response.starts_with("HTTP/1.1 403 "), "{origin}: {response}");
        }
        for wrong in ["Content-Length: 99999999\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n"] {
            assert_eq!(exchange(&server, &format!("POST {path} HTTP/1.1\r\n{wrong}")), "");
            assert!(matches!(inbox.recv(PATIENCE), Some(Arrival::Beyond(_))));
        }
    }

    #[test]
    fn connections_and_unfinished_bodies_are_bounded() {
        let (outbox, inbox) = inbox();
        let server = Server::bind(outbox).expect("a server");
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect("a connection");
        let mut open: Vec<TcpStream> = (0..MAX_CONNECTIONS).map(|_| connect()).collect();
        let mut more = connect();
        assert!(!matches!(more.read(&mut [0]), Ok(1)), "it is closed");
        assert!(matches!(inbox.recv(PATIENCE), Some(Arrival::Beyond(_))));
        // No body arrives as a whole, and together they are too many bytes.
        let head = format!("POST {} HTTP/1.1\r\nContent-Length: {MAX_BODY}\r\n\r\n", server.shared.path);
        let piece = vec![b' '; MAX_BODY - 1];
        for socket in &mut open[..5] {
            // The one over the limit is closed while it is written.
            let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(&piece));
        }
        assert!(matches!(inbox.recv(PATIENCE), Some(Arrival::Beyond(_))));
    }
}
