//! The loop of a connection on a runtime: one task that reads, writes, keeps the time and hands out what happens.
//!
//! It is the contract of a driver (`ARCHITECTURE.md`) in the form of a poll function: [`turn`](Conversation::turn) is one round of
//! it, and what comes behind the last event is the rest of [`run`](Conversation::run).

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use mcp_proto::{connection::Event, rpc::Timestamp};

use super::{
    Output, Runtime, Slot, Timer,
    bounds::{LAST_JOBS, LAST_READ},
    hub::{Asleep, Hub},
    weight,
    wire::Wire,
};
use crate::{Application, Link, Run, sync::lock};

/// Rounds before others on the same thread have their turn.
const TURNS: usize = 32;

/// How long the end of the output may take.
const CLOSING: Duration = Duration::from_millis(500);

/// One connection, its transport and its jobs.
pub(super) struct Conversation<E: Send + 'static, R: Runtime> {
    post: Post<E>,
    runtime: R,
    timer: R::Timer,
    wire: Box<dyn Wire>,
    /// Whether there may be more to read.
    reads: bool,
    out: Output,
    /// Whether all that was written has left.
    flushed: bool,
    failed: Option<Failed>,
    /// The handlers that were not done at once.
    tasks: BTreeMap<u64, Begun<R::Task>>,
    spawned: u64,
    /// The last to be dropped.
    _over: Over<E>,
}

/// A handler that runs in a task of its own.
struct Begun<T> {
    task: T,
    outlives: bool,
}

/// Says that nothing is left when it is dropped.
struct Over<E>(Arc<Hub<E>>);

impl<E> Drop for Over<E> {
    fn drop(&mut self) {
        self.0.stage.change(|stage| stage.over = true);
    }
}

/// Where what happens is handed on.
struct Post<E> {
    hub: Arc<Hub<E>>,
    link: Arc<dyn Link<E>>,
    application: Arc<dyn Application<E>>,
}

/// Nothing can be written any more.
struct Failed {
    /// Taken when the connection is told.
    error: Option<io::Error>,
    /// Until when it is read all the same.
    until: Timestamp,
}

impl<E: Send + 'static, R: Runtime> Conversation<E, R> {
    pub(super) fn new(hub: Arc<Hub<E>>, application: Arc<dyn Application<E>>, wire: Box<dyn Wire>, runtime: R) -> Self {
        let link: Arc<dyn Link<E>> = hub.clone();
        application.begin(&link);
        Self {
            _over: Over(hub.clone()),
            post: Post { hub, link, application },
            timer: runtime.timer(),
            runtime,
            wire,
            reads: true,
            out: Output::default(),
            flushed: true,
            failed: None,
            tasks: BTreeMap::new(),
            spawned: 0,
        }
    }

    /// Runs the connection to its end, and its transport to its own: `end` comes when the output has ended, and `linger` is how
    /// long the peer may take to end its own after that.
    pub(super) async fn run(mut self, end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>, linger: Duration) {
        self.until(None, |this, _| this.post.hub.stage.look(|stage| stage.closed.is_some())).await;
        let drain = lock(&self.post.hub.state).connection.settings().limits.drain;
        self.until(Some(drain), |this, _| this.has_written()).await;
        self.until(Some(CLOSING), |this, cx| this.wire.poll_close(cx).is_ready()).await;
        self.wire.hang_up();
        if let Some(mut end) = end {
            self.until(None, |_, cx| end.as_mut().poll(cx).is_ready()).await;
        }
        self.until(Some(linger), |this, _| !this.reads).await;
        self.reads = false;
        self.until(Some(LAST_JOBS), |this, _| {
            let jobs = &lock(&this.post.hub.jobs).jobs;
            jobs.running() - jobs.outliving() + jobs.waiting() == 0
        })
        .await;
        self.leave_handlers();
        let given_up = lock(&self.post.hub.jobs).jobs.give_up();
        drop(given_up);
        self.until(Some(LAST_JOBS), |this, _| lock(&this.post.hub.jobs).jobs.running_futures() == 0).await;
    }

    /// Ends the handlers that are not done, except those that may work on something that outlives the connection.
    fn leave_handlers(&mut self) {
        let (stay, end): (Vec<_>, Vec<_>) = mem::take(&mut self.tasks).into_values().partition(|begun| begun.outlives);
        stay.into_iter().for_each(|begun| R::detach(begun.task));
        drop(end);
    }

    /// Goes on until `done`, or for `patience`.
    async fn until(&mut self, patience: Option<Duration>, mut done: impl FnMut(&mut Self, &mut Context<'_>) -> bool) {
        let until = patience.map(|patience| self.post.hub.now() + patience);
        poll_fn(|cx| {
            lock(&self.post.hub.state).asleep = None;
            for _ in 0..TURNS {
                let moved = self.turn(cx);
                if done(self, cx) || until.is_some_and(|until| until <= self.post.hub.now()) {
                    return Poll::Ready(());
                }
                if !moved && self.rests(until, cx) {
                    return Poll::Pending;
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// One round: what has come in, what time it is, what can be begun, what can leave. Whether anything has moved.
    fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        let read = self.read(cx);
        let told = self.post.tell(&mut self.failed, self.reads);
        let began = self.begin_jobs();
        let wrote = self.write(cx);
        read || told || began || wrote
    }

    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.reads {
            return false;
        }
        let Poll::Ready(filled) = self.wire.poll_fill(cx) else { return false };
        let now = self.post.hub.now();
        while let Some(frame) = self.wire.next_frame() {
            let mut state = lock(&self.post.hub.state);
            match state.connection.handle_frame(now, frame) {
                // What others have caused comes first.
                Some(event) if !state.events.is_empty() => state.events.push_back(event.into_owned()),
                Some(event) => {
                    drop(state);
                    self.post.hand_out(event);
                    continue;
                }
                None => state.collect(),
            }
            drop(state);
            self.post.hand_out_waiting();
        }
        match filled {
            Ok(true) => {}
            Ok(false) => {
                self.reads = false;
                lock(&self.post.hub.state).connection.handle_eof(now);
            }
            Err(error) => {
                self.reads = false;
                lock(&self.post.hub.state).connection.handle_lost(error.to_string());
            }
        }
        true
    }

    /// Begins the jobs that may begin. A future that is done at once costs nothing more.
    fn begin_jobs(&mut self) -> bool {
        let hub = &self.post.hub;
        let mut moved = false;
        loop {
            let (next, ended) = {
                let mut work = lock(&hub.jobs);
                (work.jobs.next(), mem::take(&mut work.ended))
            };
            for task in ended {
                self.tasks.remove(&task);
            }
            let Some((job, slot)) = next else { return moved };
            moved = true;
            let outlives = job.outlives_connection();
            match job.into_run() {
                Run::Function(run) => {
                    let ticket = Ticket { hub: hub.clone(), slot, task: None };
                    self.runtime.spawn_blocking(move || {
                        let ticket = ticket;
                        // A panic is the job's own affair.
                        let _ = catch_unwind(AssertUnwindSafe(|| ticket.hub.duty.run(run)));
                    });
                }
                Run::Future(future) => {
                    self.spawned += 1;
                    let ticket = Ticket { hub: hub.clone(), slot, task: Some(self.spawned) };
                    let mut running = Running { future, ticket };
                    if Pin::new(&mut running).poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                        let task = self.runtime.spawn(running);
                        self.tasks.insert(self.spawned, Begun { task, outlives });
                    }
                }
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let hub = &self.post.hub;
        let vacancies = {
            let mut state = lock(&hub.state);
            self.out.fill(&mut state.connection);
            hub.lobby.vacancies(&state.connection)
        };
        hub.lobby.announce(vacancies);
        let done = if !self.out.is_empty() {
            self.wire.poll_write(cx, self.out.rest()).map(|written| match written? {
                0 => Err(io::ErrorKind::WriteZero.into()),
                written => {
                    self.out.wrote(written);
                    self.flushed = false;
                    Ok(())
                }
            })
        } else if !self.flushed {
            self.wire.poll_flush(cx).map_ok(|()| self.flushed = true)
        } else {
            return false;
        };
        if let Poll::Ready(Err(error)) = done {
            self.out.clear();
            self.failed = Some(Failed { error: Some(error), until: hub.now() + LAST_READ });
            return true;
        }
        done.is_ready()
    }

    fn has_written(&self) -> bool {
        let has_left = self.out.is_empty() && self.flushed;
        self.failed.is_some() || has_left && lock(&self.post.hub.state).connection.is_drained()
    }

    /// Goes to sleep, unless there is something to do.
    fn rests(&mut self, until: Option<Timestamp>, cx: &mut Context<'_>) -> bool {
        let hub = &self.post.hub;
        let due = {
            let mut state = lock(&hub.state);
            state.collect();
            let failed = self.failed.as_ref().filter(|failed| failed.error.is_some()).map(|failed| failed.until);
            let due = [until, failed].into_iter().flatten().fold(hub.due(&state.connection), Timestamp::min);
            let can_write = self.out.is_empty() && self.failed.is_none();
            let has_output = can_write && state.connection.has_output();
            if has_output || !state.events.is_empty() || due <= hub.now() || lock(&hub.jobs).jobs.has_next() {
                return false;
            }
            state.asleep = Some(Asleep { waker: cx.waker().clone(), until: due, can_write });
            due
        };
        due == super::hub::NEVER || self.timer.poll_until(hub.instant(due), cx).is_pending()
    }
}

impl<E: Send + 'static> Post<E> {
    /// Tells the connection what time it is and what has failed, and the application what others have caused.
    fn tell(&self, failed: &mut Option<Failed>, reads: bool) -> bool {
        let hub = &self.hub;
        let now = hub.now();
        hub.lobby.ring(now);
        let mut state = lock(&hub.state);
        if hub.due(&state.connection) <= now {
            state.connection.handle_timeout(now);
        }
        if let Some(failed) = failed.as_mut().filter(|failed| !reads || failed.until <= now)
            && let Some(error) = failed.error.take()
        {
            state.connection.handle_lost(error.to_string());
        }
        state.collect();
        let vacancies = hub.lobby.vacancies(&state.connection);
        drop(state);
        hub.lobby.announce(vacancies);
        self.hand_out_waiting()
    }

    fn hand_out_waiting(&self) -> bool {
        let mut moved = false;
        loop {
            let event = lock(&self.hub.state).events.pop_front();
            let Some(event) = event else { return moved };
            self.hand_out(event);
            moved = true;
        }
    }

    /// Hands an event to the application, outside of any lock.
    fn hand_out(&self, event: Event<'_>) {
        let weight = weight(&event);
        let end = if let Event::Closed(reason) = &event { Some(reason.clone()) } else { None };
        if let Some(job) = self.application.handle(&self.link, event) {
            let refused = lock(&self.hub.jobs).jobs.push(job, weight).err();
            // Whoever asked for it is told by that.
            drop(refused);
        }
        if end.is_some() {
            self.hub.stage.change(|stage| stage.closed = end);
        }
    }
}

impl<E: Send + 'static, R: Runtime> Drop for Conversation<E, R> {
    fn drop(&mut self) {
        self.leave_handlers();
        // If that is before the end, the runtime has ended first.
        lock(&self.post.hub.state).connection.handle_lost("the runtime has ended");
        self.post.tell(&mut None, false);
    }
}

/// What a job takes up, until that is dropped.
struct Ticket<E: 'static> {
    hub: Arc<Hub<E>>,
    slot: Slot,
    task: Option<u64>,
}

impl<E: 'static> Drop for Ticket<E> {
    fn drop(&mut self) {
        self.hub.ended(self.slot, self.task);
    }
}

/// A handler that runs.
struct Running<E: 'static> {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Dropped after the future, which may have something to say when it is.
    ticket: Ticket<E>,
}

impl<E: 'static> Future for Running<E> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { future, ticket } = &mut *self;
        // A panic is the job's own affair.
        let polled = catch_unwind(AssertUnwindSafe(|| ticket.hub.duty.poll(future.as_mut(), cx)));
        polled.unwrap_or(Poll::Ready(()))
    }
}
