//! The state of batches (2025-03-26): the responses collected for each.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{
    collections::{DebugSlab, StaticDefault},
    rpc::ReplyKey,
    wire::{Message, RequestId},
};

/// What an answer of a batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryOwner {
    /// A request in the table.
    Request(ReplyKey),
    /// A request that the connection has answered itself: the hash of its id.
    Own(u64),
    /// What had no id.
    Nothing,
}

/// One answer of a batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchEntry {
    pub(crate) of: EntryOwner,
    pub(crate) text: Vec<u8>,
}

impl BatchEntry {
    /// What it takes to keep a text of this length, in bytes.
    pub(crate) const fn weight_of(text: usize) -> usize {
        text + size_of::<Self>()
    }

    pub(crate) const fn weight(&self) -> usize {
        Self::weight_of(self.text.len())
    }
}

/// The answers of a batch, until all are there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<BatchEntry>,
    /// What the batch and its answers take, in bytes.
    pub(crate) bytes: usize,
    /// Requests that are not answered yet.
    pub(crate) open: usize,
    /// The members are still being read.
    pub(crate) reading: bool,
    /// Where its answer goes, where there are several streams.
    stream: Option<u64>,
}

impl Batch {
    /// What it takes to keep one, in bytes: its slot, and the room that the first few answers get.
    const WEIGHT: usize = size_of::<Self>() + 4 * size_of::<BatchEntry>();

    /// What the answers take that are there, as they are written, and those that are still to come, if these are small.
    fn written(&self, small: usize) -> usize {
        let texts = self.bytes - Self::WEIGHT - self.entries.len() * size_of::<BatchEntry>();
        texts + self.entries.len() + self.open.saturating_sub(1).saturating_mul(small)
    }

    const fn is_complete(&self) -> bool {
        self.open == 0 && !self.reading
    }
}

/// The batches whose answers have not left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batches {
    slots: DebugSlab<Batch>,
    /// Those that have all their answers.
    complete: BTreeSet<usize>,
    /// What those take, in bytes: it leaves as soon as it is polled.
    ready: usize,
    /// What the others take. It leaves when the application has answered.
    held: usize,
    /// How many answers of the connection's own each batch has, by the hash of the id.
    own: BTreeMap<(u64, usize), usize>,
}

impl StaticDefault for Batches {
    const EMPTY: &'static Self =
        &Self { slots: DebugSlab::new(), complete: BTreeSet::new(), ready: 0, held: 0, own: BTreeMap::new() };
}

impl Batches {
    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the bytes of the batches that have all their answers.
    pub(crate) const fn ready(&self) -> usize {
        self.ready
    }

    /// Returns the bytes of the batches that wait for answers.
    pub(crate) const fn held(&self) -> usize {
        self.held
    }

    /// Whether an answer of so many bytes leaves room in its batch for small ones to the other requests, if all of them
    /// together may take `most`.
    pub(crate) fn has_room_for(&self, slot: u32, bytes: usize, small: usize, most: usize) -> bool {
        let written = self.slots.get(slot as usize).map_or(0, |batch| batch.written(small));
        bytes.saturating_add(written).saturating_add("[]\n".len()) <= most
    }

    /// Whether one has all its answers.
    pub(crate) fn has_complete(&self) -> bool {
        !self.complete.is_empty()
    }

    pub(crate) fn begin(&mut self, stream: Option<u64>) -> usize {
        self.held += Batch::WEIGHT;
        self.slots.insert(Batch { bytes: Batch::WEIGHT, reading: true, stream, ..Batch::default() })
    }

    /// Changes a batch, and what is known of all of them with it. Returns its stream if nothing is left to be said
    /// there.
    pub(crate) fn change(&mut self, slot: usize, f: impl FnOnce(&mut Batch)) -> Option<u64> {
        let batch = self.slots.get_mut(slot)?;
        *(if batch.is_complete() { &mut self.ready } else { &mut self.held }) -= batch.bytes;
        f(batch);
        if batch.is_complete() && batch.entries.is_empty() {
            // A batch without entries to answer has no response.
            self.complete.remove(&slot);
            return self.slots.remove(slot).stream;
        } else if batch.is_complete() {
            self.ready += batch.bytes;
            self.complete.insert(slot);
        } else {
            self.held += batch.bytes;
        }
        None
    }

    pub(crate) fn add(&mut self, slot: usize, entry: BatchEntry) {
        if let EntryOwner::Own(hash) = entry.of
            && self.slots.contains(slot)
        {
            *self.own.entry((hash, slot)).or_default() += 1;
        }
        self.change(slot, |batch| {
            batch.open -= usize::from(matches!(entry.of, EntryOwner::Request(_)));
            batch.bytes += entry.weight();
            batch.entries.push(entry);
        });
    }

    fn forget_own(&mut self, slot: usize, hash: u64) {
        if let Some(count) = self.own.get_mut(&(hash, slot)) {
            *count -= 1;
            if *count == 0 {
                self.own.remove(&(hash, slot));
            }
        }
    }

    /// Takes back the first answer of the connection's own to the request with this id, if there is one. Returns what
    /// [`change`](Self::change) returns.
    pub(crate) fn take_back(&mut self, id: &RequestId, hash: u64) -> Option<Option<u64>> {
        let is_it = |entry: &BatchEntry| {
            entry.of == EntryOwner::Own(hash) && Message::answered(&entry.text).as_ref() == Some(id)
        };
        let mut found = self.own.range((hash, 0)..=(hash, usize::MAX)).filter_map(|((_, slot), _)| {
            let index = self.slots.get(*slot)?.entries.iter().position(is_it)?;
            Some((*slot, index))
        });
        let (slot, index) = found.next()?;
        self.forget_own(slot, hash);
        Some(self.change(slot, |batch| batch.bytes -= batch.entries.remove(index).weight()))
    }

    /// Takes the first batch that has all its answers, with the stream that it belongs to.
    pub(crate) fn pop(&mut self) -> Option<(Vec<BatchEntry>, Option<u64>)> {
        let slot = self.complete.pop_first()?;
        let Batch { entries, stream, bytes, .. } = self.slots.remove(slot);
        self.ready -= bytes;
        for entry in &entries {
            if let EntryOwner::Own(hash) = entry.of {
                self.forget_own(slot, hash);
            }
        }
        Some((entries, stream))
    }
}
