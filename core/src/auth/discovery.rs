//! The URLs at which the metadata of a protected server and of its authorization server may be. Only this module builds
//! well-known URLs.

use alloc::{format, string::String, vec::Vec};

use super::url::Url;

/// The kind of a metadata document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Protected resource metadata (RFC 9728).
    ProtectedResource,
    /// Authorization server metadata (RFC 8414).
    AuthorizationServer,
    /// The metadata of an OpenID provider (OpenID Connect Discovery 1.0).
    OpenIdProvider,
}

/// A URL at which a document may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The URL.
    pub url: Url,
    /// The kind of the document.
    pub kind: Kind,
}

const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";
const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// Returns the candidates for the protected resource metadata of a server, in the order of the requests: the URL that
/// the challenge names, the well-known URL with the path of the server, and the well-known URL at the root.
///
/// `challenged` is the [`resource_metadata`](super::Challenge::resource_metadata) of a challenge, after it has passed
/// the [policy](super::UrlPolicy).
///
/// See RFC 9728, section 3.1; specification, Protected Resource Metadata Discovery Requirements.
#[must_use]
pub fn protected_resource(server: &Url, challenged: Option<&Url>) -> Vec<Candidate> {
    let path = server.path().strip_suffix('/').unwrap_or(server.path());
    let query = server.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut found = Candidates::default();
    if let Some(url) = challenged {
        found.add(Some(url.clone()), Kind::ProtectedResource);
    }
    found.at(server, &format!("{PROTECTED_RESOURCE}{path}{query}"), Kind::ProtectedResource);
    found.at(server, PROTECTED_RESOURCE, Kind::ProtectedResource);
    found.0
}

/// Returns the candidates for the metadata of an authorization server, in the order of the requests.
///
/// For an issuer with a path: RFC 8414 with the well-known part before the path, OpenID Connect with it before the
/// path, and OpenID Connect with it after the path. For one without: RFC 8414, and OpenID Connect.
///
/// See RFC 8414, section 3.1; specification, Authorization Server Metadata Discovery.
#[must_use]
pub fn authorization_server(issuer: &Url) -> Vec<Candidate> {
    let path = issuer.path().strip_suffix('/').unwrap_or(issuer.path());
    let mut found = Candidates::default();
    found.at(issuer, &format!("{AUTHORIZATION_SERVER}{path}"), Kind::AuthorizationServer);
    found.at(issuer, &format!("{OPENID}{path}"), Kind::OpenIdProvider);
    if !path.is_empty() {
        found.at(issuer, &format!("{path}{OPENID}"), Kind::OpenIdProvider);
    }
    found.0
}

/// Returns the authorization base URL of 2025-03-26: the URL of the server without its path.
///
/// In that revision the server is its own authorization server. Clients of later revisions fall back to it for a server
/// without protected resource metadata.
///
/// # Panics
/// Does not: a URL without its path is one.
#[must_use]
pub fn authorization_base(server: &Url) -> Url {
    server.with_path("").expect("it is shorter than the URL of the server")
}

/// Returns the candidates for the metadata of an authorization server of 2025-03-26: directly below its base URL.
#[must_use]
pub fn of_2025_03_26(server: &Url) -> Vec<Candidate> {
    let mut found = Candidates::default();
    found.at(server, AUTHORIZATION_SERVER, Kind::AuthorizationServer);
    found.0
}

/// The endpoints of an authorization server of 2025-03-26 that has no metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultEndpoints {
    /// `/authorize`
    pub authorization: Url,
    /// `/token`
    pub token: Url,
    /// `/register`
    pub registration: Url,
}

/// Returns the default endpoints of 2025-03-26, below the authorization base URL.
///
/// They are used after none of [its candidates](of_2025_03_26) was found, and not after a temporary failure.
///
/// # Panics
/// Does not, as [`authorization_base`].
#[must_use]
pub fn default_endpoints(server: &Url) -> DefaultEndpoints {
    let at = |path| server.with_path(path).expect("it is a short path of an origin");
    DefaultEndpoints { authorization: at("/authorize"), token: at("/token"), registration: at("/register") }
}

#[derive(Default)]
struct Candidates(Vec<Candidate>);

impl Candidates {
    fn at(&mut self, origin: &Url, path: &str, kind: Kind) {
        self.add(origin.with_path(path).ok(), kind);
    }

    /// Adds a URL, unless it is there already or longer than URLs are.
    fn add(&mut self, url: Option<Url>, kind: Kind) {
        if let Some(url) = url
            && self.0.iter().all(|known| known.url != url)
        {
            self.0.push(Candidate { url, kind });
        }
    }
}

/// The result of a request for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt<T, E> {
    /// The document.
    Found(T),
    /// There is no document at this candidate, but a client error (4xx) or a body that is no JSON object. The next
    /// candidate is requested.
    NotHere(E),
    /// The document at this candidate must not be used: it belongs to another resource or issuer, has missing or
    /// invalid members, is too long, or its URL is not followed. The next candidate is requested. The default endpoints
    /// of a server without metadata are not assumed.
    Refused(E),
    /// The request failed for a reason that may be temporary. The next candidate is requested. If no other candidate
    /// has a document, the document may still exist.
    Transient(String),
}

/// Decides between attempts at all candidates.
///
/// # Errors
/// [`NotFound::Missing`] if no candidate has a document, [`NotFound::Refused`] if one must not be used, and
/// [`NotFound::Transient`] if a request failed, so that the document may exist.
pub fn conclude<T, E>(attempts: impl IntoIterator<Item = Attempt<T, E>>) -> Result<T, NotFound<E>> {
    let mut reasons = Vec::new();
    let (mut refused, mut transient) = (None, None);
    for attempt in attempts {
        match attempt {
            Attempt::Found(found) => return Ok(found),
            Attempt::NotHere(reason) => reasons.push(reason),
            Attempt::Refused(reason) => refused = refused.or(Some(reason)),
            Attempt::Transient(reason) => transient = transient.or(Some(reason)),
        }
    }
    Err(match (refused, transient) {
        (Some(reason), _) => NotFound::Refused(reason),
        (None, Some(reason)) => NotFound::Transient(reason),
        (None, None) => NotFound::Missing(reasons),
    })
}

/// The reason why a document was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound<E> {
    /// No candidate has a document. The reasons are in the order of the candidates.
    Missing(Vec<E>),
    /// A document must not be used, for this reason.
    Refused(E),
    /// A request failed, with the first reason. Discovery can be repeated later.
    Transient(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn shown(candidates: &[Candidate]) -> Vec<&str> {
        candidates.iter().map(|candidate| candidate.url.as_str()).collect()
    }

    // req: AUTH-034 M-AUTH-007
    #[test]
    fn lists_resource_metadata_candidates() {
        let table: [(&str, &[&str]); 8] = [
            ("https://a.example", &["https://a.example/.well-known/oauth-protected-resource"]),
            ("https://a.example/", &["https://a.example/.well-known/oauth-protected-resource"]),
            (
                "https://a.example/mcp",
                &[
                    "https://a.example/.well-known/oauth-protected-resource/mcp",
                    "https://a.example/.well-known/oauth-protected-resource",
                ],
            ),
            (
                "https://a.example/mcp/",
                &[
                    "https://a.example/.well-known/oauth-protected-resource/mcp",
                    "https://a.example/.well-known/oauth-protected-resource",
                ],
            ),
            (
                "https://a.example:8443/one/two",
                &[
                    "https://a.example:8443/.well-known/oauth-protected-resource/one/two",
                    "https://a.example:8443/.well-known/oauth-protected-resource",
                ],
            ),
            (
                "http://127.0.0.1:3000/mcp?tenant=1",
                &[
                    "http://127.0.0.1:3000/.well-known/oauth-protected-resource/mcp?tenant=1",
                    "http://127.0.0.1:3000/.well-known/oauth-protected-resource",
                ],
            ),
            (
                "https://a.example/a%20b",
                &[
                    "https://a.example/.well-known/oauth-protected-resource/a%20b",
                    "https://a.example/.well-known/oauth-protected-resource",
                ],
            ),
            (
                "HTTPS://A.example:443/mcp",
                &[
                    "https://a.example/.well-known/oauth-protected-resource/mcp",
                    "https://a.example/.well-known/oauth-protected-resource",
                ],
            ),
        ];
        for (server, expected) in table {
            assert_eq!(shown(&protected_resource(&url(server), None)), expected, "{server}");
        }
    }

    // req: AUTH-033 M-AUTH-006
    #[test]
    fn challenge_metadata_url_is_the_first_candidate() {
        let named = url("https://b.example/metadata");
        let candidates = protected_resource(&url("https://a.example/mcp"), Some(&named));
        assert_eq!(shown(&candidates)[0], "https://b.example/metadata");
        assert_eq!(candidates.len(), 3);
        let usual = url("https://a.example/.well-known/oauth-protected-resource/mcp");
        assert_eq!(protected_resource(&url("https://a.example/mcp"), Some(&usual)).len(), 2, "each once");
    }

    // req: AUTH-040 AUTH-041 AUTH-042 M-AUTH-009 M-AUTH-010
    #[test]
    fn lists_server_metadata_candidates() {
        let table: [(&str, &[&str]); 5] = [
            (
                "https://as.example",
                &[
                    "https://as.example/.well-known/oauth-authorization-server",
                    "https://as.example/.well-known/openid-configuration",
                ],
            ),
            (
                "https://as.example/",
                &[
                    "https://as.example/.well-known/oauth-authorization-server",
                    "https://as.example/.well-known/openid-configuration",
                ],
            ),
            (
                "https://as.example/tenant",
                &[
                    "https://as.example/.well-known/oauth-authorization-server/tenant",
                    "https://as.example/.well-known/openid-configuration/tenant",
                    "https://as.example/tenant/.well-known/openid-configuration",
                ],
            ),
            (
                "https://as.example/tenant/",
                &[
                    "https://as.example/.well-known/oauth-authorization-server/tenant",
                    "https://as.example/.well-known/openid-configuration/tenant",
                    "https://as.example/tenant/.well-known/openid-configuration",
                ],
            ),
            (
                "https://as.example:8443/a/b",
                &[
                    "https://as.example:8443/.well-known/oauth-authorization-server/a/b",
                    "https://as.example:8443/.well-known/openid-configuration/a/b",
                    "https://as.example:8443/a/b/.well-known/openid-configuration",
                ],
            ),
        ];
        for (issuer, expected) in table {
            let candidates = authorization_server(&url(issuer));
            assert_eq!(shown(&candidates), expected, "{issuer}");
            assert_eq!(candidates[0].kind, Kind::AuthorizationServer);
            assert!(candidates[1..].iter().all(|candidate| candidate.kind == Kind::OpenIdProvider));
        }
    }

    // req: AUTH-004 AUTH-005 AUTH-007
    #[test]
    fn server_of_2025_03_26_authorizes_itself() {
        let server = url("https://api.example/v1/mcp?x=1");
        assert_eq!(authorization_base(&server).as_str(), "https://api.example");
        assert_eq!(shown(&of_2025_03_26(&server)), ["https://api.example/.well-known/oauth-authorization-server"]);
        let endpoints = default_endpoints(&server);
        assert_eq!(endpoints.authorization.as_str(), "https://api.example/authorize");
        assert_eq!(endpoints.token.as_str(), "https://api.example/token");
        assert_eq!(endpoints.registration.as_str(), "https://api.example/register");
    }

    #[test]
    fn overlong_path_omits_its_candidate() {
        let long = url(&["https://a.example/", &"x".repeat(Url::MAX_LEN - 18)].concat());
        assert_eq!(shown(&protected_resource(&long, None)), ["https://a.example/.well-known/oauth-protected-resource"]);
        assert_eq!(authorization_base(&long).as_str(), "https://a.example");
    }

    #[test]
    fn concludes_every_combination_of_attempts() {
        use Attempt::{Found, NotHere, Refused, Transient};
        let attempts: [Attempt<u8, &str>; 6] = [
            Found(1),
            NotHere("html"),
            NotHere("404"),
            Refused("another resource"),
            Transient("500".into()),
            Transient("time".into()),
        ];
        for one in &attempts {
            for two in &attempts {
                for three in &attempts {
                    let all = vec![one.clone(), two.clone(), three.clone()];
                    let has = |is_it: fn(&Attempt<u8, &str>) -> bool| all.iter().any(is_it);
                    let (is_found, is_refused) = (has(|it| *it == Found(1)), has(|it| matches!(it, Refused(_))));
                    let is_transient = has(|it| matches!(it, Transient(_)));
                    match conclude(all.clone()) {
                        Ok(found) => assert!(found == 1 && is_found, "{all:?}"),
                        Err(NotFound::Refused(_)) => assert!(is_refused && !is_found, "{all:?}"),
                        Err(NotFound::Transient(_)) => assert!(is_transient && !is_refused && !is_found, "{all:?}"),
                        Err(NotFound::Missing(reasons)) => {
                            assert!(reasons.len() == 3 && !is_transient && !is_refused && !is_found, "{all:?}");
                        }
                    }
                }
            }
        }
        assert_eq!(conclude(Vec::<Attempt<u8, u8>>::new()), Err(NotFound::Missing(Vec::new())));
    }
}
