//! The threads of handlers, and the number of those that are busy.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use crate::{
    driver_api::block_on::{ParkObserver, observe_parking},
    util::lock::lock,
};

/// How long a handler may be busy, in real time. Its work takes no virtual time.
pub(super) const HANDLER_TIMEOUT: Duration = Duration::from_secs(30);

/// The threads of handlers. A thread that waits through its [`Context`](crate::Context) is counted as busy before it is
/// woken, so it never seems to be idle while it has something to do.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    busy: Mutex<usize>,
    turned: Condvar,
}

impl Workers {
    /// Runs a function on a new thread.
    pub(super) fn start(self: &Arc<Self>, f: impl FnOnce() + Send + 'static) {
        self.mark_busy();
        let workers = self.clone();
        thread::spawn(move || {
            observe_parking(workers.clone());
            // Jobs catch the panics of handlers. If one gets through, the test must not wait for ever.
            let _ = catch_unwind(AssertUnwindSafe(f));
            workers.mark_idle();
        });
    }

    /// Counts a thread as idle: it has ended, or waits.
    pub(crate) fn mark_idle(&self) {
        *self.busy() -= 1;
        self.turned.notify_all();
    }

    /// Counts a thread as busy: it begins, or has been woken.
    pub(crate) fn mark_busy(&self) {
        *self.busy() += 1;
    }

    /// Waits until all threads have ended or wait. Returns `false` after [`HANDLER_TIMEOUT`].
    pub(super) fn wait(&self) -> bool {
        let until = Instant::now() + HANDLER_TIMEOUT;
        let mut busy = self.busy();
        while *busy > 0 {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            busy = match self.turned.wait_timeout(busy, left) {
                Ok((busy, _)) => busy,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }

    /// Waits until a thread has ended or waits, but not for long: a busy thread may meet the condition of a test.
    pub(super) fn wait_for_change(&self) {
        let _ = self.turned.wait_timeout(self.busy(), Duration::from_millis(1));
    }

    fn busy(&self) -> MutexGuard<'_, usize> {
        lock(&self.busy)
    }
}

impl ParkObserver for Workers {
    fn on_park(&self) {
        self.mark_idle();
    }

    fn on_unpark(&self) {
        self.mark_busy();
    }
}
