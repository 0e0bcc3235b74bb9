//! Futures that run together.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
};

use super::lock::lock;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Futures that run together in one task. Only those that were woken are polled.
pub(crate) struct FutureSet<T> {
    futures: BTreeMap<u64, (BoxFuture<T>, Waker)>,
    next: u64,
    ready: Arc<Ready>,
}

/// The futures to poll.
#[derive(Default)]
struct Ready {
    numbers: Mutex<BTreeSet<u64>>,
    /// The task that waits for the next output.
    task: Mutex<Option<Waker>>,
}

/// Wakes one future.
struct OneOf {
    number: u64,
    ready: Arc<Ready>,
}

impl Wake for OneOf {
    fn wake(self: Arc<Self>) {
        lock(&self.ready.numbers).insert(self.number);
        let task = lock(&self.ready.task).take();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl<T> FutureSet<T> {
    pub(crate) fn new() -> Self {
        Self { futures: BTreeMap::new(), next: 0, ready: Arc::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.futures.len()
    }

    pub(crate) fn push(&mut self, future: impl Future<Output = T> + Send + 'static) {
        let number = self.next;
        self.next += 1;
        let waker = Waker::from(Arc::new(OneOf { number, ready: self.ready.clone() }));
        self.futures.insert(number, (Box::pin(future), waker));
        lock(&self.ready.numbers).insert(number);
    }

    /// Waits for the next output. Without futures it waits for ever.
    ///
    /// # Cancel safety
    /// Dropping the future loses no output.
    pub(crate) async fn next(&mut self) -> T {
        poll_fn(|cx| {
            // Before the futures are polled, so that no wake-up is lost.
            let before = lock(&self.ready.task).replace(cx.waker().clone());
            drop(before);
            loop {
                let Some(number) = lock(&self.ready.numbers).pop_first() else { return Poll::Pending };
                let Some((future, waker)) = self.futures.get_mut(&number) else { continue };
                if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                    self.futures.remove(&number);
                    return Poll::Ready(output);
                }
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::util::wait_queue::WaitQueue;

    #[test]
    fn only_woken_futures_are_polled() {
        let polls = Arc::new(AtomicUsize::new(0));
        let gates: Vec<Arc<(WaitQueue, AtomicUsize)>> = (0..10).map(|_| Arc::default()).collect();
        let mut set = FutureSet::new();
        for (number, gate) in gates.iter().enumerate() {
            let (gate, polls) = (gate.clone(), polls.clone());
            set.push(async move {
                let is_open = || gate.1.load(Ordering::SeqCst) > 0;
                let mut waiting = std::pin::pin!(gate.0.wait_for(|| is_open().then_some(number)));
                poll_fn(|cx| {
                    polls.fetch_add(1, Ordering::SeqCst);
                    waiting.as_mut().poll(cx)
                })
                .await
            });
        }
        let mut poll = || std::pin::pin!(set.next()).as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // All are polled once.
        assert_eq!(poll(), Poll::Pending);
        for (count, number) in [7, 3, 9].into_iter().enumerate() {
            gates[number].1.store(1, Ordering::SeqCst);
            gates[number].0.notify_all();
            assert_eq!((poll(), poll()), (Poll::Ready(number), Poll::Pending));
            assert_eq!(polls.load(Ordering::SeqCst), 10 + count + 1);
        }
        assert_eq!(set.len(), 7);
    }
}
