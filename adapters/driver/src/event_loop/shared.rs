//! The state of a connection that its event loop, its handlers and its handles share.

use std::{
    collections::VecDeque,
    marker::PhantomData,
    mem,
    sync::{Arc, Mutex, MutexGuard},
    task::Waker,
    time::Duration,
};

#[cfg(test)]
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_proto::{
    connection::{CloseReason, Connection, Event},
    rpc::{ReplyKey, Timestamp},
};

use crate::sync::lock;
use crate::{
    event_loop::{
        binding::{Binding, PipeBinding},
        dispatching::Dispatching,
    },
    limits::functions::Functions,
    options::DriverOptions,
    tuning::FAR_FUTURE,
    watched::Watched,
};
use mcp_service::driver_api::{
    ConnectionHandle, HandlerScope, Holder, Instant, Job, JobFuture, JobQueue, JobSlot, Waiters,
};

/// A connection, its jobs and its waiters. The event loop is parked while it has nothing to do, and woken by every
/// change that gives it work.
pub(crate) struct SharedConnection<E, C = PipeBinding<E>> {
    state: Mutex<State<C>>,
    /// The events that are being dispatched. It begins to change under the lock of the state only.
    pub(crate) dispatching: Dispatching,
    /// The limit that its blocking functions share with other connections, and the client that they count for.
    pub(crate) functions: Option<(Arc<Functions>, Holder)>,
    pub(crate) jobs: Mutex<JobState>,
    pub(crate) waiters: Waiters,
    pub(crate) handler_scope: HandlerScope,
    pub(crate) lifecycle: Watched<Lifecycle>,
    epoch: Instant,
    /// How often the lock of the state was taken.
    #[cfg(test)]
    pub(crate) locks: AtomicUsize,
    end: PhantomData<fn() -> E>,
}

/// The state behind the lock of the connection.
pub(crate) struct State<C> {
    pub(crate) binding: C,
    /// Events that are still to be dispatched.
    pub(crate) events: VecDeque<Event<'static>>,
    /// The event loop, while it is parked.
    pub(crate) parked: Option<Parked>,
}

/// A parked event loop.
pub(crate) struct Parked {
    pub(crate) waker: Waker,
    pub(crate) until: Timestamp,
    /// Whether it can write new output.
    pub(crate) can_write: bool,
    /// Whether reading is paused because the connection applies backpressure.
    pub(crate) is_paused: bool,
}

/// The queued and running jobs, and the ids of tasks that have ended.
#[derive(Default)]
pub(crate) struct JobState {
    pub(crate) queue: JobQueue,
    pub(crate) ended: Vec<u64>,
    /// Jobs that were started inline and are still pending. The event loop continues them.
    pub(crate) unfinished: Vec<Unfinished>,
    /// The event loop waits for the last jobs to end.
    pub(crate) draining: bool,
    /// A job has ended since the event loop has begun to wait, or has last checked whether it was the last one.
    pub(crate) has_ended: bool,
    /// The event loop has ended, and starts and continues no jobs.
    pub(crate) closed: bool,
}

/// A job that was polled once and is still pending.
pub(crate) struct Unfinished {
    pub(crate) future: JobFuture,
    pub(crate) slot: JobSlot,
    pub(crate) outlives: bool,
}

impl JobState {
    /// Returns whether the event loop has work: a job to start or to continue, or the end of a job to handle.
    pub(crate) fn has_work(&self) -> bool {
        self.queue.has_next() || !self.unfinished.is_empty() || !self.ended.is_empty() || self.has_ended
    }

    /// Frees the slot of a job that has ended. Returns whether the event loop waits for the last one.
    pub(crate) fn free(&mut self, slot: JobSlot) -> bool {
        self.queue.ended(slot);
        self.has_ended |= self.draining;
        self.draining
    }

    /// Hands a pending job to the event loop. Returns it if the event loop has ended: the caller drops it outside of
    /// any lock.
    #[cfg(feature = "http")]
    #[must_use = "dropping it responds to a request"]
    pub(crate) fn hand_over(&mut self, unfinished: Unfinished) -> Option<Unfinished> {
        if self.closed {
            return Some(unfinished);
        }
        self.unfinished.push(unfinished);
        None
    }

    /// Records that the event loop has ended, and takes the jobs that wait or were handed to it: a job that stayed here
    /// would keep the connection, to which it refers. The caller drops them outside of any lock.
    #[must_use = "dropping it responds to requests"]
    pub(crate) fn close(&mut self) -> (Vec<Unfinished>, Vec<Job>) {
        self.closed = true;
        (mem::take(&mut self.unfinished), self.queue.drain())
    }

    /// Takes the tasks that have ended, and the jobs that need one, if there are any.
    pub(crate) fn take_tasks(&mut self) -> Option<(Vec<u64>, Vec<Unfinished>)> {
        let has_none = self.ended.is_empty() && self.unfinished.is_empty();
        (!has_none).then(|| (mem::take(&mut self.ended), mem::take(&mut self.unfinished)))
    }

    /// Queues a job.
    ///
    /// # Errors
    /// The job, if there is no room for it, or the event loop has ended. The caller drops it outside of any lock.
    pub(crate) fn push(&mut self, job: Job, cost: usize) -> Result<(), Job> {
        if self.closed { Err(job) } else { self.queue.push(job, cost) }
    }
}

/// The progress of a connection towards its end.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    /// The reason why the connection ended, once the application has received it. Boxed, because an idle session is to
    /// stay small.
    pub(crate) closed: Option<Box<CloseReason>>,
    /// The event loop was dropped.
    pub(crate) finished: bool,
}

impl<E, C> SharedConnection<E, C> {
    /// Locks the state. Clients that share a session over HTTP contend for this lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<C>> {
        #[cfg(test)]
        self.locks.fetch_add(1, Ordering::Relaxed);
        lock(&self.state)
    }
}

impl<E: 'static, C: Binding<E>> SharedConnection<E, C> {
    /// Creates a connection whose clock starts now.
    pub(crate) fn new(binding: impl FnOnce(Timestamp) -> C, options: &DriverOptions) -> Arc<Self> {
        Self::since(Instant::now(), binding(Timestamp::ZERO), options)
    }

    /// Creates a connection whose clock started at `epoch`.
    pub(crate) fn since(epoch: Instant, binding: C, options: &DriverOptions) -> Arc<Self> {
        let functions = binding.functions().map(|(functions, holder)| (functions.clone(), holder.clone()));
        Arc::new(Self {
            state: Mutex::new(State { binding, events: VecDeque::new(), parked: None }),
            dispatching: Dispatching::default(),
            functions,
            jobs: Mutex::new(JobState { queue: JobQueue::new(options.job_limits()), ..JobState::default() }),
            waiters: Waiters::new(),
            handler_scope: HandlerScope::default(),
            lifecycle: Watched::default(),
            epoch,
            #[cfg(test)]
            locks: AtomicUsize::new(0),
            end: PhantomData,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::after_zero(self.epoch.elapsed())
    }

    /// Converts a timestamp of the connection to an [`Instant`].
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.epoch + Duration::from_nanos(at.as_nanos())
    }

    /// Returns the next deadline.
    pub(crate) fn due(&self, binding: &C) -> Timestamp {
        let due = binding.due().unwrap_or(FAR_FUTURE);
        self.waiters.next_deadline().map_or(due, |deadline| deadline.min(due))
    }

    /// Frees the slot of a job that has ended or was dropped, and wakes the event loop if that gives it work.
    pub(crate) fn ended(&self, slot: JobSlot, task: Option<u64>) {
        let matters = {
            let mut jobs = lock(&self.jobs);
            let is_awaited = jobs.free(slot);
            jobs.ended.extend(task);
            task.is_some() || is_awaited || jobs.queue.has_next()
        };
        if matters {
            self.wake();
        }
    }

    /// Wakes the event loop if it is parked.
    pub(crate) fn wake(&self) {
        let parked = self.lock().parked.take();
        if let Some(parked) = parked {
            parked.waker.wake();
        }
    }
}

impl<E: 'static, C: Binding<E>> SharedConnection<E, C> {
    /// Processes deadlines that have passed, and collects events. Returns whether events wait.
    pub(crate) fn handle_timeout(&self, state: &mut State<C>, now: Timestamp) -> bool {
        if self.due(&state.binding) <= now {
            state.binding.handle_timeout(now);
        }
        state.collect();
        !state.events.is_empty()
    }

    /// Calls `f` with the binding, and wakes the tasks that the change concerns.
    pub(crate) fn update<T>(&self, f: impl FnOnce(&mut C, Timestamp) -> T) -> T {
        let mut state = self.lock();
        let now = self.now();
        let result = f(&mut state.binding, now);
        self.wake_interested(state);
        result
    }

    /// Collects events after a change, and wakes the event loop and the waiters that it concerns.
    pub(crate) fn wake_interested(&self, mut state: MutexGuard<'_, State<C>>) {
        state.collect();
        let woken = state.binding.woken();
        // Output that was taken makes room for requests that wait.
        state.collect();
        let State { binding, events, parked, .. } = &mut *state;
        let parked = parked.take_if(|it| {
            let is_early = || self.due(binding) < it.until;
            let wakes = !events.is_empty() || it.can_write && binding.has_output() || is_early();
            wakes || it.is_paused && binding.wants_input(self.now())
        });
        let capacity = self.waiters.capacity(state.binding.view());
        drop(state);
        self.waiters.notify(capacity);
        woken.into_iter().for_each(Waker::wake);
        if let Some(parked) = parked {
            parked.waker.wake();
        }
    }
}

impl<C> State<C> {
    /// Moves all available events from the binding to the queue.
    pub(crate) fn collect<E>(&mut self)
    where
        C: Binding<E>,
    {
        while let Some(event) = self.binding.poll_event() {
            self.events.push_back(event);
        }
    }
}

impl<E: Send + 'static, C: Binding<E>> ConnectionHandle<E> for SharedConnection<E, C> {
    fn with_mut(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp)) {
        self.update(|binding, now| f(binding.connection(now), now));
    }

    fn with_mut_untimed(&self, f: &mut dyn FnMut(&mut Connection<E>)) {
        let mut state = self.lock();
        f(state.binding.connection_untimed(|| self.now()));
        self.wake_interested(state);
    }

    fn with_ref(&self, f: &mut dyn FnMut(&Connection<E>)) {
        f(self.lock().binding.view());
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn authenticates(&self) -> bool {
        self.lock().binding.authenticates()
    }

    fn needs_scopes(&self, key: ReplyKey, scopes: &[String]) -> bool {
        self.update(|binding, now| binding.needs_scopes(now, key, scopes))
    }

    fn require_scopes(&self, key: ReplyKey, scopes: &[String]) {
        self.update(|binding, now| binding.require_scopes(now, key, scopes));
    }

    fn holder(&self) -> Holder {
        self.functions.as_ref().map_or(Holder::Unknown, |(_, holder)| holder.clone())
    }
}

#[cfg(test)]
mod tests {
    use mcp_service::driver_api::{JobKind, Schedule};

    use super::*;

    #[test]
    fn unfinished_and_queued_jobs_are_work() {
        let job = || Job::future(Schedule::Concurrent, async {});
        let mut jobs = JobState::default();
        assert!(!jobs.has_work());
        jobs.push(job(), 0).map_err(drop).expect("there is room");
        assert!(jobs.has_work(), "it waits");
        let (started, slot) = jobs.queue.next().expect("it waits");
        assert!(!jobs.has_work(), "it runs");
        let JobKind::Async(future) = started.into_kind() else { panic!("it is a future") };
        jobs.unfinished.push(Unfinished { future, slot, outlives: false });
        assert!(jobs.has_work(), "it is to be continued");
        jobs.push(job(), 0).map_err(drop).expect("there is room");
        let (unfinished, waiting) = jobs.close();
        assert_eq!((unfinished.len(), waiting.len(), jobs.has_work()), (1, 1, false));
        assert!(jobs.push(job(), 0).is_err());
    }
}
