//! A map for keys that are assigned in rising order.

use alloc::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// A map from rising numbers to values.
///
/// The numbers from the oldest entry to the newest one are a window, in which each number has a place, so an entry is
/// found without a search. When an entry is inserted and few entries of the window are left, the oldest ones move to a
/// hash table. An insertion may move many entries, but each of them moves at most once. Calls usually end in about the
/// order in which they began, so the table is usually empty.
///
/// If numbers rise, the window has at most `2 * n + 6` places for `n` entries when an entry is inserted, and room for
/// half as many more. An empty window, and a table that has become small, free their room beyond a little.
///
/// The hashes resist no collisions: use it only for numbers that a peer cannot choose. A peer can keep old entries in
/// the table, but it has to wait for numbers whose hashes collide.
#[derive(Clone, Debug)]
pub(crate) struct WindowMap<T> {
    window: VecDeque<Option<T>>,
    /// The number of the first place of the window.
    first: u64,
    /// The number of entries in the window.
    filled: usize,
    /// The entries with smaller numbers.
    old: HashMap<u64, T, FixedState>,
}

impl<T> WindowMap<T> {
    /// The number of places that a window may have besides two for each entry.
    const SLACK: usize = 4;

    /// The room, in entries, that an empty window and a small table keep.
    const KEPT: usize = 96;

    pub(crate) const fn new() -> Self {
        Self { window: VecDeque::new(), first: 0, filled: 0, old: HashMap::with_hasher(FixedState::with_seed(0)) }
    }

    /// Returns the place of a number in the window, or behind it.
    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        match self.place(number) {
            Some(place) => self.window.get(place)?.as_ref(),
            None => self.old.get(&number),
        }
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        match self.place(number) {
            Some(place) => self.window.get_mut(place)?.as_mut(),
            None => self.old.get_mut(&number),
        }
    }

    /// Inserts an entry, or replaces it. Its number should be larger than those of all entries before.
    pub(crate) fn insert(&mut self, number: u64, value: T) {
        if self.filled == 0 && number >= self.first {
            // The first place is used again.
            if self.window.len() > 1 {
                self.window.truncate(1);
            }
            self.first = number;
        }
        self.make_place(number);
        let Some(place) = self.place(number) else {
            self.old.insert(number, value);
            return;
        };
        if let Some(entry) = self.window.get_mut(place) {
            self.filled += usize::from(entry.is_none());
            *entry = Some(value);
            return;
        }
        if place >= self.window.capacity() {
            // By half, since the memory of a connection has a limit. A doubling would exceed it.
            let more = place + 1 - self.window.len() + self.window.len() / 2;
            self.window.reserve_exact(more.max(Self::SLACK));
        }
        while self.window.len() < place {
            self.window.push_back(None);
        }
        self.window.push_back(Some(value));
        self.filled += 1;
    }

    /// Moves the oldest entries out of the window until a place for this number is not too far behind them.
    fn make_place(&mut self, number: u64) {
        if self.place(number).is_none_or(|place| place <= 2 * self.filled + Self::SLACK) {
            return;
        }
        while let Some(oldest) = self.window.pop_front() {
            if let Some(value) = oldest {
                self.filled -= 1;
                self.old.insert(self.first, value);
            }
            self.first += 1;
            if number - self.first <= (2 * self.filled + Self::SLACK) as u64 {
                break;
            }
        }
        if self.window.is_empty() {
            self.first = number;
        }
        let needed = 2 * self.window.len() + Self::SLACK;
        if self.window.capacity() > 2 * needed {
            self.window.shrink_to(needed);
        }
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let Some(place) = self.place(number) else { return self.remove_old(number) };
        let value = self.window.get_mut(place)?.take()?;
        self.filled -= 1;
        if self.filled == 0 {
            if self.window.capacity() > Self::KEPT {
                self.window.clear();
                self.window.shrink_to(Self::KEPT);
            }
            return Some(value);
        }
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.first += 1;
        }
        Some(value)
    }

    fn remove_old(&mut self, number: u64) -> Option<T> {
        let value = self.old.remove(&number)?;
        let needed = 2 * self.old.len();
        // Each time it shrinks, as many entries were removed as it moves.
        if self.old.capacity() > Self::KEPT.max(2 * needed) {
            self.old.shrink_to(needed);
        }
        Some(value)
    }

    /// Returns the entries, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let places = self.window.iter().enumerate();
        let window = places.filter_map(|(place, value)| Some((self.first + place as u64, value.as_ref()?)));
        self.old.iter().map(|(number, value)| (*number, value)).chain(window)
    }

    /// Returns the values, in no particular order.
    #[cfg(feature = "http")]
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.old.values().chain(self.window.iter().flatten())
    }

    /// Returns the values, in no particular order.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.old.values_mut().chain(self.window.iter_mut().flatten())
    }

    pub(crate) fn len(&self) -> usize {
        self.filled + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::BTreeMap, vec::Vec};

    type Map = WindowMap<u64>;

    /// Returns the entries in the order of their numbers.
    fn entries(map: &Map) -> Vec<(u64, u64)> {
        let mut entries: Vec<_> = map.iter().map(|(number, value)| (number, *value)).collect();
        entries.sort_unstable();
        entries
    }

    /// Checks that a map has the entries of a model.
    fn check(map: &Map, model: &BTreeMap<u64, u64>) {
        assert_eq!(map.len(), model.len());
        assert_eq!(entries(map), model.iter().map(|(number, value)| (*number, *value)).collect::<Vec<_>>());
        assert_eq!(map.filled, map.window.iter().flatten().count());
        #[cfg(feature = "http")]
        {
            let mut values: Vec<_> = map.values().copied().collect();
            let mut expected: Vec<_> = model.values().copied().collect();
            values.sort_unstable();
            expected.sort_unstable();
            assert_eq!(values, expected);
        }
    }

    /// Checks the size of a map to which an entry was added.
    fn check_size(map: &Map, most_entries: usize) {
        assert!(map.window.len() <= 2 * map.filled + Map::SLACK + 2, "{} of {}", map.window.len(), map.filled);
        let most = 3 * most_entries + 4 * Map::SLACK;
        assert!(map.window.capacity() <= most, "{} for {most_entries}", map.window.capacity());
    }

    #[test]
    fn agrees_with_a_tree() {
        // How many of 16 numbers are skipped, and below how many entries none is removed.
        for (gaps, kept) in [(0, 0), (0, 150), (4, 20), (15, 100), (15, 1)] {
            let (mut map, mut model) = (Map::new(), BTreeMap::new());
            let mut random = 7_u64;
            for number in 0..6000_u64 {
                crate::test_rng::roll(&mut random);
                if (random >> 33) % 16 >= gaps {
                    map.insert(number, random);
                    model.insert(number, random);
                    check_size(&map, 201);
                }
                while model.len() > 200 || model.len() > kept && random >> 63 == 0 {
                    crate::test_rng::roll(&mut random);
                    let place = (random >> 40) as usize % model.len();
                    // Half of the entries end in their order.
                    let place = if random >> 62 > 1 { 0 } else { place };
                    let (ended, _) = model.iter().nth(place).map(|(number, value)| (*number, *value)).expect("one");
                    assert_eq!(map.remove(ended), model.remove(&ended));
                    assert_eq!(map.remove(ended), None);
                }
                let seen = number.saturating_sub((random >> 50) % 300);
                assert_eq!(map.get(seen), model.get(&seen));
                assert_eq!(map.get_mut(seen), model.get_mut(&seen));
                if number % 97 == 0 {
                    check(&map, &model);
                    map.values_mut().chain(model.values_mut()).for_each(|value| *value ^= 1);
                }
            }
            check(&map, &model);
        }
    }

    #[test]
    fn an_old_entry_takes_no_place() {
        let mut map = Map::new();
        map.insert(1, 0);
        for number in 2..10_000 {
            map.insert(number, 0);
            check_size(&map, 2);
            map.remove(number);
        }
        assert_eq!(map.len(), 1);
    }

    #[test]
    fn entries_that_stay_take_few_places() {
        for (of, most) in [(2, 30_000), (3, 8 * Map::SLACK)] {
            let mut map = Map::new();
            for number in 0..20_000 {
                map.insert(number, 0);
                check_size(&map, map.len());
                if number % of > 0 {
                    map.remove(number);
                }
            }
            assert_eq!(map.len() as u64, 20_000_u64.div_ceil(of));
            assert!(map.window.capacity() <= most, "1 of {of}: {}", map.window.capacity());
        }
    }

    #[test]
    fn a_burst_leaves_little_room() {
        let burst = || {
            let mut map = Map::new();
            (1..=1000).for_each(|number| map.insert(number, number));
            map
        };
        // All end in their order.
        let mut map = burst();
        (1..=1000).for_each(|number| assert_eq!(map.remove(number), Some(number)));
        assert!(map.window.capacity() <= Map::KEPT, "{}", map.window.capacity());
        // Two stay, and the window moves on.
        let mut map = burst();
        (2..1000).for_each(|number| assert_eq!(map.remove(number), Some(number)));
        map.insert(1001, 1001);
        assert!(map.window.capacity() <= 8 * Map::SLACK, "{}", map.window.capacity());
        assert_eq!(entries(&map), [(1, 1), (1000, 1000), (1001, 1001)]);
        // All become old, and some of them end.
        let mut map = burst();
        map.insert(10_000, 0);
        assert_eq!(map.old.len(), 1000);
        (1..=990).for_each(|number| assert_eq!(map.remove(number), Some(number)));
        assert!(map.old.capacity() <= 2 * Map::KEPT, "{}", map.old.capacity());
        assert_eq!(map.len(), 11);
    }

    #[test]
    fn a_gap_takes_no_places() {
        let mut map = Map::new();
        map.insert(1, 1);
        map.insert(u64::MAX - 1, 2);
        assert_eq!((map.window.len(), entries(&map)), (1, [(1, 1), (u64::MAX - 1, 2)].into()));
    }

    #[test]
    fn numbers_in_other_orders_are_kept() {
        let mut map = Map::new();
        for number in [5, 9, 7, 3, 200, 4, 200] {
            map.insert(number, number);
        }
        map.insert(3, 30);
        map.insert(9, 90);
        assert_eq!((map.remove(3), map.remove(9)), (Some(30), Some(90)));
        map.insert(3, 3);
        map.insert(9, 9);
        assert_eq!(entries(&map).into_iter().map(|(_, value)| value).collect::<Vec<_>>(), [3, 4, 5, 7, 9, 200]);
        assert_eq!(map.len(), 6);
    }
}
