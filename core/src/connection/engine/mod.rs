//! The engine: the state of a connection in either role, and how a driver polls it.

mod client_steps;
mod role_state;

pub(crate) use role_state::RoleState;

use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{
    cache::Cache,
    collections::LazyBox,
    connection::{
        state::{
            batch::Batches,
            input_pause::{Pause, RefusedSends},
            keepalive::KeepaliveState,
            list_changes::ListChanges,
            modern::ModernState,
            repeated_parts::RepeatedParts,
            retries::Retries,
            streams::Streams,
            tags::{CallTag, RequestTag},
            task_progress::TaskProgressTable,
        },
        types::{
            Arrival, CloseReason, Deadline, Event, Limits, Outcome, ResourceUsage, Route, Settings, Stats, Transmit,
            Wake,
        },
    },
    protocol::{CapabilitySet, Era, MethodName, Phase, ProtocolVersion, Role},
    rpc::{CallId, EntryState, FrameOwner, Incoming, Outbox, Outgoing, Priority, ReplyKey, Timestamp},
    schema::LoggingLevel,
};

/// The state of a connection in either role.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) role_state: RoleState,
    pub(crate) phase: Phase,
    /// The negotiated revision.
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) local: CapabilitySet,
    pub(crate) peer: CapabilitySet,
    pub(crate) calls: LazyBox<Outgoing<CallTag>>,
    pub(crate) requests: Incoming<RequestTag>,
    pub(crate) request_bytes: usize,
    pub(crate) outbox: Outbox,
    pub(crate) batches: LazyBox<Batches>,
    pub(crate) events: VecDeque<Event<'static>>,
    /// The reason for the close, until it is polled. [`Event::Closed`] is polled after all queued events.
    pub(crate) ended: Option<Box<CloseReason>>,
    pub(crate) list_changes: ListChanges,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) keepalive: Option<Box<KeepaliveState>>,
    pub(crate) task_progress: TaskProgressTable,
    pub(crate) modern: LazyBox<ModernState>,
    pub(crate) retries: LazyBox<Retries>,
    pub(crate) cache: LazyBox<Cache>,
    /// The latest time that the driver passed in.
    pub(crate) clock: Timestamp,
    pub(crate) drain: Option<Box<(Timestamp, CloseReason)>>,
    /// The current pause of reading. It stays after its deadline until there is room again.
    pub(crate) pause: Option<Box<Pause>>,
    pub(crate) refused: RefusedSends,
    /// The arrival of the frame that is being received.
    pub(crate) arrival: Option<Arc<Arrival>>,
    pub(crate) streams: LazyBox<Streams>,
    /// Whether draining began before the handshake was complete.
    pub(crate) aborted: bool,
    /// Whether `notifications/initialized` arrived before `initialize` (servers).
    pub(crate) initialized_early: bool,
    /// Whether the peer's messages arrive on several streams, and therefore in any order.
    pub(crate) unordered: bool,
    /// The number of consecutive lines without a message.
    pub(crate) noise: u32,
    /// An estimate of the bytes that the retained params of `initialize` take (servers).
    pub(crate) described: u32,
    pub(crate) stats: Stats,
}

impl Engine {
    pub(crate) fn new(role_state: RoleState, now: Timestamp) -> Self {
        let (settings, local, hash_seed) = match &role_state {
            RoleState::Client { config, .. } => (&config.settings, config.capabilities.set(), config.hash_seed),
            RoleState::Server { config, .. } => (&config.settings, config.capabilities.set(), config.hash_seed),
        };
        Self {
            phase: Phase::Opening,
            version: None,
            local,
            peer: CapabilitySet::EMPTY,
            calls: LazyBox::default(),
            requests: Incoming::new(hash_seed),
            request_bytes: 0,
            outbox: Outbox::default(),
            batches: LazyBox::default(),
            events: VecDeque::new(),
            ended: None,
            list_changes: ListChanges::default(),
            log_level: None,
            keepalive: KeepaliveState::of(settings, now),
            task_progress: TaskProgressTable::default(),
            modern: LazyBox::default(),
            retries: LazyBox::default(),
            cache: LazyBox::default(),
            clock: now,
            drain: None,
            pause: None,
            refused: RefusedSends::default(),
            arrival: None,
            streams: LazyBox::default(),
            aborted: false,
            initialized_early: false,
            described: 0,
            unordered: false,
            noise: 0,
            stats: Stats::default(),
            role_state,
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.role_state.settings()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.settings().limits
    }

    pub(crate) const fn role(&self) -> Role {
        match self.role_state {
            RoleState::Client { .. } => Role::Client,
            RoleState::Server { .. } => Role::Server,
        }
    }

    /// Returns whether there is a session to whose peer notifications can be sent.
    pub(crate) const fn has_session(&self) -> bool {
        self.version.is_some() && !self.aborted
    }

    /// Returns the revision of a request of the peer.
    pub(crate) fn version_of(&self, key: ReplyKey) -> Option<ProtocolVersion> {
        let modern = self.requests.get(key).and_then(|(entry, _)| entry.tag.stateless.as_ref());
        modern.map(|modern| modern.version).or(self.version)
    }

    /// Returns the method of a name in the era of this connection.
    pub(crate) fn method<'a>(&self, name: &'a str) -> MethodName<'a> {
        MethodName::new(name).in_era(self.version.map_or(Era::Legacy, ProtocolVersion::era))
    }

    /// Returns a function that maps a role to the capabilities that it has declared.
    pub(crate) fn declared(&self) -> impl Fn(Role) -> CapabilitySet + use<> {
        let (role, local, peer) = (self.role(), self.local, self.peer);
        move |who| if who == role { local } else { peer }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event<'static>> {
        self.events.pop_front().or_else(|| self.ended.take().map(|reason| Event::Closed(*reason)))
    }

    pub(crate) fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        if !self.list_changes.is_empty() {
            self.flush_changes();
        }
        let start = out.len();
        let (route, stream) = self.pop_frame(out)?;
        self.progressed();
        self.stats.frames_sent += u64::from(out.len() > start);
        Some(Transmit { len: out.len() - start, route, stream })
    }

    pub(crate) fn has_output(&self) -> bool {
        self.outbox.frames() > 0
            || self.batches.has_complete()
            || !self.list_changes.is_empty()
            || !self.streams.release_stream.is_empty()
            || !self.streams.unanswered.is_empty()
    }

    fn pop_frame(&mut self, out: &mut Vec<u8>) -> Option<(Route, Option<u64>)> {
        if let Some(owner) = self.outbox.pop(Priority::Control, out) {
            return Some(self.left(owner));
        }
        if let Some(stream) = self.pop_batch(out) {
            return Some((Route::Connection, stream));
        }
        while let Some((key, retry)) =
            self.streams.allocated_mut().and_then(|streams| streams.release_stream.pop_front())
        {
            if let Some((entry, EntryState::Open)) = self.requests.get(key) {
                return Some((Route::StreamReleased { key, retry }, entry.tag.stream()));
            }
        }
        if let Some(stream) = self.streams.allocated_mut().and_then(|streams| streams.unanswered.pop_front()) {
            return Some((Route::Unanswered, Some(stream)));
        }
        let owner = self.outbox.pop(Priority::Request, out)?;
        Some(self.left(owner))
    }

    /// Records that a frame has left the outbox, and returns its route and stream.
    fn left(&mut self, owner: FrameOwner) -> (Route, Option<u64>) {
        match owner {
            FrameOwner::None | FrameOwner::Behind(_) => (Route::Connection, None),
            FrameOwner::Answered(stream) => (Route::Connection, stream),
            FrameOwner::Reply { key, last } => {
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
            FrameOwner::Call(wire) => match self.calls.mark_sent(self.clock, wire.as_u64()) {
                Some((id, tag)) => {
                    let stream = if let CallTag::User { stream, .. } = tag { stream } else { None };
                    (Route::Call(id), stream)
                }
                None => (Route::Call(wire), None),
            },
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Deadline> {
        let mut first: Option<Deadline> = None;
        let mut consider = |at: Option<Timestamp>, wake| {
            if let Some(at) = at
                && first.is_none_or(|first| at < first.at)
            {
                first = Some(Deadline { at, wake });
            }
        };
        consider(self.calls.allocated().and_then(Outgoing::next_deadline), Wake::RequestTimeout);
        consider(self.requests.next_deadline(), Wake::ReplyTimeout);
        consider(self.retries.allocated().and_then(Retries::next_due), Wake::Retry);
        consider(self.keepalive.as_ref().and_then(|keepalive| keepalive.due()), Wake::Keepalive);
        consider(self.drain.as_ref().map(|drain| drain.0), Wake::Drain);
        consider(self.pause_ends(), Wake::InputPause);
        first
    }

    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
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
            // `initialize` must not be cancelled, and without its response there is no session.
            Some(CallTag::Handshake) => self.end(CloseReason::HandshakeTimeout),
            // A legacy server may fail on the cancellation of an unknown request, and the probe does not need one.
            Some(CallTag::Probe { .. }) => {
                self.take_back(id);
                self.calls.retire(id);
                self.as_client().probe_unanswered(now);
            }
            Some(CallTag::Keepalive) => {
                self.abandon(id, Some("timed out"));
                self.ping_missed(now);
            }
            Some(CallTag::CancelTask) => {
                self.take_back(id);
                self.calls.retire(id);
            }
            // The response may be in the input that is not being read.
            Some(CallTag::User { .. }) if !total && self.is_paused() && self.calls.excuse(now, id) => {}
            Some(CallTag::User { .. }) if !total && self.has_poller(id) => self.as_client().task_timed_out(id),
            Some(CallTag::User { .. }) => {
                self.abandon(id, Some("timed out"));
                self.stats.timed_out += 1;
                self.events.push_back(Event::Response { call: id, outcome: Outcome::TimedOut { total } });
            }
            None => {}
        }
    }

    /// Allows the binding to close the stream of an open legacy request. The binding must be able to open it again.
    pub(crate) fn release_stream(&mut self, key: ReplyKey, retry: Option<Duration>) {
        let waits = self.requests.get(key).is_some_and(|(entry, state)| {
            state == EntryState::Open && entry.tag.stream().is_some() && entry.tag.stateless.is_none()
        });
        if waits && self.streams.release_stream.iter().all(|(known, _)| *known != key) {
            self.streams.release_stream.push_back((key, retry));
        }
    }

    /// Frees the memory of empty queues of the outbox beyond the little that they always keep.
    #[cfg(feature = "http")]
    pub(crate) fn trim(&mut self) {
        self.outbox.trim();
    }

    /// Frees the memory of empty tables and queues. Called when the connection is idle.
    pub(crate) fn shrink(&mut self) {
        self.outbox.shrink();
        self.requests.shrink();
        if let Some(modern) = self.modern.allocated_mut() {
            modern.repeated = RepeatedParts::default();
        }
        if self.streams.has_none() {
            self.streams = LazyBox::default();
        }
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
    }

    /// Removes a request of the peer from the table.
    pub(crate) fn release(&mut self, key: ReplyKey) {
        if let Some(tag) = self.requests.retire(key) {
            self.request_bytes -= tag.bytes;
            if let (Some(client), Some(modern)) = (tag.stateless, self.modern.allocated_mut()) {
                modern.repeated.take_back(client);
            }
        }
        self.progressed();
    }

    pub(crate) fn is_drained(&self) -> bool {
        let is_reported = self.events.is_empty() && self.ended.is_none();
        self.phase == Phase::Closed && self.pending_bytes() == 0 && is_reported
    }

    /// Returns the bytes that can be written as soon as the driver polls for output.
    pub(crate) fn leaving_bytes(&self) -> usize {
        self.outbox.weight() + self.batches.allocated().map_or(0, Batches::ready)
    }

    /// Returns the bytes that wait to be written, including those of incomplete batches.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.leaving_bytes() + self.batches.held()
    }

    pub(crate) fn usage(&self) -> ResourceUsage {
        ResourceUsage {
            calls: self.calls.len(),
            deadlines: self.calls.deadlines(),
            requests: self.requests.len(),
            request_ids: self.requests.live_ids(),
            request_bytes: self.request_bytes,
            outbox_frames: self.outbox.frames(),
            outbox_bytes: self.pending_bytes(),
            batches: self.batches.len(),
            events: self.events.len() + usize::from(self.ended.is_some()),
            tasks: self.task_progress.len(),
            changes: self.list_changes.len(),
            subscriptions: self.modern.subscriptions.len(),
            kept: self.retries.len(),
            call_bytes: self.retries.bytes(),
        }
    }
}
