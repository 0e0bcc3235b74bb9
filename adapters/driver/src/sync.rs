//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

// No code of the user runs under a lock of this crate, so what a lock guards is whole even if a thread has panicked.

/// Locks a mutex, also after a panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
