//! A queue of threads and tasks that wait for the same condition.

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::{Poll, Waker},
};

use super::lock::lock;

/// A queue of threads and tasks that wait for the same condition, in the order in which they registered.
///
/// A waiter registers before it checks its condition. A notifier changes the condition before it notifies. If both do
/// so under the same lock, no notification is lost. Dropping a waiting future removes it from the queue.
#[derive(Default)]
pub struct WaitQueue {
    registrations: Mutex<Registrations>,
    /// The number of waiters. A notifier reads it without the lock, since there is hardly ever a waiter.
    ///
    /// Each connection has several queues, so the counters take 32 bits.
    length: AtomicU32,
    /// The number of calls that woke all waiters. Most polls of a waiter have another cause.
    notifications: AtomicU32,
}

#[derive(Default)]
struct Registrations {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
    /// Set when the first waiter was woken and has not finished its check.
    first_notified: bool,
}

impl WaitQueue {
    /// Creates a queue without waiters.
    #[must_use]
    pub const fn new() -> Self {
        let registrations = Registrations { next: 0, wakers: BTreeMap::new(), first_notified: false };
        Self { registrations: Mutex::new(registrations), length: AtomicU32::new(0), notifications: AtomicU32::new(0) }
    }

    /// Waits until `check` finds something. Waiters check again only when [all are woken](Self::notify_all).
    pub async fn wait_for<T>(&self, mut check: impl FnMut() -> Option<T>) -> T {
        let mut registration = Registration { queue: self, number: None };
        let mut known: Option<(Waker, u32)> = None;
        poll_fn(|cx| {
            let notifications = self.notifications.load(Ordering::Acquire);
            match &mut known {
                // A registered waiter is woken for every later change. Most polls have another cause.
                Some((waker, seen)) if waker.will_wake(cx.waker()) => {
                    if *seen == notifications {
                        return Poll::Pending;
                    }
                    *seen = notifications;
                }
                known => {
                    // Most callers check once, and do not wait.
                    if let Some(found) = check() {
                        return Poll::Ready(found);
                    }
                    registration.take(cx.waker());
                    *known = Some((cx.waker().clone(), notifications));
                }
            }
            check().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits until `attempt` succeeds. Only the first waiter tries; the next one tries when it has succeeded or was
    /// dropped. So room for one waiter wakes one, however many there are.
    pub async fn acquire<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        let mut registration = Registration { queue: self, number: None };
        poll_fn(|cx| {
            if !registration.take(cx.waker()) {
                return Poll::Pending;
            }
            // No wake-up arrives during the first attempt, so a change during it needs a second one.
            let found = attempt().or_else(|| {
                lock(&self.registrations).first_notified = false;
                attempt()
            });
            found.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Wakes the first waiter, unless it was woken already and has not finished its check.
    pub fn notify_one(&self) {
        if self.is_empty() {
            return;
        }
        let waker = lock(&self.registrations).take_first();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        if self.is_empty() {
            return;
        }
        self.notifications.fetch_add(1, Ordering::Release);
        let wakers: Vec<_> = lock(&self.registrations).wakers.values().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns whether there are no waiters. One that registers after this check checks its condition itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.registrations).wakers.len()
    }
}

impl fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitQueue").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Registrations {
    fn take_first(&mut self) -> Option<Waker> {
        let first = self.wakers.values().next().filter(|_| !self.first_notified)?;
        self.first_notified = true;
        Some(first.clone())
    }
}

/// The place of a waiter in the queue.
struct Registration<'a> {
    queue: &'a WaitQueue,
    number: Option<u64>,
}

impl Registration<'_> {
    /// Takes a place, or keeps it. Returns whether it is the first one.
    fn take(&mut self, waker: &Waker) -> bool {
        let mut registrations = lock(&self.queue.registrations);
        let number = *self.number.get_or_insert_with(|| {
            self.queue.length.fetch_add(1, Ordering::Relaxed);
            registrations.next += 1;
            registrations.next
        });
        let is_known = registrations.wakers.get(&number).is_some_and(|known| known.will_wake(waker));
        let before = if is_known { None } else { registrations.wakers.insert(number, waker.clone()) };
        let is_first = registrations.wakers.keys().next() == Some(&number);
        registrations.first_notified |= is_first;
        // Dropping the last waker of a task may drop another registration, which needs the lock.
        drop(registrations);
        drop(before);
        is_first
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut registrations = lock(&self.queue.registrations);
        let was_first = registrations.wakers.keys().next() == Some(&number);
        let gone = registrations.wakers.remove(&number);
        self.queue.length.fetch_sub(1, Ordering::Relaxed);
        // The next waiter gets the notification.
        let next = was_first.then(|| {
            registrations.first_notified = false;
            registrations.take_first()
        });
        drop(registrations);
        drop(gone);
        if let Some(waker) = next.flatten() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        cell::Cell,
        future::Future,
        pin::pin,
        sync::{Arc, atomic::AtomicBool},
        task::{Context, Wake},
        thread,
    };

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Count {
        fn take(&self) -> u32 {
            self.0.swap(0, Ordering::SeqCst)
        }
    }

    #[test]
    fn notify_one_wakes_one_waiter() {
        let (queue, room) = (WaitQueue::default(), Cell::new(0));
        let attempt = || {
            let left = room.get();
            room.set(left.max(1) - 1);
            (left > 0).then_some(())
        };
        let counts: Vec<Arc<Count>> = (0..100).map(|_| Arc::default()).collect();
        let wakers: Vec<_> = counts.iter().map(|count| Waker::from(count.clone())).collect();
        let mut waiting: Vec<_> = (0..100).map(|_| Some(Box::pin(queue.acquire(attempt)))).collect();
        let mut poll = |number: usize| {
            let future = waiting[number].as_mut().expect("it waits");
            let is_done = future.as_mut().poll(&mut Context::from_waker(&wakers[number])).is_ready();
            if is_done {
                waiting[number] = None;
            }
            is_done
        };
        let woken = || counts.iter().enumerate().filter(|(_, count)| count.take() > 0).map(|(number, _)| number);
        assert!((0..100).all(|number| !poll(number)));
        assert_eq!(woken().count(), 0);
        // One permit is free, and two notifications are sent.
        room.set(1);
        queue.notify_one();
        queue.notify_one();
        assert_eq!(woken().collect::<Vec<_>>(), [0]);
        assert!(!poll(7), "it is not its turn");
        assert!(poll(0));
        // The next waiter is notified, and checks the condition itself.
        assert_eq!(woken().collect::<Vec<_>>(), [1]);
        assert!(!poll(1));
        // Two permits are free, and a notified waiter is dropped.
        room.set(2);
        queue.notify_one();
        waiting[1] = None;
        assert_eq!(woken().collect::<Vec<_>>(), [1, 2]);
        let mut poll = |number: usize| {
            let future = waiting[number].as_mut().expect("it waits");
            let is_done = future.as_mut().poll(&mut Context::from_waker(&wakers[number])).is_ready();
            if is_done {
                waiting[number] = None;
            }
            is_done
        };
        assert!(poll(2) && poll(3));
        assert_eq!(woken().collect::<Vec<_>>(), [3, 4]);
        drop(waiting);
        assert_eq!((queue.len(), queue.length.load(Ordering::SeqCst)), (0, 0));
    }

    #[test]
    fn condition_is_checked_only_when_woken() {
        let (queue, checks, open) = (WaitQueue::default(), Cell::new(0), Cell::new(false));
        let check = || {
            checks.set(checks.get() + 1);
            open.get().then_some(())
        };
        let counts: Vec<Arc<Count>> = (0..2).map(|_| Arc::default()).collect();
        let wakers: Vec<_> = counts.iter().map(|count| Waker::from(count.clone())).collect();
        let mut waiting = pin!(queue.wait_for(check));
        let mut poll = |number: usize| {
            let is_done = waiting.as_mut().poll(&mut Context::from_waker(&wakers[number])).is_ready();
            (is_done, checks.take())
        };
        // Before and after it has taken its place.
        assert_eq!(poll(0), (false, 2));
        assert_eq!((poll(0), poll(0)), ((false, 0), (false, 0)));
        queue.notify_all();
        assert_eq!((counts[0].take(), poll(0), poll(0)), (1, (false, 1), (false, 0)));
        // Another task polls it now.
        assert_eq!((poll(1), poll(1)), ((false, 2), (false, 0)));
        open.set(true);
        queue.notify_all();
        assert_eq!((counts[0].take(), counts[1].take(), poll(1)), (0, 1, (true, 1)));
    }

    #[test]
    fn notify_all_wakes_all_waiters() {
        let (queue, open) = (WaitQueue::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let threads: Vec<_> = (0..20)
                .map(|_| {
                    scope.spawn(|| {
                        crate::driver_api::block_on::block_on(
                            queue.wait_for(|| open.load(Ordering::SeqCst).then_some(())),
                        )
                    })
                })
                .collect();
            while queue.len() < 20 {
                thread::yield_now();
            }
            open.store(true, Ordering::SeqCst);
            queue.notify_all();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn condition_is_checked_after_registration() {
        let (queue, checks) = (WaitQueue::default(), Cell::new(0));
        let mut waiting = pin!(queue.wait_for(|| {
            checks.set(checks.get() + 1);
            (checks.get() == 2).then_some(())
        }));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}
