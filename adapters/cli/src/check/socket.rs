//! A server over HTTP/1.1: one connection for each request, whose bytes are written as they are given.

use std::{
    io::{self, Read as _, Write},
    net::{TcpStream, ToSocketAddrs},
    sync::Arc,
    time::{Duration, Instant},
};

use http::Uri;
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use rustls_platform_verifier::ConfigVerifierExt;

use super::{
    secrets::{Secrets, is_secret},
    wire::{Body, NoCredentials, Read, Request, Response, Site, header},
};
use crate::{address, error::Failed, sign_in::SignIn};

/// The longest head of a response.
const MAX_HEAD: usize = 64 << 10;

/// The longest body of a response that is read.
const MAX_BODY: usize = 16 << 20;

/// The longest line with the size of a chunk.
const MAX_CHUNK_LINE: usize = 4 << 10;

/// How long the deletion of a session is waited for.
const DELETE: Duration = Duration::from_secs(2);

/// The header with the id of a session.
const SESSION: &str = "Mcp-Session-Id";

/// The address of a server, with the headers that each request has.
pub(super) struct Address {
    host: String,
    port: u16,
    authority: String,
    path: String,
    headers: Vec<(String, String)>,
    tls: Option<Arc<ClientConfig>>,
    /// The tokens that are sent with each request.
    sign_in: Option<SignIn>,
    /// The first request without a session that the server has accepted. It shows later whether credentials are valid.
    accepted: Option<Request>,
    secrets: Secrets,
}

impl Address {
    pub(super) fn new(url: &str, headers: Vec<(String, String)>) -> Result<Self, Failed> {
        // The address is not repeated: it may have secrets.
        let wrong = || Failed::usage("the target is not the address of an HTTP server");
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        if host.is_empty() || !address::is_url(url) {
            return Err(wrong());
        }
        address::check_port(url)?;
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let config = || ClientConfig::with_platform_verifier().map_err(|error| Failed::connection(&error));
        let tls = if is_tls { Some(Arc::new(config()?)) } else { None };
        let bare = authority.as_str().rsplit_once('@').map_or(authority.as_str(), |(_, host)| host);
        let mut secrets = Secrets::default();
        headers.iter().for_each(|(name, value)| secrets.add(name, value));
        secrets.add_query(uri.query().unwrap_or_default());
        Ok(Self { host, port, authority: bare.to_owned(), path, headers, tls, sign_in: None, accepted: None, secrets })
    }

    /// Sends stored tokens with each request.
    pub(super) fn signed_in(mut self, sign_in: Option<SignIn>) -> Self {
        self.sign_in = sign_in;
        self
    }

    /// Returns the host and the path, without a query: it may be a secret.
    pub(super) fn name(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        format!("{}{path}", self.authority)
    }

    fn connect(&self, deadline: Instant) -> io::Result<Stream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, left(deadline)?) {
                Ok(socket) => {
                    socket.set_nodelay(true)?;
                    let socket = Timed { socket, deadline };
                    let Some(config) = &self.tls else { return Ok(Stream::Plain(socket)) };
                    let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                    let connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                    return Ok(Stream::Tls(Box::new(StreamOwned::new(connection, socket))));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Returns the bytes of a request.
    fn encode(&self, request: &Request, authorization: Option<&str>) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", request.method, self.path);
        let mut line = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        if header(&request.headers, "host").is_none() {
            line("Host", &self.authority);
        }
        for (name, value) in self.headers.iter().chain(&request.headers) {
            line(name, value);
        }
        if let Some(value) = authorization {
            line("Authorization", value);
        }
        if request.method == "POST" {
            line("Content-Length", &request.body.len().to_string());
        }
        line("Connection", "close");
        head.push_str("\r\n");
        [head.as_bytes(), &request.body].concat()
    }

    /// Returns the value of the header `Authorization`, if there are stored tokens.
    fn authorization(&mut self, timeout: Duration) -> io::Result<Option<String>> {
        let Some(sign_in) = &mut self.sign_in else { return Ok(None) };
        let authorization =
            sign_in.authorization(timeout).map_err(|error| io::Error::other(NoCredentials::Refresh(error)))?;
        if let Some(value) = &authorization {
            self.secrets.add("Authorization", value);
        }
        Ok(authorization)
    }

    /// Returns whether the server refuses these credentials also for a request that it has accepted before: it may
    /// answer one request with 401 for other reasons.
    fn are_refused(&self, authorization: Option<&str>, timeout: Duration) -> bool {
        let has_credentials = self.sign_in.is_some() || self.headers.iter().any(|(name, _)| is_secret(name));
        let Some(request) = self.accepted.as_ref().filter(|_| has_credentials) else { return false };
        let Ok(response) = self.exchange_once(request, authorization, timeout) else { return false };
        if let Some(id) = response.header(SESSION) {
            let mut request = Request { method: "DELETE", ..Request::default() };
            request.set(SESSION, Some(id));
            // The server may not support it.
            let _ = self.exchange_once(&request, authorization, timeout.min(DELETE));
        }
        response.status == 401
    }

    fn exchange_once(&self, request: &Request, authorization: Option<&str>, timeout: Duration) -> io::Result<Response> {
        let deadline = Instant::now() + timeout;
        let mut stream = self.connect(deadline)?;
        // A server may respond before it has read everything, and close: the response counts.
        let written = stream.write_all(&self.encode(request, authorization));
        let (mut buffer, mut searched) = (Vec::<u8>::new(), 0);
        let end = loop {
            let found = buffer[searched..].windows(4).position(|it| it == b"\r\n\r\n");
            if let Some(at) = found.map(|at| at + searched) {
                if buffer.starts_with(b"HTTP/1.1 1") {
                    buffer.drain(..at + 4);
                    searched = 0;
                    continue;
                }
                break at;
            }
            searched = buffer.len().saturating_sub(3);
            if buffer.len() > MAX_HEAD {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the head of the response is too long"));
            }
            match stream.read_some(deadline)? {
                Read::Bytes(bytes) => buffer.extend_from_slice(&bytes),
                Read::Silence => return Err(io::Error::new(io::ErrorKind::TimedOut, "no response in time")),
                Read::End | Read::Cut => {
                    written?;
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
                }
            }
        };
        let rest = buffer.split_off(end + 4);
        let (status, headers) = parse_head(&String::from_utf8_lossy(&buffer))?;
        let field = |name| header(&headers, name);
        let coding = match field("transfer-encoding") {
            Some(coding) if coding.to_ascii_lowercase().contains("chunked") => Coding::Chunked,
            _ => match field("content-length").and_then(|length| length.trim().parse().ok()) {
                Some(length) => Coding::Length(length),
                None if status == 204 || status == 304 => Coding::Length(0),
                None => Coding::UntilEnd,
            },
        };
        Ok(Response {
            status,
            headers,
            body: Box::new(Incoming { stream, decoder: Decoder { rest, coding }, read: 0 }),
        })
    }
}

impl Site for Address {
    fn exchange(&mut self, request: &Request, timeout: Duration) -> io::Result<Response> {
        // Each of these steps has the whole time, so that a slow authorization server is no fault of the server.
        let mut authorization = self.authorization(timeout)?;
        let mut response = self.exchange_once(request, authorization.as_deref(), timeout)?;
        let renew = |sign_in: &mut SignIn| sign_in.renew(authorization.as_deref(), timeout);
        if response.status == 401 && self.sign_in.as_mut().is_some_and(renew) {
            authorization = self.authorization(timeout)?;
            response = self.exchange_once(request, authorization.as_deref(), timeout)?;
        }
        if response.status == 401 && self.are_refused(authorization.as_deref(), timeout) {
            // They have expired or were revoked since, which says nothing about the server.
            return Err(io::Error::other(NoCredentials::Refused));
        }
        let is_accepted = (200..300).contains(&response.status);
        if is_accepted && self.accepted.is_none() && header(&request.headers, SESSION).is_none() {
            self.accepted = Some(request.clone());
        }
        Ok(response)
    }

    fn secrets(&self) -> Secrets {
        self.secrets.clone()
    }

    fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

fn parse_head(head: &str) -> io::Result<(u16, Vec<(String, String)>)> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the response is not HTTP/1.1");
    let mut lines = head.split("\r\n");
    let status = lines.next().filter(|line| line.starts_with("HTTP/1.")).and_then(|line| line.split(' ').nth(1));
    let status = status.and_then(|status| status.parse().ok()).ok_or_else(wrong)?;
    let pair = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    Ok((status, lines.filter_map(pair).collect()))
}

/// Returns the time until a deadline.
fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    }
}

/// A socket with a deadline for each of its calls. TLS reads a socket many times for one piece of data, and also while
/// it writes.
struct Timed {
    socket: TcpStream,
    deadline: Instant,
}

impl io::Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(left(self.deadline)?))?;
        self.socket.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(left(self.deadline)?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

impl Stream {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    fn read_some(&mut self, deadline: Instant) -> io::Result<Read> {
        let mut chunk = vec![0; 16 * 1024];
        let read = match self {
            Self::Plain(socket) => {
                socket.deadline = deadline;
                socket.read(&mut chunk)
            }
            Self::Tls(stream) => {
                stream.sock.deadline = deadline;
                stream.read(&mut chunk)
            }
        };
        match read {
            Ok(0) => Ok(Read::End),
            Ok(len) => {
                chunk.truncate(len);
                Ok(Read::Bytes(chunk))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(Read::Silence)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Read::Bytes(Vec::new())),
            Err(error) => Err(error),
        }
    }
}

/// How the end of a body is known.
enum Coding {
    Length(usize),
    Chunked,
    UntilEnd,
}

/// Removes the transfer coding of a body.
struct Decoder {
    /// Bytes that are read and not decoded.
    rest: Vec<u8>,
    coding: Coding,
}

impl Decoder {
    /// Decodes some of the bytes that are there. `None` needs more of them. Chunks that break the coding, and one that
    /// is too long to be read, cut the body off.
    fn decode(&mut self) -> Option<Read> {
        match &mut self.coding {
            Coding::Length(0) => Some(Read::End),
            Coding::Length(left) => {
                let len = self.rest.len().min(*left);
                *left -= len;
                (len > 0).then(|| Read::Bytes(self.rest.drain(..len).collect()))
            }
            Coding::UntilEnd => (!self.rest.is_empty()).then(|| Read::Bytes(std::mem::take(&mut self.rest))),
            Coding::Chunked => {
                let line = &self.rest[..self.rest.len().min(MAX_CHUNK_LINE)];
                let Some(end) = line.windows(2).position(|it| it == b"\r\n") else {
                    return (line.len() == MAX_CHUNK_LINE).then_some(Read::Cut);
                };
                let size = String::from_utf8_lossy(&self.rest[..end]);
                let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16);
                let size = match size {
                    Ok(0) => return Some(Read::End),
                    Ok(size) if size <= MAX_BODY => size,
                    _ => return Some(Read::Cut),
                };
                let whole = end + size + 4;
                if self.rest.len() < whole {
                    return None;
                }
                let chunk = self.rest[end + 2..end + 2 + size].to_vec();
                self.rest.drain(..whole);
                Some(Read::Bytes(chunk))
            }
        }
    }
}

/// The body of a response.
struct Incoming {
    stream: Stream,
    decoder: Decoder,
    read: usize,
}

impl Body for Incoming {
    fn read(&mut self, timeout: Duration) -> Read {
        let deadline = Instant::now() + timeout;
        loop {
            if self.read > MAX_BODY {
                return Read::Cut;
            }
            if let Some(read) = self.decoder.decode() {
                return read;
            }
            match self.stream.read_some(deadline) {
                Ok(Read::Bytes(bytes)) => {
                    self.read += bytes.len();
                    self.decoder.rest.extend_from_slice(&bytes);
                }
                Ok(Read::Silence) => return Read::Silence,
                // Nothing else marks the end of such a body.
                Ok(Read::End) if matches!(self.decoder.coding, Coding::UntilEnd) => return Read::End,
                // The end of TLS without an alert is an error as well.
                Ok(Read::End | Read::Cut) | Err(_) => return Read::Cut,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a body that arrives in two pieces. Returns also its end, if it has one.
    fn decoded(coding: Coding, body: &[u8], at: usize) -> (Vec<u8>, Option<Read>) {
        let mut decoder = Decoder { rest: Vec::new(), coding };
        let (mut out, mut end) = (Vec::new(), None);
        for piece in [&body[..at], &body[at..]] {
            decoder.rest.extend_from_slice(piece);
            while let Some(read) = decoder.decode() {
                match read {
                    Read::Bytes(bytes) => out.extend(bytes),
                    other => {
                        end = Some(other);
                        break;
                    }
                }
            }
        }
        (out, end)
    }

    #[test]
    fn bodies_are_decoded_wherever_they_are_cut() {
        let chunks = b"3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n";
        for at in 0..chunks.len() {
            assert_eq!(decoded(Coding::Chunked, chunks, at), (b"abc0123456789".to_vec(), Some(Read::End)), "{at}");
        }
        for at in 0..5 {
            assert_eq!(decoded(Coding::Length(4), b"abcde", at), (b"abcd".to_vec(), Some(Read::End)));
            assert_eq!(decoded(Coding::UntilEnd, b"abcde", at), (b"abcde".to_vec(), None));
        }
        for wrong in [&b"x\r\n"[..], b"\xff\r\n", b"ffffffffffffffff\r\n", b"fffffff\r\n"] {
            assert_eq!(decoded(Coding::Chunked, wrong, 1), (Vec::new(), Some(Read::Cut)));
        }
    }

    #[test]
    fn closed_connections_end_only_bodies_without_a_length() {
        for (head, body, expected) in [
            ("", "abc", Read::End),
            ("Content-Length: 3\r\n", "abc", Read::End),
            ("Content-Length: 4\r\n", "abc", Read::Cut),
            ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n", Read::End),
            ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n", Read::Cut),
            ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n4\r\nab", Read::Cut),
        ] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let url = format!("http://{}/", listener.local_addr().expect("an address"));
            let served = std::thread::spawn(move || {
                let (mut socket, _) = listener.accept().expect("a connection");
                let _ = socket.read(&mut [0; 4096]).expect("a request");
                write!(socket, "HTTP/1.1 200 OK\r\n{head}\r\n{body}").expect("it is written");
            });
            let mut address = Address::new(&url, Vec::new()).expect("an address");
            let request = Request { method: "POST", ..Request::default() };
            let mut response = address.exchange(&request, Duration::from_secs(20)).expect("a response");
            let mut read = Vec::new();
            let end = loop {
                match response.body.read(Duration::from_secs(20)) {
                    Read::Bytes(bytes) => read.extend(bytes),
                    end => break end,
                }
            };
            assert_eq!((&*read, end), (&b"abc"[..], expected), "{head}{body}");
            served.join().expect("no panic");
        }
    }

    /// Serves one response after the other, and returns the first lines of the requests.
    fn serve(
        listener: std::net::TcpListener,
        responses: &'static [&'static str],
    ) -> std::thread::JoinHandle<Vec<String>> {
        std::thread::spawn(move || {
            let serve = |response: &&str| {
                let (mut socket, _) = listener.accept().expect("a connection");
                let mut bytes = vec![0; 4096];
                let len = socket.read(&mut bytes).expect("a request");
                write!(socket, "HTTP/1.1 {response}\r\nContent-Length: 0\r\n\r\n").expect("it is written");
                let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
                let session = text.lines().find(|line| line.starts_with(SESSION)).unwrap_or_default();
                format!("{} {session}", text.split(' ').next().unwrap_or_default())
            };
            responses.iter().map(serve).collect()
        })
    }

    #[test]
    fn refusals_are_confirmed_by_an_accepted_request() {
        const REFUSED: &str = "401 Unauthorized";
        const FIRST: &str = "200 OK\r\nMcp-Session-Id: a";
        const SECOND: &str = "200 OK\r\nMcp-Session-Id: b";
        // Whether there are credentials, the responses, and the statuses that the check sees.
        type Row = (bool, &'static [&'static str], &'static [Option<u16>], &'static str);
        let rows: [Row; 5] = [
            // The server refuses one request only. The session of the confirmation is deleted.
            (
                true,
                &[FIRST, "202 Accepted", REFUSED, SECOND, "204 No Content"],
                &[Some(200), Some(202), Some(401)],
                "DELETE Mcp-Session-Id: b",
            ),
            (true, &[FIRST, "202 Accepted", REFUSED, REFUSED], &[Some(200), Some(202), None], "POST "),
            // A failure is no confirmation.
            (true, &[FIRST, "202 Accepted", REFUSED, "x"], &[Some(200), Some(202), Some(401)], "POST "),
            (false, &[FIRST, "202 Accepted", REFUSED], &[Some(200), Some(202), Some(401)], "POST Mcp-Session-Id: a"),
            // No request has been accepted.
            (true, &["404 Not Found", REFUSED, REFUSED], &[Some(404), Some(401), Some(401)], "POST Mcp-Session-Id: a"),
        ];
        for (has_credentials, responses, expected, last) in rows {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let url = format!("http://{}/", listener.local_addr().expect("an address"));
            let served = serve(listener, responses);
            let name = if has_credentials { "Authorization" } else { "Origin" };
            let mut address = Address::new(&url, vec![(name.into(), "Bearer x".into())]).expect("an address");
            let mut statuses = Vec::new();
            for at in 0..3 {
                let mut request = Request { method: "POST", ..Request::default() };
                request.set(SESSION, (at > 0).then_some("a"));
                match address.exchange(&request, Duration::from_secs(20)) {
                    Ok(response) => statuses.push(Some(response.status)),
                    Err(error) => {
                        assert!(super::super::wire::is_own(&error), "{error}");
                        statuses.push(None);
                    }
                }
            }
            assert_eq!(statuses, expected);
            // A request that is missing is an empty one.
            responses.iter().for_each(|_| drop(TcpStream::connect((address.host.as_str(), address.port))));
            let requests = served.join().expect("no panic");
            assert_eq!(requests.last().map(String::as_str), Some(last), "{requests:?}");
        }
    }

    #[test]
    fn handshakes_end_at_the_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let roots = rustls::RootCertStore::empty();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let port = listener.local_addr().expect("an address").port();
        let mut address = Address::new(&format!("http://127.0.0.1:{port}/"), Vec::new()).expect("an address");
        address.tls = Some(Arc::new(config));
        // The system accepts the connection, and nothing responds.
        let request = Request { method: "POST", ..Request::default() };
        let error = address.exchange(&request, Duration::from_millis(50)).map(|_| ()).expect_err("no response");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn sockets_are_not_read_after_the_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (mut peer, _) = listener.accept().expect("a connection");
        peer.write_all(b"a").expect("it is written");
        let now = Instant::now();
        let mut timed = Timed { socket, deadline: now };
        let mut byte = [0];
        assert_eq!(timed.read(&mut byte).expect_err("it is late").kind(), io::ErrorKind::TimedOut);
        assert_eq!(timed.write(&byte).expect_err("it is late").kind(), io::ErrorKind::TimedOut);
        timed.deadline = now + Duration::from_secs(60);
        assert_eq!((timed.read(&mut byte).expect("a byte"), byte), (1, *b"a"));
    }

    #[test]
    fn heads_are_parsed() {
        let head = "HTTP/1.1 404 Not Found\r\nA: b: c\r\nX:\r\n\r\n";
        let (status, headers) = parse_head(head).expect("a head");
        assert_eq!((status, header(&headers, "a")), (404, Some("b: c")));
        assert!(parse_head("HTTP/2 200\r\n").is_err() && parse_head("").is_err());
        let address = Address::new("http://user@localhost:81/mcp?a=secret", Vec::new()).expect("an address");
        assert!(address.name() == "localhost:81/mcp" && address.is_loopback());
        let request = Request { method: "POST", body: b"{}".to_vec(), ..Request::default() };
        let bytes = String::from_utf8(address.encode(&request, Some("Bearer b"))).expect("text");
        assert!(bytes.starts_with("POST /mcp?a=secret HTTP/1.1\r\nHost: localhost:81\r\n"), "{bytes}");
        assert!(bytes.contains("\r\nAuthorization: Bearer b\r\n"), "{bytes}");
        assert!(bytes.ends_with("Content-Length: 2\r\nConnection: close\r\n\r\n{}"), "{bytes}");
        assert!(Address::new("http:///mcp", Vec::new()).is_err());
    }
}
