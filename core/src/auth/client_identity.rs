//! The identity of a client at an authorization server: registered beforehand, described by a document, or registered
//! there.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde_json::{Map, Value};

use super::{
    auth_method::AuthMethod,
    client_metadata::ClientMetadata,
    document::{Document, DocumentError},
    metadata::AuthorizationServer,
    oauth_error::OAuthError,
    policy::is_loopback,
    scope::Scopes,
    secret::Secret,
    url::Url,
};

/// Returns the method with which a client registers: the first of `none`, `client_secret_post` and
/// `client_secret_basic` that the server supports.
fn to_register(server: &AuthorizationServer) -> Option<AuthMethod> {
    let is_offered = |method: &AuthMethod| server.has_auth_method(*method);
    [AuthMethod::None, AuthMethod::ClientSecretPost, AuthMethod::ClientSecretBasic].into_iter().find(is_offered)
}

/// Returns the method for a client with a secret.
fn with_secret(server: &AuthorizationServer) -> Option<AuthMethod> {
    let is_offered = |method: &AuthMethod| server.has_auth_method(*method);
    [AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost].into_iter().find(is_offered)
}

/// The identity of a client at one authorization server.
///
/// It is bound to the issuer: [`ClientOptions::choose`] never returns it for another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The issuer that knows the client, byte for byte.
    pub issuer: String,
    /// The identifier of the client.
    pub client_id: String,
    /// The secret of a confidential client.
    pub secret: Option<Secret>,
    /// When the secret expires, in seconds since 1970; `None` if it does not.
    pub secret_expires_at: Option<u64>,
    /// The registered redirect URIs; empty if they are not known.
    pub redirect_uris: Vec<Url>,
    /// The method with which the client authenticates. `None` lets [`ClientOptions::choose`] decide by the metadata of
    /// the server.
    pub auth_method: Option<AuthMethod>,
}

impl ClientIdentity {
    /// Returns whether the secret is expired at `unix_seconds`.
    #[must_use]
    pub fn is_expired(&self, unix_seconds: u64) -> bool {
        self.secret_expires_at.is_some_and(|end| end <= unix_seconds)
    }

    /// Returns whether the client has registered itself.
    pub(super) fn is_dynamic(&self, options: &ClientOptions) -> bool {
        let is_document = options.metadata.as_ref().is_some_and(|it| it.url().as_str() == self.client_id);
        options.pre_registered(self).is_none() && !is_document
    }

    /// Returns the method with which the client authenticates at this server.
    fn method_at(&self, server: &AuthorizationServer) -> Result<AuthMethod, NoIdentity> {
        match (self.auth_method, &self.secret) {
            (Some(method), _) => Ok(method),
            (None, None) => Ok(AuthMethod::None),
            (None, Some(_)) => with_secret(server).ok_or(NoIdentity::AuthMethod),
        }
    }
}

/// The identities that a client has or can get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// Identities that the operators of authorization servers have given out. If there are some, no other kind is used:
    /// a server whose issuer is not among them is an error.
    pub pre_registered: Vec<ClientIdentity>,
    /// The metadata document of the client. Its URL is the identifier of the client at servers that fetch it.
    pub metadata: Option<ClientMetadata>,
    /// The metadata with which the client registers (RFC 7591); `None` if it does not register.
    pub registration: Option<Registration>,
}

/// The way in which a client gets its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdentityChoice {
    /// The client has an identity.
    Known(ClientIdentity),
    /// The client registers at this URL, with the body of [`Registration::body`].
    Register(Url),
}

/// The reason why a client has no identity at an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoIdentity {
    /// The pre-registered identities are those of other issuers.
    OtherIssuer,
    /// The server accepts none of the kinds of identities that the client has.
    NotSupported,
    /// The server offers no authentication that is possible with the secret of the client.
    AuthMethod,
    /// The redirect URI is not one of those with which the client registers, or of its metadata document.
    RedirectUri,
}

impl fmt::Display for NoIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherIssuer => "the client is registered at another authorization server",
            Self::NotSupported => "the client has no identity that the authorization server takes; register it there",
            Self::AuthMethod => "the authorization server offers no authentication with a client secret",
            Self::RedirectUri => "the redirect URI is not one of those that the client names to servers",
        })
    }
}

impl core::error::Error for NoIdentity {}

impl ClientOptions {
    /// Returns the pre-registered identity with this issuer and identifier.
    fn pre_registered(&self, client: &ClientIdentity) -> Option<&ClientIdentity> {
        self.pre_registered.iter().find(|it| it.issuer == client.issuer && it.client_id == client.client_id)
    }

    /// Returns whether a stored identity is one that these options allow, and is complete: the secret of a
    /// pre-registered client is not stored.
    pub(super) fn has(&self, client: &ClientIdentity) -> bool {
        let is_allowed = self.pre_registered.is_empty() || self.pre_registered(client).is_some();
        let needs_secret =
            matches!(client.auth_method, Some(AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost));
        is_allowed && (!needs_secret || self.current(client).secret.is_some())
    }

    /// Returns the identity as it is now: that of the options, if it is pre-registered.
    pub(super) fn current(&self, client: &ClientIdentity) -> ClientIdentity {
        let known = self.pre_registered(client).filter(|it| it.secret.is_some() || it.auth_method.is_some());
        known.map_or_else(
            || client.clone(),
            |it| ClientIdentity { auth_method: it.auth_method.or(client.auth_method), ..it.clone() },
        )
    }

    /// Chooses the identity at an authorization server, in the order of the specification: pre-registered, metadata
    /// document, dynamic registration. `stored` is the result of an earlier registration. It is ignored if it belongs
    /// to another issuer, has expired, or was registered with other redirect URIs than `redirect_uri`.
    ///
    /// See the specification, basic/authorization, Client Registration Approaches.
    ///
    /// # Errors
    /// Returns the reason if there is no identity.
    pub fn choose(
        &self,
        server: &AuthorizationServer,
        stored: Option<&ClientIdentity>,
        redirect_uri: Option<&Url>,
        unix_seconds: u64,
    ) -> Result<IdentityChoice, NoIdentity> {
        let is_of_server = |identity: &&ClientIdentity| identity.issuer == server.issuer;
        if !self.pre_registered.is_empty() {
            let identity = self.pre_registered.iter().find(is_of_server).ok_or(NoIdentity::OtherIssuer)?;
            let auth_method = Some(identity.method_at(server)?);
            return Ok(IdentityChoice::Known(ClientIdentity { auth_method, ..identity.clone() }));
        }
        if let Some(document) = self.metadata.as_ref().filter(|_| server.takes_metadata_documents) {
            if redirect_uri.is_some_and(|uri| !document.has_redirect_uri(uri)) {
                return Err(NoIdentity::RedirectUri);
            }
            return Ok(IdentityChoice::Known(ClientIdentity {
                issuer: server.issuer.clone(),
                client_id: document.url().as_str().into(),
                secret: None,
                secret_expires_at: None,
                redirect_uris: Vec::new(),
                auth_method: Some(document.auth_method()),
            }));
        }
        let is_usable = |it: &&ClientIdentity| {
            let has_uri = |uri: &Url| it.redirect_uris.is_empty() || it.redirect_uris.contains(uri);
            !it.is_expired(unix_seconds) && redirect_uri.is_none_or(has_uri)
        };
        if let Some(known) = stored.filter(is_of_server).filter(is_usable) {
            let auth_method = Some(known.method_at(server)?);
            return Ok(IdentityChoice::Known(ClientIdentity { auth_method, ..known.clone() }));
        }
        match (&self.registration, &server.registration_endpoint) {
            (Some(registration), _) if redirect_uri.is_some_and(|uri| !registration.redirect_uris.contains(uri)) => {
                Err(NoIdentity::RedirectUri)
            }
            (Some(_), Some(url)) => Ok(IdentityChoice::Register(url.clone())),
            _ => Err(NoIdentity::NotSupported),
        }
    }
}

/// The metadata with which a client registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The name that users see.
    pub client_name: String,
    /// The redirect URIs; at least one.
    pub redirect_uris: Vec<Url>,
    /// A page about the client.
    pub client_uri: Option<Url>,
    /// Whether users run the client on their own machine. `None` decides by the redirect URIs: a client is native if
    /// all of them are on loopback hosts.
    pub is_native: Option<bool>,
    /// The grants that the client uses.
    pub grant_types: Vec<String>,
}

impl Registration {
    /// Describes a client with the grants `authorization_code` and `refresh_token`.
    #[must_use]
    pub fn new(client_name: impl Into<String>, redirect_uris: impl Into<Vec<Url>>) -> Self {
        Self {
            client_name: client_name.into(),
            redirect_uris: redirect_uris.into(),
            client_uri: None,
            is_native: None,
            grant_types: ["authorization_code".into(), "refresh_token".into()].into(),
        }
    }

    /// Returns the body of a registration request, a JSON object. `scopes` are the scopes that the client is going to
    /// request.
    ///
    /// See RFC 7591, section 2.
    #[must_use]
    pub fn body(&self, server: &AuthorizationServer, scopes: &Scopes) -> String {
        let texts = |texts: &mut dyn Iterator<Item = &str>| Value::Array(texts.map(Value::from).collect());
        let is_native = self.is_native.unwrap_or_else(|| self.redirect_uris.iter().all(is_loopback));
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| drop(body.insert(name.into(), value));
        put("client_name", (&*self.client_name).into());
        put("redirect_uris", texts(&mut self.redirect_uris.iter().map(Url::as_str)));
        put("grant_types", texts(&mut self.grant_types.iter().map(|grant| &**grant)));
        put("response_types", texts(&mut ["code"].into_iter()));
        put("application_type", if is_native { "native" } else { "web" }.into());
        put("token_endpoint_auth_method", to_register(server).unwrap_or(AuthMethod::None).as_str().into());
        if let Some(uri) = &self.client_uri {
            put("client_uri", uri.as_str().into());
        }
        if !scopes.is_empty() {
            put("scope", scopes.to_string().into());
        }
        Value::Object(body).to_string()
    }
}

/// The reason why a registration has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The server refuses the registration, for example because of its redirect URIs.
    Rejected(OAuthError),
    /// The response has this status and no error code. 408, 429 and 500 to 599 may be temporary.
    Status(u16),
    /// There is no response. This may be temporary.
    NoResponse,
    /// The response does not conform to RFC 7591.
    Document(DocumentError),
    /// The server requires an authentication method that this crate does not know.
    AuthMethod,
}

impl fmt::Display for RegistrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(error) => write!(f, "the authorization server refuses to register the client: {error}"),
            Self::Status(status) => write!(f, "the registration was answered with status {status}"),
            Self::NoResponse => f.write_str("the registration was not answered"),
            Self::Document(error) => write!(f, "the response to the registration: {error}"),
            Self::AuthMethod => f.write_str("the client was registered with an unknown way to authenticate"),
        }
    }
}

impl core::error::Error for RegistrationError {}

impl ClientIdentity {
    /// Reads the response to a registration at the server with this issuer.
    ///
    /// Any status from 200 to 299 is a success. An empty secret counts as none. The authentication method is that of
    /// the response. The default is `client_secret_basic` with a secret, and `none` without a secret.
    ///
    /// # Errors
    /// Returns the reason if the client is not registered.
    pub fn from_registration(issuer: &str, status: u16, body: &[u8]) -> Result<Self, RegistrationError> {
        let document = Document::parse(body);
        if let Some(error) = document.as_ref().ok().and_then(OAuthError::of) {
            return Err(RegistrationError::Rejected(error));
        }
        if !(200..300).contains(&status) {
            return Err(RegistrationError::Status(status));
        }
        let client = document.and_then(|document| Self::of(issuer, &document));
        client.map_err(RegistrationError::Document)?.ok_or(RegistrationError::AuthMethod)
    }

    /// Reads a registered client; `None` if its authentication method is unknown.
    fn of(issuer: &str, document: &Document) -> Result<Option<Self>, DocumentError> {
        let [client_id, secret, expires, method] = document.members([
            "client_id",
            "client_secret",
            "client_secret_expires_at",
            "token_endpoint_auth_method",
        ])?;
        let (client_id, secret) = (client_id.needed_text()?, secret.text()?);
        // RFC 6749, appendix A.1 and A.2: no control characters.
        let is_printable = |text: &str| !text.chars().any(char::is_control);
        if !is_printable(&client_id) {
            return Err(DocumentError::Invalid("client_id"));
        }
        if secret.as_deref().is_some_and(|secret| !is_printable(secret)) {
            return Err(DocumentError::Invalid("client_secret"));
        }
        let secret = secret.map(Secret::new);
        let method = match method.text()? {
            Some(name) => AuthMethod::parse(&name),
            None if secret.is_some() => Some(AuthMethod::ClientSecretBasic),
            None => Some(AuthMethod::None),
        };
        let needs_secret = matches!(method, Some(AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost));
        if needs_secret && secret.is_none() {
            return Err(DocumentError::Missing("client_secret"));
        }
        let secret_expires_at = expires.seconds()?.filter(|end| *end > 0 && secret.is_some());
        let issuer = issuer.into();
        let redirect_uris = Vec::new();
        Ok(method.map(|method| Self {
            issuer,
            client_id,
            secret,
            secret_expires_at,
            redirect_uris,
            auth_method: Some(method),
        }))
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec};

    use serde_json::json;

    use super::*;

    const ISSUER: &str = "https://as.example";

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn server(members: &Value) -> AuthorizationServer {
        let mut body = json!({"issuer": ISSUER, "token_endpoint": "https://as.example/token"});
        for (name, value) in members.as_object().expect("an object") {
            body[name] = value.clone();
        }
        AuthorizationServer::parse(body.to_string().as_bytes(), ISSUER).expect("metadata")
    }

    fn identity(issuer: &str, id: &str) -> ClientIdentity {
        ClientIdentity {
            issuer: issuer.into(),
            client_id: id.into(),
            secret: None,
            secret_expires_at: None,
            redirect_uris: Vec::new(),
            auth_method: None,
        }
    }

    fn registration() -> Registration {
        Registration::new("Client", [url("http://127.0.0.1:7777/callback")])
    }

    /// Returns the identifier that is chosen, or `register`.
    fn chosen(choice: Result<IdentityChoice, NoIdentity>) -> Result<String, NoIdentity> {
        choice.map(|choice| match choice {
            IdentityChoice::Known(identity) => identity.client_id,
            IdentityChoice::Register(url) => format!("register at {}", url.as_str()),
        })
    }

    // req: M-AUTH-012 M-AUTH-014 M-AUTH-015 M-AUTH-016 M-AUTH-017
    #[test]
    fn identities_are_chosen_in_order() {
        let document = "https://client.example/metadata.json";
        let all =
            json!({"client_id_metadata_document_supported": true, "registration_endpoint": "https://as.example/r"});
        let register = json!({"registration_endpoint": "https://as.example/r"});
        let options = |known: &[&str], has_document: bool, registers: bool| ClientOptions {
            pre_registered: known.iter().map(|issuer| identity(issuer, "known")).collect(),
            metadata: has_document.then(|| {
                let uris = [url("http://127.0.0.1/callback")];
                ClientMetadata::new(url(document), "Client", uris).expect("a description")
            }),
            registration: registers.then(registration),
        };
        let stored = identity(ISSUER, "stored");
        let other = identity("https://as.example/", "other");
        let expired =
            ClientIdentity { secret: Some("x".to_string().into()), secret_expires_at: Some(100), ..stored.clone() };
        for (options, members, stored, expected) in [
            (options(&[ISSUER], true, true), &all, Some(&stored), Ok("known")),
            (options(&["https://b.example", ISSUER], true, true), &all, None, Ok("known")),
            (options(&["https://b.example"], true, true), &all, Some(&stored), Err(NoIdentity::OtherIssuer)),
            (options(&[], true, true), &all, Some(&stored), Ok(document)),
            (options(&[], true, true), &register, Some(&stored), Ok("stored")),
            (options(&[], true, true), &register, Some(&other), Ok("register at https://as.example/r")),
            (options(&[], true, true), &register, Some(&expired), Ok("register at https://as.example/r")),
            (options(&[], true, false), &register, None, Err(NoIdentity::NotSupported)),
            (options(&[], true, true), &json!({}), None, Err(NoIdentity::NotSupported)),
            (options(&[], false, true), &json!({}), Some(&stored), Ok("stored")),
        ] {
            let result = chosen(options.choose(&server(members), stored, None, 100));
            assert_eq!(result, expected.map(String::from), "{options:?} {members}");
        }
    }

    #[test]
    fn secret_uses_a_method_of_the_server() {
        let secret = ClientIdentity { secret: Some("x".to_string().into()), ..identity(ISSUER, "a") };
        for (methods, expected) in [
            (json!(["client_secret_post", "client_secret_basic"]), Ok(AuthMethod::ClientSecretBasic)),
            (json!(["client_secret_post", "none"]), Ok(AuthMethod::ClientSecretPost)),
            (json!(null), Ok(AuthMethod::ClientSecretBasic)),
            (json!(["none", "private_key_jwt"]), Err(NoIdentity::AuthMethod)),
        ] {
            let server = server(&json!({"token_endpoint_auth_methods_supported": methods}));
            assert_eq!(secret.method_at(&server), expected, "{methods}");
        }
    }

    // req: M-AUTH-019
    #[test]
    fn registration_body_describes_the_client() {
        let server = server(&json!({"token_endpoint_auth_methods_supported": ["client_secret_post", "none"]}));
        let body = |registration: &Registration| -> Value {
            let scopes = Scopes::parse("a b").expect("scopes");
            serde_json::from_str(&registration.body(&server, &scopes)).expect("JSON")
        };
        let native = registration();
        assert_eq!(
            body(&native),
            json!({
                "client_name": "Client", "redirect_uris": ["http://127.0.0.1:7777/callback"],
                "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
                "application_type": "native", "token_endpoint_auth_method": "none", "scope": "a b",
            })
        );
        let web = Registration { redirect_uris: vec![url("https://c.example/callback")], ..native };
        assert_eq!(body(&web)["application_type"], "web");
        assert_eq!(body(&Registration { is_native: Some(true), ..web })["application_type"], "native");
    }

    // req: M-AUTH-020
    #[test]
    fn parses_registration_responses() {
        let rejected =
            |code: &str| Err(RegistrationError::Rejected(OAuthError { code: code.into(), description: None }));
        let missing = |name| Err(RegistrationError::Document(DocumentError::Missing(name)));
        for (status, body, expected) in [
            (201, r#"{"client_id":"a"}"#, Ok((None, AuthMethod::None, None))),
            (200, r#"{"client_id":"a","client_secret":""}"#, Ok((None, AuthMethod::None, None))),
            (
                201,
                r#"{"client_id":"a","client_secret":"s","client_secret_expires_at":0}"#,
                Ok((Some("s"), AuthMethod::ClientSecretBasic, None)),
            ),
            (
                201,
                r#"{"client_id":"a","client_secret":"s","client_secret_expires_at":9,"token_endpoint_auth_method":"client_secret_post"}"#,
                Ok((Some("s"), AuthMethod::ClientSecretPost, Some(9))),
            ),
            (
                201,
                r#"{"client_id":"a","client_secret":"s","token_endpoint_auth_method":"none"}"#,
                Ok((Some("s"), AuthMethod::None, None)),
            ),
            (201, r#"{"client_id":"a","token_endpoint_auth_method":"client_secret_basic"}"#, missing("client_secret")),
            (201, r#"{"client_id":"a","token_endpoint_auth_method":"tls"}"#, Err(RegistrationError::AuthMethod)),
            (201, "{}", missing("client_id")),
            (201, "<html>", Err(RegistrationError::Document(DocumentError::NotAnObject))),
            (400, r#"{"error":"invalid_redirect_uri"}"#, rejected("invalid_redirect_uri")),
            (200, r#"{"error":"invalid_client_metadata","client_id":"a"}"#, rejected("invalid_client_metadata")),
            (403, "", Err(RegistrationError::Status(403))),
            (503, r#"{"client_id":"a"}"#, Err(RegistrationError::Status(503))),
        ] {
            let identity = ClientIdentity::from_registration(ISSUER, status, body.as_bytes());
            let found = identity.as_ref().map(|it| {
                assert_eq!((&*it.issuer, &*it.client_id), (ISSUER, "a"));
                (it.secret.as_ref().map(Secret::expose), it.auth_method.expect("a method"), it.secret_expires_at)
            });
            assert_eq!(found.map_err(Clone::clone), expected, "{status} {body}");
        }
    }
}
