//! A listener that serves HTTP.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use mcp_driver::{
    Holder, Quota, Runtime,
    http::{self, Shutdown, WriteTimeout},
    os::{
        interrupt::Interrupt,
        net::{self, ACCEPT_BACKOFF, BACKLOG, is_transient, keep_alive, most_connections},
        wake::wake_pair,
    },
    tuning::{JOB_SHUTDOWN_TIMEOUT, WRITE_TIMEOUT},
};
use mcp_proto::http::{
    Policy,
    server::{EndpointOptions, Paths},
};
use mcp_service::Service;

use super::{
    connection_io::{ConnectionIo, Stream},
    endpoint::Endpoint,
    threads::Threads,
};
use mcp_driver::{Error, StopHandle};

/// The time in which clients can read their last responses after a stop.
const CLIENT_GRACE: Duration = Duration::from_secs(1);

/// The descriptors of a connection: its socket, and a pipe.
const DESCRIPTORS: usize = 3;

/// A listener on a TCP address that serves HTTP/1.1, each connection on a thread. It has no TLS, for which a proxy is
/// needed.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    interrupt: Arc<Interrupt>,
    shutdown: Shutdown,
    connections: usize,
    read_timeout: Duration,
    write: Duration,
    endpoint: EndpointOptions,
    options: mcp_driver::DriverOptions,
    #[cfg(feature = "auth")]
    protection: Option<http::ResourceServer>,
}

impl Listener {
    /// Listens on an address, such as `127.0.0.1:8000`. The endpoint is `/mcp`, and accepts clients on the loopback
    /// interface only.
    ///
    /// # Errors
    /// If the address is not available.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let socket = net::listen(address)?;
        let mut endpoint = EndpointOptions::new(Policy::loopback());
        endpoint.paths = Paths::at("/mcp");
        Ok(Self {
            address: socket.local_addr()?,
            socket,
            interrupt: Interrupt::new(),
            shutdown: Shutdown::default(),
            connections: 512,
            read_timeout: Duration::from_secs(30),
            write: WRITE_TIMEOUT,
            endpoint,
            options: mcp_driver::DriverOptions::default(),
            #[cfg(feature = "auth")]
            protection: None,
        })
    }

    /// Sets the names and paths under which the server is reached, the web pages that may use it, and its limits.
    #[must_use]
    pub fn endpoint(mut self, endpoint: EndpointOptions) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Protects the server: every request needs an access token. See [`Endpoint::protect`].
    ///
    /// # Panics
    /// If it is protected already.
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn protect(mut self, server: http::ResourceServer) -> Self {
        let before = self.protection.replace(server);
        assert!(before.is_none(), "a listener is protected once");
        self
    }

    /// Serves the transport of 2024-11-05 as well: its stream at `/sse`, its messages at `/message`.
    #[must_use]
    pub fn with_http_sse(mut self) -> Self {
        self.endpoint.paths = self.endpoint.paths.with_http_sse("/sse", "/message");
        self
    }

    /// Sets the most connections at once. Further ones wait to be accepted. Each takes a thread and three descriptors.
    /// Default 512. In any case they take no more than three quarters of the descriptor limit of this process. A client
    /// has several: one for each stream, and one for its other requests.
    ///
    /// A peer address gets another connection while it has less than seven times the number of free ones. Further ones
    /// are closed. So one address gets at most seven eighths, and a second one at most seven eighths of the rest. If
    /// there are fewer than 8, one address may get all. An IPv6 network of 64 bits counts as one address, and so does a
    /// proxy.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the time for reading the head of a request, and the time for reading its body. Default 30 seconds.
    #[must_use]
    pub const fn read_timeout(mut self, read_timeout: Duration) -> Self {
        self.read_timeout = read_timeout;
        self
    }

    /// Sets the time after which a connection ends whose client reads nothing of pending output. Default 30 seconds.
    #[must_use]
    pub const fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write = timeout;
        self
    }

    /// Sets the options of each session.
    #[must_use]
    pub fn options(mut self, options: mcp_driver::DriverOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the most bytes that the listener holds for all of its peers together while it serves this service.
    /// [`memory_limit`](http::memory_limit) lists the counted buffers; the stacks of threads are not counted.
    #[must_use]
    pub fn memory_limit(&self, service: &Service) -> usize {
        http::memory_limit(service, &self.endpoint.limits, &self.options, self.max_connections())
    }

    /// Returns the maximum number of connections.
    fn max_connections(&self) -> usize {
        self.connections.max(1).min(most_connections(DESCRIPTORS))
    }

    /// Returns the address.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns a handle with which another thread stops [`serve`](Self::serve).
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        // A handle that outlives the listener does not keep its descriptors open.
        let interrupt = Arc::downgrade(&self.interrupt);
        Box::new(move || interrupt.upgrade().iter().for_each(|interrupt| interrupt.stop()))
    }

    /// Accepts and serves connections until it is stopped. Requests that are arriving then are served, if they arrive
    /// within a second: those whose head has arrived, and the first one of each connection. Then it ends all sessions,
    /// as [`Endpoint::close`] does, all connections, and their threads.
    ///
    /// # Errors
    /// If the socket fails, or the system has no free threads or descriptors at the start. A connection that fails does
    /// not affect the others.
    pub fn serve(self, service: &Service) -> Result<(), Error> {
        let threads = Threads::current()?;
        let endpoint = Endpoint::on(service, self.endpoint.clone(), &self.options, threads.clone());
        let endpoint = endpoint.read_timeout(self.read_timeout);
        #[cfg(feature = "auth")]
        let endpoint = match self.protection.clone() {
            Some(server) => endpoint.protect(server),
            None => endpoint,
        };
        let accepted = self.accept(&endpoint, &threads);
        // The connections end as well if the socket has failed.
        self.shutdown.stop();
        threads.shutdown_idle_reads();
        drop(self.socket);
        self.shutdown.wait_arrived();
        self.shutdown.close();
        threads.shutdown_reads();
        endpoint.close().wait();
        // Connections of clients that do not read their responses are closed after this time.
        threads.wait_for_fewer(1, CLIENT_GRACE);
        threads.cancel_connections();
        threads.wait_for_fewer(1, JOB_SHUTDOWN_TIMEOUT);
        drop(endpoint);
        threads.shutdown(JOB_SHUTDOWN_TIMEOUT);
        Ok(accepted?)
    }

    /// Accepts connections until it is stopped.
    fn accept(&self, endpoint: &Endpoint, threads: &Threads) -> io::Result<()> {
        let quota = Quota::new(self.max_connections());
        // The pipe is created first, so that a connection for which there are not enough descriptors waits to be
        // accepted.
        let accept = || Ok((wake_pair()?, self.socket.accept()?));
        let serve = |(pipe, (stream, address)): (_, (TcpStream, SocketAddr))| {
            keep_alive(&stream);
            // A connection beyond the share of its address is closed, and so is one that has already failed.
            if let Some(permit) = quota.take(&Holder::at(address.ip()), 1)
                && let Ok(conn) = ConnectionIo::new(stream, pipe, self.read_timeout, self.shutdown.connection())
            {
                let io = WriteTimeout::new(Stream(conn.clone()), threads, self.write);
                let (endpoint, served) = (endpoint.clone(), conn.clone());
                threads.serve_on_thread(&conn, async move {
                    let _permit = permit;
                    http::serve(io, Some(address.ip()), &endpoint, served.arrivals()).await;
                });
            }
        };
        while let Some(accepted) = self.interrupt.accept(&self.socket, accept)? {
            serve(accepted);
            // A connection that ends makes room for another one.
            while !quota.wait_free(ACCEPT_BACKOFF) && !self.interrupt.is_stopped() {}
        }
        // Connections that wait to be accepted would be reset with the socket, and their clients have sent requests.
        for _ in 0..BACKLOG {
            match accept() {
                Ok(accepted) => serve(accepted),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock && is_transient(&error) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }
}

/// Listens on a TCP address and serves `/mcp` there for as long as this process lives. See [`Listener`] for more
/// options.
///
/// # Errors
/// If the address is not available or the socket fails.
pub fn serve_http(service: &Service, address: impl ToSocketAddrs) -> Result<(), Error> {
    Listener::bind(address)?.serve(service)
}
