//! The connection, with the methods of both roles.

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
        types::{Arrival, Deadline, Event, ResourceUsage, Settings, Stats, Transmit},
    },
    protocol::{CapabilitySet, Phase, ProtocolVersion},
    rpc::{ReplyKey, Timestamp},
    schema::LoggingLevel,
    wire::RequestId,
};

/// The client's end of a connection: it opens the connection and sends requests to the server.
pub type Client = Connection<ClientRole>;

/// The server's end of a connection.
pub type Server = Connection<ServerRole>;

/// The marker of a client's [`Connection`].
#[doc(alias = "RoleClient")]
#[derive(Clone, Copy, Debug)]
pub enum ClientRole {}

/// The marker of a server's [`Connection`].
#[doc(alias = "RoleServer")]
#[derive(Clone, Copy, Debug)]
pub enum ServerRole {}

/// One end of a connection.
///
/// There are four groups of methods:
///
/// - **input**: [`handle_frame`](Self::handle_frame), [`handle_timeout`](Self::handle_timeout),
///   [`handle_eof`](Self::handle_eof), [`handle_disconnect`](Self::handle_disconnect);
/// - **actions of the application**: [`request`](Self::request), [`notify`](Self::notify), [`cancel`](Self::cancel),
///   [`respond`](Self::respond), [`respond_error`](Self::respond_error), [`progress`](Self::progress),
///   [`close`](Self::close);
/// - **output**: [`poll_event`](Self::poll_event), [`poll_transmit`](Self::poll_transmit),
///   [`poll_timeout`](Self::poll_timeout). After any call of the first two groups, poll all three;
/// - **state**: [`is_ready`](Self::is_ready), [`is_drained`](Self::is_drained), [`version`](Self::version), ….
///
/// A connection does no I/O, reads no clock and calls no code of the application. No input, however hostile, makes it
/// panic, and its memory stays under the sum of its [`Limits`](crate::connection::Limits).
///
/// A clone is another connection in the same state, not a second handle to this one: tests clone it to try out
/// everything that may happen next. `Debug` prints that state, without the configuration.
#[derive(Clone, Debug)]
pub struct Connection<E> {
    engine: Engine,
    role: PhantomData<E>,
}

impl<E> Connection<E> {
    /// Returns the id that the peer has given its request. `None` once the request has ended and its response, if any,
    /// was polled.
    #[must_use]
    pub fn request_id(&self, key: ReplyKey) -> Option<&RequestId> {
        self.engine.requests.get(key).map(|(entry, _)| &entry.id)
    }

    // ---- input ----

    /// Handles a frame from the peer: a line of a [`LineDecoder`](crate::codec::LineDecoder), or a whole message of
    /// another transport.
    ///
    /// The event borrows from the frame. If events wait for [`poll_event`](Self::poll_event), this one is queued after
    /// them, so that events are in the order of their causes.
    #[must_use = "an event that is dropped may be a request, which then gets no response"]
    pub fn handle_frame<'a>(&mut self, now: Timestamp, frame: Frame<'a>) -> Option<Event<'a>> {
        self.engine.handle_frame(now, frame)
    }

    /// Handles a frame as [`handle_frame`](Self::handle_frame) does, with the stream, principal and headers of its
    /// arrival.
    #[must_use = "an event that is dropped may be a request, which then gets no response"]
    pub fn handle_frame_from<'a>(&mut self, now: Timestamp, frame: Frame<'a>, arrival: Arrival) -> Option<Event<'a>> {
        self.engine.arrival = Some(Arc::new(arrival));
        let event = self.engine.handle_frame(now, frame);
        self.engine.arrival = None;
        event
    }

    /// Handles a frame as [`handle_frame`](Self::handle_frame) does, which arrived on the stream of a request of this
    /// side.
    #[cfg(feature = "http")]
    #[must_use = "an event that is dropped may be a request, which then gets no response"]
    pub(crate) fn handle_frame_about<'a>(
        &mut self,
        now: Timestamp,
        frame: Frame<'a>,
        related_call: Option<crate::rpc::CallId>,
    ) -> Option<Event<'a>> {
        match related_call {
            Some(_) => self.handle_frame_from(now, frame, Arrival { related_call, ..Arrival::default() }),
            None => self.handle_frame(now, frame),
        }
    }

    /// Handles the passing of time: at least up to the deadline of [`poll_timeout`](Self::poll_timeout). A call before
    /// that deadline only sets the clock. Call it before a response to a request of the peer, if this side is a client
    /// of 2026-07-28: the response may continue a call, whose timeouts begin at the latest time that the connection
    /// knows.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.engine.handle_timeout(now);
    }

    /// Handles the end of the peer's input. Calls end; a server may still send responses for a while
    /// ([`Limits::drain`](crate::connection::Limits::drain)). A client's connection ends.
    pub fn handle_eof(&mut self, now: Timestamp) {
        self.engine.handle_eof(now);
    }

    /// Handles a failed transport: nothing can be written any more, and everything ends at once.
    pub fn handle_disconnect(&mut self) {
        self.engine.handle_disconnect(None);
    }

    /// Handles a failed transport as [`handle_disconnect`](Self::handle_disconnect) does. `why` becomes
    /// [`CloseReason::TransportError`](crate::connection::CloseReason::TransportError).
    pub fn handle_transport_error(&mut self, why: impl Into<String>) {
        self.engine.handle_disconnect(Some(why.into()));
    }

    // ---- output ----

    /// Returns the next event for the application. Call it until it returns `None`.
    #[must_use = "an event that is dropped may be a request, which then gets no response"]
    pub fn poll_event(&mut self) -> Option<Event<'static>> {
        self.engine.poll_event()
    }

    /// Appends the next message and a line feed to `out`. Returns `None` if there is nothing to write.
    ///
    /// Responses, cancellations and notifications are sent before new requests. An appended message counts as sent. A
    /// large message is not copied if nothing else waits and `out` is empty: the connection swaps its buffer with
    /// `out`.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        self.engine.poll_transmit(out)
    }

    /// Returns whether [`poll_transmit`](Self::poll_transmit) may have output. If not, there is nothing to write.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.engine.has_output()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.engine.poll_timeout()
    }

    // ---- state ----

    /// Returns whether the handshake is complete and the connection is open.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.engine.phase == Phase::Ready
    }

    /// Returns whether the driver is done: the connection is closed, and every event and every byte was polled. It is
    /// the only condition to leave the driver's loop.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.engine.is_drained()
    }

    /// Returns the phase of the connection.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.engine.phase
    }

    /// Returns whether a response, a notification or progress would not be refused as
    /// [`SendError::Busy`](crate::connection::SendError::Busy). [`poll_writable`](Self::poll_writable) reports when
    /// that becomes true. It is always true once the connection is closed, since there is nothing to wait for then.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.engine.phase == Phase::Closed || self.engine.has_room().is_ok()
    }

    /// Returns whether a request would not be refused as [`SendError::Busy`](crate::connection::SendError::Busy). It is
    /// always true once the connection closes.
    #[must_use]
    pub fn has_room_for_request(&self) -> bool {
        self.engine.phase >= Phase::Draining || self.engine.has_room_for_request().is_ok()
    }

    /// Returns the negotiated revision.
    #[must_use]
    pub const fn version(&self) -> Option<ProtocolVersion> {
        self.engine.version
    }

    /// Returns the capabilities that the peer has declared for the connection. A modern client declares them for each
    /// request instead: see [`context`](Connection::context).
    #[must_use]
    pub const fn peer_capabilities(&self) -> CapabilitySet {
        self.engine.peer
    }

    /// Returns the capabilities that this end has declared.
    #[must_use]
    pub const fn capabilities(&self) -> CapabilitySet {
        self.engine.local
    }

    /// Returns the least severe level of log messages that the client requests, if it has set one.
    #[must_use]
    pub const fn log_level(&self) -> Option<LoggingLevel> {
        self.engine.log_level
    }

    /// Returns the limits, times and revisions of the configuration.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.engine.settings()
    }

    /// Returns the counters since the beginning of the connection.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.engine.stats
    }

    /// Returns the current sizes of the tables and buffers. All are zero when the connection is idle.
    #[must_use]
    pub fn usage(&self) -> ResourceUsage {
        self.engine.usage()
    }
}
