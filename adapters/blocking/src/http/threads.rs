//! Threads as a runtime: a few that poll tasks, one for each function that may block, and one that keeps the time. Each of
//! them is there while it is needed, and leaves soon after.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    future::Future,
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mcp_service::drive::{Runtime, Timer};

use super::task::Task;
use crate::threads::{lock, spawn, wait, wait_for};

/// How long a thread without work stays.
const KEEP: Duration = Duration::from_secs(10);

/// How long a task may wait for those who poll others before somebody else comes for it. A task that blocks should not be
/// there, and holds up nobody if it is.
const PATIENCE: Duration = Duration::from_millis(5);

/// How many functions run at once. Those of one session are bounded by its options, these are bounded for all of them.
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
}

type Function = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    tasks: VecDeque<Arc<Task>>,
    functions: VecDeque<Function>,
    /// How many were taken out of there.
    taken: u64,
    /// Threads that are in a function.
    blocked: usize,
    /// Threads that work, or wait for work.
    alive: usize,
    idle: usize,
    /// Those of them that were called and have not come yet.
    called: usize,
    timers: BTreeMap<(Instant, u64), Waker>,
    timers_set: u64,
    /// Somebody keeps the time.
    has_keeper: bool,
    /// Something was queued and nobody was called for it: since when, and how many had been taken by then.
    unheard: Option<(Instant, u64)>,
    closed: bool,
    threads: Vec<JoinHandle<()>>,
}

enum Work {
    Task(Arc<Task>),
    Function(Function),
}

impl Threads {
    /// A runtime with a thread that keeps the time.
    ///
    /// # Errors
    /// If the system has no threads left.
    pub(crate) fn new() -> io::Result<Self> {
        let pool = Arc::new(Pool {
            state: Mutex::default(),
            work: Condvar::new(),
            clock: Condvar::new(),
            left: Condvar::new(),
            pollers: thread::available_parallelism().map_or(2, |count| count.get().max(2)),
        });
        pool.keep_time(&mut lock(&pool.state))?;
        Ok(Self(Arc::new(Owner(pool))))
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.0.0
    }

    /// Waits until all threads have left, but no longer than `patience`: what they have to do is theirs.
    pub(crate) fn leave(self, patience: Duration) {
        let pool = self.pool().clone();
        drop(self);
        pool.close();
        pool.join(patience);
    }
}

impl Pool {
    fn close(&self) {
        lock(&self.state).closed = true;
        self.work.notify_all();
        self.clock.notify_all();
    }

    fn join(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut state = lock(&self.state);
        while state.alive > 0 || state.has_keeper {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (state, _) = wait_for(&self.left, state, left);
        }
        let all_left = state.alive == 0 && !state.has_keeper;
        let threads = mem::take(&mut state.threads);
        drop(state);
        for thread in threads {
            // Its last words are spoken, unless it is this one.
            if thread.thread().id() != thread::current().id() && (all_left || thread.is_finished()) {
                let _ = thread.join();
            }
        }
    }

    /// Has a task polled.
    pub(super) fn push(self: &Arc<Self>, task: Arc<Task>) {
        let mut state = lock(&self.state);
        state.tasks.push_back(task);
        let polls = state.alive - state.blocked - state.idle;
        let heard = self.call(&mut state) || polls < self.pollers && self.hire(&mut state);
        self.look_after(&mut state, heard);
    }

    fn push_function(self: &Arc<Self>, function: Function) {
        let mut state = lock(&self.state);
        state.functions.push_back(function);
        let heard = state.blocked >= FUNCTIONS || self.call(&mut state) || self.hire(&mut state);
        self.look_after(&mut state, heard);
    }

    /// Has somebody look again if nobody comes for what was queued.
    fn look_after(self: &Arc<Self>, state: &mut State, heard: bool) {
        if !heard && state.unheard.is_none() {
            state.unheard = Some((Instant::now(), state.taken));
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
        let hired = spawn("mcp-http", move || pool.work()).is_ok_and(|thread| state.register(thread));
        state.alive += usize::from(hired);
        hired
    }

    fn work(self: Arc<Self>) {
        let mut state = lock(&self.state);
        loop {
            match state.next() {
                Some(Work::Task(task)) => {
                    drop(state);
                    task.run();
                    state = lock(&self.state);
                }
                Some(Work::Function(function)) => {
                    state.blocked += 1;
                    drop(state);
                    // A panic is its own affair, and not to take the thread with it.
                    let _ = catch_unwind(AssertUnwindSafe(function));
                    state = lock(&self.state);
                    state.blocked -= 1;
                }
                None if state.closed => break,
                None => {
                    let timed_out;
                    state.idle += 1;
                    (state, timed_out) = wait_for(&self.work, state, KEEP);
                    state.idle -= 1;
                    state.called = state.called.saturating_sub(1);
                    if timed_out && !state.has_next() {
                        break;
                    }
                }
            }
        }
        state.alive -= 1;
        self.left.notify_all();
    }

    /// Sees to it that somebody keeps the time, from now on or again.
    fn keep_time(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        self.clock.notify_one();
        if !state.has_keeper {
            let pool = self.clone();
            let thread = spawn("mcp-clock", move || pool.keep())?;
            state.has_keeper = state.register(thread);
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
            let heard = self.listen(&mut state, now);
            let next = state.timers.first_key_value().map(|((at, _), _)| *at);
            state = match [heard, next].into_iter().flatten().min() {
                Some(at) => wait_for(&self.clock, state, at.saturating_duration_since(now)).0,
                None if state.closed => break,
                None => wait(&self.clock, state),
            };
        }
        state.has_keeper = false;
        self.left.notify_all();
    }

    /// Finds somebody for tasks that nobody has come for. When to look again.
    fn listen(self: &Arc<Self>, state: &mut MutexGuard<'_, State>, now: Instant) -> Option<Instant> {
        let (since, taken) = state.unheard?;
        if !state.has_next() {
            state.unheard = None;
            return None;
        }
        if since + PATIENCE > now {
            return Some(since + PATIENCE);
        }
        if taken == state.taken && !self.call(state) && state.alive < FUNCTIONS + self.pollers {
            // Without a thread to be had it is tried again.
            self.hire(state);
        }
        state.unheard = Some((now, state.taken));
        Some(now + PATIENCE)
    }

    fn set(self: &Arc<Self>, at: Instant, waker: Waker) -> u64 {
        let mut state = lock(&self.state);
        state.timers_set += 1;
        let key = (at, state.timers_set);
        state.timers.insert(key, waker);
        if state.timers.first_key_value().is_some_and(|(first, _)| *first == key) {
            let _ = self.keep_time(&mut state);
        }
        key.1
    }

    fn unset(&self, key: (Instant, u64)) {
        let before = lock(&self.state).timers.remove(&key);
        // It may be the last of a task.
        drop(before);
    }
}

impl State {
    fn has_next(&self) -> bool {
        !self.tasks.is_empty() || self.blocked < FUNCTIONS && !self.functions.is_empty()
    }

    fn next(&mut self) -> Option<Work> {
        if !self.has_next() {
            return None;
        }
        self.taken += 1;
        self.tasks.pop_front().map(Work::Task).or_else(|| self.functions.pop_front().map(Work::Function))
    }

    fn register(&mut self, thread: JoinHandle<()>) -> bool {
        self.threads.retain(|thread| !thread.is_finished());
        self.threads.push(thread);
        true
    }
}

impl Runtime for Threads {
    type Task = Running;
    type Timer = Alarm;

    fn current() -> io::Result<Self> {
        Self::new()
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Running {
        let task = Task::new(self.pool(), future);
        task.schedule();
        Running(Some(task))
    }

    fn detach(mut task: Running) {
        task.0 = None;
    }

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        self.pool().push_function(Box::new(f));
    }

    fn timer(&self) -> Alarm {
        Alarm { pool: self.pool().clone(), set: None }
    }
}

/// A task that ends when this is dropped.
pub struct Running(Option<Arc<Task>>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.cancel();
        }
    }
}

/// A timer that is set once it is needed.
pub struct Alarm {
    pool: Arc<Pool>,
    set: Option<Set>,
}

struct Set {
    key: (Instant, u64),
    waker: Waker,
}

impl Alarm {
    fn unset(&mut self) {
        if let Some(set) = self.set.take() {
            self.pool.unset(set.key);
        }
    }
}

impl Timer for Alarm {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if at <= now {
            self.unset();
            return Poll::Ready(());
        }
        // Deadlines mostly move away while a timer runs: it is set anew when it has run out too early.
        let is_set = |set: &Set| set.key.0 > now && set.key.0 <= at && set.waker.will_wake(cx.waker());
        if !self.set.as_ref().is_some_and(is_set) {
            self.unset();
            let waker = cx.waker().clone();
            self.set = Some(Set { key: (at, self.pool.set(at, waker.clone())), waker });
        }
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.unset();
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.pool().state);
        f.debug_struct("Threads").field("alive", &state.alive).field("blocked", &state.blocked).finish_non_exhaustive()
    }
}
