//! Many clients at once.

use std::{
    fmt, fs,
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    Error, Medium, Options, Runtime, Server, Stopper, Watch,
    os::{SHORTAGE, is_passing, is_shortage},
    runtime::sleep,
};
use crate::Service;

/// A socket that clients connect to.
pub trait Socket {
    /// What connections to it run over.
    type Transport: Medium;

    /// Accepts a connection.
    ///
    /// # Errors
    /// What the system says.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Transport>>;

    /// The address, if it is one of TCP.
    fn local_addr(&self) -> Option<SocketAddr>;
}

/// Accepts connections and serves each of them by itself: what one client does is nothing to the others.
///
/// An adapter brings the socket, and the ways to have one.
pub struct Listener<S> {
    socket: S,
    file: Option<SocketFile>,
    stopped: Arc<Watch<bool>>,
    connections: usize,
    options: Options,
}

impl<S: Socket> Listener<S> {
    /// Serves at a socket.
    pub fn new(socket: S) -> Self {
        Self { socket, file: None, stopped: Arc::default(), connections: 64, options: Options::default() }
    }

    /// The path of the socket, which is removed in the end.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        self.file = Some(SocketFile(path.to_owned()));
        self
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
        self.socket.local_addr()
    }

    /// What another task or thread calls to have [`serve`](Self::serve) return.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        let stopped = self.stopped.clone();
        Box::new(move || stopped.change(|stopped| *stopped = true))
    }

    /// Serves whoever connects, until it is told to stop. Then it closes all connections, as [`Server::close`] does.
    /// Dropping the future begins to do so, too.
    ///
    /// # Errors
    /// If the socket fails. A connection that fails is nobody else's concern.
    pub async fn serve(self, service: &Service) -> Result<(), Error> {
        let mut servers: Vec<Server> = Vec::new();
        let mut stopped = pin!(self.stopped.until(|stopped| stopped.then_some(())));
        loop {
            let accepted = poll_fn(|cx| match stopped.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => self.socket.poll_accept(cx).map(Some),
            });
            let transport = match accepted.await {
                None => break,
                Some(Ok(transport)) => transport,
                Some(Err(error)) if is_passing(&error) => continue,
                Some(Err(error)) if is_shortage(&error) => {
                    sleep(&<S::Transport as Medium>::Runtime::current()?, SHORTAGE).await;
                    continue;
                }
                Some(Err(error)) => return Err(error.into()),
            };
            servers.retain(|server| !server.handle.is_over());
            if servers.len() < self.connections {
                servers.push(Server::start(service, transport, &self.options)?);
            }
        }
        servers.iter().for_each(|server| server.handle.begin_close());
        for server in &servers {
            server.wait().await;
        }
        Ok(())
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
