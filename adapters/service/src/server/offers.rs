//! The items that a service offers for another server or service, kept equal to a list of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    catalog::{Catalog, ItemKey, Kind},
    catalog_update::{Prepared, Registration},
    register_error::RegisterError,
    routes::Routes,
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
pub(crate) struct Offers(BTreeMap<ItemKey, u64>);

/// The outcome of a change of the items that a service offers.
#[derive(Default)]
#[must_use = "the clients are to be notified, without the lock of the offers"]
pub(crate) struct Offered {
    /// The items that have changed.
    pub(crate) changed: Vec<ItemKey>,
    /// The reasons why items are not offered.
    pub(crate) refused: Vec<RegisterError>,
}

/// Items to offer, compared with those that are offered.
#[derive(Default)]
struct Compared {
    kept: BTreeSet<ItemKey>,
    added: Vec<(ItemKey, u64, Prepared)>,
    refused: Vec<RegisterError>,
}

impl Offers {
    /// Replaces the items of these kinds. Items that cannot be offered are left out.
    ///
    /// Its cost is linear in the number of items of the service, but for the lookup of names.
    pub(crate) fn replace(&mut self, service: &Service, kinds: &[Kind], offers: Vec<Offer>) -> Offered {
        let compared = self.compare(offers);
        let is_removed = |key: &&ItemKey| kinds.contains(&key.0) && !compared.kept.contains(*key);
        let removed = self.0.keys().filter(is_removed).cloned().collect();
        self.exchange(&mut write(&service.0.catalog), &service.0.routes, removed, compared)
    }

    /// Replaces the named items. Items that cannot be offered are left out.
    ///
    /// Its cost is linear in the number of these items, but for the lookup of names and for the places of those that
    /// are removed.
    pub(super) fn update(&mut self, service: &Service, named: BTreeSet<ItemKey>, offers: Vec<Offer>) -> Offered {
        let compared = self.compare(offers);
        let is_removed = |key: &ItemKey| self.0.contains_key(key) && !compared.kept.contains(key);
        let removed = named.into_iter().filter(is_removed).collect();
        self.exchange(&mut write(&service.0.catalog), &service.0.routes, removed, compared)
    }

    fn compare(&self, offers: Vec<Offer>) -> Compared {
        let (mut compared, mut seen) = (Compared::default(), BTreeSet::new());
        for Offer { kind, name, identity, item } in offers {
            let key = (kind, name);
            if !seen.insert(key.clone()) {
                compared.refused.push(RegisterError::Taken(key.1));
            } else if self.0.get(&key) == Some(&identity) {
                compared.kept.insert(key);
            } else {
                match item.prepared() {
                    Ok(item) => compared.added.push((key, identity, item)),
                    Err(error) => compared.refused.push(error),
                }
            }
        }
        compared
    }

    fn exchange(
        &mut self,
        catalog: &mut Catalog,
        routes: &Routes,
        removed: Vec<ItemKey>,
        compared: Compared,
    ) -> Offered {
        let Compared { added, mut refused, .. } = compared;
        for key in &removed {
            self.0.remove(key);
        }
        catalog.remove_all(&removed);
        let mut changed = removed;
        for (key, identity, item) in added {
            if catalog.has(key.0, &key.1) {
                refused.push(RegisterError::Taken(key.1));
            } else {
                item.insert(catalog, routes);
                self.0.insert(key.clone(), identity);
                changed.push(key);
            }
        }
        Offered { changed, refused }
    }

    /// Adds the first items, all of them or none, and makes a change of the catalog together with them.
    ///
    /// # Errors
    /// If an item is invalid or its name is taken. Nothing was changed then.
    pub(super) fn insert_all(
        &mut self,
        service: &Service,
        offers: Vec<Offer>,
        also: impl FnOnce(&mut Catalog),
    ) -> Result<Offered, RegisterError> {
        let mut compared = self.compare(offers);
        if !compared.refused.is_empty() {
            return Err(compared.refused.swap_remove(0));
        }
        let catalog = &mut *write(&service.0.catalog);
        if let Some(((_, name), ..)) = compared.added.iter().find(|((kind, name), ..)| catalog.has(*kind, name)) {
            return Err(RegisterError::Taken(name.clone()));
        }
        also(catalog);
        Ok(self.exchange(catalog, &service.0.routes, Vec::new(), compared))
    }

    /// Removes all items.
    pub(crate) fn clear(&mut self, service: &Service) -> Offered {
        self.replace(service, &[Kind::Tool, Kind::Prompt, Kind::Resource, Kind::Template], Vec::new())
    }

    /// Returns whether there are items of a kind.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.0.range((kind, String::new())..).next().is_some_and(|((known, _), _)| *known == kind)
    }
}
