//! The state of a connection of the modern era (2026-07-28).

use alloc::collections::BTreeMap;

use crate::{
    collections::StaticDefault,
    connection::state::{repeated_parts::RepeatedParts, stateless_request::ResultHead, subscriptions::Subscriptions},
};

/// The state that a connection allocates with the first message of the modern era.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModernState {
    pub(crate) subscriptions: Subscriptions,
    pub(crate) repeated: RepeatedParts,
    /// The beginning of the results of a server.
    pub(crate) result_head: Option<ResultHead>,
}

impl StaticDefault for ModernState {
    const EMPTY: &'static Self = &Self {
        subscriptions: Subscriptions { active: BTreeMap::new(), pending: BTreeMap::new() },
        repeated: RepeatedParts::new(),
        result_head: None,
    };
}
