//! The state that all sessions of a service share.

use std::sync::{Arc, RwLock};

use mcp_proto::{connection::ServerRole, schema::CacheHints};

use super::{
    capabilities::DeclaredCapabilities, catalog::Catalog, composition::Composition,
    input_required::request_state::StateSigner, resource_subscriptions::SubscriptionLimits, routes::Routes,
    tasks::store::Tasks, visibility::Predicate,
};
use crate::{
    inbound::{
        builder_common::Common, session_registry::SessionRegistry, session_tasks::SessionShares,
        task_policy::TaskPolicy,
    },
    util::random::Random,
};

/// The state that all sessions of a [`Service`](crate::Service) share.
pub(crate) struct Inner {
    /// A number that no other service of the process has or had.
    pub(crate) number: u64,
    pub(super) common: Common<ServerRole>,
    /// The seed of the hash tables whose keys clients choose.
    pub(super) hash_seed: u64,
    pub(super) instructions: Option<String>,
    pub(super) declared: DeclaredCapabilities,
    /// The number of items in one page of a list.
    pub(super) page_size: usize,
    /// The limits of one client's subscriptions to resources.
    pub(super) subscription_limits: SubscriptionLimits,
    pub(super) tasks: Arc<TaskPolicy>,
    /// The tasks that belong to no connection (2026-07-28).
    pub(super) shared_tasks: Arc<Tasks>,
    /// The shares of the tasks of all sessions (2025-11-25).
    pub(super) session_shares: Arc<SessionShares>,
    pub(super) state_signer: StateSigner,
    pub(super) list_hints: CacheHints,
    pub(super) visible: Option<Predicate>,
    /// Whether lists leave out items whose scopes the caller does not have.
    pub(super) hides_without_scopes: bool,
    /// Whether clients get no texts of errors.
    pub(super) masks_failures: bool,
    pub(crate) catalog: RwLock<Catalog>,
    /// The routing table of requests.
    pub(super) routes: Routes,
    pub(crate) clients: SessionRegistry<ServerRole>,
    /// The services and servers whose items it offers.
    pub(crate) composition: Composition,
}

impl Inner {
    pub(crate) fn random(&self) -> &Random {
        &self.common.random
    }
}
