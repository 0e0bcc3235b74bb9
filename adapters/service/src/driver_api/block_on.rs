//! Runs a future on a thread that may block.

use std::{
    cell::RefCell,
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use super::current_handler::{about_to_block, is_in_handler};
use crate::util::lock::lock;

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
    block_on_driving(future, |_| ())
}

/// Runs a future as [`block_on`] does. `drive` may do work of a driver on this thread while the future is pending: see
/// [`ConnectionHandle::drive`](super::connection_handle::ConnectionHandle::drive). It is not called in a handler.
pub fn block_on_driving<T>(future: impl Future<Output = T>, drive: impl Fn(&WaitingThread)) -> T {
    let mut future = pin!(future);
    // Most futures are ready at once.
    if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return value;
    }
    let thread = WaitingThread(Arc::new(Signal::new()));
    let waker = Waker::from(thread.0.clone());
    loop {
        // A store could be delayed until after the poll, and then overwrite a notification that the poll has not seen.
        thread.0.state.swap(POLLING, Ordering::AcqRel);
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        if is_in_handler() {
            about_to_block(&thread);
        } else {
            drive(&thread);
        }
        thread.park();
    }
}

/// The thread polls its future, or is about to.
const POLLING: u8 = 0;

/// The thread was woken, and has not polled since.
const NOTIFIED: u8 = 1;

/// The thread is parked.
const PARKED: u8 = 2;

/// The thread does work of a driver until it is notified.
const DRIVING: u8 = 3;

/// A thread that waits in [`Pending::wait`](crate::Pending::wait), and can run work of a driver during the wait.
#[derive(Clone)]
pub struct WaitingThread(Arc<Signal>);

/// The work of a driver, which may wait for input.
pub trait Interrupt: Send + Sync {
    /// Makes the thread that does the work check whether it was notified. Another thread calls this.
    fn interrupt(&self);
}

impl WaitingThread {
    /// Begins work on this thread. Returns false if the thread was notified already.
    ///
    /// Until [`end_work`](Self::end_work), a notification by another thread interrupts the work.
    #[must_use]
    pub fn begin_work(&self, work: Arc<dyn Interrupt>) -> bool {
        *lock(&self.0.work) = Some(work);
        self.0.state.compare_exchange(POLLING, DRIVING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends the work on this thread.
    pub fn end_work(&self) {
        let _ = self.0.state.compare_exchange(DRIVING, POLLING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns whether the thread was notified, so that it has to poll what it waits for.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.0.state.load(Ordering::Acquire) == NOTIFIED
    }

    /// Makes the thread poll what it waits for, and then [drive](super::connection_handle::ConnectionHandle::drive)
    /// again.
    pub fn notify(&self) {
        self.0.wake_by_ref();
    }

    /// Returns a waker that notifies the thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }

    /// Parks this thread until it is notified, unless it was notified since its last poll.
    pub fn park(&self) {
        self.0.park();
    }

    /// Returns whether both are the same wait.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for WaitingThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingThread").field("is_notified", &self.is_notified()).finish_non_exhaustive()
    }
}

/// Wakes a thread. It keeps its own state, since the thread may be parked in a nested [`block_on`].
struct Signal {
    thread: Thread,
    state: AtomicU8,
    observer: Option<Arc<dyn ParkObserver>>,
    /// The last work of a driver on the thread.
    work: Mutex<Option<Arc<dyn Interrupt>>>,
}

impl Signal {
    fn new() -> Self {
        Self {
            thread: thread::current(),
            state: AtomicU8::new(POLLING),
            observer: OBSERVER.try_with(|observer| observer.borrow().clone()).ok().flatten(),
            work: Mutex::new(None),
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
        match self.state.swap(NOTIFIED, Ordering::AcqRel) {
            PARKED => {
                self.observer.iter().for_each(|observer| observer.on_unpark());
                self.thread.unpark();
            }
            // The thread itself checks its state after each step of the work.
            DRIVING if thread::current().id() != self.thread.id() => {
                let work = lock(&self.work).clone();
                work.iter().for_each(|work| work.interrupt());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::poll_fn, rc::Rc};

    use super::*;
    use crate::driver_api::current_handler::{HandlerScope, on_block};

    /// Waits once, and returns the number of calls of `drive`.
    fn wait_once(drive: impl Fn(&WaitingThread)) -> usize {
        let (polls, drives) = (Cell::new(0), Cell::new(0));
        let future = poll_fn(|cx| {
            polls.set(polls.get() + 1);
            match polls.get() {
                // The first poll is not that of a thread which waits.
                1 => Poll::Pending,
                2 => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        });
        block_on_driving(future, |thread| {
            drives.set(drives.get() + 1);
            drive(thread);
        });
        drives.get()
    }

    #[test]
    fn a_wait_is_itself_and_no_other() {
        let drives = wait_once(|outer| {
            assert!(outer.is(&outer.clone()) && outer.is_notified());
            assert_eq!(wait_once(|inner| assert!(!inner.is(outer) && inner.is(inner))), 1);
        });
        assert_eq!(drives, 1);
    }

    #[test]
    fn a_handler_that_waits_calls_back_and_does_no_work() {
        let calls = Rc::new(Cell::new(0));
        let counted = calls.clone();
        on_block(move |_| {
            assert!(!is_in_handler(), "other handlers may run in the callback");
            counted.set(counted.get() + 1);
        });
        assert_eq!((wait_once(|_| ()), calls.get()), (1, 0));
        let drives = HandlerScope::default().run(|| wait_once(|_| ()));
        assert_eq!((drives, calls.get()), (0, 1));
    }

    #[test]
    fn callback_can_do_the_work_that_ends_the_wait() {
        let wakers = Rc::new(RefCell::new(Vec::<Waker>::new()));
        let taken = wakers.clone();
        on_block(move |thread| {
            assert!(!thread.is_notified());
            taken.take().into_iter().for_each(Waker::wake);
            assert!(thread.is_notified());
        });
        let mut polls = 0;
        // No other thread unparks this one.
        HandlerScope::default().run(|| {
            block_on(poll_fn(|cx| {
                polls += 1;
                wakers.borrow_mut().push(cx.waker().clone());
                if polls < 4 { Poll::Pending } else { Poll::Ready(()) }
            }));
            assert!(is_in_handler(), "the scope is that of before");
        });
        assert_eq!(polls, 4);
    }

    #[test]
    fn work_is_interrupted_by_a_notification_of_another_thread() {
        struct Work(AtomicU8);

        impl Interrupt for Work {
            fn interrupt(&self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }

        let work = Arc::new(Work(AtomicU8::new(0)));
        let interrupts = || work.0.load(Ordering::SeqCst);
        let thread = WaitingThread(Arc::new(Signal::new()));
        assert!(thread.begin_work(work.clone()) && !thread.is_notified());
        thread.end_work();
        thread::scope(|scope| scope.spawn(|| thread.notify()).join().expect("no panic"));
        assert_eq!((interrupts(), thread.is_notified()), (0, true), "the work had ended");
        assert!(!thread.begin_work(work.clone()), "it was notified before");
        let thread = WaitingThread(Arc::new(Signal::new()));
        assert!(thread.begin_work(work.clone()));
        thread.notify();
        assert_eq!((interrupts(), thread.is_notified()), (0, true), "the thread itself checks its state");
        let thread = WaitingThread(Arc::new(Signal::new()));
        assert!(thread.begin_work(work.clone()));
        thread::scope(|scope| scope.spawn(|| thread.waker().wake()).join().expect("no panic"));
        assert_eq!((interrupts(), thread.is_notified()), (1, true));
        thread.end_work();
        assert!(thread.is_notified(), "a notification outlasts the work");
        assert_eq!(format!("{thread:?}"), "WaitingThread { is_notified: true, .. }");
    }
}
