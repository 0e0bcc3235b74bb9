//! Identities of the client.

use super::*;
use crate::auth::client_identity::RegistrationError;

// req: M-AUTH-012 M-AUTH-013 M-AUTH-014
#[test]
fn registers_with_each_authorization_server() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.migrate();
    // The old server is gone, or knows the refresh token no more.
    world.refuse("invalid_grant");
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Wait);
    world.consent(&mut client, at(3));
    assert_eq!(token(&client), Some("two"));
    let bodies = world.bodies("POST https://b.example/token").concat();
    assert!(bodies.contains("client_id=b") && !bodies.contains("dynamic") && !bodies.contains("r1"), "{bodies}");
    assert_eq!(world.asked("client_id").as_deref(), Some("b"));
}

#[test]
fn registration_is_reused_after_expiry() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    for now in [0, 1_000] {
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(now)), Verdict::Wait);
        client.handle_timeout(at(now + 600));
        assert!(!client.is_busy());
    }
    assert_eq!((world.opened.len(), world.count(REGISTER)), (2, 1));
}

#[test]
fn a_registration_without_a_response_has_no_status() {
    for (status, error) in [(0, RegistrationError::NoResponse), (503, RegistrationError::Status(503))] {
        let mut world = World::new();
        world.set(REGISTER, status, &json!({}));
        let mut client = client(&mut world, settings());
        let verdict = Call::new(&client).wait(&mut world, &mut client, at(0));
        assert_eq!(verdict, Verdict::Fail(AuthError::Registration(error)));
    }
}

#[test]
fn forgotten_registration_is_replaced_once() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
    client.handle_timeout(at(600));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(601)), Verdict::Wait);
    world.refuse("invalid_client");
    world.consent(&mut client, at(602));
    assert_eq!(client.error(), Some(&rejected("invalid_client")));
    assert_eq!(world.store.entries.len(), 0, "the dead client is not kept");
    world.set(REGISTER, 201, &json!({"client_id": "renewed"}));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(603)), Verdict::Wait);
    assert_eq!(world.asked("client_id").as_deref(), Some("renewed"));
    // A server that does not know the client that it has just registered is not asked for another one.
    world.consent(&mut client, at(604));
    assert_eq!(world.store.entries.len(), 0);
    let verdict = Call::new(&client).wait(&mut world, &mut client, at(605));
    assert_eq!(verdict, Verdict::Fail(rejected("invalid_client")));
    assert_eq!((world.opened.len(), world.count(REGISTER)), (3, 2));
}

const OTHER: &str = "http://127.0.0.1:8888/callback";

/// Settings with the redirect URI `OTHER`.
fn with_other_redirect() -> Settings {
    let grant_type = GrantType::AuthorizationCode { redirect_uri: url(OTHER) };
    let identities =
        ClientOptions { registration: Some(Registration::new("Test", [url(OTHER)])), ..ClientOptions::default() };
    Settings { identities, grant_type, ..settings() }
}

/// A client with stored tokens that registers again, as `renewed` with `OTHER`, and a request that waits for the user.
fn registered_again(world: &mut World) -> (AuthClient, Call) {
    authorized(world);
    let mut client = client(world, with_other_redirect());
    world.set(REGISTER, 201, &json!({"client_id": "renewed"}));
    let mut call = Call::refused(&client, 403, &insufficient("b"));
    assert_eq!(call.wait(world, &mut client, at(2)), Verdict::Wait);
    (client, call)
}

// req: AUTH-067 M-AUTH-048
#[test]
fn another_redirect_uri_is_registered() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
    client.handle_cancelled();
    let other = with_other_redirect();
    let mut client = super::client(&mut world, other.clone());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(1)), Verdict::Wait);
    assert_eq!(world.count(REGISTER), 2);
    assert!(world.bodies(REGISTER)[1].contains(OTHER));
    client.handle_cancelled();
    // The next process with this URI has it registered.
    let mut client = super::client(&mut world, other.clone());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Wait);
    assert_eq!((world.opened.len(), world.count(REGISTER)), (3, 2));
    // One that would not be registered is not used.
    let mut client = super::client(&mut world, Settings { identities: settings().identities, ..other });
    world.store.put(SERVER, None);
    let verdict = Call::new(&client).wait(&mut world, &mut client, at(3));
    assert_eq!(verdict, Verdict::Fail(AuthError::Identity(NoIdentity::RedirectUri)));
}

#[test]
fn new_registration_keeps_working_tokens() {
    let mut world = World::new();
    let (mut client, _) = registered_again(&mut world);
    assert_eq!(world.asked("client_id").as_deref(), Some("renewed"));
    client.handle_cancelled();
    assert_eq!((token(&client), world.store.refresh()), (Some("one"), Some("r1")));
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Retry);
    assert!(world.bodies(TOKEN)[1].ends_with("client_id=dynamic"), "{:?}", world.bodies(TOKEN));
}

#[test]
fn refused_registration_keeps_the_old_tokens() {
    for code in ["invalid_client", "unauthorized_client"] {
        let mut world = World::new();
        let (mut client, mut call) = registered_again(&mut world);
        world.refuse(code);
        world.consent(&mut client, at(3));
        assert_eq!(call.ask(&mut client, at(3)), Verdict::Fail(rejected(code)));
        assert_eq!((token(&client), world.store.refresh()), (Some("one"), Some("r1")), "{code}");
        world.grant("two", Some("r2"));
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(4)), Verdict::Retry);
        assert!(world.bodies(TOKEN)[2].ends_with("client_id=dynamic"), "{:?}", world.bodies(TOKEN));
    }
}

// req: AUTH-014
#[test]
fn pre_registered_secret_is_not_stored() {
    let mut world = World::new();
    let mut settings = registered(AuthMethod::ClientSecretPost);
    authorized_with(&mut world, settings.clone());
    assert_eq!(world.store.entries[SERVER].1.client.secret, None);
    settings.identities.pre_registered[0].secret = Some(Secret::new("rotated"));
    let mut client = client(&mut world, settings);
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Retry);
    let bodies = world.bodies(TOKEN);
    assert!(bodies[0].ends_with("client_secret=s3cr3t") && bodies[1].ends_with("client_secret=rotated"), "{bodies:?}");
}

#[test]
fn stored_client_must_match_the_settings() {
    // Tokens of a client that has registered itself, and settings with a client of the operator.
    let mut world = World::new();
    authorized(&mut world);
    let client_of_operator = client(&mut world, registered(AuthMethod::ClientSecretBasic));
    assert_eq!(token(&client_of_operator), None);
    // A client of the same name at another issuer is another client.
    let mut settings = registered(AuthMethod::ClientSecretBasic);
    settings.identities.pre_registered[0].client_id = "dynamic".into();
    settings.identities.pre_registered[0].issuer = "https://b.example".into();
    assert_eq!(token(&client(&mut world, settings)), None);
    // Tokens of a client of the operator, whose secret is not there any more.
    let mut world = World::new();
    authorized_with(&mut world, registered(AuthMethod::ClientSecretBasic));
    let mut client = client(&mut world, super::settings());
    assert_eq!(token(&client), None);
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Wait);
    assert_eq!(world.asked("client_id").as_deref(), Some("dynamic"));
}

// req: M-AUTH-015
#[test]
fn a_registered_client_of_another_issuer_is_not_used() {
    let mut world = World::new();
    let mut settings = registered(AuthMethod::ClientSecretBasic);
    settings.identities.pre_registered[0].issuer = "https://as.example/".into();
    let mut client = client(&mut world, settings);
    let verdict = Call::new(&client).wait(&mut world, &mut client, at(0));
    assert_eq!(verdict, Verdict::Fail(AuthError::Identity(NoIdentity::OtherIssuer)));
}

/// Lets the resource name this authorization server.
fn name_server(world: &mut World, issuer: &str) {
    world.set(RESOURCE, 200, &json!({"resource": SERVER, "authorization_servers": [issuer]}));
}

const A: &str = "https://as.example";
const B: &str = "https://b.example";

/// A client with tokens of both servers, `a` and `ra` of the first and `two` of the second, which is named.
fn at_both(world: &mut World) -> AuthClient {
    let mut client = authorized(world);
    world.migrate();
    world.grant("a", Some("ra"));
    // The first server still refreshes its tokens, but the resource does not take them any more.
    let mut call = Call::new(&client);
    assert_eq!(call.wait(world, &mut client, at(2)), Verdict::Retry);
    assert_eq!(call.again(&mut client, at(2)), Verdict::Wait);
    world.run(&mut client, at(2));
    world.consent(&mut client, at(3));
    assert_eq!(token(&client), Some("two"));
    accept(&mut client);
    client
}

// req: M-AUTH-012 M-AUTH-014
#[test]
fn return_to_an_issuer_finds_tokens_and_registration() {
    let mut world = World::new();
    let mut client = at_both(&mut world);
    let asked =
        |world: &World| (world.opened.len(), world.count(REGISTER), world.count("POST https://b.example/register"));
    assert_eq!(asked(&world), (2, 1, 1));
    name_server(&mut world, A);
    world.grant("again", Some("ra2"));
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(4)), Verdict::Retry);
    assert_eq!((token(&client), asked(&world)), (Some("again"), (2, 1, 1)));
    assert!(world.bodies(TOKEN).last().expect("a request").contains("refresh_token=ra&"), "its own refresh token");
    // The second one has no refresh token: its access token is tried.
    name_server(&mut world, B);
    world.refuse("invalid_grant");
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(5)), Verdict::Retry);
    assert_eq!((token(&client), asked(&world)), (Some("two"), (2, 1, 1)));
    // If it is refused, the user is asked, with the registration of this issuer.
    assert_eq!(call.again(&mut client, at(6)), Verdict::Wait);
    world.run(&mut client, at(6));
    assert_eq!((world.asked("client_id").as_deref(), asked(&world)), (Some("b"), (3, 1, 1)));
    let bodies = world.bodies("POST https://b.example/token").concat();
    assert!(!bodies.contains("refresh_token") && !bodies.contains("dynamic"), "{bodies}");
}

// req: M-AUTH-012 M-AUTH-014
#[test]
fn server_as_its_own_issuer_keeps_other_credentials() {
    const OWN: &str = "https://mcp.example";
    for has_metadata in [false, true] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        world.responses.remove(RESOURCE);
        if has_metadata {
            world.set_metadata(OWN, &json!({}));
        }
        world.set("POST https://mcp.example/register", 201, &json!({"client_id": "own"}));
        world.set("POST https://mcp.example/token", 200, &json!({"access_token": "own", "token_type": "Bearer"}));
        world.grant("a", Some("ra"));
        let mut call = Call::new(&client);
        assert_eq!(call.wait(&mut world, &mut client, at(2)), Verdict::Retry);
        assert_eq!(call.again(&mut client, at(2)), Verdict::Wait);
        world.run(&mut client, at(2));
        assert_eq!(token(&client), None, "that of another issuer");
        world.consent(&mut client, at(3));
        assert_eq!(token(&client), Some("own"));
        accept(&mut client);
        let (_, entry) = &world.store.entries[SERVER];
        let issuers: Vec<_> = entry.clone().into_each().map(|it| it.client.issuer).collect();
        assert_eq!(issuers, [OWN, A]);
        // Each is used again, without the user.
        name_server(&mut world, A);
        world.grant("again", Some("ra2"));
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(4)), Verdict::Retry);
        assert_eq!(token(&client), Some("again"));
        assert!(world.bodies(TOKEN).last().expect("a request").contains("refresh_token=ra&"));
        world.responses.remove(RESOURCE);
        world.refuse("invalid_grant");
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(5)), Verdict::Retry);
        assert_eq!((token(&client), world.opened.len(), world.count(REGISTER)), (Some("own"), 2, 1));
        assert_eq!(world.count("POST https://mcp.example/register"), 1);
    }
}

#[test]
fn refusal_at_one_issuer_keeps_tokens_of_another() {
    for is_cancelled in [true, false] {
        let mut world = World::new();
        let mut client = at_both(&mut world);
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(4)), Verdict::Wait);
        if is_cancelled {
            client.handle_cancelled();
        } else {
            client.handle_redirect(at(4), &world.redirect("error=invalid_scope")).expect_err("it is denied");
        }
        let error = client.error().expect("an error").clone();
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(5)), Verdict::Fail(error.clone()));
        name_server(&mut world, A);
        world.grant("again", Some("ra2"));
        let mut call = Call::new(&client);
        assert_eq!(call.wait(&mut world, &mut client, at(6)), Verdict::Retry);
        assert_eq!((token(&client), world.opened.len()), (Some("again"), 3));
        // The user is not asked at any of them.
        world.refuse("invalid_grant");
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(7)), Verdict::Fail(error));
        assert_eq!(world.opened.len(), 3);
    }
}

#[test]
fn tokens_that_are_not_stored_are_kept_when_the_issuer_changes() {
    let mut world = World::new();
    let mut client = at_both(&mut world);
    world.store.is_broken = true;
    name_server(&mut world, A);
    world.grant("again", Some("ra2"));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(4)), Verdict::Retry);
    assert_eq!((token(&client), client.is_stored()), (Some("again"), false));
    name_server(&mut world, B);
    world.refuse("invalid_target");
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(5)), Verdict::Retry);
    assert_eq!((token(&client), client.is_stored()), (Some("two"), true), "those of the other issuer are stored");
    // Another process has found out that what it has stored is spent.
    let (_, mut entry) = world.store.entries[SERVER].clone();
    assert_eq!((entry.client.issuer.as_str(), entry.others[0].client.issuer.as_str()), (B, A));
    entry.others[0].tokens = None;
    world.store.put(SERVER, Some(entry));
    name_server(&mut world, A);
    world.grant("more", Some("ra3"));
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(6)), Verdict::Retry, "the entry is new");
    assert_eq!(call.again(&mut client, at(6)), Verdict::Wait);
    let is_token = |action: &Action| matches!(action, Action::Request(it) if it.method == "POST");
    let request = world.run_to(&mut client, at(6), is_token);
    assert_eq!((token(&client), client.is_stored()), (Some("again"), false));
    world.store.is_broken = false;
    world.perform(&mut client, at(6), request);
    world.run(&mut client, at(6));
    assert_eq!(
        (call.ask(&mut client, at(6)), token(&client), client.is_stored()),
        (Verdict::Retry, Some("more"), true)
    );
    assert!(world.bodies(TOKEN).last().expect("a request").contains("refresh_token=ra2&"));
}

#[test]
fn another_start_finds_the_tokens_of_each_issuer() {
    let mut world = World::new();
    at_both(&mut world);
    let (_, entry) = &world.store.entries[SERVER];
    assert_eq!((entry.client.issuer.as_str(), entry.others.len()), (B, 1));
    name_server(&mut world, A);
    world.grant("again", Some("ra2"));
    let mut later = client(&mut world, settings());
    assert_eq!(token(&later), Some("two"));
    assert_eq!(Call::new(&later).wait(&mut world, &mut later, at(9)), Verdict::Retry);
    assert_eq!((token(&later), world.opened.len()), (Some("again"), 2));
    let (_, entry) = &world.store.entries[SERVER];
    assert_eq!((entry.client.issuer.as_str(), entry.others[0].client.issuer.as_str()), (A, B));
}

#[test]
fn write_keeps_entries_of_other_issuers() {
    let mut world = World::new();
    let mut one = authorized(&mut world);
    world.grant("a", Some("ra"));
    let mut call = Call::new(&one);
    assert_eq!(call.ask(&mut one, at(2)), Verdict::Wait);
    let store = world.run_to(&mut one, at(2), is_store);
    // The other process is authorized at the second server meanwhile.
    let mut two = client(&mut world, settings());
    world.migrate();
    world.refuse("temporarily_unavailable");
    assert_eq!(Call::new(&two).wait(&mut world, &mut two, at(3)), Verdict::Wait);
    world.consent(&mut two, at(3));
    assert_eq!(token(&two), Some("two"));
    world.perform(&mut one, at(4), store);
    world.run(&mut one, at(4));
    assert_eq!((call.ask(&mut one, at(4)), token(&one)), (Verdict::Retry, Some("a")));
    let (_, entry) = &world.store.entries[SERVER];
    let access = |it: &Credentials| it.tokens.as_ref().map(|tokens| tokens.access.expose().to_string());
    assert_eq!((access(entry), access(&entry.others[0])), (Some("a".into()), Some("two".into())));
}

#[test]
fn the_issuers_that_are_kept_are_few_and_the_last() {
    // Four of the large entries are more than can be read again: each of these bytes takes two.
    for (length, most) in [(10, 3), (crate::auth::document::MAX_TEXT, 2)] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        for index in 0..6 {
            let issuer = format!("https://as{index}.example");
            name_server(&mut world, &issuer);
            world.set_metadata(&issuer, &json!({}));
            let text = "\\".repeat(length);
            let registered = json!({"client_id": "id", "client_secret": text});
            world.set(&format!("POST {issuer}/register"), 201, &registered);
            let granted = json!({"access_token": text, "token_type": "Bearer"});
            world.set(&format!("POST {issuer}/token"), 200, &granted);
            world.refuse("invalid_grant");
            assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(index)), Verdict::Wait);
            world.consent(&mut client, at(index));
            accept(&mut client);
            let (_, entry) = &world.store.entries[SERVER];
            assert_eq!((&entry.client.issuer, client.is_stored()), (&issuer, true));
            assert!(Credentials::from_json(entry.to_json().expose().as_bytes()).is_ok());
            let others: Vec<_> = entry.others.iter().map(|other| &*other.client.issuer).collect();
            let last: Vec<_> = (0..index).rev().map(|index| format!("https://as{index}.example")).collect();
            let last = last.iter().map(|issuer| &**issuer).chain([A]);
            let most = if index < 3 { 3 } else { most };
            assert_eq!(others, last.take(most).collect::<Vec<_>>(), "{length}");
        }
    }
}

#[test]
fn a_sign_out_revokes_the_tokens_of_each_issuer() {
    let mut world = World::new();
    let mut client = at_both(&mut world);
    client.sign_out(at(4));
    world.run(&mut client, at(4));
    assert_eq!((client.error(), token(&client), world.store.entries.len()), (None, None, 0));
    assert!(world.bodies(REVOKE).concat().contains("token=ra&"));
    assert!(world.bodies("POST https://b.example/revoke").concat().contains("token=two&"));
    // One that is down does not keep the others.
    let mut world = World::new();
    let mut client = at_both(&mut world);
    world.set("POST https://b.example/revoke", 0, &json!(null));
    client.sign_out(at(4));
    world.run(&mut client, at(4));
    assert_eq!((world.count(REVOKE), world.store.entries.len()), (1, 0));
}

#[test]
fn changing_issuers_are_followed_a_bounded_number_of_times() {
    for refreshes in [false, true] {
        let mut world = World::new();
        let mut client = at_both(&mut world);
        if refreshes {
            let granted = json!({"access_token": "b", "token_type": "Bearer", "refresh_token": "rb"});
            world.set("POST https://b.example/token", 200, &granted);
        }
        let mut call = Call::new(&client);
        let mut verdict = call.ask(&mut client, at(4));
        for round in 0..16 {
            name_server(&mut world, if round % 2 == 0 { A } else { B });
            world.run(&mut client, at(4));
            if client.is_busy() {
                world.consent(&mut client, at(4));
            }
            verdict = call.ask(&mut client, at(4));
            if matches!(verdict, Verdict::Fail(_)) {
                break;
            }
            verdict = call.again(&mut client, at(4));
            if matches!(verdict, Verdict::Fail(_)) {
                break;
            }
        }
        assert_eq!(verdict, Verdict::Fail(AuthError::Refused));
        assert!(world.opened.len() <= 3, "the user is asked once for it");
    }
}
