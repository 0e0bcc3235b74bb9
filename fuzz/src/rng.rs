//! Pseudo-random numbers, the same for the same seed.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns the generator of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, sides: usize) -> usize {
        usize::try_from(self.bits() % sides.max(1) as u64).unwrap_or(0)
    }
}

/// Splits a stream into pieces of any length. Most are short, and some are empty.
pub(crate) fn pieces(stream: &[u8], seed: u64) -> impl Iterator<Item = &[u8]> {
    let (mut rng, mut rest) = (Rng::new(seed), stream);
    std::iter::from_fn(move || {
        let most = if rng.below(4) == 0 { rest.len() } else { 8 };
        let (piece, behind) = rest.split_at(rng.below(most + 1).min(rest.len()));
        let more = !rest.is_empty();
        rest = behind;
        more.then_some(piece)
    })
}
