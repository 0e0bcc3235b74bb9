//! Requests of the peer.

use alloc::collections::BTreeMap;
use core::hash::BuildHasher;

use foldhash::quality::FixedState;

use super::{Deadlines, StartTime, Timestamp};
use crate::{
    collections::{DebugSlab, LazyBox, SlotIndex, StaticDefault},
    wire::RequestId,
};

/// The key of a request of the peer, which needs exactly one response.
///
/// It stays valid after the peer has cancelled the request: a response is then accepted and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyKey {
    // The serial number is the first field: keys sort by arrival.
    serial: u64,
    slot: u32,
}

impl ReplyKey {
    /// Returns the index of the request in the table of requests in flight: a small number that is reused after the
    /// request has ended. Use it as an index into tables of your own.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.slot as usize
    }
}

/// The state of a request of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    /// The request needs a response.
    Open,
    /// The response waits in the outbox. A cancellation can still remove it.
    Answered,
    /// The peer has cancelled it, and the application has not responded to it yet.
    Cancelled,
}

/// One request of the peer. `T` is data of the owner.
#[derive(Clone, Debug)]
pub(crate) struct Entry<T> {
    pub(crate) id: RequestId,
    pub(crate) tag: T,
    serial: u64,
    /// The hash of the id.
    hash: u32,
    state: EntryState,
    since: StartTime,
}

impl<T> Entry<T> {
    /// Returns when the request was received.
    pub(crate) const fn since(&self) -> Timestamp {
        self.since.0
    }
}

/// The table of the peer's requests.
///
/// The peer chooses the ids, so they are hashed with a seed that is secret from the peer.
#[derive(Clone, Debug)]
pub(crate) struct Incoming<T: 'static> {
    tables: LazyBox<Tables<T>>,
    hasher: FixedState,
    next_serial: u64,
}

#[derive(Clone, Debug)]
struct Tables<T> {
    slots: DebugSlab<Entry<T>>,
    by_id: SlotIndex,
    open: usize,
    deadlines: ReplyDeadlines,
}

impl<T> Tables<T> {
    const fn new() -> Self {
        Self { slots: DebugSlab::new(), by_id: SlotIndex::new(), open: 0, deadlines: ReplyDeadlines::new() }
    }
}

/// The deadlines of requests that have one; most applications set none.
#[derive(Clone, Debug)]
struct ReplyDeadlines {
    of: BTreeMap<ReplyKey, Timestamp>,
    in_order: Deadlines<ReplyKey>,
}

impl ReplyDeadlines {
    const fn new() -> Self {
        Self { of: BTreeMap::new(), in_order: Deadlines::new() }
    }

    /// Changes the deadline of a request.
    #[inline]
    fn set(&mut self, key: ReplyKey, deadline: Option<Timestamp>) {
        if deadline.is_some() || !self.of.is_empty() {
            self.change(key, deadline);
        }
    }

    fn change(&mut self, key: ReplyKey, deadline: Option<Timestamp>) {
        let Self { of, in_order } = self;
        let before = match deadline {
            Some(at) => of.insert(key, at),
            None => of.remove(&key),
        };
        match (before, deadline) {
            (None, None) => return,
            (None, Some(_)) => {}
            (Some(_), Some(_)) => in_order.moved(),
            (Some(_), None) => in_order.ended(key),
        }
        if let Some(at) = deadline {
            in_order.set(at, key);
        }
        in_order.settle(of.len(), |key| of.get(&key).copied());
    }

    fn next(&self) -> Option<(Timestamp, ReplyKey)> {
        self.in_order.next()
    }
}

impl<T> Default for Tables<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: 'static> StaticDefault for Tables<T> {
    const EMPTY: &'static Self = &Self::new();
}

impl<T: 'static> Incoming<T> {
    pub(crate) fn new(seed: u64) -> Self {
        Self { tables: LazyBox::default(), hasher: FixedState::with_seed(seed), next_serial: 0 }
    }

    /// Returns the hash of an id for this table.
    pub(crate) fn hash(&self, id: &RequestId) -> u32 {
        self.hash_of(id) as u32
    }

    /// Returns the hash of an id, for other tables. The peer cannot predict it.
    pub(crate) fn hash_of(&self, id: &RequestId) -> u64 {
        self.hasher.hash_one(id)
    }

    /// Frees the memory of the table if it is empty.
    pub(crate) fn shrink(&mut self) {
        if self.len() == 0 {
            self.tables = LazyBox::default();
        }
    }

    /// Returns the number of requests that hold a slot, cancelled ones included.
    pub(crate) fn len(&self) -> usize {
        self.tables.slots.len()
    }

    /// Returns the number of requests that need a response.
    pub(crate) fn open(&self) -> usize {
        self.tables.open
    }

    /// Returns the number of requests whose id is in use.
    pub(crate) fn live_ids(&self) -> usize {
        self.tables.by_id.len()
    }

    #[cfg(test)]
    pub(crate) fn insert(&mut self, now: Timestamp, id: RequestId, tag: T) -> ReplyKey {
        let hash = self.hash(&id);
        self.insert_hashed(now, (id, hash), tag)
    }

    /// Inserts a request whose id has this [hash](Self::hash) and [is not in use](Self::find_hashed).
    pub(crate) fn insert_hashed(&mut self, now: Timestamp, (id, hash): (RequestId, u32), tag: T) -> ReplyKey {
        debug_assert!(self.find_hashed(&id, hash).is_none(), "the id is in use");
        let Self { tables, next_serial, .. } = self;
        let Tables { slots, by_id, open, .. } = &mut **tables;
        let serial = *next_serial;
        *next_serial += 1;
        *open += 1;
        if slots.len() == slots.capacity() {
            // Entries are large, so doubling the capacity would waste much memory.
            let more = (slots.len() / 4).max(4);
            slots.reserve_exact(more);
        }
        // The owner's limits bound the table far below `u32::MAX`.
        let (state, since) = (EntryState::Open, StartTime(now));
        let entry = Entry { id, tag, serial, hash, state, since };
        let slot = u32::try_from(slots.insert(entry)).unwrap_or(u32::MAX);
        by_id.insert(hash, slot);
        ReplyKey { serial, slot }
    }

    pub(crate) fn get(&self, key: ReplyKey) -> Option<(&Entry<T>, EntryState)> {
        let entry = self.tables.slots.get(key.slot as usize).filter(|entry| entry.serial == key.serial)?;
        Some((entry, entry.state))
    }

    pub(crate) fn get_mut(&mut self, key: ReplyKey) -> Option<(&mut Entry<T>, EntryState)> {
        let entry =
            self.tables.allocated_mut()?.slots.get_mut(key.slot as usize).filter(|entry| entry.serial == key.serial)?;
        let state = entry.state;
        Some((entry, state))
    }

    /// Returns the key of the request with this id, unless it was cancelled.
    pub(crate) fn find(&self, id: &RequestId) -> Option<ReplyKey> {
        self.find_hashed(id, self.hash(id))
    }

    /// Returns the same for an id with this [hash](Self::hash).
    pub(crate) fn find_hashed(&self, id: &RequestId, hash: u32) -> Option<ReplyKey> {
        let Tables { slots, by_id, .. } = &*self.tables;
        let slot = by_id.find(hash, |slot| slots[slot as usize].id == *id)?;
        Some(ReplyKey { serial: slots[slot as usize].serial, slot })
    }

    /// Records that the response of an open request was queued. Returns the data of the request.
    pub(crate) fn answered(&mut self, key: ReplyKey) -> Option<&mut T> {
        let Tables { slots, open, deadlines, .. } = self.tables.allocated_mut()?;
        let entry = slots.get_mut(key.slot()).filter(|entry| entry.serial == key.serial)?;
        if entry.state == EntryState::Open {
            entry.state = EntryState::Answered;
            *open -= 1;
            deadlines.set(key, None);
        }
        Some(&mut entry.tag)
    }

    /// Records that the peer has cancelled an open request. Its id can be used again at once.
    pub(crate) fn cancel(&mut self, key: ReplyKey) {
        let Some(Tables { slots, by_id, open, .. }) = self.tables.allocated_mut() else { return };
        let Some(entry) = slots.get_mut(key.slot()).filter(|entry| entry.serial == key.serial) else { return };
        if entry.state != EntryState::Cancelled {
            by_id.remove(entry.hash, key.slot);
        }
        if entry.state == EntryState::Open {
            entry.state = EntryState::Cancelled;
            *open -= 1;
        }
    }

    /// Removes a request and returns its data. No other function removes one.
    pub(crate) fn retire(&mut self, key: ReplyKey) -> Option<T> {
        let Tables { slots, by_id, open, deadlines } = self.tables.allocated_mut()?;
        let entry = slots.get(key.slot()).filter(|entry| entry.serial == key.serial)?;
        if entry.state != EntryState::Cancelled {
            by_id.remove(entry.hash, key.slot);
        }
        *open -= usize::from(entry.state == EntryState::Open);
        deadlines.set(key, None);
        Some(slots.remove(key.slot()).tag)
    }

    /// Sets or removes the deadline of a request that is open or was cancelled; returns whether there is such a
    /// request.
    pub(crate) fn set_deadline(&mut self, key: ReplyKey, deadline: Option<Timestamp>) -> bool {
        if !matches!(self.get(key), Some((_, EntryState::Open | EntryState::Cancelled))) {
            return false;
        }
        self.tables.deadlines.set(key, deadline);
        true
    }

    /// Returns the deadline of a request, if it has one.
    pub(crate) fn deadline(&self, key: ReplyKey) -> Option<Timestamp> {
        self.tables.deadlines.of.get(&key).copied()
    }

    /// Returns the earliest deadline of a request.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.tables.deadlines.next().map(|(at, _)| at)
    }

    /// Returns a request whose deadline has passed.
    pub(crate) fn expired(&self, now: Timestamp) -> Option<ReplyKey> {
        self.tables.deadlines.next().filter(|(at, _)| *at <= now).map(|(_, key)| key)
    }

    /// Returns every request that holds a slot, in the order of arrival.
    pub(crate) fn all(&self) -> alloc::vec::Vec<(ReplyKey, &Entry<T>, EntryState)> {
        let key =
            |slot, entry: &Entry<T>| ReplyKey { serial: entry.serial, slot: u32::try_from(slot).unwrap_or(u32::MAX) };
        let mut all: alloc::vec::Vec<_> =
            self.tables.slots.iter().map(|(slot, entry)| (key(slot, entry), entry, entry.state)).collect();
        all.sort_unstable_by_key(|(key, ..)| *key);
        all
    }

    /// Returns every request in this state, in the order of arrival.
    pub(crate) fn keys(&self, state: EntryState) -> alloc::vec::Vec<ReplyKey> {
        let mut keys: alloc::vec::Vec<_> = self
            .tables
            .slots
            .iter()
            .filter(|(_, entry)| entry.state == state)
            .map(|(slot, entry)| ReplyKey { serial: entry.serial, slot: u32::try_from(slot).unwrap_or(u32::MAX) })
            .collect();
        keys.sort_unstable();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(table: &mut Incoming<()>, id: &str) -> ReplyKey {
        table.insert(Timestamp::ZERO, RequestId::from(id), ())
    }

    #[test]
    fn ids_are_reusable_after_end_or_cancellation() {
        let mut table = Incoming::new(1);
        let first = insert(&mut table, "a");
        assert_eq!(table.find(&RequestId::from("a")), Some(first));
        table.cancel(first);
        assert_eq!(table.find(&RequestId::from("a")), None);
        let second = insert(&mut table, "a");
        assert_eq!(table.get(first).map(|(_, state)| state), Some(EntryState::Cancelled));
        table.retire(first);
        assert_eq!(table.find(&RequestId::from("a")), Some(second));
        assert_eq!(table.open(), 1);
        assert!(table.answered(second).is_some() && table.answered(second).is_some());
        assert_eq!(table.find(&RequestId::from("a")), Some(second));
        assert_eq!((table.open(), table.live_ids()), (0, 1));
        table.retire(second);
        assert!(table.answered(second).is_none());
        assert_eq!((table.len(), table.live_ids(), table.open()), (0, 0, 0));
        assert!(table.get(second).is_none());
    }

    #[test]
    fn keys_are_not_valid_for_reused_slots() {
        let mut table = Incoming::new(1);
        let old = insert(&mut table, "a");
        table.retire(old);
        let new = insert(&mut table, "b");
        assert_eq!(old.slot, new.slot);
        assert!(table.get(old).is_none());
        table.retire(old);
        assert!(table.get(new).is_some());
    }
}
