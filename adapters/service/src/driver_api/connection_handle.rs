//! The seam between a driver, which owns a connection and its I/O, and what runs on it.

use std::sync::Arc;

use mcp_proto::{
    connection::{Connection, Event},
    rpc::Timestamp,
};

use super::{holder::Holder, job::Job, waiters::Waiters};

/// A driver, as its handlers and handles see it: one connection that can be reached from any thread.
pub trait ConnectionHandle<E>: Send + Sync + 'static {
    /// Runs `f` on the connection, then wakes the driver and the waiters that the change concerns.
    ///
    /// `f` is called exactly once, under the lock of the connection, with the time. It must be quick and must not
    /// block or call back into the handle. Never waits for the peer.
    fn with_mut(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp));

    /// As [`with_mut`](Self::with_mut), for changes that do not depend on the time, so that no clock is read.
    fn with_mut_untimed(&self, f: &mut dyn FnMut(&mut Connection<E>)) {
        self.with_mut(&mut |conn, _| f(conn));
    }

    /// Runs `f` on the connection without changing it.
    fn with_ref(&self, f: &mut dyn FnMut(&Connection<E>));

    /// Returns the wait queues of this connection.
    fn waiters(&self) -> &Waiters;

    /// Returns which client is at the other end, as far as the driver can tell clients apart.
    fn holder(&self) -> Holder {
        Holder::Unknown
    }
}

impl<E: 'static> dyn ConnectionHandle<E> {
    /// [`with_mut`](ConnectionHandle::with_mut) for what hands something back.
    ///
    /// # Panics
    /// If the driver breaks its promise and does not call `f`.
    pub fn update<R>(&self, f: impl FnOnce(&mut Connection<E>, Timestamp) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.with_mut(&mut |conn, now| result = f.take().map(|f| f(conn, now)));
        result.expect("a connection handle calls its closure")
    }

    /// [`with_mut_untimed`](ConnectionHandle::with_mut_untimed) for what hands something back.
    ///
    /// # Panics
    /// As `update`.
    pub fn update_untimed<R>(&self, f: impl FnOnce(&mut Connection<E>) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.with_mut_untimed(&mut |conn| result = f.take().map(|f| f(conn)));
        result.expect("a connection handle calls its closure")
    }

    /// [`with_ref`](ConnectionHandle::with_ref) for what hands something back.
    ///
    /// # Panics
    /// As `update`.
    pub fn read<R>(&self, f: impl FnOnce(&Connection<E>) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.with_ref(&mut |conn| result = f.take().map(|f| f(conn)));
        result.expect("a connection handle calls its closure")
    }
}

/// What runs on a connection.
pub trait Application<E>: Send + Sync + 'static {
    /// The connection is there. A driver calls this once, before any event: a client without a session may listen to
    /// what changes and never cause an event at all (2026-07-28).
    fn begin(&self, _connection: &Arc<dyn ConnectionHandle<E>>) {}

    /// Takes an event. A driver calls this with every event, in order, outside the lock of the connection.
    ///
    /// It is quick, and runs no user code but the [predicate of visibility](crate::ServiceBuilder::visible): what takes
    /// time comes back as a job. So responses, progress and cancellations reach their waiters however busy all handlers
    /// are.
    fn handle(&self, connection: &Arc<dyn ConnectionHandle<E>>, event: Event<'_>) -> Option<Job>;
}
