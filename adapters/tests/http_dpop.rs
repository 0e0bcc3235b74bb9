//! Protected servers whose tokens are bound to a key, on any runtime. The including test has the adapter as
//! `crate::adapter`, and its runtime as `crate::run`.

use std::{
    cell::Cell,
    time::{SystemTime, UNIX_EPOCH},
};

use http::request::Builder;
use mcp_proto::auth::{ResourceMetadata, Secret, Url, client::ProofClaims};
use mcp_service::{Service, Tool};
use serde_json::{Value, json};

use crate::{
    adapter::http::{
        AccessToken, Dpop, Endpoint, NonceKey, ResourceServer, TokenError,
        auth::{ProofKey, ProofSigner as _},
    },
    http_protected::{ISSUER, ask, initialize, request, scopes, unprotected},
    run,
};

const SERVER: &str = "https://mcp.example/mcp";

fn service() -> Service {
    let service = Service::builder("dpop", "1").tool(Tool::new("write", || "done").scope("files:write"));
    service.build().expect("all names differ")
}

/// Tokens of two users that are bound to a key, and one that is not bound.
fn protect(endpoint: Endpoint, key: &ProofKey, dpop: Dpop) -> Endpoint {
    let thumbprint = key.key().thumbprint;
    let verify = move |token: &str| {
        let bound = |subject| Ok(AccessToken::new(ISSUER, subject).scope("mcp").key_thumbprint(&*thumbprint));
        match token {
            "canary.ada" => bound("ada"),
            "canary.eve" => bound("eve"),
            "canary.free" => Ok(AccessToken::new(ISSUER, "ada").scope("mcp")),
            _ => Err(TokenError::Signature),
        }
    };
    let metadata = ResourceMetadata::new(SERVER.parse().expect("a URL"), ISSUER.parse().expect("a URL"));
    endpoint.protect(ResourceServer::of(metadata.required_scopes(scopes("mcp")), verify).dpop(dpop))
}

/// A client that signs a proof for each request.
struct Client {
    key: ProofKey,
    nonce: Option<String>,
    proofs: Cell<usize>,
}

impl Client {
    fn new() -> Self {
        Self { key: ProofKey::generate().expect("random bytes"), nonce: None, proofs: Cell::new(0) }
    }

    fn proof(&self, method: &str, url: &str, token: &str) -> String {
        let id = self.proofs.replace(self.proofs.get() + 1).to_string();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let (url, token) = (Url::parse(url).expect("a URL"), Secret::new(format!("canary.{token}")));
        let claims = ProofClaims::new(id, method, &url, now, Some(&token), self.nonce.as_deref());
        self.key.sign(&claims).expect("it signs").expose().to_owned()
    }

    fn request(&self, method: &str, path: &str, token: &str) -> Builder {
        let proof = self.proof(method, &format!("https://mcp.example{path}"), token);
        with_proof(request(method, path, None), token, &proof)
    }
}

fn with_proof(request: Builder, token: &str, proof: &str) -> Builder {
    request.header("authorization", format!("DPoP canary.{token}")).header("dpop", proof)
}

#[test]
fn each_request_needs_a_proof_of_its_own() {
    run(async {
        let mut client = Client::new();
        let dpop = Dpop::new().nonces(NonceKey::new([7; 32]));
        let endpoint = protect(unprotected(&service()), &client.key, dpop);
        let begins = initialize("2025-11-25");
        // The first response has the nonce, also without a proof, and a page may read it.
        let plain = ask(&endpoint, request("POST", "/mcp", None), &begins).await;
        assert_eq!((plain.status, plain.header("dpop-nonce").map(str::len)), (401, Some(32)));
        let free =
            ask(&endpoint, request("GET", "/.well-known/oauth-protected-resource/mcp", None), &Value::Null).await;
        assert_eq!((free.status, free.header("dpop-nonce")), (200, None));
        let first = client.request("POST", "/mcp", "ada").header("origin", "https://app.example");
        let first = ask(&endpoint, first, &begins).await;
        assert_eq!((first.status, first.challenged("error")), (401, Some("use_dpop_nonce")), "{}", first.body);
        assert!(first.challenged("algs").is_some_and(|algorithms| algorithms.contains("ES256")));
        let exposed = first.header("access-control-expose-headers").expect("it is there");
        assert!(exposed.contains("dpop-nonce") && exposed.contains("www-authenticate"), "{exposed}");
        client.nonce = first.header("dpop-nonce").map(str::to_owned);
        assert!(client.nonce.is_some());
        let proof = client.proof("POST", SERVER, "ada");
        let post = |proof: &str| with_proof(request("POST", "/mcp", None), "ada", proof);
        let begun = ask(&endpoint, post(&proof), &begins).await;
        assert_eq!((begun.status, begun.header("dpop-nonce")), (200, client.nonce.as_deref()), "{}", begun.body);
        let session = begun.header("mcp-session-id").expect("a session").to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        for (what, head, status, error) in [
            ("the same proof", post(&proof), 401, Some("invalid_dpop_proof")),
            (
                "two proofs",
                post(&client.proof("POST", SERVER, "ada")).header("dpop", "x"),
                401,
                Some("invalid_dpop_proof"),
            ),
            (
                "no proof",
                request("POST", "/mcp", None).header("authorization", "DPoP canary.ada"),
                401,
                Some("invalid_dpop_proof"),
            ),
            ("no scheme for it", request("POST", "/mcp", Some("ada")), 401, Some("invalid_token")),
            ("a token without a key", client.request("POST", "/mcp", "free"), 401, Some("invalid_token")),
            ("the proof of another method", post(&client.proof("GET", SERVER, "ada")), 401, Some("invalid_dpop_proof")),
            ("the session of another user", client.request("POST", "/mcp", "eve"), 404, None),
            ("another proof", client.request("POST", "/mcp", "ada"), 202, None),
            ("another token of the user", request("POST", "/mcp", Some("free")), 202, None),
        ] {
            let received = ask(&endpoint, head.header("mcp-session-id", &session), &initialized).await;
            assert_eq!((received.status, received.challenged("error")), (status, error), "{what}: {}", received.body);
        }
        // The challenge for a scope is for both schemes.
        let call =
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "write", "arguments": {}}});
        let head = client.request("POST", "/mcp", "ada").header("mcp-session-id", &session);
        let refused = ask(&endpoint, head, &call).await;
        assert_eq!((refused.status, refused.challenged("scope")), (403, Some("mcp files:write")));
        let challenge = refused.header("www-authenticate").expect("it is there");
        assert!(challenge.contains("DPoP error=\"insufficient_scope\", scope=\"mcp files:write\""), "{challenge}");
        endpoint.close().await;
    });
}

#[test]
fn pages_may_send_proofs() {
    run(async {
        let client = Client::new();
        let endpoint = protect(unprotected(&service()), &client.key, Dpop::new().required());
        let preflight = request("OPTIONS", "/mcp", None).header("origin", "https://app.example");
        let preflight = preflight.header("access-control-request-method", "POST");
        let allowed = ask(&endpoint, preflight.header("access-control-request-headers", "dpop"), &Value::Null).await;
        let allowed = allowed.header("access-control-allow-headers").expect("it is there");
        assert!(allowed.split(", ").any(|name| name == "dpop"), "{allowed}");
        let document =
            ask(&endpoint, request("GET", "/.well-known/oauth-protected-resource/mcp", None), &Value::Null).await;
        let document: Value = serde_json::from_str(&document.body).expect("JSON");
        assert_eq!(document["dpop_bound_access_tokens_required"], json!(true));
        assert!(document["dpop_signing_alg_values_supported"].as_array().expect("a list").contains(&json!("ES256")));
        let refused = ask(&endpoint, request("POST", "/mcp", None), &initialize("2025-11-25")).await;
        assert!(refused.header("www-authenticate").is_some_and(|challenge| challenge.starts_with("DPoP ")));
        assert_eq!(refused.header("dpop-nonce"), None);
        endpoint.close().await;
    });
}

#[test]
fn proofs_over_http_sse_are_for_the_urls_of_its_requests() {
    run(async {
        let client = Client::new();
        let url = |path: &str| format!("https://mcp.example{path}").parse().expect("a URL");
        for (dpop, status) in [(Dpop::new(), 401), (Dpop::new().url(url("/message")), 404)] {
            let endpoint = protect(unprotected(&service()), &client.key, dpop);
            // There is no such session.
            let posted = client.request("POST", "/message?sessionId=x", "ada");
            let posted = ask(&endpoint, posted, &initialize("2024-11-05")).await;
            assert_eq!(posted.status, status, "{}", posted.body);
            endpoint.close().await;
        }
    });
}
