//! The subscriptions of the proxy at a backend, which follow those of clients.

use std::{collections::BTreeSet, future::pending, sync::Arc, time::Duration};

use mcp_proto::{connection::ClientRole, rpc::Timestamp, schema::SubscriptionFilter};

use super::{
    error::{BackendError, BackendFault},
    shared::Shared,
    watches::{Change, Watched},
};
use crate::{
    client::subscription::Subscription,
    driver_api::deferred::{Deferred, select_biased},
    inbound::failure::Failure,
    outbound::peer::Peer,
    server::{client_key::ClientKey, resource::Begun},
    util::{future_set::FutureSet, lock::lock},
};

/// The most requests of subscriptions in flight at a backend of a session. A request without a response counts for
/// [`list_time`](super::ProxyLimits::list_time).
const MAX_SUBSCRIBING: usize = 128;

/// The most subscriptions without an acknowledgement at a backend without sessions. Each of them names all resources,
/// so the number is small.
const MAX_LISTENING: usize = 4;

/// The first pause before another attempt to end the subscriptions to resources without clients. Each further one is
/// twice as long, at most [`list_time`](super::ProxyLimits::list_time).
const FIRST_PAUSE: Duration = Duration::from_secs(1);

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

/// The end of a request to listen.
struct Listened {
    outcome: Result<Subscription, String>,
    new: Vec<String>,
    /// The subscriptions that it replaces, by their numbers.
    replaced: Vec<u64>,
}

/// A subscription to several resources (2026-07-28).
struct Group {
    number: u64,
    subscription: Subscription,
}

impl Group {
    fn names(&self) -> impl Iterator<Item = &String> {
        self.subscription.filter().resource_subscriptions.iter().flatten()
    }
}

/// The next attempt to end the subscriptions to resources without clients, after the backend has refused one.
struct Retry {
    at: Option<Timestamp>,
    pause: Duration,
}

impl Retry {
    const fn new() -> Self {
        Self { at: None, pause: FIRST_PAUSE }
    }

    /// Plans an attempt, or none if it is not needed.
    fn plan(&mut self, is_needed: bool, now: Timestamp, max: Duration) {
        if is_needed {
            self.at = Some(now + self.pause);
            self.pause = self.pause.saturating_mul(2).min(max).max(FIRST_PAUSE);
        } else {
            *self = Self::new();
        }
    }

    /// Waits until the time of the next attempt. Without a planned attempt it never returns.
    async fn wait(&self, peer: &Peer<ClientRole>) {
        match self.at {
            Some(at) => peer.connection().sleep_until(at).await,
            None => pending().await,
        }
    }
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
            self.keep_listening(peer).await;
        }
        let mut requests = FutureSet::new();
        loop {
            while requests.len() < MAX_SUBSCRIBING {
                let Some(change) = lock(&self.watches).next_change() else { break };
                self.request(peer, change, &mut requests);
            }
            let is_full = requests.len() >= MAX_SUBSCRIBING;
            let more = self.wake.wait_for(|| (!is_full && lock(&self.watches).has_changes()).then_some(()));
            match select_biased(requests.next(), more).await {
                Ok(Ended::Subscribed(uri, outcome)) => lock(&self.watches).subscribed(&uri, &outcome),
                Ok(Ended::Unsubscribed(uri)) => lock(&self.watches).unsubscribed(&uri),
                Err(()) => continue,
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

    /// Keeps a subscription to the resources of clients (2026-07-28), until the connection ends. Each request names all
    /// resources, except those that the backend has refused, or has not acknowledged in another request. A subscription
    /// ends after the one that replaces it has begun, so that no change is missed. If the new subscription does not
    /// begin, the former ones stay. Another attempt follows if they name resources without clients.
    async fn keep_listening(&self, peer: &Peer<ClientRole>) {
        let (mut requests, mut groups, mut next) = (FutureSet::new(), Vec::<Group>::new(), 0);
        let mut retry = Retry::new();
        loop {
            if requests.len() < MAX_LISTENING && lock(&self.watches).has_changes() {
                retry.at = None;
                self.listen_to_resources(peer, &mut groups, &mut requests);
            }
            let is_full = requests.len() >= MAX_LISTENING;
            let more = self.wake.wait_for(|| (!is_full && lock(&self.watches).has_changes()).then_some(()));
            let woken = select_biased(more, retry.wait(peer));
            let Listened { outcome, new, replaced } = match select_biased(requests.next(), woken).await {
                Ok(listened) => listened,
                Err(Ok(())) => continue,
                Err(Err(())) => {
                    lock(&self.watches).changed();
                    continue;
                }
            };
            let ended = outcome.map(|subscription| {
                next += 1;
                groups.push(Group { number: next, subscription });
            });
            {
                let mut watches = lock(&self.watches);
                new.iter().for_each(|uri| watches.subscribed(uri, &ended));
            }
            if ended.is_ok() {
                self.end_replaced(&mut groups, &replaced);
            }
            // The last of the requests in flight decides.
            let is_needed = requests.len() == 0 && lock(&self.watches).has_released();
            retry.plan(is_needed, peer.connection().update(|_, now| now), self.limits.list_time);
            self.changed.notify_all();
        }
    }

    /// Requests a subscription to all resources. Without resources, all subscriptions end.
    fn listen_to_resources(
        &self,
        peer: &Peer<ClientRole>,
        groups: &mut Vec<Group>,
        requests: &mut FutureSet<Listened>,
    ) {
        let (named, new) = lock(&self.watches).take_changes();
        let replaced: Vec<_> = groups.iter().map(|group| group.number).collect();
        if named.is_empty() {
            self.end_replaced(groups, &replaced);
            return;
        }
        let filter = SubscriptionFilter { resource_subscriptions: Some(named), ..SubscriptionFilter::default() };
        let sent = peer.within(self.limits.list_time).listen(filter);
        requests.push(async move {
            let outcome = match sent {
                Ok(pending) => pending.await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            Listened { outcome, new, replaced }
        });
    }

    /// Ends subscriptions that newer ones have replaced, unless a client is subscribed to one of their resources that
    /// no other subscription names. Records the resources that have no subscription any more.
    fn end_replaced(&self, groups: &mut Vec<Group>, replaced: &[u64]) {
        let mut watches = lock(&self.watches);
        let kept = groups.iter().filter(|group| !replaced.contains(&group.number));
        let kept: BTreeSet<String> = kept.flat_map(|group| group.names().cloned()).collect();
        let unnamed: Vec<_> = watches.active().filter(|(uri, _)| !kept.contains(*uri)).collect();
        if unnamed.iter().any(|(_, is_held)| *is_held) {
            // A client has subscribed to it again.
            watches.changed();
            return;
        }
        let unnamed: Vec<_> = unnamed.into_iter().map(|(uri, _)| uri.clone()).collect();
        unnamed.iter().for_each(|uri| watches.unsubscribed(uri));
        drop(watches);
        // Their cancellations take the lock of the connection.
        groups.retain(|group| !replaced.contains(&group.number));
    }
}
