//! The resources that a client of a session has subscribed to.

use std::{collections::BTreeSet, sync::Mutex};

use mcp_proto::wire::ErrorObject;

use crate::{inbound::rpc_result::RpcResult, util::lock::lock};

/// The resources that the client of a session has subscribed to.
#[derive(Debug, Default)]
pub(super) struct ResourceSubscriptions(Mutex<Subscribed>);

#[derive(Debug, Default)]
struct Subscribed {
    uris: BTreeSet<String>,
    /// The length of all URIs.
    bytes: usize,
}

/// The limits of the subscriptions of one client.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubscriptionLimits {
    pub(super) number: usize,
    /// The length of all URIs.
    pub(super) bytes: usize,
}

impl ResourceSubscriptions {
    pub(super) fn contains(&self, uri: &str) -> bool {
        lock(&self.0).uris.contains(uri)
    }

    pub(super) fn insert(&self, uri: String, limits: SubscriptionLimits) -> RpcResult<()> {
        let Subscribed { uris, bytes } = &mut *lock(&self.0);
        if uris.contains(&uri) {
            return Ok(());
        }
        let sum = bytes.saturating_add(uri.len());
        if uris.len() >= limits.number || sum > limits.bytes {
            return Err(ErrorObject::internal("Too many subscriptions"));
        }
        *bytes = sum;
        uris.insert(uri);
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) {
        let Subscribed { uris, bytes } = &mut *lock(&self.0);
        if uris.remove(uri) {
            *bytes -= uri.len();
        }
    }
}
