//! The methods with which clients authenticate.

/// The method with which a client authenticates at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthMethod {
    /// A public client: the request has the identifier of the client and no authentication.
    None,
    /// The secret is in the `Authorization` header (RFC 6749, section 2.3.1).
    ClientSecretBasic,
    /// The secret is in the body.
    ClientSecretPost,
    /// A signed assertion is in the body (RFC 7523, section 2.2).
    PrivateKeyJwt,
}

impl AuthMethod {
    /// Returns the registered name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// Returns the method with this name; `None` if this crate does not know it.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost, Self::PrivateKeyJwt]
            .into_iter()
            .find(|method| method.as_str() == name)
    }
}
