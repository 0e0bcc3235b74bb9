//! Authorization of requests with OAuth 2.1: access tokens, challenges, and the metadata document of the server.

mod claims;
#[cfg(feature = "jwt")]
mod dpop;
#[cfg(all(test, feature = "jwt", feature = "signing"))]
mod dpop_tests;
mod introspection;
mod json;
#[cfg(feature = "jwt")]
mod jwt;
mod proofs;
mod single_flight;
mod verifier;

use std::{fmt, sync::Arc, time::SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use mcp_proto::{
    auth::{
        BearerError, Network, ResourceMetadata, Scopes, Secret, TokenScheme, Url, UrlError, access_token, bearer_token,
        dpop::ProofError,
    },
    connection::Principal,
    http::{AuthRefusal, HttpResponse, server::Caller},
    rpc::Timestamp,
};

#[cfg(feature = "jwt")]
pub use dpop::Dpop;
pub use introspection::IntrospectionVerifier;
#[cfg(feature = "jwt")]
pub use jwt::{Algorithm, JwtVerifier, KeySet, KeySetError, KeySource};
use proofs::Proofs;
pub use verifier::{AccessToken, TokenError, TokenVerifier};

/// A protected server: it accepts requests with valid access tokens, and publishes the metadata with which clients get
/// tokens.
///
/// An endpoint checks the token of each request first. A request without a valid token gets a challenge: 401, 403 if
/// scopes are missing, or 400 if the header is malformed. Its body is not read. The caller of other requests is the
/// subject of the token: handlers find it in their context, and sessions belong to it. The token itself is not passed
/// on.
///
/// The endpoint also serves the metadata document, without a token.
#[doc(alias = "auth")]
#[doc(alias = "bearer")]
#[derive(Clone)]
pub struct ResourceServer {
    inner: Arc<Inner>,
    on_token_error: Option<Arc<TokenErrorHandler>>,
}

type TokenErrorHandler = dyn Fn(&TokenError) + Send + Sync;

struct Inner {
    metadata: ResourceMetadata,
    paths: Vec<String>,
    document: Vec<u8>,
    verifier: Box<dyn TokenVerifier>,
    /// The checker of proofs, if tokens that are bound to a key are accepted.
    proofs: Option<Proofs>,
}

impl ResourceServer {
    /// Protects the server at a public URL, such as `https://mcp.example.com/mcp`. Clients get their tokens from the
    /// authorization server `issuer`.
    ///
    /// `url` is the URL that clients use, also if a proxy is in front of the server. The URL of a request is not used,
    /// as its sender chooses it.
    ///
    /// # Errors
    /// If `url` or `issuer` is no `http` or `https` URL.
    pub fn new(url: &str, issuer: &str, verifier: impl TokenVerifier) -> Result<Self, UrlError> {
        Ok(Self::of(ResourceMetadata::new(Url::parse(url)?, Url::parse(issuer)?), verifier))
    }

    /// Protects a server with this metadata: its name, its scopes, and several authorization servers, for example. A
    /// token of any other issuer is refused, also if the verifier accepts it.
    #[must_use]
    pub fn of(metadata: ResourceMetadata, verifier: impl TokenVerifier) -> Self {
        let (paths, document) = (metadata.paths().collect(), metadata.document());
        let inner = Arc::new(Inner { metadata, paths, document, verifier: Box::new(verifier), proofs: None });
        Self { inner, on_token_error: None }
    }

    /// Accepts tokens that are bound to a key, each with a proof of that key. Without this setting, they are refused.
    ///
    /// # Panics
    /// If the server was cloned before.
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn dpop(mut self, dpop: Dpop) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a server is configured before it is cloned");
        let (metadata, proofs) = dpop.apply(inner.metadata.clone());
        (inner.document, inner.metadata, inner.proofs) = (metadata.document(), metadata, Some(proofs));
        self
    }

    /// Sets a function that gets the reason each time a token is not accepted, for logs. It never gets the token.
    ///
    /// [`TokenError::Unavailable`] is a fault of this server or of its authorization server: the client gets a 503
    /// without the reason. The other errors are caused by clients, in any number.
    ///
    /// The function is called before the response is sent, so it must not block. A second function replaces the first.
    #[must_use]
    pub fn on_token_error(mut self, function: impl Fn(&TokenError) + Send + Sync + 'static) -> Self {
        self.on_token_error = Some(Arc::new(function));
        self
    }

    /// Returns the metadata.
    #[must_use]
    pub fn metadata(&self) -> &ResourceMetadata {
        &self.inner.metadata
    }

    /// Returns whether a request is for the metadata document.
    pub(super) fn is_document(&self, head: &Parts) -> bool {
        self.inner.paths.iter().any(|path| path == head.uri.path())
    }

    /// Returns the response to a request for the metadata document.
    pub(super) fn document(&self, head: &Parts) -> HttpResponse {
        let document = &self.inner.document;
        let is_read = head.method == Method::GET || head.method == Method::HEAD;
        let mut answer = Response::new(if head.method == Method::GET { document.clone() } else { Vec::new() });
        let headers = answer.headers_mut();
        if is_read {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(document.len()));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
        } else {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
            *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        }
        answer
    }

    /// Determines the sender of a request by its access token. `now` is the clock of the sessions.
    ///
    /// # Errors
    /// Returns the response if the token cannot be verified.
    pub(super) async fn caller(&self, head: &Parts, now: impl Fn() -> Timestamp) -> Result<Caller, Box<HttpResponse>> {
        let values = head.headers.get_all(header::AUTHORIZATION).iter().map(HeaderValue::as_bytes);
        let found = match &self.inner.proofs {
            Some(_) => access_token(values),
            None => bearer_token(values).map(|token| token.map(|token| (TokenScheme::Bearer, token))),
        };
        let (scheme, token) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Caller::Refused(self.refusal(None, None))),
            Err(error) => return Ok(Caller::Refused(self.refusal(None, Some(&error)))),
        };
        let error = match self.verify(head, scheme, &token, now).await {
            Ok(principal) => return Ok(Caller::Known(Arc::new(principal))),
            Err(VerifyError::Bearer(error)) => error,
            Err(VerifyError::Token(error)) => {
                if let Some(report) = &self.on_token_error {
                    report(&error);
                }
                match error {
                    TokenError::Unavailable(_) => return Err(again_later(StatusCode::SERVICE_UNAVAILABLE, "5")),
                    TokenError::Proof(ProofError::TooMany) => {
                        return Err(again_later(StatusCode::TOO_MANY_REQUESTS, "1"));
                    }
                    TokenError::Proof(error) => error.bearer_error(),
                    error => BearerError::InvalidToken(error.to_string()),
                }
            }
        };
        Ok(Caller::Refused(self.refusal(Some(scheme), Some(&error))))
    }

    async fn verify(
        &self,
        head: &Parts,
        scheme: TokenScheme,
        token: &Secret,
        now: impl Fn() -> Timestamp,
    ) -> Result<Principal, VerifyError> {
        if scheme != TokenScheme::Dpop && self.metadata().has_proofs_only() {
            return Err(TokenError::Refused("a token that is bound to a key is needed, with a proof").into());
        }
        // The checks without a signature come first.
        let proofs = self.inner.proofs.as_ref().filter(|_| scheme == TokenScheme::Dpop);
        let proof = proofs.map(|proofs| proofs.read(head, token).map(|proof| (proofs, proof))).transpose()?;
        let token = self.inner.verifier.verify(token).await?;
        // A verifier with a cache may not have checked the time.
        let left = |at: SystemTime| at.duration_since(SystemTime::now()).map_err(|_| TokenError::Expired);
        let left = token.expires.map(left).transpose()?;
        if !self.metadata().issuers().iter().any(|issuer| issuer.as_str() == token.issuer) {
            return Err(TokenError::Issuer.into());
        }
        let id = token.principal().ok_or(TokenError::Claim("sub"))?;
        match (proof, &token.key_thumbprint) {
            (Some((proofs, proof)), Some(thumbprint)) => proofs.accept(proof, thumbprint, &id)?,
            (Some(_), None) => return Err(TokenError::UNBOUND.into()),
            (None, Some(_)) if self.inner.proofs.is_some() => return Err(TokenError::NO_PROOF.into()),
            (None, Some(_)) => return Err(TokenError::BOUND.into()),
            (None, None) => {}
        }
        let scopes = Scopes::parse(&token.scope).ok_or(TokenError::Claim("scope"))?;
        let granted = self.metadata().granted(&scopes);
        if !self.metadata().is_enough(&granted) {
            return Err(VerifyError::Bearer(BearerError::InsufficientScope));
        }
        let mut principal = Principal::new(id);
        principal.client_id = token.client_id;
        principal.scopes = granted.iter().map(str::to_owned).collect();
        principal.claims = token.claims;
        principal.expires = left.map(|left| now() + left);
        Ok(principal)
    }

    /// Returns whether a request has a proof.
    pub(super) fn has_proof(headers: &HeaderMap) -> bool {
        Proofs::are_in(headers)
    }

    /// Returns the header with the nonce for the next proof of the client, if the response has one. The caller calls it
    /// when the response is ready, because the nonce depends on the time.
    pub(super) fn nonce(&self, has_proof: bool, status: StatusCode) -> Option<(HeaderName, HeaderValue)> {
        let proofs = self.inner.proofs.as_ref()?;
        if has_proof || status == StatusCode::UNAUTHORIZED { proofs.nonce() } else { None }
    }

    /// Returns the challenge for a request that needs more scopes than its sender has.
    pub(super) fn needs_scopes(&self, scopes: &[String]) -> HeaderValue {
        let scopes = Scopes::of(scopes.iter().map(String::as_str)).unwrap_or_default();
        header_value(self.metadata().challenge(Some(&BearerError::InsufficientScope), &scopes))
    }

    fn refusal(&self, scheme: Option<TokenScheme>, error: Option<&BearerError>) -> AuthRefusal {
        let (metadata, scopes) = (self.metadata(), Scopes::default());
        let how = header_value(match (scheme, error) {
            (Some(scheme), Some(error)) => metadata.challenge_to(scheme, error, &scopes),
            _ => metadata.challenge(error, &scopes),
        });
        match error {
            Some(BearerError::InvalidRequest) => AuthRefusal::malformed(how),
            Some(BearerError::InsufficientScope) => AuthRefusal::forbidden(Some(how)),
            _ => AuthRefusal::unauthorized(how),
        }
    }
}

/// Creates the response to a request that the client can send again after some seconds.
fn again_later(status: StatusCode, seconds: &'static str) -> Box<HttpResponse> {
    let mut answer = Response::new(Vec::new());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
    Box::new(answer)
}

/// Reads the URL of an endpoint of an authorization server that serves keys or gets credentials.
fn secure_url(text: &str) -> Result<Url, UrlError> {
    let url = Url::parse(text)?;
    let is_secure = url.is_https() || Network::of_url(&url) == Network::Loopback;
    if is_secure { Ok(url) } else { Err(UrlError::Insecure) }
}

/// Converts a challenge to a header value. Its parts were checked when it was created.
fn header_value(challenge: String) -> HeaderValue {
    HeaderValue::try_from(challenge).unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
}

/// The reason why a request with a token has no caller.
enum VerifyError {
    /// The client has to get a token with more scopes.
    Bearer(BearerError),
    /// The token or its proof is refused, or could not be verified.
    Token(TokenError),
}

impl From<TokenError> for VerifyError {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

impl From<ProofError> for VerifyError {
    fn from(error: ProofError) -> Self {
        Self::Token(TokenError::Proof(error))
    }
}

impl fmt::Debug for ResourceServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceServer").field("metadata", &self.inner.metadata).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use mcp_service::block_on;

    use super::*;

    #[test]
    #[should_panic(expected = "an endpoint is protected once")]
    fn endpoint_is_protected_once() {
        let protection = crate::http::protection::Protection::default();
        protection.set(server());
        protection.set(server());
    }

    fn server() -> ResourceServer {
        let verify = |token: &str| match token {
            "good" => Ok(AccessToken::new("https://auth.example", "ada")),
            "foreign" => Ok(AccessToken::new("https://other.example", "ada")),
            "old" => Err(TokenError::Expired),
            _ => Err(TokenError::Unavailable("the status of the introspection is 401".into())),
        };
        ResourceServer::new("https://mcp.example/mcp", "https://auth.example", verify).expect("two URLs")
    }

    #[test]
    fn reports_why_a_token_is_not_accepted() {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let sink = reports.clone();
        let server = server().on_token_error(move |error| sink.lock().expect("no panics").push(error.to_string()));
        for (token, status) in
            [(Some("good"), 0), (Some("foreign"), 401), (Some("old"), 401), (Some("x"), 503), (None, 401)]
        {
            let request = http::Request::builder().uri("/mcp");
            let request = match token {
                Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
                None => request,
            };
            let (head, ()) = request.body(()).expect("a request").into_parts();
            let received = match block_on(server.clone().caller(&head, || Timestamp::ZERO)) {
                Ok(Caller::Known(_)) => 0,
                Ok(Caller::Refused(_)) => 401,
                Ok(_) => panic!("there is a token"),
                Err(response) => response.status().as_u16(),
            };
            assert_eq!(received, status, "{token:?}");
        }
        let expected = [TokenError::Issuer, TokenError::Expired].map(|error| error.to_string());
        let reports = reports.lock().expect("no panics");
        assert_eq!(reports[..2], expected);
        assert!(reports.len() == 3 && reports[2].contains("the status of the introspection is 401"), "{reports:?}");
    }
}
