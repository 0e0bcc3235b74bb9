//! The parsers of OAuth: URLs, challenges, metadata, responses of authorization servers, redirects, access tokens,
//! proofs, and stored credentials.

use mcp_proto::auth::{
    Challenge, ClientIdentity, Scopes, Secret, TokenReply, Url, access_token,
    client::Credentials,
    discovery::{authorization_server, default_endpoints, of_2025_03_26, protected_resource},
    dpop::ProofRules,
    metadata::{AuthorizationServer, ProtectedResource},
};

use crate::cost;

/// Every parser accepts any bytes, and what it accepts keeps its meaning when it is written and parsed again.
///
/// Input: a document or a header value. Each parser gets all of it.
pub fn auth(data: &[u8]) {
    cost::assert_bounded(data, decode);
    let Ok(text) = core::str::from_utf8(data) else { return };
    if let Ok(url) = Url::parse(text) {
        assert_eq!(Url::parse(&url.origin()).map(|origin| origin.origin()).as_ref(), Ok(&url.origin()), "{text}");
        // A candidate may be left out for its length, but the origin always has space for an endpoint.
        let candidates = [protected_resource(&url, None), authorization_server(&url), of_2025_03_26(&url)];
        assert!(candidates.iter().flatten().all(|candidate| candidate.url.as_str().len() <= Url::MAX_LEN), "{text}");
        assert!(default_endpoints(&url).token.as_str().ends_with("/token"));
        // The query may hold secrets.
        let shown = format!("{url:?}");
        assert!(url.query().is_none_or(|query| query.is_empty() || shown.ends_with("?..")), "{shown}");
    }
    if let Some(scopes) = Scopes::parse(text) {
        let joined = scopes.iter().collect::<Vec<_>>().join(" ");
        assert_eq!(Scopes::parse(&joined), Some(scopes), "{text:?}");
    }
    for challenge in Challenge::parse_all([data]) {
        assert!(!challenge.scheme().is_empty(), "{text:?}");
    }
    if let Ok(credentials) = Credentials::from_json(data) {
        let json = credentials.to_json();
        assert_eq!(Credentials::from_json(json.expose().as_bytes()), Ok(credentials), "{text}");
    }
    if let Ok(Some((_, token))) = access_token([data]) {
        assert!(text.trim_end().ends_with(token.expose()), "{text:?}");
    }
}

/// Parses the bytes of a peer in every way.
fn decode(data: &[u8]) {
    let issuer = "https://auth.example";
    drop(Challenge::parse_all([data]));
    drop(access_token([data]));
    drop(ClientIdentity::from_registration(issuer, 201, data));
    drop(AuthorizationServer::parse(data, issuer));
    drop(TokenReply::parse(200, data));
    drop(Credentials::from_json(data));
    if let Ok(server) = Url::parse("https://mcp.example/mcp") {
        drop(ProtectedResource::parse(data, &server));
        let rules = ProofRules::new(&server, ["ES256", "EdDSA", "PS256"]);
        drop(rules.read(0, [data], "POST", &Secret::new("t")));
    }
    if let Ok(text) = core::str::from_utf8(data) {
        drop((Url::parse(text), Scopes::parse(text)));
    }
}
