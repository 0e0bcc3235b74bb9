//! What is stored for a server.

use alloc::{boxed::Box, string::String};

use crate::auth::{client_identity::ClientIdentity, scope::Scopes, secret::Secret, token::TokenType};

/// Counts the versions of what is stored under one key. The store gives each version a generation that the key never had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation(pub u64);

/// What is stored for one server. It belongs to one issuer: with another one it is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The identity of the client, which names the issuer.
    pub client: ClientIdentity,
    /// The tokens; `None` if they were refused.
    pub tokens: Option<StoredTokens>,
}

/// Tokens, and what they are good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTokens {
    /// The access token.
    pub access: Secret,
    /// How it is presented.
    pub token_type: TokenType,
    /// The refresh token.
    pub refresh: Option<Secret>,
    /// The identifier of the resource, byte for byte.
    pub resource: String,
    /// The scopes that were granted, as far as the server has said.
    pub scopes: Scopes,
    /// When the access token expires, in seconds since 1970.
    pub expires_at: Option<u64>,
}

/// What a store has answered to an [`Action::Store`](super::Action::Store).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreReply {
    /// It is stored, and has this generation.
    Stored(Generation),
    /// It is not stored, because something else is there by now.
    Conflict(Option<Box<(Generation, Credentials)>>),
    /// The store has failed.
    Failed,
}
