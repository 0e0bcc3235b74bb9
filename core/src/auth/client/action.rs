//! What an authorization asks of the application, and what it is told.

use alloc::{boxed::Box, string::String, vec::Vec};

use super::credentials::{Credentials, Generation};
use crate::{
    auth::{secret::Secret, url::Url},
    rpc::Timestamp,
};

/// The time, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time of the state machine.
    pub instant: Timestamp,
    /// Seconds since 1970, for what outlives the process.
    pub unix_seconds: u64,
}

/// Identifies one HTTP request of an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(super) u64);

/// What the application does next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Sends an HTTP request and reports the response with [`handle_response`](super::AuthClient::handle_response).
    Request(Request),
    /// Opens this URL in a browser, never by way of a shell, and reports where it is redirected to with
    /// [`handle_redirect`](super::AuthClient::handle_redirect).
    OpenBrowser(Url),
    /// Loads what is stored under this key and reports it with [`handle_loaded`](super::AuthClient::handle_loaded).
    Load {
        /// The canonical URL of the server.
        key: String,
    },
    /// Replaces what is stored under this key if it still has the generation `expected`, and reports the result with
    /// [`handle_stored`](super::AuthClient::handle_stored).
    Store {
        /// The canonical URL of the server.
        key: String,
        /// The generation that is replaced; `None` if there must be nothing.
        expected: Option<Generation>,
        /// What is stored; `None` removes it.
        credentials: Option<Box<Credentials>>,
    },
    /// Signs these claims with the key of the client and reports the assertion with
    /// [`handle_signed`](super::AuthClient::handle_signed) (RFC 7523, section 3).
    Sign(AssertionClaims),
}

/// An HTTP request. Redirects are not followed, and at most
/// [`document::MAX_LEN`](crate::auth::document::MAX_LEN) bytes and one more of the response are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which request it is.
    pub id: RequestId,
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Where it goes. The host passes [`UrlPolicy::check_address`](crate::auth::UrlPolicy::check_address) after it is resolved.
    pub url: Url,
    /// The headers.
    pub headers: Vec<(&'static str, Secret)>,
    /// The body; empty for `GET`.
    pub body: Secret,
}

/// An HTTP response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The status.
    pub status: u16,
    /// The `Location` header.
    pub location: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
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
