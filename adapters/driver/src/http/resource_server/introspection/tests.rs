//! Responses about tokens, and how many are asked for and kept.

use std::{
    future::{Future, poll_fn},
    io,
    sync::{
        LazyLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::UNIX_EPOCH,
};

use http::Response;
use serde_json::{Value, json};

use super::*;

const ISSUER: &str = "https://auth.example";
const RESOURCE: &str = "https://mcp.example/mcp";

type Seen = Arc<Mutex<Vec<(Option<String>, String)>>>;

fn verifier(answer: impl Fn() -> io::Result<(u16, Vec<u8>)> + Send + Sync + 'static) -> (IntrospectionVerifier, Seen) {
    let seen = Seen::default();
    let log = seen.clone();
    let client = move |request: Request<Vec<u8>>| {
        let authorization =
            request.headers().get("authorization").map(|value| value.to_str().expect("text").to_owned());
        let body = String::from_utf8(request.into_body()).expect("text");
        lock(&log).push((authorization, body));
        let (status, body) = answer()?;
        Ok(Response::builder().status(status).body(body).expect("a response"))
    };
    let secret = Secret::new("canary:+");
    let verifier =
        IntrospectionVerifier::new("https://auth.example/introspect", (ISSUER, RESOURCE), ("me", &secret), client);
    (verifier.expect("a URL"), seen)
}

fn seconds(after: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    i64::try_from(now).expect("a time") + after
}

fn active() -> Value {
    json!({"active": true, "iss": ISSUER, "aud": RESOURCE, "exp": seconds(300), "sub": "ada", "client_id": "app",
        "scope": "a b", "token_type": "Bearer"})
}

fn verify(answer: Value) -> Result<AccessToken, TokenError> {
    let (verifier, _) = verifier(move || Ok((200, answer.to_string().into_bytes())));
    verifier.verify(&Secret::new("canary")).wait()
}

#[test]
fn an_active_token_is_accepted() {
    let token = verify(active()).expect("it is active");
    assert_eq!(
        (token.subject.as_deref(), token.client_id.as_deref(), &*token.scope),
        (Some("ada"), Some("app"), "a b")
    );
    assert!(verify(json!({"active": true, "aud": [RESOURCE, "x"], "sub": "ada"})).is_ok());
    // The clock of the authorization server is ahead, or behind.
    for (name, at) in [("nbf", 20), ("exp", -20)] {
        assert!(verify(json!({"active": true, "aud": RESOURCE, "sub": "ada", name: seconds(at)})).is_ok(), "{name}");
    }
}

#[test]
fn key_of_a_bound_token_is_returned() {
    for kind in ["DPoP", "Bearer"] {
        let mut answer = active();
        answer["token_type"] = json!(kind);
        answer["cnf"] = json!({"jkt": "x".repeat(43)});
        let token = verify(answer).expect("it is active");
        assert_eq!(token.key_thumbprint, Some("x".repeat(43)), "{kind}");
    }
}

// req: AUTH-055 M-AUTH-032
#[test]
fn rejections_have_reasons() {
    let with = |name: &str, value: Value| {
        let mut answer = active();
        answer[name] = value;
        verify(answer).expect_err("it is refused")
    };
    let malformed = TokenError::Unavailable("the introspection is malformed".into());
    for (name, value, error) in [
        ("active", json!(false), TokenError::Inactive),
        ("active", json!("true"), malformed.clone()),
        ("active", json!(null), malformed.clone()),
        ("iss", json!("https://evil.example"), TokenError::Issuer),
        ("aud", json!("https://other.example"), TokenError::Audience),
        ("aud", json!([]), TokenError::Audience),
        ("exp", json!(seconds(-31)), TokenError::Expired),
        ("exp", json!("soon"), TokenError::Claim("exp")),
        ("nbf", json!(seconds(90)), TokenError::NotYetValid),
        ("token_type", json!("MAC"), TokenError::Type),
        ("token_type", json!("DPoP"), TokenError::Claim("cnf")),
        ("cnf", json!({"jkt": "x"}), TokenError::BOUND),
        ("cnf", json!({"jkt": "x".repeat(43), "x5t#S256": "x"}), TokenError::BOUND),
        ("cnf", json!({"x5t#S256": "x".repeat(43)}), TokenError::BOUND),
    ] {
        assert_eq!(with(name, value.clone()), error, "{name} {value}");
    }
    assert_eq!(verify(json!({"active": true, "sub": "ada"})), Err(TokenError::Claim("aud")));
    assert_eq!(verify(json!({"active": false})), Err(TokenError::Inactive));
    let twice = || Ok((200, br#"{"active":true,"active":false}"#.to_vec()));
    assert_eq!(verifier(twice).0.verify(&Secret::new("x")).wait(), Err(malformed.clone()));
    let twice = || Ok((200, br#"{"active":true,"exp":1,"exp":2}"#.to_vec()));
    assert_eq!(verifier(twice).0.verify(&Secret::new("x")).wait(), Err(malformed));
    type Answer = fn() -> io::Result<(u16, Vec<u8>)>;
    let fails: [(Answer, &str); 3] = [
        (|| Ok((500, Vec::new())), "the status of the introspection is 500"),
        (|| Ok((200, vec![b' '; MAX_LEN + 1])), "the response is too long"),
        (|| Err(io::Error::other("it is down")), "it is down"),
    ];
    for (answer, why) in fails {
        let refused = verifier(answer).0.verify(&Secret::new("x")).wait();
        assert_eq!(refused, Err(TokenError::Unavailable(why.into())));
    }
}

#[test]
fn caches_active_responses_up_to_limit() {
    let (verifier, seen) = verifier(|| Ok((200, active().to_string().into_bytes())));
    let ask = |verifier: &IntrospectionVerifier, token: &str| verifier.verify(&Secret::new(token)).wait().is_ok();
    assert!(ask(&verifier, "canary+/=") && ask(&verifier, "canary+/="));
    let basic = format!("Basic {}", mcp_proto::schema::encode_base64(b"me:canary%3A%2B"));
    let expected = (Some(basic), "token=canary%2B%2F%3D&token_type_hint=access_token".to_owned());
    assert_eq!(*lock(&seen), [expected]);
    for index in 0..2 * MAX_CACHED {
        assert!(ask(&verifier, &index.to_string()));
    }
    assert_eq!(lock(&verifier.0.state).active.0.len(), MAX_CACHED);
    assert!(!format!("{verifier:?}").contains("canary"));
}

#[test]
fn zero_cache_time_introspects_each_time() {
    let (verifier, seen) = verifier(|| Ok((200, active().to_string().into_bytes())));
    let verifier = verifier.cache_ttl(Duration::ZERO);
    for _ in 0..3 {
        assert!(verifier.verify(&Secret::new("x")).wait().is_ok());
    }
    assert_eq!(lock(&seen).len(), 3);
}

/// The seconds that have passed for each test with a clock.
static PASSED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static BEGIN: LazyLock<(Instant, SystemTime)> = LazyLock::new(|| (Instant::now(), SystemTime::now()));

fn clock<const N: usize>() -> (Instant, SystemTime) {
    let passed = Duration::from_secs(PASSED[N].load(Ordering::SeqCst));
    (BEGIN.0 + passed, BEGIN.1 + passed)
}

#[test]
fn cache_time_ends_with_the_token() {
    let expiry = BEGIN.1.duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let answer = Arc::new(Mutex::new(json!({"active": true, "aud": RESOURCE, "sub": "ada"})));
    let current = answer.clone();
    let (mut verifier, seen) = verifier(move || Ok((200, lock(&current).to_string().into_bytes())));
    verifier.inner().now = clock::<0>;
    let pass = |seconds| PASSED[0].fetch_add(seconds, Ordering::SeqCst);
    let ask = |token: &str| (verifier.verify(&Secret::new(token)).wait().map(|_| ()), lock(&seen).len());
    assert_eq!((ask("a"), pass(29), ask("a")), ((Ok(()), 1), 0, (Ok(()), 1)));
    lock(&answer)["active"] = json!(false);
    assert_eq!((pass(1), ask("a")), (29, (Err(TokenError::Inactive), 2)), "it was revoked");
    assert_eq!((pass(4), ask("a")), (30, (Err(TokenError::Inactive), 2)));
    lock(&answer)["active"] = json!(true);
    assert_eq!((pass(1), ask("a")), (34, (Ok(()), 3)));
    lock(&answer)["exp"] = json!(expiry + 15);
    assert_eq!((ask("b"), pass(9), ask("b")), ((Ok(()), 4), 35, (Ok(()), 4)));
    assert_eq!((pass(1), ask("b")), (44, (Err(TokenError::Expired), 5)));
    assert!(lock(&verifier.0.state).active.0.len() == 1, "nothing stays that is over");
}

/// A client whose responses wait until they are let go, and how often it was asked.
#[derive(Clone, Default)]
struct Slow {
    requests: Arc<AtomicU64>,
    is_open: Arc<AtomicBool>,
}

impl HttpFetch for Slow {
    fn fetch(&self, _: Request<Vec<u8>>, _: usize) -> Deferred<io::Result<Response<Vec<u8>>>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let is_open = self.is_open.clone();
        Deferred::new(poll_fn(move |_| {
            let answer = || Ok(Response::new(active().to_string().into_bytes()));
            if is_open.load(Ordering::SeqCst) { Poll::Ready(answer()) } else { Poll::Pending }
        }))
    }
}

#[test]
fn lookups_are_shared_and_bounded() {
    let slow = Slow::default();
    let (url, secret) = ("https://auth.example/introspect", Secret::new("s"));
    let verifier = IntrospectionVerifier::new(url, (ISSUER, RESOURCE), ("me", &secret), slow.clone());
    let verifier = verifier.expect("a URL");
    let ask = |token: usize| Box::pin(verifier.verify(&Secret::new(token.to_string())));
    let cx = &mut Context::from_waker(Waker::noop());
    let mut same: Vec<_> = (0..50).map(|_| ask(0)).collect();
    assert!(same.iter_mut().all(|call| call.as_mut().poll(cx).is_pending()));
    assert_eq!(slow.requests.load(Ordering::SeqCst), 1);
    let mut others: Vec<_> = (1..2 * MAX_LOOKUPS).map(ask).collect();
    assert!(others.iter_mut().all(|call| call.as_mut().poll(cx).is_pending()));
    assert_eq!(slow.requests.load(Ordering::SeqCst), MAX_LOOKUPS as u64);
    // Lookups of requests that leave make room for those that wait.
    drop(others.drain(..MAX_LOOKUPS - 1).collect::<Vec<_>>());
    assert!(others.iter_mut().all(|call| call.as_mut().poll(cx).is_pending()));
    assert_eq!(slow.requests.load(Ordering::SeqCst), 2 * MAX_LOOKUPS as u64 - 1);
    // The request that has asked leaves, and the others with its token go on.
    drop(same.remove(0));
    slow.is_open.store(true, Ordering::SeqCst);
    for call in same.iter_mut().chain(&mut others) {
        assert!(matches!(call.as_mut().poll(cx), Poll::Ready(Ok(_))));
    }
    drop((same, others));
    assert_eq!(slow.requests.load(Ordering::SeqCst), 2 * MAX_LOOKUPS as u64);
    assert!(lock(&verifier.0.state).lookups.is_empty());
}

#[test]
fn requests_dropped_at_once_on_two_threads_end_the_lookup() {
    let (verifier, _) = verifier(|| Ok((200, active().to_string().into_bytes())));
    let inner = &verifier.0;
    let waiter = || match inner.find([0; 32]) {
        Some(Found::Lookup(waiter)) => waiter,
        _ => panic!("it is not known"),
    };
    let (first, second) = (waiter(), waiter());
    // The fields of a waiter are dropped after its `drop`, so on another thread the lookup may still be there.
    let fields = first.lookup.clone();
    drop((first, second));
    assert!(lock(&inner.state).lookups.is_empty());
    drop(fields);
}

#[test]
fn requests_after_the_result_begin_a_new_lookup() {
    let (verifier, seen) = verifier(|| Ok((200, active().to_string().into_bytes())));
    let verifier = verifier.cache_ttl(Duration::ZERO);
    let token = Secret::new("x");
    let Some(Found::Lookup(late)) = verifier.0.find(token.sha256()) else { panic!("it is not known") };
    // A second request gets the result, while the first one still waits for its thread.
    assert!(verifier.verify(&token).wait().is_ok() && lock(&late.lookup.result).is_some());
    assert!(verifier.verify(&token).wait().is_ok());
    assert_eq!(lock(&seen).len(), 2);
    drop(late);
    assert!(lock(&verifier.0.state).lookups.is_empty());
}
