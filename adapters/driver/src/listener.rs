//! A listener for connections over sockets.

use std::{
    fmt, fs,
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    error::Error,
    limits::{
        functions::Functions,
        quota::{Permit, Quota},
    },
    options::DriverOptions,
    runtime::{Runtime, sleep},
    server::Server,
    stop::StopHandle,
    stream::transport::{IntoTransport, Transport},
    tuning::{MESSAGE_TIMEOUT, WRITE_TIMEOUT},
    unix::fd::{ACCEPT_BACKOFF, is_fatal, is_transient, most_connections},
    watched::Watched,
};
use mcp_service::Service;
use mcp_service::driver_api::Holder;

/// A socket that clients connect to.
pub trait Socket {
    /// The transport of its connections.
    type Transport: IntoTransport;

    /// Accepts a connection. Returns its client as well, so that one client cannot use up all connections.
    ///
    /// # Errors
    /// The error of the system. One that is not [fatal](is_fatal) does not end the listener.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Transport, Holder)>>;

    /// Returns the address, if it is one of TCP.
    fn local_addr(&self) -> Option<SocketAddr>;
}

/// Accepts connections and serves each of them in a task of its own, independent of the others.
///
/// An adapter provides the socket, and the functions that create one.
pub struct Listener<S> {
    socket: S,
    file: Option<SocketFile>,
    stopped: Arc<Watched<bool>>,
    connections: usize,
    message: Duration,
    write: Duration,
    options: DriverOptions,
}

impl<S: Socket> Listener<S> {
    /// Serves at a socket.
    pub fn new(socket: S) -> Self {
        Self {
            socket,
            file: None,
            stopped: Arc::default(),
            connections: 64,
            message: MESSAGE_TIMEOUT,
            write: WRITE_TIMEOUT,
            options: DriverOptions::default(),
        }
    }

    /// Sets the path of the socket, which is removed in the end.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        self.file = Some(SocketFile(path.to_owned()));
        self
    }

    /// Sets how many clients are served at once; further connections are closed. Default 64. In any case they take no
    /// more than three quarters of the descriptor limit of this process.
    ///
    /// A peer address gets connections while it has fewer than seven times as many as are left: one address gets at
    /// most 56 of 64, a second one 7, and a third one 1. Of fewer than 8, one address may get all. An IPv6 network of
    /// 64 bits counts as one address. On a Unix domain socket there are no addresses, and no shares.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets how long a client may take to send its first message, and to complete each message that it has begun,
    /// before its connection ends. Default 30 seconds. While the server pauses reading, the time does not pass.
    #[must_use]
    pub fn message_timeout(mut self, timeout: Duration) -> Self {
        self.message = timeout;
        self
    }

    /// Sets how long a client may read nothing of pending output before its connection ends. Default 30 seconds.
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

    /// Returns the address, if it is one of TCP.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns a handle with which another task or thread stops [`serve`](Self::serve).
    #[must_use]
    pub fn stopper(&self) -> StopHandle {
        let stopped = self.stopped.clone();
        Box::new(move || stopped.update(|stopped| *stopped = true))
    }

    /// Accepts and serves connections until it is stopped. Then it closes all connections, as [`Server::close`] does.
    /// Dropping the future begins to close them, too.
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
                    sleep(&<S::Transport as IntoTransport>::Runtime::current()?, ACCEPT_BACKOFF).await;
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

impl<S: fmt::Debug> fmt::Debug for Listener<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// The file of a Unix domain socket. It is removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile(pub PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
