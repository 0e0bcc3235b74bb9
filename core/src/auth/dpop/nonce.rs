//! Nonces of a protected server (RFC 9449, sections 8 and 9).

use alloc::string::String;
use core::fmt;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use hmac_sha256::HMAC;

/// The bytes of the number of a window, and of the part of its code, in a nonce.
const NUMBER_LEN: usize = 8;
const CODE_LEN: usize = 16;

/// The key from which nonces are derived.
///
/// A nonce is the number of a time window and its authentication code (HMAC with SHA-256). Those of the current window,
/// of the one before and of the next one are valid, so nothing is stored. Servers that share the key accept the nonces
/// of each other, also while their clocks differ by up to a window.
#[derive(Clone)]
pub struct NonceKey {
    key: [u8; 32],
    window: u64,
}

impl NonceKey {
    /// The shortest window, in seconds.
    pub const MIN_WINDOW: u64 = 10;

    /// Creates a key from random bytes. A window lasts two minutes.
    #[must_use]
    pub const fn new(key: [u8; 32]) -> Self {
        Self { key, window: 120 }
    }

    /// Sets the length of a window in seconds, at least [`MIN_WINDOW`](Self::MIN_WINDOW). A nonce is valid for one to
    /// two windows after it was issued.
    #[must_use]
    pub fn window(mut self, seconds: u64) -> Self {
        self.window = seconds.max(Self::MIN_WINDOW);
        self
    }

    /// Returns the nonce for the next proofs, in 32 characters.
    #[must_use]
    pub fn current(&self, now: u64) -> String {
        Base64UrlUnpadded::encode_string(&self.nonce(now / self.window))
    }

    /// Returns whether a nonce is valid. One that is malformed, or whose window is not valid, is refused without a
    /// comparison. Otherwise the time of the comparison reveals nothing about where the codes differ.
    #[must_use]
    pub fn is_valid(&self, now: u64, nonce: &str) -> bool {
        let mut bytes = [0; NUMBER_LEN + CODE_LEN];
        let Ok(bytes) = Base64UrlUnpadded::decode(nonce, &mut bytes) else { return false };
        let Some((number, _)) = bytes.split_first_chunk::<NUMBER_LEN>() else { return false };
        let (number, current) = (u64::from_be_bytes(*number), now / self.window);
        // The code proves that a server has issued the nonce. A server whose clock is ahead may be in the next window.
        let is_recent = number.abs_diff(current) <= 1;
        // Keyed hashes are compared, so that the time of the comparison reveals nothing about the codes.
        let blind = |nonce: &[u8]| HMAC::mac(nonce, self.key);
        is_recent && blind(bytes) == blind(&self.nonce(number))
    }

    fn nonce(&self, number: u64) -> [u8; NUMBER_LEN + CODE_LEN] {
        let mut mac = HMAC::new(self.key);
        mac.update(b"DPoP-Nonce ");
        mac.update(self.window.to_be_bytes());
        mac.update(number.to_be_bytes());
        let code = mac.finalize();
        let mut nonce = [0; NUMBER_LEN + CODE_LEN];
        let (first, last) = nonce.split_at_mut(NUMBER_LEN);
        first.copy_from_slice(&number.to_be_bytes());
        last.copy_from_slice(&code[..CODE_LEN]);
        nonce
    }
}

impl fmt::Debug for NonceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NonceKey").field("window", &self.window).finish_non_exhaustive()
    }
}
