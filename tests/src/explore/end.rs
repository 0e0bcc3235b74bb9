//! One end: the connection, its application, and the driver between them.

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
    app::{App, Cause, Debt},
    fault::{Fault, Rule, demand},
    flaw::Flaw,
    frames::{self, Frame, Frames},
    happened::{Happening, Notes},
    scenario::Scenario,
    tap::Tap,
    tasks::{About, Turn},
    world::Act,
};

/// How a request of the peer is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// With a result.
    Result,
    /// With an error.
    Error,
    /// With so many questions, and with a state if there are none.
    Questions(u8),
    /// With a task.
    Task,
}

/// What the application may still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    /// Cancel a call.
    pub cancels: u8,
    /// Answer with an error.
    pub errors: u8,
    /// Answer with questions.
    pub questions: u8,
    /// Answer with a task.
    pub tasks: u8,
    /// Change a list.
    pub notes: u8,
    /// Close.
    pub closes: bool,
    /// Fail to write.
    pub breaks: bool,
}

/// One end of the conversation.
#[derive(Clone, Debug)]
pub(super) struct End<E> {
    /// The connection.
    pub(super) conn: Connection<E>,
    /// Its application.
    pub app: App,
    /// What the application may still do.
    pub left: Left,
    /// What went over the wire.
    pub tap: Tap,
    /// The driver has seen the end of its input.
    pub eof: bool,
    /// The driver has left its loop.
    pub gone: bool,
    /// The driver reads.
    pub reads: bool,
    role: Role,
    flaw: Option<Flaw>,
    digest: u64,
    /// Calls may become tasks.
    has_tasks: bool,
    /// Shared by all states.
    notes: Notes,
}

impl<E: Clone + fmt::Debug> End<E> {
    /// An end at which nothing has happened.
    pub(super) fn new(conn: Connection<E>, scenario: &Scenario, role: Role, notes: Notes) -> Self {
        let plan = if role == Role::Client { &scenario.client } else { &scenario.server };
        let left = Left {
            cancels: plan.cancels,
            errors: plan.errors,
            questions: plan.questions,
            tasks: plan.tasks,
            notes: plan.notes,
            closes: plan.closes,
            breaks: plan.breaks,
        };
        let app = App::new(plan, role, scenario);
        let mut end = Self {
            conn,
            app,
            left,
            tap: Tap::default(),
            eof: false,
            gone: false,
            reads: true,
            role,
            flaw: scenario.flaw,
            digest: 0,
            has_tasks: scenario.server.tasks > 0,
            notes,
        };
        end.seal();
        end
    }

    /// Tells this state of the end apart from others.
    pub(super) const fn digest(&self) -> u64 {
        self.digest
    }

    /// The end has come into another state. Whether it is another one indeed.
    fn seal(&mut self) -> bool {
        let mut text = String::with_capacity(4096);
        write!(text, "{:?}", self.conn).expect("a string takes everything");
        // What is only counted decides nothing.
        let start = text.find("stats: Stats {").expect("the counters are printed");
        let len = text[start..].find('}').expect("they end");
        text.replace_range(start..start + len, "");
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        (&self.app, &self.left, &self.tap, self.eof, self.gone, self.reads).hash(&mut hasher);
        std::mem::replace(&mut self.digest, hasher.finish()) != self.digest
    }

    fn is_modern(&self) -> bool {
        self.conn.version().is_some_and(|version| version.era() == Era::Modern) || {
            let versions = self.conn.settings().versions;
            self.role == Role::Server && versions.iter().all(|version| version.era() == Era::Modern)
        }
    }

    /// A verb was used, with this outcome; the events that come of it are handed to the application. Whether anything
    /// has changed: what is refused changes nothing.
    fn settle(&mut self, now: Timestamp, cause: Cause, refused: Option<SendError>) -> Result<bool, Fault> {
        let mut heard = false;
        while let Some(event) = self.conn.poll_event() {
            heard = true;
            self.hear(now, cause, &event)?;
        }
        let told = !heard || cause != Cause::Nothing;
        demand(told, Rule::Events, || "an event that nothing was the cause of".into())?;
        self.app.no_stray_question(self.role == Role::Client && self.is_modern())?;
        self.gone |= self.conn.is_drained();
        self.reads = self.conn.wants_input(now);
        if !self.reads {
            self.notes.note(Happening::Paused);
        }
        let waits = self.conn.phase() != Phase::Draining || self.app.owes_answers();
        demand(waits, Rule::Rest, || "it owes no answer any more, and does not end".into())?;
        self.within_limits()?;
        let changed = self.seal();
        match refused {
            Some(SendError::Busy) => {
                demand(!changed, Rule::Refusals, || "there was no room, and something has changed".into())?;
                Ok(false)
            }
            Some(error) => Err(Fault::new(Rule::Refusals, format!("refused for no reason: {error}"))),
            None => Ok(changed),
        }
    }

    fn hear(&mut self, now: Timestamp, cause: Cause, event: &Event<'_>) -> Result<(), Fault> {
        if let Some(what) = Happening::of(event) {
            self.notes.note(what);
        }
        if let Event::Notification { params: Some(params), .. } = event {
            let meta = params.member("_meta");
            let subscription = meta.as_ref().and_then(|meta| meta.member("io.modelcontextprotocol/subscriptionId"));
            if let Some(subscription) = subscription {
                let open = self.tap.number_of(subscription.get()).is_some_and(|number| self.app.is_open(number));
                let what = || format!("word from subscription {}, which has ended", subscription.get());
                demand(open, Rule::EndsOnce, what)?;
            }
        }
        for _ in 0..self.flaw.map_or(1, |flaw| flaw.hears(event)) {
            if let Some(given_up) = self.app.on_event(now, self.conn.phase(), cause, event)? {
                self.tap.give_up(given_up);
            }
        }
        Ok(())
    }

    fn within_limits(&self) -> Result<(), Fault> {
        let (usage, limits) = (self.conn.usage(), &self.conn.settings().limits);
        let within = usage.calls <= limits.calls
            && usage.requests <= limits.requests
            && usage.request_bytes <= limits.request_bytes
            && usage.subscriptions <= limits.subscriptions;
        demand(within, Rule::Limits, || format!("{usage:?}"))
    }

    /// Something happens at this end. Whether that changes anything, and the frame that leaves.
    pub(super) fn act(
        &mut self,
        now: Timestamp,
        act: Act,
        input: Option<&Frame>,
        frames: &Frames,
    ) -> Result<(bool, Option<Rc<Frame>>), Fault> {
        let changed = match act {
            Act::Ask(_) => self.ask(now)?,
            Act::Cancel(_, index) => self.cancel(now, index)?,
            Act::Answer(_, index, reply) => self.answer(now, index, reply)?,
            Act::Progress(_, index) => self.progress(now, index)?,
            Act::Note(_) => self.note(now)?,
            Act::Close(_) => self.close(now)?,
            Act::Break(_) => self.fail(now)?,
            Act::Wake(_) => self.wake(now)?,
            Act::Transmit(_) => return self.transmit(now, frames),
            Act::Deliver(_) => match input {
                Some(frame) => self.receive(now, frame)?,
                None => self.end_of_input(now)?,
            },
            Act::Turn(index, turn) => {
                self.app.tasks.turn(index, turn);
                if turn == Turn::Ask {
                    self.notes.note(Happening::Asked);
                }
                self.settle(now, Cause::Nothing, None)?
            }
            Act::Repeat(_) | Act::Batch(_) | Act::End(_) | Act::Begin | Act::Tick | Act::Cut => false,
        };
        Ok((changed, None))
    }

    /// The application makes its next request.
    fn ask(&mut self, now: Timestamp) -> Result<bool, Fault> {
        let Some((ask, number)) = self.app.next_ask() else { return Ok(false) };
        let params = match ask.method {
            "subscriptions/listen" => json!({"n": number, "notifications": {"toolsListChanged": true}}),
            _ => json!({"n": number}),
        };
        let params = Json::new(&params).expect("this is JSON");
        let asked = self.conn.request_raw(now, ask.method, Some(&RawJson::from(&params)), ask.options());
        if let Ok(call) = asked {
            self.app.asked(now, call, &ask);
        }
        self.settle(now, Cause::Nothing, asked.err())
    }

    /// The application gives up on one of its calls.
    fn cancel(&mut self, now: Timestamp, index: usize) -> Result<bool, Fault> {
        let call = self.app.calls[index].id;
        let refused = self.conn.cancel(call, None).err();
        self.left.cancels -= 1;
        let changed = self.settle(now, Cause::Cancel(call), refused)?;
        demand(self.app.calls[index].over, Rule::EndsOnce, || format!("{call:?} was cancelled and does not end"))?;
        Ok(changed)
    }

    /// The application answers a request.
    fn answer(&mut self, now: Timestamp, index: usize, reply: Reply) -> Result<bool, Fault> {
        let request = self.app.requests[index];
        // An answer that is not waited for is the end of the work on it: no task comes of it, but one may end by it.
        let mut tasks = self.app.tasks.clone();
        let refused = match reply {
            Reply::Error => self.conn.respond_error(request.key, &ErrorObject::internal("no")),
            Reply::Result | Reply::Questions(_) | Reply::Task => {
                let result = match reply {
                    Reply::Questions(0) => json!({"resultType": "input_required", "requestState": "s"}),
                    Reply::Questions(count) => {
                        let question = json!({"method": "roots/list", "params": {"n": request.number}});
                        let questions: serde_json::Map<_, _> =
                            (0..count).map(|name| (format!("q{name}"), question.clone())).collect();
                        json!({"resultType": "input_required", "inputRequests": questions})
                    }
                    Reply::Task => tasks.begin(request.number),
                    _ if matches!(request.about, About::Work | About::Other) => json!({"n": request.number}),
                    _ => tasks.answer(request.about),
                };
                let result = Json::new(&result).expect("this is JSON");
                self.conn.respond_raw(request.key, &RawJson::from(&result))
            }
        };
        if refused.is_ok() {
            if reply == Reply::Error {
                tasks.refuse(request.about);
            }
            self.app.tasks = tasks;
            let request = &mut self.app.requests[index];
            (request.debt, request.reports, request.reported) = (Debt::Paid, 0, 0);
            self.left.errors -= u8::from(reply == Reply::Error);
            self.left.tasks -= u8::from(reply == Reply::Task);
            if matches!(reply, Reply::Questions(_)) {
                self.left.questions -= 1;
                self.notes.note(Happening::Asked);
            }
        }
        self.settle(now, Cause::Answer, refused.err())
    }

    /// The application reports progress of a request: every second report has a total and a message.
    fn progress(&mut self, now: Timestamp, index: usize) -> Result<bool, Fault> {
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

    /// A list of the application's changes.
    fn note(&mut self, now: Timestamp) -> Result<bool, Fault> {
        let method = match self.role {
            Role::Client => "notifications/roots/list_changed",
            Role::Server => "notifications/tools/list_changed",
        };
        let told = self.conn.notify_raw(method, None);
        if told.is_ok() {
            self.left.notes -= 1;
            self.tap.changed(self.is_modern());
        }
        self.settle(now, Cause::Nothing, told.err())
    }

    /// The application closes the connection.
    fn close(&mut self, now: Timestamp) -> Result<bool, Fault> {
        self.left.closes = false;
        self.conn.close(now);
        self.settle(now, Cause::End, None)
    }

    /// Writing fails.
    fn fail(&mut self, now: Timestamp) -> Result<bool, Fault> {
        self.left.breaks = false;
        self.conn.handle_disconnect();
        self.settle(now, Cause::End, None)
    }

    /// A frame comes in.
    fn receive(&mut self, now: Timestamp, frame: &Frame) -> Result<bool, Fault> {
        // What is left of a connection that has ended is to write: nothing is heard any more.
        let closed = self.conn.phase() == Phase::Closed;
        if !closed {
            let cancelled = self.tap.incoming(frame, self.role == Role::Client && self.is_modern());
            // An answer that was taken back is not told: a task that it would have told of goes on until its time is up.
            self.app.tasks.forget(cancelled);
        }
        let text = self.flaw.map_or_else(|| Some(frame.text.clone()), |flaw| flaw.reads(frame));
        let event = text.as_ref().and_then(|text| self.conn.handle_frame(now, codec::Frame::new(text.as_bytes())));
        demand(!closed || event.is_none(), Rule::Events, || format!("{event:?} of what has ended"))?;
        if let Some(event) = &event {
            self.hear(now, Cause::Frame, event)?;
        }
        self.settle(now, Cause::Frame, None)
    }

    /// The input ends.
    fn end_of_input(&mut self, now: Timestamp) -> Result<bool, Fault> {
        self.eof = true;
        if self.flaw != Some(Flaw::EndOfInputLost) {
            self.conn.handle_eof(now);
        }
        self.settle(now, Cause::End, None)
    }

    /// The driver wakes up.
    fn wake(&mut self, now: Timestamp) -> Result<bool, Fault> {
        if self.flaw != Some(Flaw::Oversleeps) {
            self.conn.handle_timeout(now);
        }
        let changed = self.settle(now, Cause::Time, None)?;
        let next = self.conn.poll_timeout();
        demand(next.is_none_or(|next| next.at > now), Rule::Deadlines, || format!("{next:?} is over at {now:?}"))?;
        let overdue = self.app.overdue(now);
        demand(overdue.is_none(), Rule::Deadlines, || format!("{overdue:?} has not timed out"))?;
        Ok(changed)
    }

    /// The next frame that the connection wants to write.
    fn transmit(&mut self, now: Timestamp, frames: &Frames) -> Result<(bool, Option<Rc<Frame>>), Fault> {
        let waits = self.conn.usage().outbox_frames;
        let mut out = Vec::new();
        let polled = if self.flaw == Some(Flaw::Silent) { None } else { self.conn.poll_transmit(&mut out) };
        let Some(transmit) = polled else {
            demand(waits == 0, Rule::Output, || format!("{waits} frames wait and none comes out"))?;
            if self.conn.phase() != Phase::Closed {
                self.tap.said_all()?;
            }
            return Ok((self.settle(now, Cause::Nothing, None)?, None));
        };
        demand(transmit.len == out.len(), Rule::Output, || "the length is not that of the frame".into())?;
        let line = std::str::from_utf8(&out).ok().and_then(|text| text.strip_suffix('\n'));
        let line = line.filter(|line| !line.contains('\n'));
        let Some(line) = line else { return Err(Fault::new(Rule::Output, "what leaves is no line")) };
        let frame = frames.of(line);
        for _ in 0..self.flaw.map_or(1, |flaw| flaw.writes(&frame)) {
            self.tap.outgoing(&frame, self.role, self.is_modern())?;
        }
        let changed = self.settle(now, Cause::Nothing, None)?;
        Ok((changed, Some(frame).filter(|frame| self.flaw.is_none_or(|flaw| !flaw.loses(frame)))))
    }

    /// Tries what must be refused, and what does nothing.
    pub(super) fn probe(&self) -> Result<(), Fault> {
        let mut end = self.clone();
        let refused = |what: &str, outcome: Result<(), SendError>, expected: &[SendError]| {
            let right = outcome.as_ref().is_err_and(|error| expected.contains(error));
            demand(right, Rule::Refusals, || format!("{what}: {outcome:?}"))
        };
        for call in self.app.calls.iter().filter(|call| call.over) {
            refused("cancelling what has ended", end.conn.cancel(call.id, None), &[SendError::UnknownCall])?;
        }
        for request in &self.app.requests {
            if request.debt == Debt::Paid {
                let again = end.conn.respond_error(request.key, &ErrorObject::internal("again"));
                refused("a second answer", again, &[SendError::Answered])?;
                let late = end.conn.progress(request.key, 99.0, None, None);
                refused("progress behind the answer", late, &[SendError::Answered])?;
            } else if request.debt == Debt::Open && request.reported > 0 {
                let same = end.conn.progress(request.key, f64::from(request.reported), None, None);
                refused("progress that does not grow", same, &[SendError::ProgressNotGrowing])?;
            }
        }
        if !self.conn.is_ready() {
            let asked = end.conn.request_raw(Timestamp::ZERO, "x/y", None, Default::default()).map(|_| ());
            let expected = if self.conn.phase() >= Phase::Draining { SendError::Closed } else { SendError::NotReady };
            refused("a request out of time", asked, &[expected])?;
        }
        end.conn.handle_timeout(Timestamp::ZERO);
        let event = end.conn.poll_event();
        demand(event.is_none(), Rule::Refusals, || format!("nothing was done, and there is {event:?}"))?;
        demand(!end.seal(), Rule::Refusals, || format!("nothing was done, and this is another state: {:?}", end.conn))?;
        self.no_stray_deadline()
    }

    /// A deadline is there for a reason.
    fn no_stray_deadline(&self) -> Result<(), Fault> {
        let next = self.conn.poll_timeout();
        let reason = match next.map(|next| next.wake) {
            None => true,
            Some(Wake::RequestTimeout) => {
                // The connection asks for itself whether the peer is there, and says that a task is not wanted.
                let own = self.conn.phase() < Phase::Ready || self.app.plan.keepalive.is_some() || self.has_tasks;
                own || self.app.calls.iter().any(|call| !call.over)
            }
            Some(Wake::Retry) => self.app.calls.iter().any(|call| !call.over),
            Some(Wake::InputPause) => !self.reads,
            Some(Wake::Keepalive) => self.app.plan.keepalive.is_some() && self.conn.phase() <= Phase::Ready,
            Some(_) => self.conn.phase() == Phase::Draining,
        };
        demand(reason, Rule::Deadlines, || format!("nothing waits for {next:?}"))
    }

    /// Nothing can happen any more: nothing is left over. `ended` says that the conversation was not left open.
    pub(super) fn at_rest(&self, now: Timestamp, ended: bool) -> Result<(), Fault> {
        self.app.settled()?;
        // A server that does not read for a minute is not told that a task is not wanted, nor is one that refuses looks
        // because they come twice.
        if !ended && !self.app.is_lenient() && now < Timestamp::ZERO + Duration::from_secs(60) {
            self.app.tasks.settled()?;
        }
        let usage = self.conn.usage();
        demand(usage == ResourceUsage::default(), Rule::Rest, || format!("something is held: {usage:?}"))?;
        if ended {
            demand(self.gone, Rule::Rest, || format!("the connection never ends: {:?}", self.conn.phase()))
        } else {
            let open = if self.role == Role::Server && self.is_modern() { Phase::Opening } else { Phase::Ready };
            demand(self.conn.phase() == open, Rule::Rest, || format!("it is {:?}", self.conn.phase()))?;
            self.tap.settled()?;
            self.tap.said_all()
        }
    }
}
