//! The state of a subscription (2026-07-28) that this client has opened.

use alloc::{string::String, vec::Vec};

use crate::{rpc::Timestamp, schema::SubscriptionFilter};

/// A subscription of ours.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    /// Whether it is opened again when the server ends it.
    pub(crate) again: bool,
    /// What the server has agreed to tell.
    pub(crate) agreed: Option<SubscriptionFilter>,
    /// Since when.
    pub(crate) since: Option<Timestamp>,
    /// How often in a row it was opened again.
    pub(crate) count: u32,
}

impl Listening {
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
