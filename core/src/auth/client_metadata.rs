//! The Client ID Metadata Document: the metadata of a client, at the URL that is its identifier.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde_json::{Map, Value};

use super::{
    auth_method::AuthMethod,
    policy::is_loopback,
    scope::Scopes,
    url::{Url, has_plain_path},
};

/// The Client ID Metadata Document of a client.
///
/// Its URL is the identifier of the client at authorization servers that fetch such documents. The application serves
/// [`to_json`](Self::to_json) at that URL, as `application/json`, and passes the same value to
/// [`ClientOptions`](super::ClientOptions::metadata), so that the client behaves as documented there.
///
/// See the specification, basic/authorization, Client ID Metadata Documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMetadata {
    url: Url,
    client_name: String,
    redirect_uris: Vec<Url>,
    client_uri: Option<Url>,
    logo_uri: Option<Url>,
    jwks_uri: Option<Url>,
    grant_types: Vec<String>,
    scopes: Scopes,
}

/// The reason why the metadata of a client are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidClientMetadata {
    /// The URL of the document is not `https`, has no path, or has one with `.` or `..`.
    Url,
    /// The client has no name, or one with control characters.
    ClientName,
    /// There are no redirect URIs, or one is neither `https` nor on a loopback host.
    RedirectUri,
    /// The URL of the keys is not `https`.
    Keys,
}

impl fmt::Display for InvalidClientMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url => "the URL of the client's metadata is not an https URL with a path",
            Self::ClientName => "the client has no name, or one that cannot be shown",
            Self::RedirectUri => "a redirect URI is needed, and each has to be https or on a loopback host",
            Self::Keys => "the URL of the client's keys is not https",
        })
    }
}

impl core::error::Error for InvalidClientMetadata {}

impl ClientMetadata {
    /// Describes a public client with the grants `authorization_code` and `refresh_token`. The document is at `url`.
    ///
    /// # Errors
    /// Returns the reason if authorization servers would refuse the metadata.
    pub fn new(
        url: Url,
        client_name: impl Into<String>,
        redirect_uris: impl Into<Vec<Url>>,
    ) -> Result<Self, InvalidClientMetadata> {
        let (client_name, redirect_uris) = (client_name.into(), redirect_uris.into());
        if !url.is_https() || matches!(url.path(), "" | "/") || !has_plain_path(&url) {
            return Err(InvalidClientMetadata::Url);
        }
        if client_name.trim().is_empty() || client_name.chars().any(char::is_control) {
            return Err(InvalidClientMetadata::ClientName);
        }
        if redirect_uris.is_empty() || !redirect_uris.iter().all(|uri| uri.is_https() || is_loopback(uri)) {
            return Err(InvalidClientMetadata::RedirectUri);
        }
        Ok(Self {
            url,
            client_name,
            redirect_uris,
            client_uri: None,
            logo_uri: None,
            jwks_uri: None,
            grant_types: ["authorization_code".into(), "refresh_token".into()].into(),
            scopes: Scopes::default(),
        })
    }

    /// Names a page about the client.
    #[must_use]
    pub fn client_uri(mut self, url: Url) -> Self {
        self.client_uri = Some(url);
        self
    }

    /// Names a picture of the client.
    #[must_use]
    pub fn logo_uri(mut self, url: Url) -> Self {
        self.logo_uri = Some(url);
        self
    }

    /// Sets the grants that the client uses.
    #[must_use]
    pub fn grant_types<T: Into<String>>(mut self, grant_types: impl IntoIterator<Item = T>) -> Self {
        self.grant_types = grant_types.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the scopes that the client may ask for.
    #[must_use]
    pub fn scopes(mut self, scopes: Scopes) -> Self {
        self.scopes = scopes;
        self
    }

    /// Lets the client authenticate with a key (`private_key_jwt`), whose public half is in the key set at `jwks_uri`.
    /// The application has to provide a signer with the key.
    ///
    /// # Errors
    /// If the URL is not `https`.
    pub fn keys_at(mut self, jwks_uri: Url) -> Result<Self, InvalidClientMetadata> {
        if !jwks_uri.is_https() {
            return Err(InvalidClientMetadata::Keys);
        }
        self.jwks_uri = Some(jwks_uri);
        Ok(self)
    }

    /// Returns the URL of the document, which is the identifier of the client.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the method with which the client authenticates: with its key, or `none`. The client has no secret,
    /// because the document is public.
    #[must_use]
    pub const fn auth_method(&self) -> AuthMethod {
        if self.jwks_uri.is_some() { AuthMethod::PrivateKeyJwt } else { AuthMethod::None }
    }

    /// Returns whether servers may send users back to this URI. The port of a loopback host is not compared (RFC 8252,
    /// section 7.3).
    #[must_use]
    pub fn has_redirect_uri(&self, uri: &Url) -> bool {
        let same =
            |known: &Url| (known.is_https(), known.path(), known.query()) == (uri.is_https(), uri.path(), uri.query());
        let is_it = |known: &Url| {
            let is_other_port = is_loopback(known) && known.host().eq_ignore_ascii_case(uri.host()) && same(known);
            known == uri || is_other_port
        };
        self.redirect_uris.iter().any(is_it)
    }

    /// Returns the document, a JSON object. Its `client_id` is the URL, byte for byte.
    #[must_use]
    pub fn to_json(&self) -> String {
        let texts = |texts: &mut dyn Iterator<Item = &str>| Value::Array(texts.map(Value::from).collect());
        let mut document = Map::new();
        let mut put = |name: &str, value: Value| drop(document.insert(name.into(), value));
        put("client_id", self.url.as_str().into());
        put("client_name", (&*self.client_name).into());
        put("redirect_uris", texts(&mut self.redirect_uris.iter().map(Url::as_str)));
        put("grant_types", texts(&mut self.grant_types.iter().map(|grant| &**grant)));
        if self.grant_types.iter().any(|grant| grant == "authorization_code") {
            put("response_types", texts(&mut ["code"].into_iter()));
        }
        put("token_endpoint_auth_method", self.auth_method().as_str().into());
        let urls = [("client_uri", &self.client_uri), ("logo_uri", &self.logo_uri), ("jwks_uri", &self.jwks_uri)];
        for (name, url) in urls {
            if let Some(url) = url {
                put(name, url.as_str().into());
            }
        }
        if !self.scopes.is_empty() {
            put("scope", self.scopes.to_string().into());
        }
        Value::Object(document).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::{
        client_identity::{ClientIdentity, ClientOptions, IdentityChoice, NoIdentity},
        metadata::AuthorizationServer,
    };

    const DOCUMENT: &str = "https://client.example/mcp/client.json";
    const REDIRECT: &str = "http://127.0.0.1/callback";

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn metadata(document: &str) -> Result<ClientMetadata, InvalidClientMetadata> {
        ClientMetadata::new(url(document), "Client", [url(REDIRECT), url("https://client.example/callback")])
    }

    fn read(metadata: &ClientMetadata) -> Value {
        serde_json::from_str(&metadata.to_json()).expect("JSON")
    }

    fn chosen(metadata: &ClientMetadata, redirect_uri: Option<&str>) -> Result<ClientIdentity, NoIdentity> {
        let body = json!({"issuer": "https://as.example", "token_endpoint": "https://as.example/token",
            "client_id_metadata_document_supported": true});
        let server = AuthorizationServer::parse(body.to_string().as_bytes(), "https://as.example").expect("metadata");
        let options = ClientOptions { metadata: Some(metadata.clone()), ..ClientOptions::default() };
        let redirect_uri = redirect_uri.map(url);
        options.choose(&server, None, redirect_uri.as_ref(), 0).map(|choice| match choice {
            IdentityChoice::Known(identity) => identity,
            IdentityChoice::Register(url) => panic!("it registers at {url:?}"),
        })
    }

    // req: AUTH-045 AUTH-046 AUTH-047 M-AUTH-018
    #[test]
    fn the_document_and_the_client_have_the_same_identifier() {
        let plain = metadata(DOCUMENT).expect("a description");
        assert_eq!(
            read(&plain),
            json!({
                "client_id": DOCUMENT, "client_name": "Client",
                "redirect_uris": [REDIRECT, "https://client.example/callback"],
                "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            })
        );
        // What is equal to a server that normalizes is not equal byte for byte.
        for document in [DOCUMENT, "https://CLIENT.example:443/a%7Eb", "https://client.example/a/?b=c"] {
            let metadata = metadata(document).expect(document);
            assert_eq!(read(&metadata)["client_id"], document);
            let identity = chosen(&metadata, None).expect("an identity");
            assert_eq!((&*identity.client_id, identity.auth_method), (document, Some(AuthMethod::None)));
            assert_eq!(metadata.url().as_str(), document);
        }
    }

    #[test]
    fn a_document_can_say_more() {
        let full = metadata(DOCUMENT).expect("a description").client_uri(url("https://client.example/"));
        let full = full.logo_uri(url("https://client.example/logo.png")).scopes(Scopes::parse("a b").expect("scopes"));
        let full = full.grant_types(["client_credentials"]).keys_at(url("https://client.example/keys")).expect("https");
        let document = read(&full);
        for (name, value) in [
            ("client_uri", json!("https://client.example/")),
            ("logo_uri", json!("https://client.example/logo.png")),
            ("scope", json!("a b")),
            ("grant_types", json!(["client_credentials"])),
            ("response_types", Value::Null),
            ("jwks_uri", json!("https://client.example/keys")),
            ("token_endpoint_auth_method", json!("private_key_jwt")),
        ] {
            assert_eq!(document[name], value, "{name}");
        }
        // The client authenticates as the document says.
        assert_eq!(chosen(&full, None).expect("an identity").auth_method, Some(AuthMethod::PrivateKeyJwt));
    }

    // req: AUTH-045 M-AUTH-018 M-AUTH-048
    #[test]
    fn what_servers_would_not_take_is_refused() {
        for document in [
            "https://c.example",
            "https://c.example/",
            "https://c.example?a",
            "http://c.example/client",
            "http://127.0.0.1/client",
            "https://c.example/a/../client",
            "https://c.example/./client",
            "https://c.example/%2E%2e/client",
        ] {
            assert_eq!(metadata(document), Err(InvalidClientMetadata::Url), "{document}");
        }
        let named = |name: &str| ClientMetadata::new(url(DOCUMENT), name, [url(REDIRECT)]);
        for name in ["", " ", "a\nb"] {
            assert_eq!(named(name), Err(InvalidClientMetadata::ClientName), "{name:?}");
        }
        for uris in [&[][..], &["http://c.example/callback"], &[REDIRECT, "http://10.0.0.1/"]] {
            let uris: Vec<_> = uris.iter().map(|uri| url(uri)).collect();
            let made = ClientMetadata::new(url(DOCUMENT), "Client", uris.clone());
            assert_eq!(made, Err(InvalidClientMetadata::RedirectUri), "{uris:?}");
        }
        let keys = metadata(DOCUMENT).expect("a description").keys_at(url("http://127.0.0.1/keys"));
        assert_eq!(keys, Err(InvalidClientMetadata::Keys));
    }

    #[test]
    fn users_are_sent_back_to_what_the_document_names() {
        let metadata = metadata(DOCUMENT).expect("a description");
        for (uri, is_named) in [
            (REDIRECT, true),
            ("http://127.0.0.1:7777/callback", true),
            ("https://client.example/callback", true),
            ("https://client.example:444/callback", false),
            ("http://localhost:7777/callback", false),
            ("https://127.0.0.1:7777/callback", false),
            ("http://127.0.0.1:7777/", false),
            ("http://127.0.0.1:7777/callback?a", false),
            ("https://evil.example/callback", false),
        ] {
            assert_eq!(metadata.has_redirect_uri(&url(uri)), is_named, "{uri}");
            let expected = if is_named { Ok(()) } else { Err(NoIdentity::RedirectUri) };
            assert_eq!(chosen(&metadata, Some(uri)).map(drop), expected, "{uri}");
        }
    }
}
