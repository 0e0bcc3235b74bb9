//! The event loop of a connection on a runtime, for every kind of transport. It reads input, processes timeouts, starts
//! jobs and writes output. It is a driver (`ARCHITECTURE.md`): [`tick`](EventLoop::tick) is one iteration.

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

use crate::{
    event_loop::{
        binding::Binding,
        jobs::Unfinished,
        shared::{Parked, SharedConnection},
    },
    runtime::{Runtime, Timer},
    tuning::{FAR_FUTURE, JOB_SHUTDOWN_TIMEOUT},
};
use mcp_service::driver_api::{Application, ConnectionHandle, Job, JobFuture, JobKind, JobQueue, JobSlot, job_cost};

/// How many iterations run before the task yields to other tasks of its thread.
const MAX_TICKS: usize = 32;

/// How many jobs are queued, or started, under one lock at most.
pub(crate) const BATCH: usize = 8;

/// Reads and writes the messages of a connection.
pub(crate) trait TransportIo<E, C>: Send {
    /// Whether [`write`](Self::write) processes timeouts, under the lock under which it takes output. Otherwise the
    /// event loop does, under another one.
    const PROCESSES_TIMEOUTS: bool = false;

    /// Prepares for iterations, each time the event loop is polled. It is called under the lock of the connection.
    fn resume(&mut self, _binding: &mut C, _now: Timestamp) {}

    /// Reads available input. Returns whether it made progress or leaves input to the next iteration.
    fn read(&mut self, _dispatcher: &Dispatcher<E, C>, _now: Timestamp, _cx: &mut Context<'_>) -> bool {
        false
    }

    /// Writes pending output and returns whether it made progress.
    fn write(&mut self, _dispatcher: &Dispatcher<E, C>, _now: Timestamp, _cx: &mut Context<'_>) -> bool {
        false
    }

    /// Waits for input after an iteration that made progress: registers the task for the next input, and returns
    /// whether another iteration would neither read nor write. If this is not known, it returns `false`.
    fn awaits_input(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }

    /// Returns whether new output could be written now.
    fn can_write(&self) -> bool {
        true
    }

    /// Returns whether reading is paused because the connection applies backpressure.
    fn is_paused(&self) -> bool {
        false
    }

    /// Returns the next deadline of the transport.
    fn due(&self) -> Option<Timestamp> {
        None
    }
}

/// Dispatches the events of a connection to its application, and queues the jobs.
pub(crate) struct Dispatcher<E, C> {
    pub(crate) shared: Arc<SharedConnection<E, C>>,
    connection: Arc<dyn ConnectionHandle<E>>,
    application: Arc<dyn Application<E>>,
}

/// The event loop of one connection and its jobs.
pub(crate) struct EventLoop<E: Send + 'static, C: Binding<E>, R: Runtime> {
    pub(crate) dispatcher: Dispatcher<E, C>,
    pub(crate) runtime: R,
    timer: R::Timer,
    handlers: Handlers<R::Task>,
    /// Jobs that were taken from the queue under one lock. The slots of those that end at once are collected in `done`
    /// and freed under the next lock.
    batch: Vec<(Job, JobSlot)>,
    done: Vec<JobSlot>,
    /// Declared last, so that it is dropped last.
    _finish_guard: FinishGuard<E, C>,
}

/// The tasks of handlers that were pending after their first poll.
struct Handlers<T> {
    tasks: BTreeMap<u64, Handler<T>>,
    spawned: u64,
}

/// A handler that continues in a task of its own.
struct Handler<T> {
    task: T,
    outlives: bool,
}

/// Marks the connection as finished when it is dropped.
struct FinishGuard<E, C>(Arc<SharedConnection<E, C>>);

impl<E, C> Drop for FinishGuard<E, C> {
    fn drop(&mut self) {
        self.0.lifecycle.update(|lifecycle| lifecycle.finished = true);
    }
}

impl<E: Send + 'static, C: Binding<E>, R: Runtime> EventLoop<E, C, R> {
    /// Creates the event loop of a connection that its application uses through `connection`.
    pub(crate) fn new(
        shared: Arc<SharedConnection<E, C>>,
        connection: Arc<dyn ConnectionHandle<E>>,
        application: Arc<dyn Application<E>>,
        runtime: R,
    ) -> Self {
        let dispatcher = Dispatcher { shared, connection, application };
        dispatcher.application.begin(&dispatcher.connection);
        Self::of(dispatcher, runtime)
    }

    /// Creates the event loop of a connection whose application has begun.
    pub(crate) fn of(dispatcher: Dispatcher<E, C>, runtime: R) -> Self {
        Self {
            _finish_guard: FinishGuard(dispatcher.shared.clone()),
            dispatcher,
            timer: runtime.timer(),
            runtime,
            handlers: Handlers { tasks: BTreeMap::new(), spawned: 0 },
            batch: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Runs until `done` returns `true`, or until `timeout` has passed.
    pub(crate) async fn run_until<M: TransportIo<E, C>>(
        &mut self,
        transport_io: &mut M,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Self, &mut M, &mut Context<'_>) -> bool,
    ) {
        let until = timeout.map(|timeout| self.dispatcher.shared.now() + timeout);
        poll_fn(|cx| {
            let mut now = self.dispatcher.shared.now();
            {
                let mut state = self.dispatcher.shared.lock();
                state.resume();
                transport_io.resume(&mut state.binding, now);
            }
            for _ in 0..MAX_TICKS {
                let progressed = self.tick(transport_io, now, cx);
                if done(self, transport_io, cx) || until.is_some_and(|until| until <= self.dispatcher.shared.now()) {
                    return Poll::Ready(());
                }
                // Most iterations handle all there is, so another one would only find that out.
                let is_idle = !progressed || transport_io.awaits_input(cx);
                if is_idle && self.park(transport_io, (until, now), cx) {
                    return Poll::Pending;
                }
                now = self.dispatcher.shared.now();
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Runs until the application has received the end of the connection.
    pub(crate) async fn run_until_closed<M: TransportIo<E, C>>(&mut self, transport_io: &mut M) {
        self.run_until(transport_io, None, |event_loop, _, _| event_loop.dispatcher.shared.has_closed()).await;
    }

    /// Waits a bounded time for the jobs to end, then drops or detaches those that are left.
    pub(crate) async fn end_jobs<M: TransportIo<E, C>>(&mut self, transport_io: &mut M) {
        let have_ended = |jobs: &JobQueue| jobs.running() - jobs.outliving() + jobs.waiting() == 0;
        let is_over = {
            let mut jobs = self.dispatcher.shared.lock_jobs();
            jobs.draining = true;
            self.done.drain(..).for_each(|slot| jobs.queue.ended(slot));
            have_ended(&jobs.queue)
        };
        // Most requests without a session have no other jobs, so an iteration would only find that out.
        if !is_over {
            self.run_until(transport_io, Some(JOB_SHUTDOWN_TIMEOUT), |event_loop, _, _| {
                have_ended(&event_loop.dispatcher.shared.lock_jobs().queue)
            })
            .await;
        }
        self.end_handlers();
        let (given_up, are_left) = {
            let queue = &mut self.dispatcher.shared.lock_jobs().queue;
            (queue.drain(), queue.running_futures() > 0)
        };
        drop(given_up);
        if are_left {
            self.run_until(transport_io, Some(JOB_SHUTDOWN_TIMEOUT), |event_loop, _, _| {
                event_loop.dispatcher.shared.lock_jobs().queue.running_futures() == 0
            })
            .await;
        }
    }

    /// Runs one iteration and returns whether it made progress.
    fn tick<M: TransportIo<E, C>>(&mut self, transport_io: &mut M, now: Timestamp, cx: &mut Context<'_>) -> bool {
        let read = transport_io.read(&self.dispatcher, now, cx);
        let timed_out = !M::PROCESSES_TIMEOUTS && self.dispatcher.process_timeouts(now);
        let began = self.begin_jobs();
        let wrote = transport_io.write(&self.dispatcher, now, cx);
        read || timed_out || began || wrote
    }

    /// Parks the event loop until the next deadline and returns `true`, unless there is work to do. The times are the
    /// end of the run, and the beginning of the iteration: the timer notices a deadline that has passed since.
    fn park<M>(&mut self, io: &M, (end, now): (Option<Timestamp>, Timestamp), cx: &mut Context<'_>) -> bool
    where
        M: TransportIo<E, C>,
    {
        let shared = &self.dispatcher.shared;
        let (due, before) = {
            let mut state = shared.lock();
            state.collect();
            let can_write = io.can_write();
            let has_output = can_write && state.binding.has_output();
            // The thread that dispatches last wakes the event loop if events are left afterwards.
            let has_events = !state.events.is_empty() && !shared.dispatching.notifies_end();
            let is_paused = io.is_paused();
            let reads_again = is_paused && state.binding.wants_input(now);
            let deadlines = [end, io.due()].into_iter().flatten();
            let due = deadlines.fold(shared.due(&state.binding), Timestamp::min);
            if has_output || has_events || reads_again || due <= now {
                return false;
            }
            if !self.done.is_empty() {
                let mut jobs = shared.lock_jobs();
                for slot in self.done.drain(..) {
                    jobs.free(slot);
                }
            }
            if shared.has_job_work() {
                return false;
            }
            // Most connections are idle most of the time, so they keep no spare capacity.
            state.events.shrink_to_fit();
            (due, state.park(cx.waker(), Parked { until: due, can_write, is_paused }))
        };
        drop(before);
        let is_pending = due == FAR_FUTURE || self.timer.poll_until(shared.instant(due), cx).is_pending();
        if !is_pending {
            shared.lock().resume();
        }
        is_pending
    }

    /// Starts queued jobs, and spawns tasks for pending jobs that were started inline. Returns whether a queued job was
    /// started.
    fn begin_jobs(&mut self) -> bool {
        let Self { dispatcher, runtime, handlers, batch, done, .. } = self;
        let mut progressed = false;
        loop {
            if done.is_empty() && !dispatcher.shared.has_job_work() {
                return progressed;
            }
            // Most jobs are alone, and such a one is not moved into the batch.
            let (first, left) = {
                let mut jobs = dispatcher.shared.lock_jobs();
                jobs.has_ended = false;
                done.drain(..).for_each(|slot| jobs.queue.ended(slot));
                let first = jobs.queue.next();
                while first.is_some()
                    && batch.len() < BATCH - 1
                    && let Some(next) = jobs.queue.next()
                {
                    batch.push(next);
                }
                (first, jobs.take_tasks())
            };
            if let Some((ended, unfinished)) = left {
                for task in ended {
                    handlers.tasks.remove(&task);
                }
                unfinished.into_iter().for_each(|unfinished| handlers.spawn(&dispatcher.shared, runtime, unfinished));
            }
            let is_last = batch.len() < BATCH - 1;
            progressed |= first.is_some();
            for (job, slot) in first.into_iter().chain(batch.drain(..)) {
                match dispatcher.begin(runtime, job, slot) {
                    JobStart::Done => done.push(slot),
                    JobStart::Blocking => {}
                    JobStart::Pending(unfinished) => handlers.spawn(&dispatcher.shared, runtime, unfinished),
                }
            }
            // Jobs that can start because of those that have ended start in the next iteration, which follows at once.
            if is_last {
                return progressed;
            }
        }
    }

    /// Drops the tasks of handlers, and detaches those whose work may outlive the connection.
    fn end_handlers(&mut self) {
        let (stay, end): (Vec<_>, Vec<_>) =
            mem::take(&mut self.handlers.tasks).into_values().partition(|handler| handler.outlives);
        stay.into_iter().for_each(|handler| R::detach(handler.task));
        drop(end);
    }
}

impl<T> Handlers<T> {
    /// Spawns a task that continues a pending job.
    fn spawn<E: Send + 'static, C: Binding<E>, R: Runtime<Task = T>>(
        &mut self,
        shared: &Arc<SharedConnection<E, C>>,
        runtime: &R,
        Unfinished { future, slot, outlives }: Unfinished,
    ) {
        self.spawned += 1;
        let slot_guard = SlotGuard { shared: shared.clone(), slot, task: Some(self.spawned) };
        let task = runtime.spawn_handler(JobTask { future, slot_guard });
        self.tasks.insert(self.spawned, Handler { task, outlives });
    }
}

/// The state of a job after it was started.
enum JobStart {
    Done,
    /// It runs, or waits to run, on a thread that may block.
    Blocking,
    Pending(Unfinished),
}

impl<E, C> Clone for Dispatcher<E, C> {
    fn clone(&self) -> Self {
        let Self { shared, connection, application } = self;
        Self { shared: shared.clone(), connection: connection.clone(), application: application.clone() }
    }
}

impl<E: Send + 'static, C: Binding<E>> Dispatcher<E, C> {
    #[cfg(feature = "http")]
    pub(crate) fn new(shared: Arc<SharedConnection<E, C>>, application: Arc<dyn Application<E>>) -> Self {
        Self { connection: shared.clone(), shared, application }
    }

    /// Starts a job: hands a blocking one to a thread, or polls an asynchronous one once. A future that is ready at
    /// once needs no task.
    fn begin<R: Runtime>(&self, runtime: &R, job: Job, slot: JobSlot) -> JobStart {
        let (shared, outlives) = (&self.shared, job.outlives_connection());
        match job.into_kind() {
            JobKind::Blocking(run) => {
                let slot_guard = SlotGuard { shared: shared.clone(), slot, task: None };
                let run = move || {
                    let slot_guard = slot_guard;
                    // A panic is the job's own affair.
                    let _ = catch_unwind(AssertUnwindSafe(|| slot_guard.shared.handler_scope.run(|| run.run())));
                };
                if let Some((functions, holder)) = &shared.functions {
                    let threads = runtime.clone();
                    let start = move |permit| {
                        threads.spawn_blocking(move || {
                            run();
                            drop(permit);
                        });
                    };
                    functions.begin(runtime, holder, Box::new(start));
                    return JobStart::Blocking;
                }
                runtime.spawn_blocking(run);
                JobStart::Blocking
            }
            JobKind::Async(future) if !runtime.polls_handlers() => {
                JobStart::Pending(Unfinished { future, slot, outlives })
            }
            JobKind::Async(mut future) => match poll(shared, &mut future, &mut Context::from_waker(Waker::noop())) {
                Poll::Ready(()) => JobStart::Done,
                Poll::Pending => JobStart::Pending(Unfinished { future, slot, outlives }),
            },
        }
    }

    /// Dispatches an event on the calling thread instead of in the event loop, and polls the resulting jobs once. Jobs
    /// that stay pending are handed to the event loop, and so is what waits after a batch of jobs: the caller still has
    /// to write its own response.
    ///
    /// The caller has begun to dispatch the event.
    #[cfg(feature = "http")]
    pub(crate) fn dispatch_inline<R: Runtime>(&self, runtime: &R, event: Event<'_>) {
        let guard = DispatchGuard(&self.shared);
        let offered = self.call_application(event);
        let mut next = self.queued(offered, JobQueue::next);
        drop(guard);
        let mut left = BATCH;
        while let Some((job, slot)) = next {
            let is_done = match self.begin(runtime, job, slot) {
                JobStart::Done => true,
                JobStart::Blocking => false,
                JobStart::Pending(unfinished) => {
                    let given_up = self.shared.lock_jobs().hand_over(unfinished);
                    drop(given_up);
                    self.shared.wake();
                    false
                }
            };
            let has_work = {
                let mut jobs = self.shared.lock_jobs();
                let is_awaited = is_done && jobs.free(slot);
                left -= 1;
                next = if left > 0 { jobs.queue.next() } else { None };
                is_awaited || left == 0 && jobs.queue.has_next()
            };
            if has_work {
                self.shared.wake();
            }
        }
    }

    /// Passes a response to the application on the calling thread instead of in the event loop.
    ///
    /// The caller has begun to dispatch the event.
    #[cfg(feature = "net")]
    pub(crate) fn dispatch_response(&self, event: Event<'_>) {
        let guard = DispatchGuard(&self.shared);
        let job = self.call_application(event);
        let has_job = job.is_some();
        self.queue(job.into_iter());
        drop(guard);
        if has_job {
            self.shared.wake();
        }
    }

    /// Dispatches the events that wait, and ends a connection that has nothing left to do, so that it needs no event
    /// loop. Returns whether it has ended.
    #[cfg(feature = "http")]
    pub(crate) fn end_if_over(&self) -> bool {
        let shared = &self.shared;
        self.dispatch_waiting();
        let now = shared.now();
        if !shared.has_closed() || !shared.lock().binding.connection(now).is_drained() {
            return false;
        }
        let given_up = {
            let mut jobs = shared.lock_jobs();
            if jobs.queue.running() + jobs.queue.waiting() > 0 || jobs.has_work() {
                return false;
            }
            jobs.close()
        };
        drop(given_up);
        shared.lifecycle.update(|lifecycle| lifecycle.finished = true);
        true
    }

    /// Processes expired deadlines, and dispatches the collected events. Returns whether any event was dispatched.
    fn process_timeouts(&self, now: Timestamp) -> bool {
        let shared = &self.shared;
        shared.waiters.fire_timers(now);
        let mut state = shared.lock();
        let has_events = shared.handle_timeout(&mut state, now);
        shared.wake_interested(state);
        has_events && self.dispatch_waiting()
    }

    pub(crate) fn dispatch_waiting(&self) -> bool {
        let mut progressed = false;
        loop {
            let event = {
                let mut state = self.shared.lock();
                if !progressed && self.shared.dispatching.is_active() {
                    return false;
                }
                let event = state.events.pop_front();
                self.shared.dispatching.set_exclusive(event.is_some());
                event
            };
            let Some(event) = event else { return progressed };
            self.dispatch(event);
            progressed = true;
        }
    }

    /// Passes an event to the application, outside of any lock, and queues the resulting job.
    pub(crate) fn dispatch(&self, event: Event<'_>) {
        let job = self.call_application(event);
        self.queue(job.into_iter());
    }

    /// Passes an event to the application, outside of any lock. Returns the resulting job and its cost. The caller
    /// [queues](Self::queue) jobs in the order of their events.
    #[must_use = "the job has to be queued"]
    pub(crate) fn call_application(&self, event: Event<'_>) -> Option<(Job, usize)> {
        let cost = job_cost(&event);
        let end = if let Event::Closed(reason) = &event { Some(reason.clone()) } else { None };
        let job = self.application.handle(&self.connection, event).map(|job| (job, cost));
        let Some(reason) = end else { return job };
        self.queue(job.into_iter());
        self.shared.close(reason);
        None
    }

    /// Queues jobs, in order.
    pub(crate) fn queue(&self, new: impl ExactSizeIterator<Item = (Job, usize)>) {
        if new.len() > 0 {
            self.queued(new, |_| ());
        }
    }

    /// Queues jobs, in order, and calls `f` with the queue under the same lock.
    fn queued<T>(&self, new: impl IntoIterator<Item = (Job, usize)>, f: impl FnOnce(&mut JobQueue) -> T) -> T {
        let (refused, result) = {
            let mut jobs = self.shared.lock_jobs();
            let refused: Vec<_> = new.into_iter().filter_map(|(job, cost)| jobs.push(job, cost).err()).collect();
            (refused, f(&mut jobs.queue))
        };
        // Dropping a refused job responds to its request.
        drop(refused);
        result
    }
}

impl<E: Send + 'static, C: Binding<E>, R: Runtime> Drop for EventLoop<E, C, R> {
    fn drop(&mut self) {
        self.end_handlers();
        let given_up = self.dispatcher.shared.lock_jobs().close();
        drop(given_up);
        let shared = &self.dispatcher.shared;
        let waker = shared.lock().end();
        drop(waker);
        if shared.has_closed() {
            return;
        }
        // The connection has not ended yet: the runtime dropped this task, because it has ended itself.
        shared.update(|binding, now| binding.connection(now).handle_transport_error("the runtime has ended"));
        self.dispatcher.process_timeouts(shared.now());
    }
}

/// Frees the slot of a job when it is dropped.
struct SlotGuard<E: 'static, C: Binding<E>> {
    shared: Arc<SharedConnection<E, C>>,
    slot: JobSlot,
    task: Option<u64>,
}

impl<E: 'static, C: Binding<E>> Drop for SlotGuard<E, C> {
    fn drop(&mut self) {
        self.shared.ended(self.slot, self.task);
    }
}

/// The task of a handler that was pending after its first poll.
struct JobTask<E: 'static, C: Binding<E>> {
    future: JobFuture,
    /// Dropped after the future, whose drop may still use the connection.
    slot_guard: SlotGuard<E, C>,
}

impl<E: 'static, C: Binding<E>> Future for JobTask<E, C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { future, slot_guard } = &mut *self;
        poll(&slot_guard.shared, future, cx)
    }
}

fn poll<E: 'static, C: Binding<E>>(
    shared: &SharedConnection<E, C>,
    future: &mut JobFuture,
    cx: &mut Context<'_>,
) -> Poll<()> {
    // A panic is the job's own affair.
    let polled = catch_unwind(AssertUnwindSafe(|| shared.handler_scope.poll(Pin::new(future), cx)));
    polled.unwrap_or(Poll::Ready(()))
}

/// Ends to dispatch an event when it is dropped, and wakes the event loop if there are events left.
#[cfg(feature = "http")]
struct DispatchGuard<'a, E: 'static, C: Binding<E>>(&'a SharedConnection<E, C>);

#[cfg(feature = "http")]
impl<E: 'static, C: Binding<E>> Drop for DispatchGuard<'_, E, C> {
    fn drop(&mut self) {
        if !self.0.dispatching.end() {
            return;
        }
        // The event loop dispatches the events that were collected in the meantime.
        let mut state = self.0.lock();
        let parked = if state.events.is_empty() { None } else { state.unpark() };
        drop(state);
        parked.into_iter().for_each(Waker::wake);
    }
}
