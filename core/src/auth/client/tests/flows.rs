//! Flows that refused requests begin.

use super::*;
use crate::auth::authorization::RedirectError;

// req: AUTH-011 AUTH-027 AUTH-032 AUTH-050 AUTH-051 AUTH-052 AUTH-063 AUTH-067 M-AUTH-008 M-AUTH-026
#[test]
fn a_challenge_leads_to_a_token() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(token(&client), None);
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(0)), Verdict::Wait);
    assert_eq!(world.opened.len(), 1);
    world.consent(&mut client, at(1));
    assert_eq!(call.ask(&mut client, at(1)), Verdict::Retry);
    assert_eq!(token(&client), Some("one"));
    let requests: Vec<_> = world.requests.iter().map(|it| format!("{} {}", it.method, it.url.as_str())).collect();
    assert_eq!(requests, [RESOURCE, METADATA, REGISTER, TOKEN]);
    let body = world.bodies(TOKEN).concat();
    assert!(body.contains("resource=https%3A%2F%2Fmcp.example%2Fmcp") && body.contains("client_id=dynamic"), "{body}");
    assert_eq!(world.asked("resource").as_deref(), Some("https%3A%2F%2Fmcp.example%2Fmcp"));
    assert_eq!(world.asked("scope").as_deref(), Some("a"));
    assert_eq!(world.asked("code_challenge_method").as_deref(), Some("S256"));
    assert_eq!(world.asked("code_challenge").map(|it| it.len()), Some(43));
    assert!(body.contains("code_verifier="), "{body}");
    let redirect_uri: String = form_urlencoded::byte_serialize(REDIRECT.as_bytes()).collect();
    assert_eq!(world.asked("redirect_uri"), Some(redirect_uri));
    assert!(world.bodies(REGISTER)[0].contains(REDIRECT));
    // Each authorization has secrets of its own.
    let (one, two) = (client.draw_authorization(), client.draw_authorization());
    let all = [one.state, one.verifier, two.state, two.verifier];
    assert_eq!(all.iter().collect::<alloc::collections::BTreeSet<_>>().len(), 4);
}

#[test]
fn uses_stored_tokens() {
    let mut world = World::new();
    authorized(&mut world);
    let other = client(&mut world, settings());
    assert_eq!(token(&other), Some("one"));
    assert_eq!(world.count(TOKEN), 1);
}

#[test]
fn challenge_during_first_load_continues_after_it() {
    for is_authorized in [false, true] {
        let mut world = World::new();
        if is_authorized {
            authorized(&mut world);
        }
        let asked = world.opened.len();
        let mut client = AuthClient::new(url(SERVER), settings(), [8; 32]);
        let mut call = Call::new(&client);
        let verdict = call.wait(&mut world, &mut client, at(2));
        if is_authorized {
            assert_eq!((verdict, token(&client)), (Verdict::Retry, Some("one")));
        } else {
            assert_eq!(verdict, Verdict::Wait, "the authorization begins");
            world.run(&mut client, at(2));
            assert_eq!(world.opened.len(), asked + 1);
        }
    }
}

#[test]
fn a_server_that_refuses_every_token_is_tried_twice() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(0)), Verdict::Wait);
    world.consent(&mut client, at(1));
    assert_eq!(call.ask(&mut client, at(1)), Verdict::Retry);
    world.grant("two", Some("r2"));
    assert_eq!(call.again(&mut client, at(2)), Verdict::Wait);
    world.run(&mut client, at(2));
    assert_eq!((call.ask(&mut client, at(2)), token(&client)), (Verdict::Retry, Some("two")));
    assert_eq!(call.again(&mut client, at(3)), Verdict::Fail(AuthError::Refused));
    assert_eq!((world.opened.len(), world.count(TOKEN)), (1, 2));
}

#[test]
fn authorization_after_refresh_counts_as_both() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.refuse("invalid_grant");
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(2)), Verdict::Wait);
    assert_eq!(world.opened.len(), 2);
    world.grant("two", Some("r2"));
    world.consent(&mut client, at(3));
    assert_eq!((call.ask(&mut client, at(3)), token(&client)), (Verdict::Retry, Some("two")));
    assert_eq!(call.again(&mut client, at(4)), Verdict::Fail(AuthError::Refused), "the user is not asked twice");
    assert_eq!((world.opened.len(), world.count(TOKEN)), (2, 3));
}

/// Sends a request whose tokens are all refused, while the user consents, and returns how it fails.
fn refused_always(world: &mut World, client: &mut AuthClient, now: u64) -> AuthError {
    let mut call = Call::new(client);
    for _ in 0..16 {
        match call.again(client, at(now)) {
            Verdict::Wait => world.run(client, at(now)),
            Verdict::Retry => {}
            Verdict::Fail(error) => return error,
        }
        if client.is_busy() {
            world.consent(client, at(now));
        }
        // It waits until the flow is over, and is sent again then.
        match call.ask(client, at(now)) {
            Verdict::Fail(error) => return error,
            verdict => assert_eq!(verdict, Verdict::Retry),
        }
    }
    panic!("it does not end: {client:?}");
}

#[test]
fn refused_fresh_tokens_limit_authorizations() {
    for (refresh, is_spent) in [(None, false), (Some("r1"), false), (Some("r1"), true)] {
        let mut world = World::new();
        let mut client = client(&mut world, settings());
        if is_spent {
            let granted = json!({"access_token": "one", "token_type": "Bearer", "refresh_token": "r1"});
            world.once(TOKEN, 200, &granted, None);
            world.refuse("invalid_grant");
        } else {
            world.grant("one", refresh);
        }
        let expected = if is_spent { rejected("invalid_grant") } else { AuthError::Refused };
        assert_eq!((refused_always(&mut world, &mut client, 0), world.opened.len()), (expected, 1));
        for now in [1, 60, 3599] {
            let error = refused_always(&mut world, &mut client, now);
            assert_eq!((error, world.opened.len()), (AuthError::Refused, 1), "{now}");
        }
        world.refuse("invalid_grant");
        let error = refused_always(&mut world, &mut client, 3599);
        assert_eq!((error, world.opened.len()), (AuthError::Refused, 1), "after a refresh is refused");
        world.grant("two", None);
        let mut later = client.clone();
        assert_eq!(refused_always(&mut world, &mut later, 3600), AuthError::Refused);
        assert_eq!(world.opened.len(), 2, "an hour has passed");
        client.allow_authorization();
        assert_eq!(refused_always(&mut world, &mut client, 3599), AuthError::Refused);
        assert_eq!(world.opened.len(), 3, "the application wants it");
    }
}

#[test]
fn old_token_during_authorization_does_not_delay_the_next() {
    for is_granted in [true, false] {
        let mut world = World::new();
        world.grant("one", None);
        let mut client = authorized(&mut world);
        let mut first = Call::new(&client);
        assert_eq!(first.wait(&mut world, &mut client, at(2)), Verdict::Wait);
        // The old token is in use as long as there is no other.
        let mut second = Call::new(&client);
        assert_eq!(second.ask(&mut client, at(3)), Verdict::Wait);
        if is_granted {
            world.grant("two", None);
        } else {
            world.set(TOKEN, 503, &json!({}));
        }
        world.consent(&mut client, at(4));
        let expected = if is_granted { Verdict::Retry } else { Verdict::Fail(AuthError::Unavailable(Some(503))) };
        for call in [&mut first, &mut second] {
            assert_eq!(call.ask(&mut client, at(5)), expected);
        }
        if is_granted {
            accept(&mut client);
        }
        // The new token, or the pause after the failure, ends within the hour.
        let mut later = Call::new(&client);
        assert_eq!(later.wait(&mut world, &mut client, at(600)), Verdict::Wait);
        assert_eq!(world.opened.len(), 3);
        if is_granted {
            assert_eq!(second.again(&mut client, at(601)), Verdict::Wait);
            client.handle_not_opened("no browser".into());
            let verdict = Call::new(&client).wait(&mut world, &mut client, at(603));
            assert_eq!(verdict, Verdict::Fail(AuthError::Refused), "it was new");
        }
    }
}

#[test]
fn refused_tokens_allow_step_up_and_client_grants() {
    let mut world = World::new();
    world.grant("one", None);
    let mut user = client(&mut world, settings());
    assert_eq!(refused_always(&mut world, &mut user, 0), AuthError::Refused);
    let mut call = Call::refused(&user, 403, &insufficient("b"));
    assert_eq!(call.wait(&mut world, &mut user, at(1)), Verdict::Wait);
    assert_eq!(world.opened.len(), 2);
    let grant_type = GrantType::ClientCredentials;
    let mut service =
        AuthClient::new(url(SERVER), Settings { grant_type, ..registered(AuthMethod::ClientSecretPost) }, [9; 32]);
    world.store = Store::default();
    world.run(&mut service, at(0));
    for now in 0..3 {
        let mut call = Call::new(&service);
        assert_eq!(call.wait(&mut world, &mut service, at(now)), Verdict::Retry, "no user is asked");
        assert_eq!(call.again(&mut service, at(now)), Verdict::Fail(AuthError::Refused));
    }
    assert_eq!((world.opened.len(), world.count(TOKEN)), (2, 4));
}

#[test]
fn new_token_can_be_refused_without_a_waiting_request() {
    for refresh in [None, Some("r1")] {
        let mut world = World::new();
        world.grant("one", refresh);
        let mut client = client(&mut world, settings());
        // The request has ended before the user consents.
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
        world.consent(&mut client, at(40));
        world.refuse("invalid_grant");
        let accepted = client.clone();
        for now in [50, 60, 3649] {
            let mut call = Call::new(&client);
            let verdict = match call.ask(&mut client, at(now)) {
                Verdict::Wait => {
                    world.run(&mut client, at(now));
                    call.ask(&mut client, at(now))
                }
                verdict => verdict,
            };
            assert_eq!((verdict, world.opened.len()), (Verdict::Fail(AuthError::Refused), 1), "{now}");
        }
        let mut later = client.clone();
        assert_eq!(Call::new(&later).wait(&mut world, &mut later, at(3650)), Verdict::Wait);
        client.allow_authorization();
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3649)), Verdict::Wait);
        // One that the server has taken, or that has had the time to be revoked or to expire, is not new.
        for (is_accepted, now) in [(true, 50), (false, 3639), (false, 3640)] {
            let mut client = accepted.clone();
            if is_accepted {
                accept(&mut client);
            }
            let expected = if now == 3639 { Verdict::Fail(AuthError::Refused) } else { Verdict::Wait };
            let mut call = Call::new(&client);
            let mut verdict = call.ask(&mut client, at(now));
            if verdict == Verdict::Wait {
                world.run(&mut client, at(now));
                verdict = call.ask(&mut client, at(now));
            }
            assert_eq!(verdict, expected, "{refresh:?} {is_accepted} {now}");
        }
    }
}

#[test]
fn a_token_that_is_taken_in_the_end_ends_the_hold() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
    world.consent(&mut client, at(1));
    world.grant("two", None);
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(2)), Verdict::Retry);
    let former = call.used.expect("a token");
    for (used, is_held) in [(former, true), (client.token().expect("a token").id, false)] {
        client.handle_accepted(used);
        assert_eq!(client.refusal().is_some(), is_held);
    }
}

/// Some servers serve a part of the requests to everybody, and do not look at their tokens.
#[test]
fn refused_token_accepted_elsewhere_keeps_the_pause() {
    for refresh in [None, Some("r1")] {
        let mut world = World::new();
        let mut client = client(&mut world, settings());
        world.grant("one", refresh);
        for _ in 0..3 {
            let mut call = Call::new(&client);
            let mut verdict = call.ask(&mut client, at(0));
            for round in 0..4 {
                if verdict == Verdict::Wait {
                    world.run(&mut client, at(0));
                    if client.is_busy() {
                        world.consent(&mut client, at(0));
                    }
                    verdict = call.ask(&mut client, at(0));
                } else if verdict == Verdict::Retry {
                    world.grant(&format!("token-{round}"), refresh);
                    verdict = call.again(&mut client, at(0));
                }
            }
            assert_eq!(verdict, Verdict::Fail(AuthError::Refused));
            accept(&mut client);
        }
        assert_eq!(world.opened.len(), 1, "the user has been asked once");
    }
}

#[test]
fn waiting_request_remembers_its_first_flow() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    let (mut one, mut two) = (Call::new(&client), Call::new(&client));
    for call in [&mut one, &mut two] {
        assert_eq!(call.ask(&mut client, at(0)), Verdict::Wait);
    }
    world.run(&mut client, at(0));
    world.consent(&mut client, at(1));
    assert_eq!(one.ask(&mut client, at(1)), Verdict::Retry);
    // The second one hears of the first flow only when the next one is under way.
    world.grant("two", None);
    assert_eq!(one.again(&mut client, at(2)), Verdict::Wait);
    assert_eq!(two.ask(&mut client, at(2)), Verdict::Wait);
    world.run(&mut client, at(2));
    assert_eq!((two.ask(&mut client, at(2)), token(&client)), (Verdict::Retry, Some("two")));
    assert_eq!(two.again(&mut client, at(3)), Verdict::Fail(AuthError::Refused));
    assert_eq!(world.opened.len(), 1, "the user has been asked for it once");
}

#[test]
fn does_not_authorize_again_after_denial_or_cancel() {
    let denied =
        AuthError::Redirect(RedirectError::Denied(OAuthError { code: "access_denied".into(), description: None }));
    for is_redirect in [false, true] {
        let mut world = World::new();
        let mut client = client(&mut world, settings());
        let mut call = Call::new(&client);
        assert_eq!(call.wait(&mut world, &mut client, at(0)), Verdict::Wait);
        let expected = if is_redirect {
            let query = world.redirect("error=access_denied");
            client.handle_redirect(at(1), &query).expect_err("it is denied");
            denied.clone()
        } else {
            client.handle_cancelled();
            AuthError::Cancelled
        };
        assert_eq!(call.ask(&mut client, at(1)), Verdict::Fail(expected.clone()));
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Fail(expected));
        assert_eq!((client.poll_action(), world.opened.len()), (None, 1));
        client.allow_authorization();
        assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(3)), Verdict::Wait);
        assert_eq!((world.opened.len(), world.count(REGISTER)), (2, 1), "the registration is still good");
    }
}

#[test]
fn retries_authorization_after_browser_failure() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    client.handle_not_opened("nothing waits for the user".into());
    assert_eq!(client.error(), None);
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(0)), Verdict::Wait);
    client.handle_not_opened("no browser".into());
    assert_eq!(call.ask(&mut client, at(1)), Verdict::Fail(AuthError::NotOpened("no browser".into())));
    assert_eq!(AuthError::NotOpened("no browser".into()).to_string(), "the user could not be asked: no browser");
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(2)), Verdict::Wait);
    assert_eq!((world.opened.len(), world.count(REGISTER)), (2, 1));
}

#[test]
fn an_authorization_that_has_failed_holds_back_the_next_one() {
    let denied =
        |code: &str| AuthError::Redirect(RedirectError::Denied(OAuthError { code: code.into(), description: None }));
    let (hour, minute) = (3600, 60);
    let error = |code: &str| json!({"error": code});
    for (redirect, status, body, expected, time) in [
        ("error=invalid_scope", 0, json!({}), denied("invalid_scope"), hour),
        ("error=unauthorized_client", 0, json!({}), denied("unauthorized_client"), hour),
        ("error=server_error", 0, json!({}), denied("server_error"), minute),
        ("error=temporarily_unavailable", 0, json!({}), denied("temporarily_unavailable"), minute),
        ("x=y", 0, json!({}), AuthError::Redirect(RedirectError::NoCode), hour),
        ("code=c", 400, error("invalid_target"), rejected("invalid_target"), hour),
        ("code=c", 400, error("invalid_grant"), rejected("invalid_grant"), hour),
        ("code=c", 401, error("invalid_client"), rejected("invalid_client"), hour),
        ("code=c", 200, json!({}), AuthError::Invalid(DocumentError::Missing("access_token")), hour),
        ("code=c", 503, json!({}), AuthError::Unavailable(Some(503)), minute),
        ("code=c", 400, error("server_error"), AuthError::Unavailable(Some(400)), minute),
        ("code=c", 408, json!({}), AuthError::Unavailable(Some(408)), minute),
        ("code=c", 429, json!({}), AuthError::Unavailable(Some(429)), minute),
        ("code=c", 0, json!({}), AuthError::Unavailable(None), minute),
        ("code=c", 400, json!({}), AuthError::Status(400), hour),
        ("code=c", 401, json!(null), AuthError::Status(401), hour),
        ("code=c", 404, json!({}), AuthError::Status(404), hour),
        ("code=c", 302, json!("/"), AuthError::Status(302), hour),
    ] {
        let mut world = World::new();
        let mut client = client(&mut world, registered(AuthMethod::ClientSecretPost));
        let mut call = Call::new(&client);
        assert_eq!(call.wait(&mut world, &mut client, at(0)), Verdict::Wait);
        world.set(TOKEN, status, &body);
        let _ = client.handle_redirect(at(10), &world.redirect(redirect));
        world.run(&mut client, at(10));
        assert_eq!(call.ask(&mut client, at(10)), Verdict::Fail(expected.clone()), "{redirect} {body}");
        for now in [11, 9 + time] {
            assert_eq!(
                Call::new(&client).wait(&mut world, &mut client, at(now)),
                Verdict::Fail(expected.clone()),
                "{redirect} {body}"
            );
        }
        assert_eq!((client.poll_action(), world.opened.len()), (None, 1));
        let mut wanted = client.clone();
        wanted.allow_authorization();
        for (mut client, now) in [(wanted, 11), (client, 10 + time)] {
            let mut call = Call::new(&client);
            assert_eq!(call.wait(&mut world, &mut client, at(now)), Verdict::Wait, "{redirect} {body}");
        }
        assert_eq!(world.opened.len(), 3);
    }
}

#[test]
fn failed_authorization_is_not_a_refused_token() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    for (scope, opened) in [("b", 2), ("c", 2)] {
        // The server takes the token, and wants more scopes, which the authorization server does not know.
        let mut call = Call::refused(&client, 403, &insufficient(scope));
        if scope == "b" {
            assert_eq!(call.wait(&mut world, &mut client, at(2)), Verdict::Wait);
            client.handle_redirect(at(3), &world.redirect("error=invalid_scope")).expect_err("it is denied");
        }
        let verdict = call.ask(&mut client, at(4));
        let verdict = if scope == "c" {
            // What is stored is read first.
            assert_eq!(verdict, Verdict::Wait);
            world.run(&mut client, at(4));
            call.ask(&mut client, at(4))
        } else {
            verdict
        };
        assert!(matches!(verdict, Verdict::Fail(AuthError::Redirect(_))));
        assert_eq!(world.opened.len(), opened);
    }
    // A refresh needs no user.
    world.grant("two", None);
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(5)), Verdict::Retry);
}

#[test]
fn refreshes_without_user_after_cancellation() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    let mut call = Call::refused(&client, 403, &insufficient("b"));
    assert_eq!(call.wait(&mut world, &mut client, at(2)), Verdict::Wait);
    let old = Call::new(&client);
    client.handle_cancelled();
    assert_eq!(call.ask(&mut client, at(2)), Verdict::Fail(AuthError::Cancelled));
    // A timer refreshes the token. That does not take back what the user has said.
    world.grant("two", Some("r2"));
    client.refresh(at(3));
    world.run(&mut client, at(3));
    assert_eq!(token(&client), Some("two"));
    let mut late = old;
    assert_eq!(late.ask(&mut client, at(3)), Verdict::Retry, "there is a newer token");
    let mut call = Call::new(&client);
    world.refuse("invalid_grant");
    assert_eq!(call.wait(&mut world, &mut client, at(4)), Verdict::Fail(AuthError::Cancelled));
    assert_eq!(world.opened.len(), 2);
}

#[test]
fn timed_refresh_asks_user_only_for_waiting_request() {
    for waits in [false, true] {
        let mut world = World::new();
        let mut client = authorized(&mut world);
        world.refuse("invalid_grant");
        client.refresh(at(2));
        let mut call = Call::refused(&client, 401, r#"Bearer scope="x""#);
        if waits {
            assert_eq!(call.ask(&mut client, at(2)), Verdict::Wait);
        }
        world.run(&mut client, at(2));
        assert_eq!(world.opened.len(), 1 + usize::from(waits));
        if waits {
            assert_eq!(world.asked("scope").as_deref(), Some("a+x"));
        } else {
            assert_eq!((client.error(), client.is_busy()), (Some(&rejected("invalid_grant")), false));
        }
    }
}

// req: AUTH-066 M-AUTH-022 M-AUTH-023 M-AUTH-047
#[test]
fn ignores_forged_redirects() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(0)), Verdict::Wait);
    for query in ["code=c&state=x".to_string(), world.redirect("code=c&iss=https%3A%2F%2Fevil.example")] {
        client.handle_redirect(at(1), &query).expect_err("it is forged");
        assert_eq!((client.poll_action(), client.is_busy()), (None, true));
    }
    assert_eq!(world.count(TOKEN), 0);
    world.consent(&mut client, at(1));
    assert_eq!(token(&client), Some("one"));
    client.handle_redirect(at(2), &world.redirect("code=c")).expect_err("it was used");
}

#[test]
fn an_authorization_without_a_redirect_expires() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    let mut call = Call::new(&client);
    assert_eq!(call.wait(&mut world, &mut client, at(5)), Verdict::Wait);
    assert_eq!(client.poll_timeout(), Some(at(605).instant));
    client.handle_timeout(at(604));
    assert!(client.is_busy());
    client.handle_timeout(at(605));
    assert_eq!(call.ask(&mut client, at(605)), Verdict::Fail(AuthError::Expired));
}

#[test]
fn expired_authorization_opens_no_url() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).ask(&mut client, at(0)), Verdict::Wait);
    while !matches!(client.step, Step::Browser(_)) {
        let action = client.poll_action().expect("it has more to do");
        world.perform(&mut client, at(0), action);
    }
    client.handle_timeout(at(600));
    assert_eq!((client.poll_action(), client.is_busy()), (None, false));
}

#[test]
fn ignores_late_response() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(Call::new(&client).ask(&mut client, at(0)), Verdict::Wait);
    let first = world.run_to(&mut client, at(0), |action| matches!(action, Action::Request(_)));
    let Action::Request(first) = first else { panic!("it requests metadata") };
    client.handle_response(at(0), first.id, None);
    let body = json!({"resource": SERVER, "authorization_servers": ["https://evil.example"]}).to_string();
    let response = Response { status: 200, location: None, dpop_nonce: None, body: body.as_bytes() };
    client.handle_response(at(0), first.id, Some(response));
    world.run(&mut client, at(0));
    assert!(world.requests.iter().all(|it| it.url.host() != "evil.example"));
}

// req: AUTH-069 M-AUTH-049
#[test]
fn authorization_flow_prints_no_secrets() {
    let mut world = World::new();
    world.grant("canary-a", Some("canary-r"));
    let server = url("https://mcp.example/mcp?key=canary-q");
    let mut client = AuthClient::new(server, registered(AuthMethod::PrivateKeyJwt), [7; 32]);
    let metadata =
        json!({"resource": "https://mcp.example/mcp?key=canary-q", "authorization_servers": ["https://as.example"]});
    world.set(&[RESOURCE, "?key=canary-q"].concat(), 200, &metadata);
    let mut shown = String::new();
    let mut call =
        Call::refused(&client, 401, "Bearer realm=\"x\", error_description=\"canary-d\", Negotiate canary-n");
    shown += &format!("{:?}", call.challenges);
    for now in 0..4 {
        let verdict = call.ask(&mut client, at(now));
        shown += &format!("{verdict:?} {:?}", call.attempts);
        while let Some(action) = client.poll_action() {
            shown += &format!("{action:?} {client:?}");
            world.perform(&mut client, at(now), action);
            if let Step::Browser(authorization) = &client.step {
                shown += &format!("{authorization:?}");
            }
        }
        if matches!(client.step, Step::Browser(_)) {
            let query = world.redirect("code=canary-c");
            client.handle_redirect(at(now), &query).expect("a redirect");
        }
        world.grant("canary-b", Some("canary-s"));
        call.used = client.token().map(|token| token.id);
    }
    assert_eq!(world.count(TOKEN), 2, "{shown}");
    let response = Response { status: 200, location: None, dpop_nonce: None, body: b"canary-x" };
    let entries: Vec<_> = world.store.entries.values().collect();
    shown += &format!("{response:?} {entries:?} {:?} {:?}", world.requests, client.token());
    assert!(!shown.contains("canary"), "{shown}");
    // The bodies, which are secret as a whole, and what is in the URL of the browser.
    for (name, value) in ["state", "code_challenge"].map(|name| (name, world.asked(name).expect(name))) {
        assert!(!shown.contains(&value), "{name}");
    }
    let verifier = world.bodies(TOKEN)[0].split("code_verifier=").nth(1).map(|rest| rest[..43].to_string());
    assert!(!shown.contains(&verifier.expect("a verifier")));
}
