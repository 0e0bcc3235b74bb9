//! Where those wait who wait for a connection: for room in it, or for a moment.

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    mem,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
};

use mcp_proto::{
    connection::{Connection, SendError},
    rpc::Timestamp,
};

use super::connection_handle::ConnectionHandle;
use crate::util::{lock::lock, wait_queue::Queue};

/// Who waits for a connection. Each driver has one for each connection, and looks after it:
///
/// - whenever something was done to the connection, it asks for the [`vacancies`](Self::vacancies) under the lock of the
///   connection, and [announces](Self::announce) them outside of it;
/// - it wakes up not later than at [`next_alarm`](Self::next_alarm), and [rings](Self::ring).
///
/// However many wait, one at a time is woken for what there is room for, in the order in which they came.
pub struct Lobby {
    /// Those with something that is not a request. They never wait for those with requests, which may need them.
    messages: Queue,
    requests: Queue,
    alarms: Mutex<Alarms>,
    /// When the first of them rings, for those who ask often and hardly ever find one. It is written under their lock.
    first: AtomicU64,
}

#[derive(Default)]
struct Alarms {
    next: u64,
    wakers: BTreeMap<(Timestamp, u64), Waker>,
}

/// When an alarm rings that is not set.
const NEVER: u64 = u64::MAX;

/// For whom there is room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "waiters have to be notified of it"]
pub struct Vacancies {
    messages: bool,
    requests: bool,
}

impl Lobby {
    /// A lobby without anybody in it.
    #[must_use]
    pub fn new() -> Self {
        let (messages, requests, alarms) = Default::default();
        Self { messages, requests, alarms, first: AtomicU64::new(NEVER) }
    }

    /// Returns which waiters there is room for.
    pub fn vacancies<E>(&self, connection: &Connection<E>) -> Vacancies {
        Vacancies {
            messages: !self.messages.is_empty() && connection.has_room(),
            requests: !self.requests.is_empty() && connection.has_room_for_request(),
        }
    }

    /// Wakes the first waiter of each queue with room. When it has had its turn, the next one may try.
    pub fn announce(&self, vacancies: Vacancies) {
        if vacancies.messages {
            self.messages.wake_first();
        }
        if vacancies.requests {
            self.requests.wake_first();
        }
    }

    /// Returns the time of the next alarm.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Timestamp> {
        Some(self.first.load(Ordering::Acquire)).filter(|at| *at < NEVER).map(Timestamp::from_nanos)
    }

    /// Changes the alarms.
    fn change<T>(&self, f: impl FnOnce(&mut Alarms) -> T) -> T {
        let mut alarms = lock(&self.alarms);
        let result = f(&mut alarms);
        let first = alarms.wakers.keys().next().map_or(NEVER, |(at, _)| at.as_nanos());
        self.first.store(first, Ordering::Release);
        result
    }

    /// Wakes all waiters whose alarms are due at `now`.
    pub fn ring(&self, now: Timestamp) {
        if self.next_alarm().is_none_or(|at| at > now) {
            return;
        }
        let due = self.change(|alarms| {
            let later = alarms.wakers.split_off(&(now, u64::MAX));
            mem::replace(&mut alarms.wakers, later)
        });
        due.into_values().for_each(Waker::wake);
    }

    /// Sets an alarm and returns its key. The driver has to compute its next deadline again after that.
    pub(crate) fn arm(&self, at: Timestamp, waker: Waker) -> (Timestamp, u64) {
        self.change(|alarms| {
            alarms.next += 1;
            let place = (at, alarms.next);
            alarms.wakers.insert(place, waker);
            place
        })
    }

    /// Removes the alarm with this key.
    pub(crate) fn disarm(&self, place: (Timestamp, u64)) {
        let gone = self.change(|alarms| alarms.wakers.remove(&place));
        drop(gone);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.messages.len() + self.requests.len() + lock(&self.alarms).wakers.len()
    }
}

impl Default for Lobby {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Lobby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lobby").field("next_alarm", &self.next_alarm()).finish_non_exhaustive()
    }
}

impl<E: 'static> dyn ConnectionHandle<E> {
    /// Says something as soon as there is room for it, and its turn: `f` tries under `update`, and is called again
    /// until it is not refused as [`SendError::Busy`].
    ///
    /// # Errors
    /// Those of `f`.
    pub async fn when_writable<T>(&self, mut f: impl FnMut() -> Result<T, SendError>) -> Result<T, SendError> {
        self.lobby().messages.in_turn(|| unless_busy(f())).await
    }

    /// As `when_writable`, for a request.
    pub(crate) async fn when_request_slot<T>(
        &self,
        mut f: impl FnMut() -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        self.lobby().requests.in_turn(|| unless_busy(f())).await
    }

    /// Waits until a request would not be refused as [`SendError::Busy`], or the connection has ended.
    pub(crate) async fn wait_for_request_slot(&self) {
        self.lobby().requests.in_turn(|| self.read(|conn| conn.has_room_for_request()).then_some(())).await;
    }

    /// Waits until then.
    pub(crate) async fn sleep_until(&self, at: Timestamp) {
        let mut alarm = Alarm { lobby: self.lobby(), place: None };
        poll_fn(|cx| {
            alarm.set(at, cx.waker());
            // This also makes the driver look when it has to wake up.
            if self.update(|_, now| now) >= at { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

fn unless_busy<T>(tried: Result<T, SendError>) -> Option<Result<T, SendError>> {
    Some(tried).filter(|tried| !matches!(tried, Err(SendError::Busy)))
}

/// The place of one who waits for a moment.
struct Alarm<'a> {
    lobby: &'a Lobby,
    place: Option<(Timestamp, u64)>,
}

impl Alarm<'_> {
    fn set(&mut self, at: Timestamp, waker: &Waker) {
        let before = self.lobby.change(|alarms| {
            let place = *self.place.get_or_insert_with(|| {
                alarms.next += 1;
                (at, alarms.next)
            });
            alarms.wakers.insert(place, waker.clone())
        });
        // It may hold the last of a task, with an alarm of its own.
        drop(before);
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        let gone = self.place.and_then(|place| self.lobby.change(|alarms| alarms.wakers.remove(&place)));
        drop(gone);
    }
}
