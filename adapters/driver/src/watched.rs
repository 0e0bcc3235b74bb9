//! A value whose changes threads and tasks can wait for.

use std::{
    fmt,
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::sync::lock;
use mcp_service::driver_api::WaitQueue;

/// A value whose changes threads and tasks can wait for: threads with a timeout, tasks without.
#[derive(Default)]
pub struct Watched<T> {
    value: Mutex<T>,
    threads: Condvar,
    tasks: WaitQueue,
}

impl<T> Watched<T> {
    /// Creates a watched value.
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), threads: Condvar::new(), tasks: WaitQueue::default() }
    }

    /// Calls `f` with the value.
    pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&lock(&self.value))
    }

    /// Changes the value and wakes all waiting threads and tasks.
    pub fn update<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let result = f(&mut lock(&self.value));
        self.threads.notify_all();
        self.tasks.notify_all();
        result
    }

    /// Blocks until `condition` holds, but no longer than `timeout`, and returns whether it does.
    pub fn wait_until(&self, timeout: Duration, condition: impl Fn(&T) -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        let mut value = lock(&self.value);
        while !condition(&value) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            value = self.threads.wait_timeout(value, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Waits until `find` returns a result, and returns that.
    pub async fn wait_for<R>(&self, mut find: impl FnMut(&T) -> Option<R>) -> R {
        self.tasks.wait_for(|| find(&lock(&self.value))).await
    }
}

impl<T: fmt::Debug> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&*lock(&self.value)).finish()
    }
}
