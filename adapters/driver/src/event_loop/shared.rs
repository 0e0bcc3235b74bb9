//! The state of a connection that its event loop, its handlers and its handles share.

use std::{
    collections::VecDeque,
    marker::PhantomData,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::Duration,
};

#[cfg(test)]
use std::sync::atomic::AtomicUsize;

use mcp_proto::{
    connection::{CloseReason, Connection, Event},
    rpc::{ReplyKey, Timestamp},
};

use crate::sync::lock;
use crate::{
    event_loop::{
        binding::{Binding, PipeBinding},
        dispatching::Dispatching,
        jobs::{JobState, JobsGuard},
    },
    limits::functions::Functions,
    options::DriverOptions,
    tuning::FAR_FUTURE,
    watched::Watched,
};
use mcp_service::driver_api::{ConnectionHandle, HandlerScope, Holder, Instant, JobQueue, JobSlot, Waiters};

/// A connection, its jobs and its waiters. The event loop is parked while it has nothing to do, and woken by every
/// change that gives it work.
pub(crate) struct SharedConnection<E, C = PipeBinding<E>> {
    state: Mutex<State<C>>,
    /// The events that are being dispatched. It begins to change under the lock of the state only.
    pub(crate) dispatching: Dispatching,
    /// The limit that its blocking functions share with other connections, and the client that they count for.
    pub(crate) functions: Option<(Arc<Functions>, Holder)>,
    jobs: Mutex<JobState>,
    /// Whether the event loop has work with jobs. It changes under their lock.
    has_job_work: AtomicBool,
    pub(crate) waiters: Waiters,
    pub(crate) handler_scope: HandlerScope,
    pub(crate) lifecycle: Watched<Lifecycle>,
    /// Whether the lifecycle has the reason why the connection ended.
    has_closed: AtomicBool,
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
    parked: Option<Parked>,
    /// The waker of the event loop. It stays if the event loop is woken by its transport or its timer, and it usually
    /// waits with the same one again.
    waker: Option<Waker>,
}

/// A parked event loop.
pub(crate) struct Parked {
    pub(crate) until: Timestamp,
    /// Whether it can write new output.
    pub(crate) can_write: bool,
    /// Whether reading is paused because the connection applies backpressure.
    pub(crate) is_paused: bool,
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

    pub(crate) fn lock_jobs(&self) -> JobsGuard<'_> {
        JobsGuard::new(&self.jobs, &self.has_job_work)
    }

    /// Returns whether the event loop [has work](JobState::has_work) with jobs. It calls this under the lock
    /// of the state before it parks. A thread that gives it work checks under that lock afterwards if it is parked.
    pub(crate) fn has_job_work(&self) -> bool {
        self.has_job_work.load(Ordering::Acquire)
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
            state: Mutex::new(State { binding, events: VecDeque::new(), parked: None, waker: None }),
            dispatching: Dispatching::default(),
            functions,
            jobs: Mutex::new(JobState { queue: JobQueue::new(options.job_limits()), ..JobState::default() }),
            has_job_work: AtomicBool::new(false),
            waiters: Waiters::new(),
            handler_scope: HandlerScope::default(),
            lifecycle: Watched::default(),
            has_closed: AtomicBool::new(false),
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
            let mut jobs = self.lock_jobs();
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
        let parked = self.lock().unpark();
        parked.into_iter().for_each(Waker::wake);
    }

    /// Records that the application has received the end of the connection.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.lifecycle.update(|lifecycle| lifecycle.closed = Some(Box::new(reason)));
        self.has_closed.store(true, Ordering::Release);
    }

    /// Returns whether the application has received the end of the connection.
    pub(crate) fn has_closed(&self) -> bool {
        self.has_closed.load(Ordering::Acquire)
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
        let has_work = parked.as_ref().is_some_and(|it| {
            let is_early = || self.due(binding) < it.until;
            let wakes = !events.is_empty() || it.can_write && binding.has_output() || is_early();
            wakes || it.is_paused && binding.wants_input(self.now())
        });
        let parked = if has_work { state.unpark() } else { None };
        let capacity = self.waiters.capacity(state.binding.view());
        drop(state);
        self.waiters.notify(capacity);
        woken.into_iter().for_each(Waker::wake);
        parked.into_iter().for_each(Waker::wake);
    }
}

impl<C> State<C> {
    /// Parks the event loop. Returns the waker of another task that it had before, to be dropped outside of the lock.
    #[must_use = "it is dropped outside of the lock"]
    pub(crate) fn park(&mut self, waker: &Waker, parked: Parked) -> Option<Waker> {
        self.parked = Some(parked);
        let is_known = self.waker.as_ref().is_some_and(|known| known.will_wake(waker));
        if is_known { None } else { self.waker.replace(waker.clone()) }
    }

    /// Records that the event loop runs.
    pub(crate) fn resume(&mut self) {
        self.parked = None;
    }

    /// Returns the waker of the event loop if it is parked, for the caller to wake it outside of the lock.
    pub(crate) fn unpark(&mut self) -> Option<Waker> {
        self.parked.take().and_then(|_| self.waker.take())
    }

    /// Records that the event loop has ended. Returns its waker, to be dropped outside of the lock.
    #[must_use = "it is dropped outside of the lock"]
    pub(crate) fn end(&mut self) -> Option<Waker> {
        self.resume();
        self.waker.take()
    }

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
