// What the servers and clients have in common whose sizes are compared. The including program has the adapter as
// `crate::adapter`.

#[cfg(feature = "auth")]
pub(crate) mod server {
    use crate::adapter::http::{FetchClient, ResourceServer};

    const URL: &str = "https://mcp.example/mcp";
    const ISSUER: &str = "https://auth.example";

    /// Accepts JSON Web Tokens, also those that are bound to a key.
    #[cfg(feature = "jwt")]
    pub(crate) fn protection() -> ResourceServer {
        use crate::adapter::http::{Dpop, JwtVerifier, KeySource};
        let keys = KeySource::remote("https://auth.example/jwks", FetchClient::new()).expect("a URL");
        ResourceServer::new(URL, ISSUER, JwtVerifier::new(ISSUER, URL, keys)).expect("two URLs").dpop(Dpop::new())
    }

    /// Introspects tokens.
    #[cfg(not(feature = "jwt"))]
    pub(crate) fn protection() -> ResourceServer {
        use crate::adapter::http::{IntrospectionVerifier, auth::Secret};
        let (url, secret) = ("https://auth.example/introspect", Secret::new("secret"));
        let verifier = IntrospectionVerifier::new(url, (ISSUER, URL), ("id", &secret), FetchClient::new());
        ResourceServer::new(URL, ISSUER, verifier.expect("a URL")).expect("two URLs")
    }
}

#[cfg(feature = "auth")]
pub(crate) mod client {
    use std::io;

    use crate::adapter::http::{
        OAuth,
        auth::{FileTokenStore, Loopback, Registration, Settings},
    };

    /// A user with a browser, a file for tokens and, with the feature `signing`, a key to which these are bound.
    pub(crate) fn credentials(url: &str) -> io::Result<OAuth> {
        let mut settings = Settings::default();
        settings.identities.registration = Some(Registration::new("size", []));
        let builder = OAuth::builder(url)?.settings(settings).user_agent(Loopback::new()?);
        #[cfg(feature = "signing")]
        let builder = builder.proofs(crate::adapter::http::auth::ProofKey::generate().map_err(io::Error::other)?);
        builder.store(FileTokenStore::new("tokens.json")?).build()
    }
}
