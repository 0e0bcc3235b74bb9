//! A connection pool.

use std::{future::Future, pin::Pin, sync::Mutex};

use bytes::Bytes;
use http::HeaderValue;
use http_body::{Body as _, Frame};
use hyper::{body::Incoming, client::conn::http1::SendRequest};

use crate::http::net::{
    connection_driver::ConnectionDriver,
    net_runtime::{ConnectRuntime, Recheck},
    tracked_stream::PendingWrite,
};
use crate::{http::body::Body, sync::lock};

/// How many idle connections are kept.
const MAX_IDLE: usize = 128;

/// The scheme, host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) is_secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

/// The server of a connection.
pub(super) struct Target {
    pub(super) origin: Origin,
    /// The value of `Host`.
    pub(super) host: HeaderValue,
}

/// A connection that carries one request at a time. Dropping it closes the connection.
pub(super) struct PooledConnection {
    /// Boxed, so that the future of a request is small.
    pub(super) target: Box<Target>,
    // Dropped before `driver`: hyper then shuts the connection down when it is polled for the last time.
    sender: SendRequest<Body>,
    driver: ConnectionDriver,
    recheck: Recheck,
}

/// Idle connections, the most recently used last. Dropping the pool closes them.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<PooledConnection>>);

impl Pool {
    /// Takes an idle connection whose origin satisfies `is_origin`, and that can be used at once.
    pub(super) fn take(&self, is_origin: impl Fn(&Origin) -> bool) -> Option<PooledConnection> {
        let is_usable =
            |connection: &PooledConnection| is_origin(&connection.target.origin) && connection.is_available();
        loop {
            let mut connections = lock(&self.0);
            let connection = match connections.pop_if(|last| is_usable(last)) {
                Some(last) => last,
                None => {
                    connections.retain(|connection| !connection.sender.is_closed());
                    let index = connections.iter().rposition(is_usable)?;
                    connections.remove(index)
                }
            };
            drop(connections);
            // It may have ended since it was available.
            if connection.driver.begin_request() {
                connection.recheck.request();
                return Some(connection);
            }
        }
    }

    /// Adds a connection whose response has ended. If there are too many, closes the least recently used one.
    ///
    /// The connection is usually available at once. If the server has not read the whole request, it is available once
    /// that is written, and closed after [`UNREAD_TIMEOUT`](super::connection_driver::UNREAD_TIMEOUT).
    pub(super) fn keep(&self, connection: PooledConnection) {
        connection.driver.end_request(connection.sender.is_ready());
        let mut connections = lock(&self.0);
        connections.push(connection);
        // The least recently used one is the first that times out.
        let is_closed = connections.first().is_some_and(|oldest| oldest.sender.is_closed());
        if is_closed || connections.len() > MAX_IDLE {
            connections.retain(|connection| !connection.sender.is_closed());
        }
        let oldest = (connections.len() > MAX_IDLE).then(|| connections.remove(0));
        drop(connections);
        drop(oldest);
    }
}

impl PooledConnection {
    /// Creates a connection that is used by a request. A task of its own closes it when it is idle for too long.
    pub(super) fn new<N: ConnectRuntime>(
        runtime: &N,
        origin: Origin,
        sender: SendRequest<Body>,
        connection: impl Future<Output = hyper::Result<()>> + Send + 'static,
        pending_write: PendingWrite,
    ) -> Result<Self, String> {
        let host = HeaderValue::try_from(origin.name()).map_err(|error| error.to_string())?;
        let driver = ConnectionDriver::new(runtime, connection, pending_write);
        Ok(Self { target: Box::new(Target { origin, host }), sender, driver, recheck: Recheck::default() })
    }

    /// Returns what sends a request, and what polls the connection while the response is awaited.
    pub(super) const fn parts(&mut self) -> (&mut SendRequest<Body>, &ConnectionDriver) {
        (&mut self.sender, &self.driver)
    }

    /// Waits for the next frame of the body of a response.
    pub(super) fn next_frame(
        &self,
        mut body: Pin<&mut Incoming>,
    ) -> impl Future<Output = Option<hyper::Result<Frame<Bytes>>>> {
        self.driver.run(move |cx| body.as_mut().poll_frame(cx))
    }

    /// Drops the connection, and returns its origin.
    pub(super) fn into_origin(self) -> Origin {
        self.target.origin
    }

    /// Sets the flag with which its stream checks the socket before a request.
    pub(super) fn with_recheck(self, recheck: Recheck) -> Self {
        Self { recheck, ..self }
    }

    /// Returns whether a request on this connection would be written at once.
    fn is_available(&self) -> bool {
        // Without vectored writes, hyper takes a request although the one before is not written yet.
        self.sender.is_ready() && !self.driver.has_pending_write()
    }
}
