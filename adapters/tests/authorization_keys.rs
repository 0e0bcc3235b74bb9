//! Clients that authenticate with keys, tokens that are bound to them, and signed tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_driver::http::{
    Dpop, JwtVerifier, KeySet,
    auth::{AssertionClaims, AssertionSigner as _, AuthMethod, ClientIdentity, ProofKey, ProofSigner as _, SigningKey},
};

use super::*;

/// A key, which is used for nothing else.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+bpJwW5pqaRQeXCZ\n\
    fA1cpOM96Yt/Kh8QXzqe2orStDqhRANCAAQQ8tNDFO9h2kEGwUayxe6j/MXb6DwI\n\
    Myk8TFnbb8E5jPXfuulQY9VtNIjwU9EMsaJIQ6llR/exrvBjpVUi7thD\n\
    -----END PRIVATE KEY-----\n";

/// Its public part.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"ours","x":"EPLTQxTvYdpBBsFGssXuo_zF2-g8CDMpPExZ22_BOYw",
    "y":"9d-66VBj1W00iPBT0QyxokhDqWVH97Gu8GOlVSLu2EM"}]}"#;

fn signing_key(id: &str) -> SigningKey {
    SigningKey::es256(KEY).expect("a key").id(id)
}

// req: AUTH-069
#[test]
fn no_secret_of_a_client_with_keys_is_logged_or_shown() {
    Recorder::install();
    run(async {
        let (issuer, key) = (Issuer::start(), ProofKey::generate().expect("random bytes"));
        issuer.update(|state| {
            state.thumbprint = Some(key.key().thumbprint);
            state.scope = "mcp".into();
        });
        let dpop = Dpop::new().required().random_nonces().expect("random bytes");
        let (listener, url) = protected_by(&issuer, |server| server.dpop(dpop)).await;
        let stop = listener.stop_handle();
        let served = spawn(async move { listener.serve(&service()).await });
        let mut settings = Settings::default();
        settings.identities.pre_registered.push(ClientIdentity {
            issuer: issuer.url.clone(),
            client_id: "app".into(),
            secret: None,
            secret_expires_at: None,
            redirect_uris: Vec::new(),
            auth_method: Some(AuthMethod::PrivateKeyJwt),
        });
        let builder = OAuth::builder(&url).expect("a URL").settings(settings).signer(signing_key("ours")).proofs(key);
        let oauth = builder.build().expect("random bytes");
        let connector = Connector::new(&url).expect("a URL").auth(oauth.clone());
        let client = connector.connect(&host()).await.expect("it has a key");
        assert_eq!(call(&client, "who").await, Ok(format!("{} ada", issuer.url)));
        let mut shown = format!("{oauth:?}");
        // A server that quotes what it was sent.
        issuer.update(|state| {
            state.active.clear();
            state.refuses = true;
        });
        shown += &call(&client, "who").await.expect_err("there is no token");
        let error = oauth.error().expect("the token request has failed");
        let _ = write!(shown, "{error} {error:?} {oauth:?}");
        client.close().await;
        stop();
        served.await.expect("it is stopped");
        let sent = issuer.update(|state| state.sent.clone());
        // Each JWT begins with a header in base64.
        let signed = sent.iter().filter(|secret| secret.starts_with("eyJ")).count();
        assert!(signed >= 4, "{signed} assertions and proofs");
        assert_hidden(&shown, sent.iter().map(String::as_str).chain(["eyJ"]));
    });
}

// req: AUTH-069
#[test]
fn no_part_of_a_signed_token_is_logged_or_shown() {
    const ISSUER: &str = "https://auth.example";
    Recorder::install();
    run(async {
        let listener = Listener::bind("127.0.0.1:0").await.expect("there is a port");
        let url = format!("http://{}/mcp", listener.local_addr());
        let keys = KeySet::parse(KEYS.as_bytes()).expect("keys");
        let server = ResourceServer::new(&url, ISSUER, JwtVerifier::new(ISSUER, &url, keys)).expect("URLs");
        let listener = listener.protect(server);
        let stop = listener.stop_handle();
        let served = spawn(async move { listener.serve(&service()).await });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let token = |key: &str, audience: &str, expires_at: u64| {
            let (client_id, audience, id) = (ISSUER.to_owned(), audience.to_owned(), "canary-id".to_owned());
            let claims = AssertionClaims { client_id, audience, id, issued_at: now, expires_at };
            signing_key(key).sign(&claims).expect("it signs").expose().to_owned()
        };
        let good = token("ours", &url, now + 600);
        let connector = |token: &str| Connector::new(&url).expect("a URL").bearer(token).expect("a token");
        let client = connector(&good).connect(&host()).await.expect("the token is valid");
        assert_eq!(call(&client, "who").await, Ok(format!("{ISSUER} {ISSUER}")));
        client.close().await;
        let (signed, _) = good.rsplit_once('.').expect("a signature");
        let bad = [
            token("other", &url, now + 600),
            token("ours", "https://other.example/mcp", now + 600),
            token("ours", &url, now - 600),
            format!("{signed}.AAAA"),
        ];
        let mut shown = String::new();
        for token in &bad {
            let refused = connector(token).connect(&host()).await.map(drop).expect_err("it is not valid");
            let refused = format!("{refused} {refused:?}");
            assert!(refused.contains("401"), "{refused}");
            shown += &refused;
        }
        stop();
        served.await.expect("it is stopped");
        let parts: Vec<_> = bad.iter().chain([&good]).flat_map(|token| token.split('.')).collect();
        assert_hidden(&shown, parts.into_iter().filter(|part| *part != "AAAA"));
    });
}
