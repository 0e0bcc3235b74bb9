//! Threads, and locks that ignore poisoning. No code panics while it holds such a lock. If it did, one connection in a
//! wrong state is better than a panic in every thread that shares the lock.

use std::{
    io,
    sync::{Condvar, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

pub use crate::sync::lock;

/// Waits to be notified.
pub fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits to be notified, for at most `time`. The second value is whether the time has passed.
pub fn wait_for<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>, time: Duration) -> (MutexGuard<'a, T>, bool) {
    let (guard, result) = changed.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
    (guard, result.timed_out())
}

/// Starts a thread.
///
/// # Errors
/// If the system cannot start another thread.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(run)
}
