//! Whether this thread holds the lock of a connection (feature `log-layer`).
//!
//! An event of `tracing` can be emitted by any code, also while the lock is held: by a type of the application that is
//! serialized, for example. Then it must not take the lock again.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Counts a lock of a connection that this thread takes, until it is dropped.
pub(crate) struct LockDepth(());

impl LockDepth {
    pub(crate) fn enter() -> Self {
        // A thread that ends has no depth, and emits no events for clients either.
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
        Self(())
    }

    /// Returns whether this thread can take the lock of a connection.
    pub(crate) fn is_free() -> bool {
        DEPTH.try_with(|depth| depth.get() == 0).unwrap_or(false)
    }
}

impl Drop for LockDepth {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() - 1));
    }
}
