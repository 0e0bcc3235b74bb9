//! The items that a service offers for another server or service, kept equal to a list of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    catalog::{Catalog, Kind},
    catalog_update::{Prepared, Registration},
    register_error::RegisterError,
    service::Service,
};
use crate::util::lock::write;

/// An item to offer.
pub(crate) struct Offer {
    pub(crate) kind: Kind,
    /// The name or URI in this service.
    pub(crate) name: String,
    /// Equal for equal definitions.
    pub(crate) identity: u64,
    pub(crate) item: Registration,
}

/// The items that a service offers for one source, with their identities.
#[derive(Default)]
pub(crate) struct Offers(BTreeMap<(Kind, String), u64>);

impl Offers {
    /// Replaces the items of these kinds. The clients are notified of each list that has changed, and of the lists of
    /// all kinds if `always` is set. Items that cannot be offered are left out and returned as errors.
    ///
    /// Its cost is linear in the number of items of the service, but for the lookup of names.
    pub(crate) fn replace(
        &mut self,
        service: &Service,
        kinds: &[Kind],
        offers: Vec<Offer>,
        always: bool,
    ) -> Vec<RegisterError> {
        let (mut kept, mut added, mut refused, mut seen) = (BTreeSet::new(), Vec::new(), Vec::new(), BTreeSet::new());
        for Offer { kind, name, identity, item } in offers {
            let key = (kind, name);
            if !seen.insert(key.clone()) {
                refused.push(RegisterError::Taken(key.1));
            } else if self.0.get(&key) == Some(&identity) {
                kept.insert(key);
            } else {
                match item.prepared() {
                    Ok(item) => added.push((key, identity, item)),
                    Err(error) => refused.push(error),
                }
            }
        }
        let is_removed = |key: &(Kind, String)| kinds.contains(&key.0) && !kept.contains(key);
        let removed: Vec<_> = self.0.keys().filter(|key| is_removed(key)).cloned().collect();
        self.0.retain(|key, _| !is_removed(key));
        let mut changed: Vec<Kind> = removed.iter().map(|(kind, _)| *kind).collect();
        {
            let catalog = &mut *write(&service.0.catalog);
            catalog.remove_all(&removed);
            for (key, identity, item) in added {
                if catalog.has(key.0, &key.1) {
                    refused.push(RegisterError::Taken(key.1));
                } else {
                    Prepared::insert(item, catalog, &service.0.routes);
                    changed.push(key.0);
                    self.0.insert(key, identity);
                }
            }
        }
        if always {
            changed.extend(kinds.iter().filter(|kind| self.0.keys().any(|(known, _)| known == *kind)));
        }
        changed.sort_unstable();
        changed.dedup();
        service.list_changed(&changed);
        refused
    }

    /// Adds the first items, all of them or none, and makes a change of the catalog together with them. The clients are
    /// notified of each list that has changed.
    ///
    /// # Errors
    /// If an item is invalid or its name is taken. Nothing was changed then.
    pub(super) fn insert_all(
        &mut self,
        service: &Service,
        offers: Vec<Offer>,
        also: impl FnOnce(&mut Catalog),
    ) -> Result<(), RegisterError> {
        let (mut added, mut seen) = (Vec::with_capacity(offers.len()), BTreeSet::new());
        for Offer { kind, name, identity, item } in offers {
            let key = (kind, name);
            if !seen.insert(key.clone()) {
                return Err(RegisterError::Taken(key.1));
            }
            added.push((key, identity, item.prepared()?));
        }
        let mut changed: Vec<Kind> = Vec::new();
        {
            let catalog = &mut *write(&service.0.catalog);
            if let Some(((_, name), ..)) = added.iter().find(|((kind, name), ..)| catalog.has(*kind, name)) {
                return Err(RegisterError::Taken(name.clone()));
            }
            for (key, identity, item) in added {
                Prepared::insert(item, catalog, &service.0.routes);
                changed.push(key.0);
                self.0.insert(key, identity);
            }
            also(catalog);
        }
        changed.sort_unstable();
        changed.dedup();
        service.list_changed(&changed);
        Ok(())
    }

    /// Removes all items.
    pub(crate) fn clear(&mut self, service: &Service) {
        self.replace(service, &[Kind::Tool, Kind::Prompt, Kind::Resource, Kind::Template], Vec::new(), false);
    }
}
