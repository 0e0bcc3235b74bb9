//! The resources of a backend with subscriptions of clients, and the subscriptions of the proxy to them.

use std::collections::{BTreeMap, BTreeSet};

use crate::server::client_key::{ClientKey, has_share};

/// The resources of a backend with subscriptions of clients, by URI.
#[derive(Default)]
pub(super) struct Watches {
    all: BTreeMap<String, Watch>,
    /// The resources whose subscription at the backend may have to change.
    changed: BTreeSet<String>,
    /// The resources without the subscription that the backend has accepted before. The proxy subscribes again.
    lost: BTreeSet<String>,
    /// Whether one subscription to all resources has to be requested (2026-07-28).
    is_renewal_due: bool,
    /// The number of resources in the share of each client.
    owned: BTreeMap<ClientKey, usize>,
}

/// A resource with a subscription of a client. The entry stays until the subscription at the backend has ended.
struct Watch {
    /// The number of subscriptions of clients.
    holders: usize,
    /// The number of subscriptions of each client.
    of_clients: BTreeMap<ClientKey, usize>,
    /// The client in whose share the resource counts: the first one that is still subscribed, or the last one that was.
    owner: ClientKey,
    at_backend: AtBackend,
    /// Whether the backend has accepted a subscription before, on this connection or an earlier one.
    is_accepted: bool,
    /// The reason why the backend has refused the latest subscription.
    refused: Option<String>,
    /// How often the backend has refused a request for this resource alone since it has accepted one (2026-07-28).
    lone_refusals: u32,
}

/// The state of the subscription of the proxy at the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtBackend {
    Nothing,
    /// A request to subscribe or to unsubscribe is in flight.
    Changing,
    Active,
}

/// A pending change of the subscription to a resource.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Subscribe(String),
    Unsubscribe(String),
}

/// The changes of the subscriptions at a backend without sessions (2026-07-28).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changes {
    /// The resources that the next request names: all of them, or only new ones.
    pub(super) named: Vec<String>,
    /// The named resources that no subscription covers yet.
    pub(super) new: Vec<String>,
    /// Whether that request is needed.
    pub(super) is_request_needed: bool,
    /// The resources that are requested without others, because they were refused alone.
    pub(super) apart: Vec<Part>,
}

/// Resources in the share of one client, which are requested without others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) client: ClientKey,
    /// Whether the backend has refused each of them alone before.
    pub(super) is_suspect: bool,
    pub(super) uris: Vec<String>,
}

/// The state of a subscription, for a client that waits for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Watched {
    Active,
    Refused(String),
    Waiting,
}

/// Counts a resource in the share of another client.
fn move_to(owned: &mut BTreeMap<ClientKey, usize>, owner: &mut ClientKey, next: &ClientKey) {
    remove_one(owned, owner);
    *owned.entry(next.clone()).or_default() += 1;
    *owner = next.clone();
}

fn remove_one(owned: &mut BTreeMap<ClientKey, usize>, client: &ClientKey) {
    if let Some(count) = owned.get_mut(client) {
        *count -= 1;
        if *count == 0 {
            owned.remove(client);
        }
    }
}

impl Watches {
    /// Adds a subscription of a client. Returns whether there is room: the resources are at most `max`, and those of
    /// one client at most its share.
    pub(super) fn hold(&mut self, uri: &str, client: &ClientKey, max: usize) -> bool {
        if let Some(watch) = self.all.get_mut(uri) {
            watch.holders += 1;
            *watch.of_clients.entry(client.clone()).or_default() += 1;
            if watch.holders == 1 {
                move_to(&mut self.owned, &mut watch.owner, client);
            }
            if watch.refused.take().is_some() {
                // The backend may accept the subscription now.
                self.lost.remove(uri);
                self.changed.insert(uri.to_owned());
            }
            return true;
        }
        if !has_share(max, self.all.len(), self.owned.get(client).copied().unwrap_or(0)) {
            return false;
        }
        let (owner, at_backend) = (client.clone(), AtBackend::Nothing);
        let of_clients = BTreeMap::from([(client.clone(), 1)]);
        let (is_accepted, refused, lone_refusals) = (false, None, 0);
        let watch = Watch { holders: 1, of_clients, owner, at_backend, is_accepted, refused, lone_refusals };
        self.all.insert(uri.to_owned(), watch);
        *self.owned.entry(client.clone()).or_default() += 1;
        self.changed.insert(uri.to_owned());
        true
    }

    /// Removes a subscription of a client. Returns whether the subscription at the backend has to change.
    pub(super) fn release(&mut self, uri: &str, client: &ClientKey) -> bool {
        let Some(watch) = self.all.get_mut(uri) else { return false };
        watch.holders -= 1;
        if let Some(count) = watch.of_clients.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                watch.of_clients.remove(client);
            }
        }
        if watch.holders > 0 {
            if !watch.of_clients.contains_key(&watch.owner)
                && let Some(next) = watch.of_clients.keys().next()
            {
                move_to(&mut self.owned, &mut watch.owner, next);
            }
            return false;
        }
        match watch.at_backend {
            AtBackend::Nothing => {
                self.remove(uri);
                false
            }
            AtBackend::Changing => false,
            AtBackend::Active => self.changed.insert(uri.to_owned()),
        }
    }

    fn remove(&mut self, uri: &str) {
        self.changed.remove(uri);
        self.lost.remove(uri);
        let Some(watch) = self.all.remove(uri) else { return };
        remove_one(&mut self.owned, &watch.owner);
    }

    /// Returns whether a client is subscribed to a resource, or to a parent of its URI.
    pub(super) fn concerns(&self, uri: &str) -> bool {
        let is_below = |wanted: &&String| {
            uri.strip_prefix(&***wanted).is_some_and(|rest| rest.starts_with('/') || wanted.ends_with('/'))
        };
        self.is_held(uri) || self.all.keys().filter(is_below).any(|wanted| self.is_held(wanted))
    }

    pub(super) fn state(&self, uri: &str) -> Watched {
        match self.all.get(uri) {
            Some(Watch { refused: Some(why), .. }) => Watched::Refused(why.clone()),
            Some(Watch { at_backend: AtBackend::Active, .. }) => Watched::Active,
            _ => Watched::Waiting,
        }
    }

    /// Records that the connection to the backend has ended, so that all subscriptions are requested again.
    pub(super) fn disconnected(&mut self) {
        let unheld: Vec<_> =
            self.all.iter().filter(|(_, watch)| watch.holders == 0).map(|(uri, _)| uri.clone()).collect();
        unheld.iter().for_each(|uri| self.remove(uri));
        for watch in self.all.values_mut() {
            (watch.at_backend, watch.refused) = (AtBackend::Nothing, None);
        }
        self.lost.clear();
        self.is_renewal_due = false;
        self.changed = self.all.keys().cloned().collect();
    }

    /// Returns whether a resource has lost the subscription that the backend has accepted before.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Records that the subscriptions that were lost have to be requested again.
    pub(super) fn retry_lost(&mut self) {
        for uri in std::mem::take(&mut self.lost) {
            let Some(watch) = self.all.get_mut(&uri) else { continue };
            watch.refused = None;
            self.changed.insert(uri);
        }
    }

    pub(super) fn has_changes(&self) -> bool {
        self.is_renewal_due || !self.changed.is_empty()
    }

    /// Records that one subscription to all resources has to be requested (2026-07-28).
    pub(super) fn renew(&mut self) {
        self.is_renewal_due = true;
    }

    /// Takes out the next change of a subscription in a session.
    pub(super) fn next_change(&mut self) -> Option<Change> {
        while let Some(uri) = self.changed.pop_first() {
            let Some(watch) = self.all.get_mut(&uri) else { continue };
            match (watch.at_backend, watch.holders) {
                (AtBackend::Nothing, 1..) if watch.refused.is_none() => {
                    watch.at_backend = AtBackend::Changing;
                    return Some(Change::Subscribe(uri));
                }
                (AtBackend::Active, 0) => {
                    watch.at_backend = AtBackend::Changing;
                    return Some(Change::Unsubscribe(uri));
                }
                _ => {}
            }
        }
        None
    }

    /// Returns whether there are changes besides a [renewal](Self::renew), or resources without clients.
    pub(super) fn has_new_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Takes out the changes of the subscriptions without a session (2026-07-28). Unless `may_renew`, a renewal and the
    /// end of subscriptions without clients stay due, and the request names only new resources.
    pub(super) fn take_changes(&mut self, may_renew: bool) -> Changes {
        self.changed.clear();
        let is_renewal_due = std::mem::take(&mut self.is_renewal_due);
        let (mut named, mut new, mut apart) = (Vec::new(), Vec::new(), Vec::new());
        for (uri, watch) in self.all.iter_mut().filter(|(_, watch)| watch.holders > 0 && watch.refused.is_none()) {
            match watch.at_backend {
                AtBackend::Nothing => {
                    watch.at_backend = AtBackend::Changing;
                    if watch.lone_refusals > 0 {
                        apart.push(uri.clone());
                    } else {
                        new.push(uri.clone());
                        named.push(uri.clone());
                    }
                }
                AtBackend::Active => named.push(uri.clone()),
                AtBackend::Changing => {}
            }
        }
        let is_renewal_due = is_renewal_due || self.has_released();
        if !may_renew {
            self.is_renewal_due = is_renewal_due;
            named.clone_from(&new);
        }
        let is_request_needed = is_renewal_due && may_renew || !new.is_empty();
        Changes { named, new, is_request_needed, apart: self.by_client(apart) }
    }

    /// Groups resources by the client in whose share they count, and by whether the backend has refused them alone
    /// before. Those that were refused least often are first.
    pub(super) fn by_client(&self, uris: Vec<String>) -> Vec<Part> {
        let mut parts = BTreeMap::<(&ClientKey, bool), Vec<(u32, String)>>::new();
        for uri in uris {
            let Some(watch) = self.all.get(&uri) else { continue };
            parts.entry((&watch.owner, watch.lone_refusals > 0)).or_default().push((watch.lone_refusals, uri));
        }
        let part = |((client, is_suspect), mut uris): (_, Vec<_>)| {
            uris.sort_unstable();
            Part { client: ClientKey::clone(client), is_suspect, uris: uris.into_iter().map(|(_, uri)| uri).collect() }
        };
        parts.into_iter().map(part).collect()
    }

    /// Returns whether a client is subscribed to this resource.
    pub(super) fn is_held(&self, uri: &str) -> bool {
        self.all.get(uri).is_some_and(|watch| watch.holders > 0)
    }

    /// Returns those of these resources that have clients, and removes the others, which have no subscription.
    pub(super) fn keep_held(&mut self, uris: Vec<String>) -> Vec<String> {
        let (held, released): (Vec<_>, Vec<String>) = uris.into_iter().partition(|uri| self.is_held(uri));
        released.iter().for_each(|uri| self.remove(uri));
        held
    }

    /// Records that the backend has refused a request for this resource alone.
    pub(super) fn refused_alone(&mut self, uri: &str, outcome: &Result<(), String>) {
        if let Some(watch) = self.all.get_mut(uri) {
            watch.lone_refusals = watch.lone_refusals.saturating_add(1);
        }
        self.subscribed(uri, outcome);
    }

    /// Records the outcome of a request to subscribe, or that the backend has ended a subscription. Without a
    /// subscription that it has accepted before, the resource counts as [lost](Self::has_lost). Returns whether the
    /// backend has accepted it again, so that clients may have missed changes.
    pub(super) fn subscribed(&mut self, uri: &str, outcome: &Result<(), String>) -> bool {
        let Some(watch) = self.all.get_mut(uri) else { return false };
        let has_gap = outcome.is_ok() && watch.is_accepted && watch.at_backend != AtBackend::Active;
        watch.at_backend = if outcome.is_ok() { AtBackend::Active } else { AtBackend::Nothing };
        match (outcome, watch.holders) {
            (Ok(()), holders) => {
                (watch.is_accepted, watch.refused, watch.lone_refusals) = (true, None, 0);
                self.lost.remove(uri);
                if holders == 0 {
                    self.changed.insert(uri.to_owned());
                }
            }
            (Err(_), 0) => self.remove(uri),
            (Err(why), _) => {
                watch.refused = Some(why.clone());
                if watch.is_accepted {
                    self.lost.insert(uri.to_owned());
                }
            }
        }
        has_gap
    }

    /// Records that the subscription at the backend has ended.
    pub(super) fn unsubscribed(&mut self, uri: &str) {
        let Some(watch) = self.all.get_mut(uri) else { return };
        watch.at_backend = AtBackend::Nothing;
        if watch.holders == 0 {
            self.remove(uri);
        } else {
            self.changed.insert(uri.to_owned());
        }
    }

    /// Returns whether there is a subscription at the backend to a resource without clients.
    pub(super) fn has_released(&self) -> bool {
        self.active().any(|(_, is_held)| !is_held)
    }

    /// Returns the resources with a subscription at the backend.
    pub(super) fn active(&self) -> impl Iterator<Item = (&String, bool)> {
        let active = self.all.iter().filter(|(_, watch)| watch.at_backend == AtBackend::Active);
        active.map(|(uri, watch)| (uri, watch.holders > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A resource counts in the share of a client that is subscribed to it.
    #[test]
    fn shares_follow_the_subscriptions() {
        let [a, b] = [1, 2].map(ClientKey::Connection);
        let mut watches = Watches::default();
        for number in 0..896 {
            assert!(watches.hold(&format!("a://{number}"), &a, 1024), "{number}");
        }
        assert!(!watches.hold("a://more", &a, 1024), "it is the whole share");
        for number in 0..896 {
            assert!(watches.hold(&format!("a://{number}"), &b, 1024));
            assert!(!watches.release(&format!("a://{number}"), &a));
        }
        assert_eq!(watches.owned, BTreeMap::from([(b.clone(), 896)]));
        assert!(watches.hold("a://more", &a, 1024), "the first client holds nothing");
        assert!(!watches.hold("a://another", &b, 1024), "the other one holds its whole share");
        for number in 0..896 {
            watches.release(&format!("a://{number}"), &b);
        }
        assert_eq!(watches.owned, BTreeMap::from([(a, 1)]));
    }

    #[test]
    fn resources_below_one_that_ends_in_a_slash_concern_it() {
        let client = ClientKey::Connection(1);
        let mut watches = Watches::default();
        assert!(watches.hold("file:///dir/", &client, 10) && watches.hold("file:///other", &client, 10));
        for (uri, concerns) in [
            ("file:///dir/a", true),
            ("file:///dir/", true),
            ("file:///dir", false),
            ("file:///other/a", true),
            ("file:///others", false),
        ] {
            assert_eq!(watches.concerns(uri), concerns, "{uri}");
        }
    }

    const URI: &str = "test://a";

    fn held() -> (Watches, ClientKey) {
        let (mut watches, client) = (Watches::default(), ClientKey::Connection(1));
        assert!(watches.hold(URI, &client, 10));
        (watches, client)
    }

    fn names(named: &[&str]) -> Vec<String> {
        named.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn state_is_that_of_the_last_outcome() {
        let (mut watches, _) = held();
        assert_eq!((watches.state(URI), watches.state("test://none")), (Watched::Waiting, Watched::Waiting));
        assert_eq!(watches.next_change(), Some(Change::Subscribe(URI.into())));
        assert_eq!((watches.state(URI), watches.next_change()), (Watched::Waiting, None));
        watches.subscribed(URI, &Err("no".into()));
        assert_eq!((watches.state(URI), watches.has_changes()), (Watched::Refused("no".into()), false));
        // Another client may succeed.
        assert!(watches.hold(URI, &ClientKey::Connection(2), 10) && watches.has_changes());
        assert_eq!(watches.state(URI), Watched::Waiting);
        assert_eq!(watches.next_change(), Some(Change::Subscribe(URI.into())));
        watches.subscribed(URI, &Ok(()));
        assert_eq!((watches.state(URI), watches.has_changes()), (Watched::Active, false));
        watches.disconnected();
        assert_eq!((watches.state(URI), watches.has_changes()), (Watched::Waiting, true));
    }

    /// The proxy subscribes again to a resource that the backend has accepted before.
    #[test]
    fn refused_resources_are_lost_if_accepted_before() {
        let (mut watches, client) = held();
        let refuse = |watches: &mut Watches| {
            assert_eq!(watches.next_change(), Some(Change::Subscribe(URI.into())));
            watches.subscribed(URI, &Err("no".into()));
        };
        refuse(&mut watches);
        assert!(!watches.has_lost(), "it is the first one");
        watches.subscribed(URI, &Ok(()));
        assert_eq!(watches.state(URI), Watched::Active);
        for _ in 0..2 {
            watches.disconnected();
            refuse(&mut watches);
            assert_eq!((watches.has_lost(), watches.has_changes()), (true, false));
            watches.retry_lost();
            assert_eq!((watches.has_lost(), watches.state(URI)), (false, Watched::Waiting));
            refuse(&mut watches);
            assert!(watches.has_lost());
        }
        // Another client does not wait for the next attempt, and gets the outcome of its own.
        let other = ClientKey::Connection(2);
        assert!(watches.hold(URI, &other, 10) && !watches.has_lost());
        refuse(&mut watches);
        assert_eq!((watches.state(URI), watches.has_lost()), (Watched::Refused("no".into()), true));
        assert!(!watches.release(URI, &other) && watches.has_lost());
        assert!(!watches.release(URI, &client) && !watches.has_lost(), "no client is left");
        assert!(watches.all.is_empty());
    }

    /// Returns the resources of the next requests: those of one for all, the new ones of them, and those apart.
    fn take(watches: &mut Watches) -> (Vec<String>, Vec<String>, Vec<String>) {
        let changes = watches.take_changes(true);
        (changes.named, changes.new, changes.apart.into_iter().flat_map(|part| part.uris).collect())
    }

    #[test]
    fn released_resources_are_not_named_and_concern_no_client() {
        let (mut watches, client) = held();
        assert!(watches.hold("test://b", &client, 10));
        let both = || names(&[URI, "test://b"]);
        assert_eq!(take(&mut watches), (both(), both(), vec![]));
        assert_eq!(take(&mut watches), (vec![], vec![], vec![]), "both are in flight");
        watches.subscribed(URI, &Ok(()));
        watches.subscribed("test://b", &Ok(()));
        assert_eq!(take(&mut watches), (both(), vec![], vec![]));
        assert!(watches.concerns(URI) && watches.concerns("test://a/b") && !watches.has_released());
        assert!(watches.release(URI, &client) && watches.has_released());
        assert!(!watches.concerns(URI) && !watches.concerns("test://a/b"));
        assert_eq!(take(&mut watches), (names(&["test://b"]), vec![], vec![]));
        let active: Vec<_> = watches.active().map(|(uri, is_held)| (uri.as_str(), is_held)).collect();
        assert_eq!(active, [(URI, false), ("test://b", true)]);
        watches.unsubscribed(URI);
        assert!(!watches.has_released());
        assert_eq!(watches.owned, BTreeMap::from([(client, 1)]));
        assert_eq!(watches.all.keys().collect::<Vec<_>>(), ["test://b"]);
    }

    #[test]
    fn resources_that_were_refused_alone_are_requested_apart() {
        let (mut watches, client) = held();
        let other = ClientKey::Connection(2);
        for (uri, client) in [("test://b", &client), ("test://c", &other), ("test://d", &client)] {
            assert!(watches.hold(uri, client, 10));
        }
        let (_, new, _) = take(&mut watches);
        let of = |client: &ClientKey, is_suspect: bool, uris: &[&str]| Part {
            client: client.clone(),
            is_suspect,
            uris: names(uris),
        };
        let all = [of(&client, false, &[URI, "test://b", "test://d"]), of(&other, false, &["test://c"])];
        assert_eq!(watches.by_client(new.clone()), all);
        new.iter().for_each(|uri| assert!(!watches.subscribed(uri, &Ok(())), "nothing was missed"));
        watches.disconnected();
        take(&mut watches);
        watches.refused_alone(URI, &Err("no".into()));
        assert!(watches.subscribed("test://b", &Ok(())) && watches.subscribed("test://c", &Ok(())));
        watches.subscribed("test://d", &Err("no".into()));
        watches.retry_lost();
        let changes = watches.take_changes(true);
        assert_eq!((changes.new, changes.is_request_needed), (names(&["test://d"]), true));
        assert_eq!((changes.named.len(), changes.apart), (3, vec![of(&client, true, &[URI])]));
        let parts = [of(&client, false, &["test://d"]), of(&client, true, &[URI])];
        assert_eq!(watches.by_client(names(&[URI, "test://d"])), parts);
        // Without a new one, no other request is needed.
        watches.subscribed("test://d", &Ok(()));
        watches.refused_alone(URI, &Err("no".into()));
        watches.retry_lost();
        assert!(!watches.take_changes(true).is_request_needed);
        watches.renew();
        assert!(watches.has_changes() && watches.take_changes(true).is_request_needed && !watches.has_changes());
        // While another request for all is in flight, a request names new ones only, and the renewal waits.
        assert!(watches.hold("test://e", &other, 10));
        watches.renew();
        let changes = watches.take_changes(false);
        assert_eq!((&changes.named, changes.is_request_needed), (&names(&["test://e"]), true));
        assert_eq!((changes.new, watches.has_new_changes(), watches.has_changes()), (changes.named, false, true));
        assert!(!watches.take_changes(false).is_request_needed && watches.has_changes());
        assert!(watches.take_changes(true).is_request_needed && !watches.has_changes());
        // One that is accepted is like any other.
        assert!(watches.subscribed(URI, &Ok(())));
        watches.disconnected();
        assert_eq!(take(&mut watches).0.len(), 5);
        // Those that were refused least often are first.
        for uri in [URI, URI, "test://d"] {
            watches.refused_alone(uri, &Err("no".into()));
        }
        assert_eq!(watches.by_client(names(&[URI, "test://d"])), [of(&client, true, &["test://d", URI])]);
        // A client that is gone needs no subscription.
        assert!(!watches.release("test://c", &other));
        assert_eq!(watches.keep_held(names(&[URI, "test://c"])), [URI]);
        assert!(!watches.all.contains_key("test://c"));
    }

    #[test]
    fn a_released_resource_ends_when_the_backend_has_responded() {
        // Before the request was sent.
        let (mut watches, client) = held();
        assert!(!watches.release(URI, &client) && !watches.has_changes() && watches.all.is_empty());
        assert!(!watches.release(URI, &client), "there is none");
        // While the request is in flight, by its outcome.
        for (outcome, change) in [(Ok(()), Some(Change::Unsubscribe(URI.into()))), (Err("no".to_owned()), None)] {
            let (mut watches, client) = held();
            assert_eq!(watches.next_change(), Some(Change::Subscribe(URI.into())));
            assert!(!watches.release(URI, &client));
            watches.subscribed(URI, &outcome);
            assert_eq!(watches.next_change(), change);
            assert_eq!(watches.all.len(), usize::from(outcome.is_ok()));
        }
        // It is wanted again before the end is confirmed.
        let (mut watches, client) = held();
        watches.next_change();
        watches.subscribed(URI, &Ok(()));
        assert!(watches.release(URI, &client));
        assert_eq!(watches.next_change(), Some(Change::Unsubscribe(URI.into())));
        assert!(watches.hold(URI, &client, 10));
        assert_eq!(watches.next_change(), None);
        watches.unsubscribed(URI);
        assert_eq!(watches.next_change(), Some(Change::Subscribe(URI.into())));
        // The end of the connection ends what is not held.
        watches.subscribed(URI, &Ok(()));
        watches.release(URI, &client);
        watches.disconnected();
        assert!(watches.all.is_empty() && watches.owned.is_empty() && !watches.has_changes());
    }
}
