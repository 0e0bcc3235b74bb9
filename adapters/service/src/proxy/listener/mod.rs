//! The subscriptions of the proxy at a backend without sessions (2026-07-28).

use std::collections::{BTreeMap, BTreeSet};

use mcp_proto::{
    connection::{ClientRole, SendError},
    schema::SubscriptionFilter,
};

use super::{listing::is_unknown, retry::Retry, shared::Shared, watches::Part};
use crate::{
    client::subscription::Subscription,
    driver_api::deferred::select_biased,
    outbound::{error::CallError, peer::Peer},
    server::client_key::ClientKey,
    util::{future_set::FutureSet, lock::lock},
};

/// The most subscriptions without an acknowledgement. Most of them name all resources, so the number is small.
const MAX_LISTENING: usize = 4;

/// The number of subscriptions above which the proxy requests a single one for all resources. Servers limit the number
/// of a connection.
const MAX_GROUPS: usize = 8;

/// The most refusals in a row of parts of one client. Then its other resources count as refused, too. Resources that
/// were refused alone before are counted apart, so that each attempt reaches others.
const MAX_REFUSALS: usize = 32;

/// The reason for which a resource is refused that a server leaves out of its acknowledgement.
const DECLINED: &str = "the server does not notify of changes of it";

/// A request to listen.
struct Request {
    /// The resources that no subscription covers yet.
    new: Vec<String>,
    /// Whether it names other resources, too.
    has_others: bool,
    /// The subscriptions that it replaces, by their numbers; `None` if it does not name their resources.
    replaced: Option<Vec<u64>>,
}

/// The reason why the task that keeps the subscriptions continues.
enum Woken {
    Listened(Request, Result<Subscription, CallError>),
    /// The subscriptions of clients have changed.
    Changed,
    /// The server has ended a subscription, or has acknowledged it again.
    Lapsed,
    /// It is time for another attempt.
    Retry,
}

/// A subscription to several resources.
struct Group {
    number: u64,
    subscription: Subscription,
    /// The number of its acknowledgements after which clients were notified.
    seen: u64,
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

    /// Returns whether the server has ended the subscription and acknowledged it again.
    fn has_restarted(&self) -> bool {
        self.subscription.acknowledgements() > self.seen
    }
}

/// Returns the resources that any of these subscriptions covers.
fn names<'a>(groups: impl Iterator<Item = &'a Group>) -> BTreeSet<String> {
    groups.flat_map(Group::names).collect()
}

/// Returns whether the server may accept the request without one of its resources.
fn may_depend_on_resources(error: &CallError) -> bool {
    error.rpc().is_some_and(|_| !is_unknown(error)) || matches!(error, CallError::Send(SendError::TooLarge))
}

/// The subscriptions to the resources of clients.
///
/// A request names all resources, except those that the backend has refused, or has not acknowledged in another
/// request. While it is in flight, others name new resources only: with two that name a resource, its changes would be
/// notified twice. A subscription ends after the one that replaces it has begun, so that no change is missed. If the
/// new subscription does not begin, the former ones stay. Another attempt follows if they name resources without
/// clients, or if the backend does not notify of resources any more that it has acknowledged before.
///
/// A server may refuse a whole request because of one resource. So the new resources of a refused request are requested
/// without the others: those of each client, then each half of those that are refused again, down to single resources.
/// A resource that was refused alone is requested without others from then on.
pub(super) struct Listener<'a> {
    shared: &'a Shared,
    peer: &'a Peer<ClientRole>,
    requests: FutureSet<(Request, Result<Subscription, CallError>)>,
    groups: Vec<Group>,
    /// The number of the latest subscription.
    number: u64,
    /// The resources to request without others, the next ones last.
    parts: Vec<Part>,
    /// The number of parts of each client that were refused in a row: of resources that were refused alone before, and
    /// of others.
    refusals: BTreeMap<(ClientKey, bool), usize>,
    /// Whether a request is in flight that replaces the subscriptions.
    is_replacing: bool,
    /// Whether the server has refused one subscription for all resources, since the last pause.
    is_merge_refused: bool,
    retry: Retry,
}

impl<'a> Listener<'a> {
    pub(super) fn new(shared: &'a Shared, peer: &'a Peer<ClientRole>) -> Self {
        Self {
            shared,
            peer,
            requests: FutureSet::new(),
            groups: Vec::new(),
            number: 0,
            parts: Vec::new(),
            refusals: BTreeMap::new(),
            is_replacing: false,
            is_merge_refused: false,
            retry: Retry::new(),
        }
    }

    /// Keeps the subscriptions until the connection ends.
    pub(super) async fn run(mut self) {
        loop {
            self.request_all();
            self.request_parts();
            self.plan();
            match self.next().await {
                Woken::Changed => continue,
                Woken::Retry => {
                    let mut watches = lock(&self.shared.watches);
                    watches.retry_lost();
                    if watches.has_released() {
                        watches.renew();
                    }
                    continue;
                }
                Woken::Lapsed => self.end_lapsed(),
                Woken::Listened(request, outcome) => {
                    self.is_replacing &= request.replaced.is_none();
                    match outcome {
                        Ok(subscription) => self.accepted(&request, subscription),
                        Err(error) => self.refused(request, &error),
                    }
                }
            }
            self.shared.changed.notify_all();
        }
    }

    async fn next(&mut self) -> Woken {
        let Self { shared, peer, requests, groups, retry, is_replacing, .. } = self;
        let is_full = requests.len() >= MAX_LISTENING;
        let more = async {
            shared.wake.wait_for(|| (!is_full && has_changes(shared, *is_replacing)).then_some(())).await;
            Woken::Changed
        };
        let lapsed = async {
            peer.subscriptions().wait_for(|| has_lapsed(shared, groups).then_some(())).await;
            Woken::Lapsed
        };
        let again = async {
            retry.wait(peer).await;
            Woken::Retry
        };
        let listened = async {
            let (request, outcome) = requests.next().await;
            Woken::Listened(request, outcome)
        };
        let first = select_biased(select_biased(listened, more), select_biased(lapsed, again)).await;
        let (Ok(Ok(woken) | Err(woken)) | Err(Ok(woken) | Err(woken))) = first;
        woken
    }

    /// Plans another attempt if one is needed. The last of the requests in flight decides, except for a lost resource:
    /// none of them names it, and clients may change their subscriptions all the time.
    fn plan(&mut self) {
        if self.requests.len() > 0 {
            if lock(&self.shared.watches).has_lost() {
                self.retry.plan(true, self.peer, self.shared.limits.list_time);
            }
            return;
        }
        self.refusals.clear();
        self.is_merge_refused = false;
        let is_needed = {
            let watches = lock(&self.shared.watches);
            watches.has_released() || watches.has_lost()
        };
        self.retry.plan(is_needed, self.peer, self.shared.limits.list_time);
    }

    /// Requests a subscription to all resources if one is needed, or to new ones while such a request is in flight.
    fn request_all(&mut self) {
        if self.requests.len() >= MAX_LISTENING || !has_changes(self.shared, self.is_replacing) {
            return;
        }
        self.end_unneeded();
        let changes = lock(&self.shared.watches).take_changes(!self.is_replacing);
        self.parts.extend(changes.apart);
        if changes.is_request_needed && !changes.named.is_empty() {
            let numbers = || self.groups.iter().map(|group| group.number).collect();
            let replaced = (!self.is_replacing).then(numbers);
            self.is_replacing = true;
            let has_others = changes.named.len() > changes.new.len();
            self.request(changes.named, Request { new: changes.new, has_others, replaced });
        }
    }

    /// Requests subscriptions to the resources that are requested without others.
    fn request_parts(&mut self) {
        while self.requests.len() < MAX_LISTENING
            && let Some(part) = self.parts.pop()
        {
            let new = lock(&self.shared.watches).keep_held(part.uris);
            if !new.is_empty() {
                self.request(new.clone(), Request { new, has_others: false, replaced: None });
            }
        }
    }

    fn request(&mut self, named: Vec<String>, request: Request) {
        let filter = SubscriptionFilter { resource_subscriptions: Some(named), ..SubscriptionFilter::default() };
        let sent = self.peer.within(self.shared.limits.list_time).listen(filter);
        self.requests.push(async move {
            let outcome = match sent {
                Ok(pending) => pending.await,
                Err(error) => Err(error.into()),
            };
            (request, outcome)
        });
    }

    fn accepted(&mut self, request: &Request, subscription: Subscription) {
        self.refusals.clear();
        self.number += 1;
        self.groups.push(Group { number: self.number, subscription, seen: 1 });
        let is_partial = self.replace(request.replaced.as_deref().unwrap_or_default());
        // Another request for all resources would be acknowledged in part again.
        self.is_merge_refused |= is_partial && request.replaced.is_some();
        if self.groups.len() > MAX_GROUPS && !self.is_merge_refused {
            lock(&self.shared.watches).renew();
        }
    }

    /// Requests the new resources of a refused request in smaller parts, or records that they are refused.
    fn refused(&mut self, request: Request, error: &CallError) {
        let mut watches = lock(&self.shared.watches);
        self.is_merge_refused |= request.new.is_empty();
        let new = watches.keep_held(request.new);
        let why = Err(error.to_string());
        if !may_depend_on_resources(error) {
            new.iter().for_each(|uri| _ = watches.subscribed(uri, &why));
            return;
        }
        let parts = watches.by_client(new);
        if request.has_others || parts.len() > 1 {
            self.parts.extend(parts);
            return;
        }
        let Some(Part { client, is_suspect, mut uris }) = parts.into_iter().next() else { return };
        let refusals = self.refusals.entry((client.clone(), is_suspect)).or_default();
        *refusals += 1;
        let is_given_up = *refusals >= MAX_REFUSALS;
        if let [uri] = &uris[..] {
            watches.refused_alone(uri, &why);
        } else {
            let rest = uris.split_off(uris.len().div_ceil(2));
            self.parts.extend([rest, uris].map(|uris| Part { client: client.clone(), is_suspect, uris }));
        }
        if is_given_up {
            for part in self.parts.extract_if(.., |part| part.client == client && part.is_suspect == is_suspect) {
                part.uris.iter().for_each(|uri| _ = watches.subscribed(uri, &why));
            }
        }
    }

    /// Records the resources that no subscription covers any more, notifies of those whose changes may have been
    /// missed, and drops the subscriptions that have ended.
    fn end_lapsed(&mut self) {
        let names = names(self.groups.iter());
        {
            let mut watches = lock(&self.shared.watches);
            let lapsed: Vec<_> = watches.active().map(|(uri, _)| uri).filter(|uri| !names.contains(*uri)).collect();
            let lapsed: Vec<_> = lapsed.into_iter().cloned().collect();
            lapsed.iter().for_each(|uri| _ = watches.subscribed(uri, &Err(DECLINED.into())));
        }
        for group in &mut self.groups {
            if group.has_restarted() {
                group.seen = group.subscription.acknowledgements();
                group.names().iter().for_each(|uri| self.shared.resource_updated(uri));
            }
        }
        self.groups.retain(|group| !group.subscription.is_over());
    }

    /// Records which resources the latest subscription covers, and ends those that it replaces. Of these, it keeps
    /// those to a resource with clients that the server has left out this time. Returns whether it keeps one.
    fn replace(&mut self, replaced: &[u64]) -> bool {
        let (mut missed, mut ended) = (Vec::new(), replaced.to_vec());
        if let Some(latest) = self.groups.last() {
            let mut watches = lock(&self.shared.watches);
            let named = names(self.groups.iter().filter(|group| !replaced.contains(&group.number)));
            let left_out: BTreeSet<_> = latest.requested().filter(|uri| !named.contains(*uri)).collect();
            let left_out: BTreeSet<_> = left_out.into_iter().filter(|uri| watches.is_held(uri)).collect();
            for group in self.groups.iter().filter(|group| replaced.contains(&group.number)) {
                if group.names().iter().any(|uri| left_out.contains(uri)) {
                    ended.retain(|number| *number != group.number);
                }
            }
            let kept = names(self.groups.iter().filter(|group| !ended.contains(&group.number)));
            for uri in latest.requested() {
                let outcome = if kept.contains(uri) { Ok(()) } else { Err(DECLINED.to_owned()) };
                if watches.subscribed(uri, &outcome) {
                    missed.push(uri.clone());
                }
            }
        }
        self.end_replaced(&ended);
        missed.iter().for_each(|uri| self.shared.resource_updated(uri));
        ended.len() < replaced.len()
    }

    /// Ends the subscriptions without clients.
    fn end_unneeded(&mut self) {
        let unneeded: Vec<_> = {
            let watches = lock(&self.shared.watches);
            let is_needed = |group: &Group| group.names().iter().any(|uri| watches.is_held(uri));
            self.groups.iter().filter(|group| !is_needed(group)).map(|group| group.number).collect()
        };
        if !unneeded.is_empty() {
            self.end_replaced(&unneeded);
        }
    }

    /// Ends subscriptions that newer ones have replaced, unless a client is subscribed to one of their resources that
    /// no other subscription names. Records the resources that have no subscription any more.
    fn end_replaced(&mut self, replaced: &[u64]) {
        let kept = names(self.groups.iter().filter(|group| !replaced.contains(&group.number)));
        let mut watches = lock(&self.shared.watches);
        let unnamed: Vec<_> = watches.active().filter(|(uri, _)| !kept.contains(*uri)).collect();
        if unnamed.iter().any(|(_, is_held)| *is_held) {
            // A client has subscribed to it again.
            watches.renew();
            return;
        }
        let unnamed: Vec<_> = unnamed.into_iter().map(|(uri, _)| uri.clone()).collect();
        unnamed.iter().for_each(|uri| watches.unsubscribed(uri));
        drop(watches);
        // Their cancellations take the lock of the connection.
        self.groups.retain(|group| !replaced.contains(&group.number));
    }
}

/// Returns whether there are changes for another request. While one that replaces the subscriptions is in flight, only
/// those for new resources count.
fn has_changes(shared: &Shared, is_replacing: bool) -> bool {
    let watches = lock(&shared.watches);
    if is_replacing { watches.has_new_changes() } else { watches.has_changes() }
}

/// Returns whether a resource is active that none of these subscriptions covers, or changes of one may have been
/// missed.
fn has_lapsed(shared: &Shared, groups: &[Group]) -> bool {
    let names = names(groups.iter());
    groups.iter().any(Group::has_restarted) || lock(&shared.watches).active().any(|(uri, _)| !names.contains(uri))
}

#[cfg(test)]
mod tests;
