//! Both sides, the links between them, and the possible actions.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
};

use mcp_proto::{
    connection::{Client, ClientRole, Server, ServerRole},
    protocol::{Era, Phase, Role},
    rpc::Timestamp,
};

use super::{
    app::RequestState,
    cover_points::{CoverPoint, CoverPoints, CoverRecorder},
    frames::{Frame, Frames, Message},
    injected_fault::InjectedFault,
    peer::{Peer, Reply},
    scenario::{Scenario, Side},
    tasks::{RequestKind, TaskStep},
    violation::{Rule, Violation, ensure},
};

/// A possible action. Numbers are indexes in the application's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An application sends its next request.
    Request(Side),
    /// An application cancels a call.
    Cancel(Side, usize),
    /// An application responds to a request.
    Respond(Side, usize, Reply),
    /// An application reports progress of a request.
    Progress(Side, usize),
    /// A list of an application changes.
    ChangeList(Side),
    /// The server's application advances a task.
    TaskStep(usize, TaskStep),
    /// An application closes the connection.
    Close(Side),
    /// Writing fails at one side.
    FailWrite(Side),
    /// The next frame of a side is sent on the link.
    Transmit(Side),
    /// The next frame of the link, or its end, is delivered to a side.
    Deliver(Side),
    /// The next frame of the link is delivered a second time, after all others.
    Duplicate(Side),
    /// The next two frames of the link become a batch.
    Batch(Side),
    /// A gateway ends the client's subscription with this number.
    EndSubscription(u64),
    /// Another client opens a session through a gateway.
    OpenSession,
    /// A deadline has passed, and the driver handles it.
    Timeout(Side),
    /// Time passes up to the next deadline.
    Tick,
    /// The links lose all frames and end.
    Cut,
}

/// The id of the request of the second client, as JSON.
const SECOND_CLIENT: &str = r#""second-client""#;

/// The request of the second client.
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"second-client","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}"#;

/// One direction of the link.
#[derive(Clone, Debug, Default)]
struct Link {
    frames: VecDeque<Rc<Frame>>,
    /// Nothing follows.
    ended: bool,
    /// The receiver has stopped reading.
    unread: bool,
}

/// A state of the exploration.
#[derive(Clone, Debug)]
pub struct System {
    client: Rc<Peer<ClientRole>>,
    server: Rc<Peer<ServerRole>>,
    /// The frames in flight to the client, and to the server.
    to: [Link; 2],
    now: Timestamp,
    ticks: u8,
    eager: bool,
    duplicates: u8,
    batches: u8,
    ends: u8,
    second_client: bool,
    cut: bool,
    capacity: usize,
    injected: Option<InjectedFault>,
    shared: Rc<Shared>,
}

/// The steps of one side. They do not depend on the other side, so each is computed once and cached.
#[derive(Debug)]
struct Steps<E> {
    taken: RefCell<HashMap<Step, StepResult<E>>>,
    /// All states of the side, by digest.
    states: RefCell<HashMap<u64, Rc<Peer<E>>>>,
}

/// The state of the side, the time, the action, and the received frame.
type Step = (u64, Timestamp, Action, Option<usize>);

/// The next state, whether it differs, and the written frame.
type StepResult<E> = (Rc<Peer<E>>, bool, Option<Rc<Frame>>);

impl<E> Default for Steps<E> {
    fn default() -> Self {
        Self { taken: RefCell::default(), states: RefCell::default() }
    }
}

impl<E: Clone + fmt::Debug> Steps<E> {
    /// Performs an action of one side. Returns whether its state has changed, the written frame, and whether its driver
    /// has stopped.
    fn step(
        &self,
        end: &mut Rc<Peer<E>>,
        now: Timestamp,
        action: Action,
        input: Option<&Frame>,
        frames: &Frames,
    ) -> Result<(bool, Option<Rc<Frame>>, bool), Violation> {
        let step = (end.digest(), now, action, input.map(|frame| frame.number));
        let known = self.taken.borrow().get(&step).cloned();
        let (next, changed, output) = match known {
            Some(taken) => taken,
            None => {
                let mut next = Peer::clone(end);
                let (changed, output) = next.apply(now, action, input, frames)?;
                let next = self.states.borrow_mut().entry(next.digest()).or_insert_with(|| Rc::new(next)).clone();
                let taken = (next, changed, output);
                self.taken.borrow_mut().insert(step, taken.clone());
                taken
            }
        };
        *end = next;
        Ok((changed, output, end.stopped))
    }
}

/// The data that all states of an exploration share.
#[derive(Debug, Default)]
struct Shared {
    frames: Frames,
    recorder: CoverRecorder,
    client: Steps<ClientRole>,
    server: Steps<ServerRole>,
}

/// Evaluates an expression for one of the sides, which have different types.
macro_rules! at {
    ($system:expr, $side:expr, $end:ident => $body:expr) => {
        match $side {
            Side::Client => {
                let $end = &$system.client;
                $body
            }
            Side::Server => {
                let $end = &$system.server;
                $body
            }
        }
    };
}

const fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

impl System {
    /// Returns the state before the first action of the plans.
    ///
    /// # Errors
    /// If the opening breaks a rule.
    pub fn new(scenario: &Scenario) -> Result<Self, Violation> {
        let (now, shared) = (Timestamp::ZERO, Rc::<Shared>::default());
        let client = Client::new(scenario.client_config(), now);
        let server = Server::new(scenario.server_config(), now);
        let mut system = Self {
            client: Rc::new(Peer::new(client, scenario, Role::Client, shared.recorder.clone())),
            server: Rc::new(Peer::new(server, scenario, Role::Server, shared.recorder.clone())),
            to: Default::default(),
            now,
            ticks: scenario.ticks,
            eager: scenario.eager,
            duplicates: scenario.duplicates,
            batches: scenario.batches,
            ends: scenario.ends,
            second_client: scenario.second_client,
            cut: scenario.cut,
            capacity: scenario.capacity,
            injected: scenario.injected,
            shared,
        };
        if let Some(version) = scenario.negotiated() {
            while let Some(next) =
                system.first_of(|action| matches!(action, Action::Transmit(_) | Action::Deliver(_)))?
            {
                system = next;
            }
            let ready =
                system.client.conn.is_ready() && (system.server.conn.is_ready() || version.era() == Era::Modern);
            ensure(ready, Rule::Rest, || "the two sides do not become ready".into())?;
        }
        Ok(system)
    }

    fn first_of(&self, wanted: impl Fn(Action) -> bool) -> Result<Option<Self>, Violation> {
        for action in self.actions().into_iter().filter(|action| wanted(*action)) {
            if let Some(next) = self.after(action)? {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Returns the cover points that were reached so far, in any order.
    #[must_use]
    pub fn covered(&self) -> CoverPoints {
        self.shared.recorder.all()
    }

    /// Returns the hash that identifies this state.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.client.digest(), self.server.digest(), self.now).hash(&mut hasher);
        (self.ticks, self.duplicates, self.batches, self.ends, self.second_client, self.cut).hash(&mut hasher);
        for link in &self.to {
            (link.ended, link.unread, link.frames.len()).hash(&mut hasher);
            for frame in &link.frames {
                frame.number.hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// Returns the digests of the two sides.
    #[must_use]
    pub fn ends(&self) -> [u64; 2] {
        [self.client.digest(), self.server.digest()]
    }

    /// Checks that invalid calls are rejected at one side.
    ///
    /// # Errors
    /// If an invalid call is accepted, or changes the state.
    pub fn probe(&self, side: Side) -> Result<(), Violation> {
        at!(self, side, end => end.probe())
    }

    /// Returns all possible actions, and a few that turn out to be impossible.
    #[must_use]
    pub fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for side in Side::BOTH {
            at!(self, side, end => self.actions_of(side, end, &mut actions));
        }
        if self.next_deadline().is_some() && !self.eager {
            actions.push(Action::Tick);
        }
        if self.ends > 0 && !(self.client.stopped || self.server.stopped) {
            let open = self.client.app.subscriptions();
            actions.extend(
                open.filter(|number| self.client.observer.id_of(*number).is_some()).map(Action::EndSubscription),
            );
        }
        if self.second_client && !self.server.stopped {
            actions.push(Action::OpenSession);
        }
        if !self.server.stopped {
            actions.extend(self.server.app.tasks.steps().map(|(index, step)| Action::TaskStep(index, step)));
        }
        if self.cut && !(self.client.stopped && self.server.stopped) {
            actions.push(Action::Cut);
        }
        // An action that breaks a rule counts as possible. The search finds the violation when it performs the action.
        let is_idle = || actions.iter().all(|action| matches!(self.after(*action), Ok(None)));
        if self.eager && self.next_deadline().is_some() && is_idle() {
            actions.push(Action::Tick);
        }
        actions
    }

    fn actions_of<E: Clone + fmt::Debug>(&self, side: Side, end: &Peer<E>, actions: &mut Vec<Action>) {
        let (app, budget) = (&end.app, &end.budget);
        // Handlers respond to requests even after the end of the connection.
        for (index, request) in
            app.requests.iter().enumerate().filter(|(_, request)| request.state != RequestState::Answered)
        {
            actions.push(Action::Respond(side, index, Reply::Result));
            if request.state == RequestState::Open {
                if budget.errors > 0 {
                    actions.push(Action::Respond(side, index, Reply::Error));
                }
                if budget.tasks > 0 && request.kind == RequestKind::Call {
                    actions.push(Action::Respond(side, index, Reply::Task));
                }
                if budget.input_requests > 0 && request.kind == RequestKind::Call {
                    actions.extend((0..=2).map(|count| Action::Respond(side, index, Reply::InputRequired(count))));
                }
                if request.reports > 0 {
                    actions.push(Action::Progress(side, index));
                }
            }
        }
        if end.stopped {
            return;
        }
        let (ready, link) = (end.conn.is_ready(), &self.to[side as usize]);
        if ready && app.next_request().is_some() {
            actions.push(Action::Request(side));
        }
        if budget.cancels > 0 {
            let open = app.calls.iter().enumerate().filter(|(_, call)| !call.over);
            actions.extend(open.map(|(index, _)| Action::Cancel(side, index)));
        }
        if budget.list_changes > 0 && (ready || end.conn.usage().subscriptions > 0) {
            actions.push(Action::ChangeList(side));
        }
        if budget.closes && end.conn.phase() < Phase::Draining {
            actions.push(Action::Close(side));
        }
        if budget.write_fails {
            actions.push(Action::FailWrite(side));
        }
        if self.to[other(side) as usize].frames.len() < self.capacity {
            actions.push(Action::Transmit(side));
        }
        if let Some(next) = link.frames.front() {
            if end.reads {
                actions.push(Action::Deliver(side));
            }
            if self.duplicates > 0 {
                actions.push(Action::Duplicate(side));
            }
            if self.batches > 0 && link.frames.get(1).is_some_and(|second| are_batchable(next, second)) {
                actions.push(Action::Batch(side));
            }
        } else if link.ended && !end.eof && end.reads {
            actions.push(Action::Deliver(side));
        }
        if end.conn.poll_timeout().is_some_and(|deadline| deadline.at <= self.now) {
            actions.push(Action::Timeout(side));
        }
    }

    /// Returns the time of the next deadline, if none has passed and time may still pass.
    fn next_deadline(&self) -> Option<Timestamp> {
        if self.ticks == 0 {
            return None;
        }
        let deadline = |side| at!(self, side, end => end.conn.poll_timeout().filter(|_| !end.stopped));
        Side::BOTH.into_iter().filter_map(deadline).map(|deadline| deadline.at).min().filter(|at| *at > self.now)
    }

    /// Returns the state after an action, or `None` if the action is impossible or changes nothing.
    ///
    /// # Errors
    /// If the action breaks a rule.
    pub fn after(&self, action: Action) -> Result<Option<Self>, Violation> {
        let mut system = self.clone();
        let changed = system.apply(action)?;
        Ok(changed.then_some(system))
    }

    fn apply(&mut self, action: Action) -> Result<bool, Violation> {
        match action {
            Action::Request(side)
            | Action::Cancel(side, _)
            | Action::Respond(side, ..)
            | Action::Progress(side, _)
            | Action::ChangeList(side)
            | Action::Close(side)
            | Action::FailWrite(side)
            | Action::Transmit(side)
            | Action::Deliver(side)
            | Action::Timeout(side) => return self.apply_at(side, action),
            Action::TaskStep(..) => return self.apply_at(Side::Server, action),
            Action::EndSubscription(number) => {
                self.ends -= 1;
                let Some(id) = self.client.observer.id_of(number) else { return Ok(false) };
                let text = format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}"
                );
                let frame = self.shared.frames.of(&text);
                for link in self.to.iter_mut().filter(|link| !link.ended && !link.unread) {
                    link.frames.push_back(frame.clone());
                }
            }
            Action::OpenSession => {
                self.second_client = false;
                let link = &mut self.to[Side::Server as usize];
                if link.ended || link.unread {
                    return Ok(false);
                }
                link.frames.push_back(self.shared.frames.of(INITIALIZE));
            }
            Action::Duplicate(side) => {
                self.duplicates -= 1;
                self.shared.recorder.record(CoverPoint::Duplicated);
                let frames = &mut self.to[side as usize].frames;
                frames.extend(frames.front().cloned());
            }
            Action::Batch(side) => {
                self.batches -= 1;
                let frames = &mut self.to[side as usize].frames;
                if let (Some(first), Some(second)) = (frames.pop_front(), frames.pop_front()) {
                    frames.push_front(self.shared.frames.of(&format!("[{},{}]", first.text, second.text)));
                }
            }
            Action::Tick => {
                self.ticks -= u8::from(self.ticks != u8::MAX);
                let Some(at) = self.next_deadline() else { return Ok(false) };
                if self.injected != Some(InjectedFault::ClockStopped) {
                    self.now = at;
                }
            }
            Action::Cut => {
                self.cut = false;
                if self.client.app.has_open_calls() || self.server.app.has_open_calls() {
                    self.shared.recorder.record(CoverPoint::Dropped);
                }
                for link in &mut self.to {
                    (link.ended, link.frames) = (true, VecDeque::new());
                }
            }
        }
        Ok(true)
    }

    /// Performs an action at one of the sides.
    fn apply_at(&mut self, side: Side, action: Action) -> Result<bool, Violation> {
        let input = if let Action::Deliver(_) = action { self.to[side as usize].frames.pop_front() } else { None };
        let shared = &self.shared;
        let (changed, output, stopped) = match side {
            Side::Client => shared.client.step(&mut self.client, self.now, action, input.as_deref(), &shared.frames)?,
            Side::Server => shared.server.step(&mut self.server, self.now, action, input.as_deref(), &shared.frames)?,
        };
        let link = &mut self.to[other(side) as usize];
        let is_transmitted = |frame: &Rc<Frame>| !link.ended && !link.unread && !frame.answers(SECOND_CLIENT);
        link.frames.extend(output.filter(is_transmitted));
        link.ended |= stopped;
        if stopped {
            let input = &mut self.to[side as usize];
            (input.unread, input.frames) = (true, VecDeque::new());
        }
        Ok(changed || input.is_some())
    }

    /// Checks a state in which no action is possible.
    ///
    /// # Errors
    /// If either side is not idle.
    pub fn check_idle(&self) -> Result<(), Violation> {
        let ended = self.client.stopped || self.server.stopped;
        self.client.check_idle(self.now, ended)?;
        self.server.check_idle(self.now, ended)
    }

    /// Describes an action for readers.
    #[must_use]
    pub fn describe(&self, action: Action) -> String {
        let text = |frame: Option<&Rc<Frame>>| frame.map_or_else(|| "the end".to_owned(), |frame| frame.text.clone());
        match action {
            Action::Transmit(side) => {
                let next = at!(self, side, end => {
                    let mut out = Vec::new();
                    end.conn.clone().poll_transmit(&mut out).map(|_| String::from_utf8_lossy(&out).trim_end().to_owned())
                });
                format!("{side} sends {}", next.unwrap_or_default())
            }
            Action::Deliver(side) => format!("{side} receives {}", text(self.to[side as usize].frames.front())),
            Action::Duplicate(side) => {
                format!("{side} will receive twice {}", text(self.to[side as usize].frames.front()))
            }
            Action::Batch(side) => format!("{side} will receive two frames as one"),
            Action::Request(side) => {
                let planned = at!(self, side, end => end.app.next_request());
                format!("{side} requests {}", planned.map_or_else(String::new, |(planned, _)| format!("{planned:?}")))
            }
            Action::Cancel(side, index) => format!("{side} cancels its call {index}"),
            Action::Respond(side, index, reply) => format!("{side} answers request {index}: {reply:?}"),
            Action::Progress(side, index) => format!("{side} reports progress of request {index}"),
            Action::ChangeList(side) => format!("{side}: a list changes"),
            Action::TaskStep(index, step) => format!("server: task {index} is to {step:?}"),
            Action::EndSubscription(number) => format!("a gateway ends subscription {number}"),
            Action::OpenSession => "another client opens a session".into(),
            Action::Close(side) => format!("{side} closes"),
            Action::FailWrite(side) => format!("{side} cannot write"),
            Action::Timeout(side) => format!("{side} wakes up"),
            Action::Tick => {
                format!("time passes from {:?} to {:?}", self.now, self.next_deadline().unwrap_or(self.now))
            }
            Action::Cut => "the links break".into(),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// Returns whether two messages may be sent in one frame: requests with notifications, or responses with responses.
fn are_batchable(first: &Frame, second: &Frame) -> bool {
    let kind = |frame: &Frame| match &frame.messages[..] {
        _ if frame.is_batch => None,
        [Message::Response(_)] => Some(true),
        [Message::Request { method, .. }] if &**method == "initialize" => None,
        [_] => Some(false),
        _ => None,
    };
    kind(first).is_some() && kind(first) == kind(second)
}
