//! Stored credentials, and failures of the store.

use super::*;
use crate::auth::RedirectError;

/// Replaces what is stored, as another process does.
fn replace(world: &mut World, access: &str, refresh: Option<&str>) {
    let (_, mut credentials) = world.store.entries[SERVER].clone();
    let mut tokens = credentials.tokens.take().expect("tokens");
    tokens.access = Secret::new(access);
    tokens.refresh = refresh.map(Secret::new);
    credentials.tokens = Some(tokens);
    world.store.put(SERVER, Some(credentials));
}

#[test]
fn tokens_that_cannot_be_stored_are_used() {
    let mut world = World::new();
    world.store.is_broken = true;
    let mut client = authorized(&mut world);
    assert!(!client.is_stored());
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Retry);
    assert_eq!(token(&client), Some("two"));
    assert!(world.bodies(TOKEN)[1].contains("refresh_token=r1"));
    world.store.is_broken = false;
    world.grant("three", Some("r3"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Retry);
    assert_eq!((token(&client), client.is_stored()), (Some("three"), true));
    assert_eq!(world.store.refresh(), Some("r3"));
}

#[test]
fn keeps_newer_tokens_than_the_store() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.store.is_broken = true;
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Retry);
    assert_eq!((token(&client), client.is_stored(), world.store.refresh()), (Some("two"), false, Some("r1")));
    // The store still has `r1`, which is spent.
    world.grant("three", Some("r3"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Retry);
    assert_eq!(token(&client), Some("three"));
    assert!(world.bodies(TOKEN)[2].contains("refresh_token=r2"), "{:?}", world.bodies(TOKEN)[2]);
    world.store.is_broken = false;
    world.grant("four", Some("r4"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(4)), Verdict::Retry);
    assert_eq!((client.is_stored(), world.store.refresh()), (true, Some("r4")));
    // What another process has stored meanwhile wins over what is not stored.
    world.store.is_broken = true;
    world.grant("five", Some("r5"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(5)), Verdict::Retry);
    replace(&mut world, "theirs", Some("r-theirs"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(6)), Verdict::Retry);
    assert_eq!((token(&client), client.is_stored()), (Some("theirs"), true));
}

#[test]
fn failed_write_does_not_loop_on_conflicts() {
    let mut world = World::new();
    world.store.is_broken = true;
    let mut one = authorized(&mut world);
    world.store.is_broken = false;
    // Another process stores its own.
    world.grant("theirs", Some("r-theirs"));
    let mut two = client(&mut world, settings());
    assert_eq!(Call::new(&two).wait(&mut world, &mut two, at(2)), Verdict::Wait);
    world.consent(&mut two, at(2));
    // `run` bounds the number of actions.
    assert_eq!(Call::new(&one).wait(&mut world, &mut one, at(3)), Verdict::Retry);
    assert_eq!((token(&one), one.is_busy()), (Some("theirs"), false));
}

#[test]
fn gives_up_on_permanent_store_conflicts() {
    // A conflict is reported, and what is there has no tokens, or nothing is there.
    for has_entry in [false, true] {
        let mut world = World::new();
        if has_entry {
            let client = ClientIdentity { secret: None, ..identity("dynamic", AuthMethod::None) };
            world.store.put(SERVER, Some(Credentials::new(client, None)));
        }
        world.store.conflicts = true;
        let mut client = authorized(&mut world);
        assert!(!client.is_stored() && !client.is_busy());
        world.refuse("invalid_grant");
        let verdict = Call::new(&client).wait(&mut world, &mut client, at(2));
        assert!(matches!(verdict, Verdict::Wait | Verdict::Fail(AuthError::SignedOut)), "{verdict:?}");
        client.sign_out(at(3));
        world.run(&mut client, at(3));
        assert_eq!(client.error(), has_entry.then_some(&AuthError::NotRemoved), "{has_entry}");
    }
}

#[test]
fn conflicting_write_is_repeated_three_times() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    (world.store.conflicts, world.store.writes) = (true, 0);
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Retry);
    assert_eq!((token(&client), client.is_stored(), world.store.writes), (Some("two"), false, 4));
}

#[test]
fn unreadable_store_fails_the_request() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.store.is_unreadable = true;
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Fail(AuthError::NotLoaded));
    world.store.is_unreadable = false;
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Retry);
}

#[test]
fn foreign_sign_out_is_not_undone() {
    for code in [None, Some("invalid_grant")] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        match code {
            None => world.grant("two", Some("r2")),
            Some(code) => world.refuse(code),
        }
        let mut call = Call::new(&client);
        assert_eq!(call.ask(&mut client, at(2)), Verdict::Wait);
        let store = world.run_to(&mut client, at(2), is_store);
        world.store.put(SERVER, None);
        world.perform(&mut client, at(2), store);
        world.run(&mut client, at(2));
        assert_eq!(call.ask(&mut client, at(2)), Verdict::Fail(AuthError::SignedOut));
        assert_eq!((token(&client), world.store.entries.len(), world.opened.len()), (None, 0, 1));
    }
}

/// A client that is about to store its refreshed tokens, the request that waits for them, and what it stores.
fn storing(world: &mut World) -> (AuthClient, Call, Action) {
    let mut client = authorized(world);
    world.grant("two", Some("r2"));
    let mut call = Call::new(&client);
    assert_eq!(call.ask(&mut client, at(2)), Verdict::Wait);
    let store = world.run_to(&mut client, at(2), is_store);
    (client, call, store)
}

#[test]
fn sign_out_elsewhere_is_kept_after_another_issuer() {
    let mut world = World::new();
    let (mut client, _, store) = storing(&mut world);
    let (_, mut other) = world.store.entries[SERVER].clone();
    other.client.issuer = "https://b.example".into();
    world.store.put(SERVER, Some(other));
    world.perform(&mut client, at(2), store);
    world.run(&mut client, at(2));
    let (_, entry) = &world.store.entries[SERVER];
    assert_eq!((entry.client.issuer.as_str(), entry.others.len()), ("https://b.example", 0));
}

#[test]
fn refreshed_tokens_replace_removed_ones() {
    let mut world = World::new();
    let (mut client, mut call, store) = storing(&mut world);
    let (_, mut credentials) = world.store.entries[SERVER].clone();
    credentials.tokens = None;
    world.store.put(SERVER, Some(credentials));
    world.perform(&mut client, at(2), store);
    world.run(&mut client, at(2));
    assert_eq!(call.ask(&mut client, at(2)), Verdict::Retry);
    assert_eq!(world.store.refresh(), Some("r2"));
}

#[test]
fn unstored_tokens_survive_foreign_registration() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.store.is_broken = true;
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Retry);
    let (_, mut credentials) = world.store.entries[SERVER].clone();
    credentials.tokens = None;
    world.store.put(SERVER, Some(credentials));
    world.store.is_broken = false;
    world.grant("three", Some("r3"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Retry);
    assert_eq!((token(&client), world.store.refresh()), (Some("three"), Some("r3")));
}

#[test]
fn registration_keeps_tokens_of_another_process() {
    let mut world = World::new();
    let mut one = client(&mut world, settings());
    let mut call = Call::new(&one);
    assert_eq!(call.ask(&mut one, at(0)), Verdict::Wait);
    let registration = world.run_to(&mut one, at(0), is_store);
    authorized(&mut world);
    world.perform(&mut one, at(2), registration);
    world.run(&mut one, at(2));
    assert_eq!((call.ask(&mut one, at(2)), token(&one)), (Verdict::Retry, Some("one")));
    assert_eq!((world.store.refresh(), world.opened.len()), (Some("r1"), 1));
}

/// A client that could not store its tokens, and whose store gets an entry of another issuer.
fn with_entry_of_another_issuer(world: &mut World, was_stored: bool) -> AuthClient {
    world.store.is_broken = !was_stored;
    let mut client = authorized(world);
    if was_stored {
        world.store.is_broken = true;
        world.grant("two", Some("r2"));
        assert_eq!(Call::new(&client).wait(world, &mut client, at(2)), Verdict::Retry);
    }
    assert!(!client.is_stored());
    world.store.is_broken = false;
    let mut other = Credentials::new(identity("other", AuthMethod::None), None);
    other.client.issuer = "https://b.example".into();
    world.store.put(SERVER, Some(other));
    client
}

#[test]
fn unsaved_tokens_survive_an_entry_of_another_issuer() {
    let mut world = World::new();
    let mut client = with_entry_of_another_issuer(&mut world, false);
    let (_, mut theirs) = world.store.entries[SERVER].clone();
    let own = client.credentials.as_ref().and_then(|credentials| credentials.tokens.clone());
    theirs.tokens = own.map(|own| StoredTokens { access: Secret::new("theirs"), refresh: None, ..own });
    world.store.put(SERVER, Some(theirs));
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(3)), Verdict::Retry);
    assert_eq!(token(&client), Some("theirs"));
    // The server still names the first issuer.
    world.grant("two", Some("r2"));
    assert_eq!(call.again(&mut client, at(4)), Verdict::Wait);
    world.run(&mut client, at(4));
    assert_eq!(call.ask(&mut client, at(4)), Verdict::Retry);
    assert_eq!((token(&client), client.is_stored(), world.opened.len()), (Some("two"), true, 1));
    assert!(world.bodies(TOKEN).last().expect("a request").contains("refresh_token=r1"));
    let (_, entry) = &world.store.entries[SERVER];
    assert_eq!((entry.client.issuer.as_str(), entry.others.len()), ("https://as.example", 1));
}

#[test]
fn tokens_that_another_process_has_removed_do_not_come_back() {
    let mut world = World::new();
    let mut client = with_entry_of_another_issuer(&mut world, true);
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Wait);
    assert_eq!((token(&client), world.opened.len()), (None, 2), "the user is asked");
}

#[test]
fn conflict_keeps_unsaved_tokens_of_another_issuer() {
    let mut world = World::new();
    world.store.is_broken = true;
    let mut client = authorized(&mut world);
    // The server names another issuer, and the user signs in there.
    world.migrate();
    world.grant("a", Some("ra"));
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(2)), Verdict::Retry);
    assert_eq!(call.again(&mut client, at(2)), Verdict::Wait);
    world.run(&mut client, at(2));
    world.store.is_broken = false;
    client.handle_redirect(at(4), &world.redirect("code=c")).expect("a code");
    let store = world.run_to(&mut client, at(4), is_store);
    // Another process has stored something meanwhile.
    let mut theirs = Credentials::new(identity("theirs", AuthMethod::None), None);
    theirs.client.issuer = "https://c.example".into();
    world.store.put(SERVER, Some(theirs));
    world.perform(&mut client, at(4), store);
    world.run(&mut client, at(4));
    assert_eq!((token(&client), client.is_stored()), (Some("two"), true));
    let (_, entry) = &world.store.entries[SERVER];
    let kept = entry.others.iter().find(|other| other.client.issuer == "https://as.example");
    let refresh = |credentials: &Credentials| Some(credentials.tokens.as_ref()?.refresh.as_ref()?.expose().to_string());
    assert_eq!(kept.and_then(refresh).as_deref(), Some("ra"));
}

#[test]
fn client_in_a_pause_uses_tokens_of_another_process() {
    for refused in [true, false] {
        let mut world = World::new();
        let mut held = client(&mut world, settings());
        let mut call = Call::new(&held);
        assert_eq!(call.wait(&mut world, &mut held, at(0)), Verdict::Wait);
        if refused {
            held.handle_cancelled();
        } else {
            held.handle_redirect(at(1), &world.redirect("error=invalid_scope")).expect_err("it is denied");
        }
        assert!(matches!(call.ask(&mut held, at(1)), Verdict::Fail(_)));
        let requests = world.requests.len();
        assert!(matches!(Call::new(&held).wait(&mut world, &mut held, at(2)), Verdict::Fail(_)));
        assert_eq!(world.requests.len(), requests, "only the store is read");
        // The user signs in with another process.
        authorized(&mut world);
        assert_eq!(Call::new(&held).wait(&mut world, &mut held, at(3)), Verdict::Retry);
        assert_eq!((token(&held), world.opened.len()), (Some("one"), 2));
    }
}

#[test]
fn stored_tokens_of_another_process_end_an_authorization() {
    let mut world = World::new();
    let mut waiting = client(&mut world, settings());
    let mut call = Call::new(&waiting);
    assert_eq!(call.wait(&mut world, &mut waiting, at(0)), Verdict::Wait);
    let found = |world: &World| world.store.entries.get(SERVER).cloned();
    // What is stored now is the registration of this client.
    waiting.handle_stored_meanwhile(found(&world));
    assert!(matches!(waiting.step, Step::Browser(_)));
    authorized(&mut world);
    waiting.handle_stored_meanwhile(found(&world));
    assert!(!waiting.is_busy());
    assert_eq!((call.ask(&mut waiting, at(2)), token(&waiting)), (Verdict::Retry, Some("one")));
    // A redirect that comes after that belongs to no authorization.
    let late = world.redirect("code=c");
    assert_eq!(waiting.handle_redirect(at(3), &late), Err(RedirectError::Used));
    accept(&mut waiting);

    // Tokens without the scopes that are wanted are used, and do not end it.
    let mut call = Call::refused(&waiting, 403, &insufficient("b"));
    assert_eq!(call.wait(&mut world, &mut waiting, at(4)), Verdict::Wait);
    replace(&mut world, "theirs", Some("r-theirs"));
    waiting.handle_stored_meanwhile(found(&world));
    assert!(matches!(waiting.step, Step::Browser(_)));
    assert_eq!(token(&waiting), Some("theirs"));
    let (_, mut credentials) = found(&world).expect("an entry");
    if let Some(tokens) = &mut credentials.tokens {
        tokens.scopes = Scopes::of(["a", "b"]).expect("scopes");
        tokens.access = Secret::new("more");
    }
    world.store.put(SERVER, Some(credentials));
    waiting.handle_stored_meanwhile(found(&world));
    assert!(!waiting.is_busy());
    assert_eq!((call.ask(&mut waiting, at(5)), token(&waiting)), (Verdict::Retry, Some("more")));
    // Without an authorization nothing is taken over.
    replace(&mut world, "later", None);
    waiting.handle_stored_meanwhile(found(&world));
    assert_eq!(token(&waiting), Some("more"));
}

/// The generation of an entry that was removed is not expected any more.
#[test]
fn next_write_expects_the_entry_of_the_last_one() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.refuse("invalid_client");
    assert_eq!(Call::new(&client).ask(&mut client, at(2)), Verdict::Wait);
    let mut writes = Vec::new();
    for _ in 0..2 {
        let store = world.run_to(&mut client, at(2), is_store);
        let Action::Store { expected, credentials, .. } = &store else { panic!("{store:?}") };
        writes.push((expected.is_some(), credentials.is_some()));
        world.perform(&mut client, at(2), store);
    }
    assert_eq!(writes, [(true, false), (false, true)], "the entry is removed, and a new one is stored");
    // The entry stays if it has credentials of another issuer.
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.migrate();
    let token = json!({"access_token": "two", "token_type": "Bearer", "refresh_token": "rb"});
    world.set("POST https://b.example/token", 200, &token);
    world.refuse("unsupported_grant_type");
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Wait);
    world.consent(&mut client, at(3));
    accept(&mut client);
    world.set("POST https://b.example/token", 400, &json!({"error": "invalid_client"}));
    assert_eq!(Call::new(&client).ask(&mut client, at(4)), Verdict::Wait);
    let store = world.run_to(&mut client, at(4), is_store);
    let Action::Store { credentials, .. } = &store else { panic!("{store:?}") };
    let issuer = credentials.as_ref().map(|it| &*it.client.issuer);
    assert_eq!(issuer, Some("https://as.example"));
    world.perform(&mut client, at(4), store);
    assert_eq!(client.base, world.store.entries.get(SERVER).map(|(generation, _)| *generation));
    assert!(client.base.is_some());
}
