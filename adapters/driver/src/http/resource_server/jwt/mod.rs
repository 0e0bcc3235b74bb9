//! Access tokens that are signed JSON Web Tokens (RFC 9068).

mod algorithm;
mod jws;
mod key_source;
mod keys;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mcp_proto::{auth::Secret, wire::Json};
use mcp_service::Deferred;

pub use algorithm::Algorithm;
pub use key_source::KeySource;
pub(super) use keys::ProofSignature;
pub use keys::{KeySet, KeySetError};

use self::jws::Jws;
use super::{
    claims::ClaimRules,
    json::{Invalid, members},
    verifier::{AccessToken, LEEWAY, TokenError, TokenVerifier},
};

/// The most keys that are tried for a token without a key name. Each try verifies a signature.
const MAX_TRIED: usize = 8;

/// A verifier of access tokens that are signed JSON Web Tokens. It checks algorithm, key, signature, issuer, audience
/// and time.
///
/// A token without an expiry is refused, and so are tokens with symmetric signatures or without one. For a token that
/// does not name its key, the first 8 keys of its algorithm are tried.
#[derive(Clone)]
pub struct JwtVerifier(Arc<Settings>);

#[derive(Clone)]
struct Settings {
    issuer: String,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    keys: KeySource,
    leeway: Duration,
    now: fn() -> SystemTime,
}

impl JwtVerifier {
    /// Accepts tokens of an issuer for a resource, with the algorithms `RS256`, `PS256`, `ES256` and `EdDSA`.
    ///
    /// Both names are compared byte for byte. `resource` is the
    /// [identifier](mcp_proto::auth::ResourceMetadata::resource) of the server, unless its authorization server uses
    /// another name.
    #[must_use]
    pub fn new(issuer: impl Into<String>, resource: impl Into<String>, keys: impl Into<KeySource>) -> Self {
        Self(Arc::new(Settings {
            issuer: issuer.into(),
            audiences: vec![resource.into()],
            algorithms: vec![Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa],
            keys: keys.into(),
            leeway: LEEWAY,
            now: SystemTime::now,
        }))
    }

    /// Accepts another name of the server as audience.
    #[must_use]
    pub fn audience(mut self, name: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).audiences.push(name.into());
        self
    }

    /// Sets the allowed algorithms.
    #[must_use]
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        Arc::make_mut(&mut self.0).algorithms = algorithms.into_iter().collect();
        self
    }

    /// Sets the most by which the clocks of the servers may differ. Default 30 seconds.
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Self {
        Arc::make_mut(&mut self.0).leeway = leeway;
        self
    }

    #[cfg(test)]
    fn at(mut self, now: fn() -> SystemTime) -> Self {
        Arc::make_mut(&mut self.0).now = now;
        self
    }
}

impl Settings {
    async fn verify(&self, token: &Secret) -> Result<AccessToken, TokenError> {
        let jws = Jws::parse(token.expose(), &self.algorithms)?;
        let (algorithm, id) = (jws.algorithm, jws.key_id.as_deref());
        let keys = self.keys.find(id.is_some(), |keys| keys.find(algorithm, id).next().is_some()).await?;
        if keys.find(algorithm, id).next().is_none() {
            return Err(TokenError::UnknownKey);
        }
        let mut claims = jws.verify(keys.find(algorithm, id).take(MAX_TRIED));
        if id.is_none() && claims == Err(TokenError::Signature) {
            // Without an id, only the signature shows whether the set has its key.
            let is_newer = |found: &Arc<KeySet>| !Arc::ptr_eq(found, &keys);
            let newer = self.keys.find(false, is_newer).await?;
            if is_newer(&newer) {
                claims = jws.verify(newer.find(algorithm, id).take(MAX_TRIED));
            }
        }
        self.check(claims?)
    }

    fn check(&self, claims: Json) -> Result<AccessToken, TokenError> {
        // Some authorization servers have other names for these claims.
        let [scope, scp, party] = members(&claims, ["scope", "scp", "azp"]).map_err(|Invalid| TokenError::Malformed)?;
        let rules = ClaimRules {
            issuer: &self.issuer,
            audiences: &self.audiences,
            leeway: self.leeway,
            requires_issuer_and_expiry: true,
        };
        let mut token = rules.check(claims, (self.now)())?;
        let invalid = |name| move |Invalid| TokenError::Claim(name);
        if !scope.is_there() {
            token.scope = scp.texts().map_err(invalid("scp"))?.join(" ");
        }
        // It is checked also if it is not used.
        let party = party.text().map_err(invalid("azp"))?;
        token.client_id = token.client_id.or(party);
        Ok(token)
    }
}

impl TokenVerifier for JwtVerifier {
    fn verify(&self, token: &Secret) -> Deferred<Result<AccessToken, TokenError>> {
        let (settings, token) = (self.0.clone(), token.clone());
        Deferred::new(async move { settings.verify(&token).await })
    }
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { issuer, audiences, algorithms, leeway, .. } = &*self.0;
        f.debug_struct("JwtVerifier")
            .field("issuer", issuer)
            .field("audiences", audiences)
            .field("algorithms", algorithms)
            .field("leeway", leeway)
            .finish_non_exhaustive()
    }
}
