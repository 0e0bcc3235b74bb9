//! A listener for connections over sockets.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};
#[cfg(unix)]
use std::{
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
};

#[cfg(unix)]
use mcp_driver::SocketFile;
use mcp_driver::{
    Holder, Permit, Quota,
    os::{
        interrupt::Interrupt,
        net::{keep_alive, most_connections},
    },
    tuning::{MESSAGE_TIMEOUT, WRITE_TIMEOUT},
};
use mcp_service::Service;
use rustix::fd::{AsFd, BorrowedFd};

use crate::{server::Server, transport::Transport};
use mcp_driver::{DriverOptions, Error, StopHandle};

/// Accepts connections and serves each of them on separate threads, independent of the others.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    interrupt: Arc<Interrupt>,
    connections: usize,
    message: Duration,
    write: Duration,
    options: DriverOptions,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener, #[expect(dead_code, reason = "it is there to be dropped")] SocketFile),
}

/// An accepted connection.
enum Accepted {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// The maximum number of descriptors of a connection: its socket for each direction, and a pipe for each to cancel a
/// wait.
const DESCRIPTORS: usize = 6;

impl Listener {
    /// Listens on a TCP address. There is no encryption and no authentication: every client that can connect is served.
    ///
    /// A loopback address excludes other machines. It does not exclude other users and programs of this machine, nor
    /// bytes that they are made to send: a web page can make a browser send bytes to any local port. A connection that
    /// does not begin with a JSON object, such as one of a browser, is closed before any of its input is processed; a
    /// program that forwards connections can be made to send any bytes. Prefer a Unix domain socket, which has
    /// permissions, or HTTP, whose requests name their origin.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self::new(Socket::Tcp(listener)))
    }

    /// Listens on a Unix domain socket, which must not exist and is removed in the end.
    ///
    /// # Errors
    /// If the path cannot be had.
    #[cfg(unix)]
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        Ok(Self::new(Socket::Unix(listener, SocketFile(path.as_ref().to_owned()))))
    }

    fn new(socket: Socket) -> Self {
        let options = DriverOptions::default();
        Self {
            socket,
            interrupt: Interrupt::new(),
            connections: 64,
            message: MESSAGE_TIMEOUT,
            write: WRITE_TIMEOUT,
            options,
        }
    }

    /// Sets how many clients are served at once; further connections are closed. Default 64. In any case they take no
    /// more than three quarters of the descriptor limit of this process.
    ///
    /// A peer address gets connections while it has fewer than seven times as many as are free: one address gets at
    /// most 56 of 64, a second one 7, and a third one 1. Of fewer than 8, one address may get all. An IPv6 network of
    /// 64 bits counts as one address. On a Unix domain socket there are no addresses, and no shares.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets how long a client may take to send its first message, and to complete each message that it has begun,
    /// before its connection ends. Default 30 seconds. The time restarts after the server has paused reading. It does
    /// not depend on the size of a message: one of 16 MiB has to arrive with 4.5 Mbit/s.
    #[must_use]
    pub const fn message_timeout(mut self, timeout: Duration) -> Self {
        self.message = timeout;
        self
    }

    /// Sets how long a client may read nothing of pending output before its connection ends. Default 30 seconds.
    #[must_use]
    pub const fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write = timeout;
        self
    }

    /// Sets the options of each connection.
    #[must_use]
    pub fn options(mut self, options: DriverOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the address, if it is one of TCP.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            #[cfg(unix)]
            Socket::Unix(..) => None,
        }
    }

    /// Returns a handle with which another thread stops [`serve`](Self::serve).
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        Box::new(self.interrupt.stop_handle())
    }

    /// Accepts and serves connections until it is stopped. Then it closes all connections, as [`Server::close`] does.
    ///
    /// # Errors
    /// If the socket fails. A connection that fails does not affect the others.
    pub fn serve(self, service: &Service) -> Result<(), Error> {
        let mut servers: Vec<(Server, Permit)> = Vec::new();
        let quota = Quota::new(self.connections.min(most_connections(DESCRIPTORS)));
        while let Some((accepted, holder)) = self.interrupt.accept(self.socket.as_fd(), || self.socket.accept())? {
            servers.retain(|(server, _)| !server.handle.is_over());
            // Without threads or descriptors for it, it is closed as well.
            if let Some(permit) = quota.take(&holder, 1)
                && let Ok(transport) = self.transport(accepted)
                && let Ok(server) = Server::start(service, transport, &self.options)
            {
                servers.push((server, permit));
            }
        }
        servers.iter().for_each(|(server, _)| server.handle.begin_close());
        Ok(())
    }

    fn transport(&self, accepted: Accepted) -> io::Result<Transport> {
        let write = Some(self.write);
        let transport = match accepted {
            Accepted::Tcp(stream) => Transport::tcp_within(stream, write)?,
            #[cfg(unix)]
            Accepted::Unix(stream) => Transport::socket(stream.into(), write)?,
        };
        Ok(Transport { message: Some(self.message), ..transport })
    }
}

impl Socket {
    fn accept(&self) -> io::Result<(Accepted, Holder)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                keep_alive(&stream);
                (Accepted::Tcp(stream), Holder::at(address.ip()))
            }
            #[cfg(unix)]
            Self::Unix(listener, _) => (Accepted::Unix(listener.accept()?.0), Holder::Unknown),
        })
    }
}

impl Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            #[cfg(unix)]
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

/// Listens on a TCP address and serves its clients for as long as this process lives. See [`Listener`] for more
/// options.
///
/// # Errors
/// If the address cannot be had or the socket fails.
pub fn serve_tcp(service: &Service, address: impl ToSocketAddrs) -> Result<(), Error> {
    Listener::tcp(address)?.serve(service)
}

/// Listens on a Unix domain socket and serves its clients for as long as this process lives. See [`Listener`] for more
/// options.
///
/// # Errors
/// If the path cannot be had or the socket fails.
#[cfg(unix)]
pub fn serve_unix(service: &Service, path: impl AsRef<Path>) -> Result<(), Error> {
    Listener::unix(path)?.serve(service)
}
