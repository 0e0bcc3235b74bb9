//! Subscriptions of a client (2026-07-28), which it keeps from one connection to the next.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, LazyLock, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_proto::{
    connection::{Outcome, RequestOptions},
    rpc::CallId,
    schema::{SubscriptionFilter, SubscriptionsAcknowledgedParams, keys},
    wire::RawJson,
};

use super::{cancel::CancelCall, error::CallError};
use crate::util::{lock::lock, wait_queue::WaitQueue};

/// The subscriptions of a client, kept from one connection to the next.
///
/// Each session has one, and adds the filters that the client [listens](crate::Peer::listen) to. If it is passed to the
/// session of the next connection ([`Host::session_with`](crate::Host::session_with)), the subscriptions are made again
/// as soon as that is ready. Changes in between are not reported, so fetch what may have changed.
///
/// Clones share the same subscriptions.
#[derive(Clone, Default)]
pub struct Subscriptions(Arc<Shared>);

#[derive(Default)]
struct Shared {
    table: Mutex<Table>,
    /// Whether there has been a subscription. Most clients have none, and their calls do not take the lock.
    is_used: AtomicBool,
    /// The waiters for an acknowledgement or an end.
    changed: WaitQueue,
}

#[derive(Default)]
struct Table {
    next: u64,
    entries: BTreeMap<u64, SubscriptionEntry>,
}

pub(crate) struct SubscriptionEntry {
    pub(crate) filter: SubscriptionFilter,
    pub(crate) options: RequestOptions,
    pub(crate) state: SubscriptionState,
    /// The number of its acknowledgements: a subscription that the server has ended is requested again.
    pub(crate) acknowledgements: u64,
    /// The id of the latest request that was acknowledged, as JSON.
    acknowledged: Option<String>,
}

/// The state of a subscription.
pub(crate) enum SubscriptionState {
    /// Not requested on the current connection, or not connected.
    Detached,
    /// Requested, and not acknowledged yet.
    Requested(ListenCall),
    /// Acknowledged, with the filter to which the server has agreed.
    Active(ListenCall, SubscriptionFilter),
    /// Refused or ended by the server, with its error.
    Ended(Option<CallError>),
}

/// A request on one of the connections.
#[derive(Clone)]
pub(crate) struct ListenCall {
    /// The number of the connection's calls.
    pub(crate) connection: u64,
    pub(crate) call: CallId,
    pub(crate) canceller: Weak<dyn CancelCall>,
}

impl SubscriptionState {
    fn listen_call(&self) -> Option<&ListenCall> {
        match self {
            Self::Requested(listen_call) | Self::Active(listen_call, _) => Some(listen_call),
            Self::Detached | Self::Ended(_) => None,
        }
    }
}

impl Subscriptions {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the set that all sessions of servers share, since a server subscribes to nothing.
    pub(crate) fn of_servers() -> Self {
        static EMPTY: LazyLock<Subscriptions> = LazyLock::new(Subscriptions::new);
        EMPTY.clone()
    }

    /// Returns the number of subscriptions, active or not.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.0.table).entries.len()
    }

    /// Returns whether it has no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a subscription that was not requested yet, and returns its id.
    pub(crate) fn add(&self, filter: SubscriptionFilter, options: RequestOptions) -> u64 {
        let mut table = lock(&self.0.table);
        let id = table.next;
        table.next += 1;
        let state = SubscriptionState::Detached;
        table.entries.insert(id, SubscriptionEntry { filter, options, state, acknowledgements: 0, acknowledged: None });
        self.0.is_used.store(true, Ordering::Release);
        id
    }

    /// Removes a subscription, and returns its call.
    pub(crate) fn remove(&self, id: u64) -> Option<ListenCall> {
        lock(&self.0.table).entries.remove(&id)?.state.listen_call().cloned()
    }

    /// Returns the ids of the subscriptions that are not requested on the current connection.
    pub(crate) fn detached(&self) -> Vec<u64> {
        let table = lock(&self.0.table);
        table
            .entries
            .iter()
            .filter(|(_, it)| matches!(it.state, SubscriptionState::Detached))
            .map(|(id, _)| *id)
            .collect()
    }

    pub(crate) fn with<R>(&self, id: u64, f: impl FnOnce(&mut SubscriptionEntry) -> R) -> Option<R> {
        lock(&self.0.table).entries.get_mut(&id).map(f)
    }

    /// Changes the subscription that was requested with this call, and wakes the waiters. Most calls are of none.
    fn change<R>(&self, connection: u64, call: CallId, f: impl FnOnce(&mut SubscriptionEntry) -> R) -> Option<R> {
        if !self.0.is_used.load(Ordering::Acquire) {
            return None;
        }
        let changed = {
            let mut table = lock(&self.0.table);
            let mut all = table.entries.values_mut();
            let is_it = |listen_call: &ListenCall| (listen_call.connection, listen_call.call) == (connection, call);
            all.find(|entry| entry.state.listen_call().is_some_and(is_it)).map(f)
        };
        if changed.is_some() {
            self.0.changed.notify_all();
        }
        changed
    }

    /// Activates the subscription of a call, which the server has acknowledged. Returns whether there is one.
    pub(crate) fn acknowledged(&self, connection: u64, call: CallId, params: &RawJson<'_>) -> bool {
        let request =
            params.member("_meta").and_then(|meta| Some(meta.member(keys::SUBSCRIPTION_ID)?.get().to_owned()));
        let params = params.decode::<SubscriptionsAcknowledgedParams>();
        let agreed = params.map(|params| params.notifications).unwrap_or_default();
        let activate = |entry: &mut SubscriptionEntry| {
            // Only the first acknowledgement of a request counts, as in the core.
            let is_repeated = matches!(entry.state, SubscriptionState::Active(..)) && entry.acknowledged == request;
            if let Some(listen_call) = entry.state.listen_call().cloned().filter(|_| !is_repeated) {
                entry.state = SubscriptionState::Active(listen_call, agreed);
                (entry.acknowledged, entry.acknowledgements) = (request, entry.acknowledgements + 1);
            }
        };
        self.change(connection, call, activate).is_some()
    }

    /// Ends the subscription of a call, if it has one.
    pub(crate) fn ended(&self, connection: u64, call: CallId, outcome: &Outcome<'_>) {
        self.change(connection, call, |entry| {
            entry.state = match outcome {
                Outcome::Closed(_) => SubscriptionState::Detached,
                Outcome::Result(_) | Outcome::Cancelled => SubscriptionState::Ended(None),
                outcome => SubscriptionState::Ended(CallError::of(outcome.clone()).err()),
            };
        });
    }

    /// Waits until `check` finds something. It checks again when the server has acknowledged or ended a subscription.
    pub(crate) async fn wait_for<T>(&self, check: impl FnMut() -> Option<T>) -> T {
        self.0.changed.wait_for(check).await
    }

    /// Detaches all subscriptions of a connection, which has ended without an event for each of its calls.
    pub(crate) fn lost(&self, connection: u64) {
        for entry in lock(&self.0.table).entries.values_mut() {
            if entry.state.listen_call().is_some_and(|listen_call| listen_call.connection == connection) {
                entry.state = SubscriptionState::Detached;
            }
        }
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscriptions").field(&self.len()).finish()
    }
}
