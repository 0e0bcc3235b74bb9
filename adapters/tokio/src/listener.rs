//! Listeners, which serve many clients at once.

use std::{
    io,
    net::SocketAddr,
    path::Path,
    task::{Context, Poll, ready},
    time::Duration,
};

use mcp_driver::{Holder, unix::fd::keep_alive};
use mcp_service::Service;
use tokio::net::{TcpListener, ToSocketAddrs, UnixListener};

use crate::transport::Transport;
use mcp_driver::{DriverOptions, Error, StopHandle};

/// Accepts connections and serves each of them independently of the others.
#[derive(Debug)]
pub struct Listener(mcp_driver::Listener<Socket>);

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens on a TCP address. There is no encryption and no authentication: every peer that can connect is served.
    ///
    /// A loopback address keeps other machines away. It does not keep away other users and programs of this machine: a
    /// web page, for example, can make a browser send bytes to any local port. A connection that does not begin with a
    /// JSON object, such as one of a browser, is closed before any of its bytes are processed. A program that forwards
    /// connections can be made to send anything. Prefer a [Unix domain socket](Self::unix), which has permissions, or
    /// HTTP, where the origin of a request is checked.
    ///
    /// # Errors
    /// If the socket cannot be bound to the address.
    pub async fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        let socket = Socket::Tcp(TcpListener::bind(address).await?);
        Ok(Self(mcp_driver::Listener::new(socket)))
    }

    /// Listens on a Unix domain socket at a path that must not exist yet. The file is removed when the listener is
    /// dropped.
    ///
    /// # Errors
    /// If the socket cannot be bound to the path.
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = Socket::Unix(UnixListener::bind(&path)?);
        Ok(Self(mcp_driver::Listener::new(socket).at(path.as_ref())))
    }

    /// Sets how many clients are served at once. Further connections are accepted and closed. Default 64; the limit is
    /// never more than three quarters of the descriptors that this process may have.
    ///
    /// A peer address gets another connection as long as it has fewer than seven times as many as are free. So one
    /// address gets at most 56 of 64, a second one 7, and a third one 1. With a limit below 8, one address may get all.
    /// An IPv6 network of 64 bits counts as one address. Connections over a Unix domain socket have no address and are
    /// limited only in total.
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        Self(self.0.connections(connections))
    }

    /// Sets how long a client may take for its first message, and for the rest of a message that has begun, before its
    /// connection ends. Default 30 seconds. Time in which the server pauses reading does not count.
    #[must_use]
    pub fn message_timeout(self, timeout: Duration) -> Self {
        Self(self.0.message_timeout(timeout))
    }

    /// Sets how long a client may read nothing while output waits to be written to it, before its connection ends.
    /// Default 30 seconds.
    #[must_use]
    pub fn write_timeout(self, timeout: Duration) -> Self {
        Self(self.0.write_timeout(timeout))
    }

    /// Sets the options of each connection.
    #[must_use]
    pub fn options(self, options: DriverOptions) -> Self {
        Self(self.0.options(options))
    }

    /// Returns the local address of a TCP socket, or `None` for a Unix domain socket.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local_addr()
    }

    /// Returns a handle with which another task or thread makes [`serve`](Self::serve) return.
    #[must_use]
    pub fn stopper(&self) -> StopHandle {
        self.0.stopper()
    }

    /// Accepts and serves connections until it is [stopped](Self::stopper). Then it closes all connections, as
    /// [`Server::close`](crate::Server::close) does, and waits until they have ended. Dropping the future begins to
    /// close them, too.
    ///
    /// # Errors
    /// If the socket fails. A connection that fails does not affect the others.
    pub async fn serve(self, service: &Service) -> Result<(), Error> {
        self.0.serve(service).await
    }
}

impl mcp_driver::Socket for Socket {
    type Transport = Transport;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Transport, Holder)>> {
        match self {
            Self::Tcp(listener) => loop {
                let (stream, address) = ready!(listener.poll_accept(cx))?;
                keep_alive(&stream);
                // An accepted connection that is lost is no failure of the socket.
                if let Ok(transport) = Transport::tcp(stream) {
                    return Poll::Ready(Ok((transport, Holder::at(address.ip()))));
                }
            },
            Self::Unix(listener) => {
                listener.poll_accept(cx).map_ok(|(stream, _)| (Transport::unix(stream), Holder::Unknown))
            }
        }
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }
}

/// Listens on a TCP address and serves its clients until the process ends or the socket fails. See [`Listener`] for
/// more options.
///
/// # Errors
/// If the socket cannot be bound to the address, or fails.
pub async fn serve_tcp(service: &Service, address: impl ToSocketAddrs) -> Result<(), Error> {
    Listener::tcp(address).await?.serve(service).await
}

/// Listens on a Unix domain socket and serves its clients until the process ends or the socket fails. See [`Listener`]
/// for more options.
///
/// # Errors
/// If the socket cannot be bound to the path, or fails.
pub async fn serve_unix(service: &Service, path: impl AsRef<Path>) -> Result<(), Error> {
    Listener::unix(path)?.serve(service).await
}
