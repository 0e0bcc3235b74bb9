//! The subscriptions (2026-07-28) that a server serves.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{protocol::Method, rpc::ReplyKey, schema::SubscriptionFilter, wire::RequestId};

/// The subscriptions by their `subscriptions/listen` requests. The id of the request stays in use until the
/// subscription ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions {
    pub(crate) active: BTreeMap<ReplyKey, ActiveSubscription>,
    /// The subscriptions that the application has to accept, because they name tasks, which only the application has.
    pub(crate) pending: BTreeMap<ReplyKey, PendingSubscription>,
}

/// A subscription whose changes are sent to the client.
#[derive(Clone, Debug)]
pub(crate) struct ActiveSubscription {
    pub(crate) id: RequestId,
    pub(crate) filter: SubscriptionFilter,
    /// Whether the application has accepted it, and so is notified of its end.
    pub(crate) is_of_application: bool,
}

/// A subscription that the application has to accept.
#[derive(Clone, Debug)]
pub(crate) struct PendingSubscription {
    pub(crate) id: RequestId,
    pub(crate) filter: SubscriptionFilter,
    /// The bytes of the retained `_meta` of the request.
    pub(crate) described: usize,
}

impl Subscriptions {
    /// Returns whether this request is an active subscription.
    pub(crate) fn is_open(&self, key: ReplyKey) -> bool {
        self.active.contains_key(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.active.len() + self.pending.len()
    }

    /// Removes all pending subscriptions.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Removes a subscription, and returns it if it was active.
    pub(crate) fn end(&mut self, key: ReplyKey) -> Option<ActiveSubscription> {
        self.pending.remove(&key);
        self.active.remove(&key)
    }

    /// Returns the subscriptions to this change, in the order of their requests. The subject is the resource or the
    /// task that changed.
    pub(crate) fn listeners(&self, method: Method, subject: Option<&str>) -> Vec<(ReplyKey, RequestId)> {
        self.active
            .iter()
            .filter(|(_, active)| active.filter.wants(method, subject))
            .map(|(key, active)| (*key, active.id.clone()))
            .collect()
    }
}
