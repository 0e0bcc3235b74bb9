//! The connection that users hold: the methods of both roles.

mod backpressure;
#[cfg(feature = "http")]
mod binding;
mod client;
mod in_flight;
mod requests;
mod server;
mod snapshot;

use alloc::{string::String, sync::Arc, vec::Vec};
use core::marker::PhantomData;

use crate::{
    codec::Frame,
    connection::{
        engine::Engine,
        types::{Arrival, Deadline, Event, Settings, Stats, Transmit, Usage},
    },
    protocol::{CapabilitySet, Phase, ProtocolVersion},
    rpc::{ReplyKey, Timestamp},
    schema::LoggingLevel,
    wire::RequestId,
};

/// The client's end: it opens the connection and asks the server.
pub type Client = Connection<ClientEnd>;

/// The server's end.
pub type Server = Connection<ServerEnd>;

/// Marks a [`Connection`] as a client's.
#[derive(Clone, Copy, Debug)]
pub enum ClientEnd {}

/// Marks a [`Connection`] as a server's.
#[derive(Clone, Copy, Debug)]
pub enum ServerEnd {}

/// One end of a connection.
///
/// There are four groups of methods:
///
/// - **what has happened**: [`handle_frame`](Self::handle_frame), [`handle_timeout`](Self::handle_timeout),
///   [`handle_eof`](Self::handle_eof), [`handle_broken`](Self::handle_broken);
/// - **what you want**: [`request`](Self::request), [`notify`](Self::notify), [`cancel`](Self::cancel),
///   [`respond`](Self::respond), [`respond_error`](Self::respond_error), [`progress`](Self::progress),
///   [`close`](Self::close);
/// - **what it wants**: [`poll_event`](Self::poll_event), [`poll_transmit`](Self::poll_transmit),
///   [`poll_timeout`](Self::poll_timeout). After anything of the first two groups, poll all three;
/// - **how it is**: [`is_ready`](Self::is_ready), [`is_drained`](Self::is_drained), [`version`](Self::version), ….
///
/// It does no I/O, reads no clock and calls no code of yours. Input, however hostile, cannot make it panic, and what
/// it holds stays under what [`Limits`](crate::connection::Limits) add up to.
///
/// A clone is another connection in the same state, not a second handle on this one: tests clone it to try out
/// everything that may happen next. What it prints with `Debug` is that state, without the configuration.
#[derive(Clone, Debug)]
pub struct Connection<E> {
    engine: Engine,
    end: PhantomData<E>,
}

impl<E> Connection<E> {
    /// The id that the peer has given its request. `None` once the request has been answered.
    #[must_use]
    pub fn request_id(&self, key: ReplyKey) -> Option<&RequestId> {
        self.engine.requests.get(key).map(|(entry, _)| &entry.id)
    }

    // ---- what has happened ----

    /// A frame has come in: a line of a [`LineDecoder`](crate::codec::LineDecoder), or a whole message from elsewhere.
    ///
    /// The event borrows from the frame. When events wait for [`poll_event`](Self::poll_event), this one queues up
    /// behind them, so that events always come in the order of their causes.
    #[must_use = "an event that is dropped may be a request, which is owed an answer"]
    pub fn handle_frame<'a>(&mut self, now: Timestamp, frame: Frame<'a>) -> Option<Event<'a>> {
        self.engine.handle_frame(now, frame)
    }

    /// As [`handle_frame`](Self::handle_frame), for bindings that know more of a frame than its bytes.
    #[must_use = "an event that is dropped may be a request, which is owed an answer"]
    pub fn handle_frame_from<'a>(&mut self, now: Timestamp, frame: Frame<'a>, arrival: Arrival) -> Option<Event<'a>> {
        self.engine.arrival = Some(Arc::new(arrival));
        let event = self.engine.handle_frame(now, frame);
        self.engine.arrival = None;
        event
    }

    /// As [`handle_frame_from`](Self::handle_frame_from), for a frame of so many bytes that was within the limits and has
    /// been read.
    #[cfg(feature = "http")]
    #[must_use = "an event that is dropped may be a request, which is owed an answer"]
    pub(crate) fn handle_message_from<'a>(
        &mut self,
        now: Timestamp,
        (message, bytes): (crate::wire::Message<'a>, usize),
        arrival: Arrival,
    ) -> Option<Event<'a>> {
        self.engine.arrival = Some(Arc::new(arrival));
        let event = self.engine.handle_message(now, message, bytes);
        self.engine.arrival = None;
        event
    }

    /// Time has passed: at least up to what [`poll_timeout`](Self::poll_timeout) said. Calling it early does nothing.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.engine.handle_timeout(now);
    }

    /// The peer will send no more. Calls end; a server may still answer what it was asked for a while
    /// ([`Limits::drain`](crate::connection::Limits::drain)).
    pub fn handle_eof(&mut self, now: Timestamp) {
        self.engine.handle_eof(now);
    }

    /// Nothing can be written any more. Everything ends at once.
    pub fn handle_broken(&mut self) {
        self.engine.handle_broken(None);
    }

    /// As [`handle_broken`](Self::handle_broken), and `why` is known: it becomes [`CloseReason::Lost`](crate::connection::CloseReason::Lost).
    pub fn handle_lost(&mut self, why: impl Into<String>) {
        self.engine.handle_broken(Some(why.into()));
    }

    // ---- what it wants ----

    /// The next thing that the application should know. Call it until it returns `None`.
    #[must_use = "an event that is dropped may be a request, which is owed an answer"]
    pub fn poll_event(&mut self) -> Option<Event<'static>> {
        self.engine.poll_event()
    }

    /// Appends the next message, with a line feed behind it, to `out`. `None` if there is nothing to write.
    ///
    /// Answers, cancellations and notifications leave before new requests. What has been appended counts as sent. A large
    /// message is not copied if nothing else waits and `out` is empty: it brings a buffer of its own, and takes that of `out`.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        self.engine.poll_transmit(out)
    }

    /// Whether it is worth to call [`poll_transmit`](Self::poll_transmit). If not, there is nothing to write.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.engine.has_output()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.engine.poll_timeout()
    }

    // ---- how it is ----

    /// Whether the handshake is over and the connection is open.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.engine.phase == Phase::Ready
    }

    /// Whether it is over: closed, every event taken, every byte polled. The only way out of the loop.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.engine.is_drained()
    }

    /// How far it is.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.engine.phase
    }

    /// Whether an answer, a notification or progress would not be refused as [`SendError::Busy`](crate::connection::SendError::Busy).
    /// [`poll_room`](Self::poll_room) says when that becomes true. True once the connection is closed, since there is nothing to wait for then.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.engine.phase == Phase::Closed || self.engine.has_room().is_ok()
    }

    /// The same for a request, of which only so many may be in flight. True once the connection closes.
    #[must_use]
    pub fn has_room_for_request(&self) -> bool {
        self.engine.phase >= Phase::Draining || self.engine.has_room_for_request().is_ok()
    }

    /// The negotiated revision.
    #[must_use]
    pub const fn version(&self) -> Option<ProtocolVersion> {
        self.engine.version
    }

    /// What the peer has declared.
    #[must_use]
    pub const fn peer_capabilities(&self) -> CapabilitySet {
        self.engine.peer
    }

    /// What this end has declared.
    #[must_use]
    pub const fn capabilities(&self) -> CapabilitySet {
        self.engine.local
    }

    /// The least severe log messages that the client wants, if it has said so.
    #[must_use]
    pub const fn log_level(&self) -> Option<LoggingLevel> {
        self.engine.log_level
    }

    /// The bounds, times and revisions it was configured with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.engine.settings()
    }

    /// What has been counted since the beginning.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.engine.stats
    }

    /// What is held right now. At rest, everything in it is zero.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.engine.usage()
    }
}
