//! Names that cannot be guessed.

use std::{fmt, io, sync::Arc};

use mcp_proto::wire::ErrorObject;

/// A source of random bytes.
#[derive(Clone)]
pub struct Random(Arc<Fill>);

type Fill = dyn Fn(&mut [u8]) -> io::Result<()> + Send + Sync;

impl Random {
    pub(crate) fn new(fill: impl Fn(&mut [u8]) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(fill))
    }

    /// Returns random bytes.
    ///
    /// # Errors
    /// If the source of randomness fails.
    pub fn bytes<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        (self.0)(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns a name of 128 random bits.
    pub(crate) fn name(&self) -> Result<String, ErrorObject> {
        match self.bytes::<16>() {
            Ok(bytes) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            Err(_) => Err(ErrorObject::internal("No randomness available")),
        }
    }

    /// Returns a seed for hash tables, or 0 if the source of randomness fails.
    pub fn seed(&self) -> u64 {
        self.bytes().map_or(0, u64::from_ne_bytes)
    }
}

impl Default for Random {
    /// Returns the source of the operating system.
    fn default() -> Self {
        Self::new(|bytes| getrandom::fill(bytes).map_err(io::Error::other))
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_seeds_are_made_of_all_bytes() {
        let counting = Random::new(|bytes| {
            bytes.iter_mut().zip(1..).for_each(|(byte, number)| *byte = number);
            Ok(())
        });
        assert_eq!(counting.name().as_deref(), Ok("0102030405060708090a0b0c0d0e0f10"));
        assert_eq!(counting.seed(), u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]));
        let failing = Random::new(|_| Err(io::Error::other("none")));
        assert_eq!(failing.name(), Err(ErrorObject::internal("No randomness available")));
        assert_eq!((failing.seed(), failing.bytes::<4>().is_err()), (0, true));
        let [one, other] = [(); 2].map(|()| Random::default().name().expect("the system has randomness"));
        assert!(one.len() == 32 && one != other);
    }
}
