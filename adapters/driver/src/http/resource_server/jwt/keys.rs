//! Public keys (RFC 7517), and signatures.

use std::{fmt, str};

use mcp_proto::{auth::dpop::ProofPublicKey, wire::Json};
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

use super::{algorithm::Algorithm, jws::decode};
use crate::http::resource_server::json::{Invalid, members, object};

/// The public keys of an authorization server.
#[derive(Clone, Debug, Default)]
pub struct KeySet(Vec<Key>);

/// The reason why a set of keys is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySetError {
    /// The set has more than [`KeySet::MAX_LEN`] bytes.
    TooLong,
    /// The set has more than [`KeySet::MAX_KEYS`] keys.
    TooMany,
    /// The text is no JSON Web Key Set.
    Malformed,
}

impl fmt::Display for KeySetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the key set has more than {} bytes", KeySet::MAX_LEN),
            Self::TooMany => write!(f, "the key set has more than {} keys", KeySet::MAX_KEYS),
            Self::Malformed => f.write_str("it is not a JSON Web Key Set"),
        }
    }
}

impl std::error::Error for KeySetError {}

/// A public key for signatures.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    id: Option<String>,
    /// The only algorithm of the key, if it names one.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// The most bytes of a key set.
    pub const MAX_LEN: usize = 256 * 1024;

    /// The most keys of a key set.
    pub const MAX_KEYS: usize = 100;

    /// Reads a JSON Web Key Set. Keys of unknown types, and those that are not for signatures, are left out.
    ///
    /// # Errors
    /// Returns the reason if the set is not used. The length is checked before anything else.
    pub fn parse(body: &[u8]) -> Result<Self, KeySetError> {
        if body.len() > Self::MAX_LEN {
            return Err(KeySetError::TooLong);
        }
        let set = object(body).ok_or(KeySetError::Malformed)?;
        let [keys] = members(&set, ["keys"]).map_err(|Invalid| KeySetError::Malformed)?;
        let keys = keys.list().ok().flatten().ok_or(KeySetError::Malformed)?;
        if keys.len() > Self::MAX_KEYS {
            return Err(KeySetError::TooMany);
        }
        Ok(Self(keys.iter().filter_map(Key::of).collect()))
    }

    /// Returns whether two sets have the same keys, in the same order.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// Returns the keys with which a token may be signed.
    pub(super) fn find(&self, algorithm: Algorithm, id: Option<&str>) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| key.fits(algorithm) && (id.is_none() || key.id.as_deref() == id))
    }
}

impl Key {
    fn of(jwk: &Json) -> Option<Self> {
        let names = ["kty", "use", "alg", "kid", "crv", "n", "e", "x", "y", "key_ops"];
        let [kind, purpose, algorithm, id, curve, n, e, x, y, operations] = members(jwk, names).ok()?;
        if purpose.text().ok()?.is_some_and(|purpose| purpose != "sig")
            || operations.is_there() && !operations.texts().ok()?.iter().any(|operation| operation == "verify")
        {
            return None;
        }
        let algorithm = match algorithm.text().ok()? {
            Some(name) => Some(name.parse().ok()?),
            None => None,
        };
        let bytes = |member: &crate::http::resource_server::json::Member| decode(&member.text().ok()??);
        // An uncompressed point (SEC 1, section 2.3.3).
        let point = |len: usize| {
            let (x, y) = (bytes(&x)?, bytes(&y)?);
            (x.len() == len && y.len() == len).then(|| [&[4], &*x, &*y].concat())
        };
        let curve = curve.text().ok()?;
        let material = match (kind.text().ok()??.as_str(), curve.as_deref()) {
            ("RSA", _) => Material::Rsa { n: bytes(&n)?, e: bytes(&e)? },
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(&x)?),
            _ => return None,
        };
        Some(Self { id: id.text().ok()?, algorithm, material })
    }

    /// Returns whether the key can verify signatures of this algorithm.
    fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|own| own == algorithm)
            && match self.material {
                Material::Rsa { .. } => rsa(algorithm).is_some(),
                Material::P256(_) => algorithm == Algorithm::Es256,
                Material::P384(_) => algorithm == Algorithm::Es384,
                Material::Ed25519(_) => algorithm == Algorithm::EdDsa,
            }
    }

    /// Returns whether a signature is valid for this key.
    pub(super) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.fits(algorithm) {
            return false;
        }
        let plain = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
        };
        match &self.material {
            Material::Rsa { n, e } => rsa(algorithm)
                .is_some_and(|params| RsaPublicKeyComponents { n, e }.verify(params, message, signature).is_ok()),
            Material::P256(point) => plain(&ECDSA_P256_SHA256_FIXED, point),
            Material::P384(point) => plain(&ECDSA_P384_SHA384_FIXED, point),
            Material::Ed25519(key) => plain(&ED25519, key),
        }
    }
}

/// The verification of signatures with the key in the header of a proof.
pub(in crate::http::resource_server) trait ProofSignature {
    /// Returns whether a signature is valid for this key.
    fn is_signature(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool;
}

impl ProofSignature for ProofPublicKey {
    fn is_signature(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let point = |x: &[u8], y: &[u8]| [&[4], x, y].concat();
        let material = match self {
            Self::Rsa { n, e } => Material::Rsa { n: n.clone(), e: e.clone() },
            Self::P256 { x, y } => Material::P256(point(x, y)),
            Self::P384 { x, y } => Material::P384(point(x, y)),
            Self::Ed25519 { x } => Material::Ed25519(x.clone()),
            _ => return false,
        };
        Key { id: None, algorithm: Some(algorithm), material }.verify(algorithm, message, signature)
    }
}

/// Returns the parameters of an algorithm of RSA. Keys have 2,048 to 8,192 bits.
const fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}
