//! A map for keys that grow.

use alloc::collections::VecDeque;
use core::cmp::Ordering;

/// A sorted map from growing numbers to values.
///
/// The first and the last entry are found in constant time, others in logarithmic time. Most lookups are for the last
/// entry, and most removals take the first one. It is for a few thousand entries at most: a removal moves the entries
/// after it, or those before it if they are fewer.
#[derive(Debug)]
pub(crate) struct SeqMap<T>(VecDeque<(u64, T)>);

impl<T> SeqMap<T> {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Returns the position of the entry, or else the position to insert it.
    fn place(&self, number: u64) -> Result<usize, usize> {
        let Some((last, _)) = self.0.back() else { return Err(0) };
        match number.cmp(last) {
            Ordering::Equal => Ok(self.0.len() - 1),
            Ordering::Greater => Err(self.0.len()),
            Ordering::Less if self.0[0].0 == number => Ok(0),
            Ordering::Less => self.0.binary_search_by_key(&number, |(number, _)| *number),
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        match self.0.back() {
            Some((last, value)) if *last == number => Some(value),
            _ => self.0.get(self.place(number).ok()?).map(|(_, value)| value),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let at = match self.0.back() {
            Some((last, _)) if *last == number => self.0.len() - 1,
            _ => self.place(number).ok()?,
        };
        self.0.get_mut(at).map(|(_, value)| value)
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.place(number).is_ok()
    }

    /// Returns the entry, or inserts a new one.
    pub(crate) fn entry(&mut self, number: u64, new: impl FnOnce() -> T) -> &mut T {
        let at = self.place(number).unwrap_or_else(|at| {
            self.0.insert(at, (number, new()));
            at
        });
        &mut self.0[at].1
    }

    /// Inserts an entry, or replaces it.
    pub(crate) fn insert(&mut self, number: u64, value: T) {
        match self.place(number) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (number, value)),
        }
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let at = self.place(number).ok()?;
        self.0.remove(at).map(|(_, value)| value)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u64, &T) -> bool) {
        self.0.retain(|(number, value)| keep(*number, value));
    }

    /// Returns the entries in the order of their numbers.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.0.iter().map(|(number, value)| (*number, value))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::BTreeMap, vec::Vec};

    #[test]
    fn agrees_with_a_btree_map() {
        let (mut row, mut map) = (SeqMap::new(), BTreeMap::new());
        let mut random = 7_u64;
        for step in 0..5000_u64 {
            crate::test_rng::roll(&mut random);
            // Usually the latest number, as in real use.
            let number = if random >> 62 == 0 { (random >> 33) % (step + 1) } else { step };
            match (random >> 50) % 8 {
                0..4 => {
                    row.insert(number, step);
                    map.insert(number, step);
                }
                4 => assert_eq!(*row.entry(number, || step), *map.entry(number).or_insert(step)),
                5 | 6 => assert_eq!(row.remove(number), map.remove(&number)),
                _ if step % 64 == 0 => {
                    row.retain(|number, _| number % 3 > 0);
                    map.retain(|number, _| number % 3 > 0);
                }
                _ => {}
            }
            assert_eq!((row.get(number), row.contains(number)), (map.get(&number), map.contains_key(&number)));
            assert_eq!(row.get_mut(number), map.get_mut(&number));
            assert_eq!((row.len(), row.is_empty()), (map.len(), map.is_empty()));
        }
        let pairs: Vec<_> = map.iter().map(|(number, value)| (*number, value)).collect();
        assert_eq!(row.iter().collect::<Vec<_>>(), pairs);
        assert_eq!(row.iter().next_back(), pairs.last().copied());
    }
}
