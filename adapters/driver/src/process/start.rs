//! Programs that are being started while a signal may end this process.

use std::{
    future::pending,
    sync::{Condvar, Mutex},
    thread,
};
#[cfg(feature = "signals")]
use std::{sync::PoisonError, time::Duration};

use crate::{sync::lock, tuning::is_ending};

/// The starts of this process.
pub(super) static STARTS: Starts = Starts { count: Mutex::new(0), none: Condvar::new() };

/// Counts programs that are being started.
#[derive(Debug)]
pub(super) struct Starts {
    count: Mutex<usize>,
    /// Notified when the last start is over.
    none: Condvar,
}

/// The start of a program, from before its process exists until it is registered. A signal waits for it, so that no
/// process is left behind.
#[derive(Debug)]
#[must_use]
pub struct Start(&'static Starts);

impl Start {
    /// Begins to start a program. Blocks the calling thread for ever if a signal is about to end this process.
    pub fn begin() -> Self {
        loop {
            match STARTS.begin() {
                Some(start) => return start,
                None => thread::park(),
            }
        }
    }

    /// Begins to start a program. Stays pending for ever if a signal is about to end this process.
    pub async fn begin_async() -> Self {
        match STARTS.begin() {
            Some(start) => start,
            None => pending().await,
        }
    }
}

impl Starts {
    /// Returns `None` if a signal is about to end this process.
    fn begin(&'static self) -> Option<Start> {
        let mut count = lock(&self.count);
        if is_ending() {
            return None;
        }
        *count += 1;
        Some(Start(self))
    }

    /// Waits until the programs that are being started are registered, but no longer than `limit`: a file system may
    /// take any time. Returns whether they are.
    #[cfg(feature = "signals")]
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let waited = self.none.wait_timeout_while(lock(&self.count), limit, |count| *count > 0);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let mut count = lock(&self.0.count);
        *count -= 1;
        if *count == 0 {
            self.0.none.notify_all();
        }
    }
}

#[cfg(all(test, feature = "signals"))]
mod tests {
    use super::*;

    #[test]
    fn all_starts_are_waited_for() {
        static OWN: Starts = Starts { count: Mutex::new(0), none: Condvar::new() };
        let [first, second] = [(); 2].map(|()| OWN.begin().expect("this process does not end"));
        drop(first);
        assert!(!OWN.wait(Duration::ZERO));
        let starting = thread::spawn(move || drop(second));
        assert!(OWN.wait(Duration::from_secs(60)));
        starting.join().expect("it is over");
        assert!(OWN.wait(Duration::ZERO));
    }
}
