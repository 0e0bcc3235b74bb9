//! Proofs of possession (RFC 9449). The key, and the signature of a proof, belong to the application.

use alloc::string::{String, ToString};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use hmac_sha256::Hash;
use serde_json::{Map, Value};

use crate::auth::{secret::Secret, url::Url};

/// The key to which tokens are bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpopKey {
    /// The thumbprint of the public key with SHA-256 (RFC 7638), in base64url. Stored tokens that are bound to another
    /// key are not used.
    pub thumbprint: String,
    /// The algorithm of the signatures: `ES256` for example.
    pub algorithm: String,
    /// Whether tokens that are not bound are refused. Otherwise they are accepted from servers without DPoP.
    pub is_required: bool,
}

/// The claims of a proof (RFC 9449, section 4.2).
///
/// The header of the JWT is `{"typ":"dpop+jwt","alg":…,"jwk":…}`, with the public key. Each proof is sent once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofClaims {
    /// `jti`
    pub id: String,
    /// `htm`: the method of the request.
    pub method: String,
    /// `htu`: the URL of the request without its query.
    pub url: String,
    /// `iat`, in seconds since 1970.
    pub issued_at: u64,
    /// `ath`: the hash of the access token, where one is presented.
    pub token_hash: Option<String>,
    /// `nonce`: the nonce of the server.
    pub nonce: Option<String>,
}

impl ProofClaims {
    /// Creates the claims for a request. `id` must not have been used before.
    #[must_use]
    pub fn new(
        id: String,
        method: &str,
        url: &Url,
        unix_seconds: u64,
        token: Option<&Secret>,
        nonce: Option<&str>,
    ) -> Self {
        let (base, _) = url.as_str().split_once('?').unwrap_or((url.as_str(), ""));
        let hash = |token: &Secret| Base64UrlUnpadded::encode_string(&Hash::hash(token.expose().as_bytes()));
        Self {
            id,
            method: method.into(),
            url: base.into(),
            issued_at: unix_seconds,
            token_hash: token.map(hash),
            nonce: nonce.map(Into::into),
        }
    }

    /// Returns the payload of the JWT.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Self { id, method, url, issued_at, token_hash, nonce } = self;
        let mut claims = Map::new();
        let mut put = |name: &str, value: Value| drop(claims.insert(name.into(), value));
        put("jti", (&**id).into());
        put("htm", (&**method).into());
        put("htu", (&**url).into());
        put("iat", (*issued_at).into());
        if let Some(hash) = token_hash {
            put("ath", (&**hash).into());
        }
        if let Some(nonce) = nonce {
            put("nonce", (&**nonce).into());
        }
        Value::Object(claims).to_string()
    }
}

/// The error code of a server that requires a proof with a nonce (RFC 9449, sections 8 and 9).
pub(super) const USE_NONCE: &str = "use_dpop_nonce";

/// The most bytes of a nonce.
const MAX_NONCE: usize = 1024;

/// Reads the value of a `DPoP-Nonce` header (RFC 9449, section 8.1); `None` if it is invalid or too long.
pub(super) fn nonce(value: &str) -> Option<String> {
    let is_nonce = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    let is_good = (1..=MAX_NONCE).contains(&value.len()) && value.bytes().all(is_nonce);
    is_good.then(|| value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_have_allowed_characters_and_a_limit() {
        let long = |len: usize| nonce(&"n".repeat(len)).map(|nonce| nonce.len());
        assert_eq!([long(0), long(1), long(1024), long(1025)], [None, Some(1), Some(1024), None]);
        for byte in 0..=0x7f_u8 {
            let text = String::from(char::from(byte));
            let is_good = matches!(byte, 0x21..=0x7e) && byte != b'"' && byte != b'\\';
            assert_eq!(nonce(&text).is_some(), is_good, "{byte:#x}");
        }
    }
}
