//! The interface to keys and assertions of the application.

use std::io;

use mcp_proto::auth::{
    Secret, Url,
    client::{AssertionClaims, AssertionKind, DpopKey, ProofClaims},
};

/// A signer of the assertions of a client that authenticates with `private_key_jwt` (RFC 7523, section 3).
pub trait AssertionSigner: Send + Sync + 'static {
    /// Signs claims and returns the JWT. It must not block for long.
    ///
    /// # Errors
    /// If the key cannot be used.
    fn sign(&self, claims: &AssertionClaims) -> io::Result<Secret>;
}

/// A signer of proofs of possession (RFC 9449).
///
/// Stored tokens are bound to the key, and are not used with another one.
pub trait ProofSigner: Send + Sync + 'static {
    /// Describes the key.
    fn key(&self) -> DpopKey;

    /// Signs claims and returns the JWT, whose header has the public key. It must not block for long.
    ///
    /// # Errors
    /// If the key cannot be used.
    fn sign(&self, claims: &ProofClaims) -> io::Result<Secret>;
}

/// The parameters of a JWT that the application supplies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AssertionRequest {
    /// The kind of the JWT.
    pub kind: AssertionKind,
    /// The issuer of the authorization server. It is the audience of the JWT of a workload.
    pub audience: String,
    /// The identifier of the resource.
    pub resource: Url,
}
