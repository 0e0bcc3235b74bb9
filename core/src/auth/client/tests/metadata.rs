//! The metadata that a client uses.

use super::*;

const ROOT: &str = "GET https://mcp.example/.well-known/oauth-protected-resource";
const OWN: &str = "GET https://mcp.example/.well-known/oauth-authorization-server";

/// Lets a request be refused, and returns what the user is asked at (without the query), or how the flow fails.
fn asked(world: &mut World, client: &mut AuthClient, challenge: &str) -> Result<String, AuthError> {
    let mut call = Call::refused(client, 401, challenge);
    match call.wait(world, client, at(0)) {
        Verdict::Fail(error) => Err(error),
        _ => Ok(world.opened[0].as_str().split('?').next().expect("a base").into()),
    }
}

// req: AUTH-033 M-AUTH-006 SEC-005 SEC-007
#[test]
fn uses_challenge_metadata_if_the_policy_allows() {
    for (named, expected) in [
        ("https://mcp.example/meta", "GET https://mcp.example/meta"),
        ("http://169.254.169.254/meta", RESOURCE),
        ("https://10.0.0.1/meta", RESOURCE),
        ("http://mcp.example/meta", RESOURCE),
        ("file:///etc/passwd", RESOURCE),
    ] {
        // It may stand in a second challenge.
        for challenge in ["", "Bearer realm=\"x\", ", "Basic realm=\"x\", "] {
            let mut world = World::new();
            let mut client = client(&mut world, settings());
            let challenge = format!(r#"{challenge}Bearer resource_metadata="{named}""#);
            assert_eq!(asked(&mut world, &mut client, &challenge), Ok("https://as.example/authorize".into()));
            let first = &world.requests[0];
            assert_eq!(format!("{} {}", first.method, first.url.as_str()), expected, "{challenge}");
        }
    }
}

#[test]
fn follows_private_addresses_if_the_new_policy_allows() {
    let challenge = r#"Bearer resource_metadata="https://10.0.0.1/meta""#;
    let server_address = core::net::Ipv4Addr::new(10, 0, 0, 7).into();
    for (policy, expected) in [
        (None, RESOURCE),
        (Some(UrlPolicy::new(&url(SERVER)).with_server_address(server_address)), "GET https://10.0.0.1/meta"),
    ] {
        let mut world = World::new();
        let mut client = client(&mut world, settings());
        if let Some(policy) = policy {
            client.set_policy(policy);
        }
        assert_eq!(asked(&mut world, &mut client, challenge), Ok("https://as.example/authorize".into()));
        let first = &world.requests[0];
        assert_eq!(format!("{} {}", first.method, first.url.as_str()), expected);
    }
}

// req: AUTH-003 AUTH-005 AUTH-006 AUTH-007
#[test]
fn discovers_metadata_or_reports_an_error() {
    let good = json!({"resource": SERVER, "authorization_servers": ["https://as.example"]});
    let own = |issuer: &str| {
        json!({"issuer": issuer, "token_endpoint": "https://mcp.example/t",
            "authorization_endpoint": "https://mcp.example/a", "registration_endpoint": "https://mcp.example/r",
            "code_challenge_methods_supported": ["S256"]})
    };
    let other = json!({"resource": "https://evil.example/mcp", "authorization_servers": ["https://as.example"]});
    let none = || json!(null);
    type Responses<'a> = Vec<(&'a str, u16, serde_json::Value)>;
    let table: Vec<(Responses<'_>, Result<&str, &str>)> = vec![
        (vec![(RESOURCE, 404, none()), (ROOT, 200, good.clone())], Ok("https://as.example/authorize")),
        (vec![(RESOURCE, 200, json!("<html>")), (ROOT, 200, good.clone())], Ok("https://as.example/authorize")),
        (vec![(RESOURCE, 500, none()), (ROOT, 200, good.clone())], Ok("https://as.example/authorize")),
        (vec![(RESOURCE, 0, none()), (ROOT, 200, good.clone())], Ok("https://as.example/authorize")),
        (vec![(RESOURCE, 200, other.clone()), (ROOT, 200, good)], Ok("https://as.example/authorize")),
        (vec![(RESOURCE, 404, none()), (OWN, 200, own("https://mcp.example"))], Ok("https://mcp.example/a")),
        // Both spellings of a root.
        (vec![(RESOURCE, 404, none()), (OWN, 200, own("https://mcp.example/"))], Ok("https://mcp.example/a")),
        (vec![(RESOURCE, 404, none()), (OWN, 404, none())], Ok("https://mcp.example/authorize")),
        // A document that must not be used is not one that is missing: nothing is assumed.
        (vec![(RESOURCE, 404, none()), (OWN, 200, own("https://evil.example"))], Err("refused")),
        (vec![(RESOURCE, 200, other.clone())], Err("refused")),
        (vec![(RESOURCE, 404, none()), (ROOT, 200, other)], Err("refused")),
        (vec![(RESOURCE, 302, none())], Err("refused")),
        (vec![(RESOURCE, 500, none())], Err("transient")),
        (vec![(RESOURCE, 404, none()), (OWN, 503, none())], Err("transient")),
    ];
    for (responses, expected) in table {
        let mut world = World::new();
        for endpoint in ["r", "register"] {
            world.set(&format!("POST https://mcp.example/{endpoint}"), 201, &json!({"client_id": "own"}));
        }
        for (request, status, body) in &responses {
            world.set(request, *status, body);
        }
        let mut client = client(&mut world, settings());
        let found = asked(&mut world, &mut client, "Bearer");
        let shown = found.as_ref().map(|base| &**base).map_err(|error| match error {
            AuthError::Discovery(NotFound::Refused(_)) => "refused",
            AuthError::Discovery(NotFound::Transient(_)) => "transient",
            error => panic!("{error}: {responses:?}"),
        });
        assert_eq!(shown, expected, "{responses:?}");
        assert_eq!(world.opened.len(), usize::from(expected.is_ok()));
        let get = |header| world.headers(RESOURCE, header)[0].clone();
        assert_eq!(get("accept").as_deref(), Some("application/json"));
        assert_eq!(get("mcp-protocol-version").as_deref(), Some("2025-03-26"));
    }
}

// req: AUTH-015 AUTH-068 SEC-006
#[test]
fn unsafe_server_is_no_authorization_server() {
    for server in [
        "http://mcp.example/mcp",
        "http://10.0.0.9/mcp",
        "https://2130706433/mcp",
        "http://169.254.169.254/mcp",
        "https://0.0.0.0/mcp",
    ] {
        let mut world = World::new();
        let mut client = AuthClient::new(url(server), settings(), [7; 32]);
        world.run(&mut client, at(0));
        let error = asked(&mut world, &mut client, "Bearer").expect_err(server);
        assert!(matches!(error, AuthError::Discovery(NotFound::Refused(_))), "{server}: {error:?}");
        assert_eq!((world.requests.len(), world.opened.len()), (0, 0), "{server}");
    }
}

// req: SEC-008
#[test]
fn metadata_redirects_stay_on_their_origin() {
    let good = json!({"resource": SERVER, "authorization_servers": ["https://as.example"]});
    for (to, is_followed) in [
        ("/there", true),
        ("https://mcp.example/there", true),
        ("https://evil.example/there", false),
        ("http://mcp.example/there", false),
        ("//evil.example/there", false),
        ("https://mcp.example:8443/there", false),
        ("https://169.254.169.254/there", false),
        ("javascript:alert(1)", false),
    ] {
        let mut world = World::new();
        world.responses.insert(RESOURCE.into(), Reply { status: 307, body: to.into(), nonce: None });
        world.set("GET https://mcp.example/there", 200, &good);
        let mut client = client(&mut world, settings());
        let found = asked(&mut world, &mut client, "Bearer");
        assert_eq!(found.is_ok(), is_followed, "{to}: {found:?}");
        assert!(world.requests.iter().all(|it| it.url.origin() == "https://mcp.example" || is_followed), "{to}");
    }
    let mut world = World::new();
    let body = "/.well-known/oauth-protected-resource/mcp".into();
    world.responses.insert(RESOURCE.into(), Reply { status: 302, body, nonce: None });
    let mut client = client(&mut world, settings());
    asked(&mut world, &mut client, "Bearer").expect_err("it goes round in circles");
    assert_eq!(world.count(RESOURCE), 4);
}

// req: AUTH-028
#[test]
fn an_authorization_server_is_chosen() {
    let (a, b) = ("https://as.example", "https://b.example");
    let local = "https://10.0.0.1";
    for (servers, stored, is_registered, expected) in [
        (json!([a, b]), false, false, Ok("as.example")),
        (json!([b, a]), false, false, Ok("b.example")),
        // The one whose tokens the client has, and the one that knows it.
        (json!([b, a]), true, false, Ok("as.example")),
        (json!([b, a]), false, true, Ok("as.example")),
        // Those that are no URLs, or are not followed, do not take away the others.
        (json!(["javascript:alert(1)", b]), false, false, Ok("b.example")),
        (json!([local, b]), false, false, Ok("b.example")),
        (json!(["http://as.example", b]), false, false, Ok("b.example")),
        (json!([local]), false, false, Err("authorization_servers")),
    ] {
        let mut world = World::new();
        world.set_metadata(b, &json!({}));
        world.set("POST https://b.example/register", 201, &json!({"client_id": "b"}));
        if stored {
            authorized(&mut world);
        }
        let asked = world.opened.len();
        world.set(RESOURCE, 200, &json!({"resource": SERVER, "authorization_servers": servers}));
        world.refuse("invalid_grant");
        let settings = if is_registered { registered(AuthMethod::ClientSecretPost) } else { settings() };
        let mut client = client(&mut world, settings);
        let verdict = Call::new(&client).wait(&mut world, &mut client, at(2));
        match expected {
            Ok(host) => assert_eq!(world.opened.get(asked).map(Url::host), Some(host), "{servers}: {verdict:?}"),
            Err(name) => {
                assert!(matches!(verdict, Verdict::Fail(AuthError::Url(found, _)) if found == name), "{verdict:?}");
            }
        }
    }
}

// req: AUTH-028
#[test]
fn tries_next_authorization_server_on_failure() {
    let names: Vec<_> = (0..6).map(|index| format!("https://as{index}.example")).collect();
    for (status, first_good, expected) in [
        (404, 1, Some("as1.example")),
        (503, 1, Some("as1.example")),
        (0, 3, Some("as3.example")),
        // No more than four are tried.
        (0, 4, None),
        (404, 6, None),
    ] {
        let mut world = World::new();
        world.set(RESOURCE, 200, &json!({"resource": SERVER, "authorization_servers": names}));
        for (index, name) in names.iter().enumerate() {
            world.set_metadata(name, &json!({}));
            world.set(&format!("POST {name}/register"), 201, &json!({"client_id": "dynamic"}));
            if index < first_good {
                world.set(&format!("GET {name}/.well-known/oauth-authorization-server"), status, &json!(null));
                world.set(&format!("GET {name}/.well-known/openid-configuration"), status, &json!(null));
            }
        }
        let mut client = client(&mut world, settings());
        let found = asked(&mut world, &mut client, "Bearer");
        assert_eq!(world.opened.first().map(Url::host), expected, "{status}: {found:?}");
        // The error is that of the first.
        let is_first = |error: &AuthError| error.to_string().contains("as0.example") || expected.is_some();
        assert!(found.as_ref().map_or_else(is_first, |_| true), "{found:?}");
    }
    // Metadata that must not be used are no reason to go on, nor are those of the server that knows the client.
    for (is_registered, status, body) in
        [(false, 200, json!({"issuer": "https://evil.example"})), (true, 503, json!(null))]
    {
        let mut world = World::new();
        let servers = json!(["https://as.example", names[0]]);
        world.set(RESOURCE, 200, &json!({"resource": SERVER, "authorization_servers": servers}));
        world.set_metadata(&names[0], &json!({}));
        world.set(METADATA, status, &body);
        let settings = if is_registered { registered(AuthMethod::ClientSecretPost) } else { settings() };
        let mut client = client(&mut world, settings);
        asked(&mut world, &mut client, "Bearer").expect_err("it ends with an error");
        assert!(world.requests.iter().all(|it| it.url.host() != "as0.example"));
    }
}

// req: AUTH-068 SEC-005 SEC-007
#[test]
fn endpoints_must_pass_the_url_policy() {
    for (name, value) in [
        ("token_endpoint", "http://as.example/token"),
        ("authorization_endpoint", "https://192.168.0.1/authorize"),
        ("registration_endpoint", "http://[::1]/register"),
        ("revocation_endpoint", "https://169.254.169.254/revoke"),
    ] {
        let mut world = World::new();
        world.set_metadata("https://as.example", &json!({name: value}));
        let mut client = client(&mut world, settings());
        let error = asked(&mut world, &mut client, "Bearer").expect_err(name);
        assert!(matches!(error, AuthError::Url(found, _) if found == name), "{name}: {error:?}");
        assert!(world.opened.is_empty());
    }
}

#[test]
fn resource_metadata_covers_escaped_paths() {
    let server = "https://mcp.example/a%2Fb/mcp";
    let mut world = World::new();
    let document = "GET https://mcp.example/.well-known/oauth-protected-resource/a%2Fb/mcp";
    world.set(document, 200, &json!({"resource": server, "authorization_servers": ["https://as.example"]}));
    let mut client = AuthClient::new(url(server), settings(), [7; 32]);
    world.run(&mut client, at(0));
    assert_eq!(asked(&mut world, &mut client, "Bearer"), Ok("https://as.example/authorize".into()));
    assert_eq!(world.asked("resource").as_deref(), Some("https%3A%2F%2Fmcp.example%2Fa%252Fb%2Fmcp"));
}

#[test]
fn metadata_of_another_tenant_are_refused() {
    let server = "https://mcp.example/mcp?tenant=a";
    for (resource, is_taken) in
        [(server, true), (SERVER, true), ("https://mcp.example/mcp?tenant=b", false), ("https://mcp.example?x", false)]
    {
        let mut world = World::new();
        let body = json!({"resource": resource, "authorization_servers": ["https://as.example"]});
        world.set(&format!("{RESOURCE}?tenant=a"), 200, &body);
        let mut client = AuthClient::new(url(server), settings(), [7; 32]);
        world.run(&mut client, at(0));
        assert_eq!(asked(&mut world, &mut client, "Bearer").is_ok(), is_taken, "{resource}");
    }
}
