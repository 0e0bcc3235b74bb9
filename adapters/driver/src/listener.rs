//! A listener for connections over sockets.

use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    path::Path,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
#[cfg(unix)]
use std::{fs, path::PathBuf};

use crate::{
    error::Error,
    limits::{
        functions::Functions,
        quota::{Permit, Quota},
    },
    options::DriverOptions,
    os::net::{ACCEPT_BACKOFF, is_fatal, is_transient, most_connections},
    runtime::sleep,
    server::Server,
    stop::StopHandle,
    stream::{
        stream_runtime::{Resolve, StreamRuntime},
        transport::{IntoTransport, Transport},
    },
    tuning::{MESSAGE_TIMEOUT, WRITE_TIMEOUT},
    watched::Watched,
};
use mcp_service::{Service, driver_api::Holder};

/// Accepts connections and serves each of them independently of the others.
pub struct Listener<R: StreamRuntime> {
    socket: Socket<R>,
    /// The file of a Unix domain socket, which is removed when this is dropped.
    #[cfg(unix)]
    _file: Option<SocketFile>,
    stopped: Arc<Watched<bool>>,
    connections: usize,
    message: Duration,
    write: Duration,
    options: DriverOptions,
}

/// A socket that clients connect to.
enum Socket<R: StreamRuntime> {
    Tcp(R::TcpListener),
    Local(R::LocalListener),
}

impl<R: StreamRuntime> Listener<R> {
    /// Listens on a TCP address. There is no encryption and no authentication: every peer that can connect is served.
    ///
    /// A loopback address keeps other machines away. It does not keep away other users and programs of this machine: a
    /// web page, for example, can make a browser send bytes to any local port. A connection that does not begin with a
    /// JSON object, such as one of a browser, is closed before any of its bytes are processed. A program that forwards
    /// connections can be made to send anything. Prefer a Unix domain socket or a named pipe, which have permissions,
    /// or HTTP, where the origin of a request is checked.
    ///
    /// The address can be anything that implements `ToSocketAddrs`: see [`Resolve`].
    ///
    /// # Errors
    /// If the socket cannot be bound to the address.
    pub async fn tcp<A>(address: A) -> io::Result<Self>
    where
        R: Resolve<A>,
    {
        let addresses = R::resolve(address).await?;
        Ok(Self::new(Socket::Tcp(R::listen_tcp(addresses).await?)))
    }

    /// Listens on a Unix domain socket at a path that must not exist yet. The file is removed when the listener is
    /// dropped.
    ///
    /// # Errors
    /// If the socket cannot be bound to the path.
    #[cfg(unix)]
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let socket = Socket::Local(R::listen_local(path)?);
        Ok(Self { _file: Some(SocketFile(path.to_owned())), ..Self::new(socket) })
    }

    /// Listens on a named pipe, such as `\\.\pipe\my-server`, that must not exist yet. Only programs of this user, of
    /// administrators and of the system can write to it, and none of other machines.
    ///
    /// # Errors
    /// If the pipe cannot be created, and [`Unsupported`](io::ErrorKind::Unsupported) if the runtime has no named
    /// pipes, as smol.
    #[cfg(windows)]
    pub fn pipe(name: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self::new(Socket::Local(R::listen_local(name.as_ref())?)))
    }

    fn new(socket: Socket<R>) -> Self {
        Self {
            socket,
            #[cfg(unix)]
            _file: None,
            stopped: Arc::default(),
            connections: 64,
            message: MESSAGE_TIMEOUT,
            write: WRITE_TIMEOUT,
            options: DriverOptions::default(),
        }
    }

    /// Sets how many clients are served at once. Further connections are accepted and closed. Default 64; the limit is
    /// never more than three quarters of the descriptors that this process may have.
    ///
    /// A peer address gets another connection as long as it has fewer than seven times as many as are free. So one
    /// address gets at most 56 of 64, a second one 7, and a third one 1. With a limit below 8, one address may get all.
    /// An IPv6 network of 64 bits counts as one address. Connections over a Unix domain socket have no address and are
    /// limited only in total.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets how long a client may take for its first message, and for the rest of a message that has begun, before its
    /// connection ends. Default 30 seconds. The time starts anew after the server has paused reading. It does not
    /// depend on the size of a message: one of 16 MiB has to arrive with 4.5 Mbit/s.
    #[must_use]
    pub fn message_timeout(mut self, timeout: Duration) -> Self {
        self.message = timeout;
        self
    }

    /// Sets how long a client may read nothing while output waits to be written to it, before its connection ends.
    /// Default 30 seconds.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write = timeout;
        self
    }

    /// Sets the options of each connection.
    #[must_use]
    pub fn options(mut self, options: DriverOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the local address of a TCP socket, or `None` for a Unix domain socket.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => R::local_addr(listener).ok(),
            Socket::Local(_) => None,
        }
    }

    /// Returns a handle with which another task or thread makes [`serve`](Self::serve) return.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        let stopped = self.stopped.clone();
        Box::new(move || stopped.update(|stopped| *stopped = true))
    }

    /// Accepts and serves connections until it is [stopped](Self::stop_handle). Then it closes all connections, as
    /// [`Server::close`] does, and waits until they have ended. Dropping the future begins to close them, too.
    ///
    /// # Errors
    /// If the socket fails. A connection that fails does not affect the others.
    pub async fn serve(self, service: &Service) -> Result<(), Error> {
        let mut servers: Vec<(Server, Permit)> = Vec::new();
        let quota = Quota::new(self.connections.min(most_connections(1)));
        let functions = Functions::new(self.options.functions, self.options.function_wait);
        let mut stopped = pin!(self.stopped.wait_for(|stopped| stopped.then_some(())));
        loop {
            let accepted = poll_fn(|cx| match stopped.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => self.socket.poll_accept(cx).map(Some),
            });
            let (transport, holder) = match accepted.await {
                None => break,
                Some(Ok(accepted)) => accepted,
                Some(Err(error)) if is_transient(&error) => continue,
                Some(Err(error)) if is_fatal(&error) => return Err(error.into()),
                Some(Err(_)) => {
                    sleep(&R::current()?, ACCEPT_BACKOFF).await;
                    continue;
                }
            };
            servers.retain(|(server, _)| !server.handle.is_over());
            if let Some(permit) = quota.take(&holder, 1) {
                let functions = (functions.clone(), holder);
                let transport = Accepted { transport, message: self.message, write: self.write, functions };
                servers.push((Server::start(service, transport, &self.options)?, permit));
            }
        }
        servers.iter().for_each(|(server, _)| server.handle.begin_close());
        for (server, _) in &servers {
            server.wait().await;
        }
        Ok(())
    }
}

/// The transport of an accepted connection, with its timeouts and limits.
struct Accepted<M> {
    transport: M,
    message: Duration,
    write: Duration,
    functions: (Arc<Functions>, Holder),
}

impl<M: IntoTransport> IntoTransport for Accepted<M> {
    type Runtime = M::Runtime;

    fn into_transport(self) -> Transport {
        let Self { transport, message, write, functions: (functions, holder) } = self;
        transport.into_transport().message_timeout(message).write_timeout(write).functions(functions, holder)
    }
}

impl<R: StreamRuntime> Socket<R> {
    /// Accepts a connection. Returns its client as well, so that one client cannot use up all connections.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(R::Transport, Holder)>> {
        match self {
            Self::Tcp(listener) => {
                let accepted = R::poll_accept_tcp(listener, cx);
                accepted.map_ok(|(transport, address)| (transport, Holder::at(address.ip())))
            }
            Self::Local(listener) => {
                R::poll_accept_local(listener, cx).map_ok(|transport| (transport, Holder::Unknown))
            }
        }
    }
}

impl<R: StreamRuntime> fmt::Debug for Listener<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket: &dyn fmt::Debug = match &self.socket {
            Socket::Tcp(listener) => listener,
            Socket::Local(listener) => listener,
        };
        f.debug_struct("Listener").field("socket", socket).finish_non_exhaustive()
    }
}

/// The file of a Unix domain socket. It is removed when this is dropped.
#[cfg(unix)]
#[derive(Debug)]
pub struct SocketFile(pub PathBuf);

#[cfg(unix)]
impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
