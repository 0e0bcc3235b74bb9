//! The actions that the application performs for an authorization, and their parameters.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde_json::{Map, Value};

use super::{
    credentials::{Credentials, Generation},
    dpop::ProofClaims,
};
use crate::{
    auth::{secret::Secret, url::Url},
    rpc::Timestamp,
};

/// The time, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time of the state machine.
    pub instant: Timestamp,
    /// Seconds since 1970, for times that are stored.
    pub unix_seconds: u64,
}

/// Identifies an action. Its result is reported with the same id. A late result is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ActionId(pub(super) u64);

/// An action that the application performs next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Sends an HTTP request and reports the response with [`handle_response`](super::AuthClient::handle_response).
    Request(Request),
    /// Opens this URL in a browser, without a shell, and reports the redirect with
    /// [`handle_redirect`](super::AuthClient::handle_redirect).
    OpenBrowser(Url),
    /// Loads the entry of the store with this key and reports it with
    /// [`handle_loaded`](super::AuthClient::handle_loaded).
    Load {
        /// The id of the action.
        id: ActionId,
        /// The key: the canonical URL of the server, which may have a query.
        key: Secret,
    },
    /// Replaces the entry of the store with this key if it still has the generation `expected`, and reports the result
    /// with [`handle_stored`](super::AuthClient::handle_stored).
    Store {
        /// The id of the action.
        id: ActionId,
        /// The key: the canonical URL of the server, which may have a query.
        key: Secret,
        /// The generation that is replaced; `None` if there must be no entry.
        expected: Option<Generation>,
        /// The new entry; `None` removes the entry.
        credentials: Option<Box<Credentials>>,
    },
    /// Signs these claims and reports the JWT with [`handle_signed`](super::AuthClient::handle_signed).
    Sign {
        /// The id of the action.
        id: ActionId,
        /// The claims.
        claims: Claims,
    },
    /// Supplies a JWT and reports it with [`handle_assertion`](super::AuthClient::handle_assertion).
    Assertion {
        /// The id of the action.
        id: ActionId,
        /// The kind of the JWT.
        kind: AssertionKind,
        /// The issuer of the authorization server at which the client wants a token. It is the audience of the JWT of a
        /// workload.
        audience: String,
        /// The identifier of the resource.
        resource: Url,
    },
}

/// A JWT that the application supplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssertionKind {
    /// The JWT of the workload as which the client runs.
    Workload,
    /// The identity token that the identity provider of the user has issued to the client.
    Identity,
}

/// The claims of a JWT that the application signs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claims {
    /// An assertion with which the client authenticates, with the key that is registered for it (RFC 7523, section 3).
    Client(AssertionClaims),
    /// A proof of possession, with the key of [`Settings::dpop`](super::Settings::dpop).
    Proof(ProofClaims),
}

impl Claims {
    /// Returns the payload of the JWT.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Client(claims) => claims.to_json(),
            Self::Proof(claims) => claims.to_json(),
        }
    }
}

/// An HTTP request. Redirects are not followed, and at most
/// [`document::MAX_LEN`](crate::auth::document::MAX_LEN) bytes and one more of the response are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The id of the action.
    pub id: ActionId,
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The URL. Its host has to pass [`UrlPolicy::check_address`](crate::auth::UrlPolicy::check_address) after it was
    /// resolved.
    pub url: Url,
    /// The headers.
    pub headers: Vec<(&'static str, Secret)>,
    /// The body; empty for `GET`.
    pub body: Secret,
    /// Whether the URL comes from the [settings](super::Settings) and not from a document. Its addresses are not
    /// checked then.
    pub is_configured: bool,
}

/// An HTTP response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// The status.
    pub status: u16,
    /// The `Location` header.
    pub location: Option<&'a str>,
    /// The `DPoP-Nonce` header.
    pub dpop_nonce: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

impl fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The claims with which a client authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssertionClaims {
    /// `iss` and `sub`.
    pub client_id: String,
    /// `aud`: the issuer of the authorization server.
    pub audience: String,
    /// `jti`.
    pub id: String,
    /// `iat`, in seconds since 1970.
    pub issued_at: u64,
    /// `exp`, in seconds since 1970.
    pub expires_at: u64,
}

impl AssertionClaims {
    /// Returns the payload of the JWT.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Self { client_id, audience, id, issued_at, expires_at } = self;
        let claims: [(&str, Value); 6] = [
            ("iss", (&**client_id).into()),
            ("sub", (&**client_id).into()),
            ("aud", (&**audience).into()),
            ("jti", (&**id).into()),
            ("iat", (*issued_at).into()),
            ("exp", (*expires_at).into()),
        ];
        Value::Object(claims.map(|(name, value)| (name.into(), value)).into_iter().collect::<Map<_, _>>()).to_string()
    }
}
