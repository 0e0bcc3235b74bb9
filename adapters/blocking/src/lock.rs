//! Locks that do not care about panics: no code of ours panics while it holds one, and what user code leaves behind
//! is guarded by the connection itself.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits at most `time`; the second value is whether it has passed.
pub(crate) fn wait_for<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    time: Duration,
) -> (MutexGuard<'a, T>, bool) {
    let (guard, result) = changed.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
    (guard, result.timed_out())
}
