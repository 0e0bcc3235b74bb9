//! Tokens that are refreshed.

use super::*;

#[test]
fn many_refused_requests_refresh_once() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.grant("two", Some("r2"));
    let mut all: Vec<_> = (0..50).map(|_| Call::new(&client)).collect();
    for call in &mut all {
        assert_eq!(call.ask(&mut client, at(2)), Verdict::Wait);
    }
    let mut late = Call::new(&client);
    world.run(&mut client, at(2));
    assert_eq!(world.count(TOKEN), 2);
    assert!(world.bodies(TOKEN)[1].contains("refresh_token=r1"));
    for call in &mut all {
        assert_eq!(call.ask(&mut client, at(2)), Verdict::Retry);
    }
    assert_eq!(late.ask(&mut client, at(3)), Verdict::Retry, "one whose response was late does not refresh again");
    assert_eq!((token(&client), world.count(TOKEN)), (Some("two"), 2));
}

#[test]
fn a_request_with_an_older_token_does_not_wait_for_the_user() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    let mut late = Call::new(&client);
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Retry);
    let mut call = Call::refused(&client, 403, &insufficient("b"));
    assert_eq!(call.wait(&mut world, &mut client, at(3)), Verdict::Wait);
    assert_eq!(late.ask(&mut client, at(4)), Verdict::Retry, "there is a newer token");
    assert_eq!(late.again(&mut client, at(5)), Verdict::Wait, "it is refused as well");
    assert_eq!(call.ask(&mut client, at(5)), Verdict::Wait);
    world.grant("three", None);
    world.consent(&mut client, at(6));
    for call in [&mut late, &mut call] {
        assert_eq!(call.ask(&mut client, at(7)), Verdict::Retry);
    }
    assert_eq!((token(&client), world.opened.len()), (Some("three"), 2));
}

#[test]
fn request_with_an_older_token_is_retried_first() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    let late = Call::new(&client);
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Retry);
    let mut call = Call::refused(&client, 403, &insufficient("b"));
    assert_eq!(call.ask(&mut client, at(3)), Verdict::Wait);
    loop {
        let step = client.step.name();
        for used in [late.used, None] {
            let mut late = Call { used, ..late.clone() };
            assert_eq!(late.ask(&mut client, at(3)), Verdict::Retry, "there is a newer token: {step}");
            assert_eq!(late.again(&mut client, at(3)), Verdict::Wait, "it is refused as well: {step}");
        }
        assert_eq!(late.clone().ask(&mut client.clone(), at(3602)), Verdict::Wait, "it has expired: {step}");
        let Some(action) = client.poll_action() else { break };
        world.perform(&mut client, at(3), action);
    }
    assert!(matches!(client.step, Step::Browser(_)));
}

#[test]
fn processes_do_not_reuse_a_refresh_token() {
    let mut world = World::new();
    let mut one = authorized(&mut world);
    let mut two = client(&mut world, settings());
    world.grant("two", Some("r2"));
    for client in [&mut one, &mut two] {
        let mut call = Call::new(client);
        assert_eq!(call.wait(&mut world, client, at(2)), Verdict::Retry);
        assert_eq!(token(client), Some("two"));
    }
    assert_eq!(world.count(TOKEN), 2);
}

#[test]
fn losing_process_uses_tokens_of_the_winner() {
    let mut world = World::new();
    let mut one = authorized(&mut world);
    let mut two = client(&mut world, settings());
    // Both have read the same refresh token before either uses it.
    for client in [&mut one, &mut two] {
        assert_eq!(Call::new(client).ask(client, at(2)), Verdict::Wait);
        let action = client.poll_action().expect("it loads");
        world.perform(client, at(2), action);
    }
    world.grant("two", Some("r2"));
    world.run(&mut one, at(2));
    world.refuse("invalid_grant");
    world.run(&mut two, at(2));
    assert_eq!((token(&one), token(&two)), (Some("two"), Some("two")));
    assert!(!two.is_busy() && world.opened.len() == 1, "the user is not asked again");
    assert_eq!(world.store.refresh(), Some("r2"));
}

#[test]
fn refresh_handles_each_response() {
    let unavailable = |status| Err(AuthError::Unavailable(Some(status)));
    let long = "r".repeat(crate::auth::document::MAX_TEXT + 1);
    for (status, body, expected, refresh) in [
        (200, json!({"access_token": "two", "token_type": "Bearer"}), Ok("two"), Some("r1")),
        (200, json!({"access_token": "two", "token_type": "Bearer", "refresh_token": "r2"}), Ok("two"), Some("r2")),
        // The server may have replaced the one that was used.
        (200, json!({"access_token": "two", "token_type": "Bearer", "refresh_token": 2}), Ok("two"), None),
        (200, json!({"access_token": "two", "token_type": "Bearer", "refresh_token": long}), Ok("two"), None),
        (0, json!(null), Err(AuthError::Unavailable(None)), Some("r1")),
        (503, json!({}), unavailable(503), Some("r1")),
        (404, json!({}), Err(AuthError::Status(404)), Some("r1")),
        (403, json!({}), Err(AuthError::Status(403)), Some("r1")),
        (200, json!({}), Err(AuthError::Invalid(DocumentError::Missing("access_token"))), Some("r1")),
        (400, json!({"error": "invalid_dpop_proof"}), Err(rejected("invalid_dpop_proof")), Some("r1")),
    ] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        world.set(TOKEN, status, &body);
        let verdict = Call::new(&client).wait(&mut world, &mut client, at(2));
        assert_eq!(world.opened.len(), 1, "the user is not asked again: {body}");
        assert_eq!(verdict, expected.as_ref().map_or_else(|error| Verdict::Fail(error.clone()), |_| Verdict::Retry));
        assert_eq!(token(&client), Some(expected.unwrap_or("one")));
        assert_eq!(world.store.refresh(), refresh, "{body}");
    }
}

#[test]
fn refused_refresh_deletes_only_unusable_state() {
    for (code, client_id, refresh) in [
        ("invalid_grant", "dynamic", None),
        ("invalid_client", "renewed", None),
        ("unsupported_grant_type", "dynamic", Some("r1")),
        ("invalid_target", "dynamic", Some("r1")),
        ("invalid_scope", "dynamic", Some("r1")),
        ("invalid_request", "dynamic", Some("r1")),
    ] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        world.set(REGISTER, 201, &json!({"client_id": "renewed"}));
        world.refuse(code);
        let mut call = Call::new(&client);
        assert_eq!(call.wait(&mut world, &mut client, at(2)), Verdict::Wait);
        assert_eq!(world.opened.len(), 2, "{code}");
        assert_eq!(world.asked("client_id").as_deref(), Some(client_id), "{code}");
        assert_eq!(world.store.refresh(), refresh, "{code}");
        world.grant("two", Some("r2"));
        world.consent(&mut client, at(3));
        assert_eq!((call.ask(&mut client, at(3)), token(&client)), (Verdict::Retry, Some("two")));
    }
}

#[test]
fn refresh_refused_without_error_code_begins_authorization() {
    for status in [400, 401] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        world.set(TOKEN, status, &json!(null));
        // Nothing waits for it.
        client.refresh(at(2));
        world.run(&mut client, at(2));
        assert_eq!((client.error(), world.opened.len()), (Some(&AuthError::Status(status)), 1));
        let mut call = Call::new(&client);
        assert_eq!(call.wait(&mut world, &mut client, at(3)), Verdict::Wait);
        assert_eq!((world.opened.len(), world.count(REGISTER), world.store.refresh()), (2, 1, Some("r1")));
        world.consent(&mut client, at(4));
        for now in [4, 3603] {
            let mut call = Call::new(&client);
            assert_eq!(call.wait(&mut world, &mut client, at(now)), Verdict::Fail(AuthError::Status(status)));
        }
        assert_eq!((world.opened.len(), token(&client)), (2, Some("one")));
    }
}

// req: AUTH-027 AUTH-057
#[test]
fn refused_refresh_rediscovers_the_server() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.migrate();
    world.refuse("invalid_grant");
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(2)), Verdict::Wait);
    assert_eq!(world.opened.len(), 2);
    assert_eq!(world.opened[1].host(), "b.example");
    world.consent(&mut client, at(3));
    assert_eq!((call.ask(&mut client, at(3)), token(&client)), (Verdict::Retry, Some("two")));
}

#[test]
fn rediscovers_a_moved_token_endpoint() {
    for status in [404, 503, 0] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        world.set(TOKEN, status, &json!(null));
        let error = match status {
            404 => AuthError::Status(404),
            _ => AuthError::Unavailable((status > 0).then_some(status)),
        };
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Fail(error));
        world.set_metadata("https://as.example", &json!({"token_endpoint": "https://as.example/new"}));
        let granted = json!({"access_token": "two", "token_type": "Bearer"});
        world.set("POST https://as.example/new", 200, &granted);
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Retry);
        assert_eq!(token(&client), Some("two"));
    }
}

#[test]
fn refreshes_shortly_before_expiry() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    assert!(!client.is_about_to_expire(at(3540)));
    assert!(client.is_about_to_expire(at(3541)));
    assert!(!client.is_expired(at(3600)) && client.is_expired(at(3601)));
    // The margin is half of a short life: a server does not choose that each request refreshes.
    let short = json!({"access_token": "two", "token_type": "Bearer", "refresh_token": "r2", "expires_in": 40});
    world.set(TOKEN, 200, &short);
    client.refresh(at(3541));
    world.run(&mut client, at(3541));
    assert_eq!(token(&client), Some("two"));
    assert!(!client.is_about_to_expire(at(3541)) && !client.is_about_to_expire(at(3560)));
    assert!(client.is_about_to_expire(at(3561)));
}

// req: AUTH-057 M-AUTH-031
#[test]
fn tokens_of_a_former_server_are_withheld() {
    let mut world = World::new();
    world.grant("one", None);
    let mut client = authorized(&mut world);
    world.migrate();
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Wait);
    assert_eq!((world.opened.len(), token(&client)), (2, None));
    client.handle_cancelled();
    assert_eq!(token(&client), None);
}

// req: M-AUTH-052
#[test]
fn reads_the_store_before_asking_the_user() {
    let mut world = World::new();
    world.grant("one", None);
    let mut one = authorized(&mut world);
    let mut two = client(&mut world, settings());
    world.grant("two", None);
    let mut call = Call::new(&one);
    assert_eq!(call.wait(&mut world, &mut one, at(2)), Verdict::Wait);
    world.consent(&mut one, at(3));
    // The other process takes over what the first one has got.
    assert_eq!(Call::new(&two).wait(&mut world, &mut two, at(4)), Verdict::Retry);
    assert_eq!((token(&two), world.opened.len(), world.count(REGISTER)), (Some("two"), 2, 1));
}

#[test]
fn refresh_without_scope_keeps_granted_scopes() {
    let mut world = World::new();
    let body = json!({"access_token": "one", "token_type": "Bearer", "refresh_token": "r1", "scope": "x"});
    world.set(TOKEN, 200, &body);
    let mut client = authorized(&mut world);
    world.grant("two", None);
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Retry);
    let tokens = world.store.tokens().expect("tokens");
    assert_eq!((tokens.scopes.to_string(), tokens.requested.to_string()), ("x".into(), "a".into()));
}

#[test]
fn refreshes_that_fail_are_repeated_after_growing_pauses() {
    for status in [0, 403, 404, 500, 503] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        world.set(TOKEN, status, &json!({}));
        let error = match status {
            0 => AuthError::Unavailable(None),
            403 | 404 => AuthError::Status(status),
            status => AuthError::Unavailable(Some(status)),
        };
        let mut attempts = Vec::new();
        for now in 2..2000 {
            let before = world.count(TOKEN);
            // A request each second, and a client that refreshes in advance.
            let verdict = Call::new(&client).wait(&mut world, &mut client, at(now));
            assert_eq!(verdict, Verdict::Fail(error.clone()), "{now}");
            client.refresh(at(now));
            world.run(&mut client, at(now));
            attempts.extend((world.count(TOKEN) > before).then_some(now - 2));
        }
        assert_eq!(attempts, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111, 1411, 1711], "{status}");
        assert_eq!((world.opened.len(), world.store.refresh()), (1, Some("r1")), "nothing is lost");
        // A success ends it, also that of another process.
        world.grant("two", Some("r2"));
        assert!(matches!(Call::new(&client).wait(&mut world, &mut client, at(2000)), Verdict::Fail(_)));
        let mut other = super::client(&mut world, settings());
        assert_eq!(Call::new(&other).wait(&mut world, &mut other, at(2000)), Verdict::Retry);
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2001)), Verdict::Retry);
        assert_eq!(token(&client), Some("two"));
        world.grant("three", Some("r3"));
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2002)), Verdict::Retry);
        // The next failure begins with the shortest pause.
        world.set(TOKEN, status, &json!({}));
        let before = world.count(TOKEN);
        for now in [2003, 2004] {
            assert!(matches!(Call::new(&client).wait(&mut world, &mut client, at(now)), Verdict::Fail(_)));
        }
        assert_eq!(world.count(TOKEN), before + 2);
        client.allow_authorization();
        assert!(matches!(Call::new(&client).wait(&mut world, &mut client, at(2004)), Verdict::Fail(_)));
        assert_eq!(world.count(TOKEN), before + 3);
    }
}
