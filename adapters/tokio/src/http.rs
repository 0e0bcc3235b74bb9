//! MCP over HTTP: Streamable HTTP in all revisions that have it, and the transport of 2024-11-05.
//!
//! A server with a listener of its own:
//!
//! ```no_run
//! use mcp_tokio::{http::Listener, mcp_service::Service};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let service = Service::builder("my-server", "1.0.0").build()?;
//!     // At http://127.0.0.1:8000/mcp, for whoever comes from this machine.
//!     Listener::bind("127.0.0.1:8000").await?.serve(&service).await?;
//!     Ok(())
//! }
//! ```
//!
//! Or an [`Endpoint`] in an application of axum, or whatever else takes a service of tower: see
//! `adapters/tokio/examples/axum-tokio.rs`. A client is [`Client::connect_http`], or a [`Connector`] where there is more to
//! choose. Who may come, and what is bounded: see [`mcp_service::drive::http`].

#[cfg(feature = "redis")]
mod shared;

use std::{
    io,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    task::{Context, Poll, ready},
};

use hyper_util::rt::TokioIo;
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
#[cfg(feature = "redis")]
pub use shared::RedisStore;
use tokio::net::TcpStream;

use crate::{Client, Error, driver::Tokio};

/// A [`Service`] at an endpoint of HTTP, as a service of tower. It lives on the runtime that there is when it is made.
pub type Endpoint = http::Endpoint<Tokio>;

/// Listens on a TCP address, and serves whoever comes over HTTP/1.1.
pub type Listener = http::Listener<Tokio>;

/// The way to a server over HTTP: where it is, what proves who asks, and who makes the requests.
pub type Connector = http::Connector<Tokio>;

/// Serves whoever connects to a TCP address, at `/mcp`, for as long as this process lives. See [`Listener`] for more to
/// choose.
///
/// # Errors
/// If the address cannot be had or the socket fails.
pub async fn serve_http(service: &Service, address: impl ToSocketAddrs + Send + 'static) -> Result<(), Error> {
    http::serve_http::<Tokio>(service, address).await
}

impl Net for Tokio {
    type Stream = TokioIo<TcpStream>;
    type Socket = tokio::net::TcpListener;
    type Client = Client;

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        Ok(prompt(TcpStream::connect(address).await?))
    }

    fn listen(&self, socket: TcpListener) -> io::Result<Self::Socket> {
        Self::Socket::from_std(socket)
    }

    fn poll_accept(socket: &Self::Socket, cx: &mut Context<'_>) -> Poll<io::Result<Self::Stream>> {
        let (stream, _) = ready!(socket.poll_accept(cx))?;
        Poll::Ready(Ok(prompt(stream)))
    }
}

/// Has what is written leave at once.
fn prompt(stream: TcpStream) -> TokioIo<TcpStream> {
    let _ = stream.set_nodelay(true);
    TokioIo::new(stream)
}
