//! The client: a connection and the HTTP exchanges that carry its messages.

use core::fmt;

use alloc::{
    collections::{BTreeSet, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};

use http::{HeaderValue, Uri, response::Parts};

use super::{
    Action, ClientOptions, ExchangeId,
    exchange::{Exchange, ExchangeState, PostKind, PostRequest, Purpose, StreamPosition},
    exchanges::Exchanges,
    mirror::Mirror,
    post_headers::PostHeaders,
    recovery::Renewals,
    refresh::Refreshes,
    tools::Tools,
};
use crate::{
    connection::{ClientConfig, ClientRole, CloseReason, Connection, Event, Opening},
    http::{Deadline, Wake},
    protocol::{Era, Phase},
    rpc::{CallId, Timestamp},
};

/// A [`Connection`] to a server over HTTP, with the exchanges that carry its messages.
///
/// There are four groups of methods, as on a [`Connection`]:
///
/// - **input**: [`handle_head`](Self::handle_head), [`handle_body`](Self::handle_body),
///   [`handle_end`](Self::handle_end), [`handle_failure`](Self::handle_failure),
///   [`handle_authentication_started`](Self::handle_authentication_started),
///   [`handle_authentication_ended`](Self::handle_authentication_ended), [`handle_timeout`](Self::handle_timeout);
/// - **actions of the application**: all methods of the [`connection`](Self::connection); [`retry`](Self::retry),
///   [`fail_authentication`](Self::fail_authentication), [`close`](Self::close);
/// - **output**: [`poll_event`](Self::poll_event), [`poll_action`](Self::poll_action),
///   [`poll_timeout`](Self::poll_timeout);
/// - **state**: [`is_over`](Self::is_over), [`is_listening`](Self::is_listening), [`call_on`](Self::call_on),
///   [`exchange_of`](Self::exchange_of), [`redirected_from`](Self::redirected_from), [`usage`](Self::usage).
pub struct Client {
    pub(super) conn: Connection<ClientRole>,
    pub(super) options: ClientOptions,
    /// The latest time that was passed in.
    pub(super) clock: Timestamp,
    pub(super) events: VecDeque<Event<'static>>,
    actions: VecDeque<Action>,
    pub(super) exchanges: Exchanges,
    next: u64,
    pub(super) transport: Transport,
    pub(super) gate: SendGate,
    /// The id of the session, if the server has given one.
    pub(super) session: Option<HeaderValue>,
    pub(super) renewals: Renewals,
    /// Messages that wait for a session, and then for exchanges.
    pub(super) queued: VecDeque<PostRequest>,
    /// The requests that have ended and that the server does not know. Their cancellations are not sent.
    pub(super) forgotten: BTreeSet<u64>,
    pub(super) retry_timers: Vec<RetryTimer>,
    /// Whether the server has no stream for messages on its own initiative, or none worth another attempt.
    pub(super) no_server_stream: bool,
    pub(super) tools: Tools,
    pub(super) mirror: Mirror,
    pub(super) post_headers: PostHeaders,
    pub(super) refreshes: Refreshes,
    /// The number of exchanges for which the driver is obtaining credentials.
    pub(super) authenticating: usize,
    /// Whether messages wait for such an exchange. The deadlines of their requests are paused.
    pub(super) is_blocked: bool,
    /// How many bytes of responses may be kept before all that are kept are counted again.
    pub(super) uncounted_room: usize,
    random: u64,
    frame: Vec<u8>,
    /// Whether the application may have used the connection since the last [`pump`](Self::pump).
    touched: bool,
}

/// Shows the options and sizes, but neither messages nor the id of the session.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.options).field("usage", &self.usage()).finish_non_exhaustive()
    }
}

/// The transport in use.
#[derive(Clone, Debug)]
pub(super) enum Transport {
    Streamable,
    /// The transport of 2024-11-05, with the address for messages.
    Old(Uri),
}

/// Whether messages may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendGate {
    Open,
    /// This message must be sent next; all others are queued.
    Until(PostKind),
    /// `initialize` is in flight, or its address is being found out.
    Handshake,
    /// `notifications/initialized` is in flight: some servers serve nothing before they have received it.
    Initialized(ExchangeId),
    /// The stream for messages on the server's initiative was requested. Requests that the server makes while it
    /// handles the first request may be sent there, and are lost if the stream is not open yet. The wait is limited,
    /// since some servers respond only when they have something to send.
    Listening {
        stream: ExchangeId,
        until: Timestamp,
    },
}

/// A stream that is resumed later.
#[derive(Debug)]
pub(super) struct RetryTimer {
    pub(super) at: Timestamp,
    pub(super) purpose: Purpose,
}

/// The sizes of a client's tables and buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceUsage {
    /// Exchanges that are not over.
    pub exchanges: usize,
    /// Bytes of incomplete responses, of challenges, and of refusals and cursors that wait for a list of tools.
    pub bytes: usize,
    /// Messages that wait for a session.
    pub queued: usize,
    /// Streams that are resumed later.
    pub retry_timers: usize,
    /// Actions that wait to be polled.
    pub actions: usize,
    /// Events that wait to be polled.
    pub events: usize,
}

impl Client {
    /// Creates a client and queues its first message.
    #[must_use]
    pub fn new(config: impl Into<Arc<ClientConfig>>, options: ClientOptions, now: Timestamp) -> Self {
        Self::with_opening(config, options, Opening::unknown(), now)
    }

    /// Creates a client as [`new`](Self::new) does, with knowledge about the server from an earlier connection.
    #[must_use]
    pub fn with_opening(
        config: impl Into<Arc<ClientConfig>>,
        mut options: ClientOptions,
        opening: Opening,
        now: Timestamp,
    ) -> Self {
        // The headers are sent with each request, and may hold secrets that must not be printed with it.
        options.headers.values_mut().for_each(|value| value.set_sensitive(true));
        Self {
            conn: Connection::over_http(config.into(), opening, now),
            random: options.seed | 1,
            options,
            clock: now,
            events: VecDeque::new(),
            actions: VecDeque::new(),
            exchanges: Exchanges::new(),
            next: 1,
            transport: Transport::Streamable,
            gate: SendGate::Open,
            session: None,
            renewals: Renewals::default(),
            queued: VecDeque::new(),
            forgotten: BTreeSet::new(),
            retry_timers: Vec::new(),
            no_server_stream: false,
            tools: Tools::default(),
            mirror: Mirror::default(),
            post_headers: PostHeaders::default(),
            refreshes: Refreshes::default(),
            authenticating: 0,
            is_blocked: false,
            uncounted_room: 0,
            frame: Vec::new(),
            touched: true,
        }
    }

    // ---- input ----

    /// Handles the head of a response.
    pub fn handle_head(&mut self, now: Timestamp, exchange: ExchangeId, head: &Parts) {
        self.set_clock(now);
        self.head(exchange, head);
        self.pump();
    }

    /// Handles a part of the body of a response.
    pub fn handle_body(&mut self, now: Timestamp, exchange: ExchangeId, chunk: &[u8]) {
        self.set_clock(now);
        self.body(exchange, chunk);
        self.pump();
    }

    /// Handles the end of a response.
    pub fn handle_end(&mut self, now: Timestamp, exchange: ExchangeId) {
        self.set_clock(now);
        self.body_ended(exchange, None);
        self.pump();
    }

    /// Handles a request that could not be made, or a response that broke off. `why` describes the cause.
    pub fn handle_failure(&mut self, now: Timestamp, exchange: ExchangeId, why: impl Into<String>) {
        self.set_clock(now);
        self.body_ended(exchange, Some(why.into()));
        self.pump();
    }

    /// Handles the passing of time: at least up to the deadline of [`poll_timeout`](Self::poll_timeout). A call before
    /// that deadline only sets the clock.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.set_clock(now);
        self.conn.handle_timeout(now);
        if self.listen_deadline().is_some_and(|until| until <= now) {
            self.gate = SendGate::Open;
        }
        self.pump();
        while let Some(due) = self.retry_timers.iter().position(|pause| pause.at <= now) {
            let RetryTimer { purpose, .. } = self.retry_timers.remove(due);
            self.start(purpose, None, 0);
        }
        let late = |exchange: &Exchange| exchange.deadline().is_some_and(|until| until <= now);
        for id in self.exchanges.ids(late) {
            self.abort(id);
            if self.gate == SendGate::Initialized(id) {
                // As after a failure: it is not known whether the server has received the message, and queued messages
                // must not wait any longer.
                self.open_gate();
            }
        }
        self.sweep();
        self.pump();
    }

    // ---- actions of the application ----

    /// Returns the connection for use at the time `now`. Poll the client afterwards.
    pub fn connection(&mut self, now: Timestamp) -> &mut Connection<ClientRole> {
        self.set_clock(now);
        self.touched = true;
        &mut self.conn
    }

    /// Returns the connection for inspection.
    #[must_use]
    pub const fn view(&self) -> &Connection<ClientRole> {
        &self.conn
    }

    /// Closes the connection, and ends the session on the server if there is one.
    pub fn close(&mut self, now: Timestamp) {
        self.set_clock(now);
        self.conn.close(now);
        self.pump();
    }

    // ---- output ----

    /// Returns the next event for the application. Call it until it returns `None`.
    #[must_use = "an event that is dropped may be a request, which then gets no response"]
    pub fn poll_event(&mut self) -> Option<Event<'static>> {
        self.pump_if_touched();
        self.events.pop_front()
    }

    /// Returns the next action for the driver. Call it until it returns `None`.
    #[must_use = "the request of a dropped action is never sent"]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.pump_if_touched();
        self.actions.pop_front()
    }

    /// Returns whether [`poll_action`](Self::poll_action) has an action. Correct after [`poll_event`](Self::poll_event)
    /// has returned `None`.
    #[must_use]
    pub fn has_action(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let connection = self.conn.poll_timeout().map(|it| Deadline { at: it.at, wake: Wake::Connection(it.wake) });
        let pauses = self.retry_timers.iter().map(|pause| Deadline { at: pause.at, wake: Wake::Reconnect });
        let exchanges = self.exchanges.timed().filter_map(|exchange| {
            let wake = match (&exchange.state, &exchange.purpose) {
                (ExchangeState::Over { .. }, _) => Wake::Drain,
                (_, Purpose::DeleteSession(_)) => Wake::DeleteSession,
                _ => Wake::Accept,
            };
            exchange.deadline().map(|at| Deadline { at, wake })
        });
        let gate = self.listen_deadline().map(|at| Deadline { at, wake: Wake::Listen });
        exchanges.chain(pauses).chain(connection).chain(gate).min_by_key(|deadline| deadline.at)
    }

    // ---- state ----

    /// Returns whether the driver is done: the connection has ended, every event and action was polled, and no exchange
    /// remains. It is the only condition to leave the driver's loop.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let told = self.events.is_empty() && self.actions.is_empty();
        self.conn.is_drained() && self.exchanges.is_empty() && told
    }

    /// Returns whether messages on the server's own initiative can reach this client now: on a stream of a session, or
    /// on that of the old transport.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        let listens = |it: &Exchange| {
            matches!((&it.purpose, &it.state), (Purpose::Listen(_) | Purpose::Old(None), ExchangeState::Events(_)))
        };
        self.exchanges.values().any(listens)
    }

    /// Returns the call whose request or response an exchange carries, for drivers that add data to the requests of one
    /// call, such as credentials or a trace. `None` for streams that belong to no call, for notifications and
    /// responses, and once the response to the call has arrived.
    ///
    /// Several exchanges may carry one call, one after the other: after a redirect, a refusal or the loss of a stream,
    /// the next one has another id.
    #[must_use]
    pub fn call_on(&self, exchange: ExchangeId) -> Option<CallId> {
        self.exchanges.get(exchange)?.purpose.request().map(|request| request.call)
    }

    /// Returns the exchange whose request the server has redirected to the request of this one, for drivers that keep
    /// data of a request, such as the number of attempts with other credentials.
    #[must_use]
    pub fn redirected_from(&self, exchange: ExchangeId) -> Option<ExchangeId> {
        self.exchanges.get(exchange)?.redirected_from
    }

    /// Returns the exchange that carries a call now, as the inverse of [`call_on`](Self::call_on). `None` while the
    /// request waits to be sent, between two exchanges, and for calls that have ended. It searches all exchanges.
    #[must_use]
    pub fn exchange_of(&self, call: CallId) -> Option<ExchangeId> {
        let carries = |exchange: &Exchange| exchange.purpose.request().is_some_and(|request| request.call == call);
        self.exchanges.iter().filter(|(_, exchange)| carries(exchange)).map(|(id, _)| id).max()
    }

    /// Returns the current resource usage of the client, without its connection.
    #[must_use]
    pub fn usage(&self) -> ResourceUsage {
        let bytes = self.exchanges.values().map(|exchange| exchange.state.bytes());
        ResourceUsage {
            exchanges: self.exchanges.len(),
            bytes: bytes.sum::<usize>() + self.refreshes.bytes(),
            queued: self.queued.len(),
            retry_timers: self.retry_timers.len(),
            actions: self.actions.len(),
            events: self.events.len(),
        }
    }

    // ---- internals ----

    /// Sets the clock. No deadline may be due for hours, in which the connection gets no frame either.
    pub(super) fn set_clock(&mut self, now: Timestamp) {
        self.clock = self.clock.max(now);
        self.conn.advance_clock(now);
    }

    fn pump_if_touched(&mut self) {
        if self.touched {
            self.pump();
        }
    }

    /// Takes the events and messages of the connection, and sends the messages that may be sent.
    pub(super) fn pump(&mut self) {
        self.touched = false;
        if let SendGate::Listening { stream, .. } = self.gate
            && !self.exchanges.get(stream).is_some_and(Exchange::awaits_stream)
        {
            self.gate = SendGate::Open;
        }
        loop {
            while let Some(event) = self.conn.poll_event() {
                self.events.push_back(event);
            }
            if self.conn.phase() == Phase::Closed {
                return self.wind_down();
            }
            if self.post_queued() {
                continue;
            }
            let may_go = match self.gate {
                SendGate::Open => self.makes_room(),
                // The message that must be sent next is sent before new requests, which wait in the outbox.
                SendGate::Until(_) => self.conn.has_control(),
                SendGate::Handshake | SendGate::Initialized(_) | SendGate::Listening { .. } => false,
            };
            if !may_go || !self.conn.has_output() {
                if !may_go && self.gate != SendGate::Open && self.conn.has_control() {
                    // A cancellation waits behind the gate, maybe for a sign-in. The exchange of the call does not.
                    self.sweep();
                }
                if self.authenticating > 0 || self.is_blocked {
                    self.update_block();
                }
                return;
            }
            let mut frame = core::mem::take(&mut self.frame);
            frame.clear();
            let transmit = self.conn.poll_transmit(&mut frame);
            if let Some(transmit) = transmit {
                self.send(transmit.route, frame.strip_suffix(b"\n").unwrap_or(&frame));
            }
            frame.shrink_to(SPARE);
            self.frame = frame;
            if transmit.is_none() {
                return self.update_block();
            }
        }
    }

    /// Returns whether another exchange may begin, after it has dropped the exchanges of calls that have ended.
    fn makes_room(&mut self) -> bool {
        if self.has_room_beyond(0) {
            return true;
        }
        if !self.has_room() && self.conn.has_control() {
            // The message that waits for room may be a cancellation that ends one of the exchanges.
            self.sweep();
        }
        self.has_room()
    }

    /// Returns whether another exchange may begin. Messages that end exchanges or keep them alive have reserved room.
    pub(super) fn has_room(&self) -> bool {
        let reserved = if self.conn.has_control() { RESERVED } else { 0 };
        self.has_room_beyond(reserved)
    }

    /// Returns whether there are fewer exchanges than the limit and `reserved` more. A stream that is resumed later
    /// counts: it becomes an exchange without a look at the limit.
    pub(super) fn has_room_beyond(&self, reserved: usize) -> bool {
        let exchanges = self.exchanges.len() + self.retry_timers.len();
        exchanges < self.options.limits.exchanges.saturating_add(reserved)
    }

    /// Ends all exchanges after the connection has closed, and sends the DELETE request of the session.
    fn wind_down(&mut self) {
        while self.conn.poll_transmit(&mut self.frame).is_some() {
            self.frame.clear();
        }
        for id in self.exchanges.ids(|exchange| !matches!(exchange.purpose, Purpose::DeleteSession(_))) {
            self.abort(id);
        }
        self.retry_timers.clear();
        self.queued.clear();
        if let Some(session) = self.session.take() {
            let id = self.start(Purpose::DeleteSession(session), None, 0);
            let until = self.clock + self.options.limits.delete_timeout;
            self.exchanges.change_deadline(id, |exchange| exchange.until = Some(until));
        }
    }

    /// Begins an exchange with a request, to the address of the server unless another one is given. Messages that are
    /// not requests get a deadline.
    pub(super) fn start(&mut self, purpose: Purpose, uri: Option<Uri>, redirects: u32) -> ExchangeId {
        let id = ExchangeId(self.next);
        self.next += 1;
        let (request, sent_in) = self.request(&purpose, uri.as_ref());
        self.actions.push_back(Action::Request { exchange: id, request });
        let accepts = |kind| matches!(kind, PostKind::Initialized | PostKind::Notification | PostKind::Response);
        let is_no_request = matches!(&purpose, Purpose::Post(post) if accepts(post.kind));
        let until = is_no_request.then(|| self.clock + self.options.limits.accept_timeout);
        let (state, session, authenticates_since) = (ExchangeState::Sent, None, None);
        let redirected_from = None;
        let exchange =
            Exchange { purpose, state, uri, redirects, redirected_from, sent_in, session, until, authenticates_since };
        self.exchanges.insert(id, exchange);
        id
    }

    /// Begins an exchange in place of one that has failed, with its deadline.
    pub(super) fn start_again(
        &mut self,
        old: ExchangeId,
        until: Option<Timestamp>,
        purpose: Purpose,
        uri: Option<Uri>,
        redirects: u32,
    ) -> ExchangeId {
        let id = self.start(purpose, uri, redirects);
        self.exchanges.change_deadline(id, |exchange| exchange.until = until.or(exchange.until));
        match &mut self.gate {
            SendGate::Initialized(waits) | SendGate::Listening { stream: waits, .. } if *waits == old => *waits = id,
            _ => {}
        }
        id
    }

    /// Removes an exchange, and closes its connection or stream.
    pub(super) fn abort(&mut self, id: ExchangeId) -> Option<Exchange> {
        self.stop_authenticating(id);
        let exchange = self.exchanges.remove(id)?;
        if !self.remove_unpolled_request(id) {
            self.actions.push_back(Action::Abort(id));
        }
        Some(exchange)
    }

    /// Removes a request that the driver has not polled yet. Returns whether that was possible.
    pub(super) fn remove_unpolled_request(&mut self, id: ExchangeId) -> bool {
        let is_it = |action: &Action| matches!(action, Action::Request { exchange, .. } if *exchange == id);
        let unsent = self.actions.iter().position(is_it);
        unsent.is_some_and(|index| self.actions.remove(index).is_some())
    }

    /// Takes the purpose of an exchange that is not over but no longer needed.
    pub(super) fn take_purpose(&mut self, id: ExchangeId) -> Option<Purpose> {
        self.stop_authenticating(id);
        let purpose = core::mem::replace(&mut self.exchanges.get_mut(id)?.purpose, Purpose::Done);
        self.dismiss(id);
        Some(purpose)
    }

    pub(super) fn queue_action(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Marks an exchange whose result does not depend on the rest of its body. The rest is read if it is short, so that
    /// the network connection can be reused.
    pub(super) fn dismiss(&mut self, id: ExchangeId) {
        let until = self.clock + self.options.limits.drain_timeout;
        let over = ExchangeState::Over { until, left: self.options.limits.error_bytes };
        self.exchanges.change_deadline(id, |exchange| exchange.state = over);
    }

    /// Schedules a stream to be resumed later, or returns the purpose if it is not worthwhile.
    pub(super) fn pause(&mut self, mut purpose: Purpose) -> Option<Purpose> {
        let limits = &self.options.limits;
        let Some(position) = purpose.position().filter(|position| position.attempts < limits.attempts) else {
            return Some(purpose);
        };
        position.attempts += 1;
        let pause = match position.retry {
            Some(retry) => retry.min(limits.max_retry_delay),
            None => {
                let pause = self.options.backoff.delay(position.attempts).min(limits.max_retry_delay);
                // The delay is reduced by up to a quarter at random, so that clients do not reconnect all at once.
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                pause - (pause / 4).mul_f64(f64::from((self.random >> 40) as u32) / f64::from(1_u32 << 24))
            }
        };
        self.retry_timers.push(RetryTimer { at: self.clock + pause, purpose });
        None
    }

    /// Opens a stream for messages on the server's own initiative.
    pub(super) fn listen(&mut self) -> Option<ExchangeId> {
        let may = self.options.listen
            && !self.no_server_stream
            && self.is_session()
            && matches!(self.transport, Transport::Streamable);
        may.then(|| self.start(Purpose::Listen(StreamPosition::default()), None, 0))
    }

    /// Returns whether the handshake has begun a session.
    pub(super) fn is_session(&self) -> bool {
        self.conn.version().is_some_and(|version| version.era() == Era::Legacy)
    }

    /// Ends the connection with an error.
    pub(super) fn end(&mut self, reason: CloseReason) {
        self.conn.finish(reason);
    }
}

/// Exchanges beyond the limit that are reserved for messages other than new requests.
const RESERVED: usize = 16;

/// The maximum capacity of the frame buffer that is kept.
const SPARE: usize = 4096;
