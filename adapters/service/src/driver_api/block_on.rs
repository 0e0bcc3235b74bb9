//! Runs a future on a thread that may block.

use std::{
    cell::RefCell,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use super::current_handler::about_to_block;

/// Observes a thread that parks in [`block_on`]. A test driver counts the threads that are busy this way.
pub trait ParkObserver: Send + Sync {
    /// Notes that the thread is about to park.
    fn on_park(&self);

    /// Notes that the thread is about to be unparked. The unparking thread calls it.
    fn on_unpark(&self);
}

thread_local! {
    static OBSERVER: RefCell<Option<Arc<dyn ParkObserver>>> = const { RefCell::new(None) };
}

/// Registers an observer for this thread.
pub fn observe_parking(observer: Arc<dyn ParkObserver>) {
    OBSERVER.set(Some(observer));
}

/// Runs a future on this thread, and parks the thread while the future is pending. Only for threads that may block.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    // Most futures are ready at once.
    if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return value;
    }
    let signal = Arc::new(Signal::new());
    let waker = Waker::from(signal.clone());
    loop {
        signal.state.store(POLLING, Ordering::Release);
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        about_to_block();
        signal.park();
    }
}

/// The thread polls its future, or is about to.
const POLLING: u8 = 0;

/// The thread was woken, and has not polled since.
const NOTIFIED: u8 = 1;

/// The thread is parked.
const PARKED: u8 = 2;

/// Wakes a thread. It keeps its own state, since the thread may be parked in a nested [`block_on`].
struct Signal {
    thread: Thread,
    state: AtomicU8,
    observer: Option<Arc<dyn ParkObserver>>,
}

impl Signal {
    fn new() -> Self {
        Self {
            thread: thread::current(),
            state: AtomicU8::new(POLLING),
            observer: OBSERVER.try_with(|observer| observer.borrow().clone()).ok().flatten(),
        }
    }

    /// Parks until the thread is woken, unless it was woken since its last poll.
    fn park(&self) {
        let is_parked = self.state.compare_exchange(POLLING, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if is_parked {
            self.observer.iter().for_each(|observer| observer.on_park());
            while self.state.load(Ordering::Acquire) == PARKED {
                thread::park();
            }
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED {
            self.observer.iter().for_each(|observer| observer.on_unpark());
            self.thread.unpark();
        }
    }
}
