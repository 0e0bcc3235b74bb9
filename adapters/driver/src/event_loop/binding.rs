//! The interface between a driver and the binding that holds a connection.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    task::Waker,
};

use mcp_proto::{
    connection::{Connection, Event},
    rpc::{ReplyKey, Timestamp},
};

use crate::limits::functions::Functions;
use mcp_service::driver_api::Holder;

/// A connection and the mapping of its messages to a transport: to one pipe, or to several streams.
pub(crate) trait Binding<E>: Send + 'static {
    /// Returns the connection, for operations at time `now`.
    fn connection(&mut self, now: Timestamp) -> &mut Connection<E>;

    /// Returns the connection, for operations that do not depend on the time. A binding that needs the time calls
    /// `now`.
    fn connection_untimed(&mut self, now: impl FnOnce() -> Timestamp) -> &mut Connection<E> {
        self.connection(now())
    }

    /// Returns the connection, for reading.
    fn view(&self) -> &Connection<E>;

    /// Returns the next event for the application.
    fn poll_event(&mut self) -> Option<Event<'static>>;

    /// Returns the next deadline of [`handle_timeout`](Self::handle_timeout).
    fn due(&self) -> Option<Timestamp>;

    /// Processes expired deadlines.
    fn handle_timeout(&mut self, now: Timestamp);

    /// Returns whether there is output that only the driver can write to the peer.
    fn has_output(&self) -> bool;

    /// Returns whether to read now. Bindings with one stream per request apply backpressure to each stream instead.
    fn wants_input(&mut self, _now: Timestamp) -> bool {
        true
    }

    /// Returns the limit that blocking functions share with other connections, and the client that they count for. Both
    /// stay the same.
    fn functions(&self) -> Option<(&Arc<Functions>, &Holder)> {
        None
    }

    /// Returns whether the binding provides the principals of requests that have one.
    fn authenticates(&self) -> bool {
        false
    }

    /// Responds to a request that needs more scopes than its principal has. Returns false if the binding has no
    /// response for that.
    fn needs_scopes(&mut self, _now: Timestamp, _key: ReplyKey, _scopes: &[String]) -> bool {
        false
    }

    /// Records that a request requires scopes, which its principal has: no other principal may resume the stream of its
    /// response.
    fn require_scopes(&mut self, _now: Timestamp, _key: ReplyKey, _scopes: &[String]) {}

    /// Takes the wakers of tasks that can make progress. Each waker is returned once.
    fn woken(&mut self) -> Vec<Waker> {
        Vec::new()
    }
}

/// A connection that uses one pipe alone.
pub(crate) struct PipeBinding<E> {
    connection: Connection<E>,
    functions: Option<(Arc<Functions>, Holder)>,
}

impl<E> PipeBinding<E> {
    /// Creates a binding. `functions` is the limit that its blocking functions share with other connections, if there
    /// is one.
    pub(crate) const fn new(connection: Connection<E>, functions: Option<(Arc<Functions>, Holder)>) -> Self {
        Self { connection, functions }
    }
}

impl<E> Deref for PipeBinding<E> {
    type Target = Connection<E>;

    fn deref(&self) -> &Connection<E> {
        &self.connection
    }
}

impl<E> DerefMut for PipeBinding<E> {
    fn deref_mut(&mut self) -> &mut Connection<E> {
        &mut self.connection
    }
}

impl<E: Send + 'static> Binding<E> for PipeBinding<E> {
    fn connection(&mut self, _now: Timestamp) -> &mut Connection<E> {
        &mut self.connection
    }

    fn connection_untimed(&mut self, _now: impl FnOnce() -> Timestamp) -> &mut Connection<E> {
        &mut self.connection
    }

    fn view(&self) -> &Connection<E> {
        &self.connection
    }

    fn poll_event(&mut self) -> Option<Event<'static>> {
        self.connection.poll_event()
    }

    fn due(&self) -> Option<Timestamp> {
        self.connection.poll_timeout().map(|deadline| deadline.at)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.connection.handle_timeout(now);
    }

    fn has_output(&self) -> bool {
        self.connection.has_output()
    }

    fn wants_input(&mut self, now: Timestamp) -> bool {
        self.connection.wants_input(now)
    }

    fn functions(&self) -> Option<(&Arc<Functions>, &Holder)> {
        self.functions.as_ref().map(|(functions, holder)| (functions, holder))
    }
}
