//! The metadata of a protected server (RFC 9728), and the challenges to its clients (RFC 6750).

use alloc::{borrow::ToOwned, collections::BTreeMap, string::String, vec::Vec};
use core::fmt::Write as _;

use super::{
    bearer::{BearerError, TokenScheme},
    discovery,
    scope::Scopes,
    url::{Url, canonical},
};
use crate::wire::quote;

/// The metadata that a protected server publishes, and the scopes of its tokens.
///
/// Everything is configured, and nothing is derived from a request: a proxy may have changed its host and its path.
#[derive(Clone, Debug)]
pub struct ResourceMetadata {
    /// The public URL of the endpoint.
    url: Url,
    /// The identifier of the resource.
    resource: String,
    issuers: Vec<Url>,
    name: Option<String>,
    documentation: Option<Url>,
    /// The scopes that every request needs.
    required: Scopes,
    /// Further scopes that clients can ask for.
    supported: Scopes,
    /// The scopes that a scope includes.
    implied: BTreeMap<String, Scopes>,
    /// The algorithms of proofs. There are none if tokens are accepted without proofs only.
    proof_algorithms: Vec<String>,
    /// Whether tokens that are not bound to a key are refused.
    needs_proofs: bool,
}

impl ResourceMetadata {
    /// Creates the metadata of a server that is reached at `url`, and accepts tokens of the authorization server
    /// `issuer`. The identifier of the resource is the [canonical URI](canonical) of `url`.
    #[must_use]
    pub fn new(url: Url, issuer: Url) -> Self {
        Self {
            resource: canonical(&url),
            url,
            issuers: Vec::from([issuer]),
            name: None,
            documentation: None,
            required: Scopes::default(),
            supported: Scopes::default(),
            implied: BTreeMap::new(),
            proof_algorithms: Vec::new(),
            needs_proofs: false,
        }
    }

    /// Adds another authorization server, after those that are there.
    #[must_use]
    pub fn issuer(mut self, issuer: Url) -> Self {
        self.issuers.push(issuer);
        self
    }

    /// Sets the name for users.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the URL of a page for developers.
    #[must_use]
    pub fn documentation(mut self, url: Url) -> Self {
        self.documentation = Some(url);
        self
    }

    /// Sets the scopes that every request needs. Challenges name them.
    #[must_use]
    pub fn required_scopes(mut self, scopes: Scopes) -> Self {
        self.required = scopes;
        self
    }

    /// Sets further scopes that clients can ask for, for the list `scopes_supported`. Clients without a challenge ask
    /// for all of them.
    #[must_use]
    pub fn supported_scopes(mut self, scopes: Scopes) -> Self {
        self.supported = scopes;
        self
    }

    /// Declares that a scope includes others: a token with `scope` has them as well.
    #[must_use]
    pub fn implies(mut self, scope: &str, included: Scopes) -> Self {
        self.implied.insert(scope.to_owned(), included);
        self
    }

    /// Sets the algorithms of the proofs (DPoP) for tokens that are bound to a key. Invalid names of algorithms are
    /// left out.
    #[must_use]
    pub fn proof_algorithms<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        // Challenges quote them.
        let is_name = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        self.proof_algorithms = names.into_iter().filter(is_name).map(ToOwned::to_owned).collect();
        self
    }

    /// Refuses tokens that are not bound to a key.
    #[must_use]
    pub const fn needs_proofs(mut self) -> Self {
        self.needs_proofs = true;
        self
    }

    /// Returns whether tokens that are not bound to a key are refused.
    #[must_use]
    pub const fn has_proofs_only(&self) -> bool {
        self.needs_proofs
    }

    /// Returns the public URL of the endpoint.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the identifier of the resource, which is the audience of its tokens.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the issuers of the tokens that it accepts.
    #[must_use]
    pub fn issuers(&self) -> &[Url] {
        &self.issuers
    }

    /// Returns the scopes of a token together with those that they include, as far as they fit into a set.
    #[must_use]
    pub fn granted(&self, scopes: &Scopes) -> Scopes {
        let mut granted = scopes.clone();
        // Each round adds a scope or is the last, and a set is bounded.
        loop {
            let with_included = |all: Scopes, scope| match self.implied.get(scope) {
                Some(included) => all.union(included),
                None => Some(all),
            };
            let all = granted.iter().try_fold(granted.clone(), with_included);
            let Some(all) = all else { return granted };
            if all == granted {
                return granted;
            }
            granted = all;
        }
    }

    /// Returns whether these scopes include all that every request needs.
    #[must_use]
    pub fn is_enough(&self, granted: &Scopes) -> bool {
        granted.has_all(&self.required)
    }

    /// Returns the document (RFC 9728, section 2), as JSON.
    #[must_use]
    pub fn document(&self) -> Vec<u8> {
        let mut out = b"{".to_vec();
        text(&mut out, "resource", &self.resource);
        list(&mut out, "authorization_servers", self.issuers.iter().map(Url::as_str));
        let scopes = named(self.required.union(&self.supported).unwrap_or_else(|| self.required.clone()));
        if !scopes.is_empty() {
            list(&mut out, "scopes_supported", scopes.iter());
        }
        list(&mut out, "bearer_methods_supported", ["header"].into_iter());
        if !self.proof_algorithms.is_empty() {
            list(&mut out, "dpop_signing_alg_values_supported", self.proof_algorithms.iter().map(|name| &**name));
        }
        if self.needs_proofs {
            member(&mut out, "dpop_bound_access_tokens_required");
            out.extend_from_slice(b"true");
        }
        if let Some(name) = &self.name {
            text(&mut out, "resource_name", name);
        }
        if let Some(url) = &self.documentation {
            text(&mut out, "resource_documentation", url.as_str());
        }
        out.push(b'}');
        out
    }

    /// Returns the paths at which the document is served: the well-known path with the path of the endpoint, and the
    /// well-known path at the root.
    pub fn paths(&self) -> impl Iterator<Item = String> {
        discovery::protected_resource(&self.url, None).into_iter().map(|candidate| candidate.url.path().to_owned())
    }

    /// Returns the URL of the document, for challenges.
    fn document_url(&self) -> String {
        let candidates = discovery::protected_resource(&self.url, None);
        candidates.first().map(|candidate| candidate.url.as_str().to_owned()).unwrap_or_default()
    }

    /// Returns the challenges, which are a value of `WWW-Authenticate`. They name the scopes that every request needs,
    /// and `needed`. An `error` is for a client that has sent a token.
    ///
    /// There is a challenge for each scheme that is accepted, with the error.
    #[must_use]
    pub fn challenge(&self, error: Option<&BearerError>, needed: &Scopes) -> String {
        self.challenges(error, None, needed)
    }

    /// Returns the challenges to a client that has sent a token with a scheme. If it was `DPoP`, only its challenge is
    /// returned; otherwise all are, and the challenge of that scheme has the error.
    #[must_use]
    pub fn challenge_to(&self, scheme: TokenScheme, error: &BearerError, needed: &Scopes) -> String {
        self.challenges(Some(error), Some(scheme), needed)
    }

    fn challenges(&self, error: Option<&BearerError>, used: Option<TokenScheme>, needed: &Scopes) -> String {
        let has_dpop = !self.proof_algorithms.is_empty();
        let has_bearer = !has_dpop || !self.needs_proofs && used != Some(TokenScheme::Dpop);
        let mut out = String::new();
        if has_bearer {
            self.push_challenge(&mut out, "Bearer ", error, needed);
        }
        if has_dpop {
            let separator = if has_bearer { ", DPoP " } else { "DPoP " };
            let is_for_dpop = !has_bearer || used != Some(TokenScheme::Bearer);
            self.push_challenge(&mut out, separator, error.filter(|_| is_for_dpop), needed);
            let _ = write!(out, ", algs=\"{}\"", self.proof_algorithms.join(" "));
        }
        out
    }

    fn push_challenge(&self, out: &mut String, scheme: &str, error: Option<&BearerError>, needed: &Scopes) {
        out.push_str(scheme);
        if let Some(error) = error {
            let _ = write!(out, "error=\"{}\", ", error.code());
            if let BearerError::InvalidToken(why) | BearerError::InvalidProof(why) = error {
                let _ = write!(out, "error_description=\"{}\", ", quotable(why));
            }
        }
        let scopes = named(self.required.union(needed).unwrap_or_else(|| needed.clone()));
        if !scopes.is_empty() {
            let _ = write!(out, "scope=\"{scopes}\", ");
        }
        let _ = write!(out, "resource_metadata=\"{}\"", self.document_url());
    }
}

/// Returns the scopes that challenges and metadata name: all except `offline_access`, because the client and the
/// authorization server decide about refresh tokens.
fn named(scopes: Scopes) -> Scopes {
    if !scopes.has("offline_access") {
        return scopes;
    }
    Scopes::of(scopes.iter().filter(|scope| *scope != "offline_access")).unwrap_or_default()
}

/// Returns a text with the characters that a quoted description can have (RFC 6750, section 3).
fn quotable(text: &str) -> String {
    text.chars().filter(|char| matches!(char, ' '..='~') && !matches!(char, '"' | '\\')).take(200).collect()
}

fn member(out: &mut Vec<u8>, name: &str) {
    if out.len() > 1 {
        out.push(b',');
    }
    quote(out, name);
    out.push(b':');
}

fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    member(out, name);
    quote(out, value);
}

fn list<'a>(out: &mut Vec<u8>, name: &str, values: impl Iterator<Item = &'a str>) {
    member(out, name);
    out.push(b'[');
    for (index, value) in values.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        quote(out, value);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{challenge::Challenge, metadata::ProtectedResource};
    use alloc::{format, string::ToString, vec};

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn scopes(text: &str) -> Scopes {
        Scopes::parse(text).expect(text)
    }

    fn metadata(server: &str) -> ResourceMetadata {
        ResourceMetadata::new(url(server), url("https://auth.example/"))
    }

    // req: M-AUTH-053
    #[test]
    fn offline_access_is_not_advertised() {
        let server = metadata("https://mcp.example/mcp")
            .required_scopes(scopes("offline_access a"))
            .supported_scopes(scopes("b offline_access"));
        let document = String::from_utf8(server.document()).expect("text");
        assert!(document.contains(r#""scopes_supported":["a","b"]"#), "{document}");
        let challenge = server.challenge(None, &scopes("offline_access c"));
        assert!(challenge.contains(r#"scope="a c""#), "{challenge}");
    }

    // req: AUTH-025 AUTH-026 AUTH-054 M-AUTH-003 M-AUTH-004
    #[test]
    fn document_has_all_metadata() {
        let server = metadata("HTTPS://MCP.example:443/mcp")
            .issuer(url("https://other.example/tenant"))
            .name("A \"server\"")
            .documentation(url("https://mcp.example/docs"))
            .required_scopes(scopes("mcp"))
            .supported_scopes(scopes("files:write mcp"));
        assert_eq!(
            String::from_utf8(server.document()).expect("text"),
            concat!(
                r#"{"resource":"https://mcp.example/mcp","#,
                r#""authorization_servers":["https://auth.example/","https://other.example/tenant"],"#,
                r#""scopes_supported":["mcp","files:write"],"bearer_methods_supported":["header"],"#,
                r#""resource_name":"A \"server\"","resource_documentation":"https://mcp.example/docs"}"#
            )
        );
        assert_eq!(
            (server.resource(), server.url().as_str()),
            ("https://mcp.example/mcp", "HTTPS://MCP.example:443/mcp")
        );
        let issuers: Vec<_> = server.issuers().iter().map(Url::as_str).collect();
        assert_eq!(issuers, ["https://auth.example/", "https://other.example/tenant"]);
        // A client of ours believes it.
        let read = ProtectedResource::parse(&server.document(), &url("https://mcp.example/mcp")).expect("metadata");
        assert_eq!(read.resource.as_str(), "https://mcp.example/mcp");
        assert_eq!(read.scopes_supported.map(|scopes| scopes.to_string()).as_deref(), Some("mcp files:write"));
        assert_eq!(
            String::from_utf8(metadata("https://mcp.example/").document()).expect("text"),
            concat!(
                r#"{"resource":"https://mcp.example","authorization_servers":["https://auth.example/"],"#,
                r#""bearer_methods_supported":["header"]}"#
            )
        );
    }

    // req: AUTH-031 M-AUTH-005
    #[test]
    fn document_has_both_well_known_paths() {
        let paths = |server: &str| metadata(server).paths().collect::<Vec<_>>();
        let root = "/.well-known/oauth-protected-resource";
        assert_eq!(paths("https://mcp.example/a/mcp"), vec![[root, "/a/mcp"].concat(), root.to_string()]);
        assert_eq!(paths("https://mcp.example/mcp/"), vec![[root, "/mcp"].concat(), root.to_string()]);
        for server in ["https://mcp.example", "https://mcp.example/"] {
            assert_eq!(paths(server), [root], "{server}");
        }
    }

    // req: AUTH-029 AUTH-030 AUTH-035 AUTH-059 AUTH-060 M-AUTH-036 M-AUTH-037 M-AUTH-038
    #[test]
    fn challenges_name_the_document_and_all_scopes() {
        let server = metadata("https://mcp.example/mcp").required_scopes(scopes("mcp"));
        let document = "https://mcp.example/.well-known/oauth-protected-resource/mcp";
        let read = |error: Option<&BearerError>, needed: &str| {
            let challenges = Challenge::parse_all([server.challenge(error, &scopes(needed)).as_bytes()]);
            let [challenge] = &challenges[..] else { panic!("{challenges:?}") };
            let url = challenge.resource_metadata().expect("it is named").expect("a URL");
            assert!(challenge.is("Bearer") && url.as_str() == document);
            let param = |name: &str| challenge.param(name).map(str::to_owned);
            (param("error"), param("error_description"), param("scope"))
        };
        assert_eq!(read(None, ""), (None, None, Some("mcp".into())));
        let expired = BearerError::InvalidToken("it \"has\" expired\r\n\u{e4}\\".into());
        assert_eq!(
            read(Some(&expired), ""),
            (Some("invalid_token".into()), Some("it has expired".into()), Some("mcp".into()))
        );
        assert_eq!(read(Some(&BearerError::InvalidRequest), "").0.as_deref(), Some("invalid_request"));
        assert_eq!(
            read(Some(&BearerError::InsufficientScope), "files:write files:read"),
            (Some("insufficient_scope".into()), None, Some("mcp files:write files:read".into()))
        );
        assert!(!metadata("https://mcp.example/").challenge(None, &Scopes::default()).contains("scope"));
    }

    #[test]
    fn servers_with_proofs_name_their_algorithms() {
        let server = metadata("https://mcp.example/mcp").required_scopes(scopes("mcp"));
        let both = server.clone().proof_algorithms(["ES256", "EdDSA", "a\"b", ""]);
        let only = both.clone().needs_proofs();
        assert!(!both.has_proofs_only() && only.has_proofs_only());
        let document = |server: &ResourceMetadata| String::from_utf8(server.document()).expect("text");
        assert!(!document(&server).contains("dpop"));
        let algorithms = r#","dpop_signing_alg_values_supported":["ES256","EdDSA"]"#;
        assert!(document(&both).contains(algorithms) && !document(&both).contains("dpop_bound"));
        assert!(document(&only).contains(&format!("{algorithms},\"dpop_bound_access_tokens_required\":true")));
        // A client reads it.
        let read = ProtectedResource::parse(&only.document(), &url("https://mcp.example/mcp")).expect("metadata");
        assert!(read.dpop_required);
        let shown = |challenges: String| {
            let shown = |challenge: &Challenge| {
                let param = |name| challenge.param(name).unwrap_or("-").to_owned();
                assert!(challenge.resource_metadata().is_some() && challenge.scopes().is_some());
                format!("{} {} {}", challenge.scheme(), param("error"), param("algs"))
            };
            Challenge::parse_all([challenges.as_bytes()]).iter().map(shown).collect::<Vec<_>>()
        };
        let (invalid, none) = (BearerError::InvalidToken("x".into()), Scopes::default());
        let proof = BearerError::InvalidProof("x".into());
        for (server, used, error, expected) in [
            (&server, None, None, vec!["Bearer - -"]),
            (&server, Some(TokenScheme::Bearer), Some(&invalid), vec!["Bearer invalid_token -"]),
            (&both, None, None, vec!["Bearer - -", "DPoP - ES256 EdDSA"]),
            (&both, Some(TokenScheme::Bearer), Some(&invalid), vec!["Bearer invalid_token -", "DPoP - ES256 EdDSA"]),
            (&both, Some(TokenScheme::Dpop), Some(&invalid), vec!["DPoP invalid_token ES256 EdDSA"]),
            (&both, Some(TokenScheme::Dpop), Some(&proof), vec!["DPoP invalid_dpop_proof ES256 EdDSA"]),
            (&both, Some(TokenScheme::Dpop), Some(&BearerError::UseNonce), vec!["DPoP use_dpop_nonce ES256 EdDSA"]),
            (
                &both,
                None,
                Some(&BearerError::InsufficientScope),
                vec!["Bearer insufficient_scope -", "DPoP insufficient_scope ES256 EdDSA"],
            ),
            (&only, None, None, vec!["DPoP - ES256 EdDSA"]),
            (&only, Some(TokenScheme::Bearer), Some(&invalid), vec!["DPoP invalid_token ES256 EdDSA"]),
        ] {
            let challenges = match (used, error) {
                (Some(used), Some(error)) => server.challenge_to(used, error, &none),
                _ => server.challenge(error, &none),
            };
            assert_eq!(shown(challenges), expected, "{used:?} {error:?}");
        }
        let described = both.challenge_to(TokenScheme::Dpop, &proof, &none);
        assert!(described.contains(r#"error_description="x""#), "{described}");
    }

    // req: M-AUTH-039
    #[test]
    fn scopes_can_imply_others() {
        let server = metadata("https://mcp.example/mcp")
            .required_scopes(scopes("mcp"))
            .implies("admin", scopes("files:write mcp"))
            .implies("files:write", scopes("files:read admin"));
        assert_eq!(server.granted(&scopes("admin")).to_string(), "admin files:write mcp files:read");
        assert_eq!(server.granted(&scopes("files:read")), scopes("files:read"));
        assert!(server.is_enough(&server.granted(&scopes("admin"))));
        assert!(!server.is_enough(&server.granted(&scopes("files:read"))));
        // What does not fit is left out, which grants less.
        let many: Vec<_> = (0..Scopes::MAX).map(|index| format!("s{index}")).collect();
        let server = server.implies("s0", scopes(&many.join(" "))).implies("s1", scopes("x"));
        assert_eq!(server.granted(&scopes("s0")).iter().count(), Scopes::MAX);
    }

    #[test]
    fn descriptions_are_cut_after_200_characters() {
        assert_eq!([quotable(&"x".repeat(200)).len(), quotable(&"x".repeat(201)).len()], [200, 200]);
        assert_eq!(quotable("a \u{7f}~\u{1f}!\"#[\\]"), "a ~!#[]");
    }
}
