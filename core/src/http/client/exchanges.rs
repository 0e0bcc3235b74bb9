//! The table of the exchanges of a client.

use alloc::{boxed::Box, vec::Vec};

use super::{ExchangeId, exchange::Exchange};
use crate::collections::WindowMap;

/// The exchanges that are not over, by their ids, which rise.
///
/// An exchange is large, and a place of the table is not, so that few bytes are moved if exchanges begin and end.
#[derive(Debug)]
pub(super) struct Exchanges(WindowMap<Box<Exchange>>);

impl Exchanges {
    pub(super) const fn new() -> Self {
        Self(WindowMap::new())
    }

    pub(super) fn insert(&mut self, id: ExchangeId, exchange: Exchange) {
        self.0.insert(id.0, Box::new(exchange));
    }

    pub(super) fn get(&self, id: ExchangeId) -> Option<&Exchange> {
        self.0.get(id.0).map(|exchange| &**exchange)
    }

    pub(super) fn get_mut(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        self.0.get_mut(id.0).map(|exchange| &mut **exchange)
    }

    pub(super) fn remove(&mut self, id: ExchangeId) -> Option<Exchange> {
        self.0.remove(id.0).map(|exchange| *exchange)
    }

    /// Returns the exchanges, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ExchangeId, &Exchange)> {
        self.0.iter().map(|(id, exchange)| (ExchangeId(id), &**exchange))
    }

    /// Returns the ids of the exchanges that `matches`, oldest first.
    pub(super) fn ids(&self, matches: impl Fn(&Exchange) -> bool) -> Vec<ExchangeId> {
        let mut ids: Vec<_> = self.iter().filter(|(_, exchange)| matches(exchange)).map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the exchanges, in no particular order.
    pub(super) fn values(&self) -> impl Iterator<Item = &Exchange> {
        self.0.values().map(|exchange| &**exchange)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
