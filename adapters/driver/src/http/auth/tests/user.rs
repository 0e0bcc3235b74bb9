//! When the user is asked.

use super::*;

#[test]
fn valid_token_is_sent_during_a_step_up() {
    for (expires_in, is_sent) in [(50, true), (0, false)] {
        let server = Server::default();
        server.answer(usize::MAX);
        *lock(&server.0.failure) = Some((StatusCode::SERVICE_UNAVAILABLE, Value::Null));
        let user_agent = Headless::new(redirect_uri(), |_| pending());
        let oauth = builder(&server, store(expires_in)).user_agent(user_agent).build().expect("random bytes");
        // The token is late, and cannot be refreshed now.
        let (_, mut refusal) = send(&oauth);
        refusal.status = 403;
        refusal.challenges = vec![r#"Bearer error="insufficient_scope", scope="more""#.into()];
        let mut challenged = Box::pin(oauth.challenged(&mut refusal));
        assert!(poll(challenged.as_mut()).is_pending());
        block_on(oauth.0.state.wait_for(|state| state.client.waits_for_user().then_some(())));
        let mut request = request();
        let mut other = Box::pin(oauth.authorize(&mut request));
        assert_eq!(poll(other.as_mut()).is_ready(), is_sent);
        drop(other);
        assert_eq!(request.headers().contains_key(header::AUTHORIZATION), is_sent);
        oauth.cancel();
    }
}

#[test]
fn request_that_waits_for_a_refresh_ends_without_the_user() {
    let server = Server::default();
    let user_agent = Headless::new(redirect_uri(), |_| pending());
    let oauth = builder(&server, store(3600)).user_agent(user_agent).build().expect("random bytes");
    let (_, mut refusal) = send(&oauth);
    let mut waiting = Box::pin(oauth.challenged(&mut refusal));
    assert!(poll(waiting.as_mut()).is_pending());
    server.answer(usize::MAX);
    block_on(oauth.0.state.wait_for(|state| (!state.client.is_busy()).then_some(())));
    // Another request needs the user before the first one is polled.
    let (_, mut refusal) = send(&oauth);
    refusal.status = 403;
    refusal.challenges = vec![r#"Bearer error="insufficient_scope", scope="more""#.into()];
    let mut asking = Box::pin(oauth.challenged(&mut refusal));
    assert!(poll(asking.as_mut()).is_pending());
    block_on(oauth.0.state.wait_for(|state| state.client.waits_for_user().then_some(())));
    assert!(matches!(poll(waiting.as_mut()), Poll::Ready(true)), "there is a newer token");
    assert!(poll(asking.as_mut()).is_pending());
    oauth.cancel();
}

#[test]
fn asks_user_once_until_allow_authorization() {
    let server = Server::default();
    server.answer(usize::MAX);
    let requested = Arc::new(AtomicUsize::new(0));
    let (count, denies) = (requested.clone(), Arc::new(Watched::new(true)));
    let may = denies.clone();
    let redirect_uri = Url::parse("http://127.0.0.1:1/callback").expect("a URL");
    let user_agent = Headless::new(redirect_uri, move |url: Url| {
        count.fetch_add(1, Ordering::Relaxed);
        let denies = may.read(|denies| *denies);
        async move {
            let query = url.query().unwrap_or_default();
            let state = query.split('&').find(|pair| pair.starts_with("state=")).unwrap_or_default();
            Ok(if denies { format!("error=access_denied&{state}") } else { format!("code=canary-code&{state}") })
        }
    });
    let oauth = builder(&server, MemoryTokenStore::default()).user_agent(user_agent).build().expect("random bytes");
    for _ in 0..3 {
        let (value, mut refusal) = send(&oauth);
        assert_eq!(value, "");
        assert!(!block_on(oauth.challenged(&mut refusal)));
    }
    assert!(matches!(oauth.error(), Some(AuthError::Redirect(_))), "{:?}", oauth.error());
    assert_eq!(requested.load(Ordering::Relaxed), 1, "a user who has refused is not asked again");
    denies.update(|denies| *denies = false);
    oauth.allow_authorization();
    let mut refusals: Vec<_> = (0..5).map(|_| send(&oauth).1).collect();
    let retries: Vec<_> = refusals.iter_mut().map(|refusal| Box::pin(oauth.challenged(refusal))).collect();
    thread::scope(|scope| {
        for retry in retries {
            scope.spawn(|| assert!(block_on(retry)));
        }
    });
    assert_eq!((requested.load(Ordering::Relaxed), server.count("/register")), (2, 1));
    assert_eq!(send(&oauth).0, "Bearer canary-1");
    block_on(oauth.sign_out()).expect("it is in memory");
    assert_eq!(send(&oauth).0, "");
}

#[test]
fn retries_authorization_after_browser_failure() {
    let server = Server::default();
    server.answer(usize::MAX);
    let requested = AtomicUsize::new(0);
    let user_agent = Headless::new(redirect_uri(), move |url: Url| {
        let answer = match requested.fetch_add(1, Ordering::Relaxed) {
            0 => Err(io::Error::new(io::ErrorKind::NotFound, "no browser")),
            1 => Ok("code=canary-code&state=another".to_owned()),
            _ => Ok(consent(&url)),
        };
        async move { answer }
    });
    let oauth = builder(&server, MemoryTokenStore::default()).user_agent(user_agent).build().expect("random bytes");
    for reason in ["no browser", "the redirect does not belong to the authorization"] {
        assert!(!block_on(oauth.challenged(&mut send(&oauth).1)));
        assert_eq!(oauth.error(), Some(AuthError::NotOpened(reason.into())));
    }
    assert!(block_on(oauth.challenged(&mut send(&oauth).1)));
}

#[test]
fn user_is_asked_again_only_after_the_token_was_accepted() {
    for status in [None, Some(StatusCode::BAD_GATEWAY), Some(StatusCode::ACCEPTED)] {
        let server = Server::default();
        server.answer(usize::MAX);
        let requested = Arc::new(AtomicUsize::new(0));
        let count = requested.clone();
        let user_agent = Headless::new(redirect_uri(), move |url: Url| {
            count.fetch_add(1, Ordering::Relaxed);
            async move { Ok(consent(&url)) }
        });
        let oauth = builder(&server, MemoryTokenStore::default()).user_agent(user_agent).build().expect("random bytes");
        // The request is not sent again: it has timed out.
        assert!(block_on(oauth.challenged(&mut send(&oauth).1)));
        *lock(&server.0.failure) = Some((StatusCode::BAD_REQUEST, json!({"error": "invalid_grant"})));
        let (_, mut refusal) = send(&oauth);
        if let Some(status) = status {
            let (head, ()) = Response::builder().status(status).body(()).expect("a response").into_parts();
            oauth.handle_response(&head, &refusal.extensions);
        }
        assert!(!block_on(oauth.challenged(&mut refusal)));
        let is_accepted = status == Some(StatusCode::ACCEPTED);
        assert_eq!(requested.load(Ordering::Relaxed), 1 + usize::from(is_accepted), "{status:?}");
    }
}

#[test]
fn tokens_of_another_process_end_an_open_authorization() {
    FIRES_SOON.set(true);
    let server = Server::default();
    let user_agent = Headless::new(redirect_uri(), |_| pending());
    let tokens = store(3600);
    let shared = Arc::new(MemoryTokenStore::default());
    let oauth = builder(&server, shared.clone()).user_agent(user_agent).build().expect("random bytes");
    let (value, mut refusal) = send(&oauth);
    assert_eq!(value, "");
    let mut waiting = Box::pin(oauth.challenged(&mut refusal));
    assert!(poll(waiting.as_mut()).is_pending());
    block_on(oauth.0.state.wait_for(|state| state.client.waits_for_user().then_some(())));
    let (_, credentials) = tokens.load(SERVER).expect("in memory").expect("tokens");
    let (generation, _) = shared.load(SERVER).expect("in memory").expect("a registration");
    let stored = shared.replace(SERVER, Some(generation), Some(&credentials)).expect("in memory");
    assert!(matches!(stored, StoreReply::Stored(_)));
    assert!(block_on(waiting), "it is sent again");
    assert!(send(&oauth).0.starts_with("Bearer "));
}
