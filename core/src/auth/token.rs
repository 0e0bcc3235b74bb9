//! Requests to the token endpoint, and its responses (RFC 6749, sections 4 to 6; RFC 7009, 7523, 8693, 8707).

use alloc::{borrow::Cow, format, string::String, vec::Vec};
use core::{fmt, time::Duration};

use base64ct::{Base64, Encoding as _};
use form_urlencoded::{Serializer, byte_serialize, parse};

use super::{
    auth_method::AuthMethod,
    authorization::AuthorizationCode,
    client_identity::ClientIdentity,
    document::{self, Document, DocumentError},
    metadata::AuthorizationServer,
    oauth_error::OAuthError,
    scope::Scopes,
    secret::Secret,
    url::Url,
};

/// The type of an identity assertion for another authorization server.
pub(super) const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// The grant of a token request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Grant<'a> {
    /// The code of a redirect.
    Code(&'a AuthorizationCode),
    /// A refresh token.
    Refresh {
        /// The token.
        token: &'a Secret,
        /// The identifier of the resource.
        resource: &'a Url,
    },
    /// The credentials of the client.
    ClientCredentials {
        /// The identifier of the resource.
        resource: &'a Url,
        /// The scopes. An empty set omits the parameter.
        scopes: &'a Scopes,
    },
    /// An assertion of an identity provider or of a workload (RFC 7523, section 2.1).
    Assertion {
        /// The assertion, a JWT.
        assertion: &'a Secret,
        /// The identifier of the resource.
        resource: &'a Url,
        /// The scopes. An empty set omits the parameter.
        scopes: &'a Scopes,
    },
    /// An identity assertion for another authorization server, from the identity provider of an enterprise (RFC 8693).
    IdentityAssertion {
        /// The identity token or refresh token that the provider has issued.
        subject: &'a Secret,
        /// The type of that token, `urn:ietf:params:oauth:token-type:id_token` for example.
        subject_type: &'a str,
        /// The issuer of the other authorization server.
        audience: &'a str,
        /// The identifier of the resource.
        resource: &'a Url,
        /// The scopes. An empty set omits the parameter.
        scopes: &'a Scopes,
    },
}

impl Grant<'_> {
    /// Returns the name of the grant.
    #[must_use]
    pub const fn grant_type(&self) -> &'static str {
        match self {
            Self::Code(_) => "authorization_code",
            Self::Refresh { .. } => "refresh_token",
            Self::ClientCredentials { .. } => "client_credentials",
            Self::Assertion { .. } => "urn:ietf:params:oauth:grant-type:jwt-bearer",
            Self::IdentityAssertion { .. } => "urn:ietf:params:oauth:grant-type:token-exchange",
        }
    }
}

/// A POST to a token or revocation endpoint.
///
/// The content type is `application/x-www-form-urlencoded`, and `Accept` is `application/json`. Redirects are not
/// followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// The URL of the endpoint.
    pub url: Url,
    /// The value of the `Authorization` header, if there is one.
    pub authorization: Option<Secret>,
    /// The body.
    pub body: Secret,
}

/// The reason why no token request can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotRequestable {
    /// The client or the code belongs to another issuer.
    OtherIssuer,
    /// The client has no secret, which its authentication method needs.
    NoSecret,
    /// There is no signed assertion, which `private_key_jwt` needs.
    NoAssertion,
    /// The server has no revocation endpoint.
    NoEndpoint,
}

impl fmt::Display for NotRequestable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherIssuer => "the client or the code belongs to another authorization server",
            Self::NoSecret => "the client has no secret",
            Self::NoAssertion => "there is no signed assertion of the client",
            Self::NoEndpoint => "the authorization server has no revocation endpoint",
        })
    }
}

impl core::error::Error for NotRequestable {}

impl TokenRequest {
    /// Creates a token request. `assertion` is the signed assertion of a client that authenticates with
    /// `private_key_jwt`.
    ///
    /// # Errors
    /// Returns the reason if no request can be made. Credentials of one issuer are never sent to another.
    pub fn new(
        grant: &Grant<'_>,
        server: &AuthorizationServer,
        client: &ClientIdentity,
        assertion: Option<&Secret>,
    ) -> Result<Self, NotRequestable> {
        if matches!(grant, Grant::Code(code) if code.issuer != server.issuer) {
            return Err(NotRequestable::OtherIssuer);
        }
        let mut form = Form::new();
        form.put("grant_type", grant.grant_type());
        match grant {
            Grant::Code(code) => {
                form.put("code", code.code.expose());
                form.put("redirect_uri", code.redirect_uri.as_str());
                form.put("code_verifier", code.verifier.expose());
                form.put("resource", code.resource.as_str());
            }
            Grant::Refresh { token, resource } => {
                form.put("refresh_token", token.expose());
                form.put("resource", resource.as_str());
            }
            Grant::ClientCredentials { resource, scopes } => {
                form.put("resource", resource.as_str());
                form.put("scope", &format!("{scopes}"));
            }
            Grant::Assertion { assertion, resource, scopes } => {
                form.put("assertion", assertion.expose());
                form.put("resource", resource.as_str());
                form.put("scope", &format!("{scopes}"));
            }
            Grant::IdentityAssertion { subject, subject_type, audience, resource, scopes } => {
                form.put("requested_token_type", ID_JAG);
                form.put("subject_token", subject.expose());
                form.put("subject_token_type", subject_type);
                form.put("audience", audience);
                form.put("resource", resource.as_str());
                form.put("scope", &format!("{scopes}"));
            }
        }
        form.into_request(server.token_endpoint.clone(), server, client, assertion)
    }

    /// Creates a request to revoke a token (RFC 7009). `hint` is `refresh_token` or `access_token`.
    ///
    /// # Errors
    /// Returns the reason if no request can be made.
    pub fn revocation(
        token: &Secret,
        hint: &str,
        server: &AuthorizationServer,
        client: &ClientIdentity,
        assertion: Option<&Secret>,
    ) -> Result<Self, NotRequestable> {
        let url = server.revocation_endpoint.clone().ok_or(NotRequestable::NoEndpoint)?;
        let mut form = Form::new();
        form.put("token", token.expose());
        form.put("token_type_hint", hint);
        form.into_request(url, server, client, assertion)
    }
}

/// The form in the body of a request.
struct Form(Serializer<'static, String>);

impl Form {
    fn new() -> Self {
        Self(Serializer::new(String::new()))
    }

    /// Adds a parameter, if it has a value.
    fn put(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.0.append_pair(name, value);
        }
    }

    /// Adds the authentication of the client and returns the request.
    fn into_request(
        mut self,
        url: Url,
        server: &AuthorizationServer,
        client: &ClientIdentity,
        assertion: Option<&Secret>,
    ) -> Result<TokenRequest, NotRequestable> {
        if client.issuer != server.issuer {
            return Err(NotRequestable::OtherIssuer);
        }
        let secret = client.secret.as_ref();
        let method = client.auth_method.unwrap_or(match secret {
            Some(_) => AuthMethod::ClientSecretBasic,
            None => AuthMethod::None,
        });
        let mut authorization = None;
        match method {
            AuthMethod::None => self.put("client_id", &client.client_id),
            AuthMethod::ClientSecretBasic => {
                let secret = secret.ok_or(NotRequestable::NoSecret)?;
                authorization = Some(basic_credentials(&client.client_id, secret));
            }
            AuthMethod::ClientSecretPost => {
                self.put("client_id", &client.client_id);
                self.put("client_secret", secret.ok_or(NotRequestable::NoSecret)?.expose());
            }
            // The assertion names the client (RFC 7521, section 4.2).
            AuthMethod::PrivateKeyJwt => {
                self.put("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
                self.put("client_assertion", assertion.ok_or(NotRequestable::NoAssertion)?.expose());
            }
        }
        Ok(TokenRequest { url, authorization, body: Secret::new(self.0.finish()) })
    }
}

/// Returns the value of `Authorization` for `client_secret_basic` (RFC 6749, section 2.3.1).
#[must_use]
pub fn basic_credentials(client_id: &str, secret: &Secret) -> Secret {
    // Both are encoded as in forms before they are joined.
    let pair = format!("{}:{}", form_encode(client_id), form_encode(secret.expose()));
    Secret::new(format!("Basic {}", Base64::encode_string(pair.as_bytes())))
}

/// Encodes the name or the value of a parameter for `application/x-www-form-urlencoded`.
#[must_use]
pub fn form_encode(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// The type of a token, which decides how requests present it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenType {
    /// A bearer token (RFC 6750).
    Bearer,
    /// A token that is presented with a proof of possession (RFC 9449).
    Dpop,
    /// An assertion for another server, which requests do not present (RFC 8693, section 2.2.1).
    NotApplicable,
}

impl TokenType {
    const ALL: [Self; 3] = [Self::Bearer, Self::Dpop, Self::NotApplicable];

    /// Returns the registered name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
            Self::NotApplicable => "N_A",
        }
    }

    /// Returns the type with this name, which is compared without regard to case; `None` if this crate does not know
    /// it.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(name))
    }
}

/// The tokens of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// The access token, or the requested assertion.
    pub access: Secret,
    /// The type of the access token.
    pub token_type: TokenType,
    /// The refresh token.
    pub refresh: RefreshToken,
    /// The lifetime of the access token, if the server names it.
    pub expires_in: Option<Duration>,
    /// The granted scopes; `None` if they are the requested ones. Malformed scopes result in an empty set.
    pub scopes: Option<Scopes>,
    /// The type of the assertion in place of an access token, if one was requested (RFC 8693, section 2.2.1).
    pub issued_type: Option<String>,
}

/// The refresh token of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefreshToken {
    /// The response has none. The refresh token of the client stays valid.
    Absent,
    /// A new refresh token, which replaces that of the client.
    New(Secret),
    /// An invalid refresh token. The server may have replaced that of the client, which must not be used again.
    Malformed,
}

/// The response of the token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenReply {
    /// Tokens.
    Granted(Tokens),
    /// The server refuses the grant, the client or the request. Only `invalid_grant` means that a refresh token is not
    /// valid any more.
    Rejected(OAuthError),
    /// A temporary failure with this status. The request may be sent again later.
    Transient(u16),
    /// The response has a status that is no success, and no error code.
    Status(u16),
    /// The response is no token response.
    Invalid(DocumentError),
}

impl TokenReply {
    /// Reads a response. An error in the body counts with any status. Without an error, any status from 200 to 299 is a
    /// success. The body is JSON, or a form, which some servers send.
    #[must_use]
    pub fn parse(status: u16, body: &[u8]) -> Self {
        let body = Body::parse(body);
        if let Some(error) = body.as_ref().ok().and_then(Body::error) {
            return if error.is_temporary() { Self::Transient(status) } else { Self::Rejected(error) };
        }
        match status {
            200..=299 => match body.and_then(|body| body.tokens()) {
                Ok(tokens) => Self::Granted(tokens),
                Err(error) => Self::Invalid(error),
            },
            408 | 429 | 500..=599 => Self::Transient(status),
            _ => Self::Status(status),
        }
    }
}

/// The body of a response, which is read once.
enum Body<'a> {
    Json(Document),
    Form(Fields<'a>),
}

impl<'a> Body<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, DocumentError> {
        if is_json(body) { Document::parse(body).map(Self::Json) } else { Fields::parse(body).map(Self::Form) }
    }

    fn error(&self) -> Option<OAuthError> {
        match self {
            Self::Json(document) => OAuthError::of(document),
            Self::Form(form) => OAuthError::new(form.get("error").ok()??, form.get("error_description").ok()?),
        }
    }

    fn tokens(&self) -> Result<Tokens, DocumentError> {
        match self {
            Self::Json(document) => Tokens::of_document(document),
            Self::Form(form) => Tokens::of_form(form),
        }
    }
}

fn is_json(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    body.trim_ascii_start().first() == Some(&b'{')
}

/// The fields of a form.
struct Fields<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Fields<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, DocumentError> {
        if body.len() > document::MAX_LEN || !body.contains(&b'=') || body.contains(&b'<') {
            return Err(DocumentError::NotAnObject);
        }
        let fields: Vec<_> = parse(body).take(document::MAX_ITEMS + 1).collect();
        if fields.len() <= document::MAX_ITEMS { Ok(Self(fields)) } else { Err(DocumentError::NotAnObject) }
    }

    fn get(&self, name: &'static str) -> Result<Option<&str>, DocumentError> {
        let mut found = self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| &**value);
        let value = found.next().filter(|value| !value.is_empty());
        if found.next().is_some() { Err(DocumentError::Duplicate(name)) } else { Ok(value) }
    }
}

impl Tokens {
    fn of_document(document: &Document) -> Result<Self, DocumentError> {
        let names = ["access_token", "token_type", "refresh_token", "expires_in", "scope", "issued_token_type"];
        let [access, kind, refresh, expires, scope, issued] = document.members(names)?;
        // Malformed optional members do not invalidate the tokens.
        let expires = expires.seconds().ok().flatten();
        let (refresh, scope) = (RefreshToken::of(refresh.text()), granted(scope.text()));
        Self::check(&access.needed_text()?, &kind.needed_text()?, refresh, expires, scope, issued.text().ok().flatten())
    }

    fn of_form(form: &Fields<'_>) -> Result<Self, DocumentError> {
        let needed = |name| form.get(name)?.ok_or(DocumentError::Missing(name));
        let text = |name| Ok(form.get(name)?.map(String::from));
        let expires = form.get("expires_in")?.and_then(|text| text.parse().ok());
        let (access, kind) = (needed("access_token")?, needed("token_type")?);
        let (refresh, scope) = (RefreshToken::of(Ok(text("refresh_token")?)), granted(Ok(text("scope")?)));
        Self::check(access, kind, refresh, expires, scope, text("issued_token_type")?)
    }

    fn check(
        access: &str,
        kind: &str,
        refresh: RefreshToken,
        expires: Option<u64>,
        scopes: Option<Scopes>,
        issued_type: Option<String>,
    ) -> Result<Self, DocumentError> {
        // RFC 6750, section 2.1: a header must have no other characters.
        let is_header =
            |token: &str| token.len() <= document::MAX_TEXT && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_header(access) {
            return Err(DocumentError::Invalid("access_token"));
        }
        let token_type = TokenType::parse(kind).ok_or(DocumentError::Invalid("token_type"))?;
        Ok(Self {
            access: Secret::new(access),
            token_type,
            refresh,
            expires_in: expires.map(Duration::from_secs),
            scopes,
            issued_type: issued_type.filter(|text| is_text(text)),
        })
    }
}

impl RefreshToken {
    fn of(text: Result<Option<String>, DocumentError>) -> Self {
        match text {
            Ok(None) => Self::Absent,
            Ok(Some(text)) if is_text(&text) => Self::New(Secret::new(text)),
            Ok(Some(_)) | Err(_) => Self::Malformed,
        }
    }
}

/// Reads the scopes of a response. Malformed scopes do not count as the requested ones.
fn granted(text: Result<Option<String>, DocumentError>) -> Option<Scopes> {
    let text = text.map(|text| text.map(|text| Scopes::parse(&text).unwrap_or_default()));
    text.unwrap_or_else(|_| Some(Scopes::default()))
}

/// Returns whether a text has no control characters (RFC 6749, appendix A.17).
fn is_text(text: &str) -> bool {
    text.len() <= document::MAX_TEXT && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests;
