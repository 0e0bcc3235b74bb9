//! The interface between a driver and the binding that holds a connection.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    task::Waker,
};

use mcp_proto::{
    connection::{Connection, Event},
    rpc::Timestamp,
};

use crate::limits::functions::Functions;
use mcp_service::driver_api::Holder;

/// Holds a connection and binds its messages to a transport: to a pipe, or to several streams.
pub(crate) trait Binding<E>: Send + 'static {
    /// Returns the connection, for use at this time.
    fn connection(&mut self, now: Timestamp) -> &mut Connection<E>;

    /// Returns the connection, for use that does not depend on the time. A binding that needs the time calls `now`.
    fn connection_untimed(&mut self, now: impl FnOnce() -> Timestamp) -> &mut Connection<E> {
        self.connection(now())
    }

    /// Returns the connection, for reading.
    fn view(&self) -> &Connection<E>;

    /// Returns the next event for the application.
    fn poll_event(&mut self) -> Option<Event<'static>>;

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called next.
    fn due(&self) -> Option<Timestamp>;

    /// Processes expired deadlines.
    fn handle_timeout(&mut self, now: Timestamp);

    /// Returns whether there is output that only the driver can bring to the peer.
    fn has_output(&self) -> bool;

    /// Returns whether to read now. Bindings whose requests travel on streams of their own apply backpressure to each
    /// stream instead.
    fn wants_input(&mut self, _now: Timestamp) -> bool {
        true
    }

    /// Returns what functions share with those of other connections, and which client they are run for.
    fn functions(&self) -> Option<(&Arc<Functions>, &Holder)> {
        None
    }

    /// Takes the wakers of tasks for which there is something now, each of them once.
    fn woken(&mut self) -> Vec<Waker> {
        Vec::new()
    }
}

/// A connection that has a pipe to itself.
pub(crate) struct PipeBinding<E> {
    connection: Connection<E>,
    functions: Option<(Arc<Functions>, Holder)>,
}

impl<E> PipeBinding<E> {
    /// Creates one whose functions count among those of other connections, if it is one of several.
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
