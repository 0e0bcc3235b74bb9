//! The state of a flow: the action for which it waits.

use alloc::{boxed::Box, string::String, vec::Vec};

use super::{action::ActionId, credentials::Credentials, error::AuthError, search::Search};
use crate::auth::{
    authorization::{Authorization, AuthorizationCode},
    client_identity::ClientIdentity,
    discovery::NotFound,
    metadata::{AuthorizationServer, ProtectedResource},
    oauth_error::OAuthError,
    scope::Scopes,
    secret::Secret,
    url::Url,
};

/// The goal of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// To use the stored tokens.
    Use,
    /// To get a token with a refresh token; if that is refused and a request waits, with the grant of the settings.
    Refresh { may_ask: bool },
    /// To get a token with the grant of the settings.
    Authorize,
    /// To have no token.
    SignOut,
}

/// The state of a flow: the action for which it waits.
#[cfg_attr(test, derive(Clone))]
pub(super) enum Step {
    Idle,
    Loading(ActionId),
    Resource(ActionId, Search<ProtectedResource>),
    Server(ActionId, Search<AuthorizationServer>, Issuer),
    Registering(ActionId),
    Browser(Box<Authorization>),
    Asserting(ActionId),
    Signing(ActionId, Box<Pending>),
    Token(ActionId, Box<Pending>),
    Storing(ActionId, Option<Box<Credentials>>, After),
    SigningRevocation(ActionId),
    Revoking(ActionId),
    Removing(ActionId),
}

/// The continuation after credentials were stored.
#[cfg_attr(test, derive(Clone))]
pub(super) enum After {
    /// The flow ends with a token.
    Finish,
    /// The authorization of this client begins, which has just been registered.
    Ask(Box<ClientIdentity>),
    /// An authorization begins, without the refused tokens. If no request waits, the flow fails.
    Find(OAuthError),
    /// The flow fails, since the authorization server has forgotten the client, whose registration is removed.
    FailForgotten(AuthError),
}

/// The issuer of an authorization server.
#[cfg_attr(test, derive(Clone))]
pub(super) enum Issuer {
    Named {
        name: String,
        /// The issuers that are tried next, and the reason why the first one is not used.
        others: Vec<Url>,
        failed: Option<NotFound<String>>,
    },
    /// The server has no protected resource metadata: it is its own authorization server, as in 2025-03-26.
    Server,
}

/// A token request that waits for signatures, or for its response.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Pending {
    pub(super) kind: Kind,
    pub(super) client: ClientIdentity,
    pub(super) resource: Url,
    pub(super) scopes: Scopes,
    /// Whether the request has a proof of possession.
    pub(super) has_proof: bool,
    /// Whether this is the second attempt, with a nonce of the server.
    pub(super) is_repeated: bool,
    /// The signed parts: the assertion of the client, and the proof.
    pub(super) assertion: Option<Secret>,
    pub(super) proof: Option<Secret>,
}

#[cfg_attr(test, derive(Clone))]
pub(super) enum Kind {
    Code(AuthorizationCode),
    /// A refresh token, and the scopes that were granted with it.
    Refresh(Secret, Scopes),
    Client,
    /// An assertion of a workload or of an identity provider.
    Jwt(Secret),
    /// An identity token, which the identity provider exchanges for an assertion.
    Exchange(Secret),
}

impl Step {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Loading(_) => "loading",
            Self::Resource(..) => "finding the protected resource metadata",
            Self::Server(..) => "finding the authorization server metadata",
            Self::Registering(_) => "registering",
            Self::Browser(_) => "waiting for the redirect",
            Self::Asserting(_) => "waiting for an assertion",
            Self::Signing(..) | Self::SigningRevocation(_) => "signing",
            Self::Token(..) => "requesting a token",
            Self::Storing(..) => "storing",
            Self::Revoking(_) => "revoking",
            Self::Removing(_) => "removing",
        }
    }

    pub(super) const fn request(&self) -> Option<ActionId> {
        match self {
            Self::Resource(id, _)
            | Self::Server(id, ..)
            | Self::Registering(id)
            | Self::Token(id, _)
            | Self::Revoking(id) => Some(*id),
            _ => None,
        }
    }
}
