//! Chance, from a seed.

use std::{ops::RangeInclusive, time::Duration};

use oorandom::Rand64;

/// A source of random numbers. The same seed gives the same numbers, on every machine.
#[derive(Debug)]
pub struct Dice(Rand64);

impl Dice {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Rand64::new(seed.into()))
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.rand_range(0..limit)
    }

    /// A number of a range.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.rand_range(*range.start()..range.end() + 1)
    }

    /// A small number, or a size.
    pub fn size(&mut self, range: RangeInclusive<usize>) -> usize {
        usize::try_from(self.within(*range.start() as u64..=*range.end() as u64)).unwrap_or(usize::MAX)
    }

    /// Whether something happens that happens so many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.size(0..=among.len() - 1)]
    }

    /// One of several, some of which come up more often than others.
    pub fn weigh<T: Copy>(&mut self, among: &[(u64, T)]) -> T {
        let mut left = self.below(among.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in among {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *choice,
            }
        }
        unreachable!("the weights add up")
    }

    /// A number from `least` to `most`, small ones as likely as large ones.
    pub fn scale(&mut self, least: u64, most: u64) -> u64 {
        let (from, to) = (least.max(1).ilog2(), most.max(1).ilog2());
        let power = self.within(from.into()..=to.into());
        let number = (1u64 << power) + self.below(1 << power);
        number.clamp(least, most)
    }

    /// A time up to `most`, short ones as likely as long ones; none if `most` is none.
    pub fn time(&mut self, most: Duration) -> Duration {
        if most < Duration::from_micros(1) {
            return Duration::ZERO;
        }
        Duration::from_micros(self.scale(1, u64::try_from(most.as_micros()).unwrap_or(u64::MAX)))
    }
}
