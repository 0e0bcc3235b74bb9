//! Subscriptions of a client (2026-07-28), which it keeps from one connection to the next.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, Weak},
};

use mcp_proto::{
    connection::{Outcome, RequestOptions},
    rpc::CallId,
    schema::{SubscriptionFilter, SubscriptionsAcknowledgedParams},
    wire::RawJson,
};

use super::{cancel::CancelCall, error::CallError};
use crate::util::lock::lock;

/// The subscriptions of a client, kept from one connection to the next.
///
/// Each session has one, and adds what the client [listens](crate::Peer::listen) to. If it is passed to the session of
/// the next connection ([`Host::session_with`](crate::Host::session_with)), the subscriptions are made again as soon as
/// that is ready. Changes in between are not reported, so fetch what may have changed.
///
/// Clones share the same subscriptions.
#[derive(Clone, Default)]
pub struct Subscriptions(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next: u64,
    wanted: BTreeMap<u64, SubscriptionEntry>,
}

pub(crate) struct SubscriptionEntry {
    pub(crate) filter: SubscriptionFilter,
    pub(crate) options: RequestOptions,
    pub(crate) state: State,
}

/// The state of a subscription.
pub(crate) enum State {
    /// Not requested on the current connection, or not connected.
    Detached,
    /// Requested, and not acknowledged yet.
    Requested(Place),
    /// Acknowledged, with the filter to which the server has agreed.
    Active(Place, SubscriptionFilter),
    /// Refused or ended by the server, with its error.
    Ended(Option<CallError>),
}

/// A request on one of the connections.
#[derive(Clone)]
pub(crate) struct Place {
    /// The number of the connection's calls.
    pub(crate) connection: u64,
    pub(crate) call: CallId,
    pub(crate) canceller: Weak<dyn CancelCall>,
}

impl State {
    fn place(&self) -> Option<&Place> {
        match self {
            Self::Requested(place) | Self::Active(place, _) => Some(place),
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

    /// Returns the number of subscriptions, active or not.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.0).wanted.len()
    }

    /// Returns whether it has no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a subscription that was not requested yet, and returns its id.
    pub(crate) fn add(&self, filter: SubscriptionFilter, options: RequestOptions) -> u64 {
        let mut table = lock(&self.0);
        let id = table.next;
        table.next += 1;
        table.wanted.insert(id, SubscriptionEntry { filter, options, state: State::Detached });
        id
    }

    /// Removes a subscription, and returns its call.
    pub(crate) fn remove(&self, id: u64) -> Option<Place> {
        lock(&self.0).wanted.remove(&id)?.state.place().cloned()
    }

    /// Returns the ids of the subscriptions that are not requested on the current connection.
    pub(crate) fn resting(&self) -> Vec<u64> {
        let table = lock(&self.0);
        table.wanted.iter().filter(|(_, it)| matches!(it.state, State::Detached)).map(|(id, _)| *id).collect()
    }

    pub(crate) fn with<R>(&self, id: u64, f: impl FnOnce(&mut SubscriptionEntry) -> R) -> Option<R> {
        lock(&self.0).wanted.get_mut(&id).map(f)
    }

    /// Finds the subscription that was requested with this call.
    fn find<R>(&self, connection: u64, call: CallId, f: impl FnOnce(&mut SubscriptionEntry) -> R) -> Option<R> {
        let mut table = lock(&self.0);
        let mut all = table.wanted.values_mut();
        let is_it = |place: &Place| (place.connection, place.call) == (connection, call);
        all.find(|wanted| wanted.state.place().is_some_and(is_it)).map(f)
    }

    /// Activates the subscription of a call, which the server has acknowledged. Returns whether there is one.
    pub(crate) fn acknowledged(&self, connection: u64, call: CallId, params: &RawJson<'_>) -> bool {
        let params = params.decode::<SubscriptionsAcknowledgedParams>();
        let agreed = params.map(|params| params.notifications).unwrap_or_default();
        let heard = |wanted: &mut SubscriptionEntry| {
            if let Some(place) = wanted.state.place().cloned() {
                wanted.state = State::Active(place, agreed);
            }
        };
        self.find(connection, call, heard).is_some()
    }

    /// Ends the subscription of a call, if it has one.
    pub(crate) fn ended(&self, connection: u64, call: CallId, outcome: &Outcome<'_>) {
        self.find(connection, call, |wanted| {
            wanted.state = match outcome {
                Outcome::Closed(_) => State::Detached,
                Outcome::Result(_) | Outcome::Cancelled => State::Ended(None),
                outcome => State::Ended(CallError::of(outcome.clone()).err()),
            };
        });
    }

    /// Detaches all subscriptions of a connection, which has ended without an event for each of its calls.
    pub(crate) fn lost(&self, connection: u64) {
        for wanted in lock(&self.0).wanted.values_mut() {
            if wanted.state.place().is_some_and(|place| place.connection == connection) {
                wanted.state = State::Detached;
            }
        }
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscriptions").field(&self.len()).finish()
    }
}
