//! The state of a subscription (2026-07-28) that this client has opened.

use alloc::{string::String, vec::Vec};

use crate::{rpc::Timestamp, schema::SubscriptionFilter};

/// A subscription of this client.
#[derive(Clone, Debug)]
pub(crate) struct ClientSubscription {
    /// Whether the client subscribes again when the server ends the subscription.
    pub(crate) again: bool,
    /// The filter that the server has acknowledged.
    pub(crate) agreed: Option<SubscriptionFilter>,
    /// The time of the acknowledgement.
    pub(crate) since: Option<Timestamp>,
    /// The number of consecutive resubscriptions.
    pub(crate) count: u32,
}

impl ClientSubscription {
    pub(crate) const fn new(again: bool) -> Self {
        Self { again, agreed: None, since: None, count: 0 }
    }

    pub(crate) fn weight(&self) -> usize {
        let names = |names: &Option<Vec<String>>| {
            names.iter().flatten().map(|name| size_of::<String>() + name.len()).sum::<usize>()
        };
        self.agreed.as_ref().map_or(0, |agreed| names(&agreed.resource_subscriptions) + names(&agreed.task_ids))
    }
}
