//! The proofs of requests with tokens that are bound to a key (RFC 9449).
#![cfg_attr(not(feature = "jwt"), expect(dead_code, reason = "signatures need the feature `jwt`"))]

use std::{
    fmt,
    sync::Mutex,
    time::{SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use mcp_proto::auth::{
    Secret,
    dpop::{Proof, ProofError, ProofRules, ReplayCache},
};

use crate::sync::lock;

/// The header of a proof, and the header of the nonce for the next one.
const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// The checker of the proofs for a server. It accepts each proof once.
pub(super) struct Proofs {
    rules: ProofRules,
    replays: Mutex<ReplayCache>,
    /// Verifies the signature of a proof.
    is_genuine: fn(&Proof) -> bool,
    now: fn() -> SystemTime,
}

impl Proofs {
    pub(super) const fn new(
        rules: ProofRules,
        replays: ReplayCache,
        is_genuine: fn(&Proof) -> bool,
        now: fn() -> SystemTime,
    ) -> Self {
        Self { rules, replays: Mutex::new(replays), is_genuine, now }
    }

    /// Compares the proof of a request with the request. It verifies no signature.
    pub(super) fn read(&self, head: &Parts, token: &Secret) -> Result<Proof, ProofError> {
        let values = head.headers.get_all(&DPOP).iter().map(HeaderValue::as_bytes);
        self.rules.read(self.seconds(), values, head.method.as_str(), token)
    }

    /// Accepts the proof of a request whose token is bound to the key with this thumbprint.
    pub(super) fn accept(&self, proof: Proof, thumbprint: &str, principal: &str) -> Result<(), ProofError> {
        let proof = proof.verify(thumbprint, self.is_genuine)?;
        lock(&self.replays).admit(self.seconds(), principal, &proof)
    }

    /// Returns whether a request has a proof.
    pub(super) fn are_in(headers: &HeaderMap) -> bool {
        headers.contains_key(&DPOP)
    }

    /// Returns the nonce for the next proof, if proofs need one.
    pub(super) fn nonce(&self) -> Option<(HeaderName, HeaderValue)> {
        Some((DPOP_NONCE, HeaderValue::try_from(self.rules.nonce(self.seconds())?).ok()?))
    }

    fn seconds(&self) -> u64 {
        (self.now)().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }
}

impl fmt::Debug for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proofs").field("rules", &self.rules).finish_non_exhaustive()
    }
}
