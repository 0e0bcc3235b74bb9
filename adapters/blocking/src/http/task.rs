//! Tasks that run on a pool of threads, and their timers.

use std::{
    cell::RefCell,
    future::Future,
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

use mcp_driver::Timer;

use super::{
    connection_io::{ConnectionIo, Function},
    pool::Pool,
};
use mcp_driver::os::thread::lock;

/// The task is pending and was not woken.
const PENDING: u8 = 0;
/// The task is queued for a thread.
const QUEUED: u8 = 1;
/// A thread polls the task, or is about to.
const POLLED: u8 = 2;
/// The task was woken while a thread polls it.
const WOKEN: u8 = 3;
/// The task has ended.
const DONE: u8 = 4;

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that runs on a pool of threads.
pub(super) struct Task {
    pool: Arc<Pool>,
    /// `None` once the task has ended. The lock is never contended: one thread at a time polls.
    future: Mutex<Option<BoxedFuture>>,
    state: AtomicU8,
    cancelled: AtomicBool,
    /// The connection that the task serves, if it serves one. One thread then runs the task and waits for the
    /// connection.
    pub(super) conn: Option<Arc<ConnectionIo>>,
}

/// The work of the thread of a connection. Most work of a request takes less time than a switch of threads.
struct LocalWork {
    pool: Arc<Pool>,
    waker: Waker,
    /// The tasks that were woken on this thread.
    tasks: Vec<Arc<Task>>,
    /// A function that may block. If it does, another thread takes the connection over.
    function: Option<Function>,
    /// The deadline of the wait for the client.
    until: Option<Instant>,
}

/// A function that runs on the thread of a connection.
struct RunningFunction {
    conn: Arc<ConnectionIo>,
    /// The epoch of the connection while it runs and no other thread has taken the connection over.
    epoch: u64,
    pool: Arc<Pool>,
    /// The first task that it has woken, which is queued for any thread. More of them would have to wait for each other
    /// on this thread.
    woken: Option<Arc<Task>>,
}

thread_local! {
    /// The work of this thread, if it is the thread of a connection.
    static OWN: RefCell<Option<LocalWork>> = const { RefCell::new(None) };
    /// The function that this thread runs, if it is the thread of a connection.
    static FUNCTION: RefCell<Option<RunningFunction>> = const { RefCell::new(None) };
}

/// Queues the first task that a function on this thread has woken, without a notification of another thread: usually
/// the function ends before that thread would have woken up. Returns `false` if no such function runs on this thread,
/// if it has woken another task before, or if another thread has taken its connection over.
fn keep_woken(task: &Arc<Task>) -> bool {
    FUNCTION.with_borrow_mut(|function| {
        let Some(function) = function.as_mut().filter(|function| function.woken.is_none()) else { return false };
        if !Arc::ptr_eq(&function.pool, &task.pool) || function.conn.epoch() != function.epoch {
            return false;
        }
        function.woken = Some(task.clone());
        task.pool.push_for_later(task.clone());
        true
    })
}

/// Stores a function that the current thread runs after it has polled the task of its connection. Returns the function
/// if this thread serves no connection of the pool, has a function already, or too many functions run.
pub(super) fn keep_function(pool: &Arc<Pool>, function: Function) -> Result<(), Function> {
    OWN.with_borrow_mut(|own| match own {
        Some(own) if own.function.is_none() && Arc::ptr_eq(&own.pool, pool) && pool.has_place() => {
            own.function = Some(function);
            Ok(())
        }
        _ => Err(function),
    })
}

/// Hands the task that the function on this thread has woken to another thread, because it is about to block: it may
/// wait for that task.
pub(super) fn hand_over_woken() {
    if let Some(function) = FUNCTION.take()
        && function.woken.is_some()
    {
        function.pool.notify_of_queued();
    }
}

impl Task {
    /// Creates a task from a future. With a socket, the future serves that connection.
    pub(super) fn new(
        pool: &Arc<Pool>,
        conn: Option<Arc<ConnectionIo>>,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Arc<Self> {
        let (state, cancelled) = (AtomicU8::new(PENDING), AtomicBool::new(false));
        Arc::new(Self { pool: pool.clone(), future: Mutex::new(Some(Box::pin(future))), state, cancelled, conn })
    }

    /// Queues the task unless it is queued, or marks it as woken if it is being polled.
    pub(super) fn schedule(self: &Arc<Self>) {
        let mut state = self.state.load(Ordering::SeqCst);
        loop {
            // A state that stays the same is written as well, so that the next poll sees what the task is woken for.
            let next = match state {
                PENDING => QUEUED,
                POLLED => WOKEN,
                state => state,
            };
            match self.state.compare_exchange_weak(state, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(PENDING) => return self.enqueue(),
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    fn enqueue(self: &Arc<Self>) {
        if let Some(conn) = &self.conn {
            return conn.wake();
        }
        let is_own = OWN.with_borrow_mut(|own| own.as_mut().map(|own| own.tasks.push(self.clone()))).is_some();
        if !is_own && !keep_woken(self) {
            self.pool.push(self.clone());
        }
    }

    /// Cancels the task. Its future is dropped by the thread that would poll it next, and not inside this call.
    pub(super) fn cancel(self: &Arc<Self>) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.schedule();
    }

    /// Polls the task. Only the thread that has taken it from a queue may call this.
    pub(super) fn run(self: &Arc<Self>) {
        let is_over = self.poll(&Waker::from(self.clone()));
        if !is_over && !self.mark_pending() {
            self.state.swap(QUEUED, Ordering::AcqRel);
            self.enqueue();
        }
    }

    /// Marks the task as asleep. Returns `false` if it was woken in the meantime.
    fn mark_pending(&self) -> bool {
        self.state.compare_exchange(POLLED, PENDING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Polls the future, and returns whether the task has ended.
    fn poll(&self, waker: &Waker) -> bool {
        self.state.swap(POLLED, Ordering::AcqRel);
        let mut future = lock(&self.future);
        let is_over = self.cancelled.load(Ordering::Acquire)
            || future.as_mut().is_none_or(|future| {
                let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(waker))));
                // A panic ends only this task.
                polled.is_err() || polled.is_ok_and(|polled| polled.is_ready())
            });
        drop(future);
        if is_over {
            self.end();
        }
        is_over
    }

    fn end(&self) {
        self.state.store(DONE, Ordering::Release);
        let ended = lock(&self.future).take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(ended)));
    }

    /// Serves the connection until the task has ended, and returns `true`. Returns `false` if a function took so long
    /// that another thread has taken the connection over.
    pub(super) fn serve(self: &Arc<Self>, conn: &Arc<ConnectionIo>) -> bool {
        let waker = Waker::from(self.clone());
        let (pool, tasks) = (self.pool.clone(), Vec::new());
        let mut next = Some(LocalWork { pool, waker: waker.clone(), tasks, function: None, until: None });
        while let Some(own) = next.as_mut() {
            own.until = None;
            conn.begin();
            OWN.set(next);
            let is_over = self.poll(&waker);
            run_own();
            next = OWN.take();
            let Some(own) = next.as_mut() else { break };
            if let Some(function) = own.function.take() {
                match self.run_function(conn, function) {
                    Some(woken) => own.tasks.extend(woken),
                    None => return false,
                }
            }
            if is_over {
                mem::take(&mut own.tasks).into_iter().for_each(|task| self.pool.push(task));
                break;
            }
            // The tasks that just ran usually have woken this one. It is then polled again without a wait.
            if own.tasks.is_empty()
                && self.state.load(Ordering::Acquire) == POLLED
                && self.wait(conn, own.until).is_err()
            {
                self.end();
                break;
            }
        }
        true
    }

    /// Runs a function on the thread of its connection, and returns the task that it has woken and that this thread
    /// runs. Returns `None` if another thread has taken the connection over.
    fn run_function(&self, conn: &Arc<ConnectionIo>, function: Function) -> Option<Option<Arc<Self>>> {
        let begun = |epoch| {
            let (conn, pool) = (conn.clone(), self.pool.clone());
            FUNCTION.set(Some(RunningFunction { conn, epoch, pool, woken: None }));
            self.pool.watch_function();
        };
        let goes_on = conn.run(function, begun);
        let woken = FUNCTION.take().and_then(|function| function.woken);
        goes_on.then(|| woken.and_then(|task| self.pool.take_back(&task)))
    }

    /// Waits until the connection is ready, the deadline is reached, or the task is woken.
    fn wait(&self, conn: &ConnectionIo, until: Option<Instant>) -> io::Result<()> {
        // An idle connection with a deadline waits for its client only, so a blocking read is enough.
        if until.is_some() && conn.is_idle() {
            conn.read(|| self.state.load(Ordering::SeqCst) == POLLED);
        } else if self.mark_pending() {
            let waited = conn.wait(until);
            if self.state.swap(POLLED, Ordering::AcqRel) == QUEUED {
                conn.drain_wakeups()?;
            }
            waited?;
        }
        Ok(())
    }
}

/// Polls the tasks that were woken on this thread. Tasks that these wake are queued for any thread.
fn run_own() {
    let take = || OWN.with_borrow_mut(|own| own.as_mut().map(|own| mem::take(&mut own.tasks)).unwrap_or_default());
    take().into_iter().for_each(|task| task.run());
    take().into_iter().for_each(|task| task.pool.push(task.clone()));
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.schedule();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.schedule();
    }
}

/// A handle to a task. Dropping it cancels the task.
pub struct Running(pub(super) Option<Arc<Task>>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.cancel();
        }
    }
}

/// A timer of the pool, which is set when it is polled.
pub struct PoolTimer {
    pool: Arc<Pool>,
    set: Option<Set>,
}

struct Set {
    key: (Instant, u64),
    waker: Waker,
}

impl PoolTimer {
    pub(super) const fn new(pool: Arc<Pool>) -> Self {
        Self { pool, set: None }
    }

    fn unset(&mut self) {
        if let Some(set) = self.set.take() {
            self.pool.remove_timer(set.key);
        }
    }
}

impl Timer for PoolTimer {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if at <= now {
            self.unset();
            return Poll::Ready(());
        }
        let is_own = OWN.with_borrow_mut(|own| {
            let Some(own) = own.as_mut().filter(|own| own.waker.will_wake(cx.waker())) else { return false };
            own.until = Some(own.until.map_or(at, |until| until.min(at)));
            true
        });
        if is_own {
            return Poll::Pending;
        }
        // Deadlines usually move later while a timer runs. A timer that is set for an earlier time is kept, and set
        // again when it has fired.
        let is_set = |set: &Set| set.key.0 > now && set.key.0 <= at && set.waker.will_wake(cx.waker());
        if !self.set.as_ref().is_some_and(is_set) {
            self.unset();
            let waker = cx.waker().clone();
            self.set = Some(Set { key: (at, self.pool.add_timer(at, waker.clone())), waker });
        }
        Poll::Pending
    }
}

impl Drop for PoolTimer {
    fn drop(&mut self) {
        self.unset();
    }
}
