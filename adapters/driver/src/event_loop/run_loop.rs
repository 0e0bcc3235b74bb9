//! The loop of a connection on a runtime, whatever its messages travel on: what has come in, what time it is, what can be
//! begun, what can leave.
//!
//! It is the contract of a driver (`ARCHITECTURE.md`) in the form of a poll function: [`turn`](Desk::turn) is one round of
//! it.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use mcp_proto::{connection::Event, rpc::Timestamp};

use crate::sync::lock;
use crate::{
    event_loop::{
        binding::Carrier,
        shared::{Asleep, Hub, Left},
    },
    runtime::{Runtime, Timer},
    tuning::{LAST_JOBS, NEVER},
};
use mcp_service::driver_api::{Jobs, Slot, weight};
use mcp_service::{Application, Job, Link, Run};

/// Rounds before others on the same thread have their turn.
const TURNS: usize = 32;

/// How many jobs are queued and begin together at most.
pub(crate) const BATCH: usize = 8;

/// What moves the messages of a connection.
pub(crate) trait Mover<E, C>: Send {
    /// Takes in what has come by now. Whether anything has.
    fn read(&mut self, _post: &Post<E, C>, _now: Timestamp, _cx: &mut Context<'_>) -> bool {
        false
    }

    /// Brings away what there is. Whether anything has moved.
    fn write(&mut self, _post: &Post<E, C>, _cx: &mut Context<'_>) -> bool {
        false
    }

    /// Whether it could bring something away if there was something.
    fn can_write(&self) -> bool {
        true
    }

    /// Whether it does not read because of what the connection holds.
    fn is_paused(&self) -> bool {
        false
    }

    /// When it wants to be asked again, whatever happens.
    fn due(&self) -> Option<Timestamp> {
        None
    }
}

/// Where what happens is handed on.
pub(crate) struct Post<E, C> {
    pub(crate) hub: Arc<Hub<E, C>>,
    link: Arc<dyn Link<E>>,
    application: Arc<dyn Application<E>>,
}

/// One connection and its jobs.
pub(crate) struct Desk<E: Send + 'static, C: Carrier<E>, R: Runtime> {
    pub(crate) post: Post<E, C>,
    pub(crate) runtime: R,
    timer: R::Timer,
    handlers: Handlers<R::Task>,
    /// Room for jobs that begin together: they are taken in one go, and so is note of those that have ended.
    batch: Vec<(Job, Slot)>,
    done: Vec<Slot>,
    /// The last to be dropped.
    _over: Over<E, C>,
}

/// The handlers that were not done at once.
struct Handlers<T> {
    tasks: BTreeMap<u64, Handler<T>>,
    spawned: u64,
}

/// A handler that runs in a task of its own.
struct Handler<T> {
    task: T,
    outlives: bool,
}

/// Says that nothing is left when it is dropped.
struct Over<E, C>(Arc<Hub<E, C>>);

impl<E, C> Drop for Over<E, C> {
    fn drop(&mut self) {
        self.0.stage.change(|stage| stage.over = true);
    }
}

impl<E: Send + 'static, C: Carrier<E>, R: Runtime> Desk<E, C, R> {
    pub(crate) fn new(hub: Arc<Hub<E, C>>, application: Arc<dyn Application<E>>, runtime: R) -> Self {
        let over = Over(hub.clone());
        let post = Post::new(hub, application);
        post.application.begin(&post.link);
        Self {
            _over: over,
            post,
            timer: runtime.timer(),
            runtime,
            handlers: Handlers { tasks: BTreeMap::new(), spawned: 0 },
            batch: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Goes on until `done`, or for `patience`.
    pub(crate) async fn until<M: Mover<E, C>>(
        &mut self,
        mover: &mut M,
        patience: Option<Duration>,
        mut done: impl FnMut(&mut Self, &mut M, &mut Context<'_>) -> bool,
    ) {
        let until = patience.map(|patience| self.post.hub.now() + patience);
        poll_fn(|cx| {
            lock(&self.post.hub.state).asleep = None;
            for _ in 0..TURNS {
                let moved = self.turn(mover, cx);
                if done(self, mover, cx) || until.is_some_and(|until| until <= self.post.hub.now()) {
                    return Poll::Ready(());
                }
                if !moved && self.rests(mover, until, cx) {
                    return Poll::Pending;
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Until the application knows that the connection has ended.
    pub(crate) async fn until_closed<M: Mover<E, C>>(&mut self, mover: &mut M) {
        self.until(mover, None, |desk, _, _| desk.post.hub.stage.look(|stage| stage.closed.is_some())).await;
    }

    /// Brings the jobs to their end, which takes a bounded time.
    pub(crate) async fn end_jobs<M: Mover<E, C>>(&mut self, mover: &mut M) {
        lock(&self.post.hub.jobs).leaving = true;
        self.until(mover, Some(LAST_JOBS), |desk, _, _| {
            let jobs = &lock(&desk.post.hub.jobs).jobs;
            jobs.running() - jobs.outliving() + jobs.waiting() == 0
        })
        .await;
        self.leave_handlers();
        let given_up = lock(&self.post.hub.jobs).jobs.give_up();
        drop(given_up);
        self.until(mover, Some(LAST_JOBS), |desk, _, _| lock(&desk.post.hub.jobs).jobs.running_futures() == 0).await;
    }

    /// One round. Whether anything has moved.
    fn turn<M: Mover<E, C>>(&mut self, mover: &mut M, cx: &mut Context<'_>) -> bool {
        let now = self.post.hub.now();
        let read = mover.read(&self.post, now, cx);
        let told = self.post.tell(now);
        let began = self.begin_jobs();
        let wrote = mover.write(&self.post, cx);
        read || told || began || wrote
    }

    /// Goes to sleep, unless there is something to do.
    fn rests<M: Mover<E, C>>(&mut self, mover: &M, until: Option<Timestamp>, cx: &mut Context<'_>) -> bool {
        let hub = &self.post.hub;
        let due = {
            let mut state = lock(&hub.state);
            state.collect();
            let others = [until, mover.due()].into_iter().flatten();
            let due = others.fold(hub.due(&state.carrier), Timestamp::min);
            let can_write = mover.can_write();
            let has_output = can_write && state.carrier.has_output();
            // Whoever hands out events says so when it is done and there are more.
            let has_events = !state.events.is_empty() && !state.handing;
            let is_paused = mover.is_paused();
            let reads_again = is_paused && state.carrier.wants_input(hub.now());
            if has_output || has_events || reads_again || due <= hub.now() || lock(&hub.jobs).has_next() {
                return false;
            }
            // Most connections are asleep most of the time.
            state.events.shrink_to_fit();
            state.asleep = Some(Asleep { waker: cx.waker().clone(), until: due, can_write, is_paused });
            due
        };
        due == NEVER || self.timer.poll_until(hub.instant(due), cx).is_pending()
    }

    /// Begins the jobs that may begin, and goes on with those that others have begun.
    fn begin_jobs(&mut self) -> bool {
        let Self { post, runtime, handlers, batch, done, .. } = self;
        let mut moved = false;
        loop {
            let (ended, left) = {
                let mut work = lock(&post.hub.jobs);
                done.drain(..).for_each(|slot| work.jobs.ended(slot));
                while batch.len() < BATCH
                    && let Some(next) = work.jobs.next()
                {
                    batch.push(next);
                }
                (mem::take(&mut work.ended), mem::take(&mut work.left))
            };
            for task in ended {
                handlers.tasks.remove(&task);
            }
            left.into_iter().for_each(|left| handlers.go_on(&post.hub, runtime, left));
            let is_last = batch.len() < BATCH;
            moved |= !batch.is_empty();
            for (job, slot) in batch.drain(..) {
                match post.begin(runtime, job, slot) {
                    Begun::Done => done.push(slot),
                    Begun::Elsewhere => {}
                    Begun::Waits(left) => handlers.go_on(&post.hub, runtime, left),
                }
            }
            // What may begin because of those that have ended begins in the next round, which comes at once.
            if is_last {
                return moved;
            }
        }
    }

    /// Ends the handlers that are not done, except those that may work on something that outlives the connection.
    fn leave_handlers(&mut self) {
        let (stay, end): (Vec<_>, Vec<_>) =
            mem::take(&mut self.handlers.tasks).into_values().partition(|begun| begun.outlives);
        stay.into_iter().for_each(|begun| R::detach(begun.task));
        drop(end);
    }
}

impl<T> Handlers<T> {
    /// Has a task go on with a job.
    fn go_on<E: Send + 'static, C: Carrier<E>, R: Runtime<Task = T>>(
        &mut self,
        hub: &Arc<Hub<E, C>>,
        runtime: &R,
        Left { future, slot, outlives }: Left,
    ) {
        self.spawned += 1;
        let ticket = Ticket { hub: hub.clone(), slot, task: Some(self.spawned) };
        let task = runtime.spawn(Running { future, ticket });
        self.tasks.insert(self.spawned, Handler { task, outlives });
    }
}

/// What has become of a job that has begun.
enum Begun {
    Done,
    /// A thread that may block has it.
    Elsewhere,
    Waits(Left),
}

impl<E: Send + 'static, C: Carrier<E>> Post<E, C> {
    pub(crate) fn new(hub: Arc<Hub<E, C>>, application: Arc<dyn Application<E>>) -> Self {
        Self { link: hub.clone(), hub, application }
    }

    /// Begins a job. A future that is done at once costs nothing more.
    fn begin<R: Runtime>(&self, runtime: &R, job: Job, slot: Slot) -> Begun {
        let (hub, outlives) = (&self.hub, job.outlives_connection());
        match job.into_run() {
            Run::Function(run) => {
                let ticket = Ticket { hub: hub.clone(), slot, task: None };
                let run = move || {
                    let ticket = ticket;
                    // A panic is the job's own affair.
                    let _ = catch_unwind(AssertUnwindSafe(|| ticket.hub.duty.run(|| run.run())));
                };
                let shared =
                    lock(&hub.state).carrier.functions().map(|(functions, holder)| (functions.clone(), holder.clone()));
                if let Some((functions, holder)) = shared {
                    let threads = runtime.clone();
                    let start = move |turn| {
                        threads.spawn_blocking(move || {
                            run();
                            drop(turn);
                        });
                    };
                    functions.begin(runtime, &holder, Box::new(start));
                    return Begun::Elsewhere;
                }
                runtime.spawn_blocking(run);
                Begun::Elsewhere
            }
            Run::Future(mut future) => match poll(hub, &mut future, &mut Context::from_waker(Waker::noop())) {
                Poll::Ready(()) => Begun::Done,
                Poll::Pending => Begun::Waits(Left { future, slot, outlives }),
            },
        }
    }

    /// Hands out an event by which somebody else has come in than the driver, and begins what comes of it: most of that is
    /// done at once, and the driver, which is asleep, never hears of it.
    ///
    /// Whoever calls it has found that it is their [turn](State::handing), and is among the visitors.
    #[cfg(feature = "http")]
    pub(crate) fn attend<R: Runtime>(&self, runtime: &R, event: Event<'_>) {
        let turn = HandsOut(&self.hub);
        let offered = self.offer(event);
        let mut next = self.queued(offered, Jobs::next);
        drop(turn);
        while let Some((job, slot)) = next {
            let is_done = match self.begin(runtime, job, slot) {
                Begun::Done => true,
                Begun::Elsewhere => false,
                Begun::Waits(left) => {
                    let given_up = lock(&self.hub.jobs).leave(left);
                    drop(given_up);
                    self.hub.wake();
                    false
                }
            };
            let jobs = &mut lock(&self.hub.jobs).jobs;
            if is_done {
                jobs.ended(slot);
            }
            next = jobs.next();
        }
    }

    /// Tells the connection what time it is, and the application what others have caused.
    fn tell(&self, now: Timestamp) -> bool {
        let hub = &self.hub;
        hub.lobby.ring(now);
        let mut state = lock(&hub.state);
        if hub.due(&state.carrier) <= now {
            state.carrier.handle_timeout(now);
        }
        state.collect();
        let has_events = !state.events.is_empty();
        hub.settle(state);
        has_events && self.hand_out_waiting()
    }

    pub(crate) fn hand_out_waiting(&self) -> bool {
        let mut moved = false;
        loop {
            let event = {
                let mut state = lock(&self.hub.state);
                if state.handing && !moved {
                    return false;
                }
                let event = state.events.pop_front();
                state.handing = event.is_some();
                event
            };
            let Some(event) = event else { return moved };
            self.hand_out(event);
            moved = true;
        }
    }

    /// Hands an event to the application, outside of any lock, and queues what comes of it.
    pub(crate) fn hand_out(&self, event: Event<'_>) {
        let job = self.offer(event);
        self.queue(job.into_iter());
    }

    /// Hands an event to the application, outside of any lock. The job that comes of it is to be [queued](Self::queue), with
    /// what it weighs, before anything else is handed out in another way.
    #[must_use = "it is to be queued"]
    pub(crate) fn offer(&self, event: Event<'_>) -> Option<(Job, usize)> {
        let weight = weight(&event);
        let end = if let Event::Closed(reason) = &event { Some(reason.clone()) } else { None };
        let job = self.application.handle(&self.link, event).map(|job| (job, weight));
        if end.is_none() {
            return job;
        }
        self.queue(job.into_iter());
        self.hub.stage.change(|stage| stage.closed = end);
        None
    }

    /// Queues jobs, in order.
    pub(crate) fn queue(&self, new: impl ExactSizeIterator<Item = (Job, usize)>) {
        if new.len() > 0 {
            self.queued(new, |_| ());
        }
    }

    /// Queues jobs, in order, and does something to all of them under the same lock.
    fn queued<T>(&self, new: impl IntoIterator<Item = (Job, usize)>, f: impl FnOnce(&mut Jobs) -> T) -> T {
        let (refused, result) = {
            let jobs = &mut lock(&self.hub.jobs).jobs;
            let refused: Vec<_> = new.into_iter().filter_map(|(job, weight)| jobs.push(job, weight).err()).collect();
            (refused, f(jobs))
        };
        // Whoever asked for it is told by that.
        drop(refused);
        result
    }
}

impl<E: Send + 'static, C: Carrier<E>, R: Runtime> Drop for Desk<E, C, R> {
    fn drop(&mut self) {
        self.leave_handlers();
        let left = lock(&self.post.hub.jobs).close();
        drop(left);
        // If that is before the end, the runtime has ended first.
        self.post.hub.run(|carrier, now| carrier.connection(now).handle_lost("the runtime has ended"));
        self.post.tell(self.post.hub.now());
    }
}

/// What a job takes up, until that is dropped.
struct Ticket<E: 'static, C: Carrier<E>> {
    hub: Arc<Hub<E, C>>,
    slot: Slot,
    task: Option<u64>,
}

impl<E: 'static, C: Carrier<E>> Drop for Ticket<E, C> {
    fn drop(&mut self) {
        self.hub.ended(self.slot, self.task);
    }
}

/// A handler that runs.
struct Running<E: 'static, C: Carrier<E>> {
    future: mcp_service::Running,
    /// Dropped after the future, which may have something to say when it is.
    ticket: Ticket<E, C>,
}

impl<E: 'static, C: Carrier<E>> Future for Running<E, C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { future, ticket } = &mut *self;
        poll(&ticket.hub, future, cx)
    }
}

fn poll<E: 'static, C: Carrier<E>>(
    hub: &Hub<E, C>,
    future: &mut mcp_service::Running,
    cx: &mut Context<'_>,
) -> Poll<()> {
    // A panic is the job's own affair.
    let polled = catch_unwind(AssertUnwindSafe(|| hub.duty.poll(Pin::new(future), cx)));
    polled.unwrap_or(Poll::Ready(()))
}

/// Somebody hands out events, until this is dropped.
#[cfg(feature = "http")]
struct HandsOut<'a, E: 'static, C: Carrier<E>>(&'a Hub<E, C>);

#[cfg(feature = "http")]
impl<E: 'static, C: Carrier<E>> Drop for HandsOut<'_, E, C> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.handing = false;
        // What has come in meanwhile is for the driver.
        let has_more = !state.events.is_empty();
        let asleep = state.asleep.take_if(|_| has_more);
        drop(state);
        if let Some(asleep) = asleep {
            asleep.waker.wake();
        }
    }
}
