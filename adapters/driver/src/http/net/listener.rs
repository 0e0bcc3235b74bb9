//! A listener that serves HTTP.

use std::{
    fmt,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use mcp_proto::http::{
    Policy,
    server::{EndpointOptions, Paths},
};

use crate::http::net::net_runtime::NetRuntime;
#[cfg(feature = "tls")]
use crate::http::net::tls::Tls;
#[cfg(feature = "auth")]
use crate::http::resource_server::ResourceServer;
use crate::{
    error::Error,
    http::{
        endpoint::Endpoint,
        memory_limit::memory_limit,
        serve,
        shutdown::{ARRIVAL_GRACE, Shutdown},
        store::Store,
        write_timeout::WriteTimeout,
    },
    limits::quota::{Permit, Quota},
    options::DriverOptions,
    os::net::{self, ACCEPT_BACKOFF, BACKLOG, is_fatal, is_transient, most_connections},
    runtime::{select_biased, sleep, timeout, unblock},
    stop::StopHandle,
    tuning::WRITE_TIMEOUT,
    watched::Watched,
};
use mcp_service::Service;
use mcp_service::driver_api::Holder;

/// How long clients may take to read their last responses after a stop.
const CLIENT_GRACE: Duration = Duration::from_secs(1);

/// A wait in which a runtime looks at its sockets.
const REACTOR_TURN: Duration = Duration::from_millis(1);

/// Listens on a TCP address and serves HTTP/1.1. TLS is usually up to a proxy in front.
pub struct Listener<N: NetRuntime> {
    socket: N::Socket,
    address: SocketAddr,
    shutdown: Shutdown,
    connections: usize,
    read_timeout: Duration,
    write_timeout: Duration,
    endpoint: EndpointOptions,
    options: DriverOptions,
    store: Option<Store>,
    #[cfg(feature = "auth")]
    protection: Option<ResourceServer>,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl<N: NetRuntime> Listener<N> {
    /// Listens on an address, such as `127.0.0.1:8000`. The endpoint is `/mcp`, and accepts clients on the loopback
    /// interface only.
    ///
    /// # Errors
    /// If the address is not available, or there is no runtime.
    pub async fn bind(address: impl ToSocketAddrs + Send + 'static) -> io::Result<Self> {
        let runtime = N::current()?;
        // Name resolution blocks.
        let socket = unblock(&runtime, move || net::listen(address)).await?;
        let mut endpoint = EndpointOptions::new(Policy::loopback());
        endpoint.paths = Paths::at("/mcp");
        Ok(Self {
            address: socket.local_addr()?,
            socket: runtime.listen(socket)?,
            shutdown: Shutdown::default(),
            connections: 2048,
            read_timeout: Duration::from_secs(30),
            write_timeout: WRITE_TIMEOUT,
            endpoint,
            options: DriverOptions::default(),
            store: None,
            #[cfg(feature = "auth")]
            protection: None,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Sets the names and paths under which the server is reached, the web pages that may use it, and its limits.
    #[must_use]
    pub fn endpoint(mut self, endpoint: EndpointOptions) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Serves the transport of 2024-11-05 as well: its stream at `/sse`, its messages at `/message`.
    #[must_use]
    pub fn with_http_sse(mut self) -> Self {
        self.endpoint.paths = self.endpoint.paths.with_http_sse("/sse", "/message");
        self
    }

    /// Sets how many connections there may be at once; further ones wait to be accepted. Default 2,048. In any case
    /// they take no more than three quarters of the descriptor limit of this process. A client has several: one for
    /// each stream, and one for its other requests.
    ///
    /// A peer address gets connections as long as it has fewer than seven times as many as are left; further ones are
    /// closed. So one address gets at most seven eighths, and a second one at most seven eighths of the rest. Of fewer
    /// than 8, one address may get all. An IPv6 network of 64 bits counts as one address, and so does a proxy.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets how long reading the head of a request may take, and then reading its body. Default 30 seconds.
    #[must_use]
    pub fn read_timeout(mut self, read_timeout: Duration) -> Self {
        self.read_timeout = read_timeout;
        self
    }

    /// Sets how long a client may read nothing of pending output before its connection ends. Default 30 seconds.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Sets the options of each session.
    #[must_use]
    pub fn options(mut self, options: DriverOptions) -> Self {
        self.options = options;
        self
    }

    /// Protects the server: every request needs an access token. See [`Endpoint::protect`].
    ///
    /// # Panics
    /// If it is protected already.
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn protect(mut self, server: ResourceServer) -> Self {
        let before = self.protection.replace(server);
        assert!(before.is_none(), "a listener is protected once");
        self
    }

    /// Serves TLS with this configuration.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, config: Arc<rustls::ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Sets a store that this process shares with others: any of them can then respond to any request. Default: each
    /// process has sessions of its own.
    #[must_use]
    pub fn store(mut self, store: Store) -> Self {
        self.store = Some(store);
        self
    }

    /// Returns the most bytes that the listener holds for all of its peers together while it serves this service.
    /// [`memory_limit`] lists what is counted.
    #[must_use]
    pub fn memory_limit(&self, service: &Service) -> usize {
        memory_limit(service, &self.endpoint.limits, &self.options, self.max_connections())
    }

    /// Returns the maximum number of connections.
    fn max_connections(&self) -> usize {
        self.connections.max(1).min(most_connections(1))
    }

    /// Returns the address.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns a handle with which another task or thread stops [`serve`](Self::serve).
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        let shutdown = self.shutdown.clone();
        Box::new(move || shutdown.stop())
    }

    /// Accepts and serves connections until it is stopped. Requests that are arriving then are served, if they arrive
    /// within a second: those whose head has arrived, and the first one of each connection. Then it ends all sessions,
    /// as [`Endpoint::close`] does, and all connections. Dropping the future ends the connections at once.
    ///
    /// # Errors
    /// If the socket fails. A connection that fails does not affect the others.
    pub async fn serve(self, service: &Service) -> Result<(), Error> {
        let runtime = N::current()?;
        let (endpoint, store) = (self.endpoint.clone(), self.store.clone());
        let endpoint = Endpoint::with_runtime(service, endpoint, &self.options, runtime.clone(), store);
        let endpoint = endpoint.read_timeout(self.read_timeout);
        #[cfg(feature = "auth")]
        let endpoint = match self.protection.clone() {
            Some(server) => endpoint.protect(server),
            None => endpoint,
        };
        let quota = Quota::new(self.max_connections());
        let disconnect_guard = DisconnectGuard(Arc::default());
        let serve = |(stream, address): (N::Stream, SocketAddr)| {
            // A connection beyond the share of its address is closed.
            if let Some(permit) = quota.take(&Holder::at(address.ip()), 1) {
                let served = (endpoint.clone(), permit, disconnect_guard.0.clone());
                N::detach(self.serve_connection(&runtime, (stream, address.ip()), served));
            }
        };
        let mut stopped = pin!(self.shutdown.stopped());
        loop {
            let accept = async {
                // A connection that ends makes room for another one.
                quota.until_free().await;
                poll_fn(|cx| N::poll_accept(&self.socket, cx)).await
            };
            match select_biased(stopped.as_mut(), accept).await {
                Ok(()) => break,
                Err(Ok(accepted)) => serve(accepted),
                Err(Err(error)) if is_transient(&error) => {}
                Err(Err(error)) if is_fatal(&error) => return Err(error.into()),
                Err(Err(_)) => sleep(&runtime, ACCEPT_BACKOFF).await,
            }
        }
        // Connections that wait to be accepted would be reset with the socket, and their clients have sent requests.
        let mut has_waited = false;
        for _ in 0..BACKLOG {
            match poll_fn(|cx| Poll::Ready(N::poll_accept(&self.socket, cx))).await {
                Poll::Ready(Ok(accepted)) => serve(accepted),
                Poll::Ready(Err(error)) if is_transient(&error) => {}
                // The runtime may not have looked at the socket since it reported all earlier connections.
                Poll::Pending if !has_waited => {
                    has_waited = true;
                    sleep(&runtime, REACTOR_TURN).await;
                }
                _ => break,
            }
        }
        drop(self.socket);
        timeout(&runtime, ARRIVAL_GRACE, self.shutdown.arrived()).await;
        self.shutdown.close();
        endpoint.close().await;
        // Connections of clients that do not read their responses are closed after this time.
        timeout(&runtime, CLIENT_GRACE, quota.until_unused()).await;
        drop(disconnect_guard);
        Ok(())
    }

    /// Spawns the task that serves a connection.
    fn serve_connection(
        &self,
        runtime: &N,
        (stream, peer): (N::Stream, IpAddr),
        (endpoint, permit, disconnected): (Endpoint<N>, Permit, Arc<Watched<bool>>),
    ) -> N::Task {
        let arrivals = self.shutdown.connection();
        let stream = WriteTimeout::new(stream, runtime, self.write_timeout);
        #[cfg(feature = "tls")]
        if let Some(config) = self.tls.clone() {
            return runtime.spawn(async move {
                if let Ok(stream) = Tls::server(config, stream) {
                    let disconnected = pin!(disconnected.wait_for(|disconnected| disconnected.then_some(())));
                    let served = pin!(serve(stream, Some(peer), &endpoint, &arrivals));
                    let _ = select_biased(served, disconnected).await;
                }
                drop(permit);
            });
        }
        // This future exists once per connection. Pinning in place and not moving captured values keep it small: each
        // value is stored once.
        runtime.spawn(async move {
            let disconnected = pin!(disconnected.wait_for(|disconnected| disconnected.then_some(())));
            let served = pin!(serve(stream, Some(peer), &endpoint, &arrivals));
            let _ = select_biased(served, disconnected).await;
            drop(permit);
        })
    }
}

impl<N: NetRuntime> fmt::Debug for Listener<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Ends all connections when it is dropped.
struct DisconnectGuard(Arc<Watched<bool>>);

impl Drop for DisconnectGuard {
    fn drop(&mut self) {
        self.0.update(|disconnected| *disconnected = true);
    }
}

/// Listens on a TCP address and serves `/mcp` there for as long as this process lives. See [`Listener`] for more
/// options.
///
/// # Errors
/// If the address is not available or the socket fails.
pub async fn serve_http<N: NetRuntime>(
    service: &Service,
    address: impl ToSocketAddrs + Send + 'static,
) -> Result<(), Error> {
    Listener::<N>::bind(address).await?.serve(service).await
}
