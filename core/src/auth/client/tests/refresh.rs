//! Tokens that are refreshed, stored and revoked.

use super::*;

#[test]
fn many_refused_requests_refresh_once() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.grant("two", Some("r2"));
    let used = client.token().map(|token| token.generation);
    let mut all: Vec<_> = (0..50).map(|_| Attempts::default()).collect();
    for attempts in &mut all {
        assert_eq!(client.handle_challenge(at(2), 401, &[], used, attempts), Verdict::Wait);
    }
    world.run(&mut client, at(2));
    assert_eq!(world.count("https://as.example/token"), 2);
    assert!(world.bodies("https://as.example/token")[1].contains("refresh_token=r1"));
    assert_eq!(client.verdict(used), Verdict::Retry);
    // One whose response was late does not refresh again.
    assert_eq!(client.handle_challenge(at(3), 401, &[], used, &mut Attempts::default()), Verdict::Retry);
    assert_eq!(token(&client), Some("two"));
}

#[test]
fn processes_that_share_a_store_do_not_spend_a_refresh_token_twice() {
    let mut world = World::new();
    let mut one = authorized(&mut world);
    let mut two = client(&mut world, settings());
    world.grant("two", Some("r2"));
    let used = one.token().map(|token| token.generation);
    for client in [&mut one, &mut two] {
        assert_eq!(unauthorized(client, at(2), &mut Attempts::default()), Verdict::Wait);
        world.run(client, at(2));
        assert_eq!(client.verdict(used), Verdict::Retry);
        assert_eq!(token(client), Some("two"));
    }
    assert_eq!(world.count("https://as.example/token"), 2);
}

#[test]
fn a_process_that_loses_the_race_takes_over_the_tokens_of_the_winner() {
    let mut world = World::new();
    let mut one = authorized(&mut world);
    let mut two = client(&mut world, settings());
    // Both have read the same refresh token before either uses it.
    for client in [&mut one, &mut two] {
        assert_eq!(unauthorized(client, at(2), &mut Attempts::default()), Verdict::Wait);
        let action = client.poll_action().expect("it loads");
        world.perform(client, at(2), action);
    }
    world.grant("two", Some("r2"));
    world.run(&mut one, at(2));
    world.set("POST https://as.example/token", 400, &json!({"error": "invalid_grant"}));
    world.run(&mut two, at(2));
    assert_eq!((token(&one), token(&two)), (Some("two"), Some("two")));
    assert!(!two.is_busy() && world.opened.len() == 1, "the user is not asked again");
}

#[test]
fn a_refresh_has_an_outcome_for_each_reply() {
    let unavailable = |status| Err(AuthError::Unavailable(Some(status)));
    let rejected = |code: &str| Err(AuthError::Rejected(OAuthError { code: code.into(), description: None }));
    for (status, body, expected, refresh) in [
        (200, json!({"access_token": "two", "token_type": "Bearer"}), Ok("two"), Some("r1")),
        (200, json!({"access_token": "two", "token_type": "Bearer", "refresh_token": "r2"}), Ok("two"), Some("r2")),
        (0, json!(null), Err(AuthError::Unavailable(None)), Some("r1")),
        (503, json!({}), unavailable(503), Some("r1")),
        (404, json!({}), unavailable(404), Some("r1")),
        (400, json!({"error": "invalid_request"}), rejected("invalid_request"), Some("r1")),
        (200, json!({}), Err(AuthError::Invalid(DocumentError::Missing("access_token"))), Some("r1")),
    ] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        let used = client.token().map(|token| token.generation);
        world.set("POST https://as.example/token", status, &body);
        assert_eq!(unauthorized(&mut client, at(2), &mut Attempts::default()), Verdict::Wait);
        world.run(&mut client, at(2));
        assert_eq!(world.opened.len(), 1, "the user is not asked again: {body}");
        let verdict = expected.as_ref().map_or_else(|error| Verdict::Fail(error.clone()), |_| Verdict::Retry);
        assert_eq!(client.verdict(used), verdict, "{body}");
        assert_eq!(token(&client), Some(expected.unwrap_or("one")));
        let stored = &world.store.entries[SERVER].1.tokens.as_ref().expect("tokens");
        assert_eq!(stored.refresh.as_ref().map(Secret::expose), refresh, "{body}");
    }
}

#[test]
fn only_a_refused_refresh_token_leads_to_the_user() {
    for (code, client_id) in [("invalid_grant", "dynamic"), ("invalid_client", "renewed")] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        world.set("POST https://as.example/register", 201, &json!({"client_id": "renewed"}));
        world.set("POST https://as.example/token", 400, &json!({"error": code}));
        let mut attempts = Attempts::default();
        assert_eq!(unauthorized(&mut client, at(2), &mut attempts), Verdict::Wait);
        world.run(&mut client, at(2));
        assert_eq!(world.opened.len(), 2);
        assert!(world.opened[1].as_str().contains(&format!("client_id={client_id}&")), "{code}");
        world.grant("two", Some("r2"));
        world.consent(&mut client, at(3));
        assert_eq!(token(&client), Some("two"));
    }
}

#[test]
fn tokens_that_cannot_be_stored_are_used() {
    let mut world = World::new();
    world.store.is_broken = true;
    let mut client = authorized(&mut world);
    assert!(client.has_failed_to_store());
    world.grant("two", Some("r2"));
    assert_eq!(unauthorized(&mut client, at(2), &mut Attempts::default()), Verdict::Wait);
    world.run(&mut client, at(2));
    assert_eq!(token(&client), Some("two"));
    assert!(world.bodies("https://as.example/token")[1].contains("refresh_token=r1"));
    world.store.is_broken = false;
    world.grant("three", Some("r3"));
    assert_eq!(unauthorized(&mut client, at(3), &mut Attempts::default()), Verdict::Wait);
    world.run(&mut client, at(3));
    assert_eq!((token(&client), client.has_failed_to_store()), (Some("three"), false));
    assert!(world.store.entries.contains_key(SERVER));
}

#[test]
fn a_token_is_refreshed_before_it_expires() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    assert!(!client.is_about_to_expire(at(3500)));
    assert!(client.is_about_to_expire(at(3541)));
    world.grant("two", Some("r2"));
    client.refresh(at(3541));
    world.run(&mut client, at(3541));
    assert_eq!(token(&client), Some("two"));
    assert!(!client.is_about_to_expire(at(3541)));
}

#[test]
fn signing_out_revokes_and_removes() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    client.sign_out(at(2));
    assert_eq!(token(&client), Some("one"), "until it is revoked");
    world.run(&mut client, at(2));
    assert_eq!(world.bodies("https://as.example/revoke"), ["token=r1&token_type_hint=refresh_token&client_id=dynamic"]);
    assert_eq!((token(&client), world.store.entries.len(), client.is_busy()), (None, 0, false));
}
