//! The settings with which a client gets tokens.

use alloc::string::String;

use super::dpop::DpopKey;
use crate::auth::{
    client_identity::{ClientIdentity, ClientOptions},
    scope::Scopes,
    url::Url,
};

/// The settings with which a client gets tokens.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The identities of the client.
    pub identities: ClientOptions,
    /// The grant of the client. Default [`GrantType::ClientCredentials`].
    pub grant_type: GrantType,
    /// The scopes of an authorization whose challenge names none; `None` for those of the metadata.
    pub scopes: Option<Scopes>,
    /// Whether the client requests the scope `offline_access` if the authorization server has it. Default false.
    pub offline_access: bool,
    /// The most authorizations for more scopes that one request may cause. Default 3.
    pub step_ups: u32,
    /// The key to which tokens are bound (RFC 9449); `None` for bearer tokens only.
    pub dpop: Option<DpopKey>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            identities: ClientOptions::default(),
            grant_type: GrantType::default(),
            scopes: None,
            offline_access: false,
            step_ups: 3,
            dpop: None,
        }
    }
}

impl Settings {
    pub(super) const fn redirect_uri(&self) -> Option<&Url> {
        match &self.grant_type {
            GrantType::AuthorizationCode { redirect_uri } => Some(redirect_uri),
            _ => None,
        }
    }
}

/// The grant with which a client gets its first token. A refresh token is used after that, if there is one.
///
/// A client never changes to another grant after a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrantType {
    /// The consent of the user, in a browser.
    AuthorizationCode {
        /// The redirect URI: `https`, or `http` on a loopback host.
        redirect_uri: Url,
    },
    /// The credentials of the client.
    #[default]
    ClientCredentials,
    /// A JWT of the workload as which the client runs. The application supplies it (RFC 7523, section 2.1).
    JwtBearer,
    /// An identity assertion that the identity provider of an enterprise issues in exchange for the identity token of
    /// the user. The application supplies the identity token (enterprise-managed authorization; RFC 8693 and RFC 7523).
    IdentityAssertion(IdentityProvider),
}

/// The identity provider of an enterprise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityProvider {
    /// The token endpoint: `https`, or `http` on a loopback host, else the authorization fails. The
    /// [`UrlPolicy`](crate::auth::UrlPolicy) does not apply, because no document names this URL.
    pub token_endpoint: Url,
    /// The identity of the client at the provider. Its issuer is that of the provider.
    pub client: ClientIdentity,
    /// The type of the token that the application supplies.
    pub subject_type: String,
}

impl IdentityProvider {
    /// The type of an identity token of OpenID Connect (RFC 8693, section 3).
    pub const ID_TOKEN: &'static str = "urn:ietf:params:oauth:token-type:id_token";

    /// Describes a provider that exchanges identity tokens of OpenID Connect.
    #[must_use]
    pub fn new(token_endpoint: Url, client: ClientIdentity) -> Self {
        Self { token_endpoint, client, subject_type: Self::ID_TOKEN.into() }
    }
}
