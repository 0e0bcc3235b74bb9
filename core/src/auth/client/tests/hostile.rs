//! Servers, redirects and documents that are not what they should be: each is refused with its reason, before the user
//! is asked or a token is requested.

use super::*;
use crate::auth::{
    authorization::{NotAuthorizable, RedirectError},
    client_identity::RegistrationError,
    policy::{Network, UrlRefused},
    url::UrlError,
};

/// Returns how the flow of a request fails, with what was requested and opened before.
fn refused(world: &mut World) -> AuthError {
    let mut client = client(world, settings());
    match Call::new(&client).wait(world, &mut client, at(0)) {
        Verdict::Fail(error) => error,
        verdict => panic!("{verdict:?}"),
    }
}

/// Returns the reasons of a failed discovery.
fn reasons(error: &AuthError) -> String {
    assert!(matches!(error, AuthError::Discovery(_)), "{error:?}");
    error.to_string()
}

// req: AUTH-068 SEC-005 SEC-007 SEC-009 M-AUTH-011
#[test]
fn refused_server_metadata_has_a_reason() {
    let network = |network| UrlRefused::Network(network).to_string();
    let url_error = |name: &str, error: UrlError| format!("`{name}`: {error}");
    for (name, value, reason) in [
        ("issuer", json!("https://evil.example"), "`issuer` is not the expected one".to_string()),
        ("issuer", json!("https://as.example/"), "`issuer` is not the expected one".to_string()),
        ("authorization_endpoint", json!("javascript:alert(1)"), url_error("authorization_endpoint", UrlError::Scheme)),
        ("authorization_endpoint", json!("data:text/html,x"), url_error("authorization_endpoint", UrlError::Scheme)),
        ("authorization_endpoint", json!("file:///etc/passwd"), url_error("authorization_endpoint", UrlError::Scheme)),
        ("authorization_endpoint", json!("vbscript:x"), url_error("authorization_endpoint", UrlError::Scheme)),
        ("authorization_endpoint", json!("-flag"), url_error("authorization_endpoint", UrlError::Syntax)),
        ("authorization_endpoint", json!("--exec=calc"), url_error("authorization_endpoint", UrlError::Syntax)),
        ("authorization_endpoint", json!("$(touch x)"), url_error("authorization_endpoint", UrlError::Syntax)),
        (
            "authorization_endpoint",
            json!("https://a b.example/"),
            url_error("authorization_endpoint", UrlError::Syntax),
        ),
        (
            "authorization_endpoint",
            json!("https://me@as.example/"),
            url_error("authorization_endpoint", UrlError::UserInfo),
        ),
        ("token_endpoint", json!("https://as.example/#x"), url_error("token_endpoint", UrlError::Fragment)),
        ("token_endpoint", json!("http://as.example/token"), UrlRefused::NotEncrypted.to_string()),
        ("registration_endpoint", json!("http://as.example/register"), UrlRefused::NotEncrypted.to_string()),
        ("authorization_endpoint", json!("http://as.example/authorize"), UrlRefused::NotEncrypted.to_string()),
        ("token_endpoint", json!("https://169.254.169.254/latest"), network(Network::LinkLocal)),
        ("token_endpoint", json!("https://[fe80::1]/"), network(Network::LinkLocal)),
        ("registration_endpoint", json!("https://10.0.0.1/"), network(Network::Private)),
        ("registration_endpoint", json!("https://[fd00::1]/"), network(Network::Private)),
        ("registration_endpoint", json!("https://[::ffff:192.168.0.1]/"), network(Network::Private)),
        ("revocation_endpoint", json!("https://localhost/"), network(Network::Loopback)),
        ("revocation_endpoint", json!("http://127.0.0.1:9/"), network(Network::Loopback)),
        ("authorization_endpoint", json!("https://2130706433/"), network(Network::Reserved)),
        ("authorization_endpoint", json!("https://0.0.0.0/"), network(Network::Reserved)),
    ] {
        let mut world = World::new();
        world.set_metadata("https://as.example", &json!({name: value}));
        let shown = refused(&mut world).to_string();
        assert!(shown.contains(&reason), "{name} {value}: {shown}");
        assert_eq!((world.opened.len(), world.count(REGISTER), world.count(TOKEN)), (0, 0, 0), "{name} {value}");
    }
    let mut world = World::new();
    world.set_metadata("https://as.example", &json!({"code_challenge_methods_supported": ["plain"]}));
    assert_eq!(refused(&mut world), AuthError::NotAuthorizable(NotAuthorizable::NoPkce));
    let mut world = World::new();
    let twice = "https://as.example/authorize?redirect_uri=https%3A%2F%2Fevil.example";
    world.set_metadata("https://as.example", &json!({"authorization_endpoint": twice}));
    let parameter = NotAuthorizable::Parameter("redirect_uri".into());
    assert_eq!(refused(&mut world), AuthError::NotAuthorizable(parameter));
}

// req: AUTH-027 SEC-005 SEC-007 SEC-008
#[test]
fn refused_resource_metadata_has_a_reason() {
    let servers = |server: &str| json!({"resource": SERVER, "authorization_servers": [server]});
    let other = json!({"resource": "https://evil.example/mcp", "authorization_servers": ["https://as.example"]});
    for (status, body, reason) in [
        (200, other, "`resource` is not the expected one"),
        (200, servers("https://169.254.169.254"), "LinkLocal"),
        (200, servers("https://10.0.0.1"), "Private"),
        (200, servers("https://[::1]"), "Loopback"),
        (200, servers("http://as.example"), "not https"),
        (302, json!(null), "the redirect"),
        (307, json!(null), "the redirect"),
    ] {
        for location in ["https://evil.example/meta", "https://169.254.169.254/meta", "//evil.example/meta"] {
            let mut world = World::new();
            world.set(RESOURCE, status, &body);
            if status >= 300 {
                world.responses.insert(RESOURCE.into(), Reply { status, body: location.into(), nonce: None });
            }
            let error = refused(&mut world).to_string();
            let is_read = error.contains(reason) || error.contains("not an absolute URL");
            assert!(is_read, "{status} {location}: {error}");
            assert!(world.opened.is_empty() && world.requests.iter().all(|it| it.url.host() == "mcp.example"));
        }
    }
}

/// Returns a document of this many bytes.
fn long(members: &str, len: usize) -> String {
    let start = format!(r#"{{{members},"padding":""#);
    format!("{start}{}\"}}", "x".repeat(len - start.len() - 2))
}

#[test]
fn rejects_oversized_documents() {
    const LEN: usize = 16 * 1024 * 1024;
    let mut world = World::new();
    let body = long(r#""client_id":"dynamic""#, LEN);
    world.responses.insert(REGISTER.into(), Reply { status: 201, body, nonce: None });
    let too_long = AuthError::Registration(RegistrationError::Document(DocumentError::TooLong));
    assert_eq!((refused(&mut world), world.store.entries.len()), (too_long, 0));
    for document in [RESOURCE, METADATA] {
        let mut world = World::new();
        let body = long(&format!(r#""resource":"{SERVER}""#), LEN);
        world.responses.insert(document.into(), Reply { status: 200, body, nonce: None });
        let error = refused(&mut world);
        assert!(matches!(error, AuthError::Discovery(NotFound::Refused(_))), "{error:?}");
        assert!(reasons(&error).contains("the document is too long"));
    }
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
    let body = long(r#""access_token":"t","token_type":"Bearer""#, LEN);
    world.responses.insert(TOKEN.into(), Reply { status: 200, body, nonce: None });
    world.consent(&mut client, at(1));
    assert_eq!((client.error(), token(&client)), (Some(&AuthError::Invalid(DocumentError::TooLong)), None));
}

// req: AUTH-068 SEC-005 SEC-007
#[test]
fn refused_document_is_not_treated_as_absent() {
    const OWN: &str = "GET https://mcp.example/.well-known/oauth-authorization-server";
    let resource = |servers: serde_json::Value| json!({"resource": SERVER, "authorization_servers": servers});
    let own = |token: serde_json::Value| {
        json!({"issuer": "https://mcp.example", "token_endpoint": token,
            "authorization_endpoint": "https://mcp.example/authorize", "code_challenge_methods_supported": ["S256"]})
    };
    for (document, body, reason) in [
        (RESOURCE, resource(json!(["javascript:x"])), "neither an http nor an https URL"),
        (RESOURCE, resource(json!([])), "`authorization_servers` is missing"),
        (RESOURCE, resource(json!("https://as.example")), "`authorization_servers` is invalid"),
        (RESOURCE, json!({}), "`resource` is missing"),
        (OWN, own(json!("javascript:x")), "neither an http nor an https URL"),
        (OWN, own(json!(null)), "`token_endpoint` is missing"),
        (OWN, own(json!([])), "`token_endpoint` is invalid"),
        (OWN, json!({}), "`issuer` is missing"),
    ] {
        let mut world = World::new();
        for endpoint in ["register", "token"] {
            world.set(&format!("POST https://mcp.example/{endpoint}"), 201, &json!({"client_id": "own"}));
        }
        if document == OWN {
            world.responses.remove(RESOURCE);
        }
        world.set(document, 200, &body);
        let error = refused(&mut world);
        assert!(matches!(error, AuthError::Discovery(NotFound::Refused(_))), "{body}: {error:?}");
        assert!(reasons(&error).contains(reason), "{body}: {error}");
        let is_sent = world.requests.iter().any(|it| it.method == "POST");
        assert!(world.opened.is_empty() && !is_sent, "{body}: nothing is assumed");
    }
    // Only a status of 4xx, or a body that is no JSON object, says that there is none.
    for (status, is_absent) in [(204, true), (404, true), (401, true), (300, false), (304, false), (600, false)] {
        let mut world = World::new();
        world.set(RESOURCE, status, &json!(null));
        world.set("POST https://mcp.example/register", 201, &json!({"client_id": "own"}));
        let mut client = client(&mut world, settings());
        let verdict = Call::new(&client).wait(&mut world, &mut client, at(0));
        assert_eq!((verdict == Verdict::Wait, world.opened.len()), (is_absent, usize::from(is_absent)), "{status}");
    }
}

// req: AUTH-066 M-AUTH-022 M-AUTH-023 M-AUTH-024 M-AUTH-025 M-AUTH-047
#[test]
fn refused_redirects_have_a_reason() {
    let good = "iss=https%3A%2F%2Fas.example";
    for (has_iss, rest, reason) in [
        (true, "code=c", RedirectError::Issuer),
        (true, "code=c&iss=https%3A%2F%2Fevil.example", RedirectError::Issuer),
        (true, "code=c&iss=https%3A%2F%2Fas.example%2F", RedirectError::Issuer),
        (true, "code=c&iss=HTTPS%3A%2F%2Fas.example", RedirectError::Issuer),
        (true, "code=c&iss=https%3A%2F%2Fas.example%3A443", RedirectError::Issuer),
        (false, "code=c&iss=https%3A%2F%2Fevil.example", RedirectError::Issuer),
        (true, "error=access_denied&error_description=canary&iss=https%3A%2F%2Fevil.example", RedirectError::Issuer),
        (true, &format!("code=c&{good}&{good}"), RedirectError::Duplicate("iss")),
        (true, &format!("code=c&code=d&{good}"), RedirectError::Duplicate("code")),
        (true, &format!("code=c&state=x&{good}"), RedirectError::Duplicate("state")),
        (true, &format!("code={}&{good}", "c".repeat(16 * 1024)), RedirectError::TooLong),
        (true, good, RedirectError::NoCode),
    ] {
        let mut world = World::new();
        let metadata = json!({"authorization_response_iss_parameter_supported": has_iss});
        world.set_metadata("https://as.example", &metadata);
        let mut client = client(&mut world, settings());
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
        let error = client.handle_redirect(at(1), &world.redirect(rest)).expect_err(rest);
        assert_eq!(error, reason, "{rest}");
        assert!(!format!("{error} {error:?} {client:?}").contains("canary"));
        world.run(&mut client, at(1));
        assert_eq!((world.count(TOKEN), token(&client)), (0, None), "{rest}");
        // What was forged has not used up the authorization.
        let is_over = reason == RedirectError::NoCode;
        let again = client.handle_redirect(at(2), &world.redirect(&format!("code=c&{good}")));
        assert_eq!(again, if is_over { Err(RedirectError::Used) } else { Ok(()) }, "{rest}");
    }
}

// req: AUTH-066 M-AUTH-021 M-AUTH-047
#[test]
fn a_state_is_used_once_and_for_one_authorization() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
    let first = world.redirect("code=c");
    assert_eq!(client.handle_redirect(at(600), &first), Err(RedirectError::Expired));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(601)), Verdict::Wait);
    assert_eq!(client.handle_redirect(at(602), &first), Err(RedirectError::State), "it is that of another one");
    let second = world.redirect("code=c");
    assert_eq!(client.handle_redirect(at(603), &second), Ok(()));
    assert_eq!(client.handle_redirect(at(603), &second), Err(RedirectError::Used), "it is replayed");
    world.run(&mut client, at(603));
    assert_eq!((world.count(TOKEN), token(&client)), (1, Some("one")));
    assert_eq!(client.handle_redirect(at(604), &second), Err(RedirectError::Used));
}

// req: M-AUTH-013 M-AUTH-021
#[test]
fn a_code_of_another_server_is_not_sent_to_this_one() {
    // The resource names another authorization server while the user is asked by the first one.
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
    let first = world.redirect("code=c");
    client.handle_timeout(at(600));
    world.migrate();
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(601)), Verdict::Wait);
    assert_eq!(world.opened[1].host(), "b.example");
    assert_eq!(client.handle_redirect(at(602), &first), Err(RedirectError::State));
    world.consent(&mut client, at(603));
    assert_eq!((world.count(TOKEN), world.count("POST https://b.example/token")), (0, 1));
}

// req: AUTH-069 M-AUTH-049
#[test]
fn no_secret_is_printed_by_any_type() {
    let secret = || Secret::new("canary");
    let client = ClientIdentity { secret: Some(secret()), ..identity("app", AuthMethod::ClientSecretPost) };
    let provider = IdentityProvider::new(url("https://idp.example/token?key=canary"), client.clone());
    let settings = Settings {
        identities: ClientOptions { pre_registered: vec![client.clone()], ..ClientOptions::default() },
        grant_type: GrantType::IdentityAssertion(provider),
        ..Settings::default()
    };
    let quoting = || OAuthError { code: "x".into(), description: Some("the code canary is unknown".into()) };
    let mut world = World::new();
    world.grant("canary", Some("canary"));
    let mut of_user = authorized_with_canary(&mut world);
    of_user.sign_out(at(2));
    let mut shown = format!("{settings:?} {client:?} {of_user:?} {:?}", secret());
    while let Some(action) = of_user.poll_action() {
        shown += &format!("{action:?}");
        world.perform(&mut of_user, at(2), action);
    }
    let metadata =
        json!({"resource": "https://mcp.example/mcp?canary", "authorization_servers": ["https://a.example/?canary"]});
    let metadata = crate::auth::metadata::ProtectedResource::parse(metadata.to_string().as_bytes(), &url(SERVER));
    shown += &format!("{metadata:?}");
    let server =
        AuthorizationServer::with_token_endpoint("https://as.example".into(), url("https://as.example/t?canary"));
    let reply = crate::auth::TokenReply::parse(
        200,
        br#"{"access_token":"canary","token_type":"bearer","refresh_token":"canary","canary":"canary"}"#,
    );
    let identity =
        ClientIdentity::from_registration("https://as.example", 201, br#"{"client_id":"a","client_secret":"canary"}"#);
    shown += &format!("{server:?} {reply:?} {identity:?}");
    let grant =
        crate::auth::Grant::Assertion { assertion: &secret(), resource: &url(SERVER), scopes: &Scopes::default() };
    let client = ClientIdentity { secret: Some(secret()), ..client };
    let request = crate::auth::TokenRequest::new(&grant, &server, &client, None).expect("a request");
    shown += &format!("{grant:?} {request:?}");
    let seed = AuthorizationSeed { state: *b"canarycanarycanarycanarycanary!!", verifier: [99; 32] };
    shown += &format!("{seed:?} {:?}", crate::auth::CodeVerifier::new(seed.verifier));
    for error in [
        AuthError::Registration(RegistrationError::Rejected(OAuthError { code: "x".into(), description: None })),
        AuthError::Redirect(RedirectError::Issuer),
        AuthError::Url("token_endpoint", UrlRefused::Redirect),
        rejected("invalid_grant"),
        AuthError::Rejected(quoting()),
        AuthError::NotExchanged(quoting()),
        AuthError::Redirect(RedirectError::Denied(quoting())),
        AuthError::Registration(RegistrationError::Rejected(quoting())),
    ] {
        shown += &format!("{error} {error:?}");
    }
    assert!(!shown.contains("canary") && !shown.contains("99, 99"), "{shown}");
}

fn authorized_with_canary(world: &mut World) -> AuthClient {
    let mut client = client(world, settings());
    assert_eq!(Call::new(&client).wait(world, &mut client, at(0)), Verdict::Wait);
    world.consent(&mut client, at(1));
    assert_eq!(token(&client), Some("canary"));
    client
}

#[test]
fn error_names_refused_address() {
    let refused = UrlRefused::Network(Network::Private);
    let endpoint = |name| AuthError::Url(name, refused);
    let steps = [(0, None), (1, None), (2, Some(endpoint("registration_endpoint")))];
    for (step, expected) in steps {
        let mut world = World::new();
        let mut client = client(&mut world, settings());
        let mut call = Call::new(&client);
        assert_eq!(call.ask(&mut client, at(0)), Verdict::Wait);
        let mut requests = 0;
        while let Some(action) = client.poll_action() {
            match action {
                Action::Request(request) if requests >= step => {
                    requests += 1;
                    client.handle_refused_address(at(0), request.id, refused);
                }
                action => {
                    requests += usize::from(matches!(action, Action::Request(_)));
                    world.perform(&mut client, at(0), action);
                }
            }
        }
        let Verdict::Fail(error) = call.ask(&mut client, at(0)) else { panic!("it must not go on") };
        assert!(error.to_string().contains("leads to a Private address"), "{error}");
        assert!(expected.is_none_or(|expected| expected == error), "{error}");
    }
}
