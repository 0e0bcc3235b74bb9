//! Proofs of possession at a protected server (RFC 9449, sections 4.3, 7 and 9), without I/O and without signatures.
//!
//! An access token that is bound to a key is sent with the scheme `DPoP`, and with a proof in the header `DPoP`: a JWT
//! for this request, signed with that key. A server checks it in three steps:
//!
//! 1. [`ProofRules::read`] compares the proof with the request, before the token is verified.
//! 2. [`Proof::verify`] compares its key with that of the token, and calls the application to verify the signature.
//! 3. [`ReplayCache::admit`] accepts each proof once.
//!
//! Each step takes the result of the step before, so none can be left out. The time is an argument, in seconds since
//! 1970. A [`NonceKey`] needs no state either: a nonce is the authentication code of a time window.

mod jwk;
mod nonce;
mod proof;
mod replay;
#[cfg(test)]
mod tests;

pub use jwk::ProofPublicKey;
pub use nonce::NonceKey;
pub use proof::{MAX_PROOF, Proof, ProofError, ProofRules, VerifiedProof};
pub use replay::ReplayCache;
