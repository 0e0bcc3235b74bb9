//! The resources that a client has subscribed to, and the subscriptions at other servers that this needs.

use std::{collections::BTreeMap, fmt, sync::Mutex};

use mcp_proto::{rpc::ReplyKey, wire::ErrorObject};

use super::resource::Begun;
use crate::{inbound::rpc_result::RpcResult, util::lock::lock};

/// The resources that the client of a session has subscribed to.
#[derive(Default)]
pub(super) struct ResourceSubscriptions(Mutex<Subscribed>);

#[derive(Default)]
struct Subscribed {
    /// The URIs, with the subscriptions at other servers.
    uris: BTreeMap<String, Begun>,
    /// The length of all URIs.
    bytes: usize,
    /// Whether the connection has ended.
    is_closed: bool,
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
        lock(&self.0).uris.contains_key(uri)
    }

    /// Adds a resource. `begun` is held until the client unsubscribes or its connection ends.
    pub(super) fn insert(&self, uri: String, begun: Begun, limits: SubscriptionLimits) -> RpcResult<()> {
        let (result, unused) = {
            let Subscribed { uris, bytes, is_closed } = &mut *lock(&self.0);
            let sum = bytes.saturating_add(uri.len());
            if *is_closed {
                (Ok(()), begun)
            } else if let Some(known) = uris.get_mut(&uri) {
                // The resource may belong to another server by now.
                (Ok(()), std::mem::replace(known, begun))
            } else if uris.len() >= limits.number || sum > limits.bytes {
                (Err(ErrorObject::internal("Too many subscriptions")), begun)
            } else {
                *bytes = sum;
                uris.insert(uri, begun);
                (Ok(()), None)
            }
        };
        // It wakes tasks, which must not happen under the lock.
        drop(unused);
        result
    }

    pub(super) fn remove(&self, uri: &str) {
        let removed = {
            let Subscribed { uris, bytes, .. } = &mut *lock(&self.0);
            let removed = uris.remove(uri);
            *bytes -= removed.as_ref().map_or(0, |_| uri.len());
            removed
        };
        drop(removed);
    }

    /// Removes all resources, since the connection has ended.
    pub(super) fn close(&self) {
        let removed = {
            let mut subscribed = lock(&self.0);
            (subscribed.is_closed, subscribed.bytes) = (true, 0);
            std::mem::take(&mut subscribed.uris)
        };
        drop(removed);
    }
}

impl fmt::Debug for ResourceSubscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(lock(&self.0).uris.keys()).finish()
    }
}

/// The values that other servers keep for the subscriptions of a client without a session (2026-07-28), by request.
#[derive(Default)]
pub(super) struct ListenRequests(Mutex<Listening>);

#[derive(Default)]
struct Listening {
    requests: BTreeMap<ReplyKey, Vec<Box<dyn Send>>>,
    /// Whether the connection has ended.
    is_closed: bool,
}

impl ListenRequests {
    /// Holds this until the subscription ends.
    pub(super) fn hold(&self, key: ReplyKey, begun: Vec<Box<dyn Send>>) {
        let unused = {
            let mut listening = lock(&self.0);
            if listening.is_closed || begun.is_empty() { Some(begun) } else { listening.requests.insert(key, begun) }
        };
        drop(unused);
    }

    /// Notes that the subscription has ended, or has never begun.
    pub(super) fn release(&self, key: ReplyKey) {
        let released = lock(&self.0).requests.remove(&key);
        drop(released);
    }

    /// Releases all, since the connection has ended.
    pub(super) fn close(&self) {
        let released = {
            let mut listening = lock(&self.0);
            listening.is_closed = true;
            std::mem::take(&mut listening.requests)
        };
        drop(released);
    }
}

impl fmt::Debug for ListenRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(lock(&self.0).requests.keys()).finish()
    }
}
