//! A server with a listener of its own.

use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use hyper_util::rt::TokioIo;
use mcp_proto::http::{
    Policy,
    server::{Options, Paths},
};
use mcp_service::{
    Service,
    drive::{
        Watch, http,
        os::{SHORTAGE, is_passing, is_shortage},
    },
};
use tokio::{
    net::{TcpListener, TcpStream, ToSocketAddrs},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::Endpoint;
use crate::{Error, Stopper};

/// How long clients may take to read what was written before the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Listens on a TCP address, and serves whoever comes over HTTP/1.1. There is no encryption: that is for a proxy in front.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    stopped: Arc<Watch<bool>>,
    connections: usize,
    endpoint: Options,
    options: crate::Options,
}

impl Listener {
    /// Listens on an address, such as `127.0.0.1:8000`. The endpoint is `/mcp`, for whoever comes over the loopback
    /// interface.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let mut endpoint = Options::new(Policy::loopback());
        endpoint.paths = Paths::at("/mcp");
        Ok(Self {
            socket: TcpListener::bind(address).await?,
            stopped: Arc::default(),
            connections: 1024,
            endpoint,
            options: crate::Options::default(),
        })
    }

    /// Under which names and paths the server is reached, by which web pages, and how much it may hold.
    #[must_use]
    pub fn endpoint(mut self, endpoint: Options) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Serves the transport of 2024-11-05 as well: its stream at `/sse`, its messages at `/message`.
    #[must_use]
    pub fn with_old_transport(mut self) -> Self {
        self.endpoint.paths = self.endpoint.paths.with_old_transport("/sse", "/message");
        self
    }

    /// How many connections there may be at once; further ones wait. Default 1,024. A client has several: one for each
    /// stream, and one for what it asks.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How each session is run.
    #[must_use]
    pub fn options(mut self, options: crate::Options) -> Self {
        self.options = options;
        self
    }

    /// The address.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What another task or thread calls to have [`serve`](Self::serve) return.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        let stopped = self.stopped.clone();
        Box::new(move || stopped.change(|stopped| *stopped = true))
    }

    /// Serves whoever connects, until it is told to stop. Then it ends all sessions, as [`Endpoint::close`] does, and all
    /// connections. Dropping the future ends the connections at once.
    ///
    /// # Errors
    /// If the socket fails. A connection that fails is nobody else's concern.
    pub async fn serve(self, service: &Service) -> Result<(), Error> {
        let endpoint = Endpoint::with(service, self.endpoint.clone(), &self.options)?;
        let mut connections = JoinSet::new();
        let mut stopped = pin!(self.stopped.until(|stopped| stopped.then_some(())));
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = poll_fn(|cx| {
                if stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                // One that ends makes room for another one.
                while connections.len() >= self.connections.max(1) {
                    if connections.poll_join_next(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
                self.socket.poll_accept(cx).map(Some)
            });
            match accepted.await {
                None => break,
                Some(Ok((stream, _))) => {
                    connections.spawn(serve(stream, endpoint.clone(), self.stopped.clone()));
                }
                Some(Err(error)) if is_passing(&error) => {}
                Some(Err(error)) if is_shortage(&error) => sleep(SHORTAGE).await,
                Some(Err(error)) => return Err(error.into()),
            }
        }
        drop(self.socket);
        endpoint.close().await;
        // Whoever reads nothing is not waited for.
        let _ = timeout(LAST_WORDS, async { while connections.join_next().await.is_some() {} }).await;
        Ok(())
    }
}

/// Serves one connection.
async fn serve(stream: TcpStream, endpoint: Endpoint, stopped: Arc<Watch<bool>>) {
    // Streams are made of small pieces, and somebody waits for each of them.
    let _ = stream.set_nodelay(true);
    http::serve(TokioIo::new(stream), &endpoint.0, &stopped).await;
}

/// Serves whoever connects to a TCP address, at `/mcp`, for as long as this process lives. See [`Listener`] for more to
/// choose.
///
/// # Errors
/// If the address cannot be had or the socket fails.
pub async fn serve_http(service: &Service, address: impl ToSocketAddrs) -> Result<(), Error> {
    Listener::bind(address).await?.serve(service).await
}
