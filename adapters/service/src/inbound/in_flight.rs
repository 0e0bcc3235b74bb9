//! Requests of the peer in flight.

use std::{
    future::Future,
    mem,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_proto::{
    connection::CancelCause,
    rpc::{CallId, ReplyKey},
    schema::Meta,
    wire::{JsonObject, RawJson},
};

use super::{received::Received, request::RequestInfo};
use crate::{
    driver_api::deferred::select_biased,
    util::{lock::lock, wait_queue::WaitQueue},
};

/// The request or the task that a handler works on. Its messages belong to it.
#[derive(Clone, Debug)]
pub(crate) enum RequestOrigin {
    /// A request that waits for its response.
    Request(ReplyKey),
    /// A request that has become the task with this id (2025-11-25).
    Task(String),
}

/// The state of a request in flight, shared by its handler, the context and the code that cancels it.
pub struct InFlight<X> {
    pub(crate) origin: RequestOrigin,
    /// The `_meta` of the request, if `has_meta`. Its memory is kept for reuse.
    meta: Meta,
    has_meta: bool,
    /// Boxed, since few handlers need it, so that small requests stay small.
    pub(crate) info: OnceLock<Box<RequestInfo>>,
    /// The request as middleware sees it. Boxed, since few applications have middleware; the box is kept for reuse.
    pub(crate) received: OnceLock<Box<Received>>,
    /// The arguments that middleware has set in place of those of the request.
    pub(crate) arguments: OnceLock<Arc<JsonObject>>,
    /// The data of the role.
    pub(crate) role: X,
    /// A copy of `state.cancelled` that is read without the lock.
    is_cancelled: AtomicBool,
    state: Mutex<State>,
    /// The waiters for its cancellation, and those of a task for a request that waits for its result.
    waiting: WaitQueue,
}

#[derive(Default)]
struct State {
    cancelled: Option<CancelCause<'static>>,
    /// Requests to the peer that the handler waits for.
    calls: Vec<CallId>,
}

/// The data of a request in flight that only one of the two roles has.
pub trait RoleInFlight: Default + Send + Sync + 'static {
    /// Runs `f` on the entries that this thread keeps for reuse. Most requests end on the thread on which they began,
    /// and the next one reuses the entry. Returns `None` if the thread ends.
    fn with_pool<R>(f: impl FnOnce(&mut Vec<Arc<InFlight<Self>>>) -> R) -> Option<R>;

    /// Clears all state, so that other work can take the place.
    fn clear(&mut self) {}

    /// Returns the id of the task of the extension that it has become (2026-07-28).
    fn task_id(&self) -> Option<&str> {
        None
    }

    /// Returns whether its handler requires input, so that the response is `input_required` (2026-07-28).
    fn requires_input(&self) -> bool {
        false
    }
}

/// How many entries a thread keeps.
const MAX_POOLED: usize = 64;

/// The largest memory for `_meta` that an entry keeps, in bytes.
const MAX_META: usize = 1 << 10;

impl<X: RoleInFlight> InFlight<X> {
    fn new(origin: RequestOrigin) -> Self {
        Self {
            origin,
            meta: Meta::new(),
            has_meta: false,
            info: OnceLock::new(),
            received: OnceLock::new(),
            arguments: OnceLock::new(),
            role: X::default(),
            is_cancelled: AtomicBool::new(false),
            state: Mutex::default(),
            waiting: WaitQueue::default(),
        }
    }

    /// Returns an entry that this thread keeps for reuse.
    #[inline]
    pub(crate) fn from_pool() -> Option<Arc<Self>> {
        X::with_pool(Vec::pop).flatten()
    }

    /// Creates the entry of a request with this `_meta`, in `place` if there is one. `record` can record it for
    /// middleware.
    pub(crate) fn of_request(
        place: Option<Arc<Self>>,
        key: ReplyKey,
        meta: Option<&RawJson<'_>>,
        record: impl FnOnce(&mut Self),
    ) -> Arc<Self> {
        let origin = RequestOrigin::Request(key);
        let begin = |entry: &mut Self| {
            entry.has_meta = meta.is_some_and(|meta| entry.meta.replace_with(meta));
            record(entry);
        };
        if let Some(mut place) = place
            && let Some(free) = Arc::get_mut(&mut place)
        {
            free.origin = origin;
            begin(free);
            return place;
        }
        let mut new = Self::new(origin);
        begin(&mut new);
        Arc::new(new)
    }

    /// Returns the `_meta` of the request.
    pub(crate) fn meta(&self) -> Option<&Meta> {
        self.has_meta.then_some(&self.meta)
    }

    /// Records the request for middleware.
    pub(crate) fn record(&mut self, record: impl FnOnce(&mut Received)) {
        if self.received.get().is_none() {
            let _ = self.received.set(Box::default());
        }
        if let Some(received) = self.received.get_mut() {
            record(received);
        }
    }

    /// Clears the entry for reuse. There are no other references and no waiters.
    fn clear(&mut self) {
        self.origin = RequestOrigin::Task(String::new());
        self.meta.clear(MAX_META);
        self.has_meta = false;
        // One by one: a tuple of them would be moved before it is dropped.
        drop(self.info.take());
        drop(self.arguments.take());
        if let Some(received) = self.received.get_mut() {
            received.clear();
        }
        self.role.clear();
        *self.is_cancelled.get_mut() = false;
        let State { cancelled, calls } = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        *cancelled = None;
        calls.clear();
    }

    /// Creates the entry of the task `id`.
    pub(crate) fn of_task(id: String, meta: Option<Meta>) -> Arc<Self> {
        let has_meta = meta.is_some();
        Arc::new(Self { meta: meta.unwrap_or_default(), has_meta, ..Self::new(RequestOrigin::Task(id)) })
    }

    /// Recycles the entry of an ended request, unless it is still referenced.
    pub(crate) fn recycle(self: Arc<Self>) {
        if let Some(entry) = self.cleared() {
            X::with_pool(|pool| {
                if pool.len() < MAX_POOLED {
                    pool.push(entry);
                }
            });
        }
    }

    /// Returns the entry of an ended request without its data, unless it is still referenced.
    #[inline]
    pub(crate) fn cleared(mut self: Arc<Self>) -> Option<Arc<Self>> {
        Arc::get_mut(&mut self)?.clear();
        Some(self)
    }

    /// Cancels the request. Returns the requests to the peer that its handler waits for: they are cancelled with it.
    pub(crate) fn cancel(&self, cause: CancelCause<'static>) -> Vec<CallId> {
        let calls = {
            let mut state = lock(&self.state);
            state.cancelled.get_or_insert(cause);
            mem::take(&mut state.calls)
        };
        self.is_cancelled.store(true, Ordering::Release);
        self.waiting.notify_all();
        calls
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn cause(&self) -> Option<CancelCause<'static>> {
        lock(&self.state).cancelled.clone()
    }

    /// Notes that the handler waits for a request to the peer; returns `false` if it was cancelled before.
    pub(crate) fn add_call(&self, call: CallId) -> bool {
        let mut state = lock(&self.state);
        if state.cancelled.is_none() {
            state.calls.push(call);
        }
        state.cancelled.is_none()
    }

    /// Notes that a request to the peer has ended.
    pub(crate) fn remove_call(&self, call: CallId) {
        lock(&self.state).calls.retain(|other| *other != call);
    }

    /// Waits until `check` finds something. It is checked again after each [`notify`](Self::notify).
    pub(crate) async fn wait_for<T>(&self, check: impl FnMut() -> Option<T>) -> T {
        self.waiting.wait_for(check).await
    }

    pub(crate) fn notify(&self) {
        self.waiting.notify_all();
    }

    /// Waits until it is cancelled, and returns the cause.
    pub(crate) async fn cancelled(&self) -> CancelCause<'static> {
        self.waiting.wait_for(|| self.cause()).await
    }

    /// Waits for a future; returns `None` if this is cancelled first.
    pub(crate) async fn unless_cancelled<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        select_biased(future, self.cancelled()).await.ok()
    }
}

/// The peer's requests without a response yet, each in the slot of its request.
pub(crate) struct InFlightTable<X: RoleInFlight>(Mutex<Slots<X>>);

struct Slots<X> {
    requests: Vec<Option<(ReplyKey, Arc<InFlight<X>>)>>,
    /// The number of slots in use.
    taken: usize,
}

/// How many slots are kept when none of them is in use.
const MIN_CAPACITY: usize = 4;

impl<X: RoleInFlight> Default for InFlightTable<X> {
    fn default() -> Self {
        Self(Mutex::new(Slots { requests: Vec::new(), taken: 0 }))
    }
}

impl<X: RoleInFlight> InFlightTable<X> {
    /// Adds the entry of a request, in `place` if there is one.
    pub(crate) fn begin(
        &self,
        place: Option<Arc<InFlight<X>>>,
        key: ReplyKey,
        meta: Option<&RawJson<'_>>,
        record: impl FnOnce(&mut InFlight<X>),
    ) -> Arc<InFlight<X>> {
        let in_flight = InFlight::of_request(place, key, meta, record);
        let before = {
            let Slots { requests, taken } = &mut *lock(&self.0);
            if requests.len() <= key.slot() {
                requests.resize_with(key.slot() + 1, || None);
            }
            let before = requests[key.slot()].replace((key, in_flight.clone()));
            *taken += usize::from(before.is_none());
            before
        };
        // The earlier request of this slot has its response, and has not removed its entry yet.
        drop(before);
        in_flight
    }

    pub(crate) fn get(&self, key: ReplyKey) -> Option<Arc<InFlight<X>>> {
        let slots = lock(&self.0);
        slots.requests.get(key.slot())?.as_ref().filter(|(of, _)| *of == key).map(|(_, in_flight)| in_flight.clone())
    }

    pub(crate) fn end(&self, key: ReplyKey) {
        let ended = {
            let Slots { requests, taken } = &mut *lock(&self.0);
            let ended = requests.get_mut(key.slot()).and_then(|slot| slot.take_if(|(of, _)| *of == key));
            *taken -= usize::from(ended.is_some());
            if *taken == 0 && requests.len() > MIN_CAPACITY {
                requests.clear();
                requests.shrink_to(MIN_CAPACITY);
            }
            ended
        };
        drop(ended);
    }

    /// Cancels all requests in flight, because the connection has closed. Requests of their handlers have ended
    /// already.
    pub(crate) fn close(&self) {
        let mut requests: Vec<_> = lock(&self.0).requests.iter().flatten().cloned().collect();
        requests.sort_unstable_by_key(|(key, _)| *key);
        for (_, in_flight) in requests {
            in_flight.cancel(CancelCause::Closed);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::in_flight::ServerInFlight;

    #[test]
    fn clear_resets_in_flight_entry() {
        let mut in_flight: InFlight<ServerInFlight> = InFlight::new(RequestOrigin::Task("1".into()));
        (in_flight.meta, in_flight.has_meta) = (Meta::new(), true);
        in_flight.cancel(CancelCause::Closed);
        assert!(in_flight.arguments.set(Arc::new(JsonObject::empty())).is_ok());
        in_flight.clear();
        assert!(in_flight.arguments.get().is_none());
        assert!(!in_flight.is_cancelled() && in_flight.cause().is_none() && in_flight.meta().is_none());
        assert!(lock(&in_flight.state).calls.is_empty());
        assert!(matches!(in_flight.origin, RequestOrigin::Task(id) if id.is_empty()));
    }
}
