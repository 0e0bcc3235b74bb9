//! Results that become available later, for threads and for tasks.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Mutex,
    task::{Context, Poll, Waker},
};

use super::block_on::block_on;

/// A result that becomes available later: a thread [`wait`](Self::wait)s for it, a task awaits it.
///
/// A method that returns it has begun the operation as far as possible without waiting. The rest happens while it is
/// awaited, and dropping it cancels that rest.
#[must_use = "wait for it, or await it"]
pub struct Deferred<T>(DeferredState<T>);

enum DeferredState<T> {
    /// The result; `None` after it was taken.
    Ready(Option<T>),
    Running(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> Deferred<T> {
    /// Creates a result that is available at once.
    pub const fn ready(value: T) -> Self {
        Self(DeferredState::Ready(Some(value)))
    }

    /// Creates a result from a future. The future is first polled when the result is awaited.
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(DeferredState::Running(Box::pin(future)))
    }

    /// Creates a result from a future, and polls it once. Most futures are ready then and are dropped.
    pub(crate) fn poll_once(future: impl Future<Output = T> + Send + 'static) -> Self {
        let mut future = Box::pin(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Self::ready(value),
            Poll::Pending => Self(DeferredState::Running(future)),
        }
    }

    /// Returns the result if it is available and was not taken.
    pub(crate) fn try_take(self) -> Result<T, Self> {
        match self.0 {
            DeferredState::Ready(Some(value)) => Ok(value),
            state => Err(Self(state)),
        }
    }

    /// Puts the result into `place` if it is available. Returns the rest of the operation otherwise.
    pub(crate) fn ready_into(self, place: &mut Option<T>) -> Option<Self> {
        match self.0 {
            DeferredState::Ready(value) => {
                *place = value;
                None
            }
            running @ DeferredState::Running(_) => Some(Self(running)),
        }
    }

    /// Returns a reference to the result if it is available.
    pub(crate) const fn peek(&self) -> Option<&T> {
        match &self.0 {
            DeferredState::Ready(value) => value.as_ref(),
            DeferredState::Running(_) => None,
        }
    }

    /// Blocks the thread until the result is available. Do not call it in a task: it blocks all other tasks of the
    /// thread.
    pub fn wait(self) -> T {
        block_on(self)
    }

    /// Returns the result with a function applied to it.
    pub fn map<U>(self, f: impl FnOnce(T) -> U + Send + 'static) -> Deferred<U>
    where
        T: 'static,
    {
        match self.0 {
            DeferredState::Ready(value) => Deferred(DeferredState::Ready(value.map(f))),
            DeferredState::Running(running) => Deferred::new(async move { f(running.await) }),
        }
    }
}

/// A reusable allocation for futures of one type. Most are ready at once, and the next one takes their place.
pub(crate) struct FutureSlot<F>(Mutex<Option<Pin<Box<Option<F>>>>>);

impl<F> Default for FutureSlot<F> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<F: Future + Send + 'static> FutureSlot<F> {
    /// Creates a future and polls it once, as [`Deferred::poll_once`] does.
    pub(crate) fn poll_once(&self, future: impl FnOnce() -> F) -> Deferred<F::Output> {
        // User code runs under this lock, so other threads do not wait for it: they allocate instead.
        let Ok(mut slot) = self.0.try_lock() else { return self.poll_outside(future()) };
        let mut place = slot.take().unwrap_or_else(|| Box::pin(None));
        place.set(Some(future()));
        let mut polled = PolledFuture(place);
        match polled.poll_inline(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => {
                polled.0.set(None);
                *slot = Some(polled.0);
                Deferred::ready(value)
            }
            Poll::Pending => Deferred::new(polled),
        }
    }

    /// Polls a future once in memory of its own, because the slot is in use, or a panic has ended its use.
    #[cold]
    fn poll_outside(&self, future: F) -> Deferred<F::Output> {
        if self.0.is_poisoned() {
            self.0.clear_poison();
        }
        Deferred::poll_once(future)
    }
}

/// A future that was polled before.
struct PolledFuture<F>(Pin<Box<Option<F>>>);

impl<F: Future> PolledFuture<F> {
    #[inline]
    fn poll_inline(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        // The future is present until it is ready.
        self.0.as_mut().as_pin_mut().map_or(Poll::Pending, |future| future.poll(cx))
    }
}

impl<F: Future> Future for PolledFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.poll_inline(cx)
    }
}

/// The future is boxed, so the type itself needs no pinning.
impl<T> Unpin for Deferred<T> {}

impl<T> Future for Deferred<T> {
    type Output = T;

    /// Polls the value.
    ///
    /// # Panics
    /// If it was polled to its end before.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            DeferredState::Ready(value) => Poll::Ready(value.take().expect("a result comes once")),
            DeferredState::Running(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for Deferred<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = matches!(self.0, DeferredState::Ready(_));
        f.debug_struct("Deferred").field("is_there", &is_there).finish_non_exhaustive()
    }
}

/// Waits for a future, and returns its output, or the output of `other` as an error if that one is ready first.
pub(crate) async fn select_biased<T, U>(
    future: impl Future<Output = T>,
    other: impl Future<Output = U>,
) -> Result<T, U> {
    let (mut future, mut other) = (pin!(future), pin!(other));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Ok(value)),
        Poll::Pending => other.as_mut().poll(cx).map(Err),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::{future::poll_fn, sync::mpsc::channel};

    /// Stays pending for `turns` polls. Another thread wakes it each time.
    async fn after(mut turns: u32) -> u32 {
        let all = turns;
        poll_fn(move |cx| {
            if turns == 0 {
                return Poll::Ready(());
            }
            turns -= 1;
            let waker = cx.waker().clone();
            thread::spawn(move || waker.wake());
            Poll::Pending
        })
        .await;
        all
    }

    #[test]
    fn block_on_waits_until_ready() {
        assert_eq!(block_on(after(0)), 0);
        assert_eq!(block_on(after(50)), 50);
        assert_eq!(Deferred::ready(1).wait(), 1);
        assert_eq!(Deferred::new(after(3)).map(|turns| turns + 1).wait(), 4);
        assert_eq!(Deferred::ready(2).map(|it| it * 2).wait(), 4);
        assert_eq!(block_on(async { Deferred::ready(after(2).await).await }), 2);
    }

    #[test]
    fn nested_block_on_loses_no_wakeup() {
        let (wake_outer, outer) = channel::<Waker>();
        let (wake_inner, inner) = channel::<Waker>();
        let waking = thread::spawn(move || {
            // The outer one is woken while the thread waits for the inner one.
            let waker = inner.recv().expect("the inner future is polled");
            outer.recv().expect("the outer future is polled").wake();
            waker.wake();
        });
        let mut turns = 0;
        block_on(poll_fn(|cx| {
            turns += 1;
            match turns {
                1 => cx.waker().wake_by_ref(),
                2 => {
                    let _ = wake_outer.send(cx.waker().clone());
                    let mut inner_turns = 0;
                    block_on(poll_fn(|cx| {
                        inner_turns += 1;
                        match inner_turns {
                            1 => Poll::Pending,
                            2 => {
                                let _ = wake_inner.send(cx.waker().clone());
                                Poll::Pending
                            }
                            _ => Poll::Ready(()),
                        }
                    }));
                }
                _ => return Poll::Ready(()),
            }
            Poll::Pending
        }));
        waking.join().expect("no panic");
    }
}
