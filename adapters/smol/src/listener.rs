//! Many clients at once.

use std::{
    fs,
    future::{Future, poll_fn},
    io,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use crate::{Error, Options, Server, Stopper, Transport};
use async_io::{Async, Timer};
use mcp_service::{
    Service,
    drive::{
        Watch,
        os::{SHORTAGE, is_passing, is_shortage},
    },
};

/// Accepts connections and serves each of them by itself: what one client does is nothing to the others.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    stopped: Arc<Watch<bool>>,
    connections: usize,
    options: Options,
}

#[derive(Debug)]
enum Socket {
    Tcp(Async<TcpListener>),
    Unix(Async<UnixListener>, PathBuf),
}

impl Listener {
    /// Listens on a TCP address. There is no encryption and no authentication: use a loopback address.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub async fn tcp(address: impl ToSocketAddrs + Send + 'static) -> io::Result<Self> {
        // Finding a name's addresses can take its time.
        let listener = blocking::unblock(move || TcpListener::bind(address)).await?;
        Ok(Self::new(Socket::Tcp(Async::new(listener)?)))
    }

    /// Listens on a Unix domain socket, which must not exist and is removed in the end.
    ///
    /// # Errors
    /// If the path cannot be had.
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self::new(Socket::Unix(Async::<UnixListener>::bind(&path)?, path.as_ref().to_owned())))
    }

    fn new(socket: Socket) -> Self {
        Self { socket, stopped: Arc::default(), connections: 64, options: Options::default() }
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
            Socket::Tcp(listener) => listener.get_ref().local_addr().ok(),
            Socket::Unix(..) => None,
        }
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
                Some(Err(error)) if is_shortage(&error) => {
                    Timer::after(SHORTAGE).await;
                    continue;
                }
                Some(Err(error)) => return Err(error.into()),
            };
            servers.retain(|server| !server.is_over());
            if servers.len() < self.connections {
                servers.push(Server::start(service, transport, &self.options)?);
            }
        }
        servers.iter().for_each(Server::begin_close);
        for server in &servers {
            server.wait().await;
        }
        Ok(())
    }
}

impl Socket {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Transport>> {
        loop {
            let accepted = match self {
                Self::Tcp(listener) => listener.get_ref().accept().and_then(|(it, _)| Transport::tcp(Async::new(it)?)),
                Self::Unix(listener, _) => {
                    listener.get_ref().accept().and_then(|(it, _)| Ok(Transport::unix(Async::new(it)?)))
                }
            };
            match (accepted, self) {
                (Err(error), Self::Tcp(listener)) if is_passing(&error) => ready!(listener.poll_readable(cx))?,
                (Err(error), Self::Unix(listener, _)) if is_passing(&error) => ready!(listener.poll_readable(cx))?,
                (accepted, _) => return Poll::Ready(accepted),
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
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
