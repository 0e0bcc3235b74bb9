//! The provider, with an authorization server in memory.

mod deadlines;
mod user;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::{Future, pending},
    io,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Instant, SystemTime},
};

use http::{Request, Response, StatusCode, header};
use mcp_proto::auth::{
    AuthMethod, ClientIdentity, Network, Registration, Scopes, Secret, TokenType, Url, UrlPolicy, UrlRefused,
    client::{self, AuthError, Credentials, Generation, Settings, StoreReply, StoredTokens},
};
use mcp_service::block_on;
use serde_json::{Value, json};

use super::{AuthRuntime, AuthTransport, Headless, MemoryTokenStore, OAuth, OAuthBuilder, TokenStore};
use crate::{
    http::client::{AuthProvider, Refusal},
    runtime::{Runtime, Timer, race},
    sync::lock,
    watched::Watched,
};

const SERVER: &str = "https://mcp.example/mcp";
const ISSUER: &str = "https://as.example";

/// A runtime with a thread for each task. Its timers fire at once, or not at all.
#[derive(Clone)]
struct Threads {
    fires: bool,
    /// Whether those of a few seconds fire at once.
    fires_soon: bool,
}

thread_local! {
    /// Set on a thread whose runtime has ended: it drops new tasks.
    static ENDED: Cell<bool> = const { Cell::new(false) };
    /// Set on a thread whose timers fire at once.
    static FIRES: Cell<bool> = const { Cell::new(false) };
    /// Set on a thread whose timers of a few seconds fire at once.
    static FIRES_SOON: Cell<bool> = const { Cell::new(false) };
    /// Ends the tasks of a thread, also those that run.
    static END: RefCell<Option<Arc<Watched<bool>>>> = const { RefCell::new(None) };
}

impl Runtime for Threads {
    type Task = ();
    type Timer = Self;

    fn current() -> io::Result<Self> {
        Ok(Self { fires: FIRES.get(), fires_soon: FIRES_SOON.get() })
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let end = END.with_borrow(Clone::clone).unwrap_or_default();
        if !ENDED.get() {
            thread::spawn(move || block_on(race(end.wait_for(|end| end.then_some(())), future)));
        }
    }

    fn detach((): ()) {}

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        thread::spawn(f);
    }

    fn timer(&self) -> Self {
        self.clone()
    }
}

impl Timer for Threads {
    fn poll_until(&mut self, until: Instant, _: &mut Context<'_>) -> Poll<()> {
        let is_soon = until.saturating_duration_since(Instant::now()).as_secs() < 5;
        if self.fires || self.fires_soon && is_soon { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl AuthRuntime for Threads {
    fn transport() -> Arc<dyn AuthTransport<Self>> {
        Arc::new(Server::default())
    }
}

/// An authorization server, and the metadata of the protected server.
#[derive(Clone, Default)]
struct Server(Arc<ServerState>);

#[derive(Default)]
struct ServerState {
    /// How many requests there were, by path.
    requests: Mutex<BTreeMap<String, usize>>,
    /// The number of token requests that have arrived, and of those that are answered.
    tokens: Watched<(usize, usize)>,
    /// The status and the body of token responses instead of new tokens.
    failure: Mutex<Option<(StatusCode, Value)>>,
    /// The reason why the client connects to no address.
    refused: Mutex<Option<UrlRefused>>,
}

impl Server {
    /// Answers the token requests up to this one.
    fn answer(&self, count: usize) {
        self.0.tokens.update(|(_, answered)| *answered = count);
    }

    fn count(&self, path: &str) -> usize {
        lock(&self.0.requests).get(path).copied().unwrap_or_default()
    }

    /// Waits until this many token requests have arrived.
    fn wait_for(&self, count: usize) {
        block_on(self.0.tokens.wait_for(|(arrived, _)| (*arrived >= count).then_some(())));
    }

    async fn respond(self, request: client::Request) -> io::Result<Response<Vec<u8>>> {
        let path = request.url.path().to_owned();
        let refused = *lock(&self.0.refused);
        if let Some(refused) = refused {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, refused));
        }
        *lock(&self.0.requests).entry(path.clone()).or_default() += 1;
        let (status, body) = match &*path {
            "/.well-known/oauth-protected-resource/mcp" => {
                (StatusCode::OK, json!({"resource": SERVER, "authorization_servers": [ISSUER]}))
            }
            "/.well-known/oauth-authorization-server" => {
                let url = |path: &str| format!("{ISSUER}/{path}");
                let body = json!({
                    "issuer": ISSUER, "token_endpoint": url("token"), "authorization_endpoint": url("authorize"),
                    "registration_endpoint": url("register"), "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                });
                (StatusCode::OK, body)
            }
            "/register" => (StatusCode::CREATED, json!({"client_id": "client", "client_secret": "canary-secret"})),
            "/token" => {
                let number = self.0.tokens.update(|(arrived, _)| {
                    *arrived += 1;
                    *arrived
                });
                self.0.tokens.wait_for(|(_, answered)| (*answered >= number).then_some(())).await;
                let failure = lock(&self.0.failure).clone();
                let tokens = json!({
                    "access_token": format!("canary-{number}"), "token_type": "Bearer",
                    "refresh_token": format!("canary-refresh-{number}"), "expires_in": 3600,
                });
                failure.unwrap_or((StatusCode::OK, tokens))
            }
            _ => (StatusCode::NOT_FOUND, Value::Null),
        };
        let response = Response::builder().status(status).body(body.to_string().into_bytes());
        response.map_err(io::Error::other)
    }
}

impl AuthTransport<Threads> for Server {
    fn exchange(
        &self,
        _: &Threads,
        request: client::Request,
        _: UrlPolicy,
    ) -> Pin<Box<dyn Future<Output = io::Result<Response<Vec<u8>>>> + Send>> {
        Box::pin(self.clone().respond(request))
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Returns a store with an access token that expires in so many seconds, and a refresh token.
fn store(expires_in: u64) -> Arc<MemoryTokenStore> {
    let client = ClientIdentity {
        issuer: ISSUER.into(),
        client_id: "client".into(),
        secret: Some(Secret::new("canary-secret")),
        secret_expires_at: None,
        redirect_uris: Vec::new(),
        auth_method: Some(AuthMethod::ClientSecretBasic),
    };
    let tokens = StoredTokens {
        access: Secret::new("canary-0"),
        token_type: TokenType::Bearer,
        refresh: Some(Secret::new("canary-refresh-0")),
        resource: Url::parse(SERVER).expect("a URL"),
        key_thumbprint: None,
        scopes: Scopes::default(),
        requested: Scopes::default(),
        issued_at: unix_seconds() - 3600,
        expires_at: Some(unix_seconds() + expires_in),
    };
    let store = Arc::new(MemoryTokenStore::default());
    store.replace(SERVER, None, Some(&Credentials::new(client, Some(tokens)))).expect("it is in memory");
    store
}

fn builder(server: &Server, store: impl TokenStore) -> OAuthBuilder<Threads> {
    let registration = Some(Registration::new("test", []));
    let mut settings = Settings::default();
    settings.identities.registration = registration;
    OAuth::builder(SERVER).expect("a URL").transport(server.clone()).store(store).settings(settings)
}

fn request() -> Request<Arc<[u8]>> {
    Request::post(SERVER).body(Arc::from(*b"")).expect("a request")
}

/// Sends a request, and returns the value of its header, and its refusal.
fn send(oauth: &OAuth<Threads>) -> (String, Refusal) {
    let mut request = request();
    block_on(oauth.authorize(&mut request)).expect("it may be sent");
    assert!(!format!("{request:?}").contains("canary"), "{request:?}");
    let value = request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().expect("text").to_owned());
    let extensions = std::mem::take(request.extensions_mut());
    (value.unwrap_or_default(), Refusal { status: 401, challenges: vec!["Bearer".into()], extensions })
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn concurrent_challenges_cause_one_refresh() {
    let server = Server::default();
    let oauth = builder(&server, store(3600)).build().expect("random bytes");
    let mut refusals: Vec<_> = (0..50).map(|_| send(&oauth)).collect();
    assert!(refusals.iter().all(|(value, _)| value == "Bearer canary-0"));
    let (_, mut late) = send(&oauth);
    let mut retries: Vec<_> = refusals.iter_mut().map(|(_, refusal)| Box::pin(oauth.challenged(refusal))).collect();
    for retry in &mut retries {
        assert!(poll(retry.as_mut()).is_pending());
    }
    server.answer(usize::MAX);
    assert!(retries.into_iter().all(block_on), "all are sent again");
    // One that was sent before, and is refused after that.
    assert!(block_on(oauth.challenged(&mut late)));
    assert_eq!(server.count("/token"), 1);
    assert_eq!(send(&oauth).0, "Bearer canary-1");
}

#[test]
fn dropped_request_does_not_stop_refresh() {
    let server = Server::default();
    let oauth = builder(&server, store(3600)).build().expect("random bytes");
    let ((_, mut one), (_, mut other)) = (send(&oauth), send(&oauth));
    let mut waiting = Box::pin(oauth.challenged(&mut other));
    {
        let mut dropped = Box::pin(oauth.challenged(&mut one));
        assert!(poll(dropped.as_mut()).is_pending());
        server.wait_for(1);
    }
    assert!(poll(waiting.as_mut()).is_pending());
    server.answer(usize::MAX);
    assert!(block_on(waiting));
    assert_eq!((server.count("/token"), send(&oauth).0.as_str()), (1, "Bearer canary-1"));
}

#[test]
fn processes_share_tokens_through_one_store() {
    let (server, store) = (Server::default(), store(3600));
    server.answer(usize::MAX);
    let both = [store.clone(), store.clone()].map(|store| builder(&server, store).build().expect("random bytes"));
    let mut refusals = both.each_ref().map(|oauth| send(oauth).1);
    for (oauth, refusal) in both.iter().zip(&mut refusals) {
        assert!(block_on(oauth.challenged(refusal)));
    }
    assert_eq!(server.count("/token"), 1, "the second one finds the token of the first");
    assert_eq!(both.each_ref().map(|oauth| send(oauth).0), ["Bearer canary-1", "Bearer canary-1"]);
    // Both at once: the one whose token is not stored takes the other one.
    server.answer(1);
    let mut refusals = both.each_ref().map(|oauth| send(oauth).1);
    let [one, other] = &mut refusals;
    let mut retries = [Box::pin(both[0].challenged(one)), Box::pin(both[1].challenged(other))];
    for (index, retry) in retries.iter_mut().enumerate() {
        assert!(poll(retry.as_mut()).is_pending());
        server.wait_for(index + 2);
    }
    server.answer(usize::MAX);
    assert!(retries.into_iter().all(block_on));
    let (_, stored) = store.load(SERVER).expect("it is in memory").expect("an entry");
    let access = format!("Bearer {}", stored.tokens.expect("tokens").access.expose());
    assert_eq!(both.each_ref().map(|oauth| send(oauth).0), [access.clone(), access]);
    assert_eq!(server.count("/token"), 3);
}

#[test]
fn refreshes_expiring_token_before_sending() {
    let server = Server::default();
    server.answer(usize::MAX);
    let oauth = builder(&server, store(10)).build().expect("random bytes");
    assert_eq!(send(&oauth).0, "Bearer canary-1");
    // A refresh that fails is not tried with each request.
    let server = Server::default();
    server.answer(usize::MAX);
    *lock(&server.0.failure) = Some((StatusCode::SERVICE_UNAVAILABLE, Value::Null));
    let oauth = builder(&server, store(10)).build().expect("random bytes");
    for _ in 0..3 {
        assert_eq!(send(&oauth).0, "Bearer canary-0");
    }
    assert_eq!(server.count("/token"), 1);
}

#[test]
fn the_principal_is_known_once_credentials_are_loaded() {
    let oauth = builder(&Server::default(), store(3600)).build().expect("random bytes");
    assert_eq!(oauth.principal(), None);
    send(&oauth);
    let principal = oauth.principal();
    assert!(principal.is_some() && principal == oauth.principal());
}

/// Returns the query with which the authorization server redirects the user.
fn consent(url: &Url) -> String {
    let query = url.query().unwrap_or_default();
    let state = query.split('&').find(|pair| pair.starts_with("state=")).unwrap_or_default();
    format!("code=canary-code&{state}")
}

fn redirect_uri() -> Url {
    Url::parse("http://127.0.0.1:1/callback").expect("a URL")
}

#[test]
fn ended_runtime_does_not_block_authorization() {
    let server = Server::default();
    server.answer(usize::MAX);
    let end = Arc::new(Watched::new(false));
    let (attempts, ends) = (AtomicUsize::new(0), end.clone());
    let user_agent = Headless::new(redirect_uri(), move |url: Url| {
        let is_first = attempts.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first {
            ends.update(|ends| *ends = true);
        }
        async move { if is_first { pending().await } else { Ok(consent(&url)) } }
    });
    let oauth = builder(&server, MemoryTokenStore::default()).user_agent(user_agent).build().expect("random bytes");
    let mut refusal = send(&oauth).1;
    // The task that has read the store would perform the next actions as well, and its runtime does not end.
    block_on(oauth.0.state.wait_for(|state| (!state.is_driven).then_some(())));
    thread::scope(|scope| {
        let of_ended = scope.spawn(|| {
            END.set(Some(end.clone()));
            block_on(oauth.challenged(&mut refusal))
        });
        assert!(!of_ended.join().expect("no panic"));
    });
    assert!(matches!(oauth.error(), Some(AuthError::NotOpened(_))), "{:?}", oauth.error());
    assert!(block_on(oauth.challenged(&mut send(&oauth).1)));
}

#[test]
fn a_client_of_another_server_gets_no_tokens() {
    let oauth = builder(&Server::default(), store(3600)).build().expect("random bytes");
    for (url, is_for_server) in [
        (SERVER, true),
        ("https://MCP.example:443/mcp/", true),
        ("https://mcp.example/mcp/v2?x", true),
        ("https://mcp.example/other/mcp", false),
        ("https://mcp.example/mcpx", false),
        ("https://mcp.example/mcp/../other", false),
        ("https://mcp.example/", false),
        ("https://other.example/mcp", false),
        ("http://mcp.example/mcp", false),
    ] {
        assert_eq!(oauth.check_server(&url.parse().expect("a URI")).is_ok(), is_for_server, "{url}");
    }
    // Tenants in the query are servers of their own.
    let oauth = OAuth::<Threads>::builder("https://mcp.example/mcp?tenant=a").expect("a URL").build();
    let oauth = oauth.expect("random bytes");
    for (url, is_for_server) in [
        ("https://mcp.example/mcp?tenant=a", true),
        ("https://mcp.example/mcp?tenant=b", false),
        ("https://mcp.example/mcp", false),
    ] {
        assert_eq!(oauth.check_server(&url.parse().expect("a URI")).is_ok(), is_for_server, "{url}");
    }
}

#[test]
fn a_request_to_another_origin_fails() {
    let oauth = builder(&Server::default(), store(3600)).build().expect("random bytes");
    for url in ["https://other.example/mcp", "http://mcp.example/mcp", "https://mcp.example:8443/mcp", "/mcp"] {
        let mut request = request();
        *request.uri_mut() = url.parse().expect("a URI");
        assert!(block_on(oauth.authorize(&mut request)).is_err(), "{url}");
        assert!(request.headers().is_empty());
    }
}

#[test]
fn ended_runtime_fails_only_its_own_requests() {
    let server = Server::default();
    server.answer(usize::MAX);
    let oauth = builder(&server, store(3600)).build().expect("random bytes");
    thread::scope(|scope| {
        let of_ended = scope.spawn(|| {
            ENDED.set(true);
            block_on(oauth.authorize(&mut request())).is_err()
        });
        assert!(of_ended.join().expect("no panic"));
    });
    assert_eq!(send(&oauth).0, "Bearer canary-0");
}

#[test]
fn sign_out_does_not_wait_for_later_authorization() {
    let server = Server::default();
    server.answer(usize::MAX);
    let user_agent = Headless::new(redirect_uri(), |_| pending());
    let oauth = builder(&server, store(3600)).user_agent(user_agent).build().expect("random bytes");
    send(&oauth);
    let mut sign_out = Box::pin(oauth.sign_out());
    assert!(poll(sign_out.as_mut()).is_pending());
    block_on(oauth.0.state.wait_for(|state| (!state.client.is_signing_out()).then_some(())));
    // The next request is refused, and causes an authorization before the sign-out is polled again.
    let mut refusal = send(&oauth).1;
    let mut challenged = Box::pin(oauth.challenged(&mut refusal));
    assert!(poll(challenged.as_mut()).is_pending());
    assert!(matches!(poll(sign_out.as_mut()), Poll::Ready(Ok(()))));
    oauth.cancel();
}

#[test]
fn failed_sign_out_returns_error() {
    let oauth = builder(&Server::default(), Broken).build().expect("random bytes");
    let error = block_on(oauth.sign_out()).expect_err("nothing can be removed");
    assert_eq!(error.to_string(), AuthError::NotLoaded.to_string());
}

#[test]
fn error_names_address_refused_by_policy() {
    let server = Server::default();
    *lock(&server.0.refused) = Some(UrlRefused::Network(Network::Private));
    let oauth = builder(&server, MemoryTokenStore::default()).build().expect("random bytes");
    assert!(!block_on(oauth.challenged(&mut send(&oauth).1)));
    let error = oauth.error().expect("nothing was found").to_string();
    assert!(error.contains("the URL leads to a Private address"), "{error}");
}

/// A store whose calls return when it is told to.
#[derive(Clone, Default)]
struct Stuck(Arc<Watched<bool>>);

impl TokenStore for Stuck {
    fn load(&self, _: &str) -> io::Result<Option<(Generation, Credentials)>> {
        block_on(self.0.wait_for(|ends| ends.then_some(())));
        Ok(None)
    }

    fn replace(&self, _: &str, _: Option<Generation>, _: Option<&Credentials>) -> io::Result<StoreReply> {
        block_on(self.0.wait_for(|ends| ends.then_some(())));
        Ok(StoreReply::Conflict(None))
    }
}

#[test]
fn hanging_token_store_times_out() {
    let stuck = Stuck::default();
    let oauth = builder(&Server::default(), stuck.clone()).build().expect("random bytes");
    thread::scope(|scope| {
        scope.spawn(|| {
            FIRES.set(true);
            assert!(!block_on(oauth.challenged(&mut send(&oauth).1)));
            assert_eq!(oauth.error(), Some(AuthError::NotLoaded));
            assert!(block_on(oauth.sign_out()).is_err());
        });
    });
    stuck.0.update(|ends| *ends = true);
}

/// A store that fails.
struct Broken;

impl TokenStore for Broken {
    fn load(&self, _: &str) -> io::Result<Option<(Generation, Credentials)>> {
        Err(io::Error::other("canary"))
    }

    fn replace(&self, _: &str, _: Option<Generation>, _: Option<&Credentials>) -> io::Result<StoreReply> {
        Err(io::Error::other("canary"))
    }
}

// req: AUTH-069
#[test]
fn debug_output_hides_secrets() {
    let failures = [
        None,
        Some((StatusCode::OK, json!({"access_token": "canary", "token_type": "canary"}))),
        Some((
            StatusCode::OK,
            json!({"access_token": "canary canary", "token_type": "Bearer", "expires_in": "canary"}),
        )),
        Some((StatusCode::BAD_REQUEST, json!({"error": "invalid_grant", "access_token": "canary"}))),
        Some((StatusCode::IM_A_TEAPOT, json!("canary"))),
    ];
    for failure in failures {
        let server = Server::default();
        server.answer(usize::MAX);
        lock(&server.0.failure).clone_from(&failure);
        let oauth = builder(&server, store(3600)).build().expect("random bytes");
        let (_, mut refusal) = send(&oauth);
        let is_retried = block_on(oauth.challenged(&mut refusal));
        assert_eq!(is_retried, failure.is_none(), "{failure:?}");
        let error = oauth.error();
        let shown = [format!("{oauth:?}"), format!("{error:?}"), format!("{refusal:?}")];
        assert!(shown[0].starts_with("OAuth("), "{shown:?}");
        let told = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(!shown.iter().chain([&told]).any(|text| text.contains("canary")), "{shown:?} {told}");
    }
    let oauth = builder(&Server::default(), Broken).build().expect("random bytes");
    let (_, mut refusal) = send(&oauth);
    assert!(!block_on(pin!(oauth.challenged(&mut refusal))));
    assert_eq!(oauth.error(), Some(AuthError::NotLoaded));
}
