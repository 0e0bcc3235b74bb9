//! MCP over HTTP: Streamable HTTP in all revisions that have it, and the transport of 2024-11-05.
//!
//! A server with a listener of its own:
//!
//! ```no_run
//! use mcp_smol::{http::Listener, mcp_service::Service};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let service = Service::builder("my-server", "1.0.0").build()?;
//!     smol::block_on(async {
//!         // At http://127.0.0.1:8000/mcp, for whoever comes from this machine.
//!         Ok(Listener::bind("127.0.0.1:8000").await?.serve(&service).await?)
//!     })
//! }
//! ```
//!
//! Or an [`Endpoint`] behind whatever hands in requests as those of the crate `http`. A client is
//! [`Client::connect_http`], or a [`Connector`] where there is more to choose. Who may come, and what is bounded: see
//! [`mcp_service::drive::http`].

use std::{
    cell::RefCell,
    io::{self, IoSlice, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    pin::Pin,
    task::{Context, Poll, ready},
};

use async_io::Async;
use hyper::rt::{Read, ReadBufCursor, Write};
pub use mcp_proto::http::{
    Limits, Policy,
    client::Options as Address,
    server::{Options, Paths},
};
#[cfg(feature = "tls")]
pub use mcp_service::drive::http::rustls;
pub use mcp_service::drive::http::{Body, Credentials, MemoryStore, Proxy, Requests, Response, Shared};
use mcp_service::{
    Service,
    drive::http::{self, Net},
};

use crate::{Client, Error, driver::Smol, io::is_passing};

/// A [`Service`] at an endpoint of HTTP.
pub type Endpoint = http::Endpoint<Smol>;

/// Listens on a TCP address, and serves whoever comes over HTTP/1.1.
pub type Listener = http::Listener<Smol>;

/// The way to a server over HTTP: where it is, what proves who asks, and who makes the requests.
pub type Connector = http::Connector<Smol>;

/// Serves whoever connects to a TCP address, at `/mcp`, for as long as this process lives. See [`Listener`] for more to
/// choose.
///
/// # Errors
/// If the address cannot be had or the socket fails.
pub async fn serve_http(service: &Service, address: impl ToSocketAddrs + Send + 'static) -> Result<(), Error> {
    http::serve_http::<Smol>(service, address).await
}

impl Net for Smol {
    type Stream = Stream;
    type Socket = Async<TcpListener>;
    type Client = Client;

    async fn connect(address: SocketAddr) -> io::Result<Stream> {
        Ok(Stream::prompt(Async::<TcpStream>::connect(address).await?))
    }

    fn listen(&self, socket: TcpListener) -> io::Result<Self::Socket> {
        Async::new_nonblocking(socket)
    }

    fn poll_accept(socket: &Self::Socket, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        loop {
            match socket.get_ref().accept() {
                Err(error) if is_passing(&error) => ready!(socket.poll_readable(cx))?,
                accepted => return Poll::Ready(accepted.and_then(|(it, _)| Ok(Stream::prompt(Async::new(it)?)))),
            }
        }
    }
}

/// What is read at once, at most.
const CHUNK: usize = 16 << 10;

thread_local! {
    /// What is read goes through this: reading into what is not initialized takes unsafe code. It belongs to the thread, so
    /// connections that are quiet have none.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK].into());
}

/// A connection, for hyper.
#[derive(Debug)]
pub struct Stream {
    stream: Async<TcpStream>,
    /// Nothing was left when it was read last: it is waited for before that is tried again.
    is_drained: bool,
}

impl Stream {
    /// Has what is written leave at once.
    fn prompt(stream: Async<TcpStream>) -> Self {
        let _ = stream.get_ref().set_nodelay(true);
        Self { stream, is_drained: false }
    }

    fn poll_with(
        &self,
        cx: &mut Context<'_>,
        poll_ready: impl Fn(&Async<TcpStream>, &mut Context<'_>) -> Poll<io::Result<()>>,
        mut f: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match f(self.stream.get_ref()) {
                Err(error) if is_passing(&error) => ready!(poll_ready(&self.stream, cx))?,
                done => return Poll::Ready(done),
            }
        }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_drained {
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
        self.is_drained = matches!(read, Poll::Ready(Ok(read)) if read < limit);
        read.map_ok(|_| ())
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_with(cx, Async::poll_writable, |mut stream| stream.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, Async::poll_writable, |mut stream| stream.write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Whoever has hung up first is not told again.
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}
