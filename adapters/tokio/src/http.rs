//! MCP over HTTP: Streamable HTTP in all revisions that have it, and the transport of 2024-11-05.
//!
//! A server with its own listener:
//!
//! ```no_run
//! use mcp_tokio::{http::Listener, mcp_service::Service};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let service = Service::builder("my-server", "1.0.0").build()?;
//!     // At http://127.0.0.1:8000/mcp, for clients on this machine.
//!     Listener::bind("127.0.0.1:8000").await?.serve(&service).await?;
//!     Ok(())
//! }
//! ```
//!
//! An [`Endpoint`] serves MCP in an application of axum, or of another framework with tower services: see
//! `adapters/tokio/examples/axum-tokio.rs`. A client connects with
//! [`Client::connect_http`](crate::Client::connect_http), or with a [`Connector`] for more options. For access control
//! and limits see [`mcp_driver::http`].

#[cfg(feature = "redis")]
mod shared;

use std::{
    io::{self, IoSlice},
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
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
#[cfg(feature = "redis")]
pub use shared::RedisStore;
use tokio::net::TcpStream;

use crate::{driver::Tokio, os};
use mcp_driver::Error;

/// A [`Service`] at an HTTP endpoint, as a tower service. It runs on the runtime that is current when it is created.
pub type Endpoint = http::Endpoint<Tokio>;

/// Listens on a TCP address and serves HTTP/1.1.
pub type Listener = http::Listener<Tokio>;

/// An HTTP client for short requests, such as for the keys of an authorization server.
#[cfg(feature = "auth")]
pub type FetchClient = http::FetchClient<Tokio>;

/// A builder of connections to a server over HTTP: its address, the provider of credentials, and the HTTP client.
pub type Connector = http::Connector<Tokio>;

/// A provider of credentials with OAuth: see [`auth`].
#[cfg(feature = "auth")]
pub type OAuth = auth::OAuth<Tokio>;

/// Listens on a TCP address and serves HTTP at `/mcp` there until the process ends or the socket fails. See
/// [`Listener`] for more options.
///
/// # Errors
/// If the socket cannot be bound to the address, or fails.
pub async fn serve_http(service: &Service, address: impl ToSocketAddrs + Send + 'static) -> Result<(), Error> {
    http::serve_http::<Tokio>(service, address).await
}

#[cfg(feature = "auth")]
impl auth::AuthRuntime for Tokio {
    fn transport() -> std::sync::Arc<dyn auth::AuthTransport<Self>> {
        std::sync::Arc::new(http::NetTransport::default())
    }
}

impl ConnectRuntime for Tokio {
    type Stream = Stream;

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        Ok(Stream::new(TcpStream::connect(address).await?))
    }

    fn recheck(stream: &Stream) -> Recheck {
        stream.recheck.clone()
    }
}

impl NetRuntime for Tokio {
    type Socket = tokio::net::TcpListener;

    fn listen(&self, socket: TcpListener) -> io::Result<Self::Socket> {
        Self::Socket::from_std(socket)
    }

    fn poll_accept(socket: &Self::Socket, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Stream, SocketAddr)>> {
        let (stream, address) = ready!(socket.poll_accept(cx))?;
        keep_alive(&stream);
        Poll::Ready(Ok((Stream::new(stream), address)))
    }
}

/// A connection, for hyper.
#[derive(Debug)]
pub struct Stream {
    stream: TokioIo<TcpStream>,
    recheck: Recheck,
}

impl Stream {
    /// Creates a stream and disables Nagle's algorithm, so that output is sent at once.
    fn new(stream: TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        Self { stream: TokioIo::new(stream), recheck: Recheck::default() }
    }

    /// Returns whether the peer has closed the connection.
    fn is_closed_by_peer(&self) -> io::Result<bool> {
        os::is_closed_by_peer(self.stream.inner())
    }
}

impl Read for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if self.recheck.take() && self.is_closed_by_peer()? {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, thread};

    use hyper::rt::ReadBuf;
    use tokio::runtime::Builder;

    use super::*;

    async fn read(stream: &mut Stream) -> Poll<usize> {
        poll_fn(|cx| {
            let mut bytes = [0; 8];
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut *stream).poll_read(cx, buffer.unfilled());
            Poll::Ready(read.map(|read| read.map(|()| buffer.filled().len()).expect("no reset")))
        })
        .await
    }

    #[test]
    fn detects_peer_close_before_reuse() {
        Builder::new_current_thread().enable_io().build().expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
            let mut stream = Tokio::connect(listener.local_addr().expect("an address")).await.expect("it listens");
            assert_eq!(read(&mut stream).await, Poll::Pending);
            drop(listener.accept().expect("it connects"));
            while !stream.is_closed_by_peer().expect("no reset") {
                thread::yield_now();
            }
            assert_eq!(read(&mut stream).await, Poll::Pending, "the runtime has not reported it");
            Tokio::recheck(&stream).request();
            assert_eq!(read(&mut stream).await, Poll::Ready(0));
        });
    }
}

/// Tests of connections that are used again. Elsewhere the end of a connection may arrive later than `drop` returns.
#[cfg(all(test, target_os = "linux"))]
mod reuse_tests {
    use std::{
        sync::{Arc, mpsc},
        thread,
    };

    use tokio::runtime::Builder;

    use super::*;

    /// Ignores a response.
    struct Ignored;

    impl http::ResponseSink for Ignored {
        fn head(&mut self, _: ::http::response::Parts) {}

        fn chunk(&mut self, _: &[u8]) -> Result<(), String> {
            Ok(())
        }
    }

    /// Reads a request, and responds without a body.
    fn respond(stream: &mut std::net::TcpStream) {
        assert!(io::Read::read(stream, &mut [0; 1024]).expect("it is open") > 0);
        io::Write::write_all(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("it reads");
    }

    #[test]
    fn requests_are_not_sent_on_closed_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("an address");
        let ((close, closing), (closed, is_closed)) = (mpsc::channel::<()>(), mpsc::channel());
        let server = thread::spawn(move || {
            let (mut first, _) = listener.accept().expect("it connects");
            respond(&mut first);
            respond(&mut first);
            closing.recv().expect("the test runs");
            drop(first);
            closed.send(()).expect("the test runs");
            respond(&mut listener.accept().expect("it connects").0);
        });
        Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(async {
            let client = http::Http1Client::<Tokio>::new();
            let send = async || {
                let request = ::http::Request::get(format!("http://{address}/")).body(Arc::from([])).expect("a URI");
                client.send(request, &mut Ignored).await.expect("a response");
                // The connection becomes idle.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            };
            send().await;
            // The same connection is used again, or the server would wait for another request on it.
            send().await;
            close.send(()).expect("the server runs");
            // The runtime does not run in between, so it has not reported the end of the connection.
            is_closed.recv().expect("the server runs");
            send().await;
        });
        server.join().expect("two connections");
    }
}
