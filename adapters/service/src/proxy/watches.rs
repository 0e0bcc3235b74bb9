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
        let watch = Watch { holders: 1, of_clients, owner, at_backend, is_accepted: false, refused: None };
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
        let is_held = |wanted: &String| self.all.get(wanted).is_some_and(|watch| watch.holders > 0);
        let is_below = |wanted: &&String| {
            uri.strip_prefix(&***wanted).is_some_and(|rest| rest.starts_with('/') || wanted.ends_with('/'))
        };
        self.all.get(uri).is_some_and(|watch| watch.holders > 0) || self.all.keys().filter(is_below).any(is_held)
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
        !self.changed.is_empty()
    }

    /// Records that the subscription to all resources has to be requested again.
    pub(super) fn changed(&mut self) {
        let first = self.all.keys().next().cloned();
        self.changed.extend(first);
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

    /// Takes out the changes of a subscription to all resources together (2026-07-28). Returns the resources that it
    /// has to name, with those that are new.
    pub(super) fn take_changes(&mut self) -> (Vec<String>, Vec<String>) {
        self.changed.clear();
        let (mut named, mut new) = (Vec::new(), Vec::new());
        for (uri, watch) in self.all.iter_mut().filter(|(_, watch)| watch.holders > 0 && watch.refused.is_none()) {
            match watch.at_backend {
                AtBackend::Nothing => {
                    watch.at_backend = AtBackend::Changing;
                    new.push(uri.clone());
                    named.push(uri.clone());
                }
                AtBackend::Active => named.push(uri.clone()),
                AtBackend::Changing => {}
            }
        }
        (named, new)
    }

    /// Records the outcome of a request to subscribe, or that the backend has ended a subscription. Without a
    /// subscription that it has accepted before, the resource counts as [lost](Self::has_lost).
    pub(super) fn subscribed(&mut self, uri: &str, outcome: &Result<(), String>) {
        let Some(watch) = self.all.get_mut(uri) else { return };
        watch.at_backend = if outcome.is_ok() { AtBackend::Active } else { AtBackend::Nothing };
        match (outcome, watch.holders) {
            (Ok(()), holders) => {
                (watch.is_accepted, watch.refused) = (true, None);
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

    #[test]
    fn released_resources_are_not_named_and_concern_no_client() {
        let (mut watches, client) = held();
        assert!(watches.hold("test://b", &client, 10));
        assert_eq!(watches.take_changes(), (names(&[URI, "test://b"]), names(&[URI, "test://b"])));
        assert_eq!(watches.take_changes(), (names(&[]), names(&[])), "both are in flight");
        watches.subscribed(URI, &Ok(()));
        watches.subscribed("test://b", &Ok(()));
        assert_eq!(watches.take_changes(), (names(&[URI, "test://b"]), names(&[])));
        assert!(watches.concerns(URI) && watches.concerns("test://a/b") && !watches.has_released());
        assert!(watches.release(URI, &client) && watches.has_released());
        assert!(!watches.concerns(URI) && !watches.concerns("test://a/b"));
        assert_eq!(watches.take_changes(), (names(&["test://b"]), names(&[])));
        let active: Vec<_> = watches.active().map(|(uri, is_held)| (uri.as_str(), is_held)).collect();
        assert_eq!(active, [(URI, false), ("test://b", true)]);
        watches.unsubscribed(URI);
        assert!(!watches.has_released());
        assert_eq!(watches.owned, BTreeMap::from([(client, 1)]));
        assert_eq!(watches.all.keys().collect::<Vec<_>>(), ["test://b"]);
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
