//! The subscriptions of the proxy at a backend, which follow those of clients.

use std::{collections::BTreeSet, sync::Arc};

use mcp_proto::{connection::ClientRole, schema::SubscriptionFilter};

use super::{
    error::{BackendError, BackendFault},
    retry::Retry,
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

/// The reason for which a resource is refused that a server leaves out of its acknowledgement.
const DECLINED: &str = "the server does not notify of changes of it";

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

/// The reason why the task that keeps the subscriptions continues.
enum Woken {
    Listened(Listened),
    /// The subscriptions of clients have changed.
    Changed,
    /// The server has ended a subscription, or has acknowledged it again without some of its resources.
    Lapsed,
    /// It is time for another attempt.
    Retry,
}

/// A subscription to several resources (2026-07-28).
struct Group {
    number: u64,
    subscription: Subscription,
}

impl Group {
    /// Returns the requested resources.
    fn requested(&self) -> impl Iterator<Item = &String> {
        self.subscription.filter().resource_subscriptions.iter().flatten()
    }

    /// Returns the resources of whose changes the server notifies: those that are requested and acknowledged.
    fn names(&self) -> BTreeSet<String> {
        let agreed = self.subscription.agreed().and_then(|agreed| agreed.resource_subscriptions);
        let agreed: BTreeSet<String> = agreed.into_iter().flatten().collect();
        self.requested().filter(|uri| agreed.contains(*uri)).cloned().collect()
    }
}

/// Returns the resources that any of these subscriptions covers.
fn names<'a>(groups: impl Iterator<Item = &'a Group>) -> BTreeSet<String> {
    groups.flat_map(Group::names).collect()
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
            Box::pin(self.keep_listening(peer)).await;
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
                Ok(Ended::Subscribed(uri, outcome)) => lock(&self.watches).subscribed(&uri, &outcome),
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

    /// Keeps a subscription to the resources of clients (2026-07-28), until the connection ends. Each request names all
    /// resources, except those that the backend has refused, or has not acknowledged in another request. A subscription
    /// ends after the one that replaces it has begun, so that no change is missed. If the new subscription does not
    /// begin, the former ones stay. Another attempt follows if they name resources without clients, or if the backend
    /// does not notify of resources any more that it has acknowledged before.
    async fn keep_listening(&self, peer: &Peer<ClientRole>) {
        let (mut requests, mut groups, mut next) = (FutureSet::new(), Vec::<Group>::new(), 0);
        let mut retry = Retry::new();
        loop {
            if requests.len() < MAX_LISTENING && lock(&self.watches).has_changes() {
                retry.begin();
                self.listen_to_resources(peer, &mut groups, &mut requests);
                self.plan(&mut retry, peer, requests.len());
            }
            let is_full = requests.len() >= MAX_LISTENING;
            let more = async {
                self.wake.wait_for(|| (!is_full && lock(&self.watches).has_changes()).then_some(())).await;
                Woken::Changed
            };
            let lapsed = async {
                peer.subscriptions().wait_for(|| self.has_lapsed(&groups).then_some(())).await;
                Woken::Lapsed
            };
            let again = async {
                retry.wait(peer).await;
                Woken::Retry
            };
            let listened = async { Woken::Listened(requests.next().await) };
            let first = select_biased(select_biased(listened, more), select_biased(lapsed, again)).await;
            let (Ok(Ok(woken) | Err(woken)) | Err(Ok(woken) | Err(woken))) = first;
            match woken {
                Woken::Changed => continue,
                Woken::Retry => {
                    let mut watches = lock(&self.watches);
                    watches.retry_lost();
                    watches.changed();
                    continue;
                }
                Woken::Lapsed => self.end_lapsed(&mut groups),
                Woken::Listened(Listened { outcome: Ok(subscription), replaced, .. }) => {
                    next += 1;
                    groups.push(Group { number: next, subscription });
                    self.replace(&mut groups, &replaced);
                }
                Woken::Listened(Listened { outcome: Err(why), new, .. }) => {
                    let (mut watches, refused) = (lock(&self.watches), Err(why));
                    new.iter().for_each(|uri| watches.subscribed(uri, &refused));
                }
            }
            self.plan(&mut retry, peer, requests.len());
            self.changed.notify_all();
        }
    }

    /// Plans another attempt if one is needed. The last of the requests in flight decides.
    fn plan(&self, retry: &mut Retry, peer: &Peer<ClientRole>, in_flight: usize) {
        if in_flight == 0 {
            let is_needed = {
                let watches = lock(&self.watches);
                watches.has_released() || watches.has_lost()
            };
            retry.plan(is_needed, peer, self.limits.list_time);
        }
    }

    /// Returns whether a resource is active that none of these subscriptions covers.
    fn has_lapsed(&self, groups: &[Group]) -> bool {
        let names = names(groups.iter());
        lock(&self.watches).active().any(|(uri, _)| !names.contains(uri))
    }

    /// Records the resources that no subscription covers any more, and drops the subscriptions that have ended.
    fn end_lapsed(&self, groups: &mut Vec<Group>) {
        let names = names(groups.iter());
        {
            let mut watches = lock(&self.watches);
            let lapsed: Vec<_> = watches.active().map(|(uri, _)| uri).filter(|uri| !names.contains(*uri)).collect();
            let lapsed: Vec<_> = lapsed.into_iter().cloned().collect();
            lapsed.iter().for_each(|uri| watches.subscribed(uri, &Err(DECLINED.into())));
        }
        groups.retain(|group| !group.subscription.is_over());
    }

    /// Records which resources the latest subscription covers, and ends those that it replaces.
    fn replace(&self, groups: &mut Vec<Group>, replaced: &[u64]) {
        if let Some(latest) = groups.last() {
            let kept = names(groups.iter().filter(|group| !replaced.contains(&group.number)));
            let mut watches = lock(&self.watches);
            for uri in latest.requested() {
                let outcome = if kept.contains(uri) { Ok(()) } else { Err(DECLINED.to_owned()) };
                watches.subscribed(uri, &outcome);
            }
        }
        self.end_replaced(groups, replaced);
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
        let kept = names(groups.iter().filter(|group| !replaced.contains(&group.number)));
        let mut watches = lock(&self.watches);
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
