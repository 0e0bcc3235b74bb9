//! Servers and users that take too much time.

use super::*;

/// Performs actions, each of which takes this many seconds, until there are none. Returns the time at the end.
fn run_slowly(world: &mut World, client: &mut AuthClient, begin: u64, seconds: u64) -> u64 {
    let mut now = begin;
    while let Some(action) = client.poll_action() {
        let end = client.poll_timeout().filter(|end| *end <= at(now + seconds).instant);
        if let Some(end) = end {
            now = end.saturating_since(Timestamp::ZERO).as_secs();
            client.handle_timeout(at(now));
        } else {
            now += if matches!(action, Action::Request(_)) { seconds } else { 0 };
            world.perform(client, at(now), action);
        }
    }
    now
}

/// Lets each document of these servers be found nowhere after three redirects.
fn redirect_all(world: &mut World, servers: &[String]) {
    for server in servers {
        for path in ["oauth-authorization-server", "openid-configuration"] {
            for hop in ["", "/1", "/2"] {
                let (name, next) = (format!("GET {server}/.well-known/{path}{hop}"), format!("/.well-known/{path}/1"));
                let location = if hop.is_empty() { next } else { format!("/.well-known/{path}/{}", hop.len() + 1) };
                world.responses.insert(name, Reply { status: 307, body: location, nonce: None });
            }
        }
    }
}

#[test]
fn slow_servers_end_a_flow_after_ten_minutes() {
    let mut world = World::new();
    let servers: Vec<_> = (0..4).map(|index| format!("https://as{index}.example")).collect();
    world.set(RESOURCE, 200, &json!({"resource": SERVER, "authorization_servers": servers}));
    redirect_all(&mut world, &servers);
    let mut client = client(&mut world, settings());
    let mut call = Call::new(&client);
    assert_eq!(call.ask(&mut client, at(5)), Verdict::Wait);
    assert_eq!(run_slowly(&mut world, &mut client, 5, 29), 605);
    assert!(world.requests.len() > 15, "{}", world.requests.len());
    assert_eq!(call.ask(&mut client, at(605)), Verdict::Fail(AuthError::TimedOut));
    assert_eq!((client.is_busy(), client.poll_timeout()), (false, None));
    // The next request has its own time.
    world.set(RESOURCE, 200, &json!({"resource": SERVER, "authorization_servers": ["https://as.example"]}));
    assert_eq!(Call::new(&client).wait(&mut world, &mut client, at(700)), Verdict::Wait);
    assert!(client.waits_for_user());
    world.consent(&mut client, at(701));
    assert_eq!(token(&client), Some("one"));
}

#[test]
fn user_has_the_time_that_servers_leave() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    let mut call = Call::new(&client);
    assert_eq!(call.ask(&mut client, at(0)), Verdict::Wait);
    assert_eq!(run_slowly(&mut world, &mut client, 0, 29), 87);
    assert_eq!((client.waits_for_user(), client.poll_timeout()), (true, Some(at(600).instant)));
    assert_eq!(call.ask(&mut client, at(599)), Verdict::Wait);
    client.handle_timeout(at(600));
    assert_eq!(call.ask(&mut client, at(600)), Verdict::Fail(AuthError::Expired));
}

#[test]
fn late_consent_leaves_a_minute_for_the_token() {
    for (seconds, expected) in [(59, Some("one")), (61, None)] {
        let mut world = World::new();
        let mut client = client(&mut world, settings());
        let mut call = Call::new(&client);
        assert_eq!(call.wait(&mut world, &mut client, at(0)), Verdict::Wait);
        let query = world.redirect("code=c");
        client.handle_redirect(at(599), &query).expect("it is in time");
        run_slowly(&mut world, &mut client, 599, seconds);
        assert_eq!(token(&client), expected);
        let verdict = call.ask(&mut client, at(660));
        let late = Verdict::Fail(AuthError::TimedOut);
        assert_eq!(verdict, if expected.is_some() { Verdict::Retry } else { late.clone() });
        if expected.is_none() {
            assert_eq!(
                Call::new(&client).wait(&mut world, &mut client, at(661)),
                late,
                "the user is not asked again at once"
            );
        }
    }
}

#[test]
fn slow_refresh_keeps_the_tokens() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    assert_eq!(Call::new(&client).ask(&mut client, at(10)), Verdict::Wait);
    let request = world.run_to(&mut client, at(10), |action| matches!(action, Action::Request(_)));
    assert_eq!(client.poll_timeout(), Some(at(610).instant));
    client.handle_timeout(at(609));
    assert!(client.is_busy());
    client.handle_timeout(at(610));
    assert_eq!((client.is_busy(), client.error(), token(&client)), (false, Some(&AuthError::TimedOut), Some("one")));
    // The late response is ignored.
    world.grant("two", Some("r2"));
    world.perform(&mut client, at(611), request);
    assert_eq!((token(&client), world.store.refresh()), (Some("one"), Some("r1")));
}

#[test]
fn tokens_that_are_being_stored_are_not_lost() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    world.grant("two", Some("r2"));
    assert_eq!(Call::new(&client).ask(&mut client, at(10)), Verdict::Wait);
    let store = world.run_to(&mut client, at(10), is_store);
    assert_eq!(client.poll_timeout(), None);
    client.handle_timeout(at(1000));
    world.perform(&mut client, at(1000), store);
    assert_eq!((token(&client), world.store.refresh()), (Some("two"), Some("r2")));
}

#[test]
fn sign_out_ends_with_slow_servers() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    client.sign_out(at(10));
    let revocation = world.run_to(&mut client, at(10), |action| matches!(action, Action::Request(_)));
    assert_eq!((client.poll_timeout(), world.store.tokens()), (Some(at(610).instant), None));
    client.handle_timeout(at(610));
    assert_eq!((client.is_busy(), token(&client), client.error()), (false, None, None));
    world.perform(&mut client, at(611), revocation);
    assert_eq!((client.is_busy(), client.poll_action()), (false, None));
    // A token that was requested before the sign-out is removed after the timeout as well.
    let mut world = World::new();
    let mut client = authorized(&mut world);
    assert_eq!(Call::new(&client).ask(&mut client, at(10)), Verdict::Wait);
    world.run_to(&mut client, at(10), |action| matches!(action, Action::Request(_)));
    client.sign_out(at(20));
    client.handle_timeout(at(610));
    assert!(client.is_signing_out());
    world.run(&mut client, at(610));
    assert_eq!((client.is_busy(), token(&client), world.store.tokens()), (false, None, None));
}
