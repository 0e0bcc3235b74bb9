//! The handlers of tasks that run.

use std::sync::{Arc, Mutex};

use crate::util::{lock::lock, wait_queue::WaitQueue};

/// Counts the handlers whose requests are or may become tasks.
#[derive(Default)]
pub(crate) struct RunningHandlers {
    count: Mutex<usize>,
    waiters: WaitQueue,
}

/// A handler that runs. Dropping it ends it.
pub(super) struct RunningHandler(Arc<RunningHandlers>);

impl RunningHandlers {
    pub(super) fn begin(self: Arc<Self>) -> RunningHandler {
        *lock(&self.count) += 1;
        RunningHandler(self)
    }

    /// Waits until no handler runs.
    pub(crate) async fn ended(&self) {
        self.waiters.wait_for(|| (*lock(&self.count) == 0).then_some(())).await;
    }
}

impl Drop for RunningHandler {
    fn drop(&mut self) {
        let count = {
            let mut count = lock(&self.0.count);
            *count -= 1;
            *count
        };
        if count == 0 {
            self.0.waiters.notify_all();
        }
    }
}
