//! A future that runs on threads.

use std::{
    cell::RefCell,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Wake, Waker},
};

use super::threads::Pool;
use crate::threads::lock;

/// It waits for something.
const ASLEEP: u8 = 0;
/// It waits for a thread.
const QUEUED: u8 = 1;
/// A thread polls it.
const POLLED: u8 = 2;
/// The same, and it was woken meanwhile.
const WOKEN: u8 = 3;
/// It has ended.
const OVER: u8 = 4;

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that runs on threads.
pub(super) struct Task {
    pool: Arc<Pool>,
    /// Absent in the end. Nobody waits for this lock: one thread at a time polls.
    future: Mutex<Option<BoxedFuture>>,
    state: AtomicU8,
    cancelled: AtomicBool,
}

thread_local! {
    /// What this thread has woken and will poll itself, if it is one that does so.
    static OWN: RefCell<Option<Vec<Arc<Task>>>> = const { RefCell::new(None) };
}

/// Polls something, and then what that has woken, on this thread. Most of what comes of a request is so little that it would
/// take longer to have another thread do it.
pub(super) fn with_own<T>(poll: impl FnOnce() -> T) -> T {
    /// Leaves what is left to whoever has time.
    struct Rest;
    impl Drop for Rest {
        fn drop(&mut self) {
            let rest = OWN.take().unwrap_or_default();
            rest.into_iter().for_each(|task| task.pool.clone().push(task));
        }
    }
    OWN.set(Some(Vec::new()));
    let _rest = Rest;
    let result = poll();
    let own = OWN.replace(Some(Vec::new())).unwrap_or_default();
    own.into_iter().for_each(|task| task.run());
    result
}

impl Task {
    pub(super) fn new(pool: &Arc<Pool>, future: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        let (state, cancelled) = (AtomicU8::new(ASLEEP), AtomicBool::new(false));
        Arc::new(Self { pool: pool.clone(), future: Mutex::new(Some(Box::pin(future))), state, cancelled })
    }

    /// Has it polled, if it does not wait for that already.
    pub(super) fn schedule(self: &Arc<Self>) {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let next = match state {
                ASLEEP => QUEUED,
                POLLED => WOKEN,
                _ => return,
            };
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if next == QUEUED => return self.enqueue(),
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    fn enqueue(self: &Arc<Self>) {
        let own = OWN.with_borrow_mut(|own| own.as_mut().map(|own| own.push(self.clone())));
        if own.is_none() {
            self.pool.push(self.clone());
        }
    }

    /// Has its future dropped, soon, and outside of whatever its owner is in the middle of.
    pub(super) fn cancel(self: &Arc<Self>) {
        self.cancelled.store(true, Ordering::Release);
        self.schedule();
    }

    /// Polls it. Only for who has taken it from where it was queued.
    pub(super) fn run(self: &Arc<Self>) {
        self.state.store(POLLED, Ordering::Release);
        let mut future = lock(&self.future);
        let is_over = self.cancelled.load(Ordering::Acquire)
            || future.as_mut().is_none_or(|future| {
                let waker = Waker::from(self.clone());
                let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
                // A panic is its own affair.
                polled.is_err() || polled.is_ok_and(|polled| polled.is_ready())
            });
        if is_over {
            self.state.store(OVER, Ordering::Release);
            let ended = future.take();
            drop(future);
            let _ = catch_unwind(AssertUnwindSafe(|| drop(ended)));
            return;
        }
        drop(future);
        if self.state.compare_exchange(POLLED, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_err() {
            self.state.store(QUEUED, Ordering::Release);
            self.enqueue();
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.schedule();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.schedule();
    }
}
