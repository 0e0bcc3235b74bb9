//! Deadlines of requests, earliest first.

use alloc::{
    collections::{BinaryHeap, VecDeque},
    vec::Vec,
};
use core::cmp::Reverse;

use super::Timestamp;

/// Deadlines by key, the earliest first.
///
/// Entries are not removed when a request ends or its deadline moves. When an entry reaches the top, it is compared
/// with the current deadline, which the owner stores. Most deadlines are set in rising order: these are stored in a
/// queue with constant cost, and the others in a heap. Both are rebuilt when most of their entries are stale, so their
/// size stays proportional to the number of requests in flight.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines<K> {
    row: VecDeque<(Timestamp, K)>,
    heap: BinaryHeap<Reverse<(Timestamp, K)>>,
    /// An upper bound of the number of stale entries. While it is 0, all entries are current, so the request of the top
    /// entry need not be looked up.
    stale: usize,
}

impl<K: Copy + Ord> Deadlines<K> {
    /// Below this size, stale entries are not worth a sweep.
    const SLACK: usize = 64;

    pub(crate) const fn new() -> Self {
        Self { row: VecDeque::new(), heap: BinaryHeap::new(), stale: 0 }
    }

    /// Records that a key with a deadline has ended.
    pub(crate) fn ended(&mut self, key: K) {
        if self.row.front().is_some_and(|(_, first)| *first == key) {
            self.row.pop_front();
        } else {
            self.stale += 1;
        }
    }

    /// Records that the deadline of a key has moved or was removed.
    pub(crate) const fn moved(&mut self) {
        self.stale += 1;
    }

    pub(crate) fn set(&mut self, at: Timestamp, key: K) {
        if self.row.back().is_none_or(|last| *last <= (at, key)) {
            self.row.push_back((at, key));
        } else {
            self.heap.push(Reverse((at, key)));
        }
    }

    /// Drops stale entries at the top, so that [`next`](Self::next) is correct.
    ///
    /// `truth` returns the current deadline of a key, `None` if it has ended; `alive` is the number of keys with a
    /// deadline.
    pub(crate) fn settle(&mut self, alive: usize, truth: impl Fn(K) -> Option<Timestamp>) {
        if self.len() > 2 * alive + Self::SLACK {
            // A key whose deadline moved can have several entries, so the duplicates are dropped too.
            let mut entries = core::mem::take(&mut self.row);
            entries.extend(self.heap.drain().map(|Reverse(entry)| entry));
            entries.retain_mut(|(at, key)| truth(*key).map(|now| *at = now).is_some());
            let mut entries = Vec::from(entries);
            entries.sort_unstable();
            entries.dedup();
            self.row = entries.into();
            self.stale = 0;
        }
        if self.len() == 0 {
            self.stale = 0;
        }
        if self.stale == 0 {
            return;
        }
        while let Some((at, key)) = self.next() {
            match truth(key) {
                Some(now) if now <= at => break,
                moved => {
                    if self.row.front() == Some(&(at, key)) {
                        self.row.pop_front();
                    } else {
                        self.heap.pop();
                    }
                    match moved {
                        // The entry is reinserted with the current deadline. The count stays, since the key may have
                        // another stale entry.
                        Some(moved) => self.set(moved, key),
                        None => self.stale = self.stale.saturating_sub(1),
                    }
                }
            }
        }
    }

    /// Returns the earliest deadline and its key. Correct after [`settle`](Self::settle).
    pub(crate) fn next(&self) -> Option<(Timestamp, K)> {
        let (row, heap) = (self.row.front().copied(), self.heap.peek().map(|Reverse(entry)| *entry));
        row.into_iter().chain(heap).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.row.len() + self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn agrees_with_a_plain_map_under_random_operations() {
        let mut model: BTreeMap<u64, Timestamp> = BTreeMap::new();
        let mut deadlines = Deadlines::new();
        let mut state = 3u64;
        for step in 0..20_000u64 {
            crate::test_rng::roll(&mut state);
            let at = Timestamp::from_nanos(step + (state >> 40) % 500);
            let some_key = model.keys().nth((state >> 20) as usize % (model.len() + 1)).copied();
            match (state >> 60, some_key) {
                (0..6, _) => {
                    model.insert(step, at);
                    deadlines.set(at, step);
                }
                // A deadline that moves back needs no new entry.
                (6..8, Some(key)) => {
                    let later = model[&key].max(at);
                    model.insert(key, later);
                    deadlines.moved();
                }
                // A deadline that is set anew may be earlier or later.
                (8..10, Some(key)) => {
                    model.insert(key, at);
                    deadlines.moved();
                    deadlines.set(at, key);
                }
                (_, Some(key)) => {
                    model.remove(&key);
                    deadlines.ended(key);
                }
                _ => {}
            }
            deadlines.settle(model.len(), |key| model.get(&key).copied());
            let expected = model.values().min().copied();
            assert_eq!(deadlines.next().map(|(at, _)| at), expected);
            assert!(deadlines.len() <= 2 * model.len() + Deadlines::<u64>::SLACK);
        }
    }

    #[test]
    fn stale_entries_are_bounded_while_one_key_is_alive() {
        let mut deadlines = Deadlines::new();
        let at = Timestamp::from_nanos;
        for key in 0..=66 {
            deadlines.set(at(key), key);
        }
        for key in 1..=66 {
            deadlines.ended(key);
            deadlines.settle(67 - usize::try_from(key).expect("it is small"), |other| {
                (other == 0 || other > key).then(|| at(other))
            });
        }
        assert_eq!(deadlines.next(), Some((at(0), 0)));
        assert!(deadlines.len() <= 2 + Deadlines::<u64>::SLACK, "{}", deadlines.len());
    }

    /// A rebuild looks at all keys, so there must be as many changes as keys between two of them.
    #[test]
    fn moving_a_deadline_has_constant_cost() {
        const KEYS: u64 = 2000;
        let (mut times, looks) = ((0..KEYS).collect::<Vec<_>>(), core::cell::Cell::new(0));
        let mut deadlines = Deadlines::new();
        for key in 0..KEYS {
            deadlines.set(Timestamp::from_nanos(key), key);
        }
        for step in 0..10 * KEYS {
            let key = step % KEYS;
            times[usize::try_from(key).expect("it is small")] = KEYS + step;
            deadlines.moved();
            deadlines.set(Timestamp::from_nanos(KEYS + step), key);
            deadlines.settle(times.len(), |key| {
                looks.set(looks.get() + 1);
                times.get(usize::try_from(key).ok()?).copied().map(Timestamp::from_nanos)
            });
        }
        assert!(looks.get() < 10 * KEYS * 6, "{} for each change", looks.get() / (10 * KEYS));
    }
}
