//! Many clients at once.

use std::{
    io,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    os::unix::net::UnixListener,
    path::Path,
    task::{Context, Poll, ready},
};

use async_io::Async;
use mcp_service::{
    Service,
    drive::{self, os::is_passing},
};

use crate::{Error, Options, Stopper, Transport};

/// Accepts connections and serves each of them by itself: what one client does is nothing to the others.
#[derive(Debug)]
pub struct Listener(drive::Listener<Socket>);

#[derive(Debug)]
enum Socket {
    Tcp(Async<TcpListener>),
    Unix(Async<UnixListener>),
}

impl Listener {
    /// Listens on a TCP address. There is no encryption and no authentication: use a loopback address.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub async fn tcp(address: impl ToSocketAddrs + Send + 'static) -> io::Result<Self> {
        // Finding a name's addresses can take its time.
        let listener = blocking::unblock(move || TcpListener::bind(address)).await?;
        Ok(Self(drive::Listener::new(Socket::Tcp(Async::new(listener)?))))
    }

    /// Listens on a Unix domain socket, which must not exist and is removed in the end.
    ///
    /// # Errors
    /// If the path cannot be had.
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = Socket::Unix(Async::<UnixListener>::bind(&path)?);
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
        loop {
            let accepted = match self {
                Self::Tcp(listener) => listener.get_ref().accept().and_then(|(it, _)| Transport::tcp(Async::new(it)?)),
                Self::Unix(listener) => {
                    listener.get_ref().accept().and_then(|(it, _)| Ok(Transport::unix(Async::new(it)?)))
                }
            };
            match (accepted, self) {
                (Err(error), Self::Tcp(listener)) if is_passing(&error) => ready!(listener.poll_readable(cx))?,
                (Err(error), Self::Unix(listener)) if is_passing(&error) => ready!(listener.poll_readable(cx))?,
                (accepted, _) => return Poll::Ready(accepted),
            }
        }
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.get_ref().local_addr().ok(),
            Self::Unix(_) => None,
        }
    }
}

/// Serves whoever connects to a TCP address, for as long as this process lives. See [`Listener`] for more to choose.
///
/// # Errors
/// If the address cannot be had or the socket fails.
pub async fn serve_tcp(service: &Service, address: impl ToSocketAddrs + Send + 'static) -> Result<(), Error> {
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
