//! The table of the exchanges of a client.

use alloc::{boxed::Box, vec::Vec};

use super::{ExchangeId, exchange::Exchange};
use crate::collections::WindowMap;

/// The exchanges that are not over, by their ids, which rise.
///
/// An exchange is large, and a place of the table is not, so that few bytes are moved if exchanges begin and end.
#[derive(Debug)]
pub(super) struct Exchanges {
    table: WindowMap<Box<Exchange>>,
    /// The number of exchanges with [`has_deadline`](Exchange::has_deadline). Few have one: the deadline of a request
    /// is that of its call.
    timed: usize,
}

impl Exchanges {
    pub(super) const fn new() -> Self {
        Self { table: WindowMap::new(), timed: 0 }
    }

    pub(super) fn insert(&mut self, id: ExchangeId, exchange: Exchange) {
        self.timed += usize::from(exchange.has_deadline());
        self.table.insert(id.0, Box::new(exchange));
    }

    /// Changes an exchange so that it may have another deadline.
    pub(super) fn change_deadline(&mut self, id: ExchangeId, change: impl FnOnce(&mut Exchange)) {
        let Some(exchange) = self.table.get_mut(id.0) else { return };
        self.timed -= usize::from(exchange.has_deadline());
        change(exchange);
        self.timed += usize::from(exchange.has_deadline());
    }

    /// Returns the exchanges that may have a deadline, in no particular order.
    pub(super) fn timed(&self) -> impl Iterator<Item = &Exchange> {
        debug_assert_eq!(self.timed, self.values().filter(|exchange| exchange.has_deadline()).count());
        let all = (self.timed > 0).then(|| self.values());
        all.into_iter().flatten().filter(|exchange| exchange.has_deadline())
    }

    pub(super) fn get(&self, id: ExchangeId) -> Option<&Exchange> {
        self.table.get(id.0).map(|exchange| &**exchange)
    }

    pub(super) fn get_mut(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        self.table.get_mut(id.0).map(|exchange| &mut **exchange)
    }

    pub(super) fn remove(&mut self, id: ExchangeId) -> Option<Exchange> {
        let exchange = *self.table.remove(id.0)?;
        self.timed -= usize::from(exchange.has_deadline());
        Some(exchange)
    }

    /// Returns the exchanges, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ExchangeId, &Exchange)> {
        self.table.iter().map(|(id, exchange)| (ExchangeId(id), &**exchange))
    }

    /// Returns the ids of the exchanges that `matches`, oldest first.
    pub(super) fn ids(&self, matches: impl Fn(&Exchange) -> bool) -> Vec<ExchangeId> {
        let mut ids: Vec<_> = self.iter().filter(|(_, exchange)| matches(exchange)).map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the exchanges, in no particular order.
    pub(super) fn values(&self) -> impl Iterator<Item = &Exchange> {
        self.table.values().map(|exchange| &**exchange)
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
