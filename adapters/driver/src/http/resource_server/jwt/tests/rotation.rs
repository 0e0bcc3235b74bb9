//! Keys that an authorization server changes.

use std::{
    future::{Future, poll_fn},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Instant,
};

use http::{Request, Response};
use mcp_proto::auth::UrlError;

use super::*;
use crate::http::fetch::HttpFetch;

/// The seconds that have passed, for the clock of the test on this thread.
static PASSED: [AtomicU64; 12] = [const { AtomicU64::new(0) }; 12];
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn clock<const N: usize>() -> Instant {
    *BEGIN + Duration::from_secs(PASSED[N].load(Ordering::SeqCst))
}

/// An authorization server: its answer, and how often it was asked.
#[derive(Clone, Default)]
struct Server {
    body: Arc<Mutex<Option<Vec<u8>>>>,
    requests: Arc<AtomicUsize>,
}

impl Server {
    fn publish(&self, body: Option<Vec<u8>>) {
        *self.body.lock().expect("no panic") = body;
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn verifier<const N: usize>(&self) -> JwtVerifier {
        let server = self.clone();
        let client = move |request: Request<Vec<u8>>| {
            assert_eq!(request.uri(), "https://auth.example/keys");
            server.requests.fetch_add(1, Ordering::SeqCst);
            let body = server.body.lock().expect("no panic").clone();
            body.map(Response::new).ok_or_else(|| io::Error::other("it is down"))
        };
        let keys = KeySource::with_clock("https://auth.example/keys", Duration::from_secs(60), client, clock::<N>);
        JwtVerifier::new(ISSUER, RESOURCE, keys.expect("a URL")).at(now)
    }
}

#[test]
fn new_keys_are_fetched_once_per_interval() {
    let (server, one, two) = (Server::default(), Signer::new("one"), Signer::new("two"));
    let pass = |seconds| PASSED[0].fetch_add(seconds, Ordering::SeqCst);
    let verifier = server.verifier::<0>();
    let verify = |signer: &Signer| verifier.verify(&Secret::new(signer.token())).wait().map(|_| ());
    server.publish(Some(set(&[one.jwk()])));
    assert_eq!(server.requests(), 0, "they are fetched when they are needed");
    assert_eq!((verify(&one), verify(&one), server.requests()), (Ok(()), Ok(()), 1));
    server.publish(Some(set(&[one.jwk(), two.jwk()])));
    // Unknown keys, which any client can name, cause no more requests than one in each interval. Until the next one
    // they are not refused, as they may be new.
    for _ in 0..100 {
        assert_eq!(verify(&two), held());
    }
    assert_eq!(server.requests(), 1);
    pass(60);
    assert_eq!((verify(&two), verify(&one), server.requests()), (Ok(()), Ok(()), 2));
    assert_eq!((verify(&Signer::new("three")), server.requests()), (held(), 2));
    pass(60);
    assert_eq!((verify(&Signer::new("three")), server.requests()), (Err(TokenError::UnknownKey), 3), "it is not new");
    // It may have been published since.
    assert_eq!((verify(&Signer::new("three")), server.requests()), (held(), 3));
    assert_eq!((verify(&Signer::new("four")), server.requests()), (held(), 3));
    // A key that was taken back is not used for more than an hour.
    server.publish(Some(set(&[two.jwk()])));
    pass(60 * 60 - 1);
    assert_eq!((verify(&one), server.requests()), (Ok(()), 3));
    pass(1);
    assert_eq!((verify(&one), server.requests()), (Err(TokenError::UnknownKey), 4));
    // A key that was there is not new.
    assert_eq!((verify(&one), server.requests()), (Err(TokenError::UnknownKey), 4));
    pass(60);
    assert_eq!((verify(&Signer::new("three")), server.requests()), (Err(TokenError::UnknownKey), 5));
    assert_eq!((verify(&one), server.requests()), (Err(TokenError::UnknownKey), 5));
}

/// Any client can name a key before the authorization server publishes it.
#[test]
fn key_that_was_missing_may_be_published_since() {
    let (server, one, two) = (Server::default(), Signer::new("one"), Signer::new("two"));
    let verifier = server.verifier::<9>();
    let verify = |signer: &Signer| verifier.verify(&Secret::new(signer.token())).wait().map(|_| ());
    server.publish(Some(set(&[one.jwk()])));
    assert_eq!((verify(&two), server.requests()), (Err(TokenError::UnknownKey), 1));
    server.publish(Some(set(&[one.jwk(), two.jwk()])));
    for _ in 0..6 {
        assert_eq!((verify(&two), verify(&one), server.requests()), (held(), Ok(()), 1));
        PASSED[9].fetch_add(9, Ordering::SeqCst);
    }
    PASSED[9].fetch_add(6, Ordering::SeqCst);
    assert_eq!((verify(&two), server.requests()), (Ok(()), 2));
}

fn held() -> Result<(), TokenError> {
    Err(TokenError::Unavailable("its key is not fetched again yet".into()))
}

#[test]
fn new_keys_are_not_refused_while_they_cannot_be_fetched() {
    let (server, one, two) = (Server::default(), Signer::new("one"), Signer::new("two"));
    let verifier = server.verifier::<7>();
    let verify = |signer: &Signer| verifier.verify(&Secret::new(signer.token())).wait().map(|_| ());
    server.publish(Some(set(&[one.jwk()])));
    assert_eq!(verify(&one), Ok(()));
    PASSED[7].fetch_add(60, Ordering::SeqCst);
    server.publish(None);
    let down = || Err(TokenError::Unavailable("it is down".into()));
    assert_eq!((verify(&two), verify(&two), verify(&one), server.requests()), (down(), down(), Ok(()), 2));
    PASSED[7].fetch_add(60, Ordering::SeqCst);
    server.publish(Some(set(&[one.jwk()])));
    assert_eq!((verify(&two), verify(&two), server.requests()), (Err(TokenError::UnknownKey), held(), 3));
    PASSED[7].fetch_add(60, Ordering::SeqCst);
    server.publish(None);
    assert_eq!((verify(&two), verify(&two), server.requests()), (down(), down(), 4));
    PASSED[7].fetch_add(60, Ordering::SeqCst);
    server.publish(Some(set(&[one.jwk(), two.jwk()])));
    assert_eq!((verify(&two), server.requests()), (Ok(()), 5));
}

#[test]
fn requests_that_wait_for_a_fetch_learn_what_is_missing() {
    let (server, one) = (Server::default(), Signer::new("one"));
    server.publish(Some(set(&[one.jwk()])));
    let slow = Slow { server, ..Slow::default() };
    let (verifier, cx) = (slow.verifier::<8>(), &mut Context::from_waker(Waker::noop()));
    let signers: Vec<_> = (0..20).map(|at| Signer::new(String::leak(at.to_string()))).collect();
    let verify = |signer: &Signer| Box::pin(verifier.verify(&Secret::new(signer.token())));
    let mut waiting: Vec<_> = signers.iter().map(verify).collect();
    assert!(waiting.iter_mut().all(|request| request.as_mut().poll(cx).is_pending()));
    // The key of a request that has come later may have been published after the fetch began.
    PASSED[8].fetch_add(2, Ordering::SeqCst);
    let mut late = verify(&signers[0]);
    assert!(late.as_mut().poll(cx).is_pending());
    slow.open(true);
    let unknown = || Poll::Ready(Err(TokenError::UnknownKey));
    assert!(waiting.iter_mut().all(|request| request.as_mut().poll(cx).map_ok(|_| ()) == unknown()));
    assert_eq!(late.as_mut().poll(cx).map_ok(|_| ()), Poll::Ready(held()));
    assert_eq!(slow.server.requests(), 1);
}

#[test]
fn keeps_keys_when_fetch_fails() {
    let (server, one) = (Server::default(), Signer::new("one"));
    let pass = |seconds| PASSED[1].fetch_add(seconds, Ordering::SeqCst);
    let verifier = server.verifier::<1>();
    let verify = || verifier.verify(&Secret::new(one.token())).wait().map(|_| ());
    let down = || Err(TokenError::Unavailable("it is down".into()));
    assert_eq!((verify(), verify(), server.requests()), (down(), down(), 1));
    // Without keys no request can be served, so the next try is soon.
    pass(4);
    assert_eq!((verify(), server.requests()), (down(), 1));
    pass(1);
    server.publish(Some(set(&[one.jwk()])));
    assert_eq!((verify(), server.requests()), (Ok(()), 2));
    let many = set(&vec![json!({"kty": "OKP"}); 10_000]);
    for (index, bad) in
        [None, Some(b"<html>".to_vec()), Some(many), Some(vec![b' '; KeySet::MAX_LEN + 1])].into_iter().enumerate()
    {
        server.publish(bad);
        pass(60 * 60);
        assert_eq!((verify(), server.requests()), (Ok(()), 3 + index));
    }
}

#[test]
fn retries_failed_fetches_and_keeps_keys_for_a_day() {
    let (server, one, two) = (Server::default(), Signer::new("one"), Signer::new("two"));
    let pass = |seconds| PASSED[3].fetch_add(seconds, Ordering::SeqCst);
    let verifier = server.verifier::<3>();
    let verify = || verifier.verify(&Secret::new(one.token())).wait().map(|_| ());
    server.publish(Some(set(&[one.jwk()])));
    assert_eq!((verify(), server.requests()), (Ok(()), 1));
    pass(60 * 60);
    server.publish(None);
    assert_eq!((verify(), verify(), server.requests()), (Ok(()), Ok(()), 2));
    pass(60);
    server.publish(Some(set(&[two.jwk()])));
    assert_eq!((verify(), server.requests()), (Err(TokenError::UnknownKey), 3), "the key was taken back");
    let verify = || verifier.verify(&Secret::new(two.token())).wait().map(|_| ());
    server.publish(None);
    pass(24 * 60 * 60 - 1);
    assert_eq!((verify(), server.requests()), (Ok(()), 4));
    pass(1);
    assert_eq!(verify(), Err(TokenError::Unavailable("it is down".into())));
}

#[test]
fn token_without_key_id_tries_all_keys() {
    let (server, last, new) = (Server::default(), Signer::new("last"), Signer::new("new"));
    let verifier = server.verifier::<4>();
    let verify = |signer: &Signer| {
        let token = signer.sign(&json!({"alg": "ES256"}), &claims());
        verifier.verify(&Secret::new(token)).wait().map(|_| ())
    };
    let mut keys: Vec<_> = (1..MAX_TRIED).map(|_| Signer::new("other").jwk()).collect();
    keys.extend([last.jwk(), new.jwk()]);
    server.publish(Some(set(&keys)));
    assert_eq!((verify(&last), server.requests()), (Ok(()), 1));
    assert_eq!((verify(&new), server.requests()), (Err(TokenError::Signature), 1), "only so many are tried");
    server.publish(Some(set(&[last.jwk(), new.jwk()])));
    assert_eq!((verify(&new), server.requests()), (Err(TokenError::Signature), 1));
    PASSED[4].fetch_add(60, Ordering::SeqCst);
    assert_eq!((verify(&new), verify(&new), server.requests()), (Ok(()), Ok(()), 2));
    assert_eq!((verify(&Signer::new("none")), server.requests()), (Err(TokenError::Signature), 2));
    server.publish(None);
    PASSED[4].fetch_add(60, Ordering::SeqCst);
    let down = || Err(TokenError::Unavailable("it is down".into()));
    let none = Signer::new("none");
    assert_eq!((verify(&none), verify(&none), verify(&new), server.requests()), (down(), down(), Ok(()), 3));
}

/// A client whose responses wait until they are let go.
#[derive(Clone, Default)]
struct Slow {
    server: Server,
    is_open: Arc<AtomicBool>,
}

impl HttpFetch for Slow {
    fn fetch(&self, _: Request<Vec<u8>>, _: usize) -> Deferred<io::Result<Response<Vec<u8>>>> {
        self.server.requests.fetch_add(1, Ordering::SeqCst);
        let slow = self.clone();
        Deferred::new(poll_fn(move |_| {
            if !slow.is_open.load(Ordering::SeqCst) {
                return Poll::Pending;
            }
            let body = slow.server.body.lock().expect("no panic").clone();
            Poll::Ready(Ok(Response::new(body.expect("it is up"))))
        }))
    }
}

impl Slow {
    fn verifier<const N: usize>(&self) -> JwtVerifier {
        let keys =
            KeySource::with_clock("https://auth.example/keys", Duration::from_secs(60), self.clone(), clock::<N>);
        JwtVerifier::new(ISSUER, RESOURCE, keys.expect("a URL")).at(now)
    }

    fn open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::SeqCst);
    }
}

#[test]
fn concurrent_requests_share_one_fetch() {
    let (slow, one) = (Slow::default(), Signer::new("one"));
    slow.server.publish(Some(set(&[one.jwk()])));
    let (verifier, token) = (slow.verifier::<2>(), Secret::new(one.token()));
    let mut waiting: Vec<_> = (0..50).map(|_| Box::pin(verifier.verify(&token))).collect();
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(waiting.iter_mut().all(|request| request.as_mut().poll(cx).is_pending()));
    // The one that has begun it leaves.
    drop(waiting.remove(0));
    slow.open(true);
    for request in waiting {
        let Poll::Ready(verified) = pin!(request).poll(cx) else { panic!("the keys are there") };
        assert_eq!(verified.map(|_| ()), Ok(()));
    }
    assert_eq!(slow.server.requests(), 1);
}

/// A peer without a valid token that connects and leaves again does not keep an old key in use.
#[test]
fn dropped_request_does_not_stop_the_fetch() {
    let (slow, one, two) = (Slow::default(), Signer::new("one"), Signer::new("two"));
    let verifier = slow.verifier::<5>();
    let verify = |signer: &Signer| Box::pin(verifier.verify(&Secret::new(signer.token())));
    let cx = &mut Context::from_waker(Waker::noop());
    slow.server.publish(Some(set(&[one.jwk()])));
    slow.open(true);
    assert!(verify(&one).as_mut().poll(cx).is_ready());
    PASSED[5].fetch_add(60 * 60, Ordering::SeqCst);
    slow.server.publish(Some(set(&[two.jwk()])));
    slow.open(false);
    let mut leaves = verify(&one);
    assert!(leaves.as_mut().poll(cx).is_pending());
    // Others that have their key do not wait meanwhile.
    assert!(verify(&one).as_mut().poll(cx).is_ready());
    drop(leaves);
    let mut next = verify(&one);
    assert!(next.as_mut().poll(cx).is_pending());
    slow.open(true);
    assert_eq!(next.as_mut().poll(cx).map_ok(|_| ()), Poll::Ready(Err(TokenError::UnknownKey)));
    assert_eq!(slow.server.requests(), 2);
    // A fetch that was left long ago is begun again, as its response may be as old.
    PASSED[5].fetch_add(60 * 60, Ordering::SeqCst);
    slow.open(false);
    assert!(verify(&two).as_mut().poll(cx).is_pending());
    PASSED[5].fetch_add(60, Ordering::SeqCst);
    slow.open(true);
    assert!(matches!(verify(&two).as_mut().poll(cx), Poll::Ready(Ok(_))));
    assert_eq!(slow.server.requests(), 4);
}

/// The timeout of a fetch passes while no request polls it.
#[test]
fn fetch_that_was_left_is_begun_again_after_seconds() {
    let (slow, one, two) = (Slow::default(), Signer::new("one"), Signer::new("two"));
    let verifier = slow.verifier::<10>();
    let verify = |signer: &Signer| Box::pin(verifier.verify(&Secret::new(signer.token())));
    let cx = &mut Context::from_waker(Waker::noop());
    slow.server.publish(Some(set(&[one.jwk()])));
    slow.open(true);
    assert!(verify(&one).as_mut().poll(cx).is_ready());
    PASSED[10].fetch_add(60, Ordering::SeqCst);
    slow.open(false);
    let mut leave = || assert!(verify(&Signer::new("made up")).as_mut().poll(cx).is_pending());
    leave();
    slow.server.publish(Some(set(&[one.jwk(), two.jwk()])));
    assert_eq!(slow.server.requests(), 2);
    PASSED[10].fetch_add(4, Ordering::SeqCst);
    leave();
    assert_eq!(slow.server.requests(), 2, "it is continued");
    PASSED[10].fetch_add(1, Ordering::SeqCst);
    let mut next = verify(&two);
    assert!(next.as_mut().poll(cx).is_pending());
    assert_eq!(slow.server.requests(), 3);
    slow.open(true);
    assert!(matches!(next.as_mut().poll(cx), Poll::Ready(Ok(_))));
}

/// A token without a key id names no key that may be new.
#[test]
fn tokens_without_key_ids_are_refused_without_keys() {
    let (server, one) = (Server::default(), Signer::new("one"));
    let verifier = server.verifier::<11>();
    let token = Secret::new(one.sign(&without(header(), "kid"), &claims()));
    let verify = || verifier.verify(&token).wait().map(|_| ());
    server.publish(Some(set(&[with(one.jwk(), "use", json!("enc"))])));
    for _ in 0..2 {
        assert_eq!((verify(), server.requests()), (Err(TokenError::UnknownKey), 1));
    }
}

#[test]
fn key_url_requires_https_or_loopback() {
    let at = |url: &str| KeySource::remote(url, |_: Request<Vec<u8>>| Ok(Response::default())).map(|_| ());
    for url in ["https://auth.example/keys", "http://127.0.0.1:1/keys", "http://localhost/keys", "http://[::1]/keys"] {
        assert_eq!(at(url), Ok(()), "{url}");
    }
    for url in ["http://auth.example/keys", "http://10.0.0.1/keys", "http://localhost.evil.example/keys"] {
        assert_eq!(at(url), Err(UrlError::Insecure), "{url}");
    }
}

#[test]
fn panicking_http_client_does_not_stop_fetches() {
    let (one, requests) = (Signer::new("one"), AtomicUsize::new(0));
    let body = set(&[one.jwk()]);
    let client = move |_: Request<Vec<u8>>| {
        assert_ne!(requests.fetch_add(1, Ordering::SeqCst), 0, "it panics once");
        Ok(Response::new(body.clone()))
    };
    let keys = KeySource::with_clock("https://auth.example/keys", Duration::from_secs(60), client, clock::<6>);
    let verifier = JwtVerifier::new(ISSUER, RESOURCE, keys.expect("a URL")).at(now);
    let verify = || verifier.verify(&Secret::new(one.token())).wait().map(|_| ());
    assert!(catch_unwind(AssertUnwindSafe(verify)).is_err());
    assert!(matches!(verify(), Err(TokenError::Unavailable(_))));
    PASSED[6].fetch_add(5, Ordering::SeqCst);
    assert_eq!(verify(), Ok(()));
}
