//! Authorization contexts, which tell cached results of different users apart.

use super::*;

/// Returns whether the context has changed since it was `before`, which becomes the current one.
fn changed(client: &AuthClient, before: &mut u64) -> bool {
    let earlier = core::mem::replace(before, client.context());
    assert!(earlier <= *before, "a number returns");
    earlier != *before
}

fn refresh(world: &mut World, client: &mut AuthClient, now: u64) {
    assert_eq!(Call::new(client).wait(world, client, at(now)), Verdict::Retry);
    accept(client);
}

// req: M-CACHE-017
#[test]
fn context_changes_with_user_and_scopes_only() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    let mut context = 0;
    assert!(!changed(&client, &mut context), "there are no tokens yet");
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
    assert!(!changed(&client, &mut context), "the client has registered");
    world.consent(&mut client, at(1));
    accept(&mut client);
    assert!(changed(&client, &mut context), "the user has signed in");
    world.grant("two", Some("r2"));
    refresh(&mut world, &mut client, 2);
    assert_eq!((token(&client), changed(&client, &mut context)), (Some("two"), false), "a refresh");
    world.set(
        TOKEN,
        200,
        &json!({"access_token": "three", "token_type": "Bearer", "refresh_token": "r3", "scope": "b"}),
    );
    refresh(&mut world, &mut client, 3);
    assert_eq!((token(&client), changed(&client, &mut context)), (Some("three"), true), "other scopes");
    let mut call = Call::refused(&client, 403, &insufficient("c"));
    assert_eq!(call.wait(&mut world, &mut client, at(4)), Verdict::Wait);
    assert!(!changed(&client, &mut context), "the old token is in use");
    world.grant("four", Some("r4"));
    world.consent(&mut client, at(5));
    assert_eq!((token(&client), changed(&client, &mut context)), (Some("four"), true), "more scopes");
    client.sign_out(at(6));
    assert!(changed(&client, &mut context), "at once");
    world.run(&mut client, at(6));
    changed(&client, &mut context);
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(7)), Verdict::Wait);
    world.consent(&mut client, at(8));
    accept(&mut client);
    assert!(changed(&client, &mut context), "another user may have signed in");
    // The refresh token is refused, and the user signs in again.
    world.refuse("invalid_grant");
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(9)), Verdict::Wait);
    assert!(changed(&client, &mut context), "there is no token");
    world.grant("five", Some("r5"));
    world.consent(&mut client, at(10));
    assert!(changed(&client, &mut context));
}

// req: M-CACHE-017
#[test]
fn context_changes_with_tokens_of_other_processes() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    let mut context = client.context();
    let mut same = AuthClient::new(url(SERVER), settings(), [8; 32]);
    world.run(&mut same, at(1));
    assert_eq!(same.context(), 1, "it has loaded them");
    // The authorization server does not replace the refresh token.
    world.grant("two", None);
    refresh(&mut world, &mut same, 2);
    refresh(&mut world, &mut client, 2);
    assert_eq!((token(&client), changed(&client, &mut context)), (Some("two"), false));
    assert_eq!(world.count(TOKEN), 2);
    // With another refresh token, it may be that of another user.
    world.grant("three", Some("r3"));
    refresh(&mut world, &mut same, 3);
    refresh(&mut world, &mut client, 3);
    assert_eq!((token(&client), changed(&client, &mut context)), (Some("three"), true));
    // Another process has signed out.
    same.sign_out(at(4));
    world.run(&mut same, at(4));
    let _ = Call::new(&client).wait(&mut world, &mut client, at(5));
    assert_eq!((token(&client), changed(&client, &mut context)), (None, true));
}

#[test]
fn own_credentials_of_the_client_keep_the_context() {
    let settings =
        || Settings { grant_type: GrantType::ClientCredentials, ..registered(AuthMethod::ClientSecretBasic) };
    let mut world = World::new();
    world
        .set_metadata("https://as.example", &json!({"token_endpoint_auth_methods_supported": ["client_secret_basic"]}));
    world.grant("one", None);
    let mut client = client(&mut world, settings());
    refresh(&mut world, &mut client, 1);
    let mut context = client.context();
    world.grant("two", None);
    refresh(&mut world, &mut client, 2);
    assert_eq!((token(&client), changed(&client, &mut context)), (Some("two"), false));
    let mut call = Call::refused(&client, 403, &insufficient("c"));
    world.grant("three", None);
    assert_eq!(call.wait(&mut world, &mut client, at(3)), Verdict::Retry);
    assert_eq!((token(&client), changed(&client, &mut context)), (Some("three"), true));
}
