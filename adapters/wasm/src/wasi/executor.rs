//! The executor of the one thread: tasks, timers, and descriptors to wait for.

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use async_task::{Runnable, Task};
use mcp_service::driver_api::on_block;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::AsFd,
    io::Errno,
};

/// The most tasks that run before descriptors and timers are looked at.
const BATCH: usize = 64;

/// The number of turns with ready tasks before descriptors are looked at.
const TURNS: usize = 16;

/// The time that looking at descriptors takes at most while tasks are ready. It is not zero, because the host in
/// Node.js returns no events then.
const GLANCE: Duration = Duration::from_millis(1);

/// The most functions that wait at the same time. Each one has the stack of the next one above its own, and the stack
/// of a program has 1 MiB. Further functions begin when one of these has ended.
const MAX_WAITING: usize = 16;

thread_local! {
    static CURRENT: Arc<Executor> = {
        let executor = Arc::<Executor>::default();
        let here = executor.clone();
        // There is no other thread that could do the work while a function waits.
        on_block(move |thread| {
            here.lock().waiting += 1;
            while !thread.is_notified() {
                here.turn(|| thread.is_notified());
            }
            here.lock().waiting -= 1;
        });
        executor
    };
}

/// A descriptor that can be waited for.
pub(super) type SharedFd = Arc<dyn AsFd + Send + Sync>;

/// The tasks of a thread, and what they wait for.
#[derive(Default)]
pub(super) struct Executor(Mutex<State>);

#[derive(Default)]
struct State {
    ready: VecDeque<Runnable>,
    /// The functions that have not begun.
    functions: VecDeque<Box<dyn FnOnce() + Send>>,
    /// The number of functions that wait.
    waiting: usize,
    /// The number of turns since descriptors were looked at.
    turns: usize,
    /// The wakers by deadline and number.
    timers: BTreeMap<(Instant, u64), Waker>,
    waits: BTreeMap<u64, Wait>,
    /// The number of the next timer or wait.
    next: u64,
}

/// A task that waits for a descriptor.
struct Wait {
    fd: SharedFd,
    events: PollFlags,
    waker: Waker,
}

/// An entry of a timer. Dropping it removes the timer.
pub(super) struct TimerEntry {
    executor: Weak<Executor>,
    key: (Instant, u64),
}

/// An entry of a descriptor. Dropping it ends the wait.
pub(super) struct WaitEntry {
    executor: Weak<Executor>,
    key: u64,
}

/// Runs a future on this thread, with all tasks that it starts. They go on when another future is run.
///
/// # Panics
/// If the future is pending, but no task, no timer and no descriptor could ever wake it. On systems with threads, a
/// wake-up by another thread may be noticed late.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// Notes that the future was woken.
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let executor = Executor::current();
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(woken.clone());
    let mut future = pin!(future);
    loop {
        if woken.0.swap(false, Ordering::Relaxed)
            && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return value;
        }
        executor.turn(|| woken.0.load(Ordering::Relaxed));
    }
}

impl Executor {
    /// Returns the executor of this thread.
    pub(super) fn current() -> Arc<Self> {
        CURRENT.with(Clone::clone)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a future as a task, which begins in the next [turn](Self::turn).
    pub(super) fn spawn(self: &Arc<Self>, future: impl Future<Output = ()> + Send + 'static) -> Task<()> {
        let executor = Arc::downgrade(self);
        let schedule = move |runnable| {
            if let Some(executor) = executor.upgrade() {
                executor.lock().ready.push_back(runnable);
            }
        };
        let (runnable, task) = async_task::spawn(future, schedule);
        runnable.schedule();
        task
    }

    /// Runs a function in a later [turn](Self::turn).
    pub(super) fn spawn_function(&self, f: impl FnOnce() + Send + 'static) {
        self.lock().functions.push_back(Box::new(f));
    }

    /// Wakes a task at a time.
    pub(super) fn set_timer(self: &Arc<Self>, at: Instant, waker: Waker) -> TimerEntry {
        let mut state = self.lock();
        let key = (at, state.number());
        state.timers.insert(key, waker);
        drop(state);
        TimerEntry { executor: Arc::downgrade(self), key }
    }

    /// Wakes a task when one of the events has happened on a descriptor.
    pub(super) fn set_wait(self: &Arc<Self>, fd: SharedFd, events: PollFlags, waker: Waker) -> WaitEntry {
        let mut state = self.lock();
        let key = state.number();
        state.waits.insert(key, Wait { fd, events, waker });
        drop(state);
        WaitEntry { executor: Arc::downgrade(self), key }
    }

    /// Runs some of the tasks that are ready and one function, and wakes other tasks. If nothing is ready, it waits for
    /// a timer or a descriptor, unless `is_woken` holds then.
    fn turn(&self, is_woken: impl Fn() -> bool) {
        for _ in 0..BATCH {
            let Some(runnable) = self.lock().ready.pop_front() else { break };
            runnable.run();
        }
        let function = self.lock().next_function();
        if let Some(function) = function {
            function();
        }
        self.fire_timers();
        let (fds, timeout) = {
            let mut state = self.lock();
            let is_idle = state.ready.is_empty() && !state.has_function() && !is_woken();
            state.turns += 1;
            if !is_idle && state.turns < TURNS {
                return;
            }
            state.turns = 0;
            let next = state.timers.first_key_value().map(|((at, _), _)| at.saturating_duration_since(Instant::now()));
            let timeout = if is_idle { next } else { Some(GLANCE) };
            let fds: Vec<_> = state.waits.iter().map(|(key, wait)| (*key, wait.fd.clone(), wait.events)).collect();
            (fds, timeout)
        };
        if !fds.is_empty() {
            self.wait_for(fds, timeout);
        } else if timeout != Some(GLANCE) {
            thread::sleep(timeout.expect("a future is pending that nothing can wake"));
        }
        self.fire_timers();
    }

    /// Waits until one of the descriptors has an event or `timeout` has passed, and wakes the task of the descriptor.
    ///
    /// One descriptor is polled at a time: the host in Node.js waits for the events of all that it is asked for. So a
    /// wait for several polls each in turn. That lasts only while the client does not read the output.
    fn wait_for(&self, mut fds: Vec<(u64, SharedFd, PollFlags)>, timeout: Option<Duration>) {
        if let [fd] = &fds[..] {
            self.poll(fd, timeout);
            return;
        }
        // Output first: in most cases it can be written.
        fds.sort_by_key(|(_, _, events)| !events.contains(PollFlags::OUT));
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let mut is_ready = false;
            for fd in &fds {
                // Input is looked at also while output can be written: it may hold a cancellation.
                is_ready |= self.poll(fd, Some(if is_ready { Duration::ZERO } else { GLANCE }));
            }
            if is_ready || end.is_some_and(|end| end <= Instant::now()) {
                return;
            }
        }
    }

    /// Waits for one descriptor. Returns whether its task was woken.
    fn poll(&self, (key, fd, events): &(u64, SharedFd, PollFlags), timeout: Option<Duration>) -> bool {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // After an error, such as that of a file, the task tries its operation.
        let is_ready = match poll(&mut [PollFd::new(fd, *events)], timeout.as_ref()) {
            Ok(count) => count > 0,
            Err(error) => error != Errno::INTR,
        };
        let wait = if is_ready { self.lock().waits.remove(key) } else { None };
        if let Some(wait) = wait {
            wait.waker.wake();
        }
        is_ready
    }

    fn fire_timers(&self) {
        let now = Instant::now();
        loop {
            let mut state = self.lock();
            let Some(first) = state.timers.first_entry().filter(|first| first.key().0 <= now) else { return };
            let waker = first.remove();
            drop(state);
            waker.wake();
        }
    }
}

impl State {
    /// Returns whether a function can begin.
    fn has_function(&self) -> bool {
        self.waiting < MAX_WAITING && !self.functions.is_empty()
    }

    fn next_function(&mut self) -> Option<Box<dyn FnOnce() + Send>> {
        if self.has_function() { self.functions.pop_front() } else { None }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl TimerEntry {
    /// Returns the deadline.
    pub(super) const fn at(&self) -> Instant {
        self.key.0
    }

    /// Exchanges the waker. Returns false if the timer has fired.
    pub(super) fn set_waker(&self, waker: &Waker) -> bool {
        let Some(executor) = self.executor.upgrade() else { return false };
        let mut state = executor.lock();
        let Some(entry) = state.timers.get_mut(&self.key) else { return false };
        let before = std::mem::replace(entry, waker.clone());
        drop(state);
        // Not under the lock: dropping a waker may drop its task.
        drop(before);
        true
    }
}

impl WaitEntry {
    /// Exchanges the waker. Returns false if an event has happened.
    pub(super) fn set_waker(&self, waker: &Waker) -> bool {
        let Some(executor) = self.executor.upgrade() else { return false };
        let mut state = executor.lock();
        let Some(wait) = state.waits.get_mut(&self.key) else { return false };
        let before = std::mem::replace(&mut wait.waker, waker.clone());
        drop(state);
        drop(before);
        true
    }
}

impl Drop for TimerEntry {
    fn drop(&mut self) {
        if let Some(executor) = self.executor.upgrade() {
            let waker = executor.lock().timers.remove(&self.key);
            drop(waker);
        }
    }
}

impl Drop for WaitEntry {
    fn drop(&mut self) {
        if let Some(executor) = self.executor.upgrade() {
            let wait = executor.lock().waits.remove(&self.key);
            drop(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wasi::Wasi;
    use mcp_driver::{HandlerScope, Runtime, Timer};
    use mcp_service::Deferred;
    use std::{
        future::{pending, poll_fn, ready},
        sync::{atomic::AtomicUsize, mpsc},
    };

    fn runtime() -> Wasi {
        Wasi::current().expect("an executor")
    }

    async fn sleep(time: Duration) {
        let (at, mut timer) = (Instant::now() + time, runtime().timer());
        poll_fn(|cx| timer.poll_until(at, cx)).await;
    }

    fn is_empty() -> bool {
        let executor = Executor::current();
        let state = executor.lock();
        state.ready.is_empty() && state.functions.is_empty() && state.timers.is_empty() && state.waits.is_empty()
    }

    #[test]
    fn tasks_run_side_by_side_in_the_order_of_their_timers() {
        let (sender, receiver) = mpsc::channel();
        let begin = Instant::now();
        block_on(async {
            for n in [40, 20, 30] {
                let sender = sender.clone();
                let task = runtime().spawn(async move {
                    sleep(Duration::from_millis(n)).await;
                    sender.send(n).expect("a receiver");
                });
                Wasi::detach(task);
            }
            // A slow thread may find several timers due at once.
            sleep(Duration::from_millis(60)).await;
            sleep(Duration::from_millis(1)).await;
        });
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [20, 30, 40]);
        assert!(begin.elapsed() >= Duration::from_millis(60));
        assert!(is_empty());
    }

    #[test]
    fn dropped_task_ends_and_leaves_no_timer() {
        block_on(async {
            let task = runtime().spawn(sleep(Duration::from_secs(1000)));
            sleep(Duration::from_millis(1)).await;
            assert!(!is_empty());
            drop(task);
            sleep(Duration::from_millis(1)).await;
            assert!(is_empty());
        });
    }

    #[test]
    fn later_deadline_replaces_the_earlier_one() {
        block_on(async {
            let (now, mut timer) = (Instant::now(), runtime().timer());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(timer.poll_until(now + Duration::from_secs(1000), &mut cx).is_pending());
            assert!(timer.poll_until(now + Duration::from_secs(2000), &mut cx).is_pending());
            assert_eq!(Executor::current().lock().timers.len(), 1);
            assert!(timer.poll_until(now, &mut cx).is_ready());
            drop(timer);
            assert!(is_empty());
        });
    }

    #[test]
    fn tasks_run_while_a_handler_waits() {
        let (sender, receiver) = mpsc::channel();
        block_on(async {
            for (n, time) in [(1, 40), (2, 20)] {
                let (sender, scope) = (sender.clone(), HandlerScope::default());
                runtime().spawn_blocking(move || {
                    scope.run(|| Deferred::new(sleep(Duration::from_millis(time))).wait());
                    sender.send(n).expect("a receiver");
                });
            }
            sleep(Duration::from_millis(1)).await;
        });
        // The second one waits on the stack of the first one.
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2, 1]);
        assert!(is_empty());
    }

    #[test]
    fn further_functions_begin_when_others_have_ended() {
        let (running, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let ended = Arc::<AtomicUsize>::default();
        block_on(async {
            for _ in 0..2 * MAX_WAITING {
                let (running, most, ended) = (running.clone(), most.clone(), ended.clone());
                let scope = HandlerScope::default();
                runtime().spawn_blocking(move || {
                    most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    scope.run(|| Deferred::new(sleep(Duration::from_millis(10))).wait());
                    running.fetch_sub(1, Ordering::Relaxed);
                    ended.fetch_add(1, Ordering::Relaxed);
                });
            }
            while ended.load(Ordering::Relaxed) < 2 * MAX_WAITING {
                sleep(Duration::from_millis(1)).await;
            }
        });
        assert_eq!(most.load(Ordering::Relaxed), MAX_WAITING);
    }

    #[test]
    #[should_panic(expected = "nothing can wake")]
    fn future_that_waits_for_nothing_is_a_panic() {
        block_on(pending::<()>());
    }

    #[test]
    fn ready_future_waits_for_nothing() {
        assert_eq!(block_on(ready(1)), 1);
    }
}
