//! Locks.

use std::{
    hint::spin_loop,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError},
    thread::available_parallelism,
};

// No application code runs under a lock of this crate, so the guarded data is consistent even after a thread has
// panicked.

/// Locks a mutex, and ignores poisoning.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many times a thread tries to take a contended lock before it parks. It waits twice as long before each attempt
/// as before the one before, for about as long in total as parking and waking a thread takes.
const ATTEMPTS: u32 = 7;

/// Locks a mutex that many threads take often and hold briefly, and ignores poisoning.
///
/// [`Mutex::lock`] parks at once while another thread is parked. So under contention each acquisition parks one thread
/// and wakes another one, which takes longer than the work under the lock. Here a thread tries again for a while first.
pub(crate) fn lock_spinning<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    try_lock(mutex).unwrap_or_else(|| lock_contended(mutex))
}

#[cold]
fn lock_contended<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    static ATTEMPTS_HERE: OnceLock<u32> = OnceLock::new();
    // On one processor, the thread that holds the lock makes no progress while this one spins.
    let several = || available_parallelism().is_ok_and(|processors| processors.get() > 1);
    let attempts = *ATTEMPTS_HERE.get_or_init(|| if several() { ATTEMPTS } else { 0 });
    for attempt in 0..attempts {
        (0..1 << attempt).for_each(|_| spin_loop());
        if let Some(guard) = try_lock(mutex) {
            return guard;
        }
    }
    lock(mutex)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
