//! Requests to the token endpoint, and what it answers (RFC 6749, sections 4 to 6; RFC 7009, 7523, 8693, 8707).

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

/// What a token is asked for with.
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
        resource: &'a str,
    },
    /// The credentials of the client alone.
    ClientCredentials {
        /// The identifier of the resource.
        resource: &'a str,
        /// The scopes; none leaves out the parameter.
        scopes: &'a Scopes,
    },
    /// An assertion of an identity provider or of a workload (RFC 7523, section 2.1).
    Assertion {
        /// The assertion, a JWT.
        assertion: &'a Secret,
        /// The identifier of the resource.
        resource: &'a str,
        /// The scopes; none leaves out the parameter.
        scopes: &'a Scopes,
    },
    /// An identity assertion for another authorization server, from the identity provider of an enterprise (RFC 8693).
    IdentityAssertion {
        /// The identity token or refresh token that the provider gave out.
        subject: &'a Secret,
        /// The type of that token, `urn:ietf:params:oauth:token-type:id_token` for example.
        subject_type: &'a str,
        /// The issuer of the other authorization server.
        audience: &'a str,
        /// The identifier of the resource.
        resource: &'a str,
        /// The scopes; none leaves out the parameter.
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
/// The content type is `application/x-www-form-urlencoded`, and `Accept` is `application/json`. Redirects are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// Where it goes.
    pub url: Url,
    /// The value of the `Authorization` header, if there is one.
    pub authorization: Option<Secret>,
    /// The body.
    pub body: Secret,
}

/// Why a token request is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotRequestable {
    /// The client, or the code, is of another issuer.
    OtherIssuer,
    /// The client has no secret, which its way to authenticate needs.
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
    /// Makes a token request. `assertion` is the signed assertion of a client that authenticates with `private_key_jwt`.
    ///
    /// # Errors
    /// Returns why it is not made. Credentials of one issuer are never sent to another.
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
                form.put("resource", &code.resource);
            }
            Grant::Refresh { token, resource } => {
                form.put("refresh_token", token.expose());
                form.put("resource", resource);
            }
            Grant::ClientCredentials { resource, scopes } => {
                form.put("resource", resource);
                form.put("scope", &format!("{scopes}"));
            }
            Grant::Assertion { assertion, resource, scopes } => {
                form.put("assertion", assertion.expose());
                form.put("resource", resource);
                form.put("scope", &format!("{scopes}"));
            }
            Grant::IdentityAssertion { subject, subject_type, audience, resource, scopes } => {
                form.put("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag");
                form.put("subject_token", subject.expose());
                form.put("subject_token_type", subject_type);
                form.put("audience", audience);
                form.put("resource", resource);
                form.put("scope", &format!("{scopes}"));
            }
        }
        form.send(server.token_endpoint.clone(), server, client, assertion)
    }

    /// Makes a request to revoke a token (RFC 7009). `hint` is `refresh_token` or `access_token`.
    ///
    /// # Errors
    /// Returns why it is not made.
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
        form.send(url, server, client, assertion)
    }
}

/// The body of a request.
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

    /// Adds what authenticates the client.
    fn send(
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
                // Both are encoded as in forms before they are joined (RFC 6749, section 2.3.1).
                let [id, secret] = [&*client.client_id, secret.expose()]
                    .map(|text| byte_serialize(text.as_bytes()).collect::<String>());
                let pair = Base64::encode_string(format!("{id}:{secret}").as_bytes());
                authorization = Some(Secret::new(format!("Basic {pair}")));
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

/// How a token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenType {
    /// As it is (RFC 6750).
    Bearer,
    /// With a proof of possession (RFC 9449).
    Dpop,
    /// Not at all: it is an assertion for another server (RFC 8693, section 2.2.1).
    NotApplicable,
}

/// The tokens of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// The access token, or the assertion that was asked for.
    pub access: Secret,
    /// How it is presented.
    pub token_type: TokenType,
    /// The refresh token; `None` if the response has none: one that the client has stays valid.
    pub refresh: Option<Secret>,
    /// How long the access token is valid, as far as the server says.
    pub expires_in: Option<Duration>,
    /// The scopes; `None` if they are those that were asked for.
    pub scopes: Option<Scopes>,
}

/// What the token endpoint has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenReply {
    /// Tokens.
    Granted(Tokens),
    /// The server refuses the grant, the client or the request. Only `invalid_grant` means that a refresh token is of no use
    /// any more: [`is_grant_invalid`](Self::is_grant_invalid).
    Rejected(OAuthError),
    /// The server could not answer now. What was sent may be sent again later.
    Transient(u16),
    /// The server answers with a status that is no success, and without an error.
    Status(u16),
    /// The response is no token response.
    Invalid(DocumentError),
}

impl TokenReply {
    /// Reads a response. An error in the body counts whatever the status is; without one, any status from 200 to 299 is a
    /// success. The body is JSON, or a form, as some servers send it.
    #[must_use]
    pub fn parse(status: u16, body: &[u8]) -> Self {
        if let Some(error) = error(body) {
            return match &*error.code {
                "temporarily_unavailable" | "server_error" => Self::Transient(status),
                _ => Self::Rejected(error),
            };
        }
        match status {
            200..=299 => match Tokens::parse(body) {
                Ok(tokens) => Self::Granted(tokens),
                Err(error) => Self::Invalid(error),
            },
            408 | 429 | 500..=599 => Self::Transient(status),
            _ => Self::Status(status),
        }
    }

    /// Returns whether the code, refresh token or assertion of the request is of no use any more.
    #[must_use]
    pub fn is_grant_invalid(&self) -> bool {
        matches!(self, Self::Rejected(error) if error.code == "invalid_grant")
    }

    /// Returns whether the server does not know the client, or does not accept how it authenticates.
    #[must_use]
    pub fn is_client_invalid(&self) -> bool {
        matches!(self, Self::Rejected(error) if matches!(&*error.code, "invalid_client" | "unauthorized_client"))
    }
}

/// Returns the error of a JSON or form body.
fn error(body: &[u8]) -> Option<OAuthError> {
    if is_json(body) {
        return OAuthError::parse(body);
    }
    let form = Fields::read(body).ok()?;
    OAuthError::new(form.get("error").ok()??, form.get("error_description").ok()?)
}

fn is_json(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    body.trim_ascii_start().first() == Some(&b'{')
}

/// The fields of a form.
struct Fields<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Fields<'a> {
    fn read(body: &'a [u8]) -> Result<Self, DocumentError> {
        let fields: Vec<_> = parse(body).take(document::MAX_ITEMS + 1).collect();
        let is_form = body.len() <= document::MAX_LEN && body.contains(&b'=') && !body.contains(&b'<');
        if is_form && fields.len() <= document::MAX_ITEMS { Ok(Self(fields)) } else { Err(DocumentError::NotAnObject) }
    }

    fn get(&self, name: &'static str) -> Result<Option<&str>, DocumentError> {
        let mut found = self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| &**value);
        let value = found.next().filter(|value| !value.is_empty());
        if found.next().is_some() { Err(DocumentError::Duplicate(name)) } else { Ok(value) }
    }
}

impl Tokens {
    fn parse(body: &[u8]) -> Result<Self, DocumentError> {
        if !is_json(body) {
            return Self::from_form(body);
        }
        let [access, kind, refresh, expires, scope] =
            Document::parse(body)?.members(["access_token", "token_type", "refresh_token", "expires_in", "scope"])?;
        let (scope, access) = (scope.text()?, access.needed_text()?);
        Self::check(&access, &kind.needed_text()?, refresh.text()?.as_deref(), expires.seconds()?, scope.as_deref())
    }

    fn from_form(body: &[u8]) -> Result<Self, DocumentError> {
        let form = Fields::read(body)?;
        let needed = |name| form.get(name)?.ok_or(DocumentError::Missing(name));
        let seconds = |text: &str| text.parse().map_err(|_| DocumentError::Invalid("expires_in"));
        let expires = form.get("expires_in")?.map(seconds).transpose()?;
        let (access, kind) = (needed("access_token")?, needed("token_type")?);
        Self::check(access, kind, form.get("refresh_token")?, expires, form.get("scope")?)
    }

    fn check(
        access: &str,
        kind: &str,
        refresh: Option<&str>,
        expires: Option<u64>,
        scope: Option<&str>,
    ) -> Result<Self, DocumentError> {
        // RFC 6750, section 2.1: nothing else may stand in a header.
        let is_header =
            |token: &str| token.len() <= document::MAX_TEXT && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_header(access) {
            return Err(DocumentError::Invalid("access_token"));
        }
        let types = [("bearer", TokenType::Bearer), ("dpop", TokenType::Dpop), ("n_a", TokenType::NotApplicable)];
        let found = types.into_iter().find(|(name, _)| kind.eq_ignore_ascii_case(name));
        let (_, token_type) = found.ok_or(DocumentError::Invalid("token_type"))?;
        let scopes = scope.map(|text| Scopes::parse(text).ok_or(DocumentError::Invalid("scope"))).transpose()?;
        Ok(Self {
            access: Secret::new(access),
            token_type,
            refresh: refresh.map(Secret::new),
            expires_in: expires.map(Duration::from_secs),
            scopes,
        })
    }
}

#[cfg(test)]
mod tests;
