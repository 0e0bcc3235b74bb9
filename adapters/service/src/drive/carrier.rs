//! What holds a connection and has its messages brought to the peer.

#[cfg(feature = "http")]
use std::sync::Arc;
use std::task::Waker;

use mcp_proto::{
    connection::{Connection, Event},
    rpc::Timestamp,
};

#[cfg(feature = "http")]
use super::{Holder, functions::Functions};

/// What holds a connection and has its messages brought to the peer: the connection itself if that is a pipe, or a binding
/// of several streams.
pub(super) trait Carrier<E>: Send + 'static {
    /// The connection, to be used at this time.
    fn connection(&mut self, now: Timestamp) -> &mut Connection<E>;

    /// The connection, for what time is of no matter to, unless to what holds it.
    fn timeless(&mut self, now: impl FnOnce() -> Timestamp) -> &mut Connection<E> {
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
    #[cfg(feature = "http")]
    fn functions(&self) -> Option<(&Arc<Functions>, &Holder)> {
        None
    }

    /// Those who wait for something that is there now, each of them once.
    fn woken(&mut self) -> Vec<Waker> {
        Vec::new()
    }
}

impl<E: Send + 'static> Carrier<E> for Connection<E> {
    fn connection(&mut self, _now: Timestamp) -> &mut Self {
        self
    }

    fn timeless(&mut self, _now: impl FnOnce() -> Timestamp) -> &mut Self {
        self
    }

    fn view(&self) -> &Self {
        self
    }

    fn poll_event(&mut self) -> Option<Event<'static>> {
        self.poll_event()
    }

    fn due(&self) -> Option<Timestamp> {
        self.poll_timeout().map(|deadline| deadline.at)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.handle_timeout(now);
    }

    fn has_output(&self) -> bool {
        self.has_output()
    }

    fn wants_input(&mut self, now: Timestamp) -> bool {
        self.wants_input(now)
    }
}
