//! The application of one side: its requests, the requests of the peer, and the checks of its events.

use std::{rc::Rc, time::Duration};

use mcp_proto::{
    connection::{CancelCause, Event, Outcome},
    protocol::{Phase, Role},
    rpc::{CallId, ReplyKey, Timestamp},
    wire::RawJson,
};

use super::{
    frames::progress_has_message,
    scenario::{Plan, PlannedRequest, Scenario},
    tasks::{RequestKind, Tasks},
    violation::{Rule, Violation, ensure},
};

const LISTEN: &str = "subscriptions/listen";

/// The cause of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A frame was received.
    Frame,
    /// A call was cancelled.
    Cancel(CallId),
    /// The application responded to a request, which may be an input request of a call.
    Answer,
    /// A deadline passed.
    Time,
    /// The connection ended.
    End,
    /// A call of the API that causes no events.
    Nothing,
}

/// A call of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call {
    /// Its id.
    pub id: CallId,
    /// The call has ended.
    pub over: bool,
    /// The earliest time at which it may time out.
    until: Option<Timestamp>,
    idle: Option<Duration>,
    total: Option<Timestamp>,
    /// The progress of the last event, as bits.
    progress: Option<u64>,
}

/// The state of a request of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RequestState {
    /// The application has to respond.
    Open,
    /// The request was cancelled and the application has not responded yet.
    Cancelled,
    /// The application has responded.
    Answered,
}

/// A request of the peer, as the application handles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    /// The key to respond with.
    pub key: ReplyKey,
    /// Its state.
    pub state: RequestState,
    /// The number in the params of the request, which the result repeats.
    pub number: u64,
    /// Its kind.
    pub kind: RequestKind,
    /// The number of progress reports left.
    pub reports: u8,
    /// The number of progress reports so far.
    pub reported: u8,
    /// When the connection responds instead of the application.
    due: Option<Timestamp>,
}

/// The application of one side.
#[derive(Clone, Debug)]
pub(super) struct App {
    /// Its plan.
    pub plan: Rc<Plan>,
    role: Role,
    /// Its calls, in the order of the plan.
    pub calls: Vec<Call>,
    /// The requests of the peer, in the order of arrival.
    pub requests: Vec<Request>,
    /// The tasks that were created for calls of the peer.
    pub tasks: Tasks,
    /// The `Ready` event was received.
    pub ready: bool,
    /// The `Closed` event was received.
    pub closed: bool,
    /// Violations of the peer are allowed: frames are duplicated, or the peer does not support the request.
    lenient: bool,
    /// Calls may be sent again with responses to input requests.
    rounds: bool,
    /// All input requests belong to tasks.
    only_tasks_request_input: bool,
}

impl std::hash::Hash for App {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.calls, &self.requests, &self.tasks, self.ready, self.closed).hash(state);
    }
}

impl App {
    /// Returns an application before its first action.
    pub(super) fn new(plan: &Plan, role: Role, scenario: &Scenario) -> Self {
        let plan = Rc::new(plan.clone());
        let (lenient, only_tasks_request_input) =
            (scenario.is_lenient(), scenario.server.tasks > 0 && scenario.server.input_requests == 0);
        let rounds = scenario.server.input_requests > 0 || scenario.server.tasks > 0;
        let (calls, requests, tasks) = (Vec::new(), Vec::new(), Tasks::default());
        Self {
            plan,
            role,
            calls,
            requests,
            tasks,
            ready: false,
            closed: false,
            lenient,
            rounds,
            only_tasks_request_input,
        }
    }

    /// Returns the next planned request, and its number.
    pub(super) fn next_request(&self) -> Option<(PlannedRequest, u64)> {
        let planned = self.plan.requests.get(self.calls.len())?;
        Some((*planned, self.number(self.calls.len())))
    }

    fn number(&self, index: usize) -> u64 {
        let base = if self.role == Role::Client { 1 } else { 101 };
        base + index as u64
    }

    /// Records a new call.
    pub(super) fn on_request_sent(&mut self, now: Timestamp, id: CallId, planned: &PlannedRequest) {
        let total = planned.total.map(|seconds| now + Duration::from_secs(seconds));
        let mut call =
            Call { id, over: false, until: None, idle: planned.idle.map(Duration::from_secs), total, progress: None };
        call.restart_idle_timer(now);
        self.calls.push(call);
    }

    /// Checks an event of the connection, which is in this phase. Returns the number of a call that ended without a
    /// response.
    pub(super) fn on_event(
        &mut self,
        now: Timestamp,
        phase: Phase,
        cause: Cause,
        event: &Event<'_>,
    ) -> Result<Option<u64>, Violation> {
        ensure(!self.closed, Rule::Events, || format!("an event after the last one: {event:?}"))?;
        match event {
            Event::Ready => {
                ensure(!self.ready, Rule::Events, || "ready twice".into())?;
                self.ready = true;
            }
            Event::Request { key, method, params } => {
                let key = *key;
                let known = self.requests.iter().any(|request| request.key == key);
                ensure(!known, Rule::Events, || format!("{key:?} is delivered twice"))?;
                let number = params.as_ref().and_then(|params| params.member("n")?.decode().ok());
                let token = params
                    .as_ref()
                    .and_then(|params| Some(params.member("_meta")?.member("progressToken")?.get().len()));
                self.requests.push(Request {
                    key,
                    state: RequestState::Open,
                    number: number.unwrap_or_default(),
                    kind: RequestKind::of(method.known(), params.as_ref()),
                    reports: if token.is_some() { self.plan.reports } else { 0 },
                    reported: 0,
                    due: self.plan.reply_timeout.map(|timeout| now + timeout),
                });
            }
            Event::Response { call, outcome } => return self.on_response(now, phase, cause, *call, outcome),
            Event::Progress { call, progress } => {
                // A call that is sent again starts its progress again.
                let (number, lenient) = (progress.progress, self.lenient || self.rounds);
                let call = self.open_call(*call)?;
                let grows = call.progress.is_none_or(|last| f64::from_bits(last) < number);
                ensure(grows || lenient, Rule::Progress, || format!("{number} is no progress"))?;
                let whole = progress_has_message(number);
                let as_sent = (progress.total.is_some(), progress.message.is_some()) == (whole, whole);
                ensure(as_sent, Rule::Progress, || format!("{progress:?} differs from the report"))?;
                call.progress = Some(number.to_bits());
                call.restart_idle_timer(now);
            }
            Event::Cancelled { key, cause: why } => self.on_cancelled(now, *key, why)?,
            // The peer checks the subscription of a notification, because it has the current id.
            Event::Notification { .. } => {}
            Event::Task { call, .. } => {
                self.open_call(*call)?;
            }
            Event::Late(call) => {
                let over = self.calls.iter().all(|known| known.id != *call || known.over);
                ensure(over, Rule::EndsOnce, || format!("late for {call:?}, which has not ended"))?;
            }
            Event::PeerError(error) => ensure(self.lenient, Rule::GoodPeers, || error.to_string())?,
            Event::Violation(violation) => ensure(self.lenient, Rule::GoodPeers, || violation.to_string())?,
            Event::Closed(reason) => {
                self.closed = true;
                ensure(self.calls.iter().all(|call| call.over), Rule::EndsOnce, || {
                    format!("a call has not ended and the connection has: {reason}")
                })?;
                ensure(self.requests.iter().all(|request| request.state != RequestState::Open), Rule::Events, || {
                    format!("a request was not cancelled and the connection has ended: {reason}")
                })?;
            }
            other => return Err(Violation::new(Rule::Events, format!("unexpected: {other:?}"))),
        }
        Ok(None)
    }

    fn on_cancelled(&mut self, now: Timestamp, key: ReplyKey, cause: &CancelCause<'_>) -> Result<(), Violation> {
        let request = self.requests.iter_mut().find(|it| it.key == key && it.state == RequestState::Open);
        let Some(request) = request else {
            return Err(Violation::new(Rule::Events, format!("{key:?} is cancelled and was not open")));
        };
        let (due, timed_out) = (request.due, matches!(cause, CancelCause::TimedOut));
        ensure(!timed_out || due.is_some_and(|due| due <= now), Rule::Deadlines, || {
            format!("{key:?} timed out at {now:?}, and is due at {due:?}")
        })?;
        // After a timeout the connection has responded, and the key is not valid any more.
        request.state = if timed_out { RequestState::Answered } else { RequestState::Cancelled };
        request.reports = 0;
        if timed_out {
            request.reported = 0;
        }
        Ok(())
    }

    /// Returns a request of the peer to which the connection should have responded.
    pub(super) fn overdue_request(&self, now: Timestamp) -> Option<&Request> {
        let late =
            |request: &&Request| request.state == RequestState::Open && request.due.is_some_and(|due| due <= now);
        self.requests.iter().find(late)
    }

    /// Ends the cancelled requests whose deadline has passed: their keys are not valid any more, without an event.
    pub(super) fn end_cancelled_requests(&mut self, now: Timestamp) {
        for request in &mut self.requests {
            if request.state == RequestState::Cancelled && request.due.is_some_and(|due| due <= now) {
                (request.state, request.reported) = (RequestState::Answered, 0);
            }
        }
    }

    /// Checks that no input request of an ended call is open (clients of the modern era, which receive no other
    /// requests).
    pub(super) fn check_no_stray_input_request(&self, modern: bool) -> Result<(), Violation> {
        let over = |number| (0..self.calls.len()).any(|index| self.calls[index].over && self.number(index) == number);
        let stray = self.requests.iter().find(|request| request.state == RequestState::Open && over(request.number));
        ensure(!modern || stray.is_none(), Rule::Events, || format!("{stray:?} is an input request of an ended call"))
    }

    /// Returns whether violations of the peer are allowed.
    pub(super) const fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Returns whether the call with this number is open.
    pub(super) fn is_open(&self, number: u64) -> bool {
        (0..self.calls.len()).any(|index| !self.calls[index].over && self.number(index) == number)
    }

    /// Returns the numbers of the open subscriptions.
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = u64> {
        let listens = |index: &usize| self.plan.requests[*index].method == LISTEN && !self.calls[*index].over;
        (0..self.calls.len()).filter(listens).map(|index| self.number(index))
    }

    /// Returns whether a request of the peer has no response yet.
    pub(super) fn has_unanswered_requests(&self) -> bool {
        self.requests.iter().any(|request| request.state == RequestState::Open)
    }

    /// Returns whether a call is open.
    pub(super) fn has_open_calls(&self) -> bool {
        self.calls.iter().any(|call| !call.over)
    }

    /// Returns a call that should have timed out.
    pub(super) fn overdue(&self, now: Timestamp) -> Option<&Call> {
        // An active subscription has no deadline, and a call that waits for its own application is not idle.
        let due = |(index, call): &(usize, &Call)| match self.plan.requests[*index].method {
            LISTEN => None,
            _ if self.rounds => call.total,
            _ => call.until,
        };
        let late = |found: &(usize, &Call)| !found.1.over && due(found).is_some_and(|due| due <= now);
        self.calls.iter().enumerate().find(late).map(|(_, call)| call)
    }

    fn open_call(&mut self, id: CallId) -> Result<&mut Call, Violation> {
        match self.calls.iter_mut().find(|call| call.id == id) {
            None => Err(Violation::new(Rule::EndsOnce, format!("{id:?} was never made"))),
            Some(call) if call.over => Err(Violation::new(Rule::EndsOnce, format!("{id:?} has ended before"))),
            Some(call) => Ok(call),
        }
    }

    fn on_response(
        &mut self,
        now: Timestamp,
        phase: Phase,
        cause: Cause,
        id: CallId,
        outcome: &Outcome<'_>,
    ) -> Result<Option<u64>, Violation> {
        let call = *self.open_call(id)?;
        let index = self.calls.iter().position(|call| call.id == id).unwrap_or_default();
        let listens = self.plan.requests[index].method == LISTEN;
        let core_answers = listens || self.plan.requests[index].method == "ping";
        let right = match outcome {
            Outcome::Result(result) => {
                cause == Cause::Frame && (core_answers || number_in(result) == Some(self.number(index)))
            }
            Outcome::Error(_) => matches!(cause, Cause::Frame | Cause::Answer),
            Outcome::Malformed => false,
            Outcome::TimedOut { .. } => cause == Cause::Time && call.until.is_some_and(|until| until <= now),
            Outcome::Cancelled => cause == Cause::Cancel(id) || listens && cause == Cause::Frame,
            Outcome::Closed(_) => phase >= Phase::Draining,
            // A pipe accepts all output, or breaks.
            Outcome::Failed(_) => false,
        };
        ensure(right, Rule::EndsRightly, || format!("{id:?} ends as {outcome:?}, and the cause is {cause:?}"))?;
        self.calls[index] = Call { id, over: true, until: None, idle: None, total: None, progress: None };
        let given_up = matches!(outcome, Outcome::TimedOut { .. }) || cause == Cause::Cancel(id);
        Ok(given_up.then(|| self.number(index)))
    }

    /// Checks that nothing is open.
    pub(super) fn check_settled(&self) -> Result<(), Violation> {
        let open = self.calls.iter().find(|call| !call.over);
        ensure(open.is_none(), Rule::Rest, || format!("{open:?} never ends"))?;
        let unanswered = self.requests.iter().find(|request| request.state != RequestState::Answered);
        ensure(unanswered.is_none(), Rule::Rest, || format!("{unanswered:?} cannot be answered"))?;
        // A task requests input once, so the client receives one input request per call.
        let twice = |request: &&Request| {
            let same = |other: &&Request| other.number == request.number;
            self.role == Role::Client && self.only_tasks_request_input && self.requests.iter().filter(same).count() > 1
        };
        let twice = self.requests.iter().find(twice);
        ensure(twice.is_none(), Rule::Events, || format!("{twice:?} was requested twice"))
    }
}

impl Call {
    /// Restarts the idle timeout after a message of the peer.
    fn restart_idle_timer(&mut self, now: Timestamp) {
        let idle = self.idle.map(|idle| now + idle);
        self.until = idle.into_iter().chain(self.total).min();
    }
}

fn number_in(result: &RawJson<'_>) -> Option<u64> {
    result.member("n")?.decode().ok()
}
