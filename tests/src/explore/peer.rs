//! One side: the connection, its application, and the driver between them.

use std::{
    fmt,
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
    time::Duration,
};

use mcp_proto::{
    codec,
    connection::{Connection, Event, ResourceUsage, SendError, Wake},
    protocol::{Era, Phase, Role},
    rpc::Timestamp,
    wire::{ErrorObject, Json, RawJson},
};
use serde_json::json;

use super::{
    app::{App, Cause, RequestState},
    cover_points::{CoverPoint, CoverRecorder},
    frames::{self, Frame, Frames},
    injected_fault::InjectedFault,
    scenario::Scenario,
    system::Action,
    tasks::{RequestKind, TaskStep},
    violation::{Rule, Violation, ensure},
    wire_observer::WireObserver,
};

/// The kind of a response to a request of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// A result.
    Result,
    /// An error.
    Error,
    /// `input_required` with this many input requests. Without any, it has a state.
    InputRequired(u8),
    /// A task.
    Task,
}

/// The optional actions that remain to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Cancellations of calls.
    pub cancels: u8,
    /// Error responses.
    pub errors: u8,
    /// Responses of type `input_required`.
    pub input_requests: u8,
    /// Responses with a task.
    pub tasks: u8,
    /// Changes of a list.
    pub list_changes: u8,
    /// Closing the connection.
    pub closes: bool,
    /// A write error.
    pub write_fails: bool,
}

/// One side of the connection.
#[derive(Clone, Debug)]
pub(super) struct Peer<E> {
    /// The connection.
    pub(super) conn: Connection<E>,
    /// Its application.
    pub app: App,
    /// The optional actions that remain.
    pub budget: Budget,
    /// The observer of the frames.
    pub observer: WireObserver,
    /// The driver has reached the end of its input.
    pub eof: bool,
    /// The driver has left its loop.
    pub stopped: bool,
    /// The connection accepts input.
    pub reads: bool,
    role: Role,
    injected: Option<InjectedFault>,
    digest: u64,
    /// Calls may become tasks.
    has_tasks: bool,
    /// The record of cover points, which all states share.
    recorder: CoverRecorder,
}

impl<E: Clone + fmt::Debug> Peer<E> {
    /// Returns a side before its first action.
    pub(super) fn new(conn: Connection<E>, scenario: &Scenario, role: Role, recorder: CoverRecorder) -> Self {
        let plan = if role == Role::Client { &scenario.client } else { &scenario.server };
        let budget = Budget {
            cancels: plan.cancels,
            errors: plan.errors,
            input_requests: plan.input_requests,
            tasks: plan.tasks,
            list_changes: plan.list_changes,
            closes: plan.closes,
            write_fails: plan.write_fails,
        };
        let app = App::new(plan, role, scenario);
        let mut end = Self {
            conn,
            app,
            budget,
            observer: WireObserver::default(),
            eof: false,
            stopped: false,
            reads: true,
            role,
            injected: scenario.injected,
            digest: 0,
            has_tasks: scenario.server.tasks > 0,
            recorder,
        };
        end.update_digest();
        end
    }

    /// Returns the hash that identifies this state.
    pub(super) const fn digest(&self) -> u64 {
        self.digest
    }

    /// Updates the digest. Returns whether it has changed.
    fn update_digest(&mut self) -> bool {
        let mut text = String::with_capacity(4096);
        write!(text, "{:?}", self.conn).expect("a string takes everything");
        // Counters do not influence the behaviour.
        let start = text.find("stats: Stats {").expect("the counters are printed");
        let len = text[start..].find('}').expect("they end");
        text.replace_range(start..start + len, "");
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        (&self.app, &self.budget, &self.observer, self.eof, self.stopped, self.reads).hash(&mut hasher);
        std::mem::replace(&mut self.digest, hasher.finish()) != self.digest
    }

    fn is_modern(&self) -> bool {
        self.conn.version().is_some_and(|version| version.era() == Era::Modern) || {
            let versions = self.conn.settings().versions;
            self.role == Role::Server && versions.iter().all(|version| version.era() == Era::Modern)
        }
    }

    /// Handles the events of a call of the API with this outcome, and checks the state. Returns whether the state has
    /// changed. A rejected call must not change it.
    fn settle(&mut self, now: Timestamp, cause: Cause, refused: Option<SendError>) -> Result<bool, Violation> {
        let mut handled = false;
        while let Some(event) = self.conn.poll_event() {
            handled = true;
            self.handle_event(now, cause, &event)?;
        }
        let has_cause = !handled || cause != Cause::Nothing;
        ensure(has_cause, Rule::Events, || "an event without a cause".into())?;
        self.app.check_no_stray_input_request(self.role == Role::Client && self.is_modern())?;
        self.stopped |= self.conn.is_drained();
        self.reads = self.conn.wants_input(now);
        if !self.reads {
            self.recorder.record(CoverPoint::Paused);
        }
        let is_waiting = self.conn.phase() != Phase::Draining || self.app.has_unanswered_requests();
        ensure(is_waiting, Rule::Rest, || "no response is missing, but the connection does not end".into())?;
        self.check_limits()?;
        let changed = self.update_digest();
        match refused {
            Some(SendError::Busy) => {
                ensure(!changed, Rule::Refusals, || "there was no room, and something has changed".into())?;
                Ok(false)
            }
            Some(error) => Err(Violation::new(Rule::Refusals, format!("refused for no reason: {error}"))),
            None => Ok(changed),
        }
    }

    fn handle_event(&mut self, now: Timestamp, cause: Cause, event: &Event<'_>) -> Result<(), Violation> {
        if let Some(what) = CoverPoint::of(event) {
            self.recorder.record(what);
        }
        if let Event::Notification { params: Some(params), .. } = event {
            let meta = params.member("_meta");
            let subscription = meta.as_ref().and_then(|meta| meta.member("io.modelcontextprotocol/subscriptionId"));
            if let Some(subscription) = subscription {
                let open = self.observer.number_of(subscription.get()).is_some_and(|number| self.app.is_open(number));
                let what = || format!("a notification of subscription {}, which has ended", subscription.get());
                ensure(open, Rule::EndsOnce, what)?;
            }
        }
        for _ in 0..self.injected.map_or(1, |injected| injected.deliveries(event)) {
            if let Some(given_up) = self.app.on_event(now, self.conn.phase(), cause, event)? {
                self.observer.abandon(given_up);
            }
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), Violation> {
        let (usage, limits) = (self.conn.usage(), &self.conn.settings().limits);
        let within = usage.calls <= limits.calls
            && usage.requests <= limits.requests
            && usage.request_bytes <= limits.request_bytes
            && usage.subscriptions <= limits.subscriptions;
        ensure(within, Rule::Limits, || format!("{usage:?}"))
    }

    /// Performs an action. Returns whether the state has changed, and the frame that was written.
    pub(super) fn apply(
        &mut self,
        now: Timestamp,
        action: Action,
        input: Option<&Frame>,
        frames: &Frames,
    ) -> Result<(bool, Option<Rc<Frame>>), Violation> {
        let changed = match action {
            Action::Request(_) => self.send_request(now)?,
            Action::Cancel(_, index) => self.cancel(now, index)?,
            Action::Respond(_, index, reply) => self.respond(now, index, reply)?,
            Action::Progress(_, index) => self.progress(now, index)?,
            Action::ChangeList(_) => self.change_list(now)?,
            Action::Close(_) => self.close(now)?,
            Action::FailWrite(_) => self.fail_write(now)?,
            Action::Timeout(_) => self.handle_timeout(now)?,
            Action::Transmit(_) => return self.transmit(now, frames),
            Action::Deliver(_) => match input {
                Some(frame) => self.receive(now, frame)?,
                None => self.end_of_input(now)?,
            },
            Action::TaskStep(index, step) => {
                self.app.tasks.apply_step(index, step);
                if step == TaskStep::RequestInput {
                    self.recorder.record(CoverPoint::InputRequired);
                }
                self.settle(now, Cause::Nothing, None)?
            }
            Action::Duplicate(_)
            | Action::Batch(_)
            | Action::EndSubscription(_)
            | Action::OpenSession
            | Action::Tick
            | Action::Cut => false,
        };
        Ok((changed, None))
    }

    /// Sends the next planned request.
    fn send_request(&mut self, now: Timestamp) -> Result<bool, Violation> {
        let Some((planned, number)) = self.app.next_request() else { return Ok(false) };
        let params = match planned.method {
            "subscriptions/listen" => json!({"n": number, "notifications": {"toolsListChanged": true}}),
            _ => json!({"n": number}),
        };
        let params = Json::new(&params).expect("this is JSON");
        let sent = self.conn.request_raw(now, planned.method, Some(&RawJson::from(&params)), planned.options());
        if let Ok(call) = sent {
            self.app.on_request_sent(now, call, &planned);
        }
        self.settle(now, Cause::Nothing, sent.err())
    }

    /// Cancels one of the application's calls.
    fn cancel(&mut self, now: Timestamp, index: usize) -> Result<bool, Violation> {
        let call = self.app.calls[index].id;
        let refused = self.conn.cancel(call, None).err();
        self.budget.cancels -= 1;
        let changed = self.settle(now, Cause::Cancel(call), refused)?;
        ensure(self.app.calls[index].over, Rule::EndsOnce, || format!("{call:?} was cancelled and does not end"))?;
        Ok(changed)
    }

    /// Responds to a request.
    fn respond(&mut self, now: Timestamp, index: usize, reply: Reply) -> Result<bool, Violation> {
        let request = self.app.requests[index];
        // The response to a cancelled request ends the work on it. It cannot create a task, but it can end one.
        let mut tasks = self.app.tasks.clone();
        let refused = match reply {
            Reply::Error => self.conn.respond_error(request.key, &ErrorObject::internal("no")),
            Reply::Result | Reply::InputRequired(_) | Reply::Task => {
                let result = match reply {
                    Reply::InputRequired(0) => json!({"resultType": "input_required", "requestState": "s"}),
                    Reply::InputRequired(count) => {
                        let input_request = json!({"method": "roots/list", "params": {"n": request.number}});
                        let input_requests: serde_json::Map<_, _> =
                            (0..count).map(|name| (format!("q{name}"), input_request.clone())).collect();
                        json!({"resultType": "input_required", "inputRequests": input_requests})
                    }
                    Reply::Task => tasks.create(request.number),
                    _ if matches!(request.kind, RequestKind::Call | RequestKind::Other) => json!({"n": request.number}),
                    _ => tasks.respond(request.kind),
                };
                let result = Json::new(&result).expect("this is JSON");
                self.conn.respond_raw(request.key, &RawJson::from(&result))
            }
        };
        if refused.is_ok() {
            if reply == Reply::Error {
                tasks.refuse(request.kind);
            }
            self.app.tasks = tasks;
            let request = &mut self.app.requests[index];
            (request.state, request.reports, request.reported) = (RequestState::Answered, 0, 0);
            self.budget.errors -= u8::from(reply == Reply::Error);
            self.budget.tasks -= u8::from(reply == Reply::Task);
            if matches!(reply, Reply::InputRequired(_)) {
                self.budget.input_requests -= 1;
                self.recorder.record(CoverPoint::InputRequired);
            }
        }
        self.settle(now, Cause::Answer, refused.err())
    }

    /// Reports progress of a request. Each second report has a total and a message.
    fn progress(&mut self, now: Timestamp, index: usize) -> Result<bool, Violation> {
        let request = &mut self.app.requests[index];
        let number = f64::from(request.reported + 1);
        let whole = frames::progress_has_message(number);
        let reported = self.conn.progress(request.key, number, whole.then_some(9.0), whole.then_some("half"));
        if reported.is_ok() {
            request.reports -= 1;
            request.reported += 1;
        }
        self.settle(now, Cause::Nothing, reported.err())
    }

    /// Changes a list of the application.
    fn change_list(&mut self, now: Timestamp) -> Result<bool, Violation> {
        let method = match self.role {
            Role::Client => "notifications/roots/list_changed",
            Role::Server => "notifications/tools/list_changed",
        };
        let sent = self.conn.notify_raw(method, None);
        if sent.is_ok() {
            self.budget.list_changes -= 1;
            self.observer.list_changed(self.is_modern());
        }
        self.settle(now, Cause::Nothing, sent.err())
    }

    /// Closes the connection.
    fn close(&mut self, now: Timestamp) -> Result<bool, Violation> {
        self.budget.closes = false;
        self.conn.close(now);
        self.settle(now, Cause::End, None)
    }

    /// Reports a write error to the connection.
    fn fail_write(&mut self, now: Timestamp) -> Result<bool, Violation> {
        self.budget.write_fails = false;
        self.conn.handle_disconnect();
        self.settle(now, Cause::End, None)
    }

    /// Passes a frame to the connection.
    fn receive(&mut self, now: Timestamp, frame: &Frame) -> Result<bool, Violation> {
        // A closed connection only writes. It handles no input.
        let closed = self.conn.phase() == Phase::Closed;
        if !closed {
            let cancelled = self.observer.incoming(frame, self.role == Role::Client && self.is_modern());
            // A withdrawn response does not create its task for the client. The task runs until its time to live ends.
            self.app.tasks.abandon(cancelled);
        }
        let text = self.injected.map_or_else(|| Some(frame.text.clone()), |injected| injected.received_text(frame));
        let event = text.as_ref().and_then(|text| self.conn.handle_frame(now, codec::Frame::new(text.as_bytes())));
        ensure(!closed || event.is_none(), Rule::Events, || format!("{event:?} of a closed connection"))?;
        if let Some(event) = &event {
            self.handle_event(now, Cause::Frame, event)?;
        }
        self.settle(now, Cause::Frame, None)
    }

    /// Passes the end of the input to the connection.
    fn end_of_input(&mut self, now: Timestamp) -> Result<bool, Violation> {
        self.eof = true;
        if self.injected != Some(InjectedFault::EndOfInputLost) {
            self.conn.handle_eof(now);
        }
        self.settle(now, Cause::End, None)
    }

    /// Handles a due timeout.
    fn handle_timeout(&mut self, now: Timestamp) -> Result<bool, Violation> {
        if self.injected != Some(InjectedFault::TimeoutsIgnored) {
            self.conn.handle_timeout(now);
        }
        self.app.end_cancelled_requests(now);
        let changed = self.settle(now, Cause::Time, None)?;
        let next = self.conn.poll_timeout();
        ensure(next.is_none_or(|next| next.at > now), Rule::Deadlines, || format!("{next:?} is over at {now:?}"))?;
        let overdue = self.app.overdue(now);
        ensure(overdue.is_none(), Rule::Deadlines, || format!("{overdue:?} has not timed out"))?;
        let overdue = self.app.overdue_request(now);
        ensure(overdue.is_none(), Rule::Deadlines, || format!("{overdue:?} has no response"))?;
        Ok(changed)
    }

    /// Takes the next frame of the connection.
    fn transmit(&mut self, now: Timestamp, frames: &Frames) -> Result<(bool, Option<Rc<Frame>>), Violation> {
        let waits = self.conn.usage().outbox_frames;
        let mut out = Vec::new();
        let polled =
            if self.injected == Some(InjectedFault::OutputIgnored) { None } else { self.conn.poll_transmit(&mut out) };
        let Some(transmit) = polled else {
            ensure(waits == 0, Rule::Output, || format!("{waits} frames are queued and none is transmitted"))?;
            if self.conn.phase() != Phase::Closed {
                self.observer.check_all_sent()?;
            }
            return Ok((self.settle(now, Cause::Nothing, None)?, None));
        };
        ensure(transmit.len == out.len(), Rule::Output, || "the length is not that of the frame".into())?;
        let line = std::str::from_utf8(&out).ok().and_then(|text| text.strip_suffix('\n'));
        let line = line.filter(|line| !line.contains('\n'));
        let Some(line) = line else { return Err(Violation::new(Rule::Output, "the output is not one line")) };
        let frame = frames.of(line);
        for _ in 0..self.injected.map_or(1, |injected| injected.copies_written(&frame)) {
            self.observer.outgoing(&frame, self.role, self.is_modern())?;
        }
        let changed = self.settle(now, Cause::Nothing, None)?;
        Ok((changed, Some(frame).filter(|frame| self.injected.is_none_or(|injected| !injected.drops(frame)))))
    }

    /// Checks on a clone that invalid calls of the API are rejected and that early timeouts do nothing.
    pub(super) fn probe(&self) -> Result<(), Violation> {
        let mut end = self.clone();
        let refused = |what: &str, outcome: Result<(), SendError>, expected: &[SendError]| {
            let right = outcome.as_ref().is_err_and(|error| expected.contains(error));
            ensure(right, Rule::Refusals, || format!("{what}: {outcome:?}"))
        };
        for call in self.app.calls.iter().filter(|call| call.over) {
            refused("cancelling an ended call", end.conn.cancel(call.id, None), &[SendError::UnknownCall])?;
        }
        for request in &self.app.requests {
            if request.state == RequestState::Answered {
                let again = end.conn.respond_error(request.key, &ErrorObject::internal("again"));
                refused("a second response", again, &[SendError::Answered])?;
                let late = end.conn.progress(request.key, 99.0, None, None);
                refused("progress after the response", late, &[SendError::Answered])?;
            } else if request.state == RequestState::Open && request.reported > 0 {
                let same = end.conn.progress(request.key, f64::from(request.reported), None, None);
                refused("progress that does not grow", same, &[SendError::ProgressNotGrowing])?;
            }
        }
        if !self.conn.is_ready() {
            let sent = end.conn.request_raw(Timestamp::ZERO, "x/y", None, Default::default()).map(|_| ());
            let expected = if self.conn.phase() >= Phase::Draining { SendError::Closed } else { SendError::NotReady };
            refused("a request out of time", sent, &[expected])?;
        }
        end.conn.handle_timeout(Timestamp::ZERO);
        let event = end.conn.poll_event();
        ensure(event.is_none(), Rule::Refusals, || format!("invalid calls caused {event:?}"))?;
        ensure(!end.update_digest(), Rule::Refusals, || format!("invalid calls changed the state: {:?}", end.conn))?;
        self.check_no_stray_deadline()
    }

    /// Checks that each deadline has a cause.
    fn check_no_stray_deadline(&self) -> Result<(), Violation> {
        let next = self.conn.poll_timeout();
        let reason = match next.map(|next| next.wake) {
            None => true,
            Some(Wake::RequestTimeout) => {
                // The connection itself sends pings, and cancels tasks that are not needed.
                let own = self.conn.phase() < Phase::Ready || self.app.plan.keepalive.is_some() || self.has_tasks;
                own || self.app.calls.iter().any(|call| !call.over)
            }
            Some(Wake::ReplyTimeout) => {
                let plan = &self.app.plan;
                plan.reply_timeout.is_some() && self.app.requests.iter().any(|it| it.state != RequestState::Answered)
            }
            Some(Wake::Retry) => self.app.calls.iter().any(|call| !call.over),
            Some(Wake::InputPause) => !self.reads,
            Some(Wake::Keepalive) => self.app.plan.keepalive.is_some() && self.conn.phase() <= Phase::Ready,
            Some(_) => self.conn.phase() == Phase::Draining,
        };
        ensure(reason, Rule::Deadlines, || format!("{next:?} has no cause"))
    }

    /// Checks a state in which no action is possible. `ended` tells whether the connection was closed.
    pub(super) fn check_idle(&self, now: Timestamp, ended: bool) -> Result<(), Violation> {
        self.app.check_settled()?;
        // A server that pauses reading for a minute does not receive the cancellation of a task. Neither does one that
        // rejects a duplicated `tasks/get`.
        if !ended && !self.app.is_lenient() && now < Timestamp::ZERO + Duration::from_secs(60) {
            self.app.tasks.check_settled()?;
        }
        let usage = self.conn.usage();
        ensure(usage == ResourceUsage::default(), Rule::Rest, || format!("the connection is not idle: {usage:?}"))?;
        if ended {
            ensure(self.stopped, Rule::Rest, || format!("the connection never ends: {:?}", self.conn.phase()))
        } else {
            let open = if self.role == Role::Server && self.is_modern() { Phase::Opening } else { Phase::Ready };
            ensure(self.conn.phase() == open, Rule::Rest, || format!("the phase is {:?}", self.conn.phase()))?;
            self.observer.check_settled()?;
            self.observer.check_all_sent()
        }
    }
}
