//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

// No application code runs under a lock of this crate, except wakers of its runtime, so the guarded data is consistent
// even after a thread has panicked.

/// Locks a mutex, and ignores poisoning.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
