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

use super::current_handler::waits;

/// Observes a thread that parks in [`block_on`]. A test driver counts the threads that are busy this way.
pub trait ParkObserver: Send + Sync {
    /// Notes that the thread is about to park.
    fn parks(&self);

    /// Notes that the thread is about to be unparked. The unparking thread calls it.
    fn unparks(&self);
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
        signal.state.store(LOOKING, Ordering::Release);
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        waits();
        signal.sleep();
    }
}

/// The thread polls its future, or is about to.
const LOOKING: u8 = 0;

/// The thread was woken, and has not polled since.
const WOKEN: u8 = 1;

/// The thread is parked.
const ASLEEP: u8 = 2;

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
            state: AtomicU8::new(LOOKING),
            observer: OBSERVER.try_with(|observer| observer.borrow().clone()).ok().flatten(),
        }
    }

    /// Parks until the thread is woken, unless it was woken since its last poll.
    fn sleep(&self) {
        let fell_asleep = self.state.compare_exchange(LOOKING, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if fell_asleep {
            self.observer.iter().for_each(|observer| observer.parks());
            while self.state.load(Ordering::Acquire) == ASLEEP {
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
        if self.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            self.observer.iter().for_each(|observer| observer.unparks());
            self.thread.unpark();
        }
    }
}
