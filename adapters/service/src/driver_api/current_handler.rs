//! The connections whose handlers run on the current thread.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
};

use super::block_on::WaitingThread;

/// A callback for a handler that is about to wait.
type OnBlock = Box<dyn Fn(&WaitingThread)>;

thread_local! {
    /// The connections whose handlers run on this thread, the outermost first.
    static CURRENT: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// The callback of this thread.
    static ON_BLOCK: RefCell<Option<OnBlock>> = const { RefCell::new(None) };
}

/// Sets the callback of this thread that is called when a handler on it is about to wait through this crate. Another
/// thread can then take over the work of this thread. Where there is no other thread, the callback does the work until
/// the wait [is notified](WaitingThread::is_notified). The callback does not run in the scope of the handler.
pub fn on_block(f: impl Fn(&WaitingThread) + 'static) {
    ON_BLOCK.set(Some(Box::new(f)));
}

/// Returns whether a handler of any connection runs on this thread.
#[must_use]
pub fn is_in_handler() -> bool {
    CURRENT.try_with(|scopes| scopes.try_borrow().is_ok_and(|scopes| !scopes.is_empty())).unwrap_or(false)
}

/// Calls the callback if a handler runs on this thread, which is about to wait.
pub(crate) fn about_to_block(thread: &WaitingThread) {
    if is_in_handler() {
        let scopes = CURRENT.take();
        let _ = ON_BLOCK.try_with(|f| f.borrow().iter().for_each(|f| f(thread)));
        CURRENT.set(scopes);
    }
}

/// The scope of one connection's handlers. It detects whether the caller is such a handler, which must not wait for the
/// end of all handlers.
#[derive(Debug)]
pub struct HandlerScope(u64);

impl Default for HandlerScope {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl HandlerScope {
    /// Runs a handler, or a part of it, in the scope.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        struct ScopeGuard;
        impl Drop for ScopeGuard {
            fn drop(&mut self) {
                CURRENT.with_borrow_mut(Vec::pop);
            }
        }
        CURRENT.with_borrow_mut(|scopes| scopes.push(self.0));
        let _guard = ScopeGuard;
        f()
    }

    /// Polls a handler in the scope.
    pub fn poll(&self, future: Pin<&mut impl Future<Output = ()>>, cx: &mut Context<'_>) -> Poll<()> {
        self.run(|| future.poll(cx))
    }

    /// Returns whether a handler of this connection runs on this thread.
    #[must_use]
    pub fn is_current(&self) -> bool {
        CURRENT.with_borrow(|scopes| scopes.contains(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn handler_scope_is_per_thread_and_nests() {
        let (a, b) = (HandlerScope::default(), HandlerScope::default());
        assert!(!a.is_current());
        a.run(|| {
            assert!(a.is_current() && !b.is_current());
            b.run(|| assert!(a.is_current() && b.is_current()));
            assert!(!std::thread::scope(|scope| scope.spawn(|| a.is_current()).join().expect("no panic")));
            assert!(catch_unwind(AssertUnwindSafe(|| b.run(|| panic!("on purpose")))).is_err());
            assert!(a.is_current() && !b.is_current());
        });
        assert!(!a.is_current());
    }
}
