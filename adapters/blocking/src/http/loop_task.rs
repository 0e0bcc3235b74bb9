//! The tasks of a client, and their timers.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

use mcp_driver::{Timer, os::thread::lock};

/// The task is pending and was not woken.
const PENDING: u8 = 0;
/// The task is queued.
const QUEUED: u8 = 1;
/// The task is being polled.
const POLLED: u8 = 2;
/// The task was woken while it is being polled.
const WOKEN: u8 = 3;
/// The task has ended.
const DONE: u8 = 4;

/// The queue and the timers of the thread that runs the tasks.
pub(super) trait Scheduler: Send + Sync + 'static {
    /// Queues a task.
    fn push(self: Arc<Self>, task: Arc<LoopTask<Self>>);

    /// Notes that a task has ended.
    fn ended(&self);

    /// Sets a timer, and returns its number.
    fn add_timer(&self, at: Instant, waker: Waker) -> u64;

    /// Removes a timer.
    fn remove_timer(&self, key: (Instant, u64));
}

/// A future that is polled by one thread at a time.
pub(super) struct LoopTask<S: ?Sized> {
    scheduler: Arc<S>,
    /// `None` once the task has ended. The lock is never contended.
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    state: AtomicU8,
    cancelled: AtomicBool,
}

impl<S: Scheduler> LoopTask<S> {
    /// Creates a task that is to be [woken](Wake::wake) once.
    pub(super) fn new(scheduler: &Arc<S>, future: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        let (scheduler, future) = (scheduler.clone(), Mutex::new(Some(Box::pin(future) as _)));
        Arc::new(Self { scheduler, future, state: AtomicU8::new(PENDING), cancelled: AtomicBool::new(false) })
    }

    fn schedule(self: &Arc<Self>) {
        // A state that stays the same is written as well, so that the next poll sees what the task is woken for.
        let woken = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| match state {
            PENDING => Some(QUEUED),
            POLLED => Some(WOKEN),
            state => Some(state),
        });
        if woken == Ok(PENDING) {
            self.scheduler.clone().push(self.clone());
        }
    }

    /// Cancels the task. Its future is dropped when the task would be polled next.
    fn cancel(self: &Arc<Self>) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.schedule();
    }

    /// Polls the task. Only the thread that has taken it from the queue calls this.
    pub(super) fn run(self: &Arc<Self>) {
        self.state.swap(POLLED, Ordering::SeqCst);
        let mut future = lock(&self.future);
        let waker = Waker::from(self.clone());
        let is_over = self.cancelled.load(Ordering::SeqCst)
            || future.as_mut().is_none_or(|future| {
                let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
                // A panic ends only this task.
                polled.is_err() || polled.is_ok_and(|polled| polled.is_ready())
            });
        if is_over {
            self.state.store(DONE, Ordering::SeqCst);
            let ended = future.take();
            drop(future);
            let _ = catch_unwind(AssertUnwindSafe(|| drop(ended)));
            self.scheduler.ended();
        } else if self.state.compare_exchange(POLLED, PENDING, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            self.state.swap(QUEUED, Ordering::SeqCst);
            drop(future);
            self.scheduler.clone().push(self.clone());
        }
    }
}

impl<S: Scheduler> Wake for LoopTask<S> {
    fn wake(self: Arc<Self>) {
        self.schedule();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.schedule();
    }
}

/// A handle to a task. Dropping it cancels the task.
pub(super) struct TaskHandle<S: Scheduler>(pub(super) Option<Arc<LoopTask<S>>>);

impl<S: Scheduler> Drop for TaskHandle<S> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.cancel();
        }
    }
}

/// A timer, which is set when it is polled.
pub(super) struct LoopTimer<S: Scheduler> {
    scheduler: Arc<S>,
    set: Option<((Instant, u64), Waker)>,
}

impl<S: Scheduler> LoopTimer<S> {
    pub(super) const fn new(scheduler: Arc<S>) -> Self {
        Self { scheduler, set: None }
    }

    fn unset(&mut self) {
        if let Some((key, _)) = self.set.take() {
            self.scheduler.remove_timer(key);
        }
    }
}

impl<S: Scheduler> Timer for LoopTimer<S> {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if at <= now {
            self.unset();
            return Poll::Ready(());
        }
        // Deadlines usually move later while a timer runs. A timer that is set for an earlier time is kept, and set
        // again when it has fired.
        let is_set = self
            .set
            .as_ref()
            .is_some_and(|((until, _), waker)| *until > now && *until <= at && waker.will_wake(cx.waker()));
        if !is_set {
            self.unset();
            let number = self.scheduler.add_timer(at, cx.waker().clone());
            self.set = Some(((at, number), cx.waker().clone()));
        }
        Poll::Pending
    }
}

impl<S: Scheduler> Drop for LoopTimer<S> {
    fn drop(&mut self) {
        self.unset();
    }
}
