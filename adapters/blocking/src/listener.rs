//! Many clients at once.

use std::{
    io,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixListener,
    },
    path::Path,
    sync::Arc,
};

use mcp_service::{
    Service,
    drive::{SocketFile, os::Latch},
};

use crate::{Error, Options, Server, Stopper, Transport};

/// Accepts connections and serves each of them by itself: what one client does is nothing to the others.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    latch: Arc<Latch>,
    connections: usize,
    options: Options,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, #[expect(dead_code, reason = "it is there to be dropped")] SocketFile),
}

impl Listener {
    /// Listens on a TCP address. There is no encryption and no authentication: use a loopback address.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self::new(Socket::Tcp(listener)))
    }

    /// Listens on a Unix domain socket, which must not exist and is removed in the end.
    ///
    /// # Errors
    /// If the path cannot be had.
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        Ok(Self::new(Socket::Unix(listener, SocketFile(path.as_ref().to_owned()))))
    }

    fn new(socket: Socket) -> Self {
        Self { socket, latch: Latch::new(), connections: 64, options: Options::default() }
    }

    /// How many clients are served at once; further ones are hung up on. Default 64.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How each connection is run.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The address, if it is one of TCP.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(..) => None,
        }
    }

    /// What another thread calls to have [`serve`](Self::serve) return.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Box::new(self.latch.stopper())
    }

    /// Serves whoever connects, until it is told to stop. Then it closes all connections, as [`Server::close`] does.
    ///
    /// # Errors
    /// If the socket fails. A connection that fails is nobody else's concern.
    pub fn serve(self, service: &Service) -> Result<(), Error> {
        let mut servers: Vec<Server> = Vec::new();
        while let Some(transport) = self.latch.accept(&self.socket, || self.socket.accept())? {
            servers.retain(|server| !server.handle.is_over());
            if servers.len() < self.connections {
                // Without threads for it, it is hung up on as well.
                servers.extend(Server::start(service, transport, &self.options).ok());
            }
        }
        servers.iter().for_each(|server| server.handle.begin_close());
        Ok(())
    }
}

impl Socket {
    fn accept(&self) -> io::Result<Transport> {
        match self {
            Self::Tcp(listener) => Transport::tcp(listener.accept()?.0),
            Self::Unix(listener, _) => Transport::unix(listener.accept()?.0),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

/// Serves whoever connects to a TCP address, for as long as this process lives. See [`Listener`] for more to choose.
///
/// # Errors
/// If the address cannot be had or the socket fails.
pub fn serve_tcp(service: &Service, address: impl ToSocketAddrs) -> Result<(), Error> {
    Listener::tcp(address)?.serve(service)
}

/// Serves whoever connects to a Unix domain socket, for as long as this process lives. See [`Listener`] for more to
/// choose.
///
/// # Errors
/// If the path cannot be had or the socket fails.
pub fn serve_unix(service: &Service, path: impl AsRef<Path>) -> Result<(), Error> {
    Listener::unix(path)?.serve(service)
}
