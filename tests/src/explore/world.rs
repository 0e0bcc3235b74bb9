//! Both ends, the links between them, and what may happen next.

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
    app::Debt,
    end::{End, Reply},
    fault::{Fault, Rule, demand},
    flaw::Flaw,
    frames::{Frame, Frames, Said},
    happened::{Happened, Happening, Notes},
    scenario::{Scenario, Who},
    tasks::{About, Turn},
};

/// Something that may happen. Numbers are places in the application's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// An application makes its next request.
    Ask(Who),
    /// An application gives up on a call.
    Cancel(Who, usize),
    /// An application answers a request.
    Answer(Who, usize, Reply),
    /// An application reports progress of a request.
    Progress(Who, usize),
    /// A list of an application changes.
    Note(Who),
    /// The server's application does something with a task.
    Turn(usize, Turn),
    /// An application closes the connection.
    Close(Who),
    /// Writing fails at an end.
    Break(Who),
    /// The next frame of an end goes onto the link.
    Transmit(Who),
    /// The next frame of the link, or its end, comes to an end.
    Deliver(Who),
    /// The next frame of the link will come a second time, behind all others.
    Repeat(Who),
    /// The next two frames of the link become one.
    Batch(Who),
    /// A gateway ends the client's subscription with this number.
    End(u64),
    /// Another client opens a session, behind a gateway.
    Begin,
    /// A deadline is over, and the driver wakes up.
    Wake(Who),
    /// Time passes up to the next deadline.
    Tick,
    /// The links lose everything and end.
    Cut,
}

/// The id of what a newcomer asks, as JSON.
const NEWCOMER: &str = r#""newcomer""#;

/// What it asks.
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"newcomer","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}"#;

/// One direction of the link.
#[derive(Clone, Debug, Default)]
struct Wire {
    frames: VecDeque<Rc<Frame>>,
    /// Nothing more will come.
    ended: bool,
    /// The output is not read any more.
    deaf: bool,
}

/// A state of the conversation.
#[derive(Clone, Debug)]
pub struct World {
    client: Rc<End<ClientRole>>,
    server: Rc<End<ServerRole>>,
    /// What is on its way to the client, and to the server.
    to: [Wire; 2],
    now: Timestamp,
    ticks: u8,
    unhurried: bool,
    repeats: u8,
    batches: u8,
    ends: u8,
    newcomer: bool,
    cut: bool,
    capacity: usize,
    flaw: Option<Flaw>,
    memory: Rc<Memory>,
}

/// What an end does is the same whatever the other one is at, so each step of an end is taken once and remembered.
#[derive(Debug)]
struct Steps<E> {
    taken: RefCell<HashMap<Step, Taken<E>>>,
    /// Every state that the end was in, by its digest.
    states: RefCell<HashMap<u64, Rc<End<E>>>>,
}

/// The state of the end, the time, what happens, and the frame that comes in.
type Step = (u64, Timestamp, Act, Option<usize>);

/// The state that this leads to, whether it is another one, and the frame that leaves.
type Taken<E> = (Rc<End<E>>, bool, Option<Rc<Frame>>);

impl<E> Default for Steps<E> {
    fn default() -> Self {
        Self { taken: RefCell::default(), states: RefCell::default() }
    }
}

impl<E: Clone + fmt::Debug> Steps<E> {
    /// Whether the end changes, the frame that leaves, and whether its driver leaves, too.
    fn step(
        &self,
        end: &mut Rc<End<E>>,
        now: Timestamp,
        act: Act,
        input: Option<&Frame>,
        frames: &Frames,
    ) -> Result<(bool, Option<Rc<Frame>>, bool), Fault> {
        let step = (end.digest(), now, act, input.map(|frame| frame.number));
        let known = self.taken.borrow().get(&step).cloned();
        let (next, changed, output) = match known {
            Some(taken) => taken,
            None => {
                let mut next = End::clone(end);
                let (changed, output) = next.act(now, act, input, frames)?;
                let next = self.states.borrow_mut().entry(next.digest()).or_insert_with(|| Rc::new(next)).clone();
                let taken = (next, changed, output);
                self.taken.borrow_mut().insert(step, taken.clone());
                taken
            }
        };
        *end = next;
        Ok((changed, output, end.gone))
    }
}

/// What all states of an exploration share.
#[derive(Debug, Default)]
struct Memory {
    frames: Frames,
    notes: Notes,
    client: Steps<ClientRole>,
    server: Steps<ServerRole>,
}

/// Does something with one of the ends, which have different types.
macro_rules! at {
    ($world:expr, $who:expr, $end:ident => $body:expr) => {
        match $who {
            Who::Client => {
                let $end = &$world.client;
                $body
            }
            Who::Server => {
                let $end = &$world.server;
                $body
            }
        }
    };
}

const fn other(who: Who) -> Who {
    match who {
        Who::Client => Who::Server,
        Who::Server => Who::Client,
    }
}

impl World {
    /// The conversation before anything of the plans has happened.
    ///
    /// # Errors
    /// If its opening breaks a rule.
    pub fn new(scenario: &Scenario) -> Result<Self, Fault> {
        let (now, memory) = (Timestamp::ZERO, Rc::<Memory>::default());
        let client = Client::new(scenario.client_config(), now);
        let server = Server::new(scenario.server_config(), now);
        let mut world = Self {
            client: Rc::new(End::new(client, scenario, Role::Client, memory.notes.clone())),
            server: Rc::new(End::new(server, scenario, Role::Server, memory.notes.clone())),
            to: Default::default(),
            now,
            ticks: scenario.ticks,
            unhurried: scenario.unhurried,
            repeats: scenario.repeats,
            batches: scenario.batches,
            ends: scenario.ends,
            newcomer: scenario.newcomer,
            cut: scenario.cut,
            capacity: scenario.capacity,
            flaw: scenario.flaw,
            memory,
        };
        if let Some(version) = scenario.agreed() {
            while let Some(next) = world.first_of(|act| matches!(act, Act::Transmit(_) | Act::Deliver(_)))? {
                world = next;
            }
            let ready = world.client.conn.is_ready() && (world.server.conn.is_ready() || version.era() == Era::Modern);
            demand(ready, Rule::Rest, || "the ends do not get ready".into())?;
        }
        Ok(world)
    }

    fn first_of(&self, wanted: impl Fn(Act) -> bool) -> Result<Option<Self>, Fault> {
        for act in self.acts().into_iter().filter(|act| wanted(*act)) {
            if let Some(next) = self.after(act)? {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// What has happened so far, in any order.
    #[must_use]
    pub fn happened(&self) -> Happened {
        self.memory.notes.all()
    }

    /// Tells this state apart from others.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.client.digest(), self.server.digest(), self.now).hash(&mut hasher);
        (self.ticks, self.repeats, self.batches, self.ends, self.newcomer, self.cut).hash(&mut hasher);
        for wire in &self.to {
            (wire.ended, wire.deaf, wire.frames.len()).hash(&mut hasher);
            for frame in &wire.frames {
                frame.number.hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// The digests of the two ends.
    #[must_use]
    pub fn ends(&self) -> [u64; 2] {
        [self.client.digest(), self.server.digest()]
    }

    /// Tries what must be refused at an end.
    ///
    /// # Errors
    /// If something is not refused, or changes something.
    pub fn probe(&self, who: Who) -> Result<(), Fault> {
        at!(self, who, end => end.probe())
    }

    /// Everything that may happen now, and a few things that turn out to be impossible.
    #[must_use]
    pub fn acts(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        for who in Who::BOTH {
            at!(self, who, end => self.acts_of(who, end, &mut acts));
        }
        if self.next_deadline().is_some() && !self.unhurried {
            acts.push(Act::Tick);
        }
        if self.ends > 0 && !(self.client.gone || self.server.gone) {
            let open = self.client.app.subscriptions();
            acts.extend(open.filter(|number| self.client.tap.id_of(*number).is_some()).map(Act::End));
        }
        if self.newcomer && !self.server.gone {
            acts.push(Act::Begin);
        }
        if !self.server.gone {
            acts.extend(self.server.app.tasks.turns().map(|(index, turn)| Act::Turn(index, turn)));
        }
        if self.cut && !(self.client.gone && self.server.gone) {
            acts.push(Act::Cut);
        }
        // A fault counts as something that happens: it is found when that is tried.
        let is_still = || acts.iter().all(|act| matches!(self.after(*act), Ok(None)));
        if self.unhurried && self.next_deadline().is_some() && is_still() {
            acts.push(Act::Tick);
        }
        acts
    }

    fn acts_of<E: Clone + fmt::Debug>(&self, who: Who, end: &End<E>, acts: &mut Vec<Act>) {
        let (app, left) = (&end.app, &end.left);
        // Requests are answered even when the connection is no more: their handlers do not know.
        for (index, request) in app.requests.iter().enumerate().filter(|(_, request)| request.debt != Debt::Paid) {
            acts.push(Act::Answer(who, index, Reply::Result));
            if request.debt == Debt::Open {
                if left.errors > 0 {
                    acts.push(Act::Answer(who, index, Reply::Error));
                }
                if left.tasks > 0 && request.about == About::Work {
                    acts.push(Act::Answer(who, index, Reply::Task));
                }
                if left.questions > 0 && request.about == About::Work {
                    acts.extend((0..=2).map(|count| Act::Answer(who, index, Reply::Questions(count))));
                }
                if request.reports > 0 {
                    acts.push(Act::Progress(who, index));
                }
            }
        }
        if end.gone {
            return;
        }
        let (ready, wire) = (end.conn.is_ready(), &self.to[who as usize]);
        if ready && app.next_ask().is_some() {
            acts.push(Act::Ask(who));
        }
        if left.cancels > 0 {
            let open = app.calls.iter().enumerate().filter(|(_, call)| !call.over);
            acts.extend(open.map(|(index, _)| Act::Cancel(who, index)));
        }
        if left.notes > 0 && (ready || end.conn.usage().subscriptions > 0) {
            acts.push(Act::Note(who));
        }
        if left.closes && end.conn.phase() < Phase::Draining {
            acts.push(Act::Close(who));
        }
        if left.breaks {
            acts.push(Act::Break(who));
        }
        if self.to[other(who) as usize].frames.len() < self.capacity {
            acts.push(Act::Transmit(who));
        }
        if let Some(next) = wire.frames.front() {
            if end.reads {
                acts.push(Act::Deliver(who));
            }
            if self.repeats > 0 {
                acts.push(Act::Repeat(who));
            }
            if self.batches > 0 && wire.frames.get(1).is_some_and(|second| are_batchable(next, second)) {
                acts.push(Act::Batch(who));
            }
        } else if wire.ended && !end.eof && end.reads {
            acts.push(Act::Deliver(who));
        }
        if end.conn.poll_timeout().is_some_and(|deadline| deadline.at <= self.now) {
            acts.push(Act::Wake(who));
        }
    }

    /// The moment of the next deadline, if none has passed and time may still pass.
    fn next_deadline(&self) -> Option<Timestamp> {
        if self.ticks == 0 {
            return None;
        }
        let deadline = |who| at!(self, who, end => end.conn.poll_timeout().filter(|_| !end.gone));
        Who::BOTH.into_iter().filter_map(deadline).map(|deadline| deadline.at).min().filter(|at| *at > self.now)
    }

    /// The state after something has happened; `None` if it cannot happen now, or changes nothing.
    ///
    /// # Errors
    /// If it breaks a rule.
    pub fn after(&self, act: Act) -> Result<Option<Self>, Fault> {
        let mut world = self.clone();
        let changed = world.act(act)?;
        Ok(changed.then_some(world))
    }

    fn act(&mut self, act: Act) -> Result<bool, Fault> {
        match act {
            Act::Ask(who)
            | Act::Cancel(who, _)
            | Act::Answer(who, ..)
            | Act::Progress(who, _)
            | Act::Note(who)
            | Act::Close(who)
            | Act::Break(who)
            | Act::Transmit(who)
            | Act::Deliver(who)
            | Act::Wake(who) => return self.act_at(who, act),
            Act::Turn(..) => return self.act_at(Who::Server, act),
            Act::End(number) => {
                self.ends -= 1;
                let Some(id) = self.client.tap.id_of(number) else { return Ok(false) };
                let text = format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}"
                );
                let frame = self.memory.frames.of(&text);
                for wire in self.to.iter_mut().filter(|wire| !wire.ended && !wire.deaf) {
                    wire.frames.push_back(frame.clone());
                }
            }
            Act::Begin => {
                self.newcomer = false;
                let wire = &mut self.to[Who::Server as usize];
                if wire.ended || wire.deaf {
                    return Ok(false);
                }
                wire.frames.push_back(self.memory.frames.of(INITIALIZE));
            }
            Act::Repeat(who) => {
                self.repeats -= 1;
                self.memory.notes.note(Happening::Repeated);
                let frames = &mut self.to[who as usize].frames;
                frames.extend(frames.front().cloned());
            }
            Act::Batch(who) => {
                self.batches -= 1;
                let frames = &mut self.to[who as usize].frames;
                if let (Some(first), Some(second)) = (frames.pop_front(), frames.pop_front()) {
                    frames.push_front(self.memory.frames.of(&format!("[{},{}]", first.text, second.text)));
                }
            }
            Act::Tick => {
                self.ticks -= u8::from(self.ticks != u8::MAX);
                let Some(at) = self.next_deadline() else { return Ok(false) };
                if self.flaw != Some(Flaw::NoTime) {
                    self.now = at;
                }
            }
            Act::Cut => {
                self.cut = false;
                if self.client.app.has_open_calls() || self.server.app.has_open_calls() {
                    self.memory.notes.note(Happening::Dropped);
                }
                for wire in &mut self.to {
                    (wire.ended, wire.frames) = (true, VecDeque::new());
                }
            }
        }
        Ok(true)
    }

    /// Something happens at one of the ends.
    fn act_at(&mut self, who: Who, act: Act) -> Result<bool, Fault> {
        let input = if let Act::Deliver(_) = act { self.to[who as usize].frames.pop_front() } else { None };
        let memory = &self.memory;
        let (changed, output, gone) = match who {
            Who::Client => memory.client.step(&mut self.client, self.now, act, input.as_deref(), &memory.frames)?,
            Who::Server => memory.server.step(&mut self.server, self.now, act, input.as_deref(), &memory.frames)?,
        };
        let wire = &mut self.to[other(who) as usize];
        let is_kept = |frame: &Rc<Frame>| !wire.ended && !wire.deaf && !frame.answers(NEWCOMER);
        wire.frames.extend(output.filter(is_kept));
        wire.ended |= gone;
        if gone {
            let input = &mut self.to[who as usize];
            (input.deaf, input.frames) = (true, VecDeque::new());
        }
        Ok(changed || input.is_some())
    }

    /// Nothing can happen any more: whether nothing is left over.
    ///
    /// # Errors
    /// If something is.
    pub fn at_rest(&self) -> Result<(), Fault> {
        let ended = self.client.gone || self.server.gone;
        self.client.at_rest(self.now, ended)?;
        self.server.at_rest(self.now, ended)
    }

    /// What is about to happen, for people.
    #[must_use]
    pub fn describe(&self, act: Act) -> String {
        let text = |frame: Option<&Rc<Frame>>| frame.map_or_else(|| "the end".to_owned(), |frame| frame.text.clone());
        match act {
            Act::Transmit(who) => {
                let next = at!(self, who, end => {
                    let mut out = Vec::new();
                    end.conn.clone().poll_transmit(&mut out).map(|_| String::from_utf8_lossy(&out).trim_end().to_owned())
                });
                format!("{who} sends {}", next.unwrap_or_default())
            }
            Act::Deliver(who) => format!("{who} receives {}", text(self.to[who as usize].frames.front())),
            Act::Repeat(who) => format!("{who} will receive twice {}", text(self.to[who as usize].frames.front())),
            Act::Batch(who) => format!("{who} will receive two frames as one"),
            Act::Ask(who) => {
                let ask = at!(self, who, end => end.app.next_ask());
                format!("{who} asks {}", ask.map_or_else(String::new, |(ask, _)| format!("{ask:?}")))
            }
            Act::Cancel(who, index) => format!("{who} cancels its call {index}"),
            Act::Answer(who, index, reply) => format!("{who} answers request {index}: {reply:?}"),
            Act::Progress(who, index) => format!("{who} reports progress of request {index}"),
            Act::Note(who) => format!("{who}: a list changes"),
            Act::Turn(index, turn) => format!("server: task {index} is to {turn:?}"),
            Act::End(number) => format!("a gateway ends subscription {number}"),
            Act::Begin => "another client opens a session".into(),
            Act::Close(who) => format!("{who} closes"),
            Act::Break(who) => format!("{who} cannot write any more"),
            Act::Wake(who) => format!("{who} wakes up"),
            Act::Tick => format!("time passes from {:?} to {:?}", self.now, self.next_deadline().unwrap_or(self.now)),
            Act::Cut => "the links break".into(),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// Whether two messages may travel in one frame: requests with notifications, answers with answers.
fn are_batchable(first: &Frame, second: &Frame) -> bool {
    let kind = |frame: &Frame| match &frame.said[..] {
        _ if frame.is_batch => None,
        [Said::Answer(_)] => Some(true),
        [Said::Request { method, .. }] if &**method == "initialize" => None,
        [_] => Some(false),
        _ => None,
    };
    kind(first).is_some() && kind(first) == kind(second)
}
