//! Authorization with OAuth 2.1 for clients and servers, without I/O.
//!
//! A server over HTTP that requires a token responds with 401 and one or more [`Challenge`]s. The client finds the
//! metadata of the server and of its authorization server at the candidates of [`discovery`], reads them as
//! [`metadata`], has a client identity ([`ClientOptions`]), sends the user to an authorization URL and reads the
//! redirect that comes back ([`Authorization`]), and exchanges the code for a token ([`TokenRequest`], [`TokenReply`]).
//! Each of these is a pure function or a value: the application performs the HTTP requests, opens the browser, draws
//! the random bytes and keeps the tokens.
//!
//! A protected server reads the token of each request with [`bearer_token`], publishes its [`ResourceMetadata`], and
//! responds with the challenges of that type. Tokens that are bound to a key come with a proof, which [`dpop`] checks.
//!
//! Everything that arrives is untrusted. Documents have [limits](document), URLs in them pass a [`UrlPolicy`], and
//! secrets are [`Secret`]s, which are never printed.
//!
//! See the specification, basic/authorization; RFC 6750, 7591, 7636, 8414, 8707, 9110, 9207, 9449, 9728.

mod auth_method;
mod authorization;
mod bearer;
mod challenge;
pub mod client;
mod client_identity;
mod client_metadata;
pub mod discovery;
pub mod document;
pub mod dpop;
pub mod metadata;
mod oauth_error;
mod pkce;
mod policy;
mod resource_metadata;
mod scope;
mod secret;
#[cfg(test)]
mod tests;
mod token;
mod url;

pub use auth_method::AuthMethod;
pub use authorization::{
    Authorization, AuthorizationCode, AuthorizationRequest, AuthorizationSeed, NotAuthorizable, RedirectError,
};
pub use bearer::{BearerError, MAX_TOKEN, TokenScheme, access_token, bearer_token};
pub use challenge::Challenge;
pub use client::AuthClient;
pub use client_identity::{ClientIdentity, ClientOptions, IdentityChoice, NoIdentity, Registration, RegistrationError};
pub use client_metadata::{ClientMetadata, InvalidClientMetadata};
pub use oauth_error::OAuthError;
pub use pkce::CodeVerifier;
pub use policy::{Network, UrlPolicy, UrlRefused};
pub use resource_metadata::ResourceMetadata;
pub use scope::Scopes;
pub use secret::Secret;
pub use token::{
    Grant, NotRequestable, RefreshToken, TokenReply, TokenRequest, TokenType, Tokens, basic_credentials, form_encode,
};
pub use url::{Url, UrlError, canonical, covers};
