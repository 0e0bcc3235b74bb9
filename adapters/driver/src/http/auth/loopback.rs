//! The redirect to this machine (RFC 8252, section 7.3).

use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mcp_proto::auth::{Authorization, Url};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{
    http::{
        auth::{
            browser::Browser,
            user_agent::{Redirected, Redirects, UserAgent},
        },
        client::BoxFuture,
    },
    os::wake::{WakeReader, wake_pair},
    watched::Watched,
};

/// The path of the redirect URI.
const PATH: &str = "/callback";

/// The most bytes of the head of a request: those of a redirect, and the headers of a browser.
const MAX_HEAD: usize = Authorization::MAX_REDIRECT + 16 * 1024;

/// The most connections at a time. Browsers open some in advance. Another connection closes the oldest one.
const MAX_CONNECTIONS: usize = 16;

/// The timeout for reading a request from a connection, and for writing the response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A function that shows a URL to the user, and calls its second argument if that fails later.
type Open = dyn Fn(&Url, Box<dyn FnOnce(io::Error) + Send>) -> io::Result<()> + Send + Sync;

/// Opens a browser, and listens for the redirect on the loopback interface.
///
/// The port is reserved as long as this value lives. Requests are read only during an authorization, and only a `GET`
/// of the redirect URI is accepted.
pub struct Loopback {
    listener: Arc<TcpListener>,
    redirect_uri: Url,
    open: Arc<Open>,
}

impl Loopback {
    /// Listens on a free port of `127.0.0.1`, and opens the [browser of the system](Browser::system).
    ///
    /// # Errors
    /// If there is no free port.
    pub fn new() -> io::Result<Self> {
        Self::on(0)
    }

    /// Listens on a port of `127.0.0.1`, so that the redirect URI is always `http://127.0.0.1:<port>/callback`.
    ///
    /// This is for a client whose redirect URI is registered with its port. An authorization server must accept any
    /// port of a loopback redirect URI (RFC 8252, section 7.3), but not all do. Only one process at a time listens on a
    /// port. With [`new`](Self::new), a client that registers by itself registers again in each process.
    ///
    /// # Errors
    /// If the port is not free.
    pub fn on(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let redirect_uri = format!("http://{}{PATH}", listener.local_addr()?);
        let redirect_uri = Url::parse(&redirect_uri).map_err(io::Error::other)?;
        let loopback = Self { listener: Arc::new(listener), redirect_uri, open: Arc::new(|_, _| Ok(())) };
        Ok(loopback.browser(Browser::system()))
    }

    /// Sets the browser. If it ends with an error in five seconds, the authorization
    /// fails with [`AuthError::NotOpened`](mcp_proto::auth::client::AuthError::NotOpened).
    #[must_use]
    pub fn browser(mut self, browser: Browser) -> Self {
        self.open = Arc::new(move |url, failed| browser.open_or(url, failed));
        self
    }

    /// Sets a function that shows a URL to the user, for example by printing it. It runs on a thread of its own.
    #[must_use]
    pub fn open_with(mut self, open: impl Fn(&Url) -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.open = Arc::new(move |url, _| open(url));
        self
    }
}

impl UserAgent for Loopback {
    fn redirect_uri(&self) -> &Url {
        &self.redirect_uri
    }

    fn authorize(&self, url: Url, redirects: Redirects) -> BoxFuture<'static, io::Result<()>> {
        let (listener, open) = (self.listener.clone(), self.open.clone());
        Box::pin(async move {
            // The thread ends when the other end is dropped.
            let (end, _alive) = wake_pair().map_err(|error| failed("the redirect cannot be waited for", &error))?;
            // The kind and the text of an error.
            let result = Arc::new(Watched::new(None::<Result<(), (ErrorKind, String)>>));
            let (done, not_opened) = (result.clone(), result.clone());
            let cannot_open = |error: &io::Error| failed("the browser cannot be opened", error);
            let thread = thread::Builder::new().name("mcp-redirect".to_owned()).spawn(move || {
                let fails_later = move |error: io::Error| {
                    let error = cannot_open(&error);
                    not_opened.update(|done| done.get_or_insert(Err((error.kind(), error.to_string()))).is_ok());
                };
                let opened = open(&url, Box::new(fails_later)).map_err(|error| cannot_open(&error));
                let accept = || listener.accept().map(|(stream, _)| stream);
                let served = opened.and_then(|()| serve(&listener, accept, &end, &redirects));
                let served = served.map_err(|error| (error.kind(), error.to_string()));
                done.update(|done| done.get_or_insert(served).is_ok());
            });
            thread.map_err(|error| failed("the redirect cannot be waited for", &error))?;
            result.wait_for(Option::clone).await.map_err(|(kind, reason)| io::Error::new(kind, reason))
        })
    }
}

/// Returns an error with the operation that has failed.
fn failed(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loopback").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

/// A connection whose request is still being read.
struct Incoming {
    stream: TcpStream,
    head: Vec<u8>,
    until: Instant,
}

/// Serves requests until a redirect ends the authorization, or the other end of `end` is closed.
fn serve(
    listener: &TcpListener,
    mut accept: impl FnMut() -> io::Result<TcpStream>,
    end: &WakeReader,
    redirects: &Redirects,
) -> io::Result<()> {
    let mut connections: Vec<Incoming> = Vec::new();
    // The end of the pause in which no connection is accepted.
    let mut pause = None;
    loop {
        let now = Instant::now();
        connections.retain(|connection| connection.until > now);
        pause = pause.filter(|until| *until > now);
        let until = connections.iter().map(|connection| connection.until).chain(pause).min();
        let listener = pause.is_none().then_some(listener);
        let ready = wait(listener, end, &connections, until.map(|until| until - now))?;
        if ready.first() == Some(&true) {
            return Ok(());
        }
        let mut index = 0;
        for is_ready in ready.iter().skip(1 + usize::from(listener.is_some())) {
            let step = if *is_ready { connections.get_mut(index).map(Incoming::read) } else { None };
            match step {
                Some(Step::Head) => {
                    if connections.remove(index).answer(redirects) {
                        return Ok(());
                    }
                }
                Some(Step::Over) => drop(connections.remove(index)),
                Some(Step::Waits) | None => index += 1,
            }
        }
        if listener.is_none() || ready.get(1) != Some(&true) {
            continue;
        }
        match accept().and_then(|stream| stream.set_nonblocking(true).map(|()| stream)) {
            Ok(stream) => {
                if connections.len() == MAX_CONNECTIONS {
                    connections.remove(0);
                }
                connections.push(Incoming { stream, head: Vec::new(), until: Instant::now() + TIMEOUT });
            }
            // The peer has closed the connection.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {}
            // There are too many open files, for example. The connection stays in the queue.
            Err(_) => pause = Some(Instant::now() + ACCEPT_PAUSE),
        }
    }
}

/// Waits until a descriptor is readable, but no longer than `time`. Returns which ones are: the end, the listener if
/// there is one, each connection.
fn wait(
    listener: Option<&TcpListener>,
    end: &WakeReader,
    connections: &[Incoming],
    time: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let mut fds = vec![PollFd::new(end, PollFlags::IN)];
    fds.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
    fds.extend(connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)));
    let time = time.map(|time| Timespec::try_from(time).unwrap_or_default());
    match poll(&mut fds, time.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(error) => Err(error.into()),
    }
}

/// The state of a connection after a read.
enum Step {
    /// The head is not complete.
    Waits,
    /// The head is complete, or too long.
    Head,
    /// The peer has closed the connection.
    Over,
}

impl Incoming {
    fn read(&mut self) -> Step {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => Step::Over,
            Ok(len) => {
                // The end of the head may begin in the chunk before.
                let from = self.head.len().saturating_sub(3);
                self.head.extend_from_slice(&chunk[..len]);
                let is_over = self.head[from..].windows(4).any(|four| four == b"\r\n\r\n");
                if is_over || self.head.len() > MAX_HEAD { Step::Head } else { Step::Waits }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Step::Waits,
            Err(_) => Step::Over,
        }
    }

    /// Responds to the request, and returns whether the authorization has ended.
    fn answer(mut self, redirects: &Redirects) -> bool {
        let (status, text, is_over) = answer_to(&self.head, redirects);
        // The browser may have closed the connection.
        let _ = self.write(status, text);
        is_over
    }

    fn write(&mut self, status: &str, text: &str) -> io::Result<()> {
        let body = format!("<!doctype html><meta charset=utf-8><title>Authorization</title><p>{text}</p>\n");
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nContent-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            body.len()
        );
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(TIMEOUT))?;
        self.stream.write_all((head + &body).as_bytes())
    }
}

/// Returns the status and the text of the response, and whether the authorization has ended. The text contains no part
/// of the request.
fn answer_to(head: &[u8], redirects: &Redirects) -> (&'static str, &'static str, bool) {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = str::from_utf8(line).unwrap_or_default();
    if head.len() > MAX_HEAD {
        return ("431 Request Header Fields Too Large", "The request is too large.", false);
    }
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return ("400 Bad Request", "This is no request of HTTP/1.1.", false);
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match (path, method) {
        (PATH, "GET") => match redirects.handle(query) {
            Redirected::Accepted => ("200 OK", "You have authorized the client, and can close this window.", true),
            Redirected::Refused => ("200 OK", "The client was not authorized. You can close this window.", true),
            Redirected::Ignored => ("400 Bad Request", "This is not the answer that the client waits for.", false),
        },
        (PATH, _) => ("405 Method Not Allowed\r\nAllow: GET", "Only GET is allowed.", false),
        _ => ("404 Not Found", "There is nothing here.", false),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        pin::pin,
        sync::Mutex,
        task::{Context, Waker},
    };

    use super::*;
    use crate::sync::lock;

    fn request(loopback: &Loopback, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(loopback.listener.local_addr().expect("an address")).expect("it listens");
        stream.write_all(text.as_bytes()).expect("it is read");
        stream
    }

    fn response(mut stream: TcpStream) -> String {
        let mut text = String::new();
        // A connection that is closed before its request was read is reset.
        let _ = stream.read_to_string(&mut text);
        text
    }

    /// Runs an authorization, during which `play` sends requests. Returns the queries that were seen.
    fn authorize(play: impl FnOnce(&Loopback)) -> Vec<String> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let redirects = Redirects::new(move |query| {
            lock(&log).push(query.to_owned());
            match query {
                "code=good" => Redirected::Accepted,
                "error=denied" => Redirected::Refused,
                _ => Redirected::Ignored,
            }
        });
        let loopback = Loopback::new().expect("a port").open_with(|_| Ok(()));
        let url = Url::parse("https://as.example/authorize").expect("a URL");
        let mut authorization = pin!(loopback.authorize(url, redirects));
        assert!(authorization.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        play(&loopback);
        mcp_service::block_on(authorization).expect("it listens");
        lock(&seen).clone()
    }

    const GET: &str = "GET /callback?code=good HTTP/1.1\r\nHost: x\r\n\r\n";

    #[test]
    fn accepts_only_the_redirect() {
        let seen = authorize(|loopback| {
            // A connection that a browser has opened in advance does not hold others up.
            let silent = TcpStream::connect(loopback.listener.local_addr().expect("an address")).expect("it listens");
            for (text, status) in [
                ("GET /favicon.ico HTTP/1.1\r\n\r\n", "404"),
                ("GET /callback/?code=good HTTP/1.1\r\n\r\n", "404"),
                ("POST /callback?code=good HTTP/1.1\r\n\r\n", "405"),
                ("GET /callback?code=good\r\n\r\n", "400"),
                ("\u{fffd}\r\n\r\n", "400"),
                ("GET /callback?state=<script> HTTP/1.1\r\n\r\n", "400"),
            ] {
                let response = response(request(loopback, text));
                assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{text}: {response}");
                assert!(!response.contains("script"), "{response}");
            }
            // In pieces.
            let mut stream = request(loopback, &GET[..GET.len() - 2]);
            stream.write_all(&GET.as_bytes()[GET.len() - 2..]).expect("it is read");
            assert!(response(stream).starts_with("HTTP/1.1 200 OK\r\n"));
            drop(silent);
        });
        assert_eq!(seen, ["state=<script>", "code=good"]);
    }

    #[test]
    fn error_redirect_ends_authorization() {
        let seen = authorize(|loopback| {
            let text = response(request(loopback, "GET /callback?error=denied HTTP/1.1\r\n\r\n"));
            assert!(text.contains("not authorized"), "{text}");
        });
        assert_eq!(seen, ["error=denied"]);
    }

    #[test]
    fn limits_request_heads_and_connections() {
        let seen = authorize(|loopback| {
            let long = format!("GET /callback?code=good&x={} HTTP/1.1", "x".repeat(MAX_HEAD));
            let mut stream =
                TcpStream::connect(loopback.listener.local_addr().expect("an address")).expect("it listens");
            // The rest is not read, so the connection may be reset.
            let _ = stream.write_all(long.as_bytes());
            let mut text = Vec::new();
            let _ = stream.read_to_end(&mut text);
            assert!(text.is_empty() || text.starts_with(b"HTTP/1.1 431 "));
            let oldest = request(loopback, "GET /");
            let others: Vec<_> = (0..MAX_CONNECTIONS).map(|_| request(loopback, "GET /")).collect();
            assert_eq!(response(oldest), "");
            drop(others);
            response(request(loopback, GET));
        });
        assert_eq!(seen, ["code=good"]);
    }

    #[test]
    fn pauses_after_accept_errors() {
        let loopback = Loopback::new().expect("a port");
        let (end, _alive) = wake_pair().expect("a pair");
        let redirects = Redirects::new(|_| Redirected::Accepted);
        let waiting = request(&loopback, GET);
        let mut times = Vec::new();
        let accept = || {
            times.push(Instant::now());
            if times.len() < 3 {
                return Err(Errno::MFILE.into());
            }
            loopback.listener.accept().map(|(stream, _)| stream)
        };
        serve(&loopback.listener, accept, &end, &redirects).expect("it is served");
        assert!(response(waiting).starts_with("HTTP/1.1 200 OK\r\n"));
        assert_eq!(times.len(), 3);
        assert!(times.windows(2).all(|two| two[1] - two[0] >= ACCEPT_PAUSE), "{times:?}");
    }

    #[test]
    fn fixed_port_gives_the_same_redirect_uri() {
        let first = Loopback::new().expect("a port");
        let port = first.redirect_uri.port();
        assert_eq!(Loopback::on(port).expect_err("it is taken").kind(), ErrorKind::AddrInUse);
        let redirect_uri = first.redirect_uri.clone();
        drop(first);
        assert_eq!(Loopback::on(port).expect("it is free").redirect_uri, redirect_uri);
    }

    #[test]
    fn browser_start_failure_has_its_reason() {
        let loopback = Loopback::new().expect("a port").browser(Browser::new("/nowhere/browser"));
        let url = Url::parse("https://as.example/authorize?state=canary").expect("a URL");
        let redirects = Redirects::new(|_| Redirected::Ignored);
        let error = mcp_service::block_on(loopback.authorize(url, redirects)).expect_err("there is no such program");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let text = error.to_string();
        assert!(text.starts_with("the browser cannot be opened: ") && !text.contains("canary"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn browser_program_that_fails_is_an_error() {
        let url = Url::parse("https://as.example/authorize?state=canary").expect("a URL");
        let redirects = Redirects::new(|_| Redirected::Accepted);
        for status in ["3", "0"] {
            let browser = Browser::new("sh").arg("-c").arg(format!("exit {status}"));
            let loopback = Loopback::new().expect("a port").browser(browser);
            let mut authorization = pin!(loopback.authorize(url.clone(), redirects.clone()));
            let end = Instant::now() + Duration::from_secs(60);
            if status == "0" {
                assert!(authorization.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                response(request(&loopback, GET));
            }
            let result = loop {
                if let std::task::Poll::Ready(result) =
                    authorization.as_mut().poll(&mut Context::from_waker(Waker::noop()))
                {
                    break result;
                }
                assert!(Instant::now() < end, "the status {status} is not seen");
                thread::yield_now();
            };
            let error = result.err().map(|error| error.to_string());
            let expected = "the browser cannot be opened: the program has ended with exit status: 3";
            assert_eq!(error.as_deref(), (status == "3").then_some(expected));
        }
    }

    #[test]
    fn dropped_authorization_ends_its_thread() {
        let loopback = Loopback::new().expect("a port").open_with(|_| Ok(()));
        let url = Url::parse("https://as.example/authorize").expect("a URL");
        let alive = Arc::new(());
        let held = alive.clone();
        let redirects = Redirects::new(move |_| {
            let _ = &held;
            Redirected::Ignored
        });
        {
            let mut authorization = pin!(loopback.authorize(url, redirects));
            assert!(authorization.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(Arc::strong_count(&alive), 2);
        }
        let end = Instant::now() + Duration::from_secs(60);
        while Arc::strong_count(&alive) > 1 {
            assert!(Instant::now() < end, "the thread goes on");
            thread::yield_now();
        }
    }

    #[test]
    fn heads_are_read_to_their_end_or_to_the_limit() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let (stream, _) = listener.accept().expect("a connection");
        let mut incoming = Incoming { stream, head: Vec::new(), until: Instant::now() + TIMEOUT };
        let mut step = |before: usize, bytes: &str| {
            incoming.head.resize(before, b'x');
            client.write_all(bytes.as_bytes()).expect("it is read");
            // It blocks until there is something to read.
            match incoming.read() {
                Step::Waits => "waits",
                Step::Head => "head",
                Step::Over => "over",
            }
        };
        assert_eq!(step(0, "GET / HTTP/1.1\r\n"), "waits");
        assert_eq!(step(0, "GET / HTTP/1.1\r\n\r\n"), "head");
        assert_eq!(step(MAX_HEAD - 1, "x"), "waits", "the end may follow");
        assert_eq!(step(MAX_HEAD, "x"), "head", "it is too long");
        assert_eq!(step(MAX_HEAD + 1, "x"), "head");
        incoming.stream.set_nonblocking(true).expect("a socket");
        assert!(matches!(incoming.read(), Step::Waits), "there is nothing to read");
        incoming.stream.set_nonblocking(false).expect("a socket");
        // A client that leaves with unread data resets the connection.
        incoming.stream.write_all(b"unread").expect("it is sent");
        client.peek(&mut [0]).expect("it has arrived");
        drop(client);
        assert!(matches!(incoming.read(), Step::Over));
    }
}
