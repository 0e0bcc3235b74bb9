//! What holds a connection and has its messages brought to the peer.

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

/// What holds a connection and has its messages brought to the peer: over a pipe, or over several streams that are bound to it.
pub(crate) trait Binding<E>: Send + 'static {
    /// The connection, to be used at this time.
    fn connection(&mut self, now: Timestamp) -> &mut Connection<E>;

    /// The connection, for what time is of no matter to, unless to what holds it.
    fn connection_untimed(&mut self, now: impl FnOnce() -> Timestamp) -> &mut Connection<E> {
        self.connection(now())
    }

    /// The connection, to be looked at.
    fn view(&self) -> &Connection<E>;

    /// The next thing that the application should know.
    fn poll_event(&mut self) -> Option<Event<'static>>;

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    fn due(&self) -> Option<Timestamp>;

    /// Time has passed.
    fn handle_timeout(&mut self, now: Timestamp);

    /// Whether there is something that only the driver can bring to the peer.
    fn has_output(&self) -> bool;

    /// Whether to read now. Where each request travels on its own, backpressure is a matter of each exchange.
    fn wants_input(&mut self, _now: Timestamp) -> bool {
        true
    }

    /// Returns what functions share with those of other connections, and which client they are run for.
    fn functions(&self) -> Option<(&Arc<Functions>, &Holder)> {
        None
    }

    /// Those who wait for something that is there now, each of them once.
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
