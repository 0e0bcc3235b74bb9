//! The requests of this side in flight, and their waiters.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::Context,
};

use mcp_proto::{
    connection::{CloseReason, Event, Progress},
    rpc::CallId,
    schema::TraceContext,
    wire::RawJson,
};

use super::{cancel::CancelCall, error::CallError, response_slot::ResponseSlot, subscriptions::Subscriptions};
use crate::{
    driver_api::{
        block_on::WaitingThread, connection_handle::ConnectionHandle, current_handler::is_in_handler,
        deferred::Deferred,
    },
    util::{lock::lock, wait_queue::WaitQueue},
};

/// The application's function that returns the trace of the running code.
pub(crate) type Tracer = Arc<dyn Fn() -> Option<TraceContext> + Send + Sync>;

/// The pending requests of this side on one connection.
///
/// Every session has one. It takes the events of these requests and passes them to the threads and tasks that wait. So
/// a request blocks no thread, except one that waits for it.
pub struct Calls<E> {
    connection: OnceLock<Weak<dyn ConnectionHandle<E>>>,
    /// Whether tasks that wait do work of the driver.
    drives_in_tasks: OnceLock<bool>,
    /// Whether the connection holds requests back until one of them is awaited.
    holds_requests: OnceLock<bool>,
    /// The number of the connection, unique in the process.
    number: u64,
    /// Returns the trace of requests without one in their options.
    tracer: Option<Tracer>,
    /// The subscriptions, on this connection and on earlier and later ones (clients).
    subscriptions: Subscriptions,
    /// Its lock is taken after that of the connection. Nothing is woken under it, and no slot is dropped: both may run
    /// code that takes the lock of a connection.
    table: Mutex<Table>,
    /// The waiters for another state of the connection.
    state_changed: WaitQueue,
}

#[derive(Default)]
struct Table {
    waiting: HashMap<CallId, Entry, BuildHasherDefault<CallHasher>>,
    state: ConnectionState,
}

/// Hashes the ids of calls. This side assigns them in ascending order, so no peer can make them collide.
#[derive(Default)]
struct CallHasher(u64);

impl Hasher for CallHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // An odd factor, so that the low bits of consecutive numbers differ. The upper ones depend on all bits.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Entry {
    slot: Arc<ResponseSlot>,
    /// Set for a request for a task: progress is still reported after its response, until the entry is removed.
    follows: bool,
}

#[derive(Default)]
enum ConnectionState {
    #[default]
    Opening,
    Ready,
    Closed(CloseReason),
}

impl<E> Default for Calls<E> {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            connection: OnceLock::new(),
            drives_in_tasks: OnceLock::new(),
            holds_requests: OnceLock::new(),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            tracer: None,
            subscriptions: Subscriptions::new(),
            table: Mutex::default(),
            state_changed: WaitQueue::default(),
        }
    }
}

impl<E: 'static> Calls<E> {
    /// Creates an empty table with these subscriptions.
    pub(crate) fn with_subscriptions(subscriptions: Subscriptions, tracer: Option<Tracer>) -> Self {
        Self { subscriptions, tracer, ..Self::default() }
    }

    /// Returns the trace of the code that sends a request now.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.tracer.as_ref().and_then(|tracer| tracer())
    }

    /// Takes the events of requests of this side, and returns the others. It notes [`Event::Ready`] and
    /// [`Event::Closed`] and returns them, too.
    pub fn handle<'a>(&self, event: Event<'a>) -> Option<Event<'a>> {
        match event {
            Event::Response { call, outcome } => {
                self.subscriptions.ended(self.number, call, &outcome);
                let slot = lock(&self.table).answered(call);
                if let Some(slot) = slot {
                    slot.complete(CallError::of(outcome));
                }
                None
            }
            Event::Progress { call, progress } => {
                let slot = lock(&self.table).waiting.get(&call).map(|entry| entry.slot.clone());
                if let Some(slot) = slot {
                    slot.progress(owned(progress));
                }
                None
            }
            Event::Task { call, task } => {
                let slot = lock(&self.table).waiting.get(&call).map(|entry| entry.slot.clone());
                if let Some(slot) = slot {
                    slot.task(task.into_owned());
                }
                None
            }
            Event::Ready => {
                self.set_state(ConnectionState::Ready);
                Some(event)
            }
            Event::Closed(ref reason) => {
                self.close(reason);
                Some(event)
            }
            event => Some(event),
        }
    }

    /// Ends every wait, as the last event of a connection does. Call it for a connection that is dropped without that
    /// event.
    pub fn close(&self, reason: &CloseReason) {
        self.set_state(ConnectionState::Closed(reason.clone()));
        self.subscriptions.lost(self.number);
        // The connection has ended its calls before. If it could not, the remaining waiters end here.
        let left = std::mem::take(&mut lock(&self.table).waiting);
        for entry in left.into_values() {
            entry.slot.complete(Err(CallError::Closed(reason.clone())));
        }
    }

    fn set_state(&self, state: ConnectionState) {
        let mut table = lock(&self.table);
        if !matches!(table.state, ConnectionState::Closed(_)) {
            table.state = state;
        }
        drop(table);
        self.state_changed.notify_all();
    }

    /// Waits until the handshake is over. Fails with the reason if the connection has ended before.
    pub fn ready(self: &Arc<Self>) -> Deferred<Result<(), CloseReason>> {
        self.wait_for(|state| match state {
            ConnectionState::Opening => None,
            ConnectionState::Ready => Some(Ok(())),
            ConnectionState::Closed(reason) => Some(Err(reason.clone())),
        })
    }

    /// Waits until the connection has ended, and returns the reason.
    pub fn closed(self: &Arc<Self>) -> Deferred<CloseReason> {
        self.wait_for(|state| match state {
            ConnectionState::Opening | ConnectionState::Ready => None,
            ConnectionState::Closed(reason) => Some(reason.clone()),
        })
    }

    fn wait_for<R: Send + 'static>(self: &Arc<Self>, f: fn(&ConnectionState) -> Option<R>) -> Deferred<R> {
        let calls = self.clone();
        Deferred::new(async move { calls.state_changed.wait_for(|| f(&lock(&calls.table).state)).await })
    }

    /// Returns the reason for which the connection has ended, if it has.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        match &lock(&self.table).state {
            ConnectionState::Closed(reason) => Some(reason.clone()),
            ConnectionState::Opening | ConnectionState::Ready => None,
        }
    }

    /// Returns the number of requests in flight, including those with a response whose task is still followed.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.table).waiting.len()
    }

    /// Returns whether no request is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a request. Call it under the lock of the connection on which `call` was just made, so that the response
    /// cannot arrive before.
    pub(crate) fn insert(&self, call: CallId, follows: bool) -> Arc<ResponseSlot> {
        let slot = Arc::new(ResponseSlot::default());
        lock(&self.table).waiting.insert(call, Entry { slot: slot.clone(), follows });
        slot
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the subscriptions.
    pub(crate) const fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Completes the call of a subscription when the server acknowledges it, instead of when it ends.
    pub(crate) fn acknowledged(&self, call: CallId, params: &RawJson<'_>) {
        if self.subscriptions.acknowledged(self.number, call, params) {
            let slot = lock(&self.table).waiting.remove(&call).map(|entry| entry.slot);
            if let Some(slot) = slot {
                slot.complete(Ok(params.clone().into_owned()));
            }
        }
    }

    /// Redirects the progress of a followed request to a new slot.
    pub(crate) fn redirect(&self, call: CallId, slot: &Arc<ResponseSlot>) {
        let before = {
            let mut table = lock(&self.table);
            let Some(entry) = table.waiting.get_mut(&call) else { return };
            let before = std::mem::replace(&mut entry.slot, slot.clone());
            // Under the lock, so that it stays in order. Nothing waits for the new slot yet.
            for progress in before.take_progress() {
                slot.progress(progress);
            }
            before
        };
        // It may have the waker of a task that no longer waits.
        drop(before);
    }

    /// Returns the connection, unless its driver was dropped. A session must not keep its own connection alive.
    pub(crate) fn connection(&self) -> Option<Arc<dyn ConnectionHandle<E>>> {
        self.connection.get()?.upgrade()
    }

    pub(crate) fn attach(&self, connection: &Arc<dyn ConnectionHandle<E>>) {
        self.connection.get_or_init(|| Arc::downgrade(connection));
        self.drives_in_tasks.get_or_init(|| connection.drives_in_tasks());
        self.holds_requests.get_or_init(|| connection.holds_requests());
    }
}

fn owned(Progress { progress, total, message }: Progress<'_>) -> Progress<'static> {
    Progress { progress, total, message: message.map(|message| Cow::Owned(message.into_owned())) }
}

impl Table {
    fn answered(&mut self, call: CallId) -> Option<Arc<ResponseSlot>> {
        match self.waiting.get(&call)?.follows {
            true => self.waiting.get(&call).map(|entry| entry.slot.clone()),
            false => self.waiting.remove(&call).map(|entry| entry.slot),
        }
    }
}

impl<E: 'static> CancelCall for Calls<E> {
    fn cancel(&self, call: CallId, reason: Option<&str>) {
        if let Some(connection) = self.connection() {
            // If the call has ended in the meantime, there is nothing to cancel.
            let _ = connection.update(|conn, _| conn.cancel(call, reason));
        }
    }

    fn forget(&self, call: CallId) {
        let forgotten = lock(&self.table).waiting.remove(&call);
        // Its slot may have the waker of a task that no longer waits.
        drop(forgotten);
    }

    fn drive(&self, thread: &WaitingThread) {
        if let Some(connection) = self.connection() {
            connection.drive(thread);
        }
    }

    fn poll_drive(&self, call: CallId, cx: &Context<'_>) -> bool {
        let drives = self.drives_in_tasks.get() == Some(&true) && !is_in_handler();
        if drives && let Some(connection) = self.connection() {
            connection.poll_drive(call, cx);
        }
        if self.holds_requests.get() == Some(&true)
            && let Some(connection) = self.connection()
        {
            connection.flush();
        }
        drives
    }

    fn end_drive(&self, call: CallId) {
        if let Some(connection) = self.connection() {
            connection.end_drive(call);
        }
    }
}

impl<E> fmt::Debug for Calls<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("waiting", &lock(&self.table).waiting.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Wake, Waker};

    use mcp_proto::connection::ClientRole;

    use super::*;
    use crate::{
        server::{service::Service, tool::Tool},
        testing::TestClient,
    };

    /// Notes whether the lock of a table of calls is free when it is dropped.
    struct TryLock {
        calls: Arc<Calls<ClientRole>>,
        free: Arc<Mutex<Option<bool>>>,
    }

    impl Wake for TryLock {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for TryLock {
        fn drop(&mut self) {
            *lock(&self.free) = Some(self.calls.table.try_lock().is_ok());
        }
    }

    #[test]
    fn slots_are_dropped_outside_of_the_lock() {
        let service = Service::builder("test", "1.0.0").tool(Tool::new("wait", || "done")).build().expect("a service");
        let client = TestClient::new(&service);
        let call = client.server().call_tool("wait", ()).expect("it is sent").id();
        let ends: [fn(&Calls<ClientRole>, CallId); 2] =
            [|calls, call| calls.forget(call), |calls, call| calls.redirect(call, &Arc::default())];
        for (number, end) in ends.into_iter().enumerate() {
            let (calls, free) = (Arc::<Calls<ClientRole>>::default(), Arc::default());
            let slot = calls.insert(call, true);
            let waker = Waker::from(Arc::new(TryLock { calls: calls.clone(), free: Arc::clone(&free) }));
            assert!(slot.poll(&Context::from_waker(&waker)).is_pending());
            // A waiter that has gone may leave its waker, which may be the last reference to a task.
            drop((slot, waker));
            end(&calls, call);
            assert_eq!(*lock(&free), Some(true), "{number}");
        }
    }
}
