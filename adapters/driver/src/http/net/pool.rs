//! A connection pool.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::{Duration, Instant},
};

use hyper::client::conn::http1::SendRequest;

use crate::http::net::net_runtime::ConnectRuntime;
use crate::{http::body::Body, runtime::Timer, sync::lock};

/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// How many idle connections are kept.
const MAX_IDLE: usize = 128;

/// The scheme, host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) is_secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

/// A connection that carries one request at a time. Dropping it closes the connection.
pub(super) struct PooledConnection {
    pub(super) origin: Origin,
    pub(super) sender: SendRequest<Body>,
    idle: Arc<Idle>,
}

/// The time since which a connection is idle.
type Idle = Mutex<Option<Instant>>;

/// Idle connections, the most recently used last. Dropping the pool closes them.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<PooledConnection>>);

impl Pool {
    /// Takes an idle connection to this origin that can be used at once.
    pub(super) fn take(&self, origin: &Origin) -> Option<PooledConnection> {
        let mut connections = lock(&self.0);
        connections.retain(|connection| !connection.sender.is_closed());
        let index =
            connections.iter().rposition(|connection| connection.origin == *origin && connection.sender.is_ready())?;
        let connection = connections.remove(index);
        *lock(&connection.idle) = None;
        Some(connection)
    }

    /// Adds an idle connection, and closes the least recently used one if there are too many.
    pub(super) fn keep(&self, connection: PooledConnection) {
        *lock(&connection.idle) = Some(Instant::now());
        let mut connections = lock(&self.0);
        connections.push(connection);
        let oldest = (connections.len() > MAX_IDLE).then(|| connections.remove(0));
        drop(connections);
        drop(oldest);
    }
}

impl PooledConnection {
    /// Creates a connection. A task of its own drives it until it has ended or was idle for too long.
    pub(super) fn new<N: ConnectRuntime>(
        runtime: &N,
        origin: Origin,
        sender: SendRequest<Body>,
        connection: impl Future + Send + 'static,
    ) -> Self {
        let idle = Arc::<Idle>::default();
        N::detach(runtime.spawn(drive(connection, idle.clone(), runtime.timer())));
        Self { origin, sender, idle }
    }
}

/// Polls a connection until it has ended, or was idle for [`IDLE_TIMEOUT`].
async fn drive(connection: impl Future, idle: Arc<Idle>, mut timer: impl Timer) {
    let mut connection = pin!(connection);
    poll_fn(|cx| {
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        loop {
            let since = *lock(&idle);
            // A connection in use is checked again after the same time.
            let until = since.unwrap_or_else(Instant::now) + IDLE_TIMEOUT;
            if timer.poll_until(until, cx).is_pending() {
                return Poll::Pending;
            }
            if since.is_some() {
                return Poll::Ready(());
            }
        }
    })
    .await;
}
