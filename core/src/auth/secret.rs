//! Text that is never printed.

use alloc::string::String;
use core::fmt;

use hmac_sha256::Hash;

/// A token, a code, a verifier or the secret of a client.
///
/// `Debug` prints `[redacted]`; there is no `Display` and no `Serialize`. [`expose`](Self::expose) returns the text, so
/// a search for that name finds each use of the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the SHA-256 hash of the text, with which a cache can find it without storing the text.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        Hash::hash(self.0.as_bytes())
    }

    /// Returns whether `other` is the same text. The time of the comparison reveals nothing about where they differ.
    #[must_use]
    pub fn matches(&self, other: &str) -> bool {
        Hash::hash(self.0.as_bytes()) == Hash::hash(other.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("canary");
        assert_eq!(format!("{secret:?} {:#?}", Some(&secret)), "[redacted] Some(\n    [redacted],\n)");
        assert_eq!(secret.expose(), "canary");
    }

    #[test]
    fn matches_only_equal_secrets() {
        let secret = Secret::new("canary");
        assert!(secret.matches("canary"));
        for other in ["", "canar", "canaryx", "Canary", "xanary"] {
            assert!(!secret.matches(other), "{other:?}");
        }
    }
}
