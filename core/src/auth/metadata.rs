//! The metadata of protected servers (RFC 9728) and of authorization servers (RFC 8414, OpenID Connect Discovery).

use alloc::{string::String, vec::Vec};

use super::{
    auth_method::AuthMethod,
    document::{Document, DocumentError, Member},
    pkce::CodeVerifier,
    scope::Scopes,
    url::{Url, covers},
};

/// The metadata of a protected server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedResource {
    /// The identifier of the resource, byte for byte: the `resource` parameter of authorization and token requests.
    pub resource: Url,
    /// The issuers of the authorization servers that the resource accepts, in its order; at least one.
    pub authorization_servers: Vec<Url>,
    /// The scopes that are used with the resource.
    pub scopes_supported: Option<Scopes>,
    /// Whether tokens have to be bound with DPoP (RFC 9449).
    pub dpop_required: bool,
}

impl ProtectedResource {
    /// Reads the metadata of the server at `server`.
    ///
    /// # Errors
    /// Returns the reason if the document is not used. For metadata of another resource it is
    /// [`DocumentError::Mismatch`].
    pub fn parse(body: &[u8], server: &Url) -> Result<Self, DocumentError> {
        let document = Document::parse(body)?;
        let [resource, servers, scopes, dpop] = document.members([
            "resource",
            "authorization_servers",
            "scopes_supported",
            "dpop_bound_access_tokens_required",
        ])?;
        let url = resource.needed_url()?;
        if !covers(&url, server) {
            return Err(DocumentError::Mismatch("resource"));
        }
        let issuers = servers.texts()?.filter(|issuers| !issuers.is_empty());
        let issuers = issuers.ok_or(DocumentError::Missing("authorization_servers"))?;
        // An invalid URL does not invalidate the others.
        let mut error = None;
        let parse = |issuer: &String| Url::parse(issuer).map_err(|why| error = error.or(Some(why))).ok();
        let authorization_servers: Vec<_> = issuers.iter().filter_map(parse).collect();
        if let (true, Some(error)) = (authorization_servers.is_empty(), error) {
            return Err(DocumentError::Url("authorization_servers", error));
        }
        Ok(Self {
            resource: url,
            authorization_servers,
            // A malformed or overlong list that is only advice does not invalidate the document.
            scopes_supported: scopes.scopes().unwrap_or_default(),
            dpop_required: dpop.flag()?,
        })
    }
}

/// The metadata of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationServer {
    /// The issuer, byte for byte.
    pub issuer: String,
    /// The authorization endpoint; `None` if the server has only grants without users.
    pub authorization_endpoint: Option<Url>,
    /// The token endpoint.
    pub token_endpoint: Url,
    /// The registration endpoint (RFC 7591).
    pub registration_endpoint: Option<Url>,
    /// The revocation endpoint (RFC 7009).
    pub revocation_endpoint: Option<Url>,
    /// The scopes that the server knows.
    pub scopes_supported: Option<Scopes>,
    /// The authentication methods of the token endpoint. Where the member is missing: `client_secret_basic`.
    pub token_endpoint_auth_methods: Vec<String>,
    /// The algorithms of assertions of clients at the token endpoint.
    pub token_endpoint_auth_algorithms: Vec<String>,
    /// The grants that the server has. Where the member is missing: `authorization_code` and `implicit`.
    pub grant_types: Vec<String>,
    /// The methods of code challenges. `None` if the member is missing: the server then does not support PKCE.
    pub code_challenge_methods: Option<Vec<String>>,
    /// Whether authorization responses have an `iss` (RFC 9207).
    pub has_iss: bool,
    /// Whether the identifier of a client may be the URL of its metadata.
    pub takes_metadata_documents: bool,
    /// The algorithms of DPoP proofs (RFC 9449).
    pub dpop_algorithms: Vec<String>,
}

impl AuthorizationServer {
    /// Reads the metadata of the authorization server with this issuer.
    ///
    /// `issuer` is the text from which the URL of the document was made. The issuer that the document names is compared
    /// with it byte for byte.
    ///
    /// # Errors
    /// Returns the reason if the document is not used. For metadata of another issuer it is
    /// [`DocumentError::Mismatch`].
    pub fn parse(body: &[u8], issuer: &str) -> Result<Self, DocumentError> {
        Self::parse_any(body, &[issuer])
    }

    /// Reads the metadata of an authorization server with one of these issuers.
    pub(super) fn parse_any(body: &[u8], issuers: &[&str]) -> Result<Self, DocumentError> {
        let document = Document::parse(body)?;
        let [name, authorization, token, registration, revocation, scopes] = document.members([
            "issuer",
            "authorization_endpoint",
            "token_endpoint",
            "registration_endpoint",
            "revocation_endpoint",
            "scopes_supported",
        ])?;
        let [methods, algorithms, grants, challenges, iss, documents, dpop] = document.members([
            "token_endpoint_auth_methods_supported",
            "token_endpoint_auth_signing_alg_values_supported",
            "grant_types_supported",
            "code_challenge_methods_supported",
            "authorization_response_iss_parameter_supported",
            "client_id_metadata_document_supported",
            "dpop_signing_alg_values_supported",
        ])?;
        let issuer = name.needed_text()?;
        if !issuers.contains(&&*issuer) {
            return Err(DocumentError::Mismatch("issuer"));
        }
        // Malformed or overlong lists that are only advice do not invalidate the document.
        let advice = |list: &Member| list.texts().unwrap_or_default();
        Ok(Self {
            issuer,
            authorization_endpoint: authorization.url()?,
            token_endpoint: token.needed_url()?,
            registration_endpoint: registration.url()?,
            revocation_endpoint: revocation.url()?,
            scopes_supported: scopes.scopes().unwrap_or_default(),
            token_endpoint_auth_methods: methods.texts()?.unwrap_or_else(|| ["client_secret_basic".into()].into()),
            token_endpoint_auth_algorithms: advice(&algorithms).unwrap_or_default(),
            grant_types: advice(&grants).unwrap_or_else(|| ["authorization_code".into(), "implicit".into()].into()),
            code_challenge_methods: challenges.texts()?,
            has_iss: iss.flag()?,
            takes_metadata_documents: documents.flag()?,
            dpop_algorithms: advice(&dpop).unwrap_or_default(),
        })
    }

    /// Describes a server of which only these endpoints are known.
    pub(super) const fn with_token_endpoint(issuer: String, token_endpoint: Url) -> Self {
        Self {
            issuer,
            authorization_endpoint: None,
            token_endpoint,
            registration_endpoint: None,
            revocation_endpoint: None,
            scopes_supported: None,
            token_endpoint_auth_methods: Vec::new(),
            token_endpoint_auth_algorithms: Vec::new(),
            grant_types: Vec::new(),
            code_challenge_methods: None,
            has_iss: false,
            takes_metadata_documents: false,
            dpop_algorithms: Vec::new(),
        }
    }

    /// Returns whether the server supports the code challenges that the client makes. Without them, a client stops the
    /// authorization (specification, Authorization Code Protection).
    #[must_use]
    pub fn has_s256(&self) -> bool {
        self.code_challenge_methods.iter().flatten().any(|method| method == CodeVerifier::METHOD)
    }

    /// Returns whether clients may authenticate with this method at the token endpoint.
    #[must_use]
    pub fn has_auth_method(&self, method: AuthMethod) -> bool {
        self.token_endpoint_auth_methods.iter().any(|name| name == method.as_str())
    }

    /// Returns every URL that the document names, with the name of its member, for the [policy](super::UrlPolicy).
    pub fn urls(&self) -> impl Iterator<Item = (&'static str, &Url)> {
        [
            ("authorization_endpoint", self.authorization_endpoint.as_ref()),
            ("token_endpoint", Some(&self.token_endpoint)),
            ("registration_endpoint", self.registration_endpoint.as_ref()),
            ("revocation_endpoint", self.revocation_endpoint.as_ref()),
        ]
        .into_iter()
        .filter_map(|(name, url)| Some((name, url?)))
    }
}

#[cfg(test)]
mod tests {
    use alloc::{
        format,
        string::{String, ToString},
        vec,
    };

    use super::{super::url::UrlError, *};

    const SERVER: &str = "https://mcp.example/mcp";

    fn resource(body: &str) -> Result<ProtectedResource, DocumentError> {
        ProtectedResource::parse(body.as_bytes(), &Url::parse(SERVER).expect("a URL"))
    }

    // req: AUTH-027 AUTH-028
    #[test]
    fn reads_authorization_servers_of_a_resource() {
        let body = r#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example","https://b.example/t/"],
            "scopes_supported":["a","b"],"bearer_methods_supported":["header"],"dpop_bound_access_tokens_required":true}"#;
        let metadata = resource(body).expect("good metadata");
        assert_eq!(metadata.resource.as_str(), SERVER);
        let issuers: Vec<_> = metadata.authorization_servers.iter().map(Url::as_str).collect();
        assert_eq!(issuers, ["https://as.example", "https://b.example/t/"]);
        assert_eq!(metadata.scopes_supported.map(|scopes| scopes.to_string()).as_deref(), Some("a b"));
        assert!(metadata.dpop_required);
    }

    #[test]
    fn metadata_of_a_resource_are_checked() {
        let with =
            |resource: &str, servers: &str| format!(r#"{{"resource":"{resource}","authorization_servers":{servers}}}"#);
        let good = r#"["https://as.example"]"#;
        for covering in [SERVER, "https://mcp.example/mcp/", "https://mcp.example", "https://mcp.example/"] {
            let metadata = resource(&with(covering, good)).expect(covering);
            assert_eq!(metadata.resource.as_str(), covering, "byte for byte");
        }
        for (body, error) in [
            ("<html>".to_string(), DocumentError::NotAnObject),
            (r#"{"authorization_servers":["https://as.example"]}"#.to_string(), DocumentError::Missing("resource")),
            (with("https://evil.example/mcp", good), DocumentError::Mismatch("resource")),
            (with("https://mcp.example/mcpx", good), DocumentError::Mismatch("resource")),
            (with(SERVER, "[]"), DocumentError::Missing("authorization_servers")),
            (with(SERVER, "null"), DocumentError::Missing("authorization_servers")),
            (with(SERVER, r#""https://as.example""#), DocumentError::Invalid("authorization_servers")),
            (with(SERVER, r#"["javascript:alert(1)"]"#), DocumentError::Url("authorization_servers", UrlError::Scheme)),
            (
                format!(r#"{{"resource":"{SERVER}","resource":"{SERVER}","authorization_servers":{good}}}"#),
                DocumentError::Duplicate("resource"),
            ),
        ] {
            assert_eq!(resource(&body), Err(error), "{body}");
        }
    }

    fn server(members: &str) -> Result<AuthorizationServer, DocumentError> {
        let body = format!(r#"{{"issuer":"https://as.example","token_endpoint":"https://as.example/token"{members}}}"#);
        AuthorizationServer::parse(body.as_bytes(), "https://as.example")
    }

    #[test]
    fn authorization_server_metadata_has_defaults() {
        let metadata = server("").expect("good metadata");
        assert_eq!(metadata.token_endpoint_auth_methods, ["client_secret_basic"]);
        assert_eq!(metadata.grant_types, ["authorization_code", "implicit"]);
        assert_eq!(metadata.authorization_endpoint, None);
        assert!(!metadata.has_iss && !metadata.takes_metadata_documents && !metadata.has_s256());
        assert_eq!(metadata.urls().count(), 1);
        let full = server(
            r#","authorization_endpoint":"https://as.example/a","registration_endpoint":"https://as.example/r",
            "revocation_endpoint":"https://as.example/v","authorization_response_iss_parameter_supported":true,
            "client_id_metadata_document_supported":true,"grant_types_supported":["refresh_token"],
            "token_endpoint_auth_methods_supported":["none"],"code_challenge_methods_supported":["plain","S256"]"#,
        );
        let full = full.expect("good metadata");
        assert!(full.has_iss && full.takes_metadata_documents && full.has_s256());
        assert_eq!(
            (full.grant_types, full.token_endpoint_auth_methods),
            (vec!["refresh_token".into()], vec!["none".into()])
        );
    }

    #[test]
    fn malformed_advisory_list_does_not_refuse_the_metadata() {
        let many = format!("[{}]", (0..257).map(|index| format!("\"s{index}\"")).collect::<Vec<_>>().join(","));
        for list in [&*many, r#"["a b"]"#, r#"["\u0000"]"#, r#""a""#, "[1]", "{}"] {
            let body = format!(
                r#"{{"resource":"{SERVER}","authorization_servers":["https://as.example"],"scopes_supported":{list}}}"#
            );
            assert_eq!(resource(&body).expect(list).scopes_supported, None, "{list}");
            assert_eq!(server(&format!(r#","scopes_supported":{list}"#)).expect(list).scopes_supported, None, "{list}");
        }
        for list in [&*many, r#""a""#, "[1]", r#"[""]"#] {
            let metadata = server(&format!(
                r#","grant_types_supported":{list},"dpop_signing_alg_values_supported":{list},
                "token_endpoint_auth_signing_alg_values_supported":{list}"#
            ));
            let metadata = metadata.expect(list);
            assert_eq!(metadata.grant_types, ["authorization_code", "implicit"]);
            assert!(metadata.dpop_algorithms.is_empty() && metadata.token_endpoint_auth_algorithms.is_empty());
        }
        // What the client decides by is needed.
        for name in ["code_challenge_methods_supported", "token_endpoint_auth_methods_supported"] {
            assert_eq!(server(&format!(r#","{name}":"S256""#)), Err(DocumentError::Invalid(name)));
        }
    }

    // req: AUTH-065 M-AUTH-046
    #[test]
    fn detects_missing_s256() {
        for (members, expected) in [
            ("", false),
            (r#","code_challenge_methods_supported":null"#, false),
            (r#","code_challenge_methods_supported":[]"#, false),
            (r#","code_challenge_methods_supported":["plain"]"#, false),
            (r#","code_challenge_methods_supported":["s256"]"#, false),
            (r#","code_challenge_methods_supported":["S256"]"#, true),
        ] {
            assert_eq!(server(members).expect(members).has_s256(), expected, "{members}");
        }
    }

    // req: M-AUTH-011
    #[test]
    fn an_issuer_is_compared_byte_for_byte() {
        let body = |issuer: &str| format!(r#"{{"issuer":"{issuer}","token_endpoint":"https://as.example/token"}}"#);
        let names = [
            "https://as.example",
            "https://as.example/",
            "https://AS.example",
            "https://as.example:443",
            "https://as.example/t",
        ];
        for issuer in names {
            for other in names {
                let result = AuthorizationServer::parse(body(other).as_bytes(), issuer);
                let expected =
                    if issuer == other { Ok(issuer.to_string()) } else { Err(DocumentError::Mismatch("issuer")) };
                assert_eq!(result.map(|metadata| metadata.issuer), expected);
            }
        }
    }

    #[test]
    fn endpoints_are_urls() {
        for name in ["authorization_endpoint", "registration_endpoint", "revocation_endpoint"] {
            for (url, error) in [
                ("javascript:alert(1)", UrlError::Scheme),
                ("-flag", UrlError::Syntax),
                ("$(touch x)", UrlError::Syntax),
                ("file:///etc/passwd", UrlError::Scheme),
                ("https://a b.example/", UrlError::Syntax),
            ] {
                let result = server(&format!(r#","{name}":"{url}""#)).map(|_| String::new());
                assert_eq!(result, Err(DocumentError::Url(name, error)), "{name}: {url}");
            }
        }
    }
}
