//! The order in which the requests of one client are sent.

use std::sync::Mutex;

use crate::util::{lock::lock, wait_queue::WaitQueue};

/// The turn of the requests of one client to be sent. Only one of them waits for room at the backend, so that those of
/// other clients are not behind all of them.
#[derive(Default)]
pub(super) struct Turn {
    is_taken: Mutex<bool>,
    waiting: WaitQueue,
}

/// The turn of one request. Dropping it passes it to the next request of the client.
pub(in crate::proxy) struct TurnGuard<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn, in the order of the calls of this function.
    pub(super) async fn take(&self) -> TurnGuard<'_> {
        let take = || {
            let mut is_taken = lock(&self.is_taken);
            (!std::mem::replace(&mut *is_taken, true)).then_some(())
        };
        self.waiting.acquire(take).await;
        TurnGuard(self)
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.is_taken) = false;
        self.0.waiting.notify_one();
    }
}
