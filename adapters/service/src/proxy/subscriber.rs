//! The subscriptions of the proxy at a backend, which follow those of clients.

use std::sync::Arc;

use mcp_proto::connection::ClientRole;

use super::{
    error::{BackendError, BackendFault},
    listener::Listener,
    retry::Retry,
    shared::Shared,
    watches::{Change, Watched},
};
use crate::{
    driver_api::deferred::{Deferred, select_biased},
    inbound::failure::Failure,
    outbound::peer::Peer,
    server::{client_key::ClientKey, resource::Begun},
    util::{future_set::FutureSet, lock::lock},
};

/// The most requests of subscriptions in flight at a backend of a session. A request without a response counts for
/// [`list_time`](super::ProxyLimits::list_time).
const MAX_SUBSCRIBING: usize = 128;

/// A subscription of a client. Dropping it ends the subscription.
struct Watching {
    shared: Arc<Shared>,
    uri: String,
    client: ClientKey,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let is_changed = lock(&self.shared.watches).release(&self.uri, &self.client);
        if is_changed {
            self.shared.wake.notify_all();
        }
    }
}

/// The end of a request to subscribe or to unsubscribe.
enum Ended {
    Subscribed(String, Result<(), String>),
    Unsubscribed(String),
}

impl Shared {
    /// Begins a subscription to a resource, and waits until the backend has accepted it.
    pub(super) fn watch(self: &Arc<Self>, uri: &str, client: &ClientKey) -> Deferred<Result<Begun, Failure>> {
        if let Err(error) = self.connected() {
            return Deferred::ready(Err(error.into_failure()));
        }
        if !lock(&self.watches).hold(uri, client, self.limits.subscriptions) {
            return Deferred::ready(Err(self.error(BackendFault::Busy).into_failure()));
        }
        let watching = Watching { shared: self.clone(), uri: uri.to_owned(), client: client.clone() };
        self.wake.notify_all();
        Deferred::new(async move {
            let Watching { shared, uri, .. } = &watching;
            shared.changed.wait_for(|| shared.watched(uri)).await.map_err(BackendError::into_failure)?;
            Ok(Some(Box::new(watching) as Box<dyn Send>))
        })
    }

    /// Returns whether the backend has accepted the subscription to a resource, once this is known.
    fn watched(&self, uri: &str) -> Option<Result<(), BackendError>> {
        let state = lock(&self.watches).state(uri);
        match state {
            Watched::Active => Some(Ok(())),
            Watched::Refused(why) => Some(Err(self.error(BackendFault::Unsupported(why)))),
            Watched::Waiting => self.connected().err().map(Err),
        }
    }

    /// Subscribes at the backend to the resources of the subscriptions of clients, and ends the subscriptions to
    /// others.
    pub(super) async fn keep_subscriptions(&self, peer: &Peer<ClientRole>, is_modern: bool) {
        if is_modern {
            Box::pin(Listener::new(self, peer).run()).await;
        }
        let (mut requests, mut retry) = (FutureSet::new(), Retry::new());
        loop {
            while requests.len() < MAX_SUBSCRIBING {
                let Some(change) = lock(&self.watches).next_change() else { break };
                self.request(peer, change, &mut requests);
            }
            let is_full = requests.len() >= MAX_SUBSCRIBING;
            let more = self.wake.wait_for(|| (!is_full && lock(&self.watches).has_changes()).then_some(()));
            match select_biased(requests.next(), select_biased(more, retry.wait(peer))).await {
                Ok(Ended::Subscribed(uri, outcome)) => {
                    let has_gap = lock(&self.watches).subscribed(&uri, &outcome);
                    if has_gap {
                        self.resource_updated(&uri);
                    }
                }
                Ok(Ended::Unsubscribed(uri)) => lock(&self.watches).unsubscribed(&uri),
                Err(Ok(())) => continue,
                Err(Err(())) => {
                    lock(&self.watches).retry_lost();
                    continue;
                }
            }
            let is_needed = lock(&self.watches).has_lost();
            // While attempts are in flight, the pauses do not begin again.
            if is_needed || requests.len() == 0 {
                retry.plan(is_needed, peer, self.limits.list_time);
            }
            self.changed.notify_all();
        }
    }

    /// Requests one change of a subscription (up to 2025-11-25).
    fn request(&self, peer: &Peer<ClientRole>, change: Change, requests: &mut FutureSet<Ended>) {
        let peer = peer.within(self.limits.list_time);
        match change {
            Change::Subscribe(uri) => {
                let sent = peer.subscribe(&uri);
                requests.push(async move {
                    let outcome = match sent {
                        Ok(pending) => pending.await.map(drop).map_err(|error| error.to_string()),
                        Err(error) => Err(error.to_string()),
                    };
                    Ended::Subscribed(uri, outcome)
                });
            }
            Change::Unsubscribe(uri) => {
                let sent = peer.unsubscribe(&uri);
                requests.push(async move {
                    // If it fails, its notifications are ignored.
                    if let Ok(pending) = sent {
                        let _ = pending.await;
                    }
                    Ended::Unsubscribed(uri)
                });
            }
        }
    }
}
