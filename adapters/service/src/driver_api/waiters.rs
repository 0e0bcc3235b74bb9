//! The wait queues of a connection: for room in its outbox, for a request slot, and for timers.

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    mem,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
};

use mcp_proto::{
    connection::{Connection, SendError},
    protocol::Phase,
    rpc::Timestamp,
};

use super::connection_handle::ConnectionHandle;
use crate::util::{lock::lock, wait_queue::WaitQueue};

/// The wait queues of a connection. A driver has one for each connection, with these duties:
///
/// - After each change of the connection, it gets the [`capacity`](Self::capacity) under the lock of the connection,
///   and [notifies](Self::notify) the waiters outside of it.
/// - It wakes up not later than at [`next_deadline`](Self::next_deadline), and [fires the timers](Self::fire_timers).
///
/// Waiters for room are woken one at a time, in the order in which they registered.
pub struct Waiters {
    /// Waiters with a message that is not a request. They do not wait for those with requests, which may depend on
    /// them.
    messages: WaitQueue,
    requests: WaitQueue,
    /// Waiters with requests on behalf of others. Few connections have them.
    shared: OnceLock<Box<WaitQueue>>,
    timers: Mutex<Timers>,
    /// The time of the first timer, in nanoseconds, so that a driver can check it without the lock. Written under their
    /// lock.
    earliest: AtomicU64,
}

#[derive(Default)]
struct Timers {
    next: u64,
    wakers: BTreeMap<(Timestamp, u64), Waker>,
}

/// Requests on behalf of others are sent while less output than this waits, in bytes. The next one has to wait until
/// what was sent before has left, so this is also about how far it is behind in the outbox.
const SHARED: usize = 1 << 20;

/// The time of a timer that is not set.
const NEVER: u64 = u64::MAX;

/// The queues whose first waiter can continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "waiters have to be notified of it"]
pub struct Capacity {
    messages: bool,
    requests: bool,
    shared: bool,
}

impl Waiters {
    /// Creates empty wait queues.
    #[must_use]
    pub fn new() -> Self {
        let (messages, requests, shared, timers) = Default::default();
        Self { messages, requests, shared, timers, earliest: AtomicU64::new(NEVER) }
    }

    /// Returns the queues whose first waiter can continue. Call it under the lock of the connection.
    pub fn capacity<E>(&self, connection: &Connection<E>) -> Capacity {
        Capacity {
            messages: !self.messages.is_empty() && connection.has_room(),
            requests: !self.requests.is_empty() && connection.has_room_for_request(),
            shared: self.shared.get().is_some_and(|shared| !shared.is_empty()) && has_shared_room(connection),
        }
    }

    /// Wakes the first waiter of each queue with room. The next one is woken after its attempt. Call it outside of the
    /// lock of the connection.
    pub fn notify(&self, capacity: Capacity) {
        if capacity.messages {
            self.messages.notify_one();
        }
        if capacity.requests {
            self.requests.notify_one();
        }
        if capacity.shared {
            self.shared.get().into_iter().for_each(|shared| shared.notify_one());
        }
    }

    /// Returns the time of the next timer.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        Some(self.earliest.load(Ordering::Acquire)).filter(|at| *at < NEVER).map(Timestamp::from_nanos)
    }

    /// Changes the timers.
    fn update_timers<T>(&self, f: impl FnOnce(&mut Timers) -> T) -> T {
        let mut timers = lock(&self.timers);
        let result = f(&mut timers);
        let earliest = timers.wakers.keys().next().map_or(NEVER, |(at, _)| at.as_nanos());
        self.earliest.store(earliest, Ordering::Release);
        result
    }

    /// Wakes all waiters whose timers are due at `now`.
    pub fn fire_timers(&self, now: Timestamp) {
        if self.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        let due = self.update_timers(|timers| {
            let later = timers.wakers.split_off(&(now, u64::MAX));
            mem::replace(&mut timers.wakers, later)
        });
        due.into_values().for_each(Waker::wake);
    }

    /// Sets a timer and returns its key. The driver has to compute its next deadline again after that.
    pub(crate) fn add_timer(&self, at: Timestamp, waker: Waker) -> (Timestamp, u64) {
        self.update_timers(|timers| {
            timers.next += 1;
            let key = (at, timers.next);
            timers.wakers.insert(key, waker);
            key
        })
    }

    /// Removes the timer with this key.
    pub(crate) fn remove_timer(&self, key: (Timestamp, u64)) {
        let gone = self.update_timers(|timers| timers.wakers.remove(&key));
        drop(gone);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiting_for_room() + lock(&self.timers).wakers.len()
    }

    #[cfg(test)]
    pub(crate) fn waiting_for_room(&self) -> usize {
        let shared = self.shared.get().map_or(0, |shared| shared.len());
        self.messages.len() + self.requests.len() + shared
    }
}

impl Default for Waiters {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").field("next_deadline", &self.next_deadline()).finish_non_exhaustive()
    }
}

impl<E: 'static> dyn ConnectionHandle<E> {
    /// Sends a message in turn, as soon as the outbox has room. `f` tries to send it with `update`, and is called again
    /// as long as it is refused as [`SendError::Busy`].
    ///
    /// # Errors
    /// Those of `f`.
    pub async fn when_writable<T>(&self, mut f: impl FnMut() -> Result<T, SendError>) -> Result<T, SendError> {
        self.waiters().messages.acquire(|| unless_busy(f())).await
    }

    /// Sends a request as `when_writable` sends a message.
    pub(crate) async fn when_request_slot<T>(
        &self,
        mut f: impl FnMut() -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        self.waiters().requests.acquire(|| unless_busy(f())).await
    }

    /// Sends a request on behalf of one of several clients, as soon as little output waits. `f` tries to send it as in
    /// `when_writable`.
    pub(crate) async fn when_shared_slot<T>(&self, f: impl Fn() -> Result<T, SendError>) -> Result<T, SendError> {
        let shared = self.waiters().shared.get_or_init(Box::default);
        shared.acquire(|| self.read(has_shared_room).then(|| unless_busy(f())).flatten()).await
    }

    /// Waits until a request would not be refused as [`SendError::Busy`], or the connection has ended.
    pub(crate) async fn wait_for_request_slot(&self) {
        self.waiters().requests.acquire(|| self.read(|conn| conn.has_room_for_request()).then_some(())).await;
    }

    /// Waits until a time of the connection's clock.
    pub(crate) async fn sleep_until(&self, at: Timestamp) {
        let mut timer = TimerGuard { waiters: self.waiters(), key: None };
        poll_fn(|cx| {
            timer.set(at, cx.waker());
            // This also makes the driver compute its next deadline again.
            if self.update(|_, now| now) >= at { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Returns whether so little output waits that a request on behalf of others is sent. It is always true once the
/// connection closes.
fn has_shared_room<E>(connection: &Connection<E>) -> bool {
    connection.phase() >= Phase::Draining
        || connection.has_room_for_request() && connection.usage().outbox_bytes < SHARED
}

fn unless_busy<T>(tried: Result<T, SendError>) -> Option<Result<T, SendError>> {
    Some(tried).filter(|tried| !matches!(tried, Err(SendError::Busy)))
}

/// The timer of a waiter. Dropping it removes the timer.
struct TimerGuard<'a> {
    waiters: &'a Waiters,
    key: Option<(Timestamp, u64)>,
}

impl TimerGuard<'_> {
    fn set(&mut self, at: Timestamp, waker: &Waker) {
        let before = self.waiters.update_timers(|timers| {
            let key = *self.key.get_or_insert_with(|| {
                timers.next += 1;
                (at, timers.next)
            });
            timers.wakers.insert(key, waker.clone())
        });
        // Dropping the waker may drop a task that has a timer, too.
        drop(before);
    }
}

impl Drop for TimerGuard<'_> {
    fn drop(&mut self) {
        let gone = self.key.and_then(|key| self.waiters.update_timers(|timers| timers.wakers.remove(&key)));
        drop(gone);
    }
}
