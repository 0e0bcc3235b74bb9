//! The timer of sleeps without a connection, on systems without threads.

use std::{sync::OnceLock, task::Waker};

use crate::util::time::Instant;

/// A function that wakes a task at a time, or a little later. It returns at once. If it wakes the task early, it is
/// called again. Dropping the result cancels the timer.
pub type DetachedTimer = fn(Instant, Waker) -> Box<dyn Send + Sync>;

static TIMER: OnceLock<DetachedTimer> = OnceLock::new();

/// Sets the timer of handlers that sleep after their connection has ended. Without one, a thread of this crate wakes
/// them, so only drivers for systems without threads need it. The first call counts; it is made before the first sleep.
pub fn set_detached_timer(timer: DetachedTimer) {
    TIMER.get_or_init(|| timer);
}

/// Returns the timer that was set.
pub(crate) fn detached_timer() -> Option<DetachedTimer> {
    TIMER.get().copied()
}
