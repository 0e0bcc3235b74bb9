//! The threads that poll tasks and run functions.

use std::{
    collections::{BTreeMap, VecDeque},
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Waker,
    thread,
    time::{Duration, Instant},
};

use mcp_driver::{
    on_block,
    os::thread::{lock, spawn, wait, wait_for},
};

use super::{
    connection_io::{ConnectionIo, Function},
    task::{Task, hand_over_woken},
};

/// The time after which an idle thread ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time of a function on the thread of a connection after which another thread takes over the connection, and the
/// time of a task in the queue after which another thread runs it. (A task should not block. If it does, it delays no
/// other task.) It is checked at this interval, so it can take twice as long.
const TAKE_OVER_AFTER: Duration = Duration::from_millis(1);

/// The number of functions that run at once, without functions that began on the thread of a connection and were not
/// taken over. `DriverOptions::functions` bounds those of one endpoint; this bounds those of all endpoints.
const FUNCTIONS: usize = 512;

/// The shared state of the threads.
pub(super) struct Pool {
    pub(super) state: Mutex<State>,
    work: Condvar,
    clock: Condvar,
    left: Condvar,
    /// The number of threads that poll tasks, unless the tasks are slow.
    pollers: usize,
    /// The number of threads that only run a function, and do not serve a connection. It changes under the lock.
    blocked: AtomicUsize,
    /// Set while the timer thread checks how long functions and queued tasks take.
    watches: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    tasks: VecDeque<Arc<Task>>,
    functions: VecDeque<Function>,
    /// The number of tasks and functions that were taken from the queues. `taken_before` is the number at the last
    /// check.
    taken: u64,
    taken_before: u64,
    pub(super) connections: Vec<ServedConnection>,
    /// The time of the next check of the connections.
    next_check: Option<Instant>,
    /// The number of threads that serve a connection.
    serving: usize,
    /// The number of threads that work or wait for work.
    pub(super) alive: usize,
    idle: usize,
    /// The number of idle threads that were notified and have not woken up yet.
    called: usize,
    timers: BTreeMap<(Instant, u64), Waker>,
    timers_set: u64,
    /// The time until which the timer thread sleeps, if it does and has one.
    timers_sleep_until: Option<Instant>,
    /// Set while a thread runs the timers.
    pub(super) has_timer_thread: bool,
    closed: bool,
}

/// A connection that a task serves.
pub(super) struct ServedConnection {
    pub(super) task: Arc<Task>,
    pub(super) io: Arc<ConnectionIo>,
    /// The epoch at the last check.
    pub(super) checked: u64,
}

enum Work {
    Task(Arc<Task>),
    Function(Function),
}

impl Pool {
    /// Creates a pool without threads.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            work: Condvar::new(),
            clock: Condvar::new(),
            left: Condvar::new(),
            pollers: thread::available_parallelism().map_or(2, |count| count.get().max(2)),
            blocked: AtomicUsize::new(0),
            watches: AtomicBool::new(false),
        })
    }

    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.work.notify_all();
        self.clock.notify_all();
    }

    pub(super) fn wait_until(&self, timeout: Duration, condition: impl Fn(&State) -> bool) -> bool {
        let until = Instant::now() + timeout;
        let mut state = lock(&self.state);
        while !condition(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (state, _) = wait_for(&self.left, state, left);
        }
        true
    }

    /// Queues a task to be polled.
    pub(super) fn push(self: &Arc<Self>, task: Arc<Task>) {
        self.queue(&mut lock(&self.state), task);
    }

    fn queue(self: &Arc<Self>, state: &mut State, task: Arc<Task>) {
        let polls = state.alive - self.blocked() - state.serving - state.idle;
        let is_serving = task.conn.is_some();
        state.tasks.push_back(task);
        let notified = self.notify(state) || (is_serving || polls < self.pollers) && self.spawn_worker(state);
        self.watch(state, notified);
    }

    /// Queues a task that a function on the thread of a connection has woken. That thread [takes it
    /// back](Self::take_back) after the function. If the function is slow, the timer thread notifies another one.
    pub(super) fn push_for_later(self: &Arc<Self>, task: Arc<Task>) {
        let mut state = lock(&self.state);
        state.tasks.push_back(task);
        self.watch(&mut state, false);
    }

    /// Takes a task back if it is still queued.
    pub(super) fn take_back(&self, task: &Arc<Task>) -> Option<Arc<Task>> {
        let queue = &mut lock(&self.state).tasks;
        // It is one of the last.
        let place = queue.iter().rposition(|queued| Arc::ptr_eq(queued, task))?;
        queue.remove(place)
    }

    /// Notifies or starts a thread for queued work.
    pub(super) fn notify_of_queued(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        let notified = !self.has_next(&state) || self.notify(&mut state) || self.spawn_worker(&mut state);
        self.watch(&mut state, notified);
    }

    pub(super) fn push_function(self: &Arc<Self>, function: Function) {
        let mut state = lock(&self.state);
        state.functions.push_back(function);
        let notified = !self.has_place() || self.notify(&mut state) || self.spawn_worker(&mut state);
        self.watch(&mut state, notified);
    }

    pub(super) fn blocked(&self) -> usize {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Returns whether another function may run.
    pub(super) fn has_place(&self) -> bool {
        self.blocked() < FUNCTIONS
    }

    /// Makes the timer thread check the progress of functions and queued work, unless a worker was notified or started.
    fn watch(self: &Arc<Self>, state: &mut State, notified: bool) {
        if !notified && !self.watches.swap(true, Ordering::SeqCst) {
            let _ = self.ensure_timer_thread(state);
        }
    }

    /// Notifies an idle thread. Returns whether there was one.
    fn notify(&self, state: &mut State) -> bool {
        let sleeps = state.idle > state.called;
        if sleeps {
            state.called += 1;
            self.work.notify_one();
        }
        sleeps
    }

    /// Starts another thread, and returns whether that succeeded.
    fn spawn_worker(self: &Arc<Self>, state: &mut State) -> bool {
        let pool = self.clone();
        let spawned = spawn("mcp-http", move || pool.work()).is_ok();
        state.alive += usize::from(spawned);
        spawned
    }

    fn work(self: Arc<Self>) {
        on_block(|_| hand_over_woken());
        let mut state = lock(&self.state);
        loop {
            match self.next(&mut state) {
                Some(Work::Task(task)) => state = self.run_task(task, state),
                Some(Work::Function(function)) => {
                    self.blocked.fetch_add(1, Ordering::Relaxed);
                    drop(state);
                    // A panic ends only this function, and not the thread.
                    let _ = catch_unwind(AssertUnwindSafe(function));
                    state = lock(&self.state);
                    self.blocked.fetch_sub(1, Ordering::Relaxed);
                }
                None if state.closed => break,
                None => {
                    let timed_out;
                    state.idle += 1;
                    (state, timed_out) = wait_for(&self.work, state, IDLE_TIMEOUT);
                    state.idle -= 1;
                    state.called = state.called.saturating_sub(1);
                    if timed_out && !self.has_next(&state) {
                        break;
                    }
                }
            }
        }
        state.alive -= 1;
        self.left.notify_all();
    }

    /// Polls a task, or serves its connection until the connection has ended or was taken over.
    fn run_task<'a>(self: &'a Arc<Self>, task: Arc<Task>, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(conn) = &task.conn else {
            drop(state);
            task.run();
            return lock(&self.state);
        };
        state.serving += 1;
        // This thread takes no queued work while it serves the connection.
        let notified = !self.has_next(&state) || self.notify(&mut state) || self.spawn_worker(&mut state);
        self.watch(&mut state, notified);
        drop(state);
        let is_over = task.serve(conn);
        state = lock(&self.state);
        if is_over {
            state.serving -= 1;
            state.connections.retain(|other| !Arc::ptr_eq(&other.task, &task));
            self.left.notify_all();
        } else {
            self.blocked.fetch_sub(1, Ordering::Relaxed);
        }
        state
    }

    fn has_next(&self, state: &State) -> bool {
        !state.tasks.is_empty() || self.has_place() && !state.functions.is_empty()
    }

    fn next(&self, state: &mut State) -> Option<Work> {
        if !self.has_next(state) {
            return None;
        }
        state.taken += 1;
        state.tasks.pop_front().map(Work::Task).or_else(|| state.functions.pop_front().map(Work::Function))
    }

    /// Makes the timer thread check how long a function takes that has begun on the thread of a connection.
    pub(super) fn watch_function(self: &Arc<Self>) {
        if !self.watches.load(Ordering::SeqCst) {
            self.watch(&mut lock(&self.state), false);
        }
    }

    /// Hands connections whose threads run slow functions over to other threads, and notifies or starts a thread for
    /// queued work that makes no progress. Returns the time of the next check.
    fn check_progress(self: &Arc<Self>, state: &mut State, now: Instant) -> Option<Instant> {
        if !self.watches.load(Ordering::SeqCst) {
            return None;
        }
        if let Some(next) = state.next_check.filter(|next| *next > now) {
            return Some(next);
        }
        let (mut goes_on, mut slow) = (false, Vec::new());
        for ServedConnection { task, io, checked } in &mut state.connections {
            let epoch = io.epoch();
            let before = mem::replace(checked, epoch);
            goes_on |= runs(epoch) || epoch != before;
            if runs(epoch) && epoch == before && io.take_over(epoch) {
                slow.push(task.clone());
            }
        }
        for task in slow {
            state.serving -= 1;
            self.blocked.fetch_add(1, Ordering::Relaxed);
            self.queue(state, task);
        }
        if self.has_next(state) {
            goes_on = true;
            let is_stuck = state.taken == state.taken_before && state.alive - state.serving < FUNCTIONS + self.pollers;
            // If no thread can be started, the next check tries again.
            let _ = is_stuck && (self.notify(state) || self.spawn_worker(state));
        }
        state.taken_before = state.taken;
        if !goes_on {
            self.watches.store(false, Ordering::SeqCst);
            // A function that began before the store relied on these checks; one that begins after it calls
            // `watch_function`.
            goes_on = state.connections.iter().any(|connection| runs(connection.io.epoch()));
            self.watches.fetch_or(goes_on, Ordering::SeqCst);
        }
        state.next_check = goes_on.then_some(now + TAKE_OVER_AFTER);
        state.next_check
    }

    /// Starts the thread that runs the timers, or wakes it so that it computes its next deadline again.
    pub(super) fn ensure_timer_thread(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        self.clock.notify_one();
        if !state.has_timer_thread {
            let pool = self.clone();
            spawn("mcp-http-timer", move || pool.run_timers())?;
            state.has_timer_thread = true;
        }
        Ok(())
    }

    fn run_timers(self: Arc<Self>) {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            let mut due = Vec::new();
            while let Some(timer) = state.timers.first_entry().filter(|timer| timer.key().0 <= now) {
                due.push(timer.remove());
            }
            if !due.is_empty() {
                drop(state);
                due.into_iter().for_each(Waker::wake);
                state = lock(&self.state);
                continue;
            }
            let look = self.check_progress(&mut state, now);
            let next = state.timers.first_key_value().map(|((at, _), _)| *at);
            let until = [look, next].into_iter().flatten().min();
            state.timers_sleep_until = until;
            state = match until {
                Some(at) => wait_for(&self.clock, state, at.saturating_duration_since(now)).0,
                None if state.closed => break,
                None => wait(&self.clock, state),
            };
            state.timers_sleep_until = None;
        }
        state.has_timer_thread = false;
        self.left.notify_all();
    }

    pub(super) fn add_timer(self: &Arc<Self>, at: Instant, waker: Waker) -> u64 {
        let mut state = lock(&self.state);
        state.timers_set += 1;
        let key = (at, state.timers_set);
        state.timers.insert(key, waker);
        // The timer thread often sleeps until the time of a timer that was removed, which is early enough.
        let is_first = state.timers.first_key_value().is_some_and(|(first, _)| *first == key);
        if is_first && state.timers_sleep_until.is_none_or(|until| at < until) {
            let _ = self.ensure_timer_thread(&mut state);
        }
        key.1
    }

    pub(super) fn remove_timer(&self, key: (Instant, u64)) {
        let before = lock(&self.state).timers.remove(&key);
        // Dropped outside of the lock, since it may hold the last reference to a task.
        drop(before);
    }
}

/// Returns whether a function runs on the thread of a connection with this epoch.
const fn runs(epoch: u64) -> bool {
    epoch % 2 == 1
}
