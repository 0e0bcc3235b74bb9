//! Which metadata a client uses.

use super::*;

// req: M-AUTH-006
#[test]
fn metadata_that_the_challenge_names_are_used_unless_the_policy_forbids_it() {
    for (named, expected) in [
        ("https://mcp.example/meta", "https://mcp.example/meta"),
        ("http://169.254.169.254/meta", "https://mcp.example/.well-known/oauth-protected-resource/mcp"),
        ("https://10.0.0.1/meta", "https://mcp.example/.well-known/oauth-protected-resource/mcp"),
        ("file:///etc/passwd", "https://mcp.example/.well-known/oauth-protected-resource/mcp"),
    ] {
        let mut world = World::new();
        let mut client = client(&mut world, settings());
        let value = format!(r#"Bearer resource_metadata="{named}""#);
        let challenges = Challenge::parse_all([value.as_bytes()]);
        client.handle_challenge(at(0), 401, &challenges, None, &mut Attempts::default());
        world.run(&mut client, at(0));
        assert_eq!(world.requests[0].url.as_str(), expected, "{named}");
        assert_eq!(world.opened.len(), 1, "{named}");
    }
}

// req: AUTH-003 AUTH-005 AUTH-006 AUTH-007 SEC-008
#[test]
fn metadata_are_found_or_not() {
    const RESOURCE: [&str; 2] = [
        "GET https://mcp.example/.well-known/oauth-protected-resource/mcp",
        "GET https://mcp.example/.well-known/oauth-protected-resource",
    ];
    const OWN: &str = "GET https://mcp.example/.well-known/oauth-authorization-server";
    let good = json!({"resource": SERVER, "authorization_servers": ["https://as.example"]});
    let own = json!({"issuer": "https://mcp.example", "token_endpoint": "https://mcp.example/t",
        "authorization_endpoint": "https://mcp.example/a", "registration_endpoint": "https://mcp.example/r",
        "code_challenge_methods_supported": ["S256"]});
    let spoof = json!({"resource": "https://evil.example/mcp", "authorization_servers": ["https://as.example"]});
    type Responses<'a> = Vec<(&'a str, u16, serde_json::Value)>;
    let register = ["https://mcp.example/r", "https://mcp.example/register"];
    let table: [(Responses<'_>, Option<&str>); 9] = [
        (vec![(RESOURCE[0], 404, json!(null)), (RESOURCE[1], 200, good.clone())], Some("https://as.example/authorize")),
        (
            vec![(RESOURCE[0], 200, json!("<html>")), (RESOURCE[1], 200, good.clone())],
            Some("https://as.example/authorize"),
        ),
        (vec![(RESOURCE[0], 500, json!(null)), (RESOURCE[1], 200, good.clone())], Some("https://as.example/authorize")),
        (vec![(RESOURCE[0], 0, json!(null)), (RESOURCE[1], 200, good)], Some("https://as.example/authorize")),
        (vec![(RESOURCE[0], 404, json!(null)), (OWN, 200, own)], Some("https://mcp.example/a")),
        (vec![(RESOURCE[0], 404, json!(null))], Some("https://mcp.example/authorize")),
        (vec![(RESOURCE[0], 500, json!(null))], None),
        (vec![(RESOURCE[0], 200, spoof)], Some("https://mcp.example/authorize")),
        (vec![(RESOURCE[0], 404, json!(null)), (OWN, 503, json!(null))], None),
    ];
    for (responses, opened) in table {
        let mut world = World::new();
        for endpoint in register {
            world.set(&format!("POST {endpoint}"), 201, &json!({"client_id": "own"}));
        }
        for (request, status, body) in &responses {
            world.set(request, *status, body);
        }
        let mut client = client(&mut world, settings());
        unauthorized(&mut client, at(0), &mut Attempts::default());
        world.run(&mut client, at(0));
        let base = world.opened.first().map(|url| url.as_str().split('?').next().expect("a base"));
        assert_eq!(base, opened, "{responses:?}");
        if opened.is_none() {
            let verdict = client.verdict(None);
            assert!(matches!(verdict, Verdict::Fail(AuthError::Discovery(NotFound::Transient(_)))), "{verdict:?}");
        }
        let header = |name: &str| {
            world.requests[0].headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.expose())
        };
        assert_eq!((header("accept"), header("mcp-protocol-version")), (Some("application/json"), Some("2025-03-26")));
    }
}

#[test]
fn redirects_of_documents_stay_at_their_origin() {
    const FIRST: &str = "GET https://mcp.example/.well-known/oauth-protected-resource/mcp";
    let good = json!({"resource": SERVER, "authorization_servers": ["https://as.example"]});
    for (to, is_followed) in [
        ("/there", true),
        ("https://mcp.example/there", true),
        ("https://evil.example/there", false),
        ("http://mcp.example/there", false),
        ("//evil.example/there", false),
        ("https://mcp.example:8443/there", false),
    ] {
        let mut world = World::new();
        world.responses.insert(FIRST.into(), (307, to.into()));
        world.set("GET https://mcp.example/there", 200, &good);
        world.set("POST https://mcp.example/register", 201, &json!({"client_id": "own"}));
        let mut client = client(&mut world, settings());
        unauthorized(&mut client, at(0), &mut Attempts::default());
        world.run(&mut client, at(0));
        let opened = world.opened.first().expect("the default of 2025-03-26 at least");
        assert_eq!(opened.host() == "as.example", is_followed, "{to}");
        assert_eq!(world.requests.iter().filter(|it| it.url.host().starts_with("evil")).count(), 0);
    }
    let mut world = World::new();
    world.responses.insert(FIRST.into(), (302, "/.well-known/oauth-protected-resource/mcp".into()));
    let mut client = client(&mut world, settings());
    unauthorized(&mut client, at(0), &mut Attempts::default());
    world.run(&mut client, at(0));
    assert_eq!(world.count("https://mcp.example/.well-known/oauth-protected-resource/mcp"), 4);
}

// req: M-AUTH-012 M-AUTH-013
#[test]
fn another_authorization_server_gets_a_registration_of_its_own() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.set(
        "GET https://mcp.example/.well-known/oauth-protected-resource/mcp",
        200,
        &json!({"resource": SERVER, "authorization_servers": ["https://b.example"]}),
    );
    world.set(
        "GET https://b.example/.well-known/oauth-authorization-server",
        200,
        &json!({"issuer": "https://b.example", "authorization_endpoint": "https://b.example/authorize",
            "token_endpoint": "https://b.example/token", "registration_endpoint": "https://b.example/register",
            "code_challenge_methods_supported": ["S256"]}),
    );
    world.set("POST https://b.example/register", 201, &json!({"client_id": "b"}));
    world.set("POST https://b.example/token", 200, &json!({"access_token": "two", "token_type": "Bearer"}));
    let mut attempts = Attempts { has_refreshed: true, has_authorized: false };
    assert_eq!(unauthorized(&mut client, at(2), &mut attempts), Verdict::Wait);
    world.run(&mut client, at(2));
    world.consent(&mut client, at(3));
    assert_eq!(token(&client), Some("two"));
    let bodies = world.bodies("https://b.example/token").concat();
    assert!(bodies.contains("client_id=b") && !bodies.contains("dynamic") && !bodies.contains("r1"), "{bodies}");
}

#[test]
fn endpoints_pass_the_policy() {
    for (name, value) in [
        ("token_endpoint", "http://as.example/token"),
        ("authorization_endpoint", "https://192.168.0.1/authorize"),
        ("registration_endpoint", "http://[::1]/register"),
    ] {
        let mut world = World::new();
        let mut metadata = json!({"issuer": "https://as.example", "authorization_endpoint": "https://as.example/authorize",
            "token_endpoint": "https://as.example/token", "code_challenge_methods_supported": ["S256"]});
        metadata[name] = value.into();
        world.set("GET https://as.example/.well-known/oauth-authorization-server", 200, &metadata);
        let mut client = client(&mut world, settings());
        unauthorized(&mut client, at(0), &mut Attempts::default());
        world.run(&mut client, at(0));
        let verdict = client.verdict(None);
        assert!(matches!(verdict, Verdict::Fail(AuthError::Url(found, _)) if found == name), "{name}: {verdict:?}");
        assert!(world.opened.is_empty());
    }
}
