//! A hasher for consecutive numbers.

use core::hash::{BuildHasher, Hasher};

/// A hasher for the request ids that this side assigns, which are consecutive. Neighbouring ids hash to neighbouring
/// buckets, so lookups of requests in flight are cache-friendly.
///
/// It does not resist collisions: use it only for keys that a peer cannot choose. A peer can keep old requests in
/// flight, but this only makes probe sequences longer, by one step for each group of such ids.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SequentialHasher;

/// The state of the hash: the number itself.
pub(crate) struct SequentialState(u64);

impl BuildHasher for SequentialHasher {
    type Hasher = SequentialState;

    fn build_hasher(&self) -> SequentialState {
        SequentialState(0)
    }
}

impl Hasher for SequentialState {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = self.0.rotate_left(8) ^ number;
    }

    /// Keeps the lower bits, which select the bucket, and mixes the upper seven, by which neighbours differ.
    fn finish(&self) -> u64 {
        const UPPER: u64 = 0x7f << 57;
        self.0 & !UPPER | self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) & UPPER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_numbers_hash_to_neighbours() {
        for first in [0_u64, 1, 1 << 16, (1 << 40) + 7] {
            let hashes: std::vec::Vec<_> =
                (first..first + 16).map(|number| SequentialHasher.hash_one(number)).collect();
            assert!(hashes.windows(2).all(|pair| pair[1] & 0xffff == (pair[0] + 1) & 0xffff), "{hashes:x?}");
            let tags: alloc::collections::BTreeSet<_> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(tags.len() > 8, "{tags:?}");
        }
    }
}
