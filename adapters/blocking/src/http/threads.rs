//! Threads as a runtime: a few that poll tasks, one for each function that may block, and one that keeps the time. Each of
//! them is there while it is needed, and leaves soon after. A thread that has come for a connection stays with it.
//!
//! It runs the functions that come of what is asked there, since most are done before another thread would have woken up. The
//! one that keeps the time [looks](Pool::look) whether one of them takes longer, and has another thread stay with the connection
//! then: it is to be seen that a client hangs up, and what a function has to say meanwhile is to leave.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Waker,
    thread,
    time::{Duration, Instant},
};

use mcp_driver::Runtime;

use super::{
    line::Line,
    task::{Alarm, Running, Task, keep_function},
};
use mcp_driver::unix::thread::{lock, spawn, wait, wait_for};

/// How long a thread without work stays.
const KEEP: Duration = Duration::from_secs(10);

/// How long a function may take on the thread of a connection before another thread stays with that, and how long a task may
/// wait for those who poll others before somebody else comes for it (one that blocks should not be there, and holds up nobody if
/// it is). It is looked so often, so it can be twice as long.
const PATIENCE: Duration = Duration::from_millis(1);

/// How many functions run at once beside those that connections have just begun. Those of one session are bounded by its options,
/// these are bounded for all of them.
const FUNCTIONS: usize = 512;

/// The threads that something runs on that waits for many things. They leave when the last clone of this is dropped and all
/// that they had to do is done.
#[derive(Clone)]
pub struct Threads(Arc<Owner>);

struct Owner(Arc<Pool>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What the threads know of each other.
pub(super) struct Pool {
    state: Mutex<State>,
    work: Condvar,
    clock: Condvar,
    left: Condvar,
    /// How many poll tasks, unless those take long.
    pollers: usize,
    /// Threads that are in a function, and in nothing else. It changes under the lock.
    blocked: AtomicUsize,
    /// It is looked how long functions and those who wait for a thread take.
    watches: AtomicBool,
}

pub(super) type Function = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    tasks: VecDeque<Arc<Task>>,
    functions: VecDeque<Function>,
    /// How many were taken out of there, and how many by the last look.
    taken: u64,
    taken_before: u64,
    /// Connections, and how many functions had begun and ended there when it was last looked, and when that is done next.
    connections: Vec<(Arc<Task>, Arc<Line>, u64)>,
    next_look: Option<Instant>,
    /// Threads that stay with one.
    staying: usize,
    /// Threads that work, or wait for work.
    alive: usize,
    idle: usize,
    /// Those of them that were called and have not come yet.
    called: usize,
    timers: BTreeMap<(Instant, u64), Waker>,
    timers_set: u64,
    /// Somebody keeps the time.
    has_keeper: bool,
    closed: bool,
}

enum Work {
    Task(Arc<Task>),
    Function(Function),
}

impl Threads {
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.0.0
    }

    /// Has a thread stay with a connection, as soon as there is one, and serve it.
    pub(super) fn stay(&self, line: &Arc<Line>, serving: impl Future<Output = ()> + Send + 'static) {
        let task = Task::new(self.pool(), Some(line.clone()), serving);
        lock(&self.pool().state).connections.push((task.clone(), line.clone(), 0));
        self.pool().push(task);
    }

    /// Has nobody wait for the next request of a client any more.
    pub(super) fn call_off(&self) {
        lock(&self.pool().state).connections.iter().for_each(|(_, line, _)| line.call_off());
    }

    /// Ends all connections.
    pub(super) fn hang_up(&self) {
        let connections: Vec<_> = lock(&self.pool().state).connections.iter().map(|(task, ..)| task.clone()).collect();
        connections.iter().for_each(Task::cancel);
        self.call_off();
    }

    /// Waits until fewer connections than that are served, but no longer than `patience`; whether they are.
    pub(super) fn wait_for_fewer(&self, connections: usize, patience: Duration) -> bool {
        self.pool().wait_until(patience, |state| state.connections.len() < connections)
    }

    /// Waits until all threads have left, but no longer than `patience`: what they have to do is theirs.
    pub(crate) fn leave(self, patience: Duration) {
        let pool = self.pool().clone();
        drop(self);
        pool.close();
        pool.wait_until(patience, |state| state.alive == 0 && !state.has_keeper);
    }
}

impl Pool {
    fn close(&self) {
        lock(&self.state).closed = true;
        self.work.notify_all();
        self.clock.notify_all();
    }

    fn wait_until(&self, patience: Duration, condition: impl Fn(&State) -> bool) -> bool {
        let until = Instant::now() + patience;
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

    /// Has a task polled.
    pub(super) fn push(self: &Arc<Self>, task: Arc<Task>) {
        self.queue(&mut lock(&self.state), task);
    }

    fn queue(self: &Arc<Self>, state: &mut State, task: Arc<Task>) {
        let polls = state.alive - self.blocked() - state.staying - state.idle;
        let is_staying = task.line.is_some();
        state.tasks.push_back(task);
        let heard = self.call(state) || (is_staying || polls < self.pollers) && self.hire(state);
        self.look_after(state, heard);
    }

    fn push_function(self: &Arc<Self>, function: Function) {
        let mut state = lock(&self.state);
        state.functions.push_back(function);
        let heard = !self.has_place() || self.call(&mut state) || self.hire(&mut state);
        self.look_after(&mut state, heard);
    }

    fn blocked(&self) -> usize {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Whether another function may run.
    pub(super) fn has_place(&self) -> bool {
        self.blocked() < FUNCTIONS
    }

    /// Has somebody look again if nobody comes for what was queued.
    fn look_after(self: &Arc<Self>, state: &mut State, heard: bool) {
        if !heard && !self.watches.swap(true, Ordering::SeqCst) {
            let _ = self.keep_time(state);
        }
    }

    /// Calls somebody who sleeps; whether there is somebody.
    fn call(&self, state: &mut State) -> bool {
        let sleeps = state.idle > state.called;
        if sleeps {
            state.called += 1;
            self.work.notify_one();
        }
        sleeps
    }

    /// Starts another thread; whether the system has one.
    fn hire(self: &Arc<Self>, state: &mut State) -> bool {
        let pool = self.clone();
        let hired = spawn("mcp-http", move || pool.work()).is_ok();
        state.alive += usize::from(hired);
        hired
    }

    fn work(self: Arc<Self>) {
        let mut state = lock(&self.state);
        loop {
            match self.next(&mut state) {
                Some(Work::Task(task)) => state = self.see_to(task, state),
                Some(Work::Function(function)) => {
                    self.blocked.fetch_add(1, Ordering::Relaxed);
                    drop(state);
                    // A panic is its own affair, and not to take the thread with it.
                    let _ = catch_unwind(AssertUnwindSafe(function));
                    state = lock(&self.state);
                    self.blocked.fetch_sub(1, Ordering::Relaxed);
                }
                None if state.closed => break,
                None => {
                    let timed_out;
                    state.idle += 1;
                    (state, timed_out) = wait_for(&self.work, state, KEEP);
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

    /// Polls a task, or stays with the connection that it serves.
    fn see_to<'a>(self: &'a Arc<Self>, task: Arc<Task>, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(line) = &task.line else {
            drop(state);
            task.run();
            return lock(&self.state);
        };
        state.staying += 1;
        // This one will not come for what else there is.
        let heard = !self.has_next(&state) || self.call(&mut state) || self.hire(&mut state);
        self.look_after(&mut state, heard);
        drop(state);
        let is_over = task.serve(line);
        state = lock(&self.state);
        if is_over {
            state.staying -= 1;
            state.connections.retain(|(other, ..)| !Arc::ptr_eq(other, &task));
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

    /// A function has begun on the thread of a connection: somebody is to look how long it takes.
    pub(super) fn have_watched(self: &Arc<Self>) {
        if !self.watches.load(Ordering::SeqCst) {
            self.look_after(&mut lock(&self.state), false);
        }
    }

    /// Has other threads stay with the connections whose own are in functions that take long, and finds somebody for what nobody
    /// has come for. When to look again.
    fn look(self: &Arc<Self>, state: &mut State, now: Instant) -> Option<Instant> {
        if !self.watches.load(Ordering::SeqCst) {
            return None;
        }
        if let Some(next) = state.next_look.filter(|next| *next > now) {
            return Some(next);
        }
        let (mut goes_on, mut slow) = (false, Vec::new());
        for (task, line, seen) in &mut state.connections {
            let (steps, before) = (line.steps(), *seen);
            *seen = steps;
            goes_on |= runs(steps) || steps != before;
            if runs(steps) && steps == before && line.step_on(steps) {
                slow.push(task.clone());
            }
        }
        for task in slow {
            state.staying -= 1;
            self.blocked.fetch_add(1, Ordering::Relaxed);
            self.queue(state, task);
        }
        if self.has_next(state) {
            goes_on = true;
            let is_stuck = state.taken == state.taken_before && state.alive - state.staying < FUNCTIONS + self.pollers;
            // Without a thread to be had it is tried again.
            let _ = is_stuck && (self.call(state) || self.hire(state));
        }
        state.taken_before = state.taken;
        if !goes_on {
            self.watches.store(false, Ordering::SeqCst);
            // Whoever has begun before that has relied on it; whoever begins after it says so.
            goes_on = state.connections.iter().any(|(_, line, _)| runs(line.steps()));
            self.watches.fetch_or(goes_on, Ordering::SeqCst);
        }
        state.next_look = goes_on.then_some(now + PATIENCE);
        state.next_look
    }

    /// Sees to it that somebody keeps the time, from now on or again.
    fn keep_time(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        self.clock.notify_one();
        if !state.has_keeper {
            let pool = self.clone();
            spawn("mcp-clock", move || pool.keep())?;
            state.has_keeper = true;
        }
        Ok(())
    }

    fn keep(self: Arc<Self>) {
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
            let look = self.look(&mut state, now);
            let next = state.timers.first_key_value().map(|((at, _), _)| *at);
            state = match [look, next].into_iter().flatten().min() {
                Some(at) => wait_for(&self.clock, state, at.saturating_duration_since(now)).0,
                None if state.closed => break,
                None => wait(&self.clock, state),
            };
        }
        state.has_keeper = false;
        self.left.notify_all();
    }

    pub(super) fn set(self: &Arc<Self>, at: Instant, waker: Waker) -> u64 {
        let mut state = lock(&self.state);
        state.timers_set += 1;
        let key = (at, state.timers_set);
        state.timers.insert(key, waker);
        if state.timers.first_key_value().is_some_and(|(first, _)| *first == key) {
            let _ = self.keep_time(&mut state);
        }
        key.1
    }

    pub(super) fn unset(&self, key: (Instant, u64)) {
        let before = lock(&self.state).timers.remove(&key);
        // It may be the last of a task.
        drop(before);
    }
}

/// Whether a function runs on the thread of a connection, after so many have begun and ended there.
const fn runs(steps: u64) -> bool {
    steps % 2 == 1
}

impl Runtime for Threads {
    type Task = Running;
    type Timer = Alarm;

    /// Threads of one's own, of which there is one that keeps the time.
    fn current() -> io::Result<Self> {
        let pool = Arc::new(Pool {
            state: Mutex::default(),
            work: Condvar::new(),
            clock: Condvar::new(),
            left: Condvar::new(),
            pollers: thread::available_parallelism().map_or(2, |count| count.get().max(2)),
            blocked: AtomicUsize::new(0),
            watches: AtomicBool::new(false),
        });
        pool.keep_time(&mut lock(&pool.state))?;
        Ok(Self(Arc::new(Owner(pool))))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Running {
        let task = Task::new(self.pool(), None, future);
        task.schedule();
        Running(Some(task))
    }

    fn detach(mut task: Running) {
        task.0 = None;
    }

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        if let Err(function) = keep_function(self.pool(), Box::new(f)) {
            self.pool().push_function(function);
        }
    }

    fn timer(&self) -> Alarm {
        Alarm::new(self.pool().clone())
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.pool().state);
        f.debug_struct("Threads")
            .field("alive", &state.alive)
            .field("blocked", &self.pool().blocked())
            .finish_non_exhaustive()
    }
}
