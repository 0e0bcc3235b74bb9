//! Grants without a user, and tokens that are bound to a key.

use super::*;

const IDP: &str = "POST https://idp.corp.example/token";
const CHALLENGE: &str = r#"DPoP error="use_dpop_nonce""#;

fn headless(grant_type: GrantType, method: AuthMethod) -> Settings {
    Settings { grant_type, ..registered(method) }
}

fn enterprise() -> GrantType {
    let issuer = "https://idp.corp.example".into();
    let client = ClientIdentity { issuer, secret: None, ..identity("at-idp", AuthMethod::None) };
    GrantType::IdentityAssertion(IdentityProvider::new(url("https://idp.corp.example/token"), client))
}

/// A world without refresh tokens.
fn world() -> World {
    let mut world = World::new();
    world.grant("one", None);
    world
}

// req: M-AUTH-063 M-AUTH-064 M-AUTH-065
#[test]
fn client_credentials_grant_uses_no_user() {
    const GRANT: &str = "grant_type=client_credentials&resource=https%3A%2F%2Fmcp.example%2Fmcp&scope=a";
    for (method, more, header) in [
        (AuthMethod::ClientSecretBasic, "", Some("Basic YXBwOnMzY3IzdA==")),
        (AuthMethod::ClientSecretPost, "&client_id=app&client_secret=s3cr3t", None),
        (
            AuthMethod::PrivateKeyJwt,
            "&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer\
             &client_assertion=jwt-1",
            None,
        ),
    ] {
        let mut world = world();
        let mut client = client(&mut world, headless(GrantType::ClientCredentials, method));
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Retry);
        assert_eq!((token(&client), world.opened.len()), (Some("one"), 0));
        assert_eq!(world.bodies(TOKEN), [format!("{GRANT}{more}")]);
        assert_eq!(world.headers(TOKEN, "authorization"), [header.map(ToString::to_string)]);
        if method == AuthMethod::PrivateKeyJwt {
            let Some(Claims::Client(claims)) = world.signed.first() else { panic!("it is signed") };
            assert_eq!((&*claims.client_id, &*claims.audience), ("app", "https://as.example"));
            assert_eq!((claims.issued_at, claims.expires_at, claims.id.len()), (1_000_000, 1_000_060, 64));
        }
    }
    let mut world = world();
    let mut client = client(&mut world, Settings { grant_type: GrantType::ClientCredentials, ..settings() });
    let verdict = Call::new(&client).wait(&mut world, &mut client, at(0));
    assert_eq!(verdict, Verdict::Fail(AuthError::NotInteractive));
}

#[test]
fn identity_token_is_sent_encrypted_or_over_loopback() {
    for (endpoint, is_sent) in [
        ("http://idp.corp.example/token", false),
        ("http://10.0.0.1/token", false),
        ("http://127.0.0.1:8080/token", true),
        ("https://10.0.0.1/token", true),
    ] {
        let mut world = world();
        world.jwt = Some(Secret::new("id.token"));
        let client =
            ClientIdentity { issuer: "https://idp.corp.example".into(), ..identity("at-idp", AuthMethod::None) };
        let grant_type = GrantType::IdentityAssertion(IdentityProvider::new(url(endpoint), client));
        let mut client = super::client(&mut world, headless(grant_type, AuthMethod::None));
        let verdict = Call::new(&client).wait(&mut world, &mut client, at(0));
        let refused = AuthError::Url("token_endpoint", crate::auth::UrlRefused::NotEncrypted);
        assert_eq!(verdict == Verdict::Fail(refused), !is_sent, "{verdict:?}");
        let count = usize::from(is_sent);
        assert_eq!((world.count(&format!("POST {endpoint}")), world.supplied.len()), (count, count), "{endpoint}");
    }
}

#[test]
fn jwt_bearer_grant_sends_the_supplied_jwt() {
    let mut world = world();
    world.jwt = Some(Secret::new("a.b.c"));
    let mut client = client(&mut world, headless(GrantType::JwtBearer, AuthMethod::None));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Retry);
    assert_eq!((token(&client), world.opened.len()), (Some("one"), 0));
    assert_eq!(world.supplied, [(AssertionKind::Workload, "https://as.example".into(), SERVER.into())]);
    let expected = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=a.b.c\
                    &resource=https%3A%2F%2Fmcp.example%2Fmcp&scope=a&client_id=app";
    assert_eq!(world.bodies(TOKEN), [expected]);
}

#[test]
fn refused_workload_assertion_is_final() {
    for code in ["invalid_grant", "invalid_scope", "unauthorized_client", "unsupported_grant_type"] {
        let mut world = world();
        world.jwt = Some(Secret::new("a.b.c"));
        world.refuse(code);
        let mut client = client(&mut world, headless(GrantType::JwtBearer, AuthMethod::None));
        let mut call = Call::new(&client);
        assert_eq!(call.wait(&mut world, &mut client, at(0)), Verdict::Fail(rejected(code)));
        assert_eq!(call.ask(&mut client, at(1)), Verdict::Fail(AuthError::Refused));
        assert_eq!((world.count(TOKEN), world.opened.len(), client.is_busy()), (1, 0, false));
    }
    let mut world = world();
    let mut client = client(&mut world, headless(GrantType::JwtBearer, AuthMethod::None));
    let verdict = Call::new(&client).wait(&mut world, &mut client, at(0));
    assert_eq!((verdict, world.count(TOKEN)), (Verdict::Fail(AuthError::NoAssertion), 0));
}

// req: M-AUTH-067 M-AUTH-068
#[test]
fn exchanges_and_redeems_identity_token() {
    let mut world = world();
    world.jwt = Some(Secret::new("id.t.oken"));
    let jag = json!({"access_token": "j.a.g", "token_type": "N_A",
        "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "expires_in": 300});
    world.set(IDP, 200, &jag);
    let mut client = client(&mut world, headless(enterprise(), AuthMethod::ClientSecretBasic));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Retry);
    assert_eq!((token(&client), world.opened.len()), (Some("one"), 0));
    assert_eq!(world.supplied, [(AssertionKind::Identity, "https://as.example".into(), SERVER.into())]);
    let exchange = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange\
                    &requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid-jag&subject_token=id.t.oken\
                    &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid_token\
                    &audience=https%3A%2F%2Fas.example&resource=https%3A%2F%2Fmcp.example%2Fmcp&scope=a&client_id=at-idp";
    assert_eq!(world.bodies(IDP), [exchange]);
    let redeem = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=j.a.g\
                  &resource=https%3A%2F%2Fmcp.example%2Fmcp&scope=a";
    assert_eq!(world.bodies(TOKEN), [redeem]);
    assert_eq!(world.headers(TOKEN, "authorization"), [Some("Basic YXBwOnMzY3IzdA==".to_string())]);
    let is_configured =
        |name: &str| world.requests.iter().filter(|it| it.url == url(&name[5..])).all(|it| it.is_configured);
    assert!(is_configured(IDP) && !is_configured(TOKEN));
}

#[test]
fn failed_token_exchange_fails_the_flow() {
    let id_jag = "urn:ietf:params:oauth:token-type:id-jag";
    let invalid = |name| AuthError::Invalid(DocumentError::Invalid(name));
    let denied = OAuthError { code: "access_denied".into(), description: None };
    for (status, body, expected) in [
        (400, json!({"error": "access_denied"}), AuthError::NotExchanged(denied)),
        (200, json!({"access_token": "x", "token_type": "Bearer", "issued_token_type": id_jag}), invalid("token_type")),
        (200, json!({"access_token": "x", "token_type": "N_A"}), invalid("issued_token_type")),
        (
            200,
            json!({"access_token": "x", "token_type": "N_A",
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}),
            invalid("issued_token_type"),
        ),
        (503, json!({}), AuthError::Unavailable(Some(503))),
        (0, json!({}), AuthError::Unavailable(None)),
    ] {
        let mut world = world();
        world.jwt = Some(Secret::new("id.t.oken"));
        world.set(IDP, status, &body);
        let mut client = client(&mut world, headless(enterprise(), AuthMethod::ClientSecretBasic));
        let verdict = Call::new(&client).wait(&mut world, &mut client, at(0));
        assert_eq!((verdict, world.count(TOKEN), world.count(IDP)), (Verdict::Fail(expected), 0, 1), "{body}");
    }
}

fn key(is_required: bool) -> Option<DpopKey> {
    Some(DpopKey { thumbprint: "thumb".into(), algorithm: "ES256".into(), is_required })
}

fn bound(access: &str) -> serde_json::Value {
    json!({"access_token": access, "token_type": "DPoP", "refresh_token": "r1", "expires_in": 3600})
}

/// A world whose authorization server binds tokens, and settings of a client with a key.
fn binding(is_required: bool) -> (World, Settings) {
    let mut world = World::new();
    world.set_metadata("https://as.example", &json!({"dpop_signing_alg_values_supported": ["ES256"]}));
    world.set(TOKEN, 200, &bound("one"));
    (world, Settings { dpop: key(is_required), ..settings() })
}

#[test]
fn binds_tokens_to_the_key_if_supported() {
    let (mut world, settings) = binding(false);
    let mut client = authorized_with(&mut world, settings.clone());
    assert_eq!(world.asked("dpop_jkt").as_deref(), Some("thumb"));
    assert_eq!(world.headers(TOKEN, "dpop"), [Some("jwt-1".to_string())]);
    let [Claims::Proof(claims)] = &*world.signed else { panic!("one proof: {:?}", world.signed) };
    assert_eq!((&*claims.method, &*claims.url, claims.issued_at), ("POST", "https://as.example/token", 1_000_001));
    assert_eq!((&claims.token_hash, &claims.nonce), (&None, &None));
    assert_eq!(client.token().map(|token| token.token_type), Some(TokenType::Dpop));
    // Each request has a proof of its own.
    let at_server = url("https://mcp.example/mcp?x=1");
    let [one, two] = [0, 1].map(|_| client.proof(at(2), "GET", &at_server).expect("a proof"));
    assert_ne!(one.id, two.id);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&one.to_json()).expect("JSON"),
        json!({"jti": one.id, "htm": "GET", "htu": "https://mcp.example/mcp", "iat": 1_000_002,
            "ath": "dpLDrTVAu4A8Ags67mbNiIcSMjTqDG5xQ8Ct1z_0Me0"})
    );
    // A refresh has one as well, and tokens of another key are not used.
    world.set(TOKEN, 200, &bound("two"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Retry);
    assert_eq!(world.headers(TOKEN, "dpop").len(), 2);
    assert!(world.headers(TOKEN, "dpop").iter().all(Option::is_some));
    let other = DpopKey { thumbprint: "other".into(), ..key(false).expect("a key") };
    for (dpop, expected) in [(key(false), Some("two")), (Some(other), None), (None, None)] {
        assert_eq!(token(&super::client(&mut world, Settings { dpop, ..settings.clone() })), expected);
    }
}

#[test]
fn required_binding_rejects_bearer_tokens() {
    let invalid = Verdict::Fail(AuthError::Invalid(DocumentError::Invalid("token_type")));
    let not_bound = Verdict::Fail(AuthError::NotBound);
    let dpop = |is_required| Settings {
        dpop: key(is_required),
        ..headless(GrantType::ClientCredentials, AuthMethod::ClientSecretPost)
    };
    let plain = || headless(GrantType::ClientCredentials, AuthMethod::ClientSecretPost);
    for (settings, algorithms, resource_needs, kind, proofs, expected) in [
        (plain(), json!(["ES256"]), false, "Bearer", 0, Verdict::Retry),
        (plain(), json!(["ES256"]), false, "DPoP", 0, invalid.clone()),
        (plain(), json!(["ES256"]), false, "N_A", 0, invalid.clone()),
        (plain(), json!(["ES256"]), true, "Bearer", 0, not_bound.clone()),
        (dpop(false), json!(null), false, "Bearer", 0, Verdict::Retry),
        (dpop(false), json!(["ES256"]), false, "Bearer", 1, Verdict::Retry),
        (dpop(false), json!(["ES256"]), false, "DPoP", 1, Verdict::Retry),
        (dpop(false), json!(["ES256"]), false, "N_A", 1, invalid.clone()),
        (dpop(false), json!(["EdDSA"]), false, "Bearer", 0, Verdict::Retry),
        (dpop(false), json!(["EdDSA"]), true, "Bearer", 0, not_bound.clone()),
        (dpop(false), json!(["ES256"]), true, "Bearer", 1, invalid.clone()),
        (dpop(true), json!(null), false, "DPoP", 1, Verdict::Retry),
        (dpop(true), json!(null), false, "Bearer", 1, invalid),
        (dpop(true), json!(["EdDSA"]), false, "Bearer", 0, not_bound),
    ] {
        let shown = format!("{algorithms} {resource_needs} {kind} {:?}", settings.dpop);
        let mut world = world();
        world.set_metadata("https://as.example", &json!({"dpop_signing_alg_values_supported": algorithms}));
        world.set(
            RESOURCE,
            200,
            &json!({"resource": SERVER, "authorization_servers": ["https://as.example"],
            "dpop_bound_access_tokens_required": resource_needs}),
        );
        world.set(TOKEN, 200, &json!({"access_token": "one", "token_type": kind}));
        let mut client = client(&mut world, settings);
        let verdict = Call::new(&client).wait(&mut world, &mut client, at(0));
        assert_eq!((verdict, world.signed.len()), (expected, proofs), "{shown}");
        let needs_proof = token(&client).is_some() && kind == "DPoP";
        assert_eq!(client.proof(at(1), "POST", &url(SERVER)).is_some(), needs_proof, "{shown}");
    }
}

#[test]
fn token_request_is_retried_once_with_server_nonce() {
    let refusal = json!({"error": "use_dpop_nonce"});
    for (nonces, expected) in [
        (vec![Some("n1")], Ok(2)),
        (vec![Some("n1"), Some("n2")], Err(2)),
        (vec![None], Err(1)),
        (vec![Some("n 1")], Err(1)),
    ] {
        let (mut world, settings) = binding(false);
        for nonce in &nonces {
            world.once(TOKEN, 400, &refusal, *nonce);
        }
        let mut client = client(&mut world, settings);
        let mut call = Call::new(&client);
        assert_eq!(call.wait(&mut world, &mut client, at(0)), Verdict::Wait);
        world.consent(&mut client, at(1));
        let verdict = expected.map_or_else(|_| Verdict::Fail(rejected("use_dpop_nonce")), |_| Verdict::Retry);
        assert_eq!(call.ask(&mut client, at(1)), verdict, "{nonces:?}");
        assert_eq!(world.count(TOKEN), expected.unwrap_or_else(|count| count), "{nonces:?}");
        assert_eq!((world.opened.len(), client.is_busy()), (1, false));
    }
}

#[test]
fn nonces_are_kept_per_server() {
    let (mut world, settings) = binding(false);
    world.once(TOKEN, 400, &json!({"error": "use_dpop_nonce"}), Some("n-as"));
    let mut client = authorized_with(&mut world, settings);
    client.handle_nonce("n-rs");
    let nonce = |claims: &Claims| match claims {
        Claims::Proof(claims) => claims.nonce.clone(),
        Claims::Client(_) => panic!("a proof"),
    };
    let proof = client.proof(at(2), "POST", &url(SERVER)).expect("a proof");
    assert_eq!(proof.nonce.as_deref(), Some("n-rs"));
    assert_eq!(world.signed.iter().map(nonce).collect::<Vec<_>>(), [None, Some("n-as".into())]);
    // The next request at each has its last nonce, and none of another issuer.
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Retry);
    assert_eq!(world.signed.last().and_then(nonce).as_deref(), Some("n-as"));
    world.migrate();
    world.set_metadata("https://b.example", &json!({"dpop_signing_alg_values_supported": ["ES256"]}));
    world.refuse("invalid_grant");
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(4)), Verdict::Wait);
    world.consent(&mut client, at(4));
    assert_eq!(world.signed.last().and_then(nonce), None);
}

#[test]
fn request_is_retried_once_with_server_nonce() {
    let (mut world, settings) = binding(false);
    let mut client = authorized_with(&mut world, settings);
    let mut call = Call::refused(&client, 401, CHALLENGE);
    assert_eq!(call.ask(&mut client, at(2)), Verdict::Fail(AuthError::Refused), "there is no nonce");
    client.handle_nonce("n1");
    assert_eq!(call.ask(&mut client, at(2)), Verdict::Retry);
    assert_eq!(client.proof(at(2), "POST", &url(SERVER)).and_then(|proof| proof.nonce).as_deref(), Some("n1"));
    client.handle_nonce("n2");
    assert_eq!(call.again(&mut client, at(3)), Verdict::Fail(AuthError::Refused));
    assert_eq!((world.count(TOKEN), client.poll_action()), (1, None), "no token changes that");
}

/// The nonce may be old when there is another token: the user may have taken minutes.
#[test]
fn request_is_retried_with_server_nonce_once_per_token() {
    let (mut world, settings) = binding(false);
    let mut client = authorized_with(&mut world, settings);
    client.handle_nonce("n1");
    let mut call = Call::refused(&client, 401, CHALLENGE);
    assert_eq!(call.ask(&mut client, at(2)), Verdict::Retry);
    world.set(TOKEN, 200, &bound("two"));
    call.challenges = Challenge::parse_all([br#"DPoP error="invalid_token""#.as_slice()]);
    assert_eq!(call.wait(&mut world, &mut client, at(3)), Verdict::Retry);
    assert!(client.token().is_some_and(|token| token.token.expose() == "two"));
    client.handle_nonce("n2");
    call.challenges = Challenge::parse_all([CHALLENGE.as_bytes()]);
    assert_eq!(call.again(&mut client, at(4)), Verdict::Retry);
    client.handle_nonce("n3");
    assert_eq!(call.again(&mut client, at(5)), Verdict::Fail(AuthError::Refused));
}

#[test]
fn nonces_are_bounded() {
    let (mut world, settings) = binding(false);
    let mut client = authorized_with(&mut world, settings);
    let mut nonce = |value: &str| {
        client.handle_nonce(value);
        client.proof(at(2), "POST", &url(SERVER)).and_then(|proof| proof.nonce)
    };
    assert_eq!(nonce("good"), Some("good".into()));
    for bad in ["", "a b", "a\"b", "a\r\nb", "\u{e4}", &"x".repeat(1025)] {
        assert_eq!(nonce(bad).as_deref(), Some("good"), "{bad:?}");
    }
    assert_eq!(nonce(&"x".repeat(1024)).map(|nonce| nonce.len()), Some(1024));
}

#[test]
fn nonce_retry_signs_assertion_and_proof_again() {
    let (mut world, _) = binding(false);
    let settings = Settings { dpop: key(false), ..headless(GrantType::ClientCredentials, AuthMethod::PrivateKeyJwt) };
    world.once(TOKEN, 400, &json!({"error": "use_dpop_nonce"}), Some("n1"));
    let mut client = client(&mut world, settings);
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Retry);
    let kinds: Vec<_> = world.signed.iter().map(|claims| matches!(claims, Claims::Proof(_))).collect();
    assert_eq!(kinds, [false, true, false, true]);
    assert_eq!(world.headers(TOKEN, "dpop"), [Some("jwt-2".to_string()), Some("jwt-4".to_string())]);
    assert!(world.bodies(TOKEN)[1].ends_with("client_assertion=jwt-3"));
}
