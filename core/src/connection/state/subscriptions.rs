//! The subscriptions (2026-07-28) of the clients of a server.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{collections::StaticDefault, protocol::Method, rpc::ReplyKey, schema::SubscriptionFilter, wire::RequestId};

/// What clients listen to, by the request that asked for it. Its id stays taken while the subscription lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions {
    pub(crate) active: BTreeMap<ReplyKey, (RequestId, SubscriptionFilter)>,
    /// What is left to the application, which alone knows the tasks that are named.
    pub(crate) asked: BTreeMap<ReplyKey, PendingSubscription>,
}

/// A subscription that is left to the application.
#[derive(Clone, Debug)]
pub(crate) struct PendingSubscription {
    pub(crate) id: RequestId,
    pub(crate) filter: SubscriptionFilter,
    /// What is kept of what the request says of itself, in bytes.
    pub(crate) described: usize,
}

impl StaticDefault for Subscriptions {
    const EMPTY: &'static Self = &Self { active: BTreeMap::new(), asked: BTreeMap::new() };
}

impl Subscriptions {
    /// Whether this request is a subscription in force.
    pub(crate) fn is_open(&self, key: ReplyKey) -> bool {
        self.active.contains_key(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.active.len() + self.asked.len()
    }

    /// Forgets what was not opened.
    pub(crate) fn clear(&mut self) {
        self.asked.clear();
    }

    /// Forgets a subscription; whether it was in force.
    pub(crate) fn end(&mut self, key: ReplyKey) -> bool {
        self.asked.remove(&key);
        self.active.remove(&key).is_some()
    }

    /// Who listens to this change, in the order of their requests. The subject is the resource or the task that changed.
    pub(crate) fn listeners(&self, method: Method, subject: Option<&str>) -> Vec<(ReplyKey, RequestId)> {
        self.active
            .iter()
            .filter(|(_, (_, filter))| filter.wants(method, subject))
            .map(|(key, (id, _))| (*key, id.clone()))
            .collect()
    }
}
