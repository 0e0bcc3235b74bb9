//! One operation for all callers that need its result at the same time.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll},
};

use mcp_service::driver_api::WaitQueue;

use crate::sync::lock;

type Operation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An operation that runs at most once at a time. One of the callers that wait for it polls it. If that caller is
/// dropped, the operation keeps its state, and the next caller polls it.
#[derive(Default)]
pub(super) struct SingleFlight {
    state: Mutex<State>,
    waiting: WaitQueue,
}

#[derive(Default)]
struct State {
    /// The operation, while no caller polls it.
    parked: Option<Operation>,
    is_driven: bool,
    /// The number of operations that have ended.
    ended: u64,
}

/// The state of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is no operation.
    Idle,
    /// The operation has begun, and no caller polls it: the callers that waited for it were dropped.
    Parked,
    /// A caller polls the operation.
    Driven,
}

/// The demand of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// The caller does not wait.
    Nothing,
    /// The caller waits for the end of the operation, and begins one if there is none.
    Wait,
    /// The caller begins a new operation, unless another caller polls the current one.
    Restart,
}

impl SingleFlight {
    /// Calls `demand` once, under a lock, and waits for the end of the operation if it returns `Wait` or `Restart`. Of
    /// several callers, only one finds that there is no operation.
    ///
    /// If the operation panics, it has ended for all callers that wait for it.
    pub(super) async fn run<F: Future<Output = ()> + Send + 'static>(
        &self,
        demand: impl FnOnce(Progress) -> Demand,
        begin: impl FnOnce() -> F,
    ) {
        let (first, ended, stale) = {
            let mut state = lock(&self.state);
            let demand = demand(state.progress());
            if demand == Demand::Nothing {
                return;
            }
            let stale = state.parked.take_if(|_| demand == Demand::Restart);
            (self.drive(&mut state), state.ended, stale)
        };
        drop(stale);
        let attempt = || {
            let mut state = lock(&self.state);
            if state.ended == ended { self.drive(&mut state).map(Some) } else { Some(None) }
        };
        let driver = match first {
            Some(driver) => Some(driver),
            None => self.waiting.acquire(attempt).await,
        };
        let Some(mut driver) = driver else { return };
        driver.operation.get_or_insert_with(|| Box::pin(begin()));
        poll_fn(|cx| driver.poll(cx)).await;
    }

    /// Takes the operation, unless another caller polls it.
    fn drive(&self, state: &mut State) -> Option<Driver<'_>> {
        if std::mem::replace(&mut state.is_driven, true) {
            return None;
        }
        Some(Driver { flight: self, operation: state.parked.take() })
    }
}

impl State {
    const fn progress(&self) -> Progress {
        match (self.is_driven, &self.parked) {
            (true, _) => Progress::Driven,
            (false, Some(_)) => Progress::Parked,
            (false, None) => Progress::Idle,
        }
    }
}

/// The caller that polls the operation. On drop, the operation passes to the next caller, unless it has ended.
struct Driver<'a> {
    flight: &'a SingleFlight,
    operation: Option<Operation>,
}

impl Driver<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The operation is not put back if it panics.
        let Some(mut operation) = self.operation.take() else { return Poll::Ready(()) };
        if operation.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        self.operation = Some(operation);
        Poll::Pending
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.flight.state);
        state.is_driven = false;
        state.parked = self.operation.take();
        if state.parked.is_none() {
            state.ended += 1;
        }
        drop(state);
        self.flight.waiting.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Wake, Waker},
    };

    /// Returns an operation that ends after it was polled again.
    fn twice(begun: &Arc<AtomicUsize>) -> impl Future<Output = ()> + Send + 'static {
        begun.fetch_add(1, Ordering::SeqCst);
        let mut is_first = true;
        poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
        })
    }

    #[test]
    fn callers_share_one_operation() {
        let (flight, begun) = (SingleFlight::default(), Arc::new(AtomicUsize::new(0)));
        let cx = &mut Context::from_waker(Waker::noop());
        let mut first = Box::pin(flight.run(|_| Demand::Wait, || twice(&begun)));
        let mut second = pin!(flight.run(|_| Demand::Wait, || twice(&begun)));
        assert!(first.as_mut().poll(cx).is_pending());
        assert!(second.as_mut().poll(cx).is_pending());
        // The one that has begun it does not have to stay.
        drop(first);
        assert!(second.as_mut().poll(cx).is_ready());
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        let mut late = pin!(flight.run(|_| Demand::Wait, || twice(&begun)));
        assert!(late.as_mut().poll(cx).is_pending());
        assert!(late.as_mut().poll(cx).is_ready());
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn abandoned_operation_is_resumed_or_restarted() {
        let (flight, begun) = (SingleFlight::default(), Arc::new(AtomicUsize::new(0)));
        let cx = &mut Context::from_waker(Waker::noop());
        let demand = |expected: Progress, demand: Demand| {
            move |progress| {
                assert_eq!(progress, expected);
                demand
            }
        };
        let mut run = |expected, wanted, polls: usize| {
            let mut call = pin!(flight.run(demand(expected, wanted), || twice(&begun)));
            let polled = (0..polls).map(|_| call.as_mut().poll(cx).is_ready()).last();
            (polled, begun.load(Ordering::SeqCst))
        };
        assert_eq!(run(Progress::Idle, Demand::Nothing, 1), (Some(true), 0));
        assert_eq!(run(Progress::Idle, Demand::Wait, 1), (Some(false), 1));
        assert_eq!(run(Progress::Parked, Demand::Nothing, 1), (Some(true), 1));
        assert_eq!(run(Progress::Parked, Demand::Restart, 1), (Some(false), 2));
        assert_eq!(run(Progress::Parked, Demand::Wait, 1), (Some(true), 2));
        assert_eq!(run(Progress::Idle, Demand::Wait, 2), (Some(true), 3));
    }

    /// Counts how often it was woken.
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn wakes_waiters_once_and_drops_their_wakers() {
        const CROWD: usize = 1000;
        let (flight, woken) = (SingleFlight::default(), Arc::new(Count(AtomicUsize::new(0))));
        let waker = Waker::from(woken.clone());
        let cx = &mut Context::from_waker(&waker);
        let mut polled = 0;
        let slow = poll_fn(move |_| {
            polled += 1;
            if polled > CROWD { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut first = pin!(flight.run(|_| Demand::Wait, || slow));
        let wait = || Box::pin(flight.run(|_| Demand::Wait, || async { unreachable!("there is one") }));
        assert!(first.as_mut().poll(cx).is_pending());
        let mut crowd: Vec<_> = (0..CROWD).map(|_| wait()).collect();
        assert!(crowd.iter_mut().all(|call| call.as_mut().poll(cx).is_pending()));
        let gone: Vec<_> = crowd.drain(CROWD / 2..).collect();
        drop(gone);
        assert_eq!(Arc::strong_count(&woken), 2 + crowd.len(), "no waker of a dropped call stays");
        while first.as_mut().poll(cx).is_pending() {}
        assert!(crowd.iter_mut().all(|call| call.as_mut().poll(cx).is_ready()));
        assert!(woken.0.load(Ordering::SeqCst) <= 2 * CROWD, "{:?}", woken.0);
    }

    #[test]
    fn panicking_operation_releases_waiters() {
        let flight = SingleFlight::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let mut polled = 0;
        let panics = poll_fn(move |_| {
            polled += 1;
            assert_eq!(polled, 1, "it panics");
            Poll::Pending
        });
        let mut first = Box::pin(flight.run(|_| Demand::Wait, || panics));
        let mut second = pin!(flight.run(|_| Demand::Wait, || async { unreachable!("there is one") }));
        assert!(first.as_mut().poll(cx).is_pending());
        assert!(second.as_mut().poll(cx).is_pending());
        assert!(catch_unwind(AssertUnwindSafe(|| first.as_mut().poll(cx))).is_err());
        drop(first);
        assert!(second.as_mut().poll(cx).is_ready());
        let mut next = pin!(flight.run(|_| Demand::Wait, || async {}));
        assert!(next.as_mut().poll(cx).is_ready());
    }
}
