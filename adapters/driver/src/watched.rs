//! A value whose changes threads and tasks can wait for.

use std::{
    fmt,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::sync::lock;
use mcp_service::driver_api::{Instant, WaitQueue};

/// A value whose changes threads and tasks can wait for: threads with a timeout, tasks without.
#[derive(Default)]
pub struct Watched<T> {
    value: Mutex<T>,
    threads: Condvar,
    /// The number of threads that wait. It changes under the lock. Without any, they are not notified, which takes a
    /// system call.
    waiting: AtomicUsize,
    tasks: WaitQueue,
}

impl<T> Watched<T> {
    /// Creates a watched value.
    pub fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            threads: Condvar::new(),
            waiting: AtomicUsize::new(0),
            tasks: WaitQueue::default(),
        }
    }

    /// Calls `f` with the value.
    pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&lock(&self.value))
    }

    /// Changes the value without a wake-up, because no condition depends on the change.
    #[cfg(feature = "auth")]
    pub(crate) fn update_quietly<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut lock(&self.value))
    }

    /// Changes the value and wakes all waiting threads and tasks.
    pub fn update<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let (result, has_threads) = {
            let mut value = lock(&self.value);
            (f(&mut value), self.waiting.load(Ordering::Relaxed) > 0)
        };
        if has_threads {
            self.threads.notify_all();
        }
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
            self.waiting.fetch_add(1, Ordering::Relaxed);
            value = self.threads.wait_timeout(value, left).unwrap_or_else(PoisonError::into_inner).0;
            self.waiting.fetch_sub(1, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        sync::mpsc,
        task::{Context, Waker},
        thread,
    };

    use super::*;

    #[test]
    fn threads_wait_for_a_change_or_the_timeout() {
        const LONG: Duration = Duration::from_secs(20);
        let watched = Watched::new(1);
        assert!(watched.wait_until(Duration::ZERO, |value| *value == 1));
        assert!(!watched.wait_until(Duration::ZERO, |value| *value == 2));
        let start = Instant::now();
        thread::scope(|scope| {
            let (sees, seen) = mpsc::channel();
            let watched = &watched;
            let waiting = scope.spawn(move || {
                watched.wait_until(LONG, |value| {
                    let _ = sees.send(*value);
                    *value == 3
                })
            });
            for value in [2, 3] {
                // A thread may also wake without a change.
                assert!(seen.iter().any(|seen| seen == value - 1));
                assert_eq!(watched.update(|current| std::mem::replace(current, value)), value - 1);
            }
            assert!(waiting.join().expect("no panic"));
        });
        assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    }

    #[test]
    fn tasks_wait_until_something_is_found() {
        let watched = Watched::<Vec<u8>>::default();
        let mut waiting = pin!(watched.wait_for(|value| value.first().copied()));
        let mut poll = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        watched.update(|value| value.push(7));
        assert_eq!(poll(), std::task::Poll::Ready(7));
        assert_eq!((watched.read(Vec::len), format!("{watched:?}").as_str()), (1, "Watched([7])"));
    }
}
