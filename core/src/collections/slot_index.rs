//! An index from hashes to slots.

use alloc::vec::Vec;
use core::mem;

/// A hash index of slots in another table.
///
/// In a large table, entries are far apart in memory. The index keeps their hashes, so a lookup reads only the entry it
/// looks for. Removal leaves no tombstones and needs no cleanup: the entries after the removed one move up.
#[derive(Clone, Debug)]
pub(crate) struct SlotIndex {
    /// The buckets; their number is a power of two, or 0. An entry is in the bucket of its hash or, by linear probing,
    /// in one behind it without a free one between.
    buckets: Vec<Bucket>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    slot: u32,
}

impl Bucket {
    const FREE: Self = Self { hash: 0, slot: u32::MAX };

    const fn is_free(self) -> bool {
        self.slot == Self::FREE.slot
    }
}

impl SlotIndex {
    /// The least number of buckets, if there are any.
    const MIN_BUCKETS: usize = 8;

    pub(crate) const fn new() -> Self {
        Self { buckets: Vec::new(), len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the bucket `by` positions after another one, with wrap-around.
    const fn behind(&self, bucket: usize, by: usize) -> usize {
        bucket.wrapping_add(by) & self.buckets.len().wrapping_sub(1)
    }

    /// Returns the first bucket with this hash that satisfies `is`, before a free one.
    fn position(&self, hash: u32, is: impl Fn(Bucket) -> bool) -> Option<usize> {
        let mut at = self.behind(hash as usize, 0);
        loop {
            match *self.buckets.get(at)? {
                bucket if bucket.is_free() => return None,
                bucket if bucket.hash == hash && is(bucket) => return Some(at),
                _ => at = self.behind(at, 1),
            }
        }
    }

    /// Returns the slot with this hash that satisfies `is`.
    pub(crate) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.position(hash, |bucket| is(bucket.slot)).map(|at| self.buckets[at].slot)
    }

    /// Inserts a slot that is not in the index. `u32::MAX` is not allowed.
    pub(crate) fn insert(&mut self, hash: u32, slot: u32) {
        // At least a quarter of the buckets stays free, which keeps probe sequences short.
        if 4 * self.len >= 3 * self.buckets.len() {
            let more = (2 * self.buckets.len()).max(Self::MIN_BUCKETS);
            let mut buckets = Vec::new();
            buckets.reserve_exact(more);
            buckets.resize(more, Bucket::FREE);
            for bucket in mem::replace(&mut self.buckets, buckets) {
                if !bucket.is_free() {
                    self.put(bucket);
                }
            }
        }
        self.put(Bucket { hash, slot });
        self.len += 1;
    }

    fn put(&mut self, bucket: Bucket) {
        let mut at = self.behind(bucket.hash as usize, 0);
        while !self.buckets[at].is_free() {
            at = self.behind(at, 1);
        }
        self.buckets[at] = bucket;
    }

    /// Removes a slot, if it is in the index.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let Some(mut hole) = self.position(hash, |bucket| bucket.slot == slot) else { return };
        self.len -= 1;
        let mut at = self.behind(hole, 1);
        while !self.buckets[at].is_free() {
            // Returns the distance from a bucket to `at`. An entry moves into the hole only if the hole is not before
            // the bucket of the entry's hash.
            let from = |bucket: usize| self.behind(at, 0usize.wrapping_sub(bucket));
            if from(self.buckets[at].hash as usize) >= from(hole) {
                self.buckets[hole] = self.buckets[at];
                hole = at;
            }
            at = self.behind(at, 1);
        }
        self.buckets[hole] = Bucket::FREE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// Uses few different hashes, so that many entries collide and some probe sequences wrap around.
    #[test]
    fn agrees_with_a_plain_map_despite_collisions() {
        for (spread, seed) in [(1, 1_u64), (3, 2), (20, 3), (1_000_000, 4)] {
            let (mut model, mut table, mut state) = (BTreeMap::new(), SlotIndex::new(), seed);
            for step in 0..6_000_u32 {
                crate::test_rng::roll(&mut state);
                let hash = u32::MAX - ((state >> 40) % spread) as u32;
                let known =
                    model.iter().nth((state >> 20) as usize % (model.len() + 1)).map(|(slot, hash)| (*slot, *hash));
                match known {
                    Some((slot, hash)) if state >> 63 == 1 || model.len() > 60 => {
                        table.remove(hash, slot);
                        model.remove(&slot);
                        assert_eq!(table.find(hash, |found| found == slot), None);
                        table.remove(hash, slot);
                    }
                    _ => {
                        assert_eq!(table.find(hash, |found| found == step), None);
                        table.insert(hash, step);
                        model.insert(step, hash);
                    }
                }
                assert_eq!(table.len(), model.len());
                if step % 16 == 0 {
                    for (slot, hash) in &model {
                        assert_eq!(table.find(*hash, |found| found == *slot), Some(*slot));
                    }
                }
            }
            assert!(table.buckets.len() <= 128, "{}", table.buckets.len());
        }
    }
}
