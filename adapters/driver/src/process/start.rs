//! Programs that are being started while a signal may end this process.

use std::{
    future::pending,
    sync::{Condvar, Mutex},
    thread,
};
#[cfg(feature = "signals")]
use std::{sync::PoisonError, time::Duration};

use crate::{sync::lock, tuning::is_ending};

/// How many programs are being started.
static STARTS: Mutex<usize> = Mutex::new(0);

/// Notified when the last start is over.
static STARTED: Condvar = Condvar::new();

/// The start of a program, from before its process exists until it is registered. A signal waits for it, so that no
/// process is left behind.
#[derive(Debug)]
#[must_use]
pub struct Start(());

impl Start {
    /// Begins to start a program. Blocks the calling thread for ever if a signal is about to end this process.
    pub fn begin() -> Self {
        loop {
            match Self::try_begin() {
                Some(start) => return start,
                None => thread::park(),
            }
        }
    }

    /// Begins to start a program. Stays pending for ever if a signal is about to end this process.
    pub async fn begin_async() -> Self {
        match Self::try_begin() {
            Some(start) => start,
            None => pending().await,
        }
    }

    /// Returns `None` if a signal is about to end this process.
    fn try_begin() -> Option<Self> {
        let mut starts = lock(&STARTS);
        if is_ending() {
            return None;
        }
        *starts += 1;
        Some(Self(()))
    }

    /// Waits until the programs that are being started are registered, but no longer than `limit`: a file system may
    /// take any time. Returns whether they are.
    #[cfg(feature = "signals")]
    pub(super) fn wait_all(limit: Duration) -> bool {
        let waited = STARTED.wait_timeout_while(lock(&STARTS), limit, |starts| *starts > 0);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let mut starts = lock(&STARTS);
        *starts -= 1;
        if *starts == 0 {
            STARTED.notify_all();
        }
    }
}

#[cfg(all(test, feature = "signals"))]
mod tests {
    use super::*;

    #[test]
    fn all_starts_are_waited_for() {
        let [first, second] = [(); 2].map(|()| Start::begin());
        drop(first);
        assert!(!Start::wait_all(Duration::ZERO));
        let starting = thread::spawn(move || drop(second));
        assert!(Start::wait_all(Duration::from_secs(60)));
        starting.join().expect("it is over");
        assert!(Start::wait_all(Duration::ZERO));
    }
}
