//! The model: the state of a peer, and the steps that concern it as a whole.

use mcp_proto::protocol::{Era, ProtocolVersion, Role};
use serde_json::{Value, json};

use super::{
    call::Call,
    output::{About, Batch},
    pause::Pause,
    request::{Request, RequestState},
    step::{AppEvent, CancelSource, Ending, Step},
    table::{DRAIN, HANDSHAKE, may_send, severity},
};

/// The phase of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// `initialize` has no response. A server of the modern era stays in this phase.
    Opening,
    /// The server has responded to `initialize` and waits for `initialized`.
    Initializing,
    /// The connection is ready.
    Ready,
    /// No new requests begin.
    Draining,
    /// The connection is closed.
    Closed,
}

/// A peer.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) role: Role,
    /// The revision, which is negotiated when the peer is ready.
    pub(super) revision: ProtocolVersion,
    pub(super) phase: Phase,
    /// `notifications/initialized` arrived before `initialize`.
    pub(super) initialized_early: bool,
    /// It was closed before it was ready, so the other side receives no notifications.
    pub(super) aborted: bool,
    pub(super) now: u64,
    pub(super) calls: Vec<Call>,
    pub(super) requests: Vec<Request>,
    /// The requests that were delivered to the application, in that order: all but subscriptions.
    pub(super) delivered: Vec<usize>,
    pub(super) next_id: u64,
    /// Output with priority: responses, cancellations, notifications.
    pub(super) control: Vec<(About, Value)>,
    /// Queued requests of this side.
    pub(super) request_queue: Vec<(About, Value)>,
    pub(super) batches: Vec<Option<Batch>>,
    pub(super) changed: bool,
    /// The log level that the other side has set.
    pub(super) level: usize,
    /// The requests that set the level when they are answered.
    pub(super) levels: Vec<(usize, usize)>,
    /// The requests of subscriptions.
    pub(super) subscribers: Vec<usize>,
    pub(super) drain: Option<(u64, &'static str)>,
    pub(super) pause: Option<Pause>,
    pub(super) events: Vec<AppEvent>,
}

impl Model {
    /// Returns a peer after its handshake or discovery, which used the first id of a client.
    #[must_use]
    pub fn ready(role: Role, revision: ProtocolVersion) -> Self {
        let sessionless = role == Role::Server && revision.era() == Era::Modern;
        Self {
            phase: if sessionless { Phase::Opening } else { Phase::Ready },
            next_id: if role == Role::Client { 2 } else { 1 },
            ..Self::blank(role, revision)
        }
    }

    /// Returns a peer of a session before its handshake.
    #[must_use]
    pub fn opening(role: Role, revision: ProtocolVersion) -> Self {
        let mut model = Self::blank(role, revision);
        if role == Role::Client {
            let params = json!({"protocolVersion": revision.as_str()});
            model.begin("initialize", params, false, Some(HANDSHAKE), Some(HANDSHAKE));
        }
        model
    }

    const fn blank(role: Role, revision: ProtocolVersion) -> Self {
        Self {
            role,
            revision,
            phase: Phase::Opening,
            initialized_early: false,
            aborted: false,
            now: 0,
            calls: Vec::new(),
            requests: Vec::new(),
            delivered: Vec::new(),
            next_id: 1,
            control: Vec::new(),
            request_queue: Vec::new(),
            batches: Vec::new(),
            changed: false,
            level: 0,
            levels: Vec::new(),
            subscribers: Vec::new(),
            drain: None,
            pause: None,
            events: Vec::new(),
        }
    }

    /// Returns whether requests are stateless.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    /// Returns its revision.
    #[must_use]
    pub const fn revision(&self) -> ProtocolVersion {
        self.revision
    }

    /// Returns the request ids that were used for calls.
    #[must_use]
    pub fn issued(&self) -> Vec<u64> {
        (1..self.next_id).collect()
    }

    /// Returns the calls of the application.
    #[must_use]
    pub fn calls(&self) -> Vec<u64> {
        self.calls.iter().filter(|call| call.method != "initialize").map(|call| call.id).collect()
    }

    /// Returns the number of requests delivered to the application.
    #[must_use]
    pub fn delivered(&self) -> usize {
        self.delivered.len()
    }

    /// Returns its next deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let calls = self.live().flat_map(|call| [call.idle_at, call.total_at, call.round.due]);
        calls.flatten().chain(self.drain.map(|(at, _)| at)).chain(self.pause_ends()).min()
    }

    /// Returns the numbers of calls, requests and queued frames. Batches do not count as frames.
    #[must_use]
    pub fn holds(&self) -> [usize; 3] {
        let requests = self.requests.iter().filter(|request| request.state != RequestState::Done).count();
        [self.live().count(), requests, self.control.len() + self.request_queue.len()]
    }

    /// Returns whether it is closed and all output was sent.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.phase == Phase::Closed && self.sendable().is_empty()
    }

    /// Performs a step other than [`Step::Read`] and [`Step::Send`]. Returns the events for the application, and the
    /// reason if the step was rejected.
    pub fn step(&mut self, step: &Step) -> (Vec<AppEvent>, Result<(), &'static str>) {
        let outcome = match step {
            Step::Request { method, progress, idle, total, resubscribe } => {
                self.send_request(method, *progress, *idle, *total, *resubscribe)
            }
            Step::Cancel(call) => self.cancel(*call),
            Step::Respond(request, reply) => self.respond(*request, *reply),
            Step::Report(request, progress) => self.report_progress(*request, *progress),
            Step::Notify(method, level) => self.notify(method, *level),
            Step::Close => {
                self.close("Local");
                Ok(())
            }
            Step::Receive(message) => {
                self.receive(message);
                Ok(())
            }
            Step::Eof => {
                match self.role {
                    Role::Server => self.close("Eof"),
                    // The end of input closes a client at once: its server cannot respond any more.
                    Role::Client => self.end("Eof"),
                }
                Ok(())
            }
            Step::FailWrite => {
                self.end("ConnectionLost");
                (self.control, self.request_queue, self.batches) = Default::default();
                for request in &mut self.requests {
                    if request.state == RequestState::Answered {
                        request.state = RequestState::Done;
                    }
                }
                Ok(())
            }
            Step::Wait(time) => {
                self.wait(*time);
                Ok(())
            }
            Step::Read | Step::Send => unreachable!("the caller handles these steps"),
        };
        (std::mem::take(&mut self.events), outcome)
    }

    fn notify(&mut self, method: &'static str, level: Option<&str>) -> Result<(), &'static str> {
        let change = method.ends_with("list_changed");
        let is_subscribable = method == "notifications/tools/list_changed";
        if self.is_modern() && self.role == Role::Server && is_subscribable && self.phase < Phase::Draining {
            // Only subscribers receive the change.
            self.changed |= !self.subscribers.is_empty();
            return Ok(());
        }
        let log = method == "notifications/message";
        match self.phase {
            Phase::Closed => return Err("Closed"),
            Phase::Initializing if log => {}
            Phase::Opening | Phase::Initializing => return Err("NotReady"),
            Phase::Draining if self.aborted => return Err("Closed"),
            Phase::Ready | Phase::Draining => {}
        }
        let revision = if self.phase < Phase::Ready { ProtocolVersion::LATEST_LEGACY } else { self.revision };
        may_send(method, self.role, revision)?;
        if change {
            self.changed = true;
            return Ok(());
        }
        match level {
            Some(level) if severity(level) < self.level => {}
            Some(level) => self.send_notification(method, json!({"level": level})),
            None => self.send_notification(method, json!({})),
        }
        Ok(())
    }

    fn wait(&mut self, time: u64) {
        self.now += time;
        while let Some((at, index)) = self.next_to_expire() {
            let call = &self.calls[index];
            let (id, method, total) = (call.id, call.method, call.total_at.is_some_and(|total| total <= at));
            if method == "initialize" {
                self.end("HandshakeTimeout");
                continue;
            }
            if !total && self.extend_idle(index) {
                continue;
            }
            self.abandon(index);
            self.events.push(AppEvent::Ended(id, Ending::TimedOut { total }));
        }
        self.send_due();
        self.end_pause();
        if let Some((at, reason)) = self.drain
            && at <= self.now
        {
            self.end(reason);
        }
    }

    fn close(&mut self, reason: &'static str) {
        if self.phase >= Phase::Draining {
            return;
        }
        self.end_calls();
        self.end_subscriptions();
        (self.aborted, self.phase) = (self.phase < Phase::Ready, Phase::Draining);
        self.drain = Some((self.now + DRAIN, reason));
        self.end_if_drained();
    }

    pub(super) fn end_if_drained(&mut self) {
        if let Some((_, reason)) = self.drain
            && self.requests.iter().all(|request| request.state != RequestState::Open)
        {
            self.end(reason);
        }
    }

    pub(super) fn end(&mut self, reason: &str) {
        if self.phase == Phase::Closed {
            return;
        }
        self.end_calls();
        self.end_subscriptions();
        for index in 0..self.requests.len() {
            if self.requests[index].state == RequestState::Open {
                self.withdraw(index);
                self.cancel_delivered(index, CancelSource::End);
            }
        }
        (self.phase, self.drain, self.changed) = (Phase::Closed, None, false);
        self.events.push(AppEvent::Closed(reason.to_owned()));
    }
}
