//! OAuth for clients over HTTP: performs the actions of the state machine of
//! [`mcp_proto::auth`].
//!
//! [`OAuth`] provides the credentials of a client. It is built from [`Settings`], the store of the tokens
//! ([`TokenStore`]), and the user agent ([`UserAgent`]), if there is a user:
//!
//! - [`Loopback`] opens a browser and listens for the redirect on this machine. [`Headless`] is a function.
//! - [`MemoryTokenStore`] keeps the tokens until the process ends, [`FileTokenStore`] keeps them in a file, on Unix
//!   only: access to a file of Windows is a list, which the standard library cannot read.
//! - A client that authenticates with `private_key_jwt` has an [`AssertionSigner`], and one whose tokens are bound to a
//!   key (DPoP) has a [`ProofSigner`]. With the feature `signing` these are `SigningKey` and `ProofKey`.
//!
//! # Network
//!
//! The requests of an authorization go to any origin that the metadata name. The client checks each address that comes
//! from a document with [`UrlPolicy`] before it connects. So these requests do not use a proxy, which would resolve
//! names itself. The addresses of the token endpoint of an [`IdentityProvider`], a URL of the settings, are not
//! checked. If documents of the server name other hosts in a private network, [`OAuthBuilder::policy`] permits them.

mod browser;
mod drive;
mod loopback;
mod provider;
mod signer;
#[cfg(feature = "signing")]
mod signing;
mod store;
#[cfg(test)]
mod tests;
mod transport;
mod user_agent;

pub use browser::Browser;
pub use loopback::Loopback;
pub use mcp_proto::auth::{
    AuthMethod, ClientIdentity, ClientMetadata, ClientOptions, InvalidClientMetadata, Registration, Scopes, Secret,
    Url, UrlPolicy, UrlRefused,
    client::{
        AssertionClaims, AssertionKind, AuthError, Credentials, DpopKey, Generation, GrantType, IdentityProvider,
        ProofClaims, Request, Settings, StoreReply, StoredTokens,
    },
    document::MAX_LEN,
};
pub use provider::{OAuth, OAuthBuilder};
pub use signer::{AssertionRequest, AssertionSigner, ProofSigner};
#[cfg(feature = "signing")]
pub use signing::{KeyError, ProofKey, SigningKey};
#[cfg(unix)]
pub use store::file::FileTokenStore;
pub use store::{TokenStore, memory::MemoryTokenStore};
pub use transport::{AuthRuntime, AuthTransport};
pub use user_agent::{Headless, Redirected, Redirects, UserAgent};
