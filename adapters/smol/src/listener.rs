//! Many clients at once.

use std::{
    io,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    os::unix::net::UnixListener,
    path::Path,
    task::{Context, Poll, ready},
    time::Duration,
};

use async_io::Async;
use mcp_driver::{
    Holder,
    unix::fd::{is_transient, keep_alive},
};
use mcp_service::Service;

use crate::transport::Transport;
use mcp_driver::{Error, Options, StopHandle};

/// Accepts connections and serves each of them by itself: what one client does is nothing to the others.
#[derive(Debug)]
pub struct Listener(mcp_driver::Listener<Socket>);

#[derive(Debug)]
enum Socket {
    Tcp(Async<TcpListener>),
    Unix(Async<UnixListener>),
}

impl Listener {
    /// Listens on a TCP address. There is no encryption and no authentication: whatever can connect is served.
    ///
    /// A loopback address keeps other machines away. It does not keep away other users and programs of this machine, and
    /// not what they can be made to send: a web page can have a browser send bytes to any local port. A connection that
    /// does not begin with a JSON object, such as one of a browser, is hung up on before anything of it is taken in; a
    /// program that forwards connections can be made to send anything. Prefer a [Unix domain socket](Self::unix), which
    /// has permissions, or HTTP, which knows where a request comes from.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub async fn tcp(address: impl ToSocketAddrs + Send + 'static) -> io::Result<Self> {
        // Finding a name's addresses can take its time.
        let listener = blocking::unblock(move || TcpListener::bind(address)).await?;
        Ok(Self(mcp_driver::Listener::new(Socket::Tcp(Async::new(listener)?))))
    }

    /// Listens on a Unix domain socket, which must not exist and is removed in the end.
    ///
    /// # Errors
    /// If the path cannot be had.
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = Socket::Unix(Async::<UnixListener>::bind(&path)?);
        Ok(Self(mcp_driver::Listener::new(socket).at(path.as_ref())))
    }

    /// How many clients are served at once; further ones are hung up on. Default 64, and never more than three quarters of
    /// the descriptors of this process are enough for.
    ///
    /// A peer address gets connections as long as it has fewer than seven times as many as are left: so one address gets at
    /// most 56 of 64, a second one 7, and a third one 1. Of fewer than 8, one address may get all. An IPv6 network of 64 bits counts as one address. On a Unix
    /// domain socket there are no addresses, and no shares.
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        Self(self.0.connections(connections))
    }

    /// How long a client may take until its first message has come, and for each message that it has begun, before its connection
    /// ends. Default 30 seconds. While the server pauses reading, the time does not pass.
    #[must_use]
    pub fn message_timeout(self, timeout: Duration) -> Self {
        Self(self.0.message_timeout(timeout))
    }

    /// How long a client may read nothing of what waits to be written to it, before its connection ends. Default 30 seconds.
    #[must_use]
    pub fn write_timeout(self, timeout: Duration) -> Self {
        Self(self.0.write_timeout(timeout))
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
    pub fn stopper(&self) -> StopHandle {
        self.0.stopper()
    }

    /// Accepts and serves connections until it is stopped. Then it closes all connections, as
    /// [`Server::close`](crate::Server::close) does. Dropping the future begins to close them, too.
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
        loop {
            // Whatever becomes of one that was accepted is no failure of the socket.
            let accepted = match self {
                Self::Tcp(listener) => listener.get_ref().accept().map(|(it, address)| {
                    keep_alive(&it);
                    let transport = Async::new(it).and_then(Transport::tcp).ok()?;
                    Some((transport, Holder::at(address.ip())))
                }),
                Self::Unix(listener) => listener
                    .get_ref()
                    .accept()
                    .map(|(it, _)| Some((Transport::unix(Async::new(it).ok()?), Holder::Unknown))),
            };
            match (accepted, self) {
                (Err(error), Self::Tcp(listener)) if is_transient(&error) => ready!(listener.poll_readable(cx))?,
                (Err(error), Self::Unix(listener)) if is_transient(&error) => ready!(listener.poll_readable(cx))?,
                (Err(error), _) => return Poll::Ready(Err(error)),
                (Ok(Some(accepted)), _) => return Poll::Ready(Ok(accepted)),
                (Ok(None), _) => {}
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

/// Listens on a TCP address and serves its clients for as long as this process lives. See [`Listener`] for more
/// options.
///
/// # Errors
/// If the address cannot be had or the socket fails.
pub async fn serve_tcp(service: &Service, address: impl ToSocketAddrs + Send + 'static) -> Result<(), Error> {
    Listener::tcp(address).await?.serve(service).await
}

/// Listens on a Unix domain socket and serves its clients for as long as this process lives. See [`Listener`] for more
/// options.
///
/// # Errors
/// If the path cannot be had or the socket fails.
pub async fn serve_unix(service: &Service, path: impl AsRef<Path>) -> Result<(), Error> {
    Listener::unix(path)?.serve(service).await
}
