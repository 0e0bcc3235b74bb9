//! A connection pool.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use http::HeaderValue;
use hyper::client::conn::http1::SendRequest;

use crate::http::net::{
    net_runtime::{ConnectRuntime, Recheck},
    tracked_stream::PendingWrite,
};
use crate::{http::body::Body, runtime::Timer, sync::lock};

/// How long an idle connection is kept.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// How many idle connections are kept.
const MAX_IDLE: usize = 128;

/// How long a connection is kept after the end of the response while the server has not read the whole request. A
/// server that responds early may still read the rest, which then is not lost.
pub(super) const UNREAD_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// The value of `Host`.
    pub(super) host: HeaderValue,
    // Dropped before `usage`: hyper then shuts the connection down when its task polls it for the last time.
    pub(super) sender: SendRequest<Body>,
    usage: UsageGuard,
    pending_write: PendingWrite,
    recheck: Recheck,
}

/// How a connection is used, for the task that drives it.
#[derive(Default)]
struct Usage {
    phase: Phase,
    /// The task of the connection.
    task: Option<Waker>,
}

#[derive(Clone, Copy, Default)]
enum Phase {
    #[default]
    InUse,
    Idle {
        since: Instant,
    },
    Dropped,
}

/// Sets the phase of a connection, and [`Phase::Dropped`] when it is dropped.
#[derive(Default)]
struct UsageGuard(Arc<Mutex<Usage>>);

/// Idle connections, the most recently used last. Dropping the pool closes them.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<PooledConnection>>);

impl Pool {
    /// Takes an idle connection whose origin satisfies `is_origin`, and that can be used at once.
    pub(super) fn take(&self, is_origin: impl Fn(&Origin) -> bool) -> Option<PooledConnection> {
        let mut connections = lock(&self.0);
        let is_usable = |connection: &PooledConnection| is_origin(&connection.origin) && connection.is_available();
        let connection = match connections.pop_if(|last| is_usable(last)) {
            Some(last) => last,
            None => {
                connections.retain(|connection| !connection.sender.is_closed());
                let index = connections.iter().rposition(is_usable)?;
                connections.remove(index)
            }
        };
        connection.usage.set(Phase::InUse);
        connection.recheck.request();
        Some(connection)
    }

    /// Adds a connection whose response has ended. If there are too many, closes the least recently used one.
    ///
    /// The connection is usually available shortly after. If the server has not read the whole request, it is available
    /// once that is written, and closed after [`UNREAD_TIMEOUT`].
    pub(super) fn keep(&self, connection: PooledConnection) {
        connection.usage.set(Phase::Idle { since: Instant::now() });
        if connection.pending_write.is_pending() {
            // The task waits with another timeout.
            connection.usage.wake();
        }
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
    /// Creates a connection. A task of its own drives it until it has ended, was dropped, or was idle for too long.
    pub(super) fn new<N: ConnectRuntime>(
        runtime: &N,
        origin: Origin,
        sender: SendRequest<Body>,
        connection: impl Future + Send + 'static,
        pending_write: PendingWrite,
    ) -> Result<Self, String> {
        let host = HeaderValue::try_from(origin.name()).map_err(|error| error.to_string())?;
        let usage = UsageGuard::default();
        let driven = drive(connection, usage.0.clone(), pending_write.clone(), runtime.timer());
        N::detach(runtime.spawn(driven));
        Ok(Self { origin, host, sender, usage, pending_write, recheck: Recheck::default() })
    }

    /// Drops the connection, and returns its origin.
    pub(super) fn into_origin(self) -> Origin {
        self.origin
    }

    /// Sets the flag with which its stream checks the socket before a request.
    pub(super) fn with_recheck(self, recheck: Recheck) -> Self {
        Self { recheck, ..self }
    }

    /// Returns whether a request on this connection would be written at once.
    fn is_available(&self) -> bool {
        // Without vectored writes, hyper takes a request although the one before is not written yet.
        self.sender.is_ready() && !self.pending_write.is_pending()
    }
}

impl Usage {
    /// Returns the phase, and registers the task of the connection for [`UsageGuard::wake`].
    fn register(&mut self, cx: &Context<'_>) -> Phase {
        if !self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            self.task = Some(cx.waker().clone());
        }
        self.phase
    }
}

impl UsageGuard {
    fn set(&self, phase: Phase) {
        lock(&self.0).phase = phase;
    }

    /// Wakes the task of the connection.
    fn wake(&self) {
        let task = lock(&self.0).task.clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl Drop for UsageGuard {
    fn drop(&mut self) {
        self.set(Phase::Dropped);
        // hyper wakes the task only if it waits for requests. It does not while it writes one.
        self.wake();
    }
}

/// Polls a connection until it has ended, was dropped, or was idle for too long.
async fn drive(connection: impl Future, usage: Arc<Mutex<Usage>>, pending_write: PendingWrite, mut timer: impl Timer) {
    let mut connection = pin!(connection);
    // The time at which to check whether the connection has been idle for too long.
    let mut check = Instant::now() + IDLE_TIMEOUT;
    poll_fn(|cx| {
        let mut phase = lock(&usage).register(cx);
        // The last poll shuts the connection down, as far as that is possible without waiting.
        if connection.as_mut().poll(cx).is_ready() || matches!(phase, Phase::Dropped) {
            return Poll::Ready(());
        }
        loop {
            let is_unread = pending_write.is_pending();
            let timeout = if is_unread { UNREAD_TIMEOUT } else { IDLE_TIMEOUT };
            if is_unread {
                // It may have become idle while it was polled.
                phase = lock(&usage).phase;
            }
            // The timer is not set anew for each request: an earlier time than that of the timeout does no harm.
            let until = match phase {
                Phase::Idle { since } if timeout < IDLE_TIMEOUT => check.min(since + timeout),
                Phase::Idle { .. } | Phase::InUse | Phase::Dropped => check,
            };
            if timer.poll_until(until, cx).is_pending() {
                return Poll::Pending;
            }
            phase = lock(&usage).phase;
            check = match phase {
                Phase::Idle { since } if since + timeout <= until => return Poll::Ready(()),
                Phase::Idle { since } => since + timeout,
                Phase::InUse | Phase::Dropped => Instant::now() + IDLE_TIMEOUT,
            };
        }
    })
    .await;
    // The connection may stay in the pool for a while, and would keep the memory of this task.
    let task = lock(&usage).task.take();
    drop(task);
}
