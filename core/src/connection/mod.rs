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
mod rounds;
mod send;
mod splice;
mod standing;
mod subscriptions;
mod task_questions;
mod tasks;

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{marker::PhantomData, time::Duration};

use serde_core::ser::Error as _;

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
    protocol::{CapabilitySet, HeaderParam, Method, Phase, ProtocolVersion},
    rpc::{CallId, ReplyKey, State, Timestamp},
    schema::{
        CreateTaskResult, Encode, InitializeParams, InitializeResult, JsonLine, LogMessageParams, LoggingLevel,
        Notification, Request, ResourceUpdatedParams,
    },
    wire::{ErrorObject, RawJson, RequestId, encode, is_ambiguous},
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
    /// Such a subscription comes as an [`Event::Request`] with [`Method::Listen`], and is answered with this or with an
    /// error. All others are opened by the connection itself.
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

    // ---- what you want ----

    /// Asks the peer for something. It ends with exactly one [`Event::Response`].
    ///
    /// # Errors
    /// If it is not allowed now; nothing has changed then.
    pub fn request<R: Request>(
        &mut self,
        now: Timestamp,
        params: &R,
        options: RequestOptions,
    ) -> Result<CallId, SendError> {
        let version = self.engine.version;
        let has_task = params.is_task();
        let asked = self.engine.request(now, &R::METHOD.into(), params.needs(), has_task, options, |out| {
            if params.is_empty() { Ok(()) } else { params.append_at(version, &mut JsonLine::new(out)) }
        });
        self.engine.noted(Room::Request, asked)
    }

    /// Asks the peer for something by name: a method of your own, or one of the specification with params as text.
    ///
    /// `params` is a JSON object, or absent. A method of the specification is checked against the table as in
    /// [`request`](Self::request), but its params are not.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has changed then.
    pub fn request_raw(
        &mut self,
        now: Timestamp,
        method: &str,
        params: Option<&RawJson<'_>>,
        options: RequestOptions,
    ) -> Result<CallId, SendError> {
        let method = self.engine.method(method);
        let can_be_task =
            method.known().is_some_and(Method::can_be_task) && self.version().is_some_and(|v| v.has_tasks());
        let task = can_be_task && params.is_some_and(|params| params.has("task"));
        let asked = self.engine.request(now, &method, CapabilitySet::EMPTY, task, options, |out| {
            params.map_or(Ok(()), |params| raw_object(out, params))
        });
        self.engine.noted(Room::Request, asked)
    }

    /// Tells the peer something.
    ///
    /// Log messages below the level that the client has set are dropped. A list that changed several times is
    /// announced once.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has changed then.
    pub fn notify<N: Notification>(&mut self, params: &N) -> Result<(), SendError> {
        let versions = N::METHOD.versions();
        let version = self.engine.version.filter(|version| versions.contains(*version)).or_else(|| versions.newest());
        let subject = params.resource().or_else(|| params.task());
        let told = self.engine.notify(&N::METHOD.into(), params.level(), subject, |out| {
            if params.is_empty() { Ok(()) } else { params.append_at(version, &mut JsonLine::new(out)) }
        });
        self.engine.noted(Room::Message, told)
    }

    /// Tells the peer something by name.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has changed then.
    pub fn notify_raw(&mut self, method: &str, params: Option<&RawJson<'_>>) -> Result<(), SendError> {
        let method = self.engine.method(method);
        let logged = params.filter(|_| method.known() == Some(Method::LogMessage));
        let level = logged.and_then(|params| params.member("level")?.decode().ok());
        let subject = if method.known() == Some(Method::ExtTaskChanged) { "taskId" } else { "uri" };
        let subject: Option<String> = params.and_then(|params| params.member(subject)?.decode().ok());
        let told = self
            .engine
            .notify(&method, level, subject.as_deref(), |out| params.map_or(Ok(()), |params| raw_object(out, params)));
        self.engine.noted(Room::Message, told)
    }

    /// Gives up on a call. It ends at once, as [`Outcome::Cancelled`]; the peer is told when it can be.
    ///
    /// # Errors
    /// If it has ended, or is the handshake.
    pub fn cancel(&mut self, call: CallId, reason: Option<&str>) -> Result<(), SendError> {
        self.engine.cancel(call, reason)
    }

    /// Answers a request. After the peer's cancellation the answer is swallowed.
    ///
    /// # Errors
    /// If it has been answered before, or cannot be encoded or queued now. In the latter cases it is still owed one: see
    /// [`respond_or_error`](Self::respond_or_error).
    pub fn respond<T: Encode>(&mut self, key: ReplyKey, result: &T) -> Result<(), SendError> {
        let version = self.engine.version_of(key);
        let answered = self.engine.respond(key, Ok(&|out| result.append_at(version, &mut JsonLine::new(out))));
        self.engine.noted(Room::Message, answered)
    }

    /// Answers a request, with an internal error if `result` cannot be sent: the peer is owed an answer in any case.
    ///
    /// Returns `None` if the result was queued, else why it was not and the error was queued in its place.
    ///
    /// # Errors
    /// [`SendError::Busy`] if there is no room now and [`SendError::Answered`] if it has been answered before, as for
    /// [`respond`](Self::respond). [`SendError::TooLarge`] if [`Limits::frame_bytes`] is too small for any answer. It is still
    /// owed one then, unless it has been answered.
    pub fn respond_or_error<T: Encode>(&mut self, key: ReplyKey, result: &T) -> Result<Option<SendError>, SendError> {
        let version = self.engine.version_of(key);
        let answered = self.engine.respond_or_error(key, Ok(&|out| result.append_at(version, &mut JsonLine::new(out))));
        self.engine.noted(Room::Message, answered)
    }

    /// As [`respond_or_error`](Self::respond_or_error), with a result that is already text: a JSON object.
    ///
    /// # Errors
    /// As [`respond_or_error`](Self::respond_or_error).
    pub fn respond_raw_or_error(
        &mut self,
        key: ReplyKey,
        result: &RawJson<'_>,
    ) -> Result<Option<SendError>, SendError> {
        let answered = self.engine.respond_or_error(key, Ok(&|out| raw_object(out, result)));
        self.engine.noted(Room::Message, answered)
    }

    /// Answers a request with a result that is already text: a JSON object.
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn respond_raw(&mut self, key: ReplyKey, result: &RawJson<'_>) -> Result<(), SendError> {
        let answered = self.engine.respond(key, Ok(&|out| raw_object(out, result)));
        self.engine.noted(Room::Message, answered)
    }

    /// Answers a request with an error.
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn respond_error(&mut self, key: ReplyKey, error: &ErrorObject) -> Result<(), SendError> {
        let answered = self.engine.respond(key, Err(error));
        self.engine.noted(Room::Message, answered)
    }

    /// Reports how far a request of the peer is. Nothing is sent if the peer has not asked for it.
    ///
    /// # Errors
    /// If `progress` does not grow, the request has been answered, or too much waits to be written.
    pub fn progress(
        &mut self,
        key: ReplyKey,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let reported = self.engine.progress(key, progress, total, message);
        self.engine.noted(Room::Message, reported)
    }

    /// Sends a log message on behalf of a request. It leaves before the answer, and only if the client wants messages
    /// as severe as this: of this request (2026-07-28) or of the session.
    ///
    /// # Errors
    /// If logging was not declared, the request has been answered, or too much waits to be written.
    pub fn log(&mut self, key: ReplyKey, message: &LogMessageParams) -> Result<(), SendError> {
        let version = self.engine.version_of(key);
        let logged = self.engine.log(key, message.level, |out| message.append_at(version, &mut JsonLine::new(out)));
        self.engine.noted(Room::Message, logged)
    }

    /// Answers a request with the task that it has become (2025-11-25). Its progress can go on under the same token:
    /// hand what this returns to [`task_progress`](Self::task_progress).
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn respond_task(&mut self, key: ReplyKey, task: &CreateTaskResult) -> Result<Option<TaskProgress>, SendError> {
        let (token, last) = match self.engine.requests.get(key) {
            Some((entry, State::Open)) => (entry.token().cloned(), entry.tag.last_progress),
            _ => (None, None),
        };
        self.respond(key, task)?;
        Ok(token.map(|token| TaskProgress { token, last, task: task.task.task_id.clone() }))
    }

    /// Reports how far a task is. Not to be used once the task has ended.
    ///
    /// # Errors
    /// As [`progress`](Self::progress).
    pub fn task_progress(
        &mut self,
        task: &mut TaskProgress,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let reported = self.engine.task_progress(None, task, (progress, total, message));
        self.engine.noted(Room::Message, reported)
    }

    /// [Reports](Self::task_progress) how far a task is, on the stream of a request that waits for its result
    /// (`tasks/result`). Where a binding has several streams, the report leaves before that result then, and cannot be overtaken
    /// by it. If the request does not wait any more, it is the same as [`task_progress`](Self::task_progress).
    ///
    /// # Errors
    /// As [`progress`](Self::progress).
    pub fn task_progress_on(
        &mut self,
        waiting: ReplyKey,
        task: &mut TaskProgress,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let reported = self.engine.task_progress(Some(waiting), task, (progress, total, message));
        self.engine.noted(Room::Message, reported)
    }

    /// Ends the connection: calls end at once, nothing new is begun, and what the peer was promised may still be
    /// answered for a while ([`Limits::drain`]). Closing twice is closing once.
    pub fn close(&mut self, now: Timestamp) {
        self.engine.close(now);
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

/// Appends params or a result that an application wrote. They are objects, and have each member that the protocol reads once.
fn raw_object(out: &mut Vec<u8>, raw: &RawJson<'_>) -> Result<(), serde_json::Error> {
    if !raw.is_object() {
        return Err(serde_json::Error::custom("expected an object"));
    }
    if is_ambiguous(raw) {
        return Err(serde_json::Error::custom("a member occurs twice"));
    }
    encode::raw(out, raw.get());
    Ok(())
}
