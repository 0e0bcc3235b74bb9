//! The seam between a driver, which owns a connection and its I/O, and what runs on it.

use std::sync::Arc;

use mcp_proto::{
    connection::{Connection, Event},
    rpc::Timestamp,
};

use super::{holder::Holder, job::Job, waiters::Lobby};

/// A driver, as its handlers and handles see it: one connection that can be reached from any thread.
pub trait Link<E>: Send + Sync + 'static {
    /// Runs `f` on the connection, then wakes the driver and the waiters that the change concerns.
    ///
    /// `f` is called exactly once, under the lock of the connection, with the time. It must be quick and must not
    /// block or call back into the link. Never waits for the peer.
    fn with(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp));

    /// As [`with`](Self::with), for changes that do not depend on the time, so that no clock is read.
    fn touch(&self, f: &mut dyn FnMut(&mut Connection<E>)) {
        self.with(&mut |conn, _| f(conn));
    }

    /// Runs `f` on the connection without changing it.
    fn view(&self, f: &mut dyn FnMut(&Connection<E>));

    /// Returns the wait queues of this connection.
    fn lobby(&self) -> &Lobby;

    /// Returns which client is at the other end, as far as the driver can tell clients apart.
    fn holder(&self) -> Holder {
        Holder::Unknown
    }
}

impl<E: 'static> dyn Link<E> {
    /// [`with`](Link::with) for what hands something back.
    ///
    /// # Panics
    /// If the driver breaks its promise and does not call `f`.
    pub fn run<R>(&self, f: impl FnOnce(&mut Connection<E>, Timestamp) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.with(&mut |conn, now| result = f.take().map(|f| f(conn, now)));
        result.expect("a link calls what it is handed")
    }

    /// [`touch`](Link::touch) for what hands something back.
    ///
    /// # Panics
    /// As `run`.
    pub fn change<R>(&self, f: impl FnOnce(&mut Connection<E>) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.touch(&mut |conn| result = f.take().map(|f| f(conn)));
        result.expect("a link calls what it is handed")
    }

    /// [`view`](Link::view) for what hands something back.
    ///
    /// # Panics
    /// As `run`.
    pub fn look<R>(&self, f: impl FnOnce(&Connection<E>) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.view(&mut |conn| result = f.take().map(|f| f(conn)));
        result.expect("a link calls what it is handed")
    }
}

/// What runs on a connection.
pub trait Application<E>: Send + Sync + 'static {
    /// The connection is there. A driver calls this once, before any event: a client without a session may listen to
    /// what changes and never cause an event at all (2026-07-28).
    fn begin(&self, _link: &Arc<dyn Link<E>>) {}

    /// Takes an event. A driver calls this with every event, in order, outside the lock of the connection.
    ///
    /// It is quick, and runs no user code but the [predicate of visibility](crate::ServiceBuilder::visible): what takes
    /// time comes back as a job. So responses, progress and cancellations reach their waiters however busy all handlers
    /// are.
    fn handle(&self, link: &Arc<dyn Link<E>>, event: Event<'_>) -> Option<Job>;
}
