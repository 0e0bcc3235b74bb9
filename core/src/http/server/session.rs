//! The session: a connection and the HTTP exchanges that carry its messages.

mod authorization;
mod deadlines;
mod idle;
mod scopes;
mod status;

use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec::Vec};

use http::StatusCode;

use super::{
    EndpointOptions, ExchangeId, Output, Request,
    admission::Queue,
    clients::{Client, Load},
    exchange::Exchange,
    remote_streams::RemoteStreams,
    streams::Streams,
    target::Target,
    tenants::Activity,
};
use crate::{
    collections::{LazyBox, SeqMap},
    connection::{self, CloseReason, Connection, Event, SendError, Server, ServerConfig, ServerRole, SessionSnapshot},
    http::{AuthRefusal, Deadline, HttpResponse, ReplayBuffer, SessionId, Wake, response},
    protocol::Phase,
    rpc::{ReplyKey, Timestamp},
};

/// The maximum capacity of the frame buffer that is kept.
pub(super) const SPARE: usize = 4096;

/// A [`Connection`] over HTTP, with the exchanges that carry its messages: a session of the legacy era, or one request
/// of the modern era.
///
/// There are four groups of methods, as on a [`Connection`]:
///
/// - **input**: [`open`](Self::open), [`handle_disconnect`](Self::handle_disconnect),
///   [`handle_timeout`](Self::handle_timeout);
/// - **actions of the application**: all methods of the [`connection`](Self::connection);
///   [`challenge`](Self::challenge), [`close`](Self::close);
/// - **output**: [`poll_event`](Self::poll_event), [`poll_ready`](Self::poll_ready),
///   [`poll_output`](Self::poll_output), [`poll_timeout`](Self::poll_timeout);
/// - **state**: [`id`](Self::id), [`is_over`](Self::is_over), [`usage`](Self::usage).
#[derive(Debug)]
pub struct Session {
    pub(super) conn: Server,
    pub(super) options: Arc<EndpointOptions>,
    pub(super) kind: SessionKind,
    /// The latest time that was passed in.
    pub(super) clock: Timestamp,
    pub(super) events: VecDeque<Event<'static>>,
    /// The exchanges, by their [ids](ExchangeId).
    pub(super) exchanges: SeqMap<Box<Exchange>>,
    /// The memory of an exchange that is over, for the next one.
    spare: Option<Box<Exchange>>,
    next_exchange: u64,
    ready: VecDeque<ExchangeId>,
    /// Bytes that wait to be written, on all exchanges.
    pub(super) queued: usize,
    /// The bytes that count towards the limit, in a session with several exchanges.
    pub(super) counted: usize,
    /// The time at which exchanges of clients that do not read are ended, while new messages are refused.
    pub(super) held: Option<Timestamp>,
    /// The number of the current watch on clients that do not read.
    pub(super) watch: u32,
    /// The earliest time at which an exchange may need attention, with the reason.
    pub(super) next: Option<Deadline>,
    /// The earliest time at which the authorization of a stream expires.
    authorized_until: Option<Timestamp>,
    /// Requests for which there is no room yet.
    pub(super) queue: LazyBox<Queue>,
    /// Whether waiting requests are being passed to the connection.
    pub(super) admitting: bool,
    pub(super) load: Load,
    /// The exchange whose message is being passed to the connection.
    pub(super) taking: Option<ExchangeId>,
    /// The time since which the session is idle.
    idle: Option<Timestamp>,
    /// Whether empty tables and buffers are kept for the next request.
    pub(super) warm: bool,
    /// Whether the client has sent another request after the one that opened the session.
    came_back: bool,
    /// Whether the client has sent a message after the handshake, or has opened or resumed a stream.
    used: bool,
    /// The activity for the endpoint. `None` for a request of the modern era.
    activity: Option<Arc<Activity>>,
    frame: Vec<u8>,
    /// Whether the connection may have events and messages that were not routed yet.
    pub(super) touched: bool,
    /// The exchange whose response carries a challenge, while the connection queues its error response.
    pub(super) challenge: Option<Box<(ExchangeId, AuthRefusal)>>,
    /// Streams that other processes have sent.
    pub(super) remote_streams: RemoteStreams,
}

/// The transport of the messages of a session.
#[derive(Debug)]
pub(super) enum SessionKind {
    /// One request of the modern era, to which all messages belong. `refused` is the status of its refusal, once that
    /// is known.
    Modern {
        refused: Option<StatusCode>,
        /// Counted by the endpoint until it is dropped.
        _place: Arc<()>,
    },
    /// A stream for each request, and streams that belong to no request.
    Streams { id: SessionId, streams: Streams },
    /// One stream, whose end ends the session (2024-11-05).
    Old { id: SessionId, stream: Option<ExchangeId> },
}

impl Session {
    fn new(
        now: Timestamp,
        config: &Arc<ServerConfig>,
        options: &Arc<EndpointOptions>,
        kind: SessionKind,
        client: &Arc<Client>,
    ) -> Self {
        Self::over(Connection::<ServerRole>::new(config.clone(), now), now, options, kind, client)
    }

    fn over(
        conn: Server,
        now: Timestamp,
        options: &Arc<EndpointOptions>,
        kind: SessionKind,
        client: &Arc<Client>,
    ) -> Self {
        Self {
            conn,
            options: options.clone(),
            kind,
            clock: now,
            events: VecDeque::new(),
            exchanges: SeqMap::new(),
            spare: None,
            next_exchange: 1,
            ready: VecDeque::new(),
            queued: 0,
            counted: 0,
            held: None,
            watch: 0,
            next: None,
            authorized_until: None,
            queue: LazyBox::default(),
            admitting: false,
            load: Load::new(client.clone()),
            taking: None,
            idle: Some(now),
            warm: false,
            came_back: false,
            used: false,
            activity: None,
            frame: Vec::new(),
            touched: true,
            challenge: None,
            remote_streams: RemoteStreams::default(),
        }
    }

    pub(super) fn modern(
        now: Timestamp,
        config: &Arc<ServerConfig>,
        options: &Arc<EndpointOptions>,
        (place, head): (Arc<()>, Option<&connection::ResultHead>),
        client: &Arc<Client>,
    ) -> Self {
        let conn = Connection::<ServerRole>::stateless(config.clone(), head.cloned(), now);
        Self::over(conn, now, options, SessionKind::Modern { refused: None, _place: place }, client)
    }

    pub(super) fn streamable(
        now: Timestamp,
        config: &Arc<ServerConfig>,
        options: &Arc<EndpointOptions>,
        id: SessionId,
        (activity, client): (&Arc<Activity>, &Arc<Client>),
    ) -> Self {
        let kind = SessionKind::Streams { id, streams: Streams::new(options.limits.replay(), 0) };
        Self { activity: Some(activity.clone()), ..Self::new(now, config, options, kind, client) }
    }

    /// Resumes a session that was begun in another process. Its streams, and its requests to the client, are numbered
    /// with `part`, which no other process has in this session.
    pub(super) fn resumed(
        now: Timestamp,
        (config, options): (&Arc<ServerConfig>, &Arc<EndpointOptions>),
        (id, part): (SessionId, u32),
        snapshot: &SessionSnapshot,
        (activity, client): (&Arc<Activity>, &Arc<Client>),
    ) -> Option<Self> {
        let conn = Connection::<ServerRole>::resumed(config.clone(), snapshot, Streams::first(part), now)?;
        let kind = SessionKind::Streams { id, streams: Streams::new(options.limits.replay(), part) };
        let mut resumed = Self::over(conn, now, options, kind, client);
        (resumed.came_back, resumed.used) = (true, true);
        resumed.activity = Some(activity.clone());
        resumed.pump();
        Some(resumed)
    }

    pub(super) fn old(
        now: Timestamp,
        config: &Arc<ServerConfig>,
        options: &Arc<EndpointOptions>,
        id: SessionId,
        (activity, client): (&Arc<Activity>, &Arc<Client>),
    ) -> Self {
        let kind = SessionKind::Old { id, stream: None };
        Self { activity: Some(activity.clone()), ..Self::new(now, config, options, kind, client) }
    }

    /// Sets the buffer that keeps sent messages for replay, instead of the default one in memory. Call it before any
    /// exchange is [opened](Self::open).
    pub fn set_replay(&mut self, replay: Box<dyn ReplayBuffer>) {
        if let SessionKind::Streams { streams, .. } = &mut self.kind {
            streams.replay = replay;
        }
    }

    /// Declares that other processes take part in the session, or may: streams of other processes are requested with
    /// [`poll_replay_request`](Self::poll_replay_request). Call it before any exchange is opened.
    pub fn share(&mut self) {
        if let SessionKind::Streams { streams, .. } = &mut self.kind {
            streams.shared = true;
        }
    }

    // ---- input ----

    /// Applies changes of the session's state that the client made through another process.
    pub fn apply_snapshot(&mut self, now: Timestamp, snapshot: &SessionSnapshot) {
        self.clock = self.clock.max(now);
        self.conn.apply_snapshot(snapshot);
        self.came_back = true;
        // A request for the session is arriving. An idle session must not expire before that.
        self.idle = self.idle.map(|_| self.clock);
        self.pump();
    }

    /// Opens an exchange for a request that was [routed](super::Endpoint::route) here. Returns the id of the exchange,
    /// whose response is polled with [`poll_output`](Self::poll_output), and the event for the application, which
    /// borrows from `request`. If events wait for [`poll_event`](Self::poll_event), this one is queued after them.
    ///
    /// If the request does not fit into the limits, it waits, and its body is moved out of `request`.
    /// [`poll_event`](Self::poll_event) returns its event once it fits. After
    /// [`Limits::admission`](crate::http::Limits::admission) the response is 503.
    ///
    /// # Errors
    /// Returns the response if the session is over or holds too much already. The session keeps nothing of the request
    /// then.
    pub fn open<'a>(
        &mut self,
        now: Timestamp,
        request: &'a mut Request,
    ) -> Result<(ExchangeId, Option<Event<'a>>), Box<HttpResponse>> {
        self.clock = self.clock.max(now);
        self.pump_if_touched();
        self.load.belongs_to(&request.client);
        self.came_back |= !matches!(request.target, Target::Initialize | Target::OldStream);
        self.used = self.used || request.uses_session();
        if self.conn.phase() == Phase::Closed {
            // A shared session continues in another process.
            let is_shared = matches!(&self.kind, SessionKind::Streams { streams, .. } if streams.shared);
            return Err(Box::new(if is_shared {
                response::busy("The session has ended here")
            } else {
                response::no_session()
            }));
        }
        self.refuse_without_scopes(request)?;
        let waits = self.has_to_wait(request)?;
        let id = ExchangeId(self.next_exchange);
        self.next_exchange += 1;
        let until = self.clock + self.options.limits.stream_after;
        let exchange = Exchange::in_memory(self.spare.take(), until, request.authorized_until());
        self.exchanges.insert(id.0, exchange);
        if waits {
            self.wait_for_room(id, request);
            self.pump();
            return Ok((id, None));
        }
        self.add_deadline(Deadline { at: until, wake: Wake::StreamAfter });
        self.cancel_waiting(request);
        let event = self.begin(id, request);
        // A message was passed on with all that follows from it.
        self.pump_if_touched();
        Ok((id, event))
    }

    /// Ends an exchange whose client has disconnected: nothing can be written for it any more. Does nothing if the
    /// exchange is over.
    pub fn handle_disconnect(&mut self, now: Timestamp, id: ExchangeId) {
        self.clock = self.clock.max(now);
        let Some(exchange) = self.remove(id) else { return };
        self.queue.allocated_mut().and_then(|queue| queue.remove(id));
        match &mut self.kind {
            // A client that disconnects cancels its request.
            SessionKind::Modern { .. } | SessionKind::Old { .. } => self.lose_only_exchange(id),
            // The client has not received the id of the session.
            SessionKind::Streams { .. } if exchange.opens => self.conn.finish(CloseReason::ConnectionLost),
            SessionKind::Streams { streams, .. } => {
                // The client has no event id to resume the stream with.
                if let Some(stream) = exchange.stream.filter(|_| exchange.is_open()) {
                    streams.all.remove(stream);
                }
            }
        }
        self.pump();
    }

    /// Handles the passing of time: at least up to the deadline of [`poll_timeout`](Self::poll_timeout). A call before
    /// that deadline does nothing.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.clock = self.clock.max(now);
        self.conn.handle_timeout(now);
        self.pump();
        if self.next.is_some_and(|next| next.at <= now) {
            self.visit(now);
        }
        if self.held.is_some_and(|at| at <= now) {
            self.close_unread_exchanges();
        }
        self.refuse_late(now);
        if let SessionKind::Streams { streams, .. } = &mut self.kind
            && streams.replay.expiry().is_some_and(|at| at <= now)
        {
            streams.replay.expire(now);
            streams.tidy();
        }
        if self.expiry().is_some_and(|at| at <= now) {
            self.conn.finish(CloseReason::Expired);
        }
        if self.cools().is_some_and(|at| at <= now) {
            self.warm = false;
        }
        self.pump();
    }

    // ---- actions of the application ----

    /// Returns the connection for use at the time `now`. Poll the session afterwards.
    pub fn connection(&mut self, now: Timestamp) -> &mut Connection<ServerRole> {
        self.clock = self.clock.max(now);
        self.touched = true;
        &mut self.conn
    }

    /// Returns the connection for inspection.
    #[must_use]
    pub const fn view(&self) -> &Connection<ServerRole> {
        &self.conn
    }

    /// Responds to a request with an error, and completes its exchange with 401 or 403: the client must authenticate,
    /// or needs more scopes. Only the error is sent if a stream was opened for the exchange already, in a batch
    /// (2025-03-26), and over the transport of 2024-11-05: see [`Request::requests_without_status`].
    ///
    /// # Errors
    /// Returns the errors of [`respond_error`](Connection::respond_error).
    pub fn challenge(&mut self, now: Timestamp, key: ReplyKey, how: AuthRefusal) -> Result<(), SendError> {
        self.clock = self.clock.max(now);
        self.pump();
        let stream = self.conn.stream_of(key);
        let exchange = self.exchanges.iter().find(|(_, exchange)| exchange.is_open() && exchange.stream == stream);
        if let Some((id, _)) = exchange.filter(|_| stream.is_some()) {
            self.challenge = Some(Box::new((ExchangeId(id), how.clone())));
        }
        let answered = self.conn.respond_error(key, &how.error());
        self.pump();
        self.challenge = None;
        answered
    }

    /// Closes the session: streams that belong to no request end now, and requests of the client may still get
    /// responses for a while ([`drain`](crate::connection::Limits::drain)).
    pub fn close(&mut self, now: Timestamp) {
        self.clock = self.clock.max(now);
        self.pump();
        self.conn.close(now);
        if let SessionKind::Streams { streams, .. } = &self.kind {
            let carriers = streams.listeners().iter().filter_map(|stream| streams.all.get(*stream)?.exchange);
            for id in carriers.collect::<Vec<_>>() {
                self.send_retry(id, None);
                self.end(id);
            }
        }
        self.pump();
    }

    /// Ends the session at once, to make room for a new one ([`poll_evicted`](super::Endpoint::poll_evicted)).
    pub fn evict(&mut self, now: Timestamp) {
        self.clock = self.clock.max(now);
        self.conn.finish(CloseReason::Expired);
        self.pump();
    }

    /// Ends the session at once because it holds too much. It drops the bytes that wait to be written and the messages
    /// that are kept for replay: responses break off.
    pub fn abort(&mut self, now: Timestamp, reason: &str) {
        self.clock = self.clock.max(now);
        self.conn.handle_transport_error(reason);
        self.pump();
        let unread = self.exchanges.iter().filter(|(_, it)| it.waiting() > 0).map(|(id, _)| ExchangeId(id));
        for id in unread.collect::<Vec<_>>() {
            self.close_unread(id);
        }
        if let SessionKind::Streams { streams, .. } = &mut self.kind {
            while streams.next_waiting().is_some() {}
        }
        self.forget_replay();
        self.pump();
    }

    /// Drops the messages that are kept for replay. A client that resumes a stream gets a comment with the number of
    /// missing messages, or 400 if the response is missing.
    pub fn forget_replay(&mut self) {
        if let SessionKind::Streams { streams, .. } = &mut self.kind {
            streams.replay.expire(Timestamp::from_nanos(u64::MAX));
            streams.tidy();
        }
    }

    // ---- output ----

    /// Returns the next event for the application. Call it until it returns `None`.
    #[must_use = "an event that is dropped may be a request, which then gets no response"]
    pub fn poll_event(&mut self) -> Option<Event<'static>> {
        self.pump_if_touched();
        self.events.pop_front()
    }

    /// Returns an exchange that has new output since it was last returned here. Call it until it returns `None`, and
    /// [`poll_output`](Self::poll_output) for each.
    #[must_use = "the exchange is reported once"]
    pub fn poll_ready(&mut self) -> Option<ExchangeId> {
        self.pump_if_touched();
        loop {
            let id = self.ready.pop_front()?;
            if let Some(exchange) = self.exchanges.get_mut(id.0) {
                exchange.announced = false;
                return Some(id);
            }
        }
    }

    /// Returns the next part of the response of an exchange, and appends the bytes of [`Output::Data`] to `out`. `None`
    /// if there is nothing now; after [`Output::End`] or [`Output::Abort`] there never is.
    pub fn poll_output(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Option<Output> {
        self.pump_if_touched();
        let mut exchange = self.exchanges.get_mut(id.0)?;
        if exchange.is_hungry() {
            self.feed(id);
            exchange = self.exchanges.get_mut(id.0)?;
        }
        let before = exchange.waiting();
        let output = exchange.take(out)?;
        let after = exchange.waiting();
        exchange.read_in = self.watch;
        match output {
            Output::Head(_) => {}
            Output::Data(_) => self.weigh(before, after),
            Output::End | Output::Abort => {
                self.spare = self.remove(id);
                self.pump();
            }
        }
        Some(output)
    }

    /// Returns the response of an exchange in one piece, which completes the exchange. `None` if there is none, if it
    /// is a stream, if a part was polled before, or if its body has more than `most` bytes: it is polled with
    /// [`poll_output`](Self::poll_output) then.
    pub fn poll_response(&mut self, id: ExchangeId, most: usize) -> Option<HttpResponse> {
        self.pump_if_touched();
        let response = self.exchanges.get_mut(id.0)?.take_whole(most)?;
        self.weigh(response.body().len(), 0);
        self.spare = self.remove(id);
        self.pump();
        Some(response)
    }

    /// Returns whether only the [`Output::End`] or [`Output::Abort`] of an exchange remains to be polled.
    #[must_use]
    pub fn is_at_end(&self, id: ExchangeId) -> bool {
        self.exchanges.get(id.0).is_some_and(|exchange| exchange.is_at_end())
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next, and why. `None` once the session [is
    /// over](Self::is_over).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline> {
        if self.is_over() {
            return None;
        }
        let connection = self.conn.poll_timeout().map(|it| Deadline { at: it.at, wake: Wake::Connection(it.wake) });
        let stalled = self.held.map(|at| Deadline { at, wake: Wake::Stalled });
        let replay = match &self.kind {
            SessionKind::Streams { streams, .. } => {
                streams.replay.expiry().map(|at| Deadline { at, wake: Wake::ReplayBuffer })
            }
            SessionKind::Modern { .. } | SessionKind::Old { .. } => None,
        };
        let idle = self.expiry().map(|at| Deadline { at, wake: Wake::Idle });
        let expires = self.authorized_until.map(|at| Deadline { at, wake: Wake::Authorization });
        let cools = self.cools().map(|at| Deadline { at, wake: Wake::Idle });
        let all = [self.next, connection, stalled, self.queue.next(), replay, idle, expires, cools];
        all.into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    // ---- internals ----

    /// Calls [`pump`](Self::pump) if the connection may have something to route.
    fn pump_if_touched(&mut self) {
        if self.touched {
            self.pump();
        }
    }

    /// Takes the events and messages of the connection, and routes them.
    pub(super) fn pump(&mut self) {
        self.touched = true;
        self.end_unauthorized();
        loop {
            while let Some(event) = self.conn.poll_event() {
                self.events.push_back(event);
            }
            // If there is only one exchange, messages that it has no room for wait in the connection.
            if !matches!(self.kind, SessionKind::Streams { .. }) && self.queued >= self.options.limits.queued_bytes {
                self.watch_only_reader(true);
                self.admit_waiting();
                return self.settle();
            }
            if !self.conn.has_output() {
                break;
            }
            let mut frame = core::mem::take(&mut self.frame);
            frame.clear();
            let transmit = self.conn.poll_transmit(&mut frame);
            if let Some(transmit) = transmit {
                frame.pop_if(|last| *last == b'\n');
                self.deliver(transmit, &mut frame);
            }
            frame.shrink_to(SPARE);
            self.frame = frame;
            if transmit.is_none() {
                break;
            }
        }
        self.touched = false;
        self.watch_only_reader(false);
        if self.conn.phase() == Phase::Closed {
            self.end_all();
        }
        self.admit_waiting();
        self.settle();
    }

    /// Removes an exchange. The stream that it carried, if any, has no exchange then.
    fn remove(&mut self, id: ExchangeId) -> Option<Box<Exchange>> {
        let exchange = self.exchanges.remove(id.0)?;
        self.weigh(exchange.waiting(), 0);
        if self.exchanges.is_empty() {
            self.next = None;
        }
        self.remote_streams.forget(id);
        if let (SessionKind::Streams { streams, .. }, Some(stream)) = (&mut self.kind, exchange.stream) {
            streams.detach(stream, id);
        }
        Some(exchange)
    }

    /// Records that an exchange has something to write.
    pub(super) fn announce(&mut self, id: ExchangeId) {
        if let Some(exchange) = self.exchanges.get_mut(id.0)
            && !exchange.announced
            && exchange.has_output()
        {
            exchange.announced = true;
            self.ready.push_back(id);
        }
    }
}
