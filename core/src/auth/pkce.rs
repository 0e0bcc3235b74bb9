//! Proof key for code exchange (RFC 7636).

use alloc::string::String;
use core::fmt;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use hmac_sha256::Hash;

use super::secret::Secret;

/// A code verifier. The authorization request has its challenge, and the token request has the verifier.
///
/// The method is always `S256`; `plain` is not offered.
#[derive(Clone, PartialEq, Eq)]
pub struct CodeVerifier(Secret);

impl CodeVerifier {
    /// The name of the method.
    pub const METHOD: &'static str = "S256";

    /// Creates a verifier of 43 characters from random bytes, which must be unpredictable.
    #[must_use]
    pub fn new(random: [u8; 32]) -> Self {
        Self(Secret::new(Base64UrlUnpadded::encode_string(&random)))
    }

    /// Returns the challenge: the digest of the verifier, in 43 characters.
    #[must_use]
    pub fn challenge(&self) -> String {
        Base64UrlUnpadded::encode_string(&Hash::hash(self.0.expose().as_bytes()))
    }

    /// Returns the verifier.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl fmt::Debug for CodeVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    // req: AUTH-012 AUTH-063 AUTH-064 M-AUTH-045
    #[test]
    fn challenge_matches_rfc_7636() {
        // RFC 7636, appendix B.
        let random = [
            116, 24, 223, 180, 151, 153, 224, 37, 79, 250, 96, 125, 216, 173, 187, 186, 22, 212, 37, 77, 105, 214, 191,
            240, 91, 88, 5, 88, 83, 132, 141, 121,
        ];
        let verifier = CodeVerifier::new(random);
        assert_eq!(verifier.expose(), "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(verifier.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert_eq!(format!("{verifier:?}"), "[redacted]");
    }

    #[test]
    fn verifier_has_43_unreserved_characters() {
        for byte in [0, 0x55, 0xff] {
            let verifier = CodeVerifier::new([byte; 32]);
            let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            assert!(verifier.expose().len() == 43 && verifier.expose().bytes().all(is_unreserved));
            assert!(verifier.challenge().len() == 43 && verifier.challenge().bytes().all(is_unreserved));
        }
    }
}
