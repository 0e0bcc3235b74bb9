//! MCP over HTTP: Streamable HTTP in all revisions that have it, and the transport of 2024-11-05.
//!
//! A server with its own listener:
//!
//! ```no_run
//! use mcp_smol::{http::Listener, mcp_service::Service};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let service = Service::builder("my-server", "1.0.0").build()?;
//!     smol::block_on(async {
//!         // At http://127.0.0.1:8000/mcp, for clients on this machine.
//!         Ok(Listener::bind("127.0.0.1:8000").await?.serve(&service).await?)
//!     })
//! }
//! ```
//!
//! An [`Endpoint`] serves requests of other HTTP servers, as types of the crate `http`. A client connects with
//! [`Client::connect_http`](crate::Client::connect_http), or with a [`Connector`] for more options. For access control
//! and limits see [`mcp_driver::http`].

use std::{
    cell::RefCell,
    io::{self, IoSlice, Read as _, Write as _},
    mem,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    pin::Pin,
    task::{Context, Poll, ready},
};

use async_io::Async;
use hyper::rt::{Read, ReadBufCursor, Write};
#[cfg(feature = "auth")]
pub use mcp_driver::http::auth;
#[cfg(feature = "tls")]
pub use mcp_driver::http::rustls;
#[cfg(feature = "auth")]
pub use mcp_driver::http::{
    AccessToken, HttpFetch, IntrospectionVerifier, ResourceMetadata, ResourceServer, Scopes, TokenError, TokenVerifier,
};
#[cfg(feature = "jwt")]
pub use mcp_driver::http::{Algorithm, Dpop, JwtVerifier, KeySet, KeySetError, KeySource, NonceKey};
pub use mcp_driver::http::{
    AuthProvider, Bearer, Body, HttpClient, MemoryStore, Proxy, Refusal, ResponseHandler, Store, StoreLimits,
    StoreUsage,
};
use mcp_driver::{
    http::{self, ConnectRuntime, NetRuntime, Recheck},
    os::net::keep_alive,
};
pub use mcp_proto::http::{
    Caller, Limits, Policy, Principal,
    client::ClientOptions,
    server::{EndpointOptions, ExposedHeads, Paths, RequestHead},
};
use mcp_service::Service;

use crate::{driver::Smol, io::is_transient};
use mcp_driver::Error;

/// A [`Service`] at an HTTP endpoint.
pub type Endpoint = http::Endpoint<Smol>;

/// Listens on a TCP address and serves HTTP/1.1.
pub type Listener = http::Listener<Smol>;

/// An HTTP client for short requests, such as for the keys of an authorization server.
#[cfg(feature = "auth")]
pub type FetchClient = http::FetchClient<Smol>;

/// A builder of connections to a server over HTTP: its address, the provider of credentials, and the HTTP client.
pub type Connector = http::Connector<Smol>;

/// A provider of credentials with OAuth: see [`auth`].
#[cfg(feature = "auth")]
pub type OAuth = auth::OAuth<Smol>;

/// Listens on a TCP address and serves HTTP at `/mcp` there until the process ends or the socket fails. See
/// [`Listener`] for more options.
///
/// # Errors
/// If the socket cannot be bound to the address, or fails.
pub async fn serve_http(service: &Service, address: impl ToSocketAddrs + Send + 'static) -> Result<(), Error> {
    http::serve_http::<Smol>(service, address).await
}

#[cfg(feature = "auth")]
impl auth::AuthRuntime for Smol {
    fn transport() -> std::sync::Arc<dyn auth::AuthTransport<Self>> {
        std::sync::Arc::new(http::NetTransport::default())
    }
}

impl ConnectRuntime for Smol {
    type Stream = Stream;

    async fn connect(address: SocketAddr) -> io::Result<Stream> {
        Ok(Stream::new(Async::<TcpStream>::connect(address).await?, None))
    }

    fn recheck(stream: &Stream) -> Recheck {
        stream.recheck.clone()
    }
}

impl NetRuntime for Smol {
    type Socket = Async<TcpListener>;

    fn listen(&self, socket: TcpListener) -> io::Result<Self::Socket> {
        Async::new_nonblocking(socket)
    }

    fn poll_accept(socket: &Self::Socket, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, SocketAddr)>> {
        loop {
            match socket.get_ref().accept() {
                Err(error) if is_transient(&error) => ready!(socket.poll_readable(cx))?,
                accepted => {
                    let (stream, address) = accepted?;
                    keep_alive(&stream);
                    // An accepted connection that is lost is no failure of the socket.
                    if let Ok(stream) = Async::new(stream) {
                        return Poll::Ready(Ok((Stream::new(stream, Some(ReadAttempts::default())), address)));
                    }
                }
            }
        }
    }
}

/// The most bytes that one read takes.
const CHUNK: usize = 16 << 10;

thread_local! {
    /// The read buffer of the thread: reading into uninitialized memory would take unsafe code. Connections share it,
    /// so an idle connection has no buffer.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK].into());
}

/// A connection, for hyper.
#[derive(Debug)]
pub struct Stream {
    stream: Async<TcpStream>,
    /// Set when the last read has emptied the socket: the next read waits for readiness first.
    is_drained: bool,
    recheck: Recheck,
    /// Absent for clients.
    attempts: Option<ReadAttempts>,
}

/// Decides when to try a read for the next request without waiting for readiness.
///
/// Waiting takes half a dozen system calls, a try takes one. A client that shares the processor, or that pipelines its
/// requests, has often sent the next one when its response is written. For most other clients the try fails, and tries
/// become rare.
#[derive(Debug, Default)]
struct ReadAttempts {
    /// Set by a write, cleared by the next read.
    wrote: bool,
    /// The number of tries in a row that have read something, and of those that have not.
    found: u8,
    failures: u8,
    /// The number of tries to skip.
    pause: u8,
}

impl Stream {
    /// Creates a stream and disables Nagle's algorithm, so that output is sent at once.
    fn new(stream: Async<TcpStream>, attempts: Option<ReadAttempts>) -> Self {
        let _ = stream.get_ref().set_nodelay(true);
        Self { stream, is_drained: false, recheck: Recheck::default(), attempts }
    }

    fn will_write(&mut self) {
        if let Some(attempts) = &mut self.attempts {
            attempts.wrote = true;
        }
    }

    fn poll_with(
        &self,
        cx: &mut Context<'_>,
        poll_ready: impl Fn(&Async<TcpStream>, &mut Context<'_>) -> Poll<io::Result<()>>,
        mut f: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match f(self.stream.get_ref()) {
                Err(error) if is_transient(&error) => ready!(poll_ready(&self.stream, cx))?,
                done => return Poll::Ready(done),
            }
        }
    }
}

impl ReadAttempts {
    /// The most tries in a row that read something. Then one is skipped, so that other connections can run.
    const ROW: u8 = 8;
    /// How often the pause after a failed try is doubled at most.
    const DOUBLED: u8 = 5;

    /// Returns whether to try now.
    fn is_due(&mut self) -> bool {
        if !mem::take(&mut self.wrote) {
            return false;
        }
        let is_due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_due
    }

    fn record(&mut self, found: bool) {
        if found {
            (self.found, self.failures) = ((self.found + 1) % Self::ROW, 0);
            self.pause = u8::from(self.found == 0);
        } else {
            (self.found, self.pause) = (0, 1 << self.failures);
            self.failures = (self.failures + 1).min(Self::DOUBLED);
        }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let is_requested = self.recheck.take();
        let attempts = self.is_drained && (is_requested || self.attempts.as_mut().is_some_and(ReadAttempts::is_due));
        if self.is_drained && !attempts {
            ready!(self.stream.poll_readable(cx))?;
        }
        let limit = buffer.remaining().min(CHUNK);
        let read = self.poll_with(cx, Async::poll_readable, |mut stream| {
            READ.with_borrow_mut(|chunk| {
                let read = stream.read(&mut chunk[..limit])?;
                buffer.put_slice(&chunk[..read]);
                Ok(read)
            })
        });
        if attempts && let Some(it) = &mut self.attempts {
            it.record(read.is_ready());
        }
        self.is_drained = !matches!(read, Poll::Ready(Ok(read)) if read == limit);
        read.map_ok(|_| ())
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.will_write();
        self.poll_with(cx, Async::poll_writable, |mut stream| stream.write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.will_write();
        self.poll_with(cx, Async::poll_writable, |mut stream| stream.write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A peer that closed the connection first does not read the rest, so the result is ignored.
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use hyper::rt::ReadBuf;

    use super::*;

    /// Returns the indices of the responses that are followed by a try.
    fn attempts(attempts: &mut ReadAttempts, answers: usize, found: bool) -> Vec<usize> {
        let look = |_: &usize| {
            attempts.wrote = true;
            let is_due = attempts.is_due();
            if is_due {
                attempts.record(found);
            }
            is_due
        };
        (0..answers).filter(look).collect()
    }

    #[test]
    fn failed_read_attempts_become_rare() {
        let mut it = ReadAttempts::default();
        assert!(!it.is_due(), "nothing was answered");
        assert_eq!(attempts(&mut it, 120, false), [0, 2, 5, 10, 19, 36, 69, 102]);
    }

    #[test]
    fn successful_read_attempts_yield_periodically() {
        let mut it = ReadAttempts::default();
        assert_eq!(attempts(&mut it, 20, true), [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19]);
        assert_eq!(attempts(&mut it, 3, false), [0, 2]);
    }

    #[test]
    fn requested_check_reads_what_the_reactor_has_not_reported() {
        for _ in 0..100 {
            let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
            let address = listener.local_addr().expect("an address");
            let mut stream = async_io::block_on(Smol::connect(address)).expect("it listens");
            let read = |stream: &mut Stream| {
                let mut bytes = [0; 8];
                let mut buffer = ReadBuf::new(&mut bytes);
                let mut cx = Context::from_waker(Waker::noop());
                let read = Pin::new(stream).poll_read(&mut cx, buffer.unfilled());
                read.map(|read| read.map(|()| buffer.filled().len()).expect("no reset"))
            };
            assert_eq!(read(&mut stream), Poll::Pending);
            drop(listener.accept().expect("it connects"));
            // The end arrives at any time.
            while stream.stream.get_ref().peek(&mut [0]).is_err() {
                std::thread::yield_now();
            }
            let recheck = Smol::recheck(&stream);
            recheck.request();
            assert_eq!(read(&mut stream), Poll::Ready(0));
            assert!(!recheck.take());
        }
    }
}
