//! The tasks of one client. One thread at a time runs them: that of a task which waits for a response (a
//! **caller**), or else a thread of the executor.
//!
//! A caller runs the tasks of its client each time that it is polled. When a task becomes ready, a waiting caller is
//! woken, whose thread often is the one that waits in the reactor: then a response needs no change of threads. If no
//! caller waits, tasks that a new request makes ready are left to the task that begins it, which usually waits next.
//!
//! Either one may be late, since its thread does other work. So the **background task** checks the tasks at intervals
//! of [`TAKE_OVER_AFTER`], and runs those that are ready if no thread has run any in one interval. It also runs tasks
//! that become ready otherwise while no caller waits.
//!
//! Whenever tasks are ready, a thread runs them, or one runner was woken or has just begun a request.

#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_io::Timer;
use async_task::{Runnable, Task};
use mcp_driver::{CallerTasks, is_in_handler, os::thread::lock};
use mcp_proto::rpc::CallId;

use crate::executor::{self, Guarded};

/// The interval in which a thread has to run tasks, or else the background task does. Its timer is late by up to 20 ms
/// if the only thread in `block_on` computes, since the thread of `async-io` then checks the reactor rarely.
const TAKE_OVER_AFTER: Duration = Duration::from_millis(2);

/// The most tasks that run in one poll.
const BATCH: usize = 64;

thread_local! {
    /// The client whose tasks this thread runs.
    static CURRENT: RefCell<Option<ClientTasks>> = const { RefCell::new(None) };
    /// The address of the client on whose connection this thread begins a request.
    static BEGINS: Cell<usize> = const { Cell::new(0) };
}

/// The tasks of one client.
#[derive(Clone, Debug)]
pub(crate) struct ClientTasks(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Runnable>,
    /// Set while a thread runs tasks, or is about to.
    is_running: bool,
    /// The runner that has to run the ready tasks, and does not yet.
    woken: Option<Runner>,
    /// The tasks that wait for responses. The one of the latest call is woken first.
    callers: BTreeMap<CallId, Waker>,
    /// The background task.
    background: Option<Waker>,
    has_background: bool,
    /// Set while the background task checks that callers run the tasks.
    is_checked: bool,
    /// The number of tasks that have not ended.
    live: usize,
    /// How often a thread has begun to run tasks.
    runs: u64,
    /// Usually [`TAKE_OVER_AFTER`].
    interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    /// The task that has begun a request, and usually waits for its response next.
    Requester,
    Caller(CallId),
    Background,
}

impl State {
    /// Returns the wakers of a runner for the ready tasks, and of the background task if it has to check that runner.
    #[must_use]
    fn wake_runner(&mut self) -> [Option<Waker>; 2] {
        if self.is_running || !matches!(self.woken, None | Some(Runner::Requester)) || self.ready.is_empty() {
            return [None, None];
        }
        if let Some((call, caller)) = self.callers.pop_last() {
            self.woken = Some(Runner::Caller(call));
            return [Some(caller), self.begin_check()];
        }
        self.woken = Some(Runner::Background);
        [self.background.clone(), None]
    }

    /// Leaves the ready tasks to the task that has begun a request, unless a caller waits. Returns wakers as
    /// [`wake_runner`](Self::wake_runner) does.
    #[must_use]
    fn await_requester(&mut self) -> [Option<Waker>; 2] {
        if !self.callers.is_empty() {
            // The responses of other callers may depend on these tasks.
            return self.wake_runner();
        }
        if self.is_running || self.woken.is_some() {
            return [None, None];
        }
        self.woken = Some(Runner::Requester);
        [None, self.begin_check()]
    }

    fn begin_check(&mut self) -> Option<Waker> {
        let begins = !mem::replace(&mut self.is_checked, true);
        self.background.clone().filter(|_| begins)
    }
}

impl Default for ClientTasks {
    fn default() -> Self {
        Self::with_interval(TAKE_OVER_AFTER)
    }
}

impl ClientTasks {
    fn with_interval(interval: Duration) -> Self {
        Self(Arc::new(Mutex::new(State { interval, ..State::default() })))
    }

    /// Returns the client whose tasks this thread runs.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// Returns whether this thread runs tasks of this client.
    fn is_current(&self) -> bool {
        let is_self = |current: &Option<Self>| current.as_ref().is_some_and(|it| Arc::ptr_eq(&it.0, &self.0));
        CURRENT.try_with(|current| is_self(&current.borrow())).unwrap_or(true)
    }

    /// Runs a future. It is cancelled if the task is dropped, or if no thread can be started.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task<()> {
        let has_threads = executor::start().is_ok();
        let is_first = {
            let mut state = lock(&self.0);
            state.live += 1;
            has_threads && !mem::replace(&mut state.has_background, true)
        };
        if is_first {
            let background = Background { tasks: self.clone(), timer: Timer::never(), seen: None };
            executor::spawn_without_reactor(background).detach();
        }
        let tasks = self.clone();
        let future = Guarded { future, guard: LiveGuard(self.clone()) };
        let (runnable, task) = async_task::spawn(future, move |runnable| tasks.schedule(runnable));
        if has_threads {
            runnable.schedule();
        }
        task
    }

    fn schedule(&self, runnable: Runnable) {
        if BEGINS.try_with(Cell::get) != Ok(self.address()) {
            return self.update(|state| state.ready.push_back(runnable));
        }
        let wakers = {
            let mut state = lock(&self.0);
            state.ready.push_back(runnable);
            state.await_requester()
        };
        wake_all(wakers);
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Changes the state, and wakes a runner if tasks are ready then.
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, wakers) = {
            let mut state = lock(&self.0);
            let result = change(&mut state);
            (result, state.wake_runner())
        };
        wake_all(wakers);
        result
    }

    /// Makes this thread the one that runs tasks. No other may.
    fn begin(&self, mut state: MutexGuard<'_, State>) -> Run<'_> {
        (state.is_running, state.woken) = (true, None);
        state.runs += 1;
        Run { tasks: self, next: state.ready.pop_front(), is_over: false }
    }
}

fn wake_all([runner, background]: [Option<Waker>; 2]) {
    runner.into_iter().for_each(Waker::wake);
    background.into_iter().for_each(Waker::wake);
}

impl CallerTasks for ClientTasks {
    fn run_before_wait(&self, change: &mut dyn FnMut()) {
        struct BeginsGuard(usize);
        impl Drop for BeginsGuard {
            fn drop(&mut self) {
                BEGINS.set(self.0);
            }
        }
        // These do not run tasks when they wait.
        if self.is_current() || is_in_handler() {
            return change();
        }
        let _guard = BeginsGuard(BEGINS.replace(self.address()));
        change();
    }

    fn drives_in_tasks(&self) -> bool {
        true
    }

    fn poll_drive(&self, call: CallId, cx: &Context<'_>) {
        // A task of the client itself cannot run others.
        if self.is_current() {
            return;
        }
        let (before, run) = {
            let waker = cx.waker().clone();
            let mut state = lock(&self.0);
            let before = state.callers.insert(call, waker);
            if state.woken == Some(Runner::Caller(call)) {
                state.woken = None;
            }
            let runs = !state.is_running && !state.ready.is_empty();
            (before, runs.then(|| self.begin(state)))
        };
        // Dropping a waker may drop a task that waits as well.
        drop(before);
        if let Some(run) = run {
            run.run_ready();
        }
    }

    fn end_drive(&self, call: CallId) {
        let waker = self.update(|state| {
            if state.woken == Some(Runner::Caller(call)) {
                state.woken = None;
            }
            state.callers.remove(&call)
        });
        drop(waker);
    }
}

/// The run of ready tasks. Dropping it lets other threads run tasks, and wakes a runner if some are ready.
struct Run<'a> {
    tasks: &'a ClientTasks,
    /// The task that runs next.
    next: Option<Runnable>,
    /// No tasks were left, so other threads may run those that become ready.
    is_over: bool,
}

impl Run<'_> {
    fn run_ready(mut self) {
        struct CurrentGuard(Option<ClientTasks>);
        impl Drop for CurrentGuard {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _guard = CurrentGuard(CURRENT.replace(Some(self.tasks.clone())));
        for _ in 0..BATCH {
            let Some(runnable) = self.next.take() else { break };
            // A panic ends the task, not the thread.
            let _ = catch_unwind(AssertUnwindSafe(|| runnable.run()));
            let mut state = lock(&self.tasks.0);
            self.next = state.ready.pop_front();
            if self.next.is_none() {
                state.is_running = false;
                self.is_over = true;
            }
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let next = self.next.take();
        self.tasks.update(|state| {
            if let Some(next) = next {
                state.ready.push_front(next);
            }
            state.is_running = false;
        });
    }
}

/// Counts a task that has not ended.
struct LiveGuard(ClientTasks);

impl Drop for LiveGuard {
    fn drop(&mut self) {
        let background = {
            let mut state = lock(&self.0.0);
            state.live -= 1;
            state.background.clone().filter(|_| state.live == 0)
        };
        background.into_iter().for_each(Waker::wake);
    }
}

/// Runs tasks while no caller does. It completes when all tasks have ended.
struct Background {
    tasks: ClientTasks,
    timer: Timer,
    /// The number of runs when the timer was set.
    seen: Option<u64>,
}

impl Background {
    /// Returns whether no thread has begun to run tasks in one interval, and sets the timer for the next one.
    fn poll_timer(&mut self, runs: u64, interval: Duration, cx: &mut Context<'_>) -> bool {
        let mut is_same = false;
        if self.seen.is_none() {
            self.seen = Some(runs);
            self.timer.set_after(interval);
        }
        while Pin::new(&mut self.timer).poll(cx).is_ready() {
            is_same = self.seen.replace(runs) == Some(runs);
            self.timer.set_after(interval);
        }
        is_same
    }
}

impl Future for Background {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (before, is_checked, runs, interval) = {
            let mut state = lock(&self.tasks.0);
            let before = state.background.replace(cx.waker().clone());
            (before, state.is_checked, state.runs, state.interval)
        };
        drop(before);
        let is_same = is_checked && self.poll_timer(runs, interval, cx);
        let tasks = self.tasks.clone();
        let mut late = BTreeMap::new();
        let run = {
            let mut state = lock(&tasks.0);
            if state.live == 0 {
                (state.has_background, state.is_checked) = (false, false);
                let own = state.background.take();
                drop(state);
                drop(own);
                return Poll::Ready(());
            }
            let is_late = is_same && state.runs == runs;
            if is_late && (state.is_running || state.ready.is_empty()) {
                state.is_checked = false;
                self.seen = None;
            }
            if is_late && matches!(state.woken, Some(Runner::Caller(_))) {
                // Others may wait on the same thread. They are callers again once they are polled.
                late = mem::take(&mut state.callers);
            }
            let is_next = state.woken == Some(Runner::Background) || is_late && state.woken.is_some();
            is_next.then(|| tasks.begin(state))
        };
        drop(late);
        if self.seen.is_none() {
            self.timer = Timer::never();
        }
        if let Some(run) = run {
            run.run_ready();
        }
        Poll::Pending
    }
}
