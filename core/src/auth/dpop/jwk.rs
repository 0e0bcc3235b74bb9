//! The public key in the header of a proof (RFC 7517, RFC 7518, RFC 8037), and its thumbprint (RFC 7638).

use alloc::{format, string::String, vec::Vec};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use hmac_sha256::Hash;

use super::proof::ProofError;
use crate::auth::document::Document;

/// The least and the most bytes of the modulus of an RSA key. The sender chooses the key, and the time of a
/// verification grows with its length.
const RSA_LEN: core::ops::RangeInclusive<usize> = 256..=512;

/// The most bytes of the exponent of an RSA key.
const MAX_EXPONENT: usize = 8;

/// The members of a private or a symmetric key (RFC 7518, section 6).
const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// The public key of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProofPublicKey {
    /// An RSA key of 2,048 to 4,096 bits.
    Rsa {
        /// The modulus, big-endian.
        n: Vec<u8>,
        /// The exponent, big-endian.
        e: Vec<u8>,
    },
    /// A point on the curve P-256.
    P256 {
        /// 32 bytes, big-endian.
        x: Vec<u8>,
        /// 32 bytes, big-endian.
        y: Vec<u8>,
    },
    /// A point on the curve P-384.
    P384 {
        /// 48 bytes, big-endian.
        x: Vec<u8>,
        /// 48 bytes, big-endian.
        y: Vec<u8>,
    },
    /// A key of Ed25519.
    Ed25519 {
        /// 32 bytes.
        x: Vec<u8>,
    },
}

impl ProofPublicKey {
    /// Reads a JSON Web Key.
    pub(super) fn parse(jwk: &Document) -> Result<Self, ProofError> {
        let private = jwk.members(PRIVATE).map_err(|_| ProofError::PrivateKey)?;
        if private.iter().any(|member| member.is_there()) {
            return Err(ProofError::PrivateKey);
        }
        let [kind, curve, n, e, x, y] =
            jwk.members(["kty", "crv", "n", "e", "x", "y"]).map_err(|_| ProofError::Malformed)?;
        let text = |member: &crate::auth::document::Member| member.text().ok().flatten();
        let bytes = |member: &crate::auth::document::Member| {
            text(member).and_then(|text| Base64UrlUnpadded::decode_vec(&text).ok()).ok_or(ProofError::Key)
        };
        let sized = |member, len: usize| bytes(member).and_then(|bytes| of_len(bytes, len));
        match (text(&kind).as_deref(), text(&curve).as_deref()) {
            (Some("RSA"), None) => {
                let (n, e) = (bytes(&n)?, bytes(&e)?);
                let is_usual = RSA_LEN.contains(&n.len()) && e.len() <= MAX_EXPONENT;
                // Leading zeros would give one key several thumbprints.
                let is_minimal = n.first() != Some(&0) && e.first().is_some_and(|byte| *byte != 0);
                if is_usual && is_minimal { Ok(Self::Rsa { n, e }) } else { Err(ProofError::Key) }
            }
            (Some("EC"), Some("P-256")) => Ok(Self::P256 { x: sized(&x, 32)?, y: sized(&y, 32)? }),
            (Some("EC"), Some("P-384")) => Ok(Self::P384 { x: sized(&x, 48)?, y: sized(&y, 48)? }),
            (Some("OKP"), Some("Ed25519")) => Ok(Self::Ed25519 { x: sized(&x, 32)? }),
            _ => Err(ProofError::Key),
        }
    }

    /// Returns whether the key can verify signatures of an algorithm. No key fits a symmetric algorithm, or `none`.
    #[must_use]
    pub fn fits(&self, algorithm: &str) -> bool {
        match self {
            Self::Rsa { .. } => matches!(algorithm, "RS256" | "RS384" | "RS512" | "PS256" | "PS384" | "PS512"),
            Self::P256 { .. } => algorithm == "ES256",
            Self::P384 { .. } => algorithm == "ES384",
            Self::Ed25519 { .. } => matches!(algorithm, "EdDSA" | "Ed25519"),
        }
    }

    /// Returns the thumbprint with SHA-256, in base64url.
    #[must_use]
    pub fn thumbprint(&self) -> String {
        let part = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
        // The required members, in the order of their names and without spaces.
        let canonical = match self {
            Self::Rsa { n, e } => format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, part(e), part(n)),
            Self::P256 { x, y } => format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, part(x), part(y)),
            Self::P384 { x, y } => format!(r#"{{"crv":"P-384","kty":"EC","x":"{}","y":"{}"}}"#, part(x), part(y)),
            Self::Ed25519 { x } => format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, part(x)),
        };
        Base64UrlUnpadded::encode_string(&Hash::hash(canonical.as_bytes()))
    }
}

fn of_len(bytes: Vec<u8>, len: usize) -> Result<Vec<u8>, ProofError> {
    if bytes.len() == len { Ok(bytes) } else { Err(ProofError::Key) }
}
