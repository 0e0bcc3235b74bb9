//! The requested scopes, and the number of authorizations for them.

use super::*;

// req: AUTH-036 AUTH-037 AUTH-038 M-AUTH-040 M-AUTH-041 M-AUTH-042
#[test]
fn scopes_come_from_challenge_settings_or_resource() {
    for (challenge, configured, expected) in [
        (r#"Basic realm="x", Bearer scope="x y""#, None, Some("x+y")),
        (r#"Bearer scope="x y""#, Some("s"), Some("x+y")),
        // Each challenge of the scheme is read.
        (r#"Bearer realm="x", Bearer scope="x""#, None, Some("x")),
        ("Bearer", Some("s"), Some("s")),
        ("Bearer", None, Some("a")),
        ("", None, Some("a")),
    ] {
        let mut world = World::new();
        let scopes = configured.and_then(Scopes::parse);
        let mut client = client(&mut world, Settings { scopes, ..settings() });
        let mut call = Call::refused(&client, 401, challenge);
        assert_eq!(call.wait(&mut world, &mut client, at(0)), Verdict::Wait);
        assert_eq!(world.asked("scope").as_deref(), expected, "{challenge}");
    }
    let mut world = World::new();
    world.set(RESOURCE, 200, &json!({"resource": SERVER, "authorization_servers": ["https://as.example"]}));
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
    assert_eq!(world.asked("scope"), None, "none leaves out the parameter");
}

// req: AUTH-036 M-AUTH-040
#[test]
fn challenge_scopes_survive_a_refused_refresh() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.refuse("invalid_grant");
    let mut call = Call::refused(&client, 401, r#"Bearer error="invalid_token", scope="x""#);
    assert_eq!(call.wait(&mut world, &mut client, at(2)), Verdict::Wait);
    assert_eq!(world.asked("scope").as_deref(), Some("a+x"));
}

// req: AUTH-061 M-AUTH-043
#[test]
fn step_up_requests_all_earlier_scopes() {
    let mut world = World::new();
    // The server grants less than it is asked for.
    let granted = json!({"access_token": "one", "token_type": "Bearer", "refresh_token": "r1", "scope": "b"});
    world.set(TOKEN, 200, &granted);
    let scopes = Scopes::parse("a b");
    let mut client = authorized_with(&mut world, Settings { scopes, ..settings() });
    let mut call = Call::refused(&client, 403, &insufficient("c"));
    assert_eq!(call.wait(&mut world, &mut client, at(2)), Verdict::Wait);
    assert_eq!(world.asked("scope").as_deref(), Some("a+b+c"));
    world.consent(&mut client, at(3));
    assert_eq!(call.ask(&mut client, at(3)), Verdict::Retry);
    accept(&mut client);
    // Scopes that were gained stay when the tokens have to be replaced.
    world.refuse("invalid_grant");
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(4)), Verdict::Wait);
    assert_eq!(world.asked("scope").as_deref(), Some("a+b+c"));
}

// req: AUTH-062 M-AUTH-044
#[test]
fn step_ups_are_limited_per_request() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    let mut call = Call::refused(&client, 403, "");
    for (count, scope) in ["b", "c", "d", "e"].into_iter().enumerate() {
        call.challenges = Challenge::parse_all([insufficient(scope).as_bytes()]);
        let verdict = call.again(&mut client, at(2));
        if count == 3 {
            assert_eq!(verdict, Verdict::Fail(AuthError::Scopes));
            break;
        }
        assert_eq!(verdict, Verdict::Wait);
        world.run(&mut client, at(2));
        let expected = ["a+b", "a+b+c", "a+b+c+d"][count];
        assert_eq!(world.asked("scope").as_deref(), Some(expected));
        world.grant(&format!("more-{count}"), Some("r2"));
        world.consent(&mut client, at(3));
        assert_eq!(call.ask(&mut client, at(3)), Verdict::Retry);
    }
    assert_eq!(world.opened.len(), 4);
    let mut other = Call::refused(&client, 403, &insufficient("f"));
    assert_eq!(other.wait(&mut world, &mut client, at(4)), Verdict::Wait, "another request may ask for more");
    assert_eq!(world.opened.len(), 5);
}

#[test]
fn ungranted_scopes_are_not_requested_again() {
    let mut world = World::new();
    let granted = json!({"access_token": "one", "token_type": "Bearer", "scope": "a"});
    world.set(TOKEN, 200, &granted);
    let scopes = Scopes::parse("a b");
    let mut client = authorized_with(&mut world, Settings { scopes, ..settings() });
    for (challenge, error) in [
        (insufficient("b"), AuthError::Scopes),
        (insufficient("a b"), AuthError::Scopes),
        (r#"Bearer scope="c""#.into(), AuthError::Refused),
        ("Bearer error=\"insufficient_scope\"".into(), AuthError::Refused),
        (String::new(), AuthError::Refused),
    ] {
        let mut call = Call::refused(&client, 403, &challenge);
        assert_eq!(call.ask(&mut client, at(2)), Verdict::Fail(error), "{challenge}");
    }
    assert_eq!(world.opened.len(), 1);
}

// req: M-AUTH-050 M-AUTH-051
#[test]
fn requests_offline_access_if_supported() {
    for (is_wanted, known, expected) in [
        (true, json!(["a", "offline_access"]), "a+offline_access"),
        (true, json!(["a"]), "a"),
        (true, json!(null), "a"),
        (false, json!(["a", "offline_access"]), "a"),
    ] {
        let mut world = World::new();
        world.set_metadata("https://as.example", &json!({"scopes_supported": known}));
        let mut client = client(&mut world, Settings { offline_access: is_wanted, ..settings() });
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
        assert_eq!(world.asked("scope").as_deref(), Some(expected), "{known}");
        let body: serde_json::Value = serde_json::from_str(&world.bodies(REGISTER)[0]).expect("JSON");
        assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
    }
}

/// A server that names missing scopes has read the token. Another refusal with 403 says nothing about it.
#[test]
fn only_missing_scopes_show_that_a_token_is_good() {
    for (challenge, verdict, is_good) in [
        (insufficient("a"), AuthError::Scopes, true),
        ("Bearer".into(), AuthError::Refused, false),
        (r#"Bearer error="invalid_token", scope="a""#.into(), AuthError::Refused, false),
    ] {
        let mut world = World::new();
        world.grant("one", None);
        let mut client = client(&mut world, settings());
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
        world.consent(&mut client, at(1));
        assert_eq!(Call::refused(&client, 403, &challenge).ask(&mut client, at(2)), Verdict::Fail(verdict));
        // The new token is refused. Unless it was good before, the user is not asked again.
        let verdict = Call::new(&client).wait(&mut world, &mut client, at(3));
        let expected = if is_good { (Verdict::Wait, 2) } else { (Verdict::Fail(AuthError::Refused), 1) };
        assert_eq!((verdict, world.opened.len()), expected, "{challenge}");
    }
}

#[test]
fn debug_output_names_the_step_of_a_flow() {
    let mut world = World::new();
    let mut client = AuthClient::new(url(SERVER), settings(), [7; 32]);
    let mut names = Vec::new();
    let mut note = |client: &AuthClient| {
        let name = client.step.name();
        assert!(format!("{client:?}").contains(&format!("step: {name:?}")), "{client:?}");
        if names.last() != Some(&name) {
            names.push(name);
        }
    };
    let run = |world: &mut World, client: &mut AuthClient, note: &mut dyn FnMut(&AuthClient)| {
        note(client);
        while let Some(action) = client.poll_action() {
            world.perform(client, at(1), action);
            note(client);
        }
    };
    run(&mut world, &mut client, &mut note);
    assert_eq!(Call::new(&client).ask(&mut client, at(1)), Verdict::Wait);
    run(&mut world, &mut client, &mut note);
    assert_eq!(client.poll_timeout(), Some(at(601).instant));
    let query = world.redirect("code=c");
    client.handle_redirect(at(1), &query).expect("a code");
    run(&mut world, &mut client, &mut note);
    assert_eq!(client.poll_timeout(), None);
    client.sign_out(at(2));
    assert!(client.is_signing_out());
    run(&mut world, &mut client, &mut note);
    assert!(!client.is_signing_out());
    let expected = [
        "loading",
        "idle",
        "loading",
        "finding the protected resource metadata",
        "finding the authorization server metadata",
        "registering",
        "storing",
        "waiting for the redirect",
        "requesting a token",
        "storing",
        "idle",
        "loading",
        "removing",
        "revoking",
        "idle",
    ];
    assert_eq!(names, expected);
}
