//! Random numbers from a seed.

use std::{ops::RangeInclusive, time::Duration};

use oorandom::Rand64;

/// A source of random numbers. The same seed gives the same numbers, on every machine.
#[derive(Debug)]
pub struct Rng(Rand64);

impl Rng {
    /// Returns the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Rand64::new(seed.into()))
    }

    /// Returns a number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.rand_range(0..limit)
    }

    /// Returns a number of a range.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.rand_range(*range.start()..range.end() + 1)
    }

    /// Returns a number of a range.
    pub fn size(&mut self, range: RangeInclusive<usize>) -> usize {
        usize::try_from(self.within(*range.start() as u64..=*range.end() as u64)).unwrap_or(usize::MAX)
    }

    /// Returns true with a probability in percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Picks one of several values.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.size(0..=choices.len() - 1)]
    }

    /// Picks one of several values by weight.
    pub fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *choice,
            }
        }
        unreachable!("the weights add up")
    }

    /// Returns a number from `min` to `max`. All magnitudes have the same probability.
    pub fn log_uniform(&mut self, min: u64, max: u64) -> u64 {
        let (from, to) = (min.max(1).ilog2(), max.max(1).ilog2());
        let power = self.within(from.into()..=to.into());
        let number = (1u64 << power) + self.below(1 << power);
        number.clamp(min, max)
    }

    /// Returns a duration of at most `max`. All magnitudes have the same probability. Zero if `max` is less than a
    /// microsecond.
    pub fn duration(&mut self, max: Duration) -> Duration {
        if max < Duration::from_micros(1) {
            return Duration::ZERO;
        }
        Duration::from_micros(self.log_uniform(1, u64::try_from(max.as_micros()).unwrap_or(u64::MAX)))
    }
}
