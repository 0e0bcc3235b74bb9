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

/// The request of a response in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryOwner {
    /// A request in the table.
    Request(ReplyKey),
    /// A request to which the engine responded itself: the hash of its id.
    Own(u64),
    /// A message without a readable id.
    Nothing,
}

/// One response in a batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchEntry {
    pub(crate) of: EntryOwner,
    pub(crate) text: Vec<u8>,
}

impl BatchEntry {
    /// Returns the bytes that a response of this length takes in memory.
    pub(crate) const fn weight_of(text: usize) -> usize {
        text + size_of::<Self>()
    }

    pub(crate) const fn weight(&self) -> usize {
        Self::weight_of(self.text.len())
    }
}

/// A batch whose responses are being collected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<BatchEntry>,
    /// The memory that the batch and its responses take, in bytes.
    pub(crate) bytes: usize,
    /// The number of requests without a response.
    pub(crate) open: usize,
    /// Whether members of the batch are still being read.
    pub(crate) reading: bool,
    /// The stream of the response, if the binding has several.
    stream: Option<u64>,
}

impl Batch {
    /// The memory that an empty batch takes, in bytes: its slot, and the first allocation of its list of responses.
    const WEIGHT: usize = size_of::<Self>() + 4 * size_of::<BatchEntry>();

    /// Returns the length of the responses collected so far, with their separators, plus `small` for each response that
    /// is missing except the one being added.
    fn written(&self, small: usize) -> usize {
        let texts = self.bytes - Self::WEIGHT - self.entries.len() * size_of::<BatchEntry>();
        texts + self.entries.len() + self.open.saturating_sub(1).saturating_mul(small)
    }

    const fn is_complete(&self) -> bool {
        self.open == 0 && !self.reading
    }
}

/// The batches whose responses have not been polled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batches {
    slots: DebugSlab<Batch>,
    /// The slots of the complete batches.
    complete: BTreeSet<usize>,
    /// The bytes of the complete batches. They can be written as soon as the driver polls.
    ready: usize,
    /// The bytes of the incomplete batches. They wait for responses of the application.
    held: usize,
    /// The number of responses of the engine itself in each batch, by the hash of the request id.
    own: BTreeMap<(u64, usize), usize>,
}

impl StaticDefault for Batches {
    const EMPTY: &'static Self =
        &Self { slots: DebugSlab::new(), complete: BTreeSet::new(), ready: 0, held: 0, own: BTreeMap::new() };
}

impl Batches {
    /// Returns the number of batches.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the bytes of the complete batches.
    pub(crate) const fn ready(&self) -> usize {
        self.ready
    }

    /// Returns the bytes of the incomplete batches.
    pub(crate) const fn held(&self) -> usize {
        self.held
    }

    /// Returns whether a response of `bytes` bytes fits into its batch of at most `most` bytes, if each other missing
    /// response takes `small` bytes.
    pub(crate) fn has_room_for(&self, slot: u32, bytes: usize, small: usize, most: usize) -> bool {
        let written = self.slots.get(slot as usize).map_or(0, |batch| batch.written(small));
        bytes.saturating_add(written).saturating_add("[]\n".len()) <= most
    }

    /// Returns whether any batch is complete.
    pub(crate) fn has_complete(&self) -> bool {
        !self.complete.is_empty()
    }

    pub(crate) fn begin(&mut self, stream: Option<u64>) -> usize {
        self.held += Batch::WEIGHT;
        self.slots.insert(Batch { bytes: Batch::WEIGHT, reading: true, stream, ..Batch::default() })
    }

    /// Changes a batch and updates the byte counts. A batch that is complete but has no entries is removed; then its
    /// stream is returned, because no response follows there.
    pub(crate) fn change(&mut self, slot: usize, f: impl FnOnce(&mut Batch)) -> Option<u64> {
        let batch = self.slots.get_mut(slot)?;
        *(if batch.is_complete() { &mut self.ready } else { &mut self.held }) -= batch.bytes;
        f(batch);
        if batch.is_complete() && batch.entries.is_empty() {
            // A batch without requests has no response.
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

    fn remove_own(&mut self, slot: usize, hash: u64) {
        if let Some(count) = self.own.get_mut(&(hash, slot)) {
            *count -= 1;
            if *count == 0 {
                self.own.remove(&(hash, slot));
            }
        }
    }

    /// Removes the first response of the engine itself to the request with this id, if there is one. The inner value is
    /// that of [`change`](Self::change).
    pub(crate) fn take_back(&mut self, id: &RequestId, hash: u64) -> Option<Option<u64>> {
        let is_it = |entry: &BatchEntry| {
            entry.of == EntryOwner::Own(hash) && Message::answered(&entry.text).as_ref() == Some(id)
        };
        let mut found = self.own.range((hash, 0)..=(hash, usize::MAX)).filter_map(|((_, slot), _)| {
            let index = self.slots.get(*slot)?.entries.iter().position(is_it)?;
            Some((*slot, index))
        });
        let (slot, index) = found.next()?;
        self.remove_own(slot, hash);
        Some(self.change(slot, |batch| batch.bytes -= batch.entries.remove(index).weight()))
    }

    /// Removes the first complete batch and returns it with its stream.
    pub(crate) fn pop(&mut self) -> Option<(Vec<BatchEntry>, Option<u64>)> {
        let slot = self.complete.pop_first()?;
        let Batch { entries, stream, bytes, .. } = self.slots.remove(slot);
        self.ready -= bytes;
        for entry in &entries {
            if let EntryOwner::Own(hash) = entry.of {
                self.remove_own(slot, hash);
            }
        }
        Some((entries, stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_back_the_response_with_the_id_if_hashes_collide() {
        const HASH: u64 = 7;
        let mut batches = Batches::default();
        let slot = batches.begin(Some(3));
        let texts = [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, r#"{"jsonrpc":"2.0","id":"1","result":{}}"#];
        for text in texts {
            batches.add(slot, BatchEntry { of: EntryOwner::Own(HASH), text: text.into() });
        }
        assert_eq!(batches.take_back(&RequestId::from(2), HASH), None);
        assert_eq!(batches.take_back(&RequestId::from("1"), HASH + 1), None);
        assert_eq!(batches.take_back(&RequestId::from("1"), HASH), Some(None));
        assert_eq!(batches.take_back(&RequestId::from("1"), HASH), None);
        batches.change(slot, |batch| batch.reading = false);
        let (entries, stream) = batches.pop().expect("it is complete");
        assert_eq!((entries.len(), &*entries[0].text, stream), (1, texts[0].as_bytes(), Some(3)));
        assert_eq!((batches.len(), batches.held(), batches.ready(), batches.own.len()), (0, 0, 0, 0));
    }
}
