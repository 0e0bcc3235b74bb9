//! The texts of errors, and the limits of values from the network, from both sides.

use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use core::fmt::Display;

use super::{
    client::{AssertionClaims, AuthError, Claims, ProofClaims, Response},
    client_metadata::InvalidClientMetadata,
    discovery::NotFound,
    document::{DocumentError, MAX_ITEMS, MAX_LEN, MAX_TEXT},
    dpop::{NonceKey, ProofError, ReplayCache},
    metadata::AuthorizationServer,
    *,
};

fn url(text: &str) -> Url {
    Url::parse(text).expect(text)
}

fn check_texts<const N: usize>(errors: [(&dyn Display, &str); N]) {
    for (error, text) in errors {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn errors_of_values_have_texts() {
    check_texts([
        (&UrlError::TooLong, "the URL is too long"),
        (&UrlError::Syntax, "not an absolute URL"),
        (&UrlError::Scheme, "neither an http nor an https URL"),
        (&UrlError::Host, "the URL has no valid host or port"),
        (&UrlError::UserInfo, "the URL has user information"),
        (&UrlError::Fragment, "the URL has a fragment"),
        (&UrlError::Insecure, "the URL is neither https nor on the loopback interface"),
        (&UrlRefused::NotEncrypted, "the URL is not https"),
        (&UrlRefused::Network(Network::Private), "the URL leads to a Private address"),
        (&UrlRefused::Redirect, "the redirect leads to another origin"),
        (&DocumentError::TooLong, "the document is too long"),
        (&DocumentError::NotAnObject, "the document is not a JSON object"),
        (&DocumentError::Duplicate("a"), "`a` occurs twice"),
        (&DocumentError::Missing("a"), "`a` is missing"),
        (&DocumentError::Invalid("a"), "`a` is invalid"),
        (&DocumentError::Url("a", UrlError::Host), "`a`: the URL has no valid host or port"),
        (&DocumentError::Mismatch("a"), "`a` is not the expected one"),
        (&InvalidClientMetadata::Url, "the URL of the client's metadata is not an https URL with a path"),
        (&InvalidClientMetadata::ClientName, "the client has no name, or one that cannot be shown"),
        (
            &InvalidClientMetadata::RedirectUri,
            "a redirect URI is needed, and each has to be https or on a loopback host",
        ),
        (&InvalidClientMetadata::Keys, "the URL of the client's keys is not https"),
        (&NoIdentity::OtherIssuer, "the client is registered at another authorization server"),
        (
            &NoIdentity::NotSupported,
            "the client has no identity that the authorization server takes; register it there",
        ),
        (&NoIdentity::AuthMethod, "the authorization server offers no authentication with a client secret"),
        (&NoIdentity::RedirectUri, "the redirect URI is not one of those that the client names to servers"),
        (&NotRequestable::OtherIssuer, "the client or the code belongs to another authorization server"),
        (&NotRequestable::NoSecret, "the client has no secret"),
        (&NotRequestable::NoAssertion, "there is no signed assertion of the client"),
        (&NotRequestable::NoEndpoint, "the authorization server has no revocation endpoint"),
    ]);
}

fn refusal() -> OAuthError {
    OAuthError { code: "invalid_grant".into(), description: Some("secret".into()) }
}

#[test]
fn errors_of_authorizations_have_texts() {
    let no_endpoint = NotAuthorizable::Url(UrlError::TooLong);
    check_texts([
        (&NotAuthorizable::NoEndpoint, "the authorization server has no authorization endpoint"),
        (&NotAuthorizable::NoPkce, "the authorization server does not support the code challenge method S256"),
        (&NotAuthorizable::OtherIssuer, "the client is registered at another authorization server"),
        (&NotAuthorizable::RedirectUri, "the redirect URI is neither https nor on a loopback host"),
        (&NotAuthorizable::Parameter("a".into()), "the authorization endpoint has the parameter `a` already"),
        (&no_endpoint, "the authorization URL: the URL is too long"),
        (&RedirectError::TooLong, "the redirect is too long"),
        (&RedirectError::Duplicate("iss"), "the redirect has `iss` twice"),
        (&RedirectError::State, "the redirect answers another authorization request"),
        (&RedirectError::Issuer, "the redirect is not from the authorization server that was asked"),
        (&RedirectError::Expired, "the authorization request has expired"),
        (&RedirectError::Used, "the authorization request was answered before"),
        (&RedirectError::Denied(refusal()), "the authorization was denied: invalid_grant"),
        (&RedirectError::NoCode, "the redirect has no code"),
        (
            &RegistrationError::Rejected(refusal()),
            "the authorization server refuses to register the client: invalid_grant",
        ),
        (&RegistrationError::Status(404), "the registration was answered with status 404"),
        (&RegistrationError::NoResponse, "the registration was not answered"),
        (
            &RegistrationError::Document(DocumentError::TooLong),
            "the response to the registration: the document is too long",
        ),
        (&RegistrationError::AuthMethod, "the client was registered with an unknown way to authenticate"),
    ]);
}

#[test]
fn errors_of_clients_have_texts() {
    let missing = NotFound::Missing(vec!["a: status 404".into(), "b: status 410".into()]);
    check_texts([
        (&AuthError::Discovery(NotFound::Transient("x".into())), "the metadata could not be requested: x"),
        (&AuthError::Discovery(NotFound::Refused("x".into())), "the metadata must not be used: x"),
        (&AuthError::Discovery(missing), "there are no metadata; a: status 404; b: status 410"),
        (&AuthError::Url("token_endpoint", UrlRefused::NotEncrypted), "`token_endpoint`: the URL is not https"),
        (&AuthError::Identity(NoIdentity::OtherIssuer), "the client is registered at another authorization server"),
        (&AuthError::Registration(RegistrationError::NoResponse), "the registration was not answered"),
        (
            &AuthError::NotAuthorizable(NotAuthorizable::NoEndpoint),
            "the authorization server has no authorization endpoint",
        ),
        (&AuthError::NotInteractive, "the client has neither a user nor credentials with which it authenticates"),
        (&AuthError::NotBound, "tokens that are bound to a key are needed on one side and not known on the other"),
        (&AuthError::NoAssertion, "the assertion for the grant was not supplied"),
        (&AuthError::NotExchanged(refusal()), "the identity provider does not exchange the token: invalid_grant"),
        (&AuthError::Redirect(RedirectError::NoCode), "the redirect has no code"),
        (&AuthError::Cancelled, "the user has cancelled the authorization"),
        (&AuthError::NotOpened("x".into()), "the user could not be asked: x"),
        (&AuthError::Expired, "the authorization was not answered in time"),
        (&AuthError::NotRequestable(NotRequestable::NoSecret), "the client has no secret"),
        (&AuthError::Rejected(refusal()), "the authorization server refuses a token: invalid_grant"),
        (&AuthError::Unavailable(Some(503)), "the token endpoint answered with status 503"),
        (&AuthError::Unavailable(None), "the token endpoint did not answer"),
        (&AuthError::Status(404), "the token endpoint answered with status 404"),
        (&AuthError::Invalid(DocumentError::TooLong), "the response of the token endpoint: the document is too long"),
        (&AuthError::NotSigned, "the assertion of the client could not be signed"),
        (&AuthError::NotLoaded, "the stored credentials could not be loaded"),
        (&AuthError::NotRemoved, "the stored credentials could not be removed"),
        (&AuthError::SignedOut, "the client or another process has signed out"),
        (&AuthError::Refused, "the server refuses the request with the current token"),
        (&AuthError::Scopes, "the server wants scopes that were not granted"),
    ]);
}

#[test]
fn errors_of_proofs_have_texts_and_codes() {
    for (error, text, code) in [
        (ProofError::Missing, "the request has no proof", "invalid_dpop_proof"),
        (ProofError::Several, "the request has several proofs", "invalid_dpop_proof"),
        (ProofError::TooLong, "the proof is too long", "invalid_dpop_proof"),
        (ProofError::Malformed, "the proof is malformed", "invalid_dpop_proof"),
        (ProofError::Type, "the type of the proof is not dpop+jwt", "invalid_dpop_proof"),
        (ProofError::Algorithm, "the algorithm of the proof is not allowed", "invalid_dpop_proof"),
        (ProofError::Key, "the key of the proof is not a public key for its algorithm", "invalid_dpop_proof"),
        (ProofError::PrivateKey, "the key of the proof has private members", "invalid_dpop_proof"),
        (ProofError::Claim("jti"), "the claim 'jti' of the proof is missing or invalid", "invalid_dpop_proof"),
        (ProofError::Method, "the proof is for another method", "invalid_dpop_proof"),
        (ProofError::Url, "the proof is for another URL", "invalid_dpop_proof"),
        (ProofError::TokenHash, "the proof is for another token", "invalid_dpop_proof"),
        (ProofError::TooOld, "the proof is too old", "invalid_dpop_proof"),
        (ProofError::TooEarly, "the proof is from the future", "invalid_dpop_proof"),
        (ProofError::Nonce, "the proof needs a nonce of the server", "use_dpop_nonce"),
        (ProofError::Binding, "the token is bound to another key", "invalid_token"),
        (ProofError::Signature, "the signature of the proof is wrong", "invalid_dpop_proof"),
        (ProofError::Replayed, "the proof was used before", "invalid_dpop_proof"),
        (ProofError::TooMany, "there are too many requests", "invalid_dpop_proof"),
    ] {
        assert_eq!((&*error.to_string(), error.bearer_error().code()), (text, code));
        match error.bearer_error() {
            BearerError::InvalidProof(why) | BearerError::InvalidToken(why) => assert_eq!(why, text),
            other => assert_eq!(other, BearerError::UseNonce),
        }
    }
    assert_eq!(BearerError::InvalidRequest.code(), "invalid_request");
    assert_eq!(BearerError::InsufficientScope.code(), "insufficient_scope");
}

#[test]
fn debug_output_has_what_is_not_secret() {
    let response = Response { status: 418, location: Some("l"), dpop_nonce: Some("n"), body: b"body" };
    assert_eq!(format!("{response:?}"), "Response { status: 418, .. }");
    assert_eq!(format!("{:?}", NonceKey::new([7; 32]).window(60)), "NonceKey { window: 60, .. }");
    assert_eq!(format!("{:?}", ReplayCache::default()), "ReplayCache { len: 0, .. }");
    let seed = AuthorizationSeed { state: [1; 32], verifier: [2; 32] };
    assert_eq!(format!("{seed:?}"), "[redacted]");
    assert_eq!(format!("{:?}", url("https://a.example/x?y=z")), "https://a.example/x?..");
    assert_eq!(format!("{:?}", url("https://a.example/x")), "https://a.example/x");
    let error = OAuthError { code: "x".into(), description: None };
    assert_eq!(format!("{error:?}"), "OAuthError { code: \"x\", description: None }");
    let challenges = Challenge::parse_all([&br#"Bearer error="x", scope="y""#[..], b"Basic dG9r"]);
    let shown: Vec<_> = challenges.iter().map(|challenge| format!("{challenge:?}")).collect();
    assert_eq!(
        shown,
        [
            r#"Challenge { scheme: "Bearer", error: Some("x"), token: None, params: ["error", "scope"] }"#,
            r#"Challenge { scheme: "Basic", error: None, token: Some([redacted]), params: [] }"#,
        ]
    );
    assert_eq!(challenges[1].token(), Some("dG9r"));
}

#[test]
fn claims_have_their_members() {
    let client = AssertionClaims {
        client_id: "app".into(),
        audience: "https://as.example".into(),
        id: "1".into(),
        issued_at: 5,
        expires_at: 65,
    };
    let proof = ProofClaims {
        id: "2".into(),
        method: "POST".into(),
        url: "https://a.example/".into(),
        issued_at: 7,
        token_hash: Some("h".into()),
        nonce: Some("n".into()),
    };
    let bare = ProofClaims { token_hash: None, nonce: None, ..proof.clone() };
    let json = |claims: Claims| serde_json::from_str::<serde_json::Value>(&claims.to_json()).expect("JSON");
    for (claims, expected) in [
        (
            Claims::Client(client),
            serde_json::json!({"iss": "app", "sub": "app", "aud": "https://as.example", "jti": "1", "iat": 5,
                "exp": 65}),
        ),
        (
            Claims::Proof(proof),
            serde_json::json!({"jti": "2", "htm": "POST", "htu": "https://a.example/", "iat": 7, "ath": "h",
                "nonce": "n"}),
        ),
        (Claims::Proof(bare), serde_json::json!({"jti": "2", "htm": "POST", "htu": "https://a.example/", "iat": 7})),
    ] {
        assert_eq!(json(claims), expected);
    }
}

#[test]
fn oauth_error_codes_and_descriptions_have_limits() {
    let code = |code: &str| OAuthError::new(code, None).is_some();
    assert!(code("x") && code(&"x".repeat(128)) && code(" ~"));
    for bad in ["", &"x".repeat(129), "\u{1f}", "\u{7f}", "\u{e4}"] {
        assert!(!code(bad), "{bad:?}");
    }
    for (len, kept) in [(0, None), (1, Some(1)), (1024, Some(1024)), (1025, Some(1024))] {
        let error = OAuthError::new("x", Some(&"d".repeat(len))).expect("an error");
        assert_eq!(error.description.map(|text| text.len()), kept, "{len}");
    }
    let is = |code: &str| {
        let error = OAuthError::new(code, None).expect("an error");
        (error.is_temporary(), error.is_grant_invalid(), error.is_client_invalid())
    };
    for (code, expected) in [
        ("temporarily_unavailable", (true, false, false)),
        ("server_error", (true, false, false)),
        ("invalid_grant", (false, true, false)),
        ("invalid_client", (false, false, true)),
        ("unauthorized_client", (false, false, true)),
        ("invalid_request", (false, false, false)),
    ] {
        assert_eq!(is(code), expected, "{code}");
    }
}

#[test]
fn token_responses_have_limits() {
    let access = |len: usize| {
        let body = format!(r#"{{"access_token":"{}","token_type":"N_A","issued_token_type":"i"}}"#, "t".repeat(len));
        TokenReply::parse(299, body.as_bytes())
    };
    match access(MAX_TEXT) {
        TokenReply::Granted(tokens) => {
            assert_eq!((tokens.access.expose().len(), tokens.token_type), (MAX_TEXT, TokenType::NotApplicable));
            assert_eq!(tokens.issued_type.as_deref(), Some("i"));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(access(MAX_TEXT + 1), TokenReply::Invalid(_)));
    let form = |access: usize, refresh: usize| {
        let body = format!(
            "access_token={}&token_type=DPoP&refresh_token={}&issued_token_type=i",
            "t".repeat(access),
            "r".repeat(refresh)
        );
        TokenReply::parse(200, body.as_bytes())
    };
    for (len, is_new) in [(MAX_TEXT, true), (MAX_TEXT + 1, false)] {
        let TokenReply::Granted(tokens) = form(1, len) else { panic!("{len}") };
        assert_eq!(matches!(tokens.refresh, RefreshToken::New(_)), is_new, "{len}");
        assert_eq!((tokens.token_type, tokens.issued_type.as_deref()), (TokenType::Dpop, Some("i")));
    }
    assert!(matches!(form(MAX_TEXT, 1), TokenReply::Granted(_)));
    let invalid = TokenReply::Invalid(DocumentError::Invalid("access_token"));
    assert_eq!(form(MAX_TEXT + 1, 1), invalid);
    // A form has as many fields as a list has elements, and as many bytes as a document.
    let fields = |more: usize| format!("access_token=t&token_type=bearer{}", "&x=y".repeat(more));
    let padded = |len: usize| [&fields(1), &*"z".repeat(len - fields(1).len())].concat();
    for (body, is_read) in [
        (fields(MAX_ITEMS - 2), true),
        (fields(MAX_ITEMS - 1), false),
        (padded(MAX_LEN), true),
        (padded(MAX_LEN + 1), false),
        ("access_token=t&token_type=bearer&x=<".into(), false),
    ] {
        let reply = TokenReply::parse(200, body.as_bytes());
        let expected = if is_read {
            matches!(reply, TokenReply::Granted(_))
        } else {
            reply == TokenReply::Invalid(DocumentError::NotAnObject)
        };
        assert!(expected, "{} bytes: {reply:?}", body.len());
    }
    for (status, expected) in [
        (199, TokenReply::Status(199)),
        (300, TokenReply::Status(300)),
        (407, TokenReply::Status(407)),
        (408, TokenReply::Transient(408)),
        (409, TokenReply::Status(409)),
        (429, TokenReply::Transient(429)),
        (499, TokenReply::Status(499)),
        (500, TokenReply::Transient(500)),
        (599, TokenReply::Transient(599)),
        (600, TokenReply::Status(600)),
    ] {
        assert_eq!(TokenReply::parse(status, b"{}"), expected);
    }
}

#[test]
fn registrations_succeed_with_any_success() {
    for (status, expected) in [
        (199, Err(RegistrationError::Status(199))),
        (200, Ok("id")),
        (299, Ok("id")),
        (300, Err(RegistrationError::Status(300))),
    ] {
        let client = ClientIdentity::from_registration("https://as.example", status, br#"{"client_id":"id"}"#);
        assert_eq!(client.as_ref().map(|client| &*client.client_id), expected.as_ref().map(|id| *id), "{status}");
    }
    let expiring = |end: Option<u64>| {
        let json = br#"{"client_id":"id","client_secret":"s"}"#;
        let client = ClientIdentity::from_registration("https://as.example", 201, json).expect("a client");
        ClientIdentity { secret_expires_at: end, ..client }
    };
    for (end, now, expected) in [(Some(5), 4, false), (Some(5), 5, true), (Some(5), 6, true), (None, 6, false)] {
        assert_eq!(expiring(end).is_expired(now), expected, "{end:?} {now}");
    }
}

#[test]
fn methods_and_types_have_one_name() {
    for (method, name) in [
        (AuthMethod::None, "none"),
        (AuthMethod::ClientSecretBasic, "client_secret_basic"),
        (AuthMethod::ClientSecretPost, "client_secret_post"),
        (AuthMethod::PrivateKeyJwt, "private_key_jwt"),
    ] {
        assert_eq!((method.as_str(), AuthMethod::parse(name)), (name, Some(method)));
        assert_eq!(AuthMethod::parse(&name.to_uppercase()), None);
    }
    for (kind, name) in [(TokenType::Bearer, "Bearer"), (TokenType::Dpop, "DPoP"), (TokenType::NotApplicable, "N_A")] {
        assert_eq!((kind.as_str(), TokenType::parse(&name.to_lowercase())), (name, Some(kind)));
    }
    assert_eq!(TokenType::parse("mac"), None);
}

#[test]
fn authorization_server_lists_its_urls() {
    let body = br#"{"issuer":"https://as.example","token_endpoint":"https://as.example/t",
        "authorization_endpoint":"https://as.example/a","registration_endpoint":"https://as.example/r",
        "revocation_endpoint":"https://as.example/v","scopes_supported":["a","b"],
        "token_endpoint_auth_methods_supported":["none"],"dpop_signing_alg_values_supported":["ES256"],
        "token_endpoint_auth_signing_alg_values_supported":["EdDSA"],"grant_types_supported":["x"]}"#;
    let server = AuthorizationServer::parse(body, "https://as.example").expect("metadata");
    let urls: Vec<(&str, String)> = server.urls().map(|(name, url)| (name, url.path().to_string())).collect();
    let expected = [
        ("authorization_endpoint", "/a"),
        ("token_endpoint", "/t"),
        ("registration_endpoint", "/r"),
        ("revocation_endpoint", "/v"),
    ];
    assert_eq!(urls, expected.map(|(name, path)| (name, path.to_string())));
    assert_eq!(server.scopes_supported.as_ref().map(ToString::to_string).as_deref(), Some("a b"));
    assert_eq!(
        (server.dpop_algorithms.join(" "), server.token_endpoint_auth_algorithms.join(" "), server.grant_types.len()),
        ("ES256".into(), "EdDSA".into(), 1)
    );
    assert!(server.has_auth_method(AuthMethod::None) && !server.has_auth_method(AuthMethod::PrivateKeyJwt));
    let known = AuthorizationServer::with_token_endpoint("i".into(), url("https://as.example/t"));
    assert_eq!(known.urls().map(|(name, _)| name).collect::<Vec<_>>(), ["token_endpoint"]);
    assert!(!known.has_auth_method(AuthMethod::ClientSecretBasic) && !known.has_s256());
}

#[test]
fn networks_end_at_their_boundaries() {
    use Network::{LinkLocal, Private, Public, Reserved};
    for (address, network) in [
        ("0.255.255.255", Reserved),
        ("1.0.0.0", Public),
        ("9.255.255.255", Public),
        ("11.0.0.0", Public),
        ("126.255.255.255", Public),
        ("128.0.0.0", Public),
        ("169.253.255.255", Public),
        ("169.255.0.0", Public),
        ("170.254.0.0", Public),
        ("192.0.1.0", Public),
        ("192.0.2.0", Reserved),
        ("192.0.3.0", Public),
        ("192.1.0.0", Public),
        ("198.17.255.255", Public),
        ("198.18.0.0", Reserved),
        ("198.20.0.0", Public),
        ("223.255.255.255", Public),
        ("224.0.0.0", Reserved),
        ("::2", Reserved),
        ("64:ff9b:2::1", Public),
        ("2001:1::1", Public),
        ("2002:808:808::", Public),
        ("2003:7f00:1::", Public),
        ("fbff::1", Public),
        ("fe00::1", Public),
        ("fe7f::1", Public),
        ("fe80::1", LinkLocal),
        ("feff::1", Private),
        ("ff00::1", Reserved),
        ("ffff::1", Reserved),
    ] {
        assert_eq!(Network::of(address.parse().expect(address)), network, "{address}");
    }
    for (host, network) in [
        ("localhost", Network::Loopback),
        ("LocalHost.", Network::Loopback),
        ("a.localhost", Network::Loopback),
        ("alocalhost", Public),
        ("localhost.example", Public),
        ("0x", Reserved),
        ("a.0X1f", Reserved),
        ("a.0xg", Public),
        ("a.12", Reserved),
        ("a.1b", Public),
    ] {
        assert_eq!(Network::of_url(&url(&format!("https://{host}/"))), network, "{host}");
    }
}

#[test]
fn urls_have_parts() {
    for (text, is_https, host, port, path, query) in [
        ("https://a.example", true, "a.example", 443, "", None),
        ("http://a.example/x", false, "a.example", 80, "/x", None),
        ("https://A.example:80/x?y", true, "A.example", 80, "/x", Some("y")),
        ("http://[::1]:443?", false, "[::1]", 443, "", Some("")),
    ] {
        let url = url(text);
        assert_eq!((url.is_https(), url.host(), url.port()), (is_https, host, port), "{text}");
        assert_eq!((url.path(), url.query(), url.as_str()), (path, query, text));
        assert_eq!(url.address().is_some(), host == "[::1]");
        assert_eq!(text.parse::<Url>(), Ok(url));
    }
    assert_eq!("x".parse::<Url>(), Err(UrlError::Syntax));
}
