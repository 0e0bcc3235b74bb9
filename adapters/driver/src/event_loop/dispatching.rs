//! The events of a connection that threads are dispatching.

use std::sync::atomic::{AtomicU32, Ordering};

/// Set while the event loop waits for the end, with events that it has to dispatch.
const NOTIFIES: u32 = 1;
/// Set while one event is dispatched that excludes all others.
const EXCLUSIVE: u32 = 1 << 31;
/// One request.
#[cfg(feature = "http")]
const REQUEST: u32 = 2;

/// The events of a connection that threads are dispatching: none, one, or several requests at once. Requests that
/// arrived on exchanges of their own while no event was queued have no order among each other. Other events wait until
/// all of them were dispatched.
///
/// All methods except [`end`](Self::end) are called under the lock of the connection. The end of a request needs that
/// lock only if the event loop waits for it.
#[derive(Debug, Default)]
pub(crate) struct Dispatching(AtomicU32);

impl Dispatching {
    /// Begins to dispatch a request or another event inline, while no other event is queued. Returns whether it may
    /// begin now.
    #[cfg(feature = "http")]
    #[must_use = "the event has to be queued"]
    pub(crate) fn begin(&self, is_request: bool) -> bool {
        let active = self.0.load(Ordering::Acquire) & !NOTIFIES;
        if active == 0 {
            self.0.store(if is_request { REQUEST } else { EXCLUSIVE }, Ordering::Release);
        } else if is_request && active & EXCLUSIVE == 0 {
            self.0.fetch_add(REQUEST, Ordering::AcqRel);
        } else {
            return false;
        }
        true
    }

    /// Ends to dispatch an event that was [begun](Self::begin) inline. Returns whether the event loop waits for this
    /// end.
    #[cfg(feature = "http")]
    pub(crate) fn end(&self) -> bool {
        // No request begins during an exclusive event, so the bit tells which of the two this is.
        let is_exclusive = self.0.load(Ordering::Acquire) & EXCLUSIVE != 0;
        let one = if is_exclusive { EXCLUSIVE } else { REQUEST };
        let before = self.0.fetch_sub(one, Ordering::AcqRel);
        debug_assert!(before >= one, "each end has a beginning");
        before == one | NOTIFIES
    }

    /// Returns whether events are being dispatched.
    pub(crate) fn is_active(&self) -> bool {
        self.0.load(Ordering::Acquire) & !NOTIFIES != 0
    }

    /// Begins to dispatch an event in the event loop, or ends it.
    pub(crate) fn set_exclusive(&self, is_exclusive: bool) {
        self.0.store(if is_exclusive { EXCLUSIVE } else { 0 }, Ordering::Release);
    }

    /// Returns whether events are being dispatched. The thread that ends the last one then [learns](Self::end) that the
    /// event loop waits for that.
    pub(crate) fn notifies_end(&self) -> bool {
        self.0.fetch_or(NOTIFIES, Ordering::AcqRel) & !NOTIFIES != 0
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[test]
    fn requests_are_dispatched_at_once_and_others_alone() {
        let dispatching = Dispatching::default();
        assert!(dispatching.begin(true) && dispatching.begin(true) && !dispatching.begin(false));
        assert!(!dispatching.end() && dispatching.is_active() && !dispatching.end() && !dispatching.is_active());
        assert!(dispatching.begin(false) && !dispatching.begin(false) && !dispatching.begin(true));
        assert!(!dispatching.end() && !dispatching.is_active());
        dispatching.set_exclusive(true);
        assert!(dispatching.is_active() && !dispatching.begin(true));
        dispatching.set_exclusive(false);
        assert!(!dispatching.is_active());
    }

    #[test]
    fn only_the_last_end_reports_a_waiting_event_loop() {
        let dispatching = Dispatching::default();
        assert!(!dispatching.notifies_end(), "the event loop need not wait");
        assert!(dispatching.begin(true) && dispatching.begin(true));
        assert!(dispatching.notifies_end() && dispatching.notifies_end());
        assert_eq!([dispatching.end(), dispatching.end()], [false, true]);
        // The next event does not report it again.
        for is_request in [true, false] {
            assert!(!dispatching.notifies_end() && dispatching.begin(is_request) && !dispatching.end());
        }
        assert!(dispatching.begin(false) && dispatching.notifies_end() && dispatching.end());
    }
}
