//! The end of an authorization.

use super::*;

fn is_request_to(name: &'static str) -> impl Fn(&Action) -> bool {
    move |action| matches!(action, Action::Request(it) if format!("{} {}", it.method, it.url.as_str()) == name)
}

#[test]
fn sign_out_revokes_and_removes_tokens() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    client.sign_out(at(2));
    assert_eq!(token(&client), None, "at once");
    world.run(&mut client, at(2));
    assert_eq!(world.bodies(REVOKE), ["token=r1&token_type_hint=refresh_token&client_id=dynamic"]);
    assert_eq!((world.store.entries.len(), client.is_busy(), client.error()), (0, false, None));
}

#[test]
fn what_is_stored_is_removed_before_tokens_are_revoked() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    client.sign_out(at(2));
    let removal = world.run_to(&mut client, at(2), is_store);
    assert_eq!(world.count(REVOKE), 0);
    // Another process has refreshed the tokens, and its new ones are revoked.
    let (_, mut theirs) = world.store.entries[SERVER].clone();
    theirs.tokens.as_mut().expect("tokens").refresh = Some(Secret::new("r-theirs"));
    world.store.put(SERVER, Some(theirs));
    world.perform(&mut client, at(2), removal);
    let revocation = world.run_to(&mut client, at(2), is_request_to(REVOKE));
    assert_eq!((world.store.entries.len(), client.is_signing_out(), token(&client)), (0, true, None));
    // What another process stores meanwhile stays.
    let mut other = AuthClient::new(url(SERVER), settings(), [9; 32]);
    world.grant("two", Some("r2"));
    world.run(&mut other, at(3));
    assert_eq!(Call::new(&other).wait(&mut world, &mut other, at(3)), Verdict::Wait);
    world.consent(&mut other, at(3));
    world.perform(&mut client, at(4), revocation);
    world.run(&mut client, at(4));
    assert_eq!((world.store.refresh(), client.error(), token(&client)), (Some("r2"), None, None));
    assert_eq!(world.bodies(REVOKE), ["token=r-theirs&token_type_hint=refresh_token&client_id=dynamic"]);
}

#[test]
fn tokens_that_another_process_has_removed_are_revoked() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    client.sign_out(at(2));
    let removal = world.run_to(&mut client, at(2), is_store);
    world.store.put(SERVER, None);
    world.perform(&mut client, at(2), removal);
    world.run(&mut client, at(2));
    assert_eq!((world.count(REVOKE), client.error(), client.is_busy()), (1, None, false));
}

#[test]
fn sign_out_during_first_load_revokes_tokens() {
    let mut world = World::new();
    authorized(&mut world);
    for is_performed in [false, true] {
        let mut client = AuthClient::new(url(SERVER), settings(), [8; 32]);
        let first = client.poll_action().filter(|_| is_performed);
        client.sign_out(at(2));
        if let Some(first) = first {
            world.perform(&mut client, at(2), first);
            assert_eq!(token(&client), None);
        }
        world.run(&mut client, at(2));
        assert_eq!((token(&client), world.store.entries.len(), world.count(REVOKE)), (None, 0, 1));
    }
}

#[test]
fn sign_out_revokes_tokens_being_stored() {
    for reply_is_late in [false, true] {
        let mut world = World::new();
        let mut client = client(&mut world, settings());
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
        let query = world.redirect("code=c");
        client.handle_redirect(at(1), &query).expect("a redirect");
        let store = world.run_to(&mut client, at(1), is_store);
        if reply_is_late {
            client.sign_out(at(2));
            assert_eq!(client.poll_action(), None, "it waits for the store");
            world.perform(&mut client, at(2), store);
        } else {
            world.perform(&mut client, at(2), store);
            client.sign_out(at(2));
        }
        world.run(&mut client, at(2));
        assert_eq!((token(&client), world.store.entries.len(), client.is_busy()), (None, 0, false));
        assert!(world.bodies(REVOKE)[0].starts_with("token=r1&"), "{:?}", world.bodies(REVOKE));
    }
}

/// The application signs out between the response with the tokens and its next action, which would store them.
#[test]
fn sign_out_revokes_tokens_that_are_not_stored_yet() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
    let query = world.redirect("code=c");
    client.handle_redirect(at(1), &query).expect("a redirect");
    let request = world.run_to(&mut client, at(1), is_request_to(TOKEN));
    world.perform(&mut client, at(1), request);
    client.sign_out(at(2));
    world.run(&mut client, at(2));
    assert_eq!((token(&client), world.store.entries.len(), client.is_busy()), (None, 0, false));
    assert!(world.bodies(REVOKE).iter().any(|body| body.starts_with("token=r1&")), "{:?}", world.bodies(REVOKE));
}

#[test]
fn sign_out_revokes_tokens_being_requested() {
    for (is_refresh, status) in [(false, 200), (true, 200), (true, 400), (true, 503), (true, 404), (true, 0)] {
        let mut world = World::new();
        let mut client = if is_refresh { authorized(&mut world) } else { client(&mut world, settings()) };
        assert_eq!(Call::new(&client).ask(&mut client, at(2)), Verdict::Wait);
        if !is_refresh {
            world.run(&mut client, at(2));
            let query = world.redirect("code=c");
            client.handle_redirect(at(2), &query).expect("a redirect");
        }
        let request = world.run_to(&mut client, at(2), is_request_to(TOKEN));
        client.sign_out(at(3));
        assert_eq!((client.poll_action(), token(&client)), (None, None), "it waits for the response");
        let body = json!({"access_token": "two", "token_type": "Bearer", "refresh_token": "r2"});
        world.set(TOKEN, status, &if status == 200 { body } else { json!({"error": "invalid_grant"}) });
        world.perform(&mut client, at(3), request);
        world.run(&mut client, at(3));
        let revoked = if status == 200 { "token=r2&" } else { "token=r1&" };
        assert!(world.bodies(REVOKE).concat().starts_with(revoked), "{status}: {:?}", world.bodies(REVOKE));
        assert_eq!((token(&client), world.store.entries.len(), client.is_busy()), (None, 0, false), "{status}");
    }
}

#[test]
fn reply_to_earlier_write_does_not_end_removal() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).ask(&mut client, at(2)), Verdict::Wait);
    let Action::Store { id: earlier, .. } = world.run_to(&mut client, at(2), is_store) else { panic!() };
    client.sign_out(at(3));
    client.handle_stored(earlier, StoreReply::Failed);
    let Action::Store { id, .. } = world.run_to(&mut client, at(3), is_store) else { panic!() };
    client.handle_stored(earlier, StoreReply::Stored(Generation(99)));
    assert_eq!((client.poll_action(), client.is_busy()), (None, true), "the removal is not answered yet");
    let found = world.store.entries.get(SERVER).cloned().map(Box::new);
    client.handle_stored(id, StoreReply::Conflict(found));
    world.run(&mut client, at(3));
    assert_eq!((world.store.entries.len(), client.error()), (0, None));
}

#[test]
fn failed_removal_is_reported() {
    for (is_broken, is_unreadable, error) in [(true, false, AuthError::NotRemoved), (true, true, AuthError::NotRemoved)]
    {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        (world.store.is_broken, world.store.is_unreadable) = (is_broken, is_unreadable);
        client.sign_out(at(2));
        world.run(&mut client, at(2));
        assert_eq!((client.error(), token(&client)), (Some(&error), None));
        assert_eq!(world.count(REVOKE), 1, "it is revoked all the same");
        // The next request begins anew.
        (world.store.is_broken, world.store.is_unreadable) = (false, false);
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Wait);
        assert_eq!((token(&client), world.opened.len()), (None, 2));
    }
    // What cannot be read at all may still be there.
    let mut world = World::new();
    authorized(&mut world);
    world.store.is_unreadable = true;
    let mut client = client(&mut world, settings());
    client.sign_out(at(2));
    world.run(&mut client, at(2));
    assert_eq!(client.error(), Some(&AuthError::NotLoaded));
    // What cannot be read, and can be removed, is gone.
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.store.is_unreadable = true;
    client.sign_out(at(2));
    world.run(&mut client, at(2));
    assert_eq!((client.error(), world.store.entries.len()), (None, 0));
}

#[test]
fn removal_wins_over_a_concurrent_store() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    client.sign_out(at(2));
    let removal = world.run_to(&mut client, at(2), is_store);
    let (_, credentials) = world.store.entries[SERVER].clone();
    world.store.put(SERVER, Some(credentials));
    world.perform(&mut client, at(2), removal);
    world.run(&mut client, at(2));
    assert_eq!((world.store.entries.len(), client.error()), (0, None));
}

#[test]
fn revocation_uses_private_key_jwt() {
    let mut world = World::new();
    let mut client = authorized_with(&mut world, registered(AuthMethod::PrivateKeyJwt));
    client.sign_out(at(2));
    world.run(&mut client, at(2));
    let body = world.bodies(REVOKE).concat();
    assert!(body.starts_with("token=r1&") && body.ends_with("&client_assertion=jwt-2"), "{body}");
    assert_eq!(world.store.entries.len(), 0);
}

#[test]
fn tokens_are_revoked_at_their_issuer() {
    let mut world = World::new();
    authorized(&mut world);
    world.migrate();
    let mut client = client(&mut world, settings());
    client.sign_out(at(2));
    world.run(&mut client, at(2));
    assert_eq!((world.count(REVOKE), world.count("POST https://b.example/revoke")), (1, 0));
    assert_eq!(world.store.entries.len(), 0);
}

#[test]
fn revokes_tokens_stored_by_another_process() {
    let mut world = World::new();
    let mut one = authorized(&mut world);
    world.migrate();
    world.refuse("invalid_grant");
    let mut two = client(&mut world, settings());
    assert_eq!(Call::new(&two).wait(&mut world, &mut two, at(2)), Verdict::Wait);
    world.consent(&mut two, at(2));
    assert_eq!(token(&two), Some("two"));
    // This one knows the metadata of the first server only.
    one.sign_out(at(3));
    world.run(&mut one, at(3));
    assert!(world.bodies("POST https://b.example/revoke").concat().contains("token=two&"));
    // Those of the first server are still stored, and are revoked there.
    assert_eq!((world.count(REVOKE), world.count("POST https://b.example/revoke")), (1, 1));
    assert_eq!(world.store.entries.len(), 0);
}

#[test]
fn earlier_challenges_do_not_undo_a_sign_out() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.grant("two", Some("r2"));
    let (mut waiting, mut late) = (Call::new(&client), Call::new(&client));
    let mut without = Call { used: None, ..Call::new(&client) };
    for call in [&mut waiting, &mut without] {
        assert_eq!(call.ask(&mut client, at(2)), Verdict::Wait);
    }
    client.sign_out(at(2));
    assert_eq!(late.ask(&mut client, at(2)), Verdict::Fail(AuthError::SignedOut));
    world.run(&mut client, at(2));
    for call in [&mut waiting, &mut without] {
        assert_eq!(call.ask(&mut client, at(3)), Verdict::Fail(AuthError::SignedOut));
    }
    assert_eq!((world.opened.len(), client.is_busy()), (1, false));
    // A later request signs in.
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(4)), Verdict::Wait);
    world.consent(&mut client, at(4));
    assert_eq!((token(&client), world.opened.len()), (Some("two"), 2));
}
