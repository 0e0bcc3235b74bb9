//! Which request runs out of time next.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use super::Timestamp;

/// Deadlines by key, the earliest first.
///
/// Entries are not removed when a request ends or its deadline moves: the owner knows the truth, and says so when an
/// entry comes to the top. Deadlines are mostly set in rising order, so setting one costs next to nothing however many
/// there are. The heap is rebuilt when most of it is stale, so it stays as large as what is alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    heap: BinaryHeap<Reverse<(Timestamp, u64)>>,
}

impl Deadlines {
    /// Below this size, stale entries are not worth a sweep.
    const SLACK: usize = 64;

    pub(crate) const fn new() -> Self {
        Self { heap: BinaryHeap::new() }
    }

    pub(crate) fn set(&mut self, at: Timestamp, key: u64) {
        self.heap.push(Reverse((at, key)));
    }

    /// Drops what is stale at the top, so that [`next`](Self::next) tells the truth.
    ///
    /// `truth` is the deadline of a key as it is now, `None` if it has ended; `alive` the number of keys that have one.
    pub(crate) fn settle(&mut self, alive: usize, truth: impl Fn(u64) -> Option<Timestamp>) {
        if self.heap.len() > 2 * alive + Self::SLACK {
            // A key whose deadline moved can be in here more than once, so the duplicates are dropped too.
            let mut entries = core::mem::take(&mut self.heap).into_vec();
            entries.retain_mut(|Reverse((at, key))| truth(*key).map(|now| *at = now).is_some());
            entries.sort_unstable();
            entries.dedup();
            self.heap = entries.into();
        }
        while let Some(Reverse((at, key))) = self.heap.peek().copied() {
            match truth(key) {
                Some(now) if now <= at => break,
                moved => {
                    self.heap.pop();
                    if let Some(moved) = moved {
                        self.heap.push(Reverse((moved, key)));
                    }
                }
            }
        }
    }

    /// The earliest deadline and its key, true after [`settle`](Self::settle).
    pub(crate) fn next(&self) -> Option<(Timestamp, u64)> {
        self.heap.peek().map(|Reverse(entry)| *entry)
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn agrees_with_a_plain_map_under_random_operations() {
        let mut model: BTreeMap<u64, Timestamp> = BTreeMap::new();
        let mut deadlines = Deadlines::default();
        let mut state = 3u64;
        for step in 0..20_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = Timestamp::from_nanos(step + (state >> 40) % 500);
            let some_key = model.keys().nth((state >> 20) as usize % (model.len() + 1)).copied();
            match (state >> 60, some_key) {
                (0..6, _) => {
                    model.insert(step, at);
                    deadlines.set(at, step);
                }
                // A deadline that moves is only ever moved back, which needs no word to the heap.
                (6..10, Some(key)) => {
                    let later = model[&key].max(at);
                    model.insert(key, later);
                }
                (_, Some(key)) => {
                    model.remove(&key);
                }
                _ => {}
            }
            deadlines.settle(model.len(), |key| model.get(&key).copied());
            let expected = model.values().min().copied();
            assert_eq!(deadlines.next().map(|(at, _)| at), expected);
            assert!(deadlines.len() <= 2 * model.len() + Deadlines::SLACK);
        }
    }
}
