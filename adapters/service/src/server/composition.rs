//! The services and servers whose items a service offers.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, Weak},
};

use mcp_proto::schema::LoggingLevel;

use super::{catalog::ItemKey, register_error::RegisterError};
use crate::util::{lock::lock, prefix::Prefix};

/// A server whose items a service offers, and which sends log messages.
pub(crate) trait LogSource: Send + Sync {
    /// Notes that a client of the service wants log messages of this level.
    fn wants_log(&self, level: &LoggingLevel);
}

/// A service whose items another one offers.
pub(super) trait Part: Send + Sync {
    /// Makes items of the whole those of the part. They are those that have changed.
    fn follow(&self, changed: &[ItemKey]);

    /// Makes the templates for unlisted resources of the whole those of the part.
    fn follow_unlisted(&self);

    /// Notifies the clients of the whole. Returns the number of subscriptions.
    fn resource_updated(&self, uri: &str) -> usize;

    /// Notes that a client of the whole wants log messages of this level.
    fn wants_log(&self, level: &LoggingLevel);

    /// Returns whether the part is the service at this address, or contains it.
    fn contains(&self, service: usize) -> bool;
}

/// The services and servers whose items a service offers, and the services that offer its items.
#[derive(Default)]
pub(crate) struct Composition {
    /// The prefixes in use. No prefix is used any number of times: names decide then.
    prefixes: Mutex<BTreeSet<String>>,
    /// The names of servers.
    names: Mutex<BTreeSet<String>>,
    parts: Mutex<Vec<Arc<dyn Part>>>,
    wholes: Mutex<Vec<Weak<dyn Part>>>,
    servers: Mutex<Vec<Weak<dyn LogSource>>>,
}

impl Composition {
    /// Reserves a prefix.
    pub(crate) fn claim(&self, prefix: &Prefix) -> Result<(), RegisterError> {
        if prefix.is_none() || lock(&self.prefixes).insert(prefix.identity().to_owned()) {
            return Ok(());
        }
        Err(RegisterError::Taken(prefix.to_string()))
    }

    /// Frees a prefix.
    pub(crate) fn release(&self, prefix: &Prefix) {
        lock(&self.prefixes).remove(prefix.identity());
    }

    /// Reserves the name and the prefix of a server.
    pub(crate) fn claim_server(&self, name: &str, prefix: &Prefix) -> Result<(), RegisterError> {
        if !lock(&self.names).insert(name.to_owned()) {
            return Err(RegisterError::Taken(name.to_owned()));
        }
        let claimed = self.claim(prefix);
        if claimed.is_err() {
            lock(&self.names).remove(name);
        }
        claimed
    }

    /// Frees the name and the prefix of a server.
    pub(crate) fn release_server(&self, name: &str, prefix: &Prefix) {
        self.release(prefix);
        lock(&self.names).remove(name);
    }

    pub(super) fn add_part(&self, part: Arc<dyn Part>) {
        lock(&self.parts).push(part);
    }

    pub(super) fn add_whole(&self, whole: Weak<dyn Part>) {
        let mut wholes = lock(&self.wholes);
        wholes.retain(|whole| whole.strong_count() > 0);
        wholes.push(whole);
    }

    pub(crate) fn add_server(&self, server: Weak<dyn LogSource>) {
        let mut servers = lock(&self.servers);
        servers.retain(|server| server.strong_count() > 0);
        servers.push(server);
    }

    /// Returns whether the service offers items of others.
    pub(super) fn has_parts(&self) -> bool {
        !lock(&self.parts).is_empty() || !lock(&self.servers).is_empty()
    }

    /// Returns whether the service offers items of this one, directly or not.
    pub(super) fn contains(&self, service: usize) -> bool {
        let parts = lock(&self.parts).clone();
        parts.iter().any(|part| part.contains(service))
    }

    /// Updates items of the services that offer those of this one.
    pub(super) fn follow(&self, changed: &[ItemKey]) {
        if !changed.is_empty() {
            self.wholes().for_each(|whole| whole.follow(changed));
        }
    }

    /// Updates the templates for unlisted resources of the services that offer the items of this one.
    pub(crate) fn follow_unlisted(&self) {
        self.wholes().for_each(|whole| whole.follow_unlisted());
    }

    /// Notifies the clients of the services that offer a resource of this one. Returns the number of subscriptions.
    pub(super) fn resource_updated(&self, uri: &str) -> usize {
        self.wholes().map(|whole| whole.resource_updated(uri)).sum()
    }

    fn wholes(&self) -> impl Iterator<Item = Arc<dyn Part>> + use<> {
        let wholes: Vec<_> = lock(&self.wholes).iter().filter_map(Weak::upgrade).collect();
        wholes.into_iter()
    }

    /// Notes that a client wants log messages of this level.
    pub(super) fn wants_log(&self, level: &LoggingLevel) {
        let servers: Vec<_> = lock(&self.servers).iter().filter_map(Weak::upgrade).collect();
        servers.iter().for_each(|server| server.wants_log(level));
        let parts = lock(&self.parts).clone();
        parts.iter().for_each(|part| part.wants_log(level));
    }
}
