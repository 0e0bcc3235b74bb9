//! A map for keys that are assigned in rising order.

use alloc::{collections::VecDeque, vec::Vec};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// A map from rising numbers to values.
///
/// The numbers from the oldest entry to the newest one are a window, in which each number has a place, so an entry is
/// found without a search. If few entries of the window are left, the oldest ones move to a hash table: the number of
/// places stays proportional to the number of entries, and an entry moves at most once. Calls usually end in about the
/// order in which they began, so the table is usually empty.
///
/// The hashes resist no collisions: use it only for numbers that a peer cannot choose.
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
    /// The number of places that a window of few entries may have.
    const SLACK: usize = 64;

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
            self.window.clear();
            self.first = number;
        }
        self.make_place(number);
        let Some(place) = self.place(number) else {
            self.old.insert(number, value);
            return;
        };
        match self.window.get_mut(place) {
            Some(entry) => self.filled += usize::from(entry.replace(value).is_none()),
            None => {
                while self.window.len() < place {
                    self.window.push_back(None);
                }
                self.window.push_back(Some(value));
                self.filled += 1;
            }
        }
    }

    /// Moves the oldest entries out of the window until a place for this number is not too far behind them.
    fn make_place(&mut self, number: u64) {
        while self.place(number).is_some_and(|place| place > 2 * self.filled + Self::SLACK) {
            let Some(oldest) = self.window.pop_front() else {
                self.first = number;
                return;
            };
            if let Some(value) = oldest {
                self.filled -= 1;
                self.old.insert(self.first, value);
            }
            self.first += 1;
        }
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let Some(place) = self.place(number) else { return self.old.remove(&number) };
        let value = self.window.get_mut(place)?.take()?;
        self.filled -= 1;
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.first += 1;
        }
        Some(value)
    }

    /// Returns the entries in the order of their numbers. The old ones are sorted for that.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        let places = self.window.iter().enumerate();
        let window = places.filter_map(|(place, value)| Some((self.first + place as u64, value.as_ref()?)));
        let mut old: Vec<_> = self.old.iter().map(|(number, value)| (*number, value)).collect();
        old.sort_unstable_by_key(|(number, _)| *number);
        old.into_iter().chain(window)
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
    use alloc::collections::BTreeMap;

    /// Checks that a map has the entries of a model, and places in proportion to them.
    fn check(map: &WindowMap<u64>, model: &BTreeMap<u64, u64>) {
        assert_eq!(map.len(), model.len());
        assert_eq!(map.iter().map(|(number, value)| (number, *value)).collect::<Vec<_>>(), model_entries(model));
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

    fn model_entries(model: &BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
        model.iter().map(|(number, value)| (*number, *value)).collect()
    }

    #[test]
    fn agrees_with_a_tree() {
        // How many of 16 numbers are skipped, and how many entries are removed when there are 200.
        for (gaps, kept) in [(0, 0), (0, 150), (4, 20), (15, 100), (15, 1)] {
            let (mut map, mut model) = (WindowMap::new(), BTreeMap::new());
            let mut random = 7_u64;
            for number in 0..6000_u64 {
                crate::test_rng::roll(&mut random);
                if (random >> 33) % 16 >= gaps {
                    map.insert(number, random);
                    model.insert(number, random);
                    assert!(map.window.len() <= 3 * map.filled + WindowMap::<u64>::SLACK + 1, "{number}");
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
    fn places_stay_in_proportion_to_entries() {
        let mut map = WindowMap::new();
        map.insert(1, ());
        for number in 2..10_000 {
            map.insert(number, ());
            assert!(map.window.len() <= WindowMap::<()>::SLACK + 4, "{}", map.window.len());
            map.remove(number);
        }
        assert!(map.window.capacity() <= 256);
        // A gap takes no places.
        map.insert(u64::MAX - 1, ());
        assert_eq!(
            (map.window.len(), map.iter().map(|(number, ())| number).collect::<Vec<_>>()),
            (1, [1, u64::MAX - 1].into())
        );
    }

    #[test]
    fn numbers_in_other_orders_are_kept() {
        let mut map = WindowMap::new();
        for number in [5, 9, 7, 3, 200, 4, 200] {
            map.insert(number, number);
        }
        assert_eq!(map.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [3, 4, 5, 7, 9, 200]);
        assert_eq!(map.len(), 6);
    }
}
