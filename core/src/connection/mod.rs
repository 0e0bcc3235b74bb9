//! [`Client`] and [`Server`]: one connection as a state machine.
//!
//! Frames and the time go in through `handle_*`; events, bytes and the next deadline come out through `poll_*`;
//! in between, the application says what it wants. See the [crate documentation](crate) for the loop around it.

mod arrival;
mod batch;
#[cfg(feature = "http")]
mod binding;
mod caching;
mod changes;
mod client;
mod closing;
mod config;
mod context;
mod engine;
mod error;
mod event;
mod failure;
mod gauges;
mod handshake;
mod in_flight;
mod intake;
mod keepalive;
mod limits;
mod listening;
mod modern;
mod opening;
mod poll;
mod probe;
mod pursuit;
mod receive;
mod remarks;
mod renegotiate;
mod repeat;
mod responses;
mod rounds;
mod send;
mod splice;
mod standing;
mod subscriptions;
mod task_questions;
mod tasks;
mod verbs;

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{marker::PhantomData, time::Duration};

pub use arrival::{Arrival, Principal};
#[cfg(feature = "http")]
pub(crate) use binding::request_weight;
pub use config::{ClientConfig, ServerConfig, Settings};
pub use context::{RequestContext, TaskProgress};
pub use error::{CloseReason, SendError, Violation};
pub use event::{CancelCause, Event, Outcome, Progress};
pub use failure::Failure;
pub use gauges::{Stats, Usage};
pub use in_flight::{InboundRequest, OutboundRequest, RequestState};
pub use intake::Room;
pub use limits::{Backoff, Keepalive, Limits, Polling, RequestOptions};
pub use opening::Opening;
pub use poll::{Deadline, Route, Transmit, Wake};
pub use standing::Standing;

use crate::{
    codec::Frame,
    protocol::{CapabilitySet, HeaderParam, Phase, ProtocolVersion},
    rpc::{CallId, ReplyKey, Timestamp},
    schema::{InitializeParams, InitializeResult, LoggingLevel, ResourceUpdatedParams},
    wire::{ErrorObject, RawJson, RequestId},
};
use engine::{Engine, Side};
use modern::header_mismatch;

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
/// it holds stays under what [`Limits`] add up to.
///
/// A clone is another connection in the same state, not a second handle on this one: tests clone it to try out
/// everything that may happen next. What it prints with `Debug` is that state, without the configuration.
#[derive(Clone, Debug)]
pub struct Connection<E> {
    engine: Engine,
    end: PhantomData<E>,
}

impl Connection<ClientEnd> {
    /// A client whose first message waits to be written. A configuration can be shared by any number of them.
    #[must_use]
    pub fn new(config: impl Into<Arc<ClientConfig>>, now: Timestamp) -> Self {
        Self::knowing(config, Opening::unknown(), now)
    }

    /// [`new`](Self::new) for a client that knows something of the server.
    #[must_use]
    pub fn knowing(config: impl Into<Arc<ClientConfig>>, opening: Opening, now: Timestamp) -> Self {
        let mut engine = Engine::new(Side::client(config.into(), opening), now);
        engine.open(now);
        Self { engine, end: PhantomData }
    }

    /// Follows a task of the extension whose id is known (2026-07-28), perhaps from an earlier connection. What comes of it
    /// is what comes of a request that becomes a task: its questions, and exactly one [`Event::Response`] with what the
    /// request would have come to. A task that is followed more than once says what it says to each call. But a task that is followed by its id does not end with this: whoever does not want to
    /// follow it any more cancels the call, and whoever does not want the task asks for its end, with `tasks/cancel`.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has changed then.
    pub fn follow_task(&mut self, now: Timestamp, task: &str, options: RequestOptions) -> Result<CallId, SendError> {
        let pursued = self.engine.pursue(now, task, options);
        self.engine.noted(Room::Request, pursued)
    }

    /// What the server said of itself in the handshake.
    #[must_use]
    pub fn server(&self) -> Option<&InitializeResult> {
        match &self.engine.side {
            Side::Client { server, .. } => server.as_deref(),
            Side::Server { .. } => None,
        }
    }
}

impl Connection<ServerEnd> {
    /// A server that waits for `initialize`. A configuration can be shared by any number of them.
    #[must_use]
    pub fn new(config: impl Into<Arc<ServerConfig>>, now: Timestamp) -> Self {
        let side = Side::Server { config: config.into(), client: None };
        Self { engine: Engine::new(side, now), end: PhantomData }
    }

    /// What the client said of itself in the handshake.
    #[must_use]
    pub const fn client(&self) -> Option<&InitializeParams> {
        match &self.engine.side {
            Side::Client { .. } => None,
            Side::Server { client, .. } => client.as_ref(),
        }
    }

    /// The subscriptions (2026-07-28) that a change of this resource concerns, by the requests that opened them: their
    /// [`context`](Self::context) says whose they are. Those of a session are not among them: they are the application's.
    #[must_use]
    pub fn listeners(&self, uri: &str) -> Vec<ReplyKey> {
        self.engine.listeners(uri).into_iter().map(|(key, _)| key).collect()
    }

    /// Tells those who listen (2026-07-28) that a resource has changed, of the [`listeners`](Self::listeners) those that
    /// `may_hear` of it, but not the session that may be there, too: [`notify`](Self::notify) tells all of them.
    ///
    /// # Errors
    /// If it was not declared, or too much waits to be written. Nobody has been told then.
    pub fn tell_listeners(
        &mut self,
        updated: &ResourceUpdatedParams,
        may_hear: impl FnMut(ReplyKey) -> bool,
    ) -> Result<(), SendError> {
        let told = self.engine.tell_listeners(&updated.uri, may_hear);
        self.engine.noted(Room::Message, told)
    }

    /// Opens a subscription that names tasks (2026-07-28), and says which of them it will hear of: those for which
    /// `is_there` is true, because they exist and whoever asks may know of them.
    ///
    /// Such a subscription comes as an [`Event::Request`] with [`Method::Listen`](crate::protocol::Method::Listen), and is
    /// answered with this or with an error. All others are opened by the connection itself.
    ///
    /// # Errors
    /// If the request is none of this kind, has been answered, or too much waits to be written.
    pub fn accept_subscription(&mut self, key: ReplyKey, is_there: impl FnMut(&str) -> bool) -> Result<(), SendError> {
        let accepted = self.engine.accept_subscription(key, is_there);
        self.engine.noted(Room::Message, accepted)
    }

    /// In which circumstances a request was made: which revision, which capabilities, who.
    ///
    /// `None` once the request has been answered.
    #[must_use]
    pub fn context(&self, key: ReplyKey) -> Option<RequestContext<'_>> {
        let (entry, _) = self.engine.requests.get(key)?;
        let (progress_token, trace) = (entry.token(), entry.tag.trace.as_deref());
        let principal = entry.tag.arrival.as_ref().and_then(|arrival| arrival.principal.as_deref());
        if let Some(modern) = &entry.tag.modern {
            return Some(RequestContext {
                version: modern.version,
                client_capabilities: &modern.capabilities,
                client_info: modern.info.as_ref(),
                log_level: modern.log_level,
                progress_token,
                trace,
                principal,
            });
        }
        let client = self.client()?;
        Some(RequestContext {
            version: self.engine.version?,
            client_capabilities: &client.capabilities,
            client_info: Some(&client.client_info),
            log_level: self.engine.log_level,
            progress_token,
            trace,
            principal,
        })
    }

    /// Checks the headers that a request came with against the arguments that they repeat (2026-07-28 over HTTP): `params`
    /// is what the input schema of its tool asks for. Elsewhere there is nothing to check.
    ///
    /// # Errors
    /// The error to answer the request with.
    pub fn verify_headers(
        &self,
        key: ReplyKey,
        params: &[HeaderParam],
        arguments: Option<&RawJson<'_>>,
    ) -> Result<(), ErrorObject> {
        let arrival = self.engine.requests.get(key).and_then(|(entry, _)| entry.tag.arrival.as_ref());
        let Some(headers) = arrival.and_then(|arrival| arrival.headers.as_ref()) else { return Ok(()) };
        HeaderParam::verify_all(params, arguments, headers).map_err(|mismatch| header_mismatch(&mismatch))
    }

    /// The answer to a request will take a while. Where the client can hang up and come back for it (2025-11-25 over
    /// HTTP), its stream is closed for now, with the advice to come back after `retry`; elsewhere nothing happens.
    pub fn let_go(&mut self, key: ReplyKey, retry: Option<Duration>) {
        self.engine.let_go(key, retry);
    }
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
    /// ([`Limits::drain`]).
    pub fn handle_eof(&mut self, now: Timestamp) {
        self.engine.handle_eof(now);
    }

    /// Nothing can be written any more. Everything ends at once.
    pub fn handle_broken(&mut self) {
        self.engine.handle_broken(None);
    }

    /// As [`handle_broken`](Self::handle_broken), and `why` is known: it becomes [`CloseReason::Lost`].
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

    /// Whether an answer, a notification or progress would not be refused as [`SendError::Busy`].
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
