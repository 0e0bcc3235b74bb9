//! Threads, and locks that do not care about panics: nothing panics while it holds one, and if it did, one connection that
//! is not quite right would be better than two.

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

/// Waits at most `time`; the second value is whether it has passed.
pub fn wait_for<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>, time: Duration) -> (MutexGuard<'a, T>, bool) {
    let (guard, result) = changed.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
    (guard, result.timed_out())
}

/// Starts a thread.
///
/// # Errors
/// If the system has none left.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(run)
}
