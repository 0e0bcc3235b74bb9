//! The claims that all access tokens have in common (RFC 7662, section 2.2; RFC 9068, section 2.2).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_proto::wire::{Json, RawJson};

use super::{
    json::{Invalid, Member, members},
    verifier::{AccessToken, TokenError},
};

/// The rules for the claims of an access token.
pub(super) struct ClaimRules<'a> {
    pub(super) issuer: &'a str,
    pub(super) audiences: &'a [String],
    /// The most by which the clocks of the servers may differ.
    pub(super) leeway: Duration,
    /// Whether `iss` and `exp` are required. The response of an introspection may omit them.
    pub(super) requires_issuer_and_expiry: bool,
}

impl ClaimRules<'_> {
    /// Checks issuer, audience, times and binding, and returns the token. Its expiry has the leeway added.
    ///
    /// # Errors
    /// Returns [`TokenError::Malformed`] if a claim occurs twice, and otherwise the reason why the token is refused.
    pub(super) fn check(&self, claims: Json, now: SystemTime) -> Result<AccessToken, TokenError> {
        let names = ["iss", "aud", "exp", "nbf", "sub", "client_id", "scope", "cnf"];
        let [issuer, audience, expires, begins, subject, client, scope, key] =
            members(&claims, names).map_err(|Invalid| TokenError::Malformed)?;
        let invalid = |name| move |Invalid| TokenError::Claim(name);
        let is_required = |name| if self.requires_issuer_and_expiry { Err(TokenError::Claim(name)) } else { Ok(()) };
        match issuer.text().map_err(invalid("iss"))? {
            Some(issuer) if issuer != self.issuer => return Err(TokenError::Issuer),
            Some(_) => {}
            None => is_required("iss")?,
        }
        if !audience.is_there() {
            return Err(TokenError::Claim("aud"));
        }
        if !audience.texts().map_err(invalid("aud"))?.iter().any(|audience| self.audiences.contains(audience)) {
            return Err(TokenError::Audience);
        }
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let leeway = self.leeway.as_secs_f64();
        let expires = expires.seconds().map_err(invalid("exp"))?.map(|at| at + leeway);
        match expires {
            Some(at) if at <= now => return Err(TokenError::Expired),
            Some(_) => {}
            None => is_required("exp")?,
        }
        if begins.seconds().map_err(invalid("nbf"))?.is_some_and(|begins| begins - leeway > now) {
            return Err(TokenError::NotYetValid);
        }
        let key_thumbprint = key_thumbprint(&key)?;
        let after = |seconds| UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?);
        Ok(AccessToken {
            issuer: self.issuer.to_owned(),
            subject: subject.text().map_err(invalid("sub"))?,
            client_id: client.text().map_err(invalid("client_id"))?,
            scope: scope.texts().map_err(invalid("scope"))?.join(" "),
            expires: expires.and_then(after),
            key_thumbprint,
            claims: Some(claims),
        })
    }
}

/// Reads the binding of a token (RFC 7800), and returns the thumbprint of the key of its proofs (RFC 9449, section 6).
/// A token with any other binding is refused, because that would not be checked.
fn key_thumbprint(binding: &Member) -> Result<Option<String>, TokenError> {
    /// The characters of a hash with SHA-256.
    const LEN: usize = 43;
    let Some(binding) = binding.json() else { return Ok(None) };
    let [thumbprint] = members(binding, ["jkt"]).map_err(|Invalid| TokenError::Malformed)?;
    let is_sole = RawJson::from(binding).all_members(|name, _| name == "jkt");
    let thumbprint = thumbprint.text().ok().flatten().filter(|text| is_sole && text.len() == LEN);
    thumbprint.map(Some).ok_or(TokenError::BOUND)
}
