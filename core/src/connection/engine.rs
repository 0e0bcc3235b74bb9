//! The state behind both roles, and how it is polled.

use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

use super::{
    Arrival, ClientConfig, CloseReason, Deadline, Event, Limits, Outcome, Route, ServerConfig, Settings, Stats,
    Transmit, Usage, Wake,
    batch::Batches,
    changes::Changes,
    client::Steps,
    intake::{Pause, Refused},
    keepalive::Pings,
    modern::Modern,
    opening::{Beginning, Opening},
    probe::Identity,
    receive::Origin,
    repeat::Repeats,
    rounds::Question,
    subscriptions::Subscriptions,
    tasks::Followed,
};
use crate::{
    cache::Cache,
    protocol::{CapabilitySet, Era, Method, MethodName, Phase, ProtocolVersion, Role},
    rpc::{CallId, Empty, Entry, Incoming, Lane, Number, Outbox, Outgoing, Owner, Rare, ReplyKey, State, Timestamp},
    schema::{At, Implementation, InitializeParams, InitializeResult, LoggingLevel, TraceContext, keys},
    wire::{RawJson, RequestId},
};

/// What is remembered of a request of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallTag {
    /// `initialize`.
    Handshake,
    /// `server/discover`, in this revision, for the first time or again.
    Probe { version: ProtocolVersion, again: bool },
    /// A ping of [`Pings`].
    Keepalive,
    /// `tasks/cancel` for a task that nobody wants any more.
    Farewell,
    /// The application's.
    User {
        method: Option<Method>,
        /// It carries `task`: it ends with a handle to a task, and is not cancelled by a notification.
        task: bool,
        /// The stream of the request of the peer that has caused it.
        stream: Option<u64>,
    },
}

/// The progress token of a request of the peer. Most peers have it be the request's id, and it takes no room then.
#[derive(Clone, Debug)]
pub(super) enum Token {
    None,
    Id,
    Other(Box<RequestId>),
}

impl Token {
    /// The one that `_meta` names, if it does, of the request with this id.
    pub(super) fn named(meta: Option<&RawJson<'_>>, id: &RequestId) -> Self {
        match meta.and_then(|meta| meta.member(keys::PROGRESS_TOKEN)) {
            None => Self::None,
            // Spelled alike: it is repeated as it came.
            Some(token) if token.get().as_bytes() == id.as_bytes() => Self::Id,
            Some(token) => RequestId::from_token(token.get()).map_or(Self::None, |token| Self::Other(Box::new(token))),
        }
    }
}

impl Entry<RequestTag> {
    pub(super) fn token(&self) -> Option<&RequestId> {
        match &self.tag.token {
            Token::None => None,
            Token::Id => Some(&self.id),
            Token::Other(token) => Some(token),
        }
    }
}

/// What is remembered of a request of the peer.
#[derive(Clone, Debug)]
pub(super) struct RequestTag {
    /// `None` for methods that the specification does not have.
    pub(super) method: Option<Method>,
    pub(super) token: Token,
    pub(super) last_progress: Option<f64>,
    /// Frames that belong to it and wait to be written.
    pub(super) queued: u32,
    /// The last of them.
    pub(super) last_queued: Number,
    /// The batch that its answer goes into.
    pub(super) batch: Option<u32>,
    /// The size of its frame.
    pub(super) bytes: usize,
    /// `logging/setLevel`: what to set when it is answered with a result.
    pub(super) level: Option<LoggingLevel>,
    /// What a request of the modern era says of itself.
    pub(super) modern: Option<Box<Modern>>,
    /// The distributed trace that it belongs to.
    pub(super) trace: Option<Box<TraceContext>>,
    /// It came as part of a result, and its answer goes into the next request.
    pub(super) question: Option<Question>,
    /// How it came in, if the binding knows more of that than a pipe does.
    pub(super) arrival: Option<Arc<Arrival>>,
}

impl RequestTag {
    pub(super) fn new(method: Option<Method>, token: Token, origin: Origin) -> Self {
        let Origin { batch, bytes } = origin;
        Self {
            method,
            token,
            last_progress: None,
            queued: 0,
            last_queued: 0,
            batch,
            bytes,
            level: None,
            modern: None,
            trace: None,
            question: None,
            arrival: None,
        }
    }

    /// The stream on which it is answered, where there are several.
    pub(super) fn stream(&self) -> Option<u64> {
        self.arrival.as_ref()?.stream
    }
}

/// What only one of the roles has.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "of servers there are many in one process, and they need all of it")]
pub(super) enum Side {
    Client {
        config: Arc<ClientConfig>,
        begun: Beginning,
        server: Option<Box<InitializeResult>>,
        identity: Option<Identity>,
        /// As whom requests are made, where that is known.
        principal: Option<Arc<str>>,
        /// What only clients do.
        steps: &'static Steps,
    },
    Server {
        config: Arc<ServerConfig>,
        client: Option<InitializeParams>,
    },
}

/// Without the configuration, which never changes.
impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client { config: _, begun, server, identity: _, principal: _, steps: _ } => {
                f.debug_struct("Client").field("begun", begun).field("server", server).finish_non_exhaustive()
            }
            Self::Server { config: _, client } => {
                f.debug_struct("Server").field("client", client).finish_non_exhaustive()
            }
        }
    }
}

impl Side {
    pub(super) fn client(config: Arc<ClientConfig>, opening: Opening) -> Self {
        let newest = ProtocolVersion::LATEST;
        // Only a server of the modern era is told with every request.
        let identity = config.settings.versions.contains(newest).then(|| {
            let info = At(&config.info, Some(newest)).to_json().ok()?;
            let capabilities = At(&config.capabilities, Some(newest)).to_json().ok()?;
            Some(Identity { info, capabilities })
        });
        Self::Client {
            config,
            begun: Beginning::new(opening),
            server: None,
            identity: identity.flatten(),
            principal: None,
            steps: Steps::ALL,
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        match self {
            Self::Client { config, .. } => &config.settings,
            Self::Server { config, .. } => &config.settings,
        }
    }

    pub(super) fn hash_seed(&self) -> u64 {
        match self {
            Self::Client { config, .. } => config.hash_seed,
            Self::Server { config, .. } => config.hash_seed,
        }
    }

    /// Who a client says it is.
    pub(super) const fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Client { identity, .. } => identity.as_ref(),
            Self::Server { .. } => None,
        }
    }

    /// As whom a client makes its requests.
    pub(super) fn principal(&self) -> Option<Arc<str>> {
        match self {
            Self::Client { principal, .. } => principal.clone(),
            Self::Server { .. } => None,
        }
    }

    /// What only a client does.
    pub(super) const fn steps(&self) -> Option<&'static Steps> {
        match self {
            Self::Client { steps, .. } => Some(steps),
            Self::Server { .. } => None,
        }
    }

    /// Who a server says it is.
    pub(super) fn server_info(&self) -> Option<&Implementation> {
        match self {
            Self::Client { .. } => None,
            Self::Server { config, .. } => Some(&config.info),
        }
    }
}

/// What a binding holds of what it has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Downstream {
    pub(super) bytes: usize,
    pub(super) full: bool,
}

/// What only bindings with several streams have.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    /// Requests whose streams the binding is to close for now, and when the peer may come back.
    pub(super) let_go: VecDeque<(ReplyKey, Option<Duration>)>,
    /// Streams on which no answer follows, as everything asked there was cancelled.
    pub(super) unanswered: VecDeque<u64>,
    /// What the binding has taken and not written yet.
    pub(super) downstream: Downstream,
}

impl Empty for Streams {
    const EMPTY: &'static Self = &Self {
        let_go: VecDeque::new(),
        unanswered: VecDeque::new(),
        downstream: Downstream { bytes: 0, full: false },
    };
}

impl Streams {
    fn has_none(&self) -> bool {
        self.let_go.is_empty() && self.unanswered.is_empty() && self.downstream.bytes == 0 && !self.downstream.full
    }
}

#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) side: Side,
    pub(super) phase: Phase,
    /// The negotiated revision.
    pub(super) version: Option<ProtocolVersion>,
    pub(super) local: CapabilitySet,
    pub(super) peer: CapabilitySet,
    pub(super) calls: Rare<Outgoing<CallTag>>,
    pub(super) requests: Incoming<RequestTag>,
    pub(super) request_bytes: usize,
    pub(super) outbox: Outbox,
    pub(super) batches: Rare<Batches>,
    pub(super) events: VecDeque<Event<'static>>,
    /// Why it has ended, until the application knows. It comes behind all other events.
    pub(super) ended: Option<Box<CloseReason>>,
    pub(super) changes: Changes,
    pub(super) log_level: Option<LoggingLevel>,
    pub(super) pings: Option<Box<Pings>>,
    pub(super) followed: Followed,
    pub(super) subscriptions: Rare<Subscriptions>,
    pub(super) repeats: Rare<Repeats>,
    pub(super) cache: Rare<Cache>,
    /// The latest time that was handed in.
    pub(super) clock: Timestamp,
    pub(super) drain: Option<Box<(Timestamp, CloseReason)>>,
    /// Reading is paused, or was until its deadline.
    pub(super) pause: Option<Box<Pause>>,
    pub(super) refused: Refused,
    /// How the frame that is being taken in has come.
    pub(super) arrival: Option<Arc<Arrival>>,
    pub(super) streams: Rare<Streams>,
    /// The end began before the handshake was over.
    pub(super) aborted: bool,
    /// The client has said that it is ready before it has begun (servers).
    pub(super) initialized_early: bool,
    /// Messages of the peer come on several streams, and so in any order.
    pub(super) unordered: bool,
    /// Lines in a row that held no message.
    pub(super) noise: u32,
    /// The most bytes that are kept of the params of `initialize` (servers).
    pub(super) described: u32,
    pub(super) stats: Stats,
}

/// The first id of ours. Some peers take 0 for no id at all.
pub(super) const FIRST_ID: u64 = 1;

impl Empty for Outgoing<CallTag> {
    const EMPTY: &'static Self = &Self::new(FIRST_ID);
}

impl Default for Outgoing<CallTag> {
    fn default() -> Self {
        Self::new(FIRST_ID)
    }
}

impl Engine {
    pub(super) fn new(side: Side, now: Timestamp) -> Self {
        let (settings, local, hash_seed) = match &side {
            Side::Client { config, .. } => (&config.settings, config.capabilities.set(), config.hash_seed),
            Side::Server { config, .. } => (&config.settings, config.capabilities.set(), config.hash_seed),
        };
        Self {
            phase: Phase::Opening,
            version: None,
            local,
            peer: CapabilitySet::EMPTY,
            calls: Rare::default(),
            requests: Incoming::new(hash_seed),
            request_bytes: 0,
            outbox: Outbox::default(),
            batches: Rare::default(),
            events: VecDeque::new(),
            ended: None,
            changes: Changes::default(),
            log_level: None,
            pings: Pings::of(settings, now),
            followed: Followed::default(),
            subscriptions: Rare::default(),
            repeats: Rare::default(),
            cache: Rare::default(),
            clock: now,
            drain: None,
            pause: None,
            refused: Refused::default(),
            arrival: None,
            streams: Rare::default(),
            aborted: false,
            initialized_early: false,
            described: 0,
            unordered: false,
            noise: 0,
            stats: Stats::default(),
            side,
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        self.side.settings()
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.settings().limits
    }

    pub(super) const fn role(&self) -> Role {
        match self.side {
            Side::Client { .. } => Role::Client,
            Side::Server { .. } => Role::Server,
        }
    }

    /// Whether there is a session, whose peer can be told something.
    pub(super) const fn has_session(&self) -> bool {
        self.version.is_some() && !self.aborted
    }

    /// The revision that a request of the peer is made in.
    pub(super) fn version_of(&self, key: ReplyKey) -> Option<ProtocolVersion> {
        let modern = self.requests.get(key).and_then(|(entry, _)| entry.tag.modern.as_ref());
        modern.map(|modern| modern.version).or(self.version)
    }

    /// What a name stands for in the era of this connection.
    pub(super) fn method<'a>(&self, name: &'a str) -> MethodName<'a> {
        MethodName::new(name).in_era(self.version.map_or(Era::Legacy, ProtocolVersion::era))
    }

    /// What an end has declared.
    pub(super) fn declared(&self) -> impl Fn(Role) -> CapabilitySet + use<> {
        let (role, local, peer) = (self.role(), self.local, self.peer);
        move |who| if who == role { local } else { peer }
    }

    pub(super) fn poll_event(&mut self) -> Option<Event<'static>> {
        self.events.pop_front().or_else(|| self.ended.take().map(|reason| Event::Closed(*reason)))
    }

    pub(super) fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        self.flush_changes();
        let start = out.len();
        let (route, stream) = self.pop_frame(out)?;
        self.progressed();
        self.stats.frames_sent += u64::from(out.len() > start);
        Some(Transmit { len: out.len() - start, route, stream })
    }

    pub(super) fn has_output(&self) -> bool {
        self.outbox.frames() > 0
            || self.batches.has_complete()
            || !self.changes.is_empty()
            || !self.streams.let_go.is_empty()
            || !self.streams.unanswered.is_empty()
    }

    fn pop_frame(&mut self, out: &mut Vec<u8>) -> Option<(Route, Option<u64>)> {
        if let Some(owner) = self.outbox.pop(Lane::Control, out) {
            return Some(self.left(owner));
        }
        if let Some(stream) = self.pop_batch(out) {
            return Some((Route::Connection, stream));
        }
        while let Some((key, retry)) = self.streams.made().and_then(|streams| streams.let_go.pop_front()) {
            if let Some((entry, State::Open)) = self.requests.get(key) {
                return Some((Route::LetGo { key, retry }, entry.tag.stream()));
            }
        }
        if let Some(stream) = self.streams.made().and_then(|streams| streams.unanswered.pop_front()) {
            return Some((Route::Unanswered, Some(stream)));
        }
        let owner = self.outbox.pop(Lane::Request, out)?;
        Some(self.left(owner))
    }

    /// A frame has left the outbox.
    fn left(&mut self, owner: Owner) -> (Route, Option<u64>) {
        match owner {
            Owner::Nobody | Owner::Behind(_) => (Route::Connection, None),
            Owner::Answered(stream) => (Route::Connection, stream),
            Owner::Reply { key, last } => {
                let mut stream = None;
                if let Some((entry, _)) = self.requests.get_mut(key) {
                    entry.tag.queued -= 1;
                    stream = entry.tag.stream();
                }
                if last {
                    self.release(key);
                }
                (Route::Reply { key, last }, stream)
            }
            Owner::Call(wire) => match self.calls.find_mut(wire.as_u64()) {
                Some((id, call)) => {
                    call.sent = true;
                    let stream = if let CallTag::User { stream, .. } = call.tag { stream } else { None };
                    (Route::Call(id), stream)
                }
                None => (Route::Call(wire), None),
            },
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        let call = self.calls.next_deadline().map(|at| Deadline { at, wake: Wake::RequestTimeout });
        let ping = self.pings.as_ref().and_then(|pings| pings.due()).map(|at| Deadline { at, wake: Wake::Keepalive });
        let drain = self.drain.as_ref().map(|drain| Deadline { at: drain.0, wake: Wake::Drain });
        let reply = self.requests.next_deadline().map(|at| Deadline { at, wake: Wake::ReplyTimeout });
        let retry = self.repeats.next_due().map(|at| Deadline { at, wake: Wake::Retry });
        let nearer = |first: Option<Deadline>, other: Option<Deadline>| match (first, other) {
            (Some(first), Some(other)) if other.at < first.at => Some(other),
            (first, other) => first.or(other),
        };
        let pause = self.pause_ends().map(|at| Deadline { at, wake: Wake::InputPause });
        [reply, retry, ping, drain, pause].into_iter().fold(call, nearer)
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        self.clock = self.clock.max(now);
        while let Some((id, total)) = self.calls.expired(now) {
            self.time_out(now, id, total);
        }
        while let Some(key) = self.requests.expired(now) {
            self.expire(key);
        }
        self.as_client().send_due(now);
        self.keep_alive(now);
        self.end_pause(now);
        if self.drain.as_ref().is_some_and(|drain| drain.0 <= now) {
            self.finish_draining();
        }
    }

    fn time_out(&mut self, now: Timestamp, id: CallId, total: bool) {
        match self.calls.get(id).map(|call| call.tag) {
            // The handshake cannot be cancelled on the wire, and nothing can follow it.
            Some(CallTag::Handshake) => self.end(CloseReason::HandshakeTimeout),
            // An old server might choke on a cancellation, and nothing is lost without one.
            Some(CallTag::Probe { .. }) => {
                self.take_back(id);
                self.calls.retire(id);
                self.as_client().probe_unanswered(now);
            }
            Some(CallTag::Keepalive) => {
                self.abandon(id, Some("timed out"));
                self.ping_missed(now);
            }
            Some(CallTag::Farewell) => {
                self.take_back(id);
                self.calls.retire(id);
            }
            // The answer may be among what is not read.
            Some(CallTag::User { .. }) if !total && self.is_paused() && self.calls.excuse(now, id) => {}
            Some(CallTag::User { .. }) if !total && self.pursues(id) => self.as_client().task_silent(id),
            Some(CallTag::User { .. }) => {
                self.abandon(id, Some("timed out"));
                self.stats.timed_out += 1;
                self.events.push_back(Event::Response { call: id, outcome: Outcome::TimedOut { total } });
            }
            None => {}
        }
    }

    /// The binding may close the stream on which a request is to be answered, if it knows how to open it again.
    pub(super) fn let_go(&mut self, key: ReplyKey, retry: Option<Duration>) {
        let waits = self.requests.get(key).is_some_and(|(entry, state)| {
            state == State::Open && entry.tag.stream().is_some() && entry.tag.modern.is_none()
        });
        if waits && self.streams.let_go.iter().all(|(known, _)| *known != key) {
            self.streams.let_go.push_back((key, retry));
        }
    }

    /// Nothing is going on: gives back the room of what is empty.
    pub(super) fn shrink(&mut self) {
        self.outbox.shrink();
        self.requests.shrink();
        if self.streams.has_none() {
            self.streams = Rare::default();
        }
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
    }

    /// Frees the slot of a request of the peer.
    pub(super) fn release(&mut self, key: ReplyKey) {
        if let Some(tag) = self.requests.retire(key) {
            self.request_bytes -= tag.bytes;
        }
        self.progressed();
    }

    pub(super) fn is_drained(&self) -> bool {
        let told = self.events.is_empty() && self.ended.is_none();
        self.phase == Phase::Closed && self.pending_bytes() == 0 && told
    }

    /// What waits to be written: all of it leaves as soon as it is polled.
    pub(super) fn leaving_bytes(&self) -> usize {
        self.outbox.weight() + self.batches.ready()
    }

    /// What waits to be written, or for the answers that it is to be written with.
    pub(super) fn pending_bytes(&self) -> usize {
        self.leaving_bytes() + self.batches.held()
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            calls: self.calls.len(),
            deadlines: self.calls.deadlines(),
            requests: self.requests.len(),
            request_ids: self.requests.live_ids(),
            request_bytes: self.request_bytes,
            outbox_frames: self.outbox.frames(),
            outbox_bytes: self.pending_bytes(),
            batches: self.batches.len(),
            events: self.events.len() + usize::from(self.ended.is_some()),
            tasks: self.followed.len(),
            changes: self.changes.len(),
            subscriptions: self.subscriptions.len(),
            kept: self.repeats.len(),
            call_bytes: self.repeats.bytes(),
        }
    }
}
