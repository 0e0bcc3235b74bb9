//! Many clients at once.

use std::{
    io,
    net::SocketAddr,
    path::Path,
    task::{Context, Poll},
};

use mcp_service::{Service, drive};
use tokio::net::{TcpListener, ToSocketAddrs, UnixListener};

use crate::{Error, Options, Stopper, Transport};

/// Accepts connections and serves each of them by itself: what one client does is nothing to the others.
#[derive(Debug)]
pub struct Listener(drive::Listener<Socket>);

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens on a TCP address. There is no encryption and no authentication: use a loopback address.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub async fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        let socket = Socket::Tcp(TcpListener::bind(address).await?);
        Ok(Self(drive::Listener::new(socket)))
    }

    /// Listens on a Unix domain socket, which must not exist and is removed in the end.
    ///
    /// # Errors
    /// If the path cannot be had.
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = Socket::Unix(UnixListener::bind(&path)?);
        Ok(Self(drive::Listener::new(socket).at(path.as_ref())))
    }

    /// How many clients are served at once; further ones are hung up on. Default 64.
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        Self(self.0.connections(connections))
    }

    /// How each connection is run.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self(self.0.options(options))
    }

    /// The address, if it is one of TCP.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local_addr()
    }

    /// What another task or thread calls to have [`serve`](Self::serve) return.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.0.stopper()
    }

    /// Serves whoever connects, until it is told to stop. Then it closes all connections, as
    /// [`Server::close`](crate::Server::close) does. Dropping the future begins to do so, too.
    ///
    /// # Errors
    /// If the socket fails. A connection that fails is nobody else's concern.
    pub async fn serve(self, service: &Service) -> Result<(), Error> {
        self.0.serve(service).await
    }
}

impl drive::Socket for Socket {
    type Transport = Transport;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Transport>> {
        match self {
            Self::Tcp(listener) => listener.poll_accept(cx).map(|accepted| Transport::tcp(accepted?.0)),
            Self::Unix(listener) => listener.poll_accept(cx).map_ok(|(stream, _)| Transport::unix(stream)),
        }
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }
}

/// Serves whoever connects to a TCP address, for as long as this process lives. See [`Listener`] for more to choose.
///
/// # Errors
/// If the address cannot be had or the socket fails.
pub async fn serve_tcp(service: &Service, address: impl ToSocketAddrs) -> Result<(), Error> {
    Listener::tcp(address).await?.serve(service).await
}

/// Serves whoever connects to a Unix domain socket, for as long as this process lives. See [`Listener`] for more to
/// choose.
///
/// # Errors
/// If the path cannot be had or the socket fails.
pub async fn serve_unix(service: &Service, path: impl AsRef<Path>) -> Result<(), Error> {
    Listener::unix(path)?.serve(service).await
}
