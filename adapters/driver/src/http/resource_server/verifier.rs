//! The interface of verifiers of access tokens.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use mcp_proto::{
    auth::{Secret, dpop::ProofError},
    wire::Json,
};
use mcp_service::Deferred;

/// The most by which the clocks of servers may differ.
pub(super) const LEEWAY: Duration = Duration::from_secs(30);

/// A verifier of access tokens.
///
/// A function of the token that returns at once is a verifier as well.
#[doc(alias = "bearer")]
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies that a token is genuine, from an accepted issuer, for this server, and valid now. The future must not
    /// block a thread.
    fn verify(&self, token: &Secret) -> Deferred<Result<AccessToken, TokenError>>;
}

impl<F> TokenVerifier for F
where
    F: Fn(&str) -> Result<AccessToken, TokenError> + Send + Sync + 'static,
{
    fn verify(&self, token: &Secret) -> Deferred<Result<AccessToken, TokenError>> {
        Deferred::ready(self(token.expose()))
    }
}

/// The claims of a valid access token. The token itself is not part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessToken {
    /// The issuer, byte for byte.
    pub issuer: String,
    /// The user, or the client if it acts on its own behalf. It is unique within the issuer.
    pub subject: Option<String>,
    /// The client to which the token was issued.
    pub client_id: Option<String>,
    /// The scopes, separated by spaces.
    pub scope: String,
    /// The expiry, if there is one.
    pub expires: Option<SystemTime>,
    /// The thumbprint of the key to which it is bound (`cnf.jkt`), if it is bound to one. The server accepts such a
    /// token only with a proof of that key, and no other token with a proof.
    pub key_thumbprint: Option<String>,
    /// Its claims, for handlers.
    pub claims: Option<Json>,
}

impl AccessToken {
    /// Creates the claims of a token of an issuer for a subject, without scopes, client and expiry.
    #[must_use]
    pub fn new(issuer: impl Into<String>, subject: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            subject: Some(subject.into()),
            client_id: None,
            scope: String::new(),
            expires: None,
            key_thumbprint: None,
            claims: None,
        }
    }

    /// Sets the scopes, separated by spaces.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into();
        self
    }

    /// Sets the client to which the token was issued.
    #[must_use]
    pub fn client_id(mut self, client: impl Into<String>) -> Self {
        self.client_id = Some(client.into());
        self
    }

    /// Sets the expiry.
    #[must_use]
    pub const fn expires(mut self, at: SystemTime) -> Self {
        self.expires = Some(at);
        self
    }

    /// Sets the thumbprint of the key to which it is bound.
    #[must_use]
    pub fn key_thumbprint(mut self, thumbprint: impl Into<String>) -> Self {
        self.key_thumbprint = Some(thumbprint.into());
        self
    }

    /// Returns the id of the principal: issuer and subject, or issuer and client if there is no subject. Returns `None`
    /// if there is neither, or if the subject is empty, because such an id would be the same for many users.
    ///
    /// The id is unambiguous, because an issuer contains neither a space nor `#`.
    pub(super) fn principal(&self) -> Option<String> {
        let is_empty = |name: &Option<String>| name.as_ref().is_some_and(String::is_empty);
        if self.issuer.contains([' ', '#']) || is_empty(&self.subject) {
            return None;
        }
        let client = self.client_id.as_ref().filter(|client| !client.is_empty());
        let client = || Some(format!("{}#client {}", self.issuer, client?));
        self.subject.as_ref().map(|subject| format!("{} {subject}", self.issuer)).or_else(client)
    }
}

/// The reason why a token is not accepted. Its text is sent to the client, and contains no part of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The token does not have the expected format.
    Malformed,
    /// The type is not that of access tokens.
    Type,
    /// The algorithm is not allowed.
    Algorithm,
    /// The key is unknown.
    UnknownKey,
    /// The signature is wrong.
    Signature,
    /// The token comes from another issuer.
    Issuer,
    /// The token is for another server.
    Audience,
    /// The token has expired.
    Expired,
    /// The token is not valid yet.
    NotYetValid,
    /// A claim is missing or has another type.
    Claim(&'static str),
    /// The token is unknown to the authorization server, expired or revoked.
    Inactive,
    /// The proof of possession of the request is not accepted.
    Proof(ProofError),
    /// Another reason.
    Refused(&'static str),
    /// The token could not be verified, because of the server. The response has the status 503 and not the reason.
    Unavailable(String),
}

impl TokenError {
    /// The token is bound to a key or a certificate (RFC 7800) that this server does not check. A stolen one could be
    /// used.
    pub(super) const BOUND: Self = Self::Refused("the token is bound to a key, which is not checked here");

    /// The token is bound to a key, and the request has no proof.
    pub(super) const NO_PROOF: Self = Self::Refused("the token is bound to a key, and was sent without a proof");

    /// The request has a proof, and the token is not bound to its key.
    pub(super) const UNBOUND: Self = Self::Refused("the token is not bound to a key");
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the token is malformed",
            Self::Type => "the token is not an access token",
            Self::Algorithm => "the algorithm of the token is not allowed",
            Self::UnknownKey => "the key of the token is unknown",
            Self::Signature => "the signature of the token is wrong",
            Self::Issuer => "the token is from another issuer",
            Self::Audience => "the token is for another server",
            Self::Expired => "the token has expired",
            Self::NotYetValid => "the token is not valid yet",
            Self::Claim(name) => return write!(f, "the claim '{name}' of the token is missing or invalid"),
            Self::Inactive => "the token is not active",
            Self::Proof(error) => return error.fmt(f),
            Self::Refused(why) => why,
            Self::Unavailable(why) => return write!(f, "the token cannot be verified: {why}"),
        })
    }
}

impl std::error::Error for TokenError {}
