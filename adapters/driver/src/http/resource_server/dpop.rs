//! The settings for tokens that are bound to a key, and the signatures of their proofs.

use std::{
    io,
    time::{Duration, SystemTime},
};

use mcp_proto::auth::{
    ResourceMetadata, Url,
    dpop::{NonceKey, Proof, ProofRules, ReplayCache},
};

use super::{
    jwt::{Algorithm, ProofSignature},
    proofs::Proofs,
};

/// Accepts access tokens that are bound to a key of the client (DPoP, RFC 9449), for
/// [`ResourceServer::dpop`](super::ResourceServer::dpop).
///
/// Such a token cannot be used without the key: each request has a proof that is signed with the key, for this method,
/// this URL and this token. A proof is accepted once, and for 60 seconds with clocks that differ by at most 30 seconds.
/// Proofs are compared with the public URL of the server, never with that of the request.
#[derive(Clone, Debug)]
pub struct Dpop {
    algorithms: Vec<Algorithm>,
    urls: Vec<Url>,
    is_required: bool,
    max_age: Duration,
    leeway: Duration,
    nonces: Option<NonceKey>,
    replays: (usize, usize),
    pub(super) now: fn() -> SystemTime,
}

impl Dpop {
    /// Accepts bound tokens with proofs of the algorithms `ES256`, `ES384`, `EdDSA`, `PS256` and `RS256`. Tokens that
    /// are not bound are accepted as well. RSA keys of proofs have 2,048 to 4,096 bits.
    #[must_use]
    pub fn new() -> Self {
        Self {
            algorithms: vec![Algorithm::Es256, Algorithm::Es384, Algorithm::EdDsa, Algorithm::Ps256, Algorithm::Rs256],
            urls: Vec::new(),
            is_required: false,
            max_age: Duration::from_secs(ProofRules::MAX_AGE),
            leeway: Duration::from_secs(ProofRules::LEEWAY),
            nonces: None,
            replays: (ReplayCache::TOTAL, ReplayCache::SHARE),
            now: SystemTime::now,
        }
    }

    /// Refuses tokens that are not bound to a key. The metadata of the server declares it.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Sets the algorithms of proofs. All of them are asymmetric.
    #[must_use]
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Accepts proofs for another public URL of the server. An endpoint with HTTP+SSE has two: that of the stream, and
    /// that of the messages.
    #[must_use]
    pub fn url(mut self, url: Url) -> Self {
        self.urls.push(url);
        self
    }

    /// Sets the time after its creation in which a proof is accepted, in whole seconds. Default 60 seconds, at most an
    /// hour.
    #[must_use]
    pub const fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Sets the most by which the clocks of clients may differ, in whole seconds. Default 30 seconds, at most an hour.
    #[must_use]
    pub const fn leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// Requires a nonce of this server in each proof, so that clients cannot create proofs in advance. Processes that
    /// serve the same URL share the key. Each response 401 has the nonce, and each response to a request with a proof.
    #[must_use]
    pub fn nonces(mut self, key: NonceKey) -> Self {
        self.nonces = Some(key);
        self
    }

    /// Requires nonces as [`nonces`](Self::nonces) does, with a random key of this process.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn random_nonces(self) -> io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(self.nonces(NonceKey::new(key)))
    }

    /// Sets the most proofs that are kept, in total and of each principal: see [`ReplayCache::new`]. The response to a
    /// request beyond the limit is 429. The default is 262,144, and 65,536 of a principal, which can send 546 requests
    /// per second while no other is busy. With a longer [age](Self::max_age) the rate is lower in proportion. Half of
    /// the list is a reserve, of which each principal gets a 512th of its share: 128 proofs, or a request per second,
    /// for 1,024 principals.
    #[must_use]
    pub const fn replay_limits(mut self, total: usize, share: usize) -> Self {
        self.replays = (total, share);
        self
    }

    /// Returns the checker of the proofs, and the metadata with their algorithms.
    pub(super) fn apply(self, metadata: ResourceMetadata) -> (ResourceMetadata, Proofs) {
        let names = || self.algorithms.iter().map(|algorithm| algorithm.name());
        let rules = ProofRules::new(metadata.url(), names());
        let mut rules = rules.max_age(self.max_age.as_secs()).leeway(self.leeway.as_secs());
        rules = self.urls.iter().fold(rules, ProofRules::url);
        if let Some(key) = self.nonces.clone() {
            rules = rules.nonces(key);
        }
        let metadata = metadata.proof_algorithms(names());
        let metadata = if self.is_required { metadata.needs_proofs() } else { metadata };
        let (total, share) = self.replays;
        (metadata, Proofs::new(rules, ReplayCache::new(total, share), is_genuine, self.now))
    }
}

impl Default for Dpop {
    fn default() -> Self {
        Self::new()
    }
}

fn is_genuine(proof: &Proof) -> bool {
    proof
        .algorithm()
        .parse()
        .is_ok_and(|algorithm| proof.key().is_signature(algorithm, proof.signed(), proof.signature()))
}
