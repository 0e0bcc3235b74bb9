//! The model: what a peer remembers, and what can happen to it as a whole.

use mcp_proto::protocol::{Era, ProtocolVersion, Role};
use serde_json::{Value, json};

use super::{
    call::Call,
    output::{About, Batch},
    pause::Pause,
    request::{Request, RequestState},
    step::{By, Ending, Seen, Step},
    table::{DRAIN, HANDSHAKE, may_send, severity},
};

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// `initialize` has not been answered. A server of the modern era stays here.
    Opening,
    /// A server has answered it and was not told that it was heard.
    Initializing,
    /// All is well.
    Ready,
    /// Nothing new is begun.
    Draining,
    /// It is over.
    Closed,
}

/// A peer.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) role: Role,
    /// The revision that it speaks, which is agreed on when it is ready.
    pub(super) revision: ProtocolVersion,
    pub(super) phase: Phase,
    /// `notifications/initialized` has overtaken `initialize`.
    pub(super) overtaken: bool,
    /// It was closed before it was ready, so the other side is told nothing.
    pub(super) aborted: bool,
    pub(super) now: u64,
    pub(super) calls: Vec<Call>,
    pub(super) requests: Vec<Request>,
    /// Those that the application was handed, in that order: all but subscriptions.
    pub(super) handed: Vec<usize>,
    pub(super) next_id: u64,
    /// What goes first: answers, cancellations, notifications.
    pub(super) control: Vec<(About, Value)>,
    /// Requests of its own.
    pub(super) asking: Vec<(About, Value)>,
    pub(super) batches: Vec<Option<Batch>>,
    pub(super) changed: bool,
    /// The least severe log messages that the other side wants.
    pub(super) level: usize,
    /// The requests that will set it when they are answered.
    pub(super) levels: Vec<(usize, usize)>,
    /// The requests that are subscriptions.
    pub(super) listeners: Vec<usize>,
    pub(super) drain: Option<(u64, &'static str)>,
    pub(super) pause: Option<Pause>,
    pub(super) events: Vec<Seen>,
}

impl Model {
    /// A peer behind its handshake or discovery, which took the first id of a client.
    #[must_use]
    pub fn ready(role: Role, revision: ProtocolVersion) -> Self {
        let sessionless = role == Role::Server && revision.era() == Era::Modern;
        Self {
            phase: if sessionless { Phase::Opening } else { Phase::Ready },
            next_id: if role == Role::Client { 2 } else { 1 },
            ..Self::blank(role, revision)
        }
    }

    /// A peer of a session that has not begun.
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
            overtaken: false,
            aborted: false,
            now: 0,
            calls: Vec::new(),
            requests: Vec::new(),
            handed: Vec::new(),
            next_id: 1,
            control: Vec::new(),
            asking: Vec::new(),
            batches: Vec::new(),
            changed: false,
            level: 0,
            levels: Vec::new(),
            listeners: Vec::new(),
            drain: None,
            pause: None,
            events: Vec::new(),
        }
    }

    /// Whether there is no session: every request stands alone.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    /// The revision that it speaks.
    #[must_use]
    pub const fn revision(&self) -> ProtocolVersion {
        self.revision
    }

    /// The ids that calls were given.
    #[must_use]
    pub fn issued(&self) -> Vec<u64> {
        (1..self.next_id).collect()
    }

    /// The calls of the application.
    #[must_use]
    pub fn calls(&self) -> Vec<u64> {
        self.calls.iter().filter(|call| call.method != "initialize").map(|call| call.id).collect()
    }

    /// How many requests the application was handed.
    #[must_use]
    pub fn handed(&self) -> usize {
        self.handed.len()
    }

    /// When it wants to be woken.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let calls = self.live().flat_map(|call| [call.idle_at, call.total_at, call.round.due]);
        calls.flatten().chain(self.drain.map(|(at, _)| at)).chain(self.pause_ends()).min()
    }

    /// Calls, requests and frames that it holds. Batches are not counted as frames.
    #[must_use]
    pub fn holds(&self) -> [usize; 3] {
        let requests = self.requests.iter().filter(|request| request.state != RequestState::Gone).count();
        [self.live().count(), requests, self.control.len() + self.asking.len()]
    }

    /// Whether it has closed, and everything was written.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.phase == Phase::Closed && self.sendable().is_empty()
    }

    /// Something other than [`Step::Read`] and [`Step::Send`] happens: what the application hears, and why it was refused if it was.
    pub fn step(&mut self, step: &Step) -> (Vec<Seen>, Result<(), &'static str>) {
        let outcome = match step {
            Step::Ask { method, progress, idle, total, again } => self.ask(method, *progress, *idle, *total, *again),
            Step::Cancel(call) => self.cancel(*call),
            Step::Answer(request, reply) => self.answer(*request, *reply),
            Step::Report(request, progress) => self.report(*request, *progress),
            Step::Notify(method, level) => self.notify(method, *level),
            Step::Close => {
                self.close("Local");
                Ok(())
            }
            Step::Hear(message) => {
                self.hear(message);
                Ok(())
            }
            Step::Eof => {
                match self.role {
                    Role::Server => self.close("Eof"),
                    // A peer that closes its output while it is asked things has left.
                    Role::Client => self.end("Eof"),
                }
                Ok(())
            }
            Step::Break => {
                self.end("ConnectionLost");
                (self.control, self.asking, self.batches) = Default::default();
                for request in &mut self.requests {
                    if request.state == RequestState::Answered {
                        request.state = RequestState::Gone;
                    }
                }
                Ok(())
            }
            Step::Wait(time) => {
                self.wait(*time);
                Ok(())
            }
            Step::Read | Step::Send => unreachable!("these are asked for"),
        };
        (std::mem::take(&mut self.events), outcome)
    }

    fn notify(&mut self, method: &'static str, level: Option<&str>) -> Result<(), &'static str> {
        let change = method.ends_with("list_changed");
        let listened = method == "notifications/tools/list_changed";
        if self.is_modern() && self.role == Role::Server && listened && self.phase < Phase::Draining {
            // Those who listen are told, and there are no others.
            self.changed |= !self.listeners.is_empty();
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
            Some(level) => self.tell(method, json!({"level": level})),
            None => self.tell(method, json!({})),
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
            if !total && self.excuse(index) {
                continue;
            }
            self.give_up(index);
            self.events.push(Seen::Ended(id, Ending::TimedOut { total }));
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
                self.unhand(index, By::End);
            }
        }
        (self.phase, self.drain, self.changed) = (Phase::Closed, None, false);
        self.events.push(Seen::Closed(reason.to_owned()));
    }
}
