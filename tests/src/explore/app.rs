//! The application at one end: what it has asked and was asked, and whether what it hears of it can be.

use std::{rc::Rc, time::Duration};

use mcp_proto::{
    connection::{Event, Outcome},
    protocol::{Phase, Role},
    rpc::{CallId, ReplyKey, Timestamp},
    wire::RawJson,
};

use super::{
    fault::{Fault, Rule, demand},
    frames::progress_has_message,
    scenario::{Ask, Plan, Scenario},
    tasks::{About, Tasks},
};

const LISTEN: &str = "subscriptions/listen";

/// What an event comes of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A frame came in.
    Frame,
    /// A call was cancelled.
    Cancel(CallId),
    /// A request was answered, which may have been a question of a call.
    Answer,
    /// Time has passed.
    Time,
    /// The connection ends.
    End,
    /// Something that has no events.
    Nothing,
}

/// A call, as its application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call {
    /// Which.
    pub id: CallId,
    /// It has ended.
    pub over: bool,
    /// The earliest moment at which it may time out.
    until: Option<Timestamp>,
    idle: Option<Duration>,
    total: Option<Timestamp>,
    /// The progress that was heard of, as bits.
    progress: Option<u64>,
}

/// How far a request of the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Debt {
    /// It is owed an answer.
    Open,
    /// The peer does not want one any more, and the application has not stopped yet.
    Cancelled,
    /// It was answered.
    Paid,
}

/// A request of the peer, as the application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    /// To answer with.
    pub key: ReplyKey,
    /// How far it is.
    pub debt: Debt,
    /// The number that the peer has given to what it asks, which the answer repeats.
    pub number: u64,
    /// What it is about.
    pub about: About,
    /// How many reports of progress are left.
    pub reports: u8,
    /// How many were made.
    pub reported: u8,
}

/// The application at one end.
#[derive(Clone, Debug)]
pub(super) struct App {
    /// What it may do.
    pub plan: Rc<Plan>,
    role: Role,
    /// Its calls, in the order of its plan.
    pub calls: Vec<Call>,
    /// The requests of the peer, in the order in which they came.
    pub requests: Vec<Request>,
    /// The tasks that calls of the peer have become.
    pub tasks: Tasks,
    /// It was told that the connection is ready.
    pub ready: bool,
    /// It was told that the connection has ended.
    pub closed: bool,
    /// The peer may seem to misbehave: its frames come twice, or it does not know what it is asked.
    lenient: bool,
    /// Its requests may be sent again with answers to questions.
    rounds: bool,
    /// Nothing but tasks asks it something.
    tasks_ask: bool,
}

impl std::hash::Hash for App {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.calls, &self.requests, &self.tasks, self.ready, self.closed).hash(state);
    }
}

impl App {
    /// One that has done nothing yet.
    pub(super) fn new(plan: &Plan, role: Role, scenario: &Scenario) -> Self {
        let plan = Rc::new(plan.clone());
        let (lenient, tasks_ask) = (scenario.is_lenient(), scenario.server.tasks > 0 && scenario.server.questions == 0);
        let rounds = scenario.server.questions > 0 || scenario.server.tasks > 0;
        let (calls, requests, tasks) = (Vec::new(), Vec::new(), Tasks::default());
        Self { plan, role, calls, requests, tasks, ready: false, closed: false, lenient, rounds, tasks_ask }
    }

    /// The next request that it makes, and the number that goes with it.
    pub(super) fn next_ask(&self) -> Option<(Ask, u64)> {
        let ask = self.plan.asks.get(self.calls.len())?;
        Some((*ask, self.number(self.calls.len())))
    }

    fn number(&self, index: usize) -> u64 {
        let base = if self.role == Role::Client { 1 } else { 101 };
        base + index as u64
    }

    /// A call was made.
    pub(super) fn asked(&mut self, now: Timestamp, id: CallId, ask: &Ask) {
        let total = ask.total.map(|seconds| now + Duration::from_secs(seconds));
        let mut call =
            Call { id, over: false, until: None, idle: ask.idle.map(Duration::from_secs), total, progress: None };
        call.moved(now);
        self.calls.push(call);
    }

    /// An event comes out of the connection, which is in this phase. If it means that a request was given up, which.
    pub(super) fn on_event(
        &mut self,
        now: Timestamp,
        phase: Phase,
        cause: Cause,
        event: &Event<'_>,
    ) -> Result<Option<u64>, Fault> {
        demand(!self.closed, Rule::Events, || format!("an event after the last one: {event:?}"))?;
        match event {
            Event::Ready => {
                demand(!self.ready, Rule::Events, || "ready twice".into())?;
                self.ready = true;
            }
            Event::Request { key, method, params } => {
                let key = *key;
                let known = self.requests.iter().any(|request| request.key == key);
                demand(!known, Rule::Events, || format!("{key:?} is handed out twice"))?;
                let number = params.as_ref().and_then(|params| params.member("n")?.decode().ok());
                let token = params
                    .as_ref()
                    .and_then(|params| Some(params.member("_meta")?.member("progressToken")?.get().len()));
                self.requests.push(Request {
                    key,
                    debt: Debt::Open,
                    number: number.unwrap_or_default(),
                    about: About::of(method.known(), params.as_ref()),
                    reports: if token.is_some() { self.plan.reports } else { 0 },
                    reported: 0,
                });
            }
            Event::Response { call, outcome } => return self.ended(now, phase, cause, *call, outcome),
            Event::Progress { call, progress } => {
                // A request that is sent again begins anew.
                let (number, lenient) = (progress.progress, self.lenient || self.rounds);
                let call = self.open_call(*call)?;
                let grows = call.progress.is_none_or(|last| f64::from_bits(last) < number);
                demand(grows || lenient, Rule::Progress, || format!("{number} is no progress"))?;
                let whole = progress_has_message(number);
                let as_sent = (progress.total.is_some(), progress.message.is_some()) == (whole, whole);
                demand(as_sent, Rule::Progress, || format!("{progress:?} is not what was reported"))?;
                call.progress = Some(number.to_bits());
                call.moved(now);
            }
            Event::Cancelled { key, .. } => {
                let request =
                    self.requests.iter_mut().find(|request| request.key == *key && request.debt == Debt::Open);
                match request {
                    Some(request) => (request.debt, request.reports) = (Debt::Cancelled, 0),
                    None => return Err(Fault::new(Rule::Events, format!("{key:?} is cancelled and was not open"))),
                }
            }
            // Which subscription it comes from is looked at where it is known what that is called now.
            Event::Notification { .. } => {}
            Event::Task { call, .. } => {
                self.open_call(*call)?;
            }
            Event::Late(call) => {
                let over = self.calls.iter().all(|known| known.id != *call || known.over);
                demand(over, Rule::EndsOnce, || format!("late for {call:?}, which has not ended"))?;
            }
            Event::PeerError(error) => demand(self.lenient, Rule::GoodPeers, || error.to_string())?,
            Event::Violation(violation) => demand(self.lenient, Rule::GoodPeers, || violation.to_string())?,
            Event::Closed(reason) => {
                self.closed = true;
                demand(self.calls.iter().all(|call| call.over), Rule::EndsOnce, || {
                    format!("a call has not ended and the connection has: {reason}")
                })?;
                demand(self.requests.iter().all(|request| request.debt != Debt::Open), Rule::Events, || {
                    format!("a request was not cancelled and the connection has ended: {reason}")
                })?;
            }
            other => return Err(Fault::new(Rule::Events, format!("unexpected: {other:?}"))),
        }
        Ok(None)
    }

    /// A question of a call that has ended is not put any more (clients of the modern era, which are asked nothing else).
    pub(super) fn no_stray_question(&self, modern: bool) -> Result<(), Fault> {
        let over = |number| (0..self.calls.len()).any(|index| self.calls[index].over && self.number(index) == number);
        let stray = self.requests.iter().find(|request| request.debt == Debt::Open && over(request.number));
        demand(!modern || stray.is_none(), Rule::Events, || format!("{stray:?} is a question of what has ended"))
    }

    /// Whether the peer may seem to misbehave.
    pub(super) const fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Whether the call with this number has not ended.
    pub(super) fn is_open(&self, number: u64) -> bool {
        (0..self.calls.len()).any(|index| !self.calls[index].over && self.number(index) == number)
    }

    /// The numbers of the subscriptions that have not ended.
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = u64> {
        let listens = |index: &usize| self.plan.asks[*index].method == LISTEN && !self.calls[*index].over;
        (0..self.calls.len()).filter(listens).map(|index| self.number(index))
    }

    /// Whether an answer is owed to anybody.
    pub(super) fn owes_answers(&self) -> bool {
        self.requests.iter().any(|request| request.debt == Debt::Open)
    }

    /// Whether there is a call that has not ended.
    pub(super) fn has_open_calls(&self) -> bool {
        self.calls.iter().any(|call| !call.over)
    }

    /// Whether a call ought to have timed out.
    pub(super) fn overdue(&self, now: Timestamp) -> Option<&Call> {
        // A subscription in force may last, and what waits for its own side is not idle.
        let due = |(index, call): &(usize, &Call)| match self.plan.asks[*index].method {
            LISTEN => None,
            _ if self.rounds => call.total,
            _ => call.until,
        };
        let late = |found: &(usize, &Call)| !found.1.over && due(found).is_some_and(|due| due <= now);
        self.calls.iter().enumerate().find(late).map(|(_, call)| call)
    }

    fn open_call(&mut self, id: CallId) -> Result<&mut Call, Fault> {
        match self.calls.iter_mut().find(|call| call.id == id) {
            None => Err(Fault::new(Rule::EndsOnce, format!("{id:?} was never made"))),
            Some(call) if call.over => Err(Fault::new(Rule::EndsOnce, format!("{id:?} has ended before"))),
            Some(call) => Ok(call),
        }
    }

    fn ended(
        &mut self,
        now: Timestamp,
        phase: Phase,
        cause: Cause,
        id: CallId,
        outcome: &Outcome<'_>,
    ) -> Result<Option<u64>, Fault> {
        let call = *self.open_call(id)?;
        let index = self.calls.iter().position(|call| call.id == id).unwrap_or_default();
        let listens = self.plan.asks[index].method == LISTEN;
        let core_answers = listens || self.plan.asks[index].method == "ping";
        let right = match outcome {
            Outcome::Result(result) => {
                cause == Cause::Frame && (core_answers || number_in(result) == Some(self.number(index)))
            }
            Outcome::Error(_) => matches!(cause, Cause::Frame | Cause::Answer),
            Outcome::Malformed => false,
            Outcome::TimedOut { .. } => cause == Cause::Time && call.until.is_some_and(|until| until <= now),
            Outcome::Cancelled => cause == Cause::Cancel(id) || listens && cause == Cause::Frame,
            Outcome::Closed(_) => phase >= Phase::Draining,
            // A pipe takes what is written, or breaks.
            Outcome::Failed(_) => false,
        };
        demand(right, Rule::EndsRightly, || format!("{id:?} ends as {outcome:?}, and the cause is {cause:?}"))?;
        self.calls[index] = Call { id, over: true, until: None, idle: None, total: None, progress: None };
        let given_up = matches!(outcome, Outcome::TimedOut { .. }) || cause == Cause::Cancel(id);
        Ok(given_up.then(|| self.number(index)))
    }

    /// Whether nothing is open any more.
    pub(super) fn settled(&self) -> Result<(), Fault> {
        let open = self.calls.iter().find(|call| !call.over);
        demand(open.is_none(), Rule::Rest, || format!("{open:?} never ends"))?;
        let owed = self.requests.iter().find(|request| request.debt != Debt::Paid);
        demand(owed.is_none(), Rule::Rest, || format!("{owed:?} cannot be answered"))?;
        // A task asks once, and so is the client that waits for it.
        let twice = |request: &&Request| {
            let same = |other: &&Request| other.number == request.number;
            self.role == Role::Client && self.tasks_ask && self.requests.iter().filter(same).count() > 1
        };
        let twice = self.requests.iter().find(twice);
        demand(twice.is_none(), Rule::Events, || format!("{twice:?} was asked twice"))
    }
}

impl Call {
    /// The peer was heard of: the idle deadline starts anew.
    fn moved(&mut self, now: Timestamp) {
        let idle = self.idle.map(|idle| now + idle);
        self.until = idle.into_iter().chain(self.total).min();
    }
}

fn number_in(result: &RawJson<'_>) -> Option<u64> {
    result.member("n")?.decode().ok()
}
