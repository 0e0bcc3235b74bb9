//! Signed tokens in their compact form (RFC 7515, RFC 7519).

use base64ct::{Base64UrlUnpadded, Encoding};
use mcp_proto::wire::Json;

use super::{algorithm::Algorithm, keys::Key};
use crate::http::resource_server::{
    json::{Invalid, members, object},
    verifier::TokenError,
};

/// A token whose signature was not verified yet.
pub(super) struct Jws<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    /// The part that is signed.
    signed: &'a str,
    payload: &'a str,
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    /// Reads a token and its header. The algorithm has to be one of `allowed`.
    pub(super) fn parse(token: &'a str, allowed: &[Algorithm]) -> Result<Self, TokenError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let header = decode(header).and_then(|header| object(&header)).ok_or(TokenError::Malformed)?;
        let [algorithm, kind, key_id, critical] =
            members(&header, ["alg", "typ", "kid", "crit"]).map_err(|Invalid| TokenError::Malformed)?;
        let malformed = |Invalid| TokenError::Malformed;
        let algorithm = algorithm.text().map_err(malformed)?.ok_or(TokenError::Algorithm)?;
        let algorithm = allowed.iter().find(|allowed| allowed.name() == algorithm).ok_or(TokenError::Algorithm)?;
        if kind.text().map_err(malformed)?.is_some_and(|kind| !is_access_token(&kind)) {
            return Err(TokenError::Type);
        }
        if critical.is_there() {
            // No extension is supported (RFC 7515, section 4.1.11).
            return Err(TokenError::Malformed);
        }
        let key_id = key_id.text().map_err(malformed)?;
        let signature = decode(signature).ok_or(TokenError::Malformed)?;
        Ok(Self { algorithm: *algorithm, key_id, signed, payload, signature })
    }

    /// Returns the claims, if the token is signed with one of these keys.
    pub(super) fn verify<'k>(&self, keys: impl IntoIterator<Item = &'k Key>) -> Result<Json, TokenError> {
        let is_genuine = |key: &Key| key.verify(self.algorithm, self.signed.as_bytes(), &self.signature);
        if !keys.into_iter().any(is_genuine) {
            return Err(TokenError::Signature);
        }
        decode(self.payload).and_then(|payload| object(&payload)).ok_or(TokenError::Malformed)
    }
}

/// Returns whether a `typ` is that of an access token (RFC 9068, section 2.1). Older servers write `JWT`.
fn is_access_token(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    matches!(kind.strip_prefix("application/").unwrap_or(&kind), "at+jwt" | "jwt")
}

/// Decodes base64 with the alphabet for URLs, without padding. Another alphabet, such as a further dot, is an error.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    Base64UrlUnpadded::decode_vec(text).ok()
}
