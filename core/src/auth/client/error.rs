//! The reason why a client is not authorized.

use alloc::string::String;
use core::fmt;

use crate::auth::{
    authorization::{NotAuthorizable, RedirectError},
    client_identity::{NoIdentity, RegistrationError},
    discovery::NotFound,
    document::DocumentError,
    oauth_error::OAuthError,
    policy::UrlRefused,
    token::NotRequestable,
};

/// The reason why a client is not authorized.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthError {
    /// No metadata were found, for this reason. A temporary failure is one of the reasons.
    Discovery(NotFound<String>),
    /// A URL of this member of the metadata is not followed.
    Url(&'static str, UrlRefused),
    /// The client has no identity at the authorization server.
    Identity(NoIdentity),
    /// The client could not register.
    Registration(RegistrationError),
    /// No authorization request can be made.
    NotAuthorizable(NotAuthorizable),
    /// The client has neither a user nor credentials with which it authenticates.
    NotInteractive,
    /// The server or the client requires tokens that are bound to a key. The client has no key, or the authorization
    /// server does not support its algorithm.
    NotBound,
    /// The application has not supplied the assertion that the grant needs.
    NoAssertion,
    /// The identity provider does not exchange the token of the user.
    NotExchanged(OAuthError),
    /// The redirect ended the authorization: the authorization was denied, or the redirect has no code.
    Redirect(RedirectError),
    /// The user has cancelled the authorization.
    Cancelled,
    /// The authorization URL could not be opened, for this reason. For example, there is no browser.
    NotOpened(String),
    /// The redirect did not arrive in time.
    Expired,
    /// The servers of the authorization have not answered all requests in time.
    TimedOut,
    /// No token request could be made.
    NotRequestable(NotRequestable),
    /// The token endpoint refuses the request.
    Rejected(OAuthError),
    /// The token endpoint failed temporarily, with this status or without a response. The stored credentials stay.
    Unavailable(Option<u16>),
    /// The token endpoint responded with a status that is no success, and without an error code. The stored credentials
    /// stay.
    Status(u16),
    /// The response of the token endpoint is no token response.
    Invalid(DocumentError),
    /// The assertion of the client could not be signed.
    NotSigned,
    /// The stored credentials could not be loaded.
    NotLoaded,
    /// The stored credentials could not be removed. The client finds them when it is started again.
    NotRemoved,
    /// The client, or another process, has signed out since the request was sent or the flow began.
    SignedOut,
    /// The server refuses the request with the current token, and no other token is requested: this one is new, or the
    /// server has named no scopes to request.
    Refused,
    /// The server requires scopes that were not granted, or has required more scopes too often.
    Scopes,
}

impl AuthError {
    /// Returns whether the user, or the authorization server, has refused the authorization.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Cancelled => true,
            Self::Redirect(RedirectError::Denied(error)) => error.code == "access_denied",
            _ => false,
        }
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discovery(NotFound::Transient(reason)) => write!(f, "the metadata could not be requested: {reason}"),
            Self::Discovery(NotFound::Refused(reason)) => write!(f, "the metadata must not be used: {reason}"),
            Self::Discovery(NotFound::Missing(reasons)) => {
                f.write_str("there are no metadata")?;
                reasons.iter().try_for_each(|reason| write!(f, "; {reason}"))
            }
            Self::Url(name, refused) => write!(f, "`{name}`: {refused}"),
            Self::Identity(error) => error.fmt(f),
            Self::Registration(error) => error.fmt(f),
            Self::NotAuthorizable(error) => error.fmt(f),
            Self::NotInteractive => {
                f.write_str("the client has neither a user nor credentials with which it authenticates")
            }
            Self::NotBound => {
                f.write_str("tokens that are bound to a key are needed on one side and not known on the other")
            }
            Self::NoAssertion => f.write_str("the assertion for the grant was not supplied"),
            Self::NotExchanged(error) => write!(f, "the identity provider does not exchange the token: {error}"),
            Self::Redirect(error) => error.fmt(f),
            Self::Cancelled => f.write_str("the user has cancelled the authorization"),
            Self::NotOpened(reason) => write!(f, "the user could not be asked: {reason}"),
            Self::Expired => f.write_str("the authorization was not answered in time"),
            Self::TimedOut => f.write_str("the authorization took too long"),
            Self::NotRequestable(error) => error.fmt(f),
            Self::Rejected(error) => write!(f, "the authorization server refuses a token: {error}"),
            Self::Unavailable(Some(status)) | Self::Status(status) => {
                write!(f, "the token endpoint answered with status {status}")
            }
            Self::Unavailable(None) => f.write_str("the token endpoint did not answer"),
            Self::Invalid(error) => write!(f, "the response of the token endpoint: {error}"),
            Self::NotSigned => f.write_str("the assertion of the client could not be signed"),
            Self::NotLoaded => f.write_str("the stored credentials could not be loaded"),
            Self::NotRemoved => f.write_str("the stored credentials could not be removed"),
            Self::SignedOut => f.write_str("the client or another process has signed out"),
            Self::Refused => f.write_str("the server refuses the request with the current token"),
            Self::Scopes => f.write_str("the server wants scopes that were not granted"),
        }
    }
}

impl core::error::Error for AuthError {}
