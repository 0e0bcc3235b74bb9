//! The authorization request, and the redirect with its response (RFC 6749, section 4.1; RFC 9207).

use alloc::string::String;
use core::{fmt, time::Duration};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use form_urlencoded::{Serializer, parse};

use super::{
    client_identity::ClientIdentity,
    metadata::AuthorizationServer,
    oauth_error::OAuthError,
    pkce::CodeVerifier,
    policy::is_loopback,
    scope::Scopes,
    secret::Secret,
    url::{Url, UrlError},
};
use crate::rpc::Timestamp;

/// Random bytes for one authorization request. They must be unpredictable and are used once.
#[derive(Clone)]
pub struct AuthorizationSeed {
    /// For the `state`.
    pub state: [u8; 32],
    /// For the code verifier.
    pub verifier: [u8; 32],
}

impl fmt::Debug for AuthorizationSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The parameters of an authorization request.
#[derive(Clone, Debug)]
pub struct AuthorizationRequest<'a> {
    /// The metadata of the authorization server, which were checked.
    pub server: &'a AuthorizationServer,
    /// The identity of the client at that server.
    pub client: &'a ClientIdentity,
    /// The redirect URI: `https`, or `http` on a loopback host.
    pub redirect_uri: &'a Url,
    /// The identifier of the resource, byte for byte (RFC 8707).
    pub resource: &'a Url,
    /// The scopes. An empty set omits the parameter.
    pub scopes: &'a Scopes,
    /// The thumbprint of the key to which the code is bound (RFC 9449, section 10), if there is one.
    pub key_thumbprint: Option<&'a str>,
}

/// The reason why no authorization request can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotAuthorizable {
    /// The server has no authorization endpoint.
    NoEndpoint,
    /// The server does not support the `S256` code challenge.
    NoPkce,
    /// The client is registered at another issuer.
    OtherIssuer,
    /// The redirect URI is neither `https` nor on a loopback host.
    RedirectUri,
    /// The authorization endpoint has a parameter of this name in its query already.
    Parameter(String),
    /// The URL of the request is too long.
    Url(UrlError),
}

impl fmt::Display for NotAuthorizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEndpoint => f.write_str("the authorization server has no authorization endpoint"),
            Self::NoPkce => f.write_str("the authorization server does not support the code challenge method S256"),
            Self::OtherIssuer => f.write_str("the client is registered at another authorization server"),
            Self::RedirectUri => f.write_str("the redirect URI is neither https nor on a loopback host"),
            Self::Parameter(name) => write!(f, "the authorization endpoint has the parameter `{name}` already"),
            Self::Url(error) => write!(f, "the authorization URL: {error}"),
        }
    }
}

impl core::error::Error for NotAuthorizable {}

/// An authorization that has begun and waits for its redirect.
///
/// It holds everything that the redirect is checked against and that the token request needs: `state`, the code
/// verifier, and the issuer of the metadata from which the request was made. It is used at most once.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Authorization {
    url: Url,
    state: Secret,
    verifier: CodeVerifier,
    issuer: String,
    needs_iss: bool,
    redirect_uri: Url,
    resource: Url,
    scopes: Scopes,
    expires_at: Timestamp,
    is_used: bool,
}

/// An authorization code, with the other parameters of its token request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationCode {
    /// The code.
    pub code: Secret,
    /// The verifier of the code challenge.
    pub verifier: CodeVerifier,
    /// The issuer whose token endpoint accepts the code.
    pub issuer: String,
    /// The redirect URI of the request.
    pub redirect_uri: Url,
    /// The identifier of the resource.
    pub resource: Url,
    /// The requested scopes.
    pub scopes: Scopes,
}

/// The reason why a redirect is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectError {
    /// The query has more than [`Authorization::MAX_REDIRECT`] bytes.
    TooLong,
    /// A parameter of the response occurs twice.
    Duplicate(&'static str),
    /// The `state` is missing or differs from that of the request. The authorization can still be used.
    State,
    /// The `iss` is that of another issuer, or is missing although the metadata announce it. The authorization can
    /// still be used. The other parameters of the redirect must not be shown.
    Issuer,
    /// The authorization has expired.
    Expired,
    /// The authorization was used before.
    Used,
    /// The server, or the user, refuses the authorization.
    Denied(OAuthError),
    /// There is neither a code nor an error.
    NoCode,
}

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the redirect is too long"),
            Self::Duplicate(name) => write!(f, "the redirect has `{name}` twice"),
            Self::State => f.write_str("the redirect answers another authorization request"),
            Self::Issuer => f.write_str("the redirect is not from the authorization server that was asked"),
            Self::Expired => f.write_str("the authorization request has expired"),
            Self::Used => f.write_str("the authorization request was answered before"),
            Self::Denied(error) => write!(f, "the authorization was denied: {error}"),
            Self::NoCode => f.write_str("the redirect has no code"),
        }
    }
}

impl core::error::Error for RedirectError {}

impl Authorization {
    /// The default lifetime of an authorization, within which its redirect has to arrive.
    pub const LIFETIME: Duration = Duration::from_secs(600);

    /// The most bytes of the query of a redirect.
    pub const MAX_REDIRECT: usize = 16 * 1024;

    /// Creates an authorization: derives `state` and the code verifier from `seed`, and builds the URL that the user
    /// opens. The authorization expires `lifetime` after `now`.
    ///
    /// # Errors
    /// Returns the reason if the request cannot be made.
    pub fn new(
        request: &AuthorizationRequest<'_>,
        seed: &AuthorizationSeed,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Self, NotAuthorizable> {
        let AuthorizationRequest { server, client, redirect_uri, resource, scopes, key_thumbprint } = *request;
        let endpoint = server.authorization_endpoint.as_ref().ok_or(NotAuthorizable::NoEndpoint)?;
        if !server.has_s256() {
            return Err(NotAuthorizable::NoPkce);
        }
        if client.issuer != server.issuer {
            return Err(NotAuthorizable::OtherIssuer);
        }
        if !redirect_uri.is_https() && !is_loopback(redirect_uri) {
            return Err(NotAuthorizable::RedirectUri);
        }
        let state = Secret::new(Base64UrlUnpadded::encode_string(&seed.state));
        let verifier = CodeVerifier::new(seed.verifier);
        let (challenge, scope) = (verifier.challenge(), alloc::format!("{scopes}"));
        let params = [
            ("response_type", "code"),
            ("client_id", &client.client_id),
            ("redirect_uri", redirect_uri.as_str()),
            ("state", state.expose()),
            ("code_challenge", &challenge),
            ("code_challenge_method", CodeVerifier::METHOD),
            ("resource", resource.as_str()),
            ("scope", &scope),
            ("dpop_jkt", key_thumbprint.unwrap_or_default()),
        ];
        let known = endpoint.query().unwrap_or_default();
        if let Some((name, _)) = parse(known.as_bytes()).find(|(found, _)| params.iter().any(|(name, _)| name == found))
        {
            return Err(NotAuthorizable::Parameter(name.into_owned()));
        }
        let mut query = Serializer::new(String::from(known));
        query.extend_pairs(params.iter().filter(|(_, value)| !value.is_empty()));
        let (base, _) = endpoint.as_str().split_once('?').unwrap_or((endpoint.as_str(), ""));
        let url = Url::parse(&alloc::format!("{base}?{}", query.finish())).map_err(NotAuthorizable::Url)?;
        Ok(Self {
            url,
            state,
            verifier,
            issuer: server.issuer.clone(),
            needs_iss: server.has_iss,
            redirect_uri: redirect_uri.clone(),
            resource: resource.clone(),
            scopes: scopes.clone(),
            expires_at: now + lifetime,
            is_used: false,
        })
    }

    /// Returns the URL that the user opens.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns when the authorization expires.
    #[must_use]
    pub const fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Checks the query of a redirect. A redirect that belongs to the request ends the authorization.
    ///
    /// The order is: size, duplicates, age, `state`, `iss`, and only then the code or the error. A redirect with the
    /// wrong `state` or `iss` changes nothing, so a forged one cannot end the authorization of the user.
    ///
    /// # Errors
    /// Returns the reason if there is no code. No token request may be made then.
    pub fn handle_redirect(&mut self, now: Timestamp, query: &str) -> Result<AuthorizationCode, RedirectError> {
        if query.len() > Self::MAX_REDIRECT {
            return Err(RedirectError::TooLong);
        }
        let mut params = ["state", "iss", "code", "error", "error_description"].map(|name| (name, None));
        for (name, value) in parse(query.as_bytes()) {
            let Some((name, known)) = params.iter_mut().find(|(known, _)| *known == name) else { continue };
            if known.replace(value).is_some() {
                return Err(RedirectError::Duplicate(name));
            }
        }
        let [state, iss, code, error, description] = params.map(|(_, value)| value);
        if self.is_used {
            return Err(RedirectError::Used);
        }
        if now >= self.expires_at {
            return Err(RedirectError::Expired);
        }
        if !state.is_some_and(|state| self.state.matches(&state)) {
            return Err(RedirectError::State);
        }
        let is_from_issuer = iss.map_or(!self.needs_iss, |iss| *iss == *self.issuer);
        if !is_from_issuer {
            return Err(RedirectError::Issuer);
        }
        self.is_used = true;
        if let Some(code_of_error) = error {
            let error = OAuthError::new(&code_of_error, description.as_deref());
            let unknown = || OAuthError { code: "invalid_error".into(), description: None };
            return Err(RedirectError::Denied(error.unwrap_or_else(unknown)));
        }
        let code = code.filter(|code| !code.is_empty()).ok_or(RedirectError::NoCode)?;
        Ok(AuthorizationCode {
            code: Secret::new(code.into_owned()),
            verifier: self.verifier.clone(),
            issuer: self.issuer.clone(),
            redirect_uri: self.redirect_uri.clone(),
            resource: self.resource.clone(),
            scopes: self.scopes.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::ToString, vec::Vec};

    use super::*;

    const ISSUER: &str = "https://as.example";
    const SEED: AuthorizationSeed = AuthorizationSeed { state: [1; 32], verifier: [2; 32] };
    const NOW: Timestamp = Timestamp::ZERO;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn server(endpoint: &str, has_iss: bool) -> AuthorizationServer {
        let body = format!(
            r#"{{"issuer":"{ISSUER}","token_endpoint":"https://as.example/token","authorization_endpoint":"{endpoint}",
            "code_challenge_methods_supported":["S256"],"authorization_response_iss_parameter_supported":{has_iss}}}"#
        );
        AuthorizationServer::parse(body.as_bytes(), ISSUER).expect("metadata")
    }

    fn client() -> ClientIdentity {
        ClientIdentity {
            issuer: ISSUER.into(),
            client_id: "id & more".into(),
            secret: None,
            secret_expires_at: None,
            redirect_uris: Vec::new(),
            auth_method: None,
        }
    }

    fn begin(
        server: &AuthorizationServer,
        client: &ClientIdentity,
        to: &str,
    ) -> Result<Authorization, NotAuthorizable> {
        let scopes = Scopes::parse("a b").expect("scopes");
        let request = AuthorizationRequest {
            server,
            client,
            redirect_uri: &url(to),
            resource: &url("https://mcp.example/mcp?x=1"),
            scopes: &scopes,
            key_thumbprint: None,
        };
        Authorization::new(&request, &SEED, NOW, Authorization::LIFETIME)
    }

    const CALLBACK: &str = "http://127.0.0.1:7777/callback";

    fn begun(has_iss: bool) -> Authorization {
        begin(&server("https://as.example/authorize", has_iss), &client(), CALLBACK).expect("an authorization")
    }

    // req: AUTH-012 AUTH-063 M-AUTH-026 M-AUTH-045
    #[test]
    fn authorization_url_has_all_parameters() {
        let server = server("https://as.example/authorize?tenant=a%20b", false);
        let authorization = begin(&server, &client(), CALLBACK).expect("an authorization");
        assert!(
            authorization.url().as_str().starts_with("https://as.example/authorize?tenant=a%20b&response_type=code&")
        );
        let query = authorization.url().query().expect("a query");
        let params: Vec<_> =
            parse(query.as_bytes()).map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let param = |name: &str| params.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
        assert_eq!(params.len(), 9);
        assert_eq!(param("client_id"), Some("id & more"));
        assert_eq!(param("redirect_uri"), Some(CALLBACK));
        assert_eq!(param("resource"), Some("https://mcp.example/mcp?x=1"));
        assert_eq!(param("scope"), Some("a b"));
        assert_eq!(param("code_challenge_method"), Some("S256"));
        assert_eq!(param("code_challenge"), Some(&*CodeVerifier::new(SEED.verifier).challenge()));
        assert_eq!(param("state").map(str::len), Some(43));
        let shown = format!("{authorization:?}");
        for secret in [param("state").expect("a state"), CodeVerifier::new(SEED.verifier).expose()] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    // req: M-AUTH-046 AUTH-065 SEC-009
    #[test]
    fn rejects_unusable_authorization_servers() {
        let good = server("https://as.example/authorize", false);
        let no_pkce = AuthorizationServer { code_challenge_methods: None, ..good.clone() };
        let no_endpoint = AuthorizationServer { authorization_endpoint: None, ..good.clone() };
        let foreign = ClientIdentity { issuer: "https://as.example/".into(), ..client() };
        let taken = server("https://as.example/authorize?client_id=evil", false);
        for (server, client, to, expected) in [
            (&no_pkce, &client(), CALLBACK, NotAuthorizable::NoPkce),
            (&no_endpoint, &client(), CALLBACK, NotAuthorizable::NoEndpoint),
            (&good, &foreign, CALLBACK, NotAuthorizable::OtherIssuer),
            (&good, &client(), "http://c.example/callback", NotAuthorizable::RedirectUri),
            (&taken, &client(), CALLBACK, NotAuthorizable::Parameter("client_id".into())),
        ] {
            assert_eq!(begin(server, client, to).err(), Some(expected));
        }
        assert!(begin(&good, &client(), "https://c.example/callback").is_ok());
    }

    fn state() -> String {
        Base64UrlUnpadded::encode_string(&SEED.state)
    }

    // req: M-AUTH-021 M-AUTH-022 M-AUTH-023 M-AUTH-024 M-AUTH-025
    #[test]
    fn redirects_are_validated() {
        let state = state();
        let good = format!("code=c&state={state}");
        let iss = "iss=https%3A%2F%2Fas.example";
        let long = format!("{good}&x={}", "x".repeat(Authorization::MAX_REDIRECT));
        for (needs_iss, query, expected, is_used) in [
            (false, good.clone(), Ok(()), true),
            (false, format!("{good}&{iss}"), Ok(()), true),
            (true, format!("{iss}&{good}&session_state=x&session_state=y"), Ok(()), true),
            (true, good.clone(), Err(RedirectError::Issuer), false),
            (false, format!("{good}&iss=https%3A%2F%2Fas.example%2F"), Err(RedirectError::Issuer), false),
            (false, format!("{good}&iss=HTTPS%3A%2F%2Fas.example"), Err(RedirectError::Issuer), false),
            (false, format!("{good}&iss="), Err(RedirectError::Issuer), false),
            (false, format!("error=evil&state={state}&iss=x"), Err(RedirectError::Issuer), false),
            (false, format!("{good}&{iss}&{iss}"), Err(RedirectError::Duplicate("iss")), false),
            (false, format!("{good}&state={state}"), Err(RedirectError::Duplicate("state")), false),
            (false, format!("{good}&code=d"), Err(RedirectError::Duplicate("code")), false),
            (false, "code=c".to_string(), Err(RedirectError::State), false),
            (false, "code=c&state=".to_string(), Err(RedirectError::State), false),
            (false, "code=c&state=AQEB".to_string(), Err(RedirectError::State), false),
            (false, long, Err(RedirectError::TooLong), false),
            (
                false,
                format!("state={state}&error=access_denied&error_description=no%0Away"),
                Err(RedirectError::Denied(OAuthError {
                    code: "access_denied".into(),
                    description: Some("noway".into()),
                })),
                true,
            ),
            (false, format!("state={state}"), Err(RedirectError::NoCode), true),
            (false, format!("state={state}&code="), Err(RedirectError::NoCode), true),
        ] {
            let mut authorization = begun(needs_iss);
            let result = authorization.handle_redirect(NOW, &query).map(|code| {
                assert_eq!((code.code.expose(), &*code.issuer), ("c", ISSUER));
            });
            assert_eq!(result, expected, "{query}");
            let again = authorization.handle_redirect(NOW, &format!("{good}&{iss}")).map(|_| ());
            assert_eq!(again, if is_used { Err(RedirectError::Used) } else { Ok(()) }, "{query}");
        }
    }

    #[test]
    fn an_authorization_expires() {
        let good = format!("code=c&state={}", state());
        let mut authorization = begun(false);
        assert_eq!(authorization.expires_at(), NOW + Authorization::LIFETIME);
        let late = authorization.handle_redirect(NOW + Authorization::LIFETIME, &good).map(|_| ());
        assert_eq!(late, Err(RedirectError::Expired));
        let mut authorization = begun(false);
        let last = NOW + (Authorization::LIFETIME - Duration::from_nanos(1));
        assert!(authorization.handle_redirect(last, &good).is_ok());
    }

    #[test]
    fn length_of_a_redirect_is_limited() {
        let good = format!("code=c&state={}&x=", state());
        let of_len = |len: usize| [&good, &*"x".repeat(len - good.len())].concat();
        for (len, expected) in
            [(Authorization::MAX_REDIRECT, Ok(())), (Authorization::MAX_REDIRECT + 1, Err(RedirectError::TooLong))]
        {
            assert_eq!(begun(false).handle_redirect(NOW, &of_len(len)).map(|_| ()), expected, "{len}");
        }
    }

    #[test]
    fn code_has_the_parameters_of_its_request() {
        let mut authorization = begun(false);
        let query = format!("code=c&state={}", state());
        let code = authorization.handle_redirect(NOW, &query).expect("a code");
        assert_eq!(code.verifier, CodeVerifier::new(SEED.verifier));
        assert_eq!((code.redirect_uri, code.resource), (url(CALLBACK), url("https://mcp.example/mcp?x=1")));
        assert_eq!(code.scopes.to_string(), "a b");
        // A malformed error is an error nevertheless.
        let denied = begun(false).handle_redirect(NOW, &format!("error=%00&state={}", state()));
        let error = OAuthError { code: "invalid_error".into(), description: None };
        assert_eq!(denied, Err(RedirectError::Denied(error)));
    }
}
