//! Authentication of clients in each request.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, StatusCode, Uri, header, request::Parts};
use mcp_driver::Watched;
use mcp_proto::{
    connection::{RequestOptions, Settings},
    protocol::{Era, ProtocolVersion, VersionSet},
    schema::{CacheScope, ResourceContents},
};
use mcp_service::{Context, Failure, Host, Resource, Service, Tool};
use serde_json::json;

use super::{Echo, Guarded, call, endpoint, host, service, within};
use crate::{
    adapter::{
        Error,
        http::{AuthProvider, ClientOptions, Connector, HttpClient, Refusal, ResponseHandler},
    },
    run, spawn,
};

/// Counts how often a request was sent.
#[derive(Clone, Default)]
struct Count(u32);

/// Several tokens: when one is refused, the next one is used.
struct Purse {
    tokens: Mutex<Vec<&'static str>>,
    challenges: Arc<Mutex<Vec<String>>>,
}

impl AuthProvider for Purse {
    fn authorize<'a>(
        &'a self,
        request: &'a mut Request<Arc<[u8]>>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>> {
        let token = self.tokens.lock().expect("no panic").last().copied().unwrap_or("none");
        request.extensions_mut().get_or_insert_default::<Count>().0 += 1;
        request.headers_mut().insert(header::AUTHORIZATION, header::HeaderValue::from_static(token));
        Box::pin(async { Ok(()) })
    }

    fn challenged<'a>(&'a self, refusal: &'a mut Refusal) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        let count = refusal.extensions.get::<Count>().cloned().unwrap_or_default().0;
        self.challenges
            .lock()
            .expect("no panic")
            .push(format!("{} {:?}, sent {count} times", refusal.status, refusal.challenges));
        let more = {
            let mut tokens = self.tokens.lock().expect("no panic");
            tokens.pop();
            !tokens.is_empty()
        };
        Box::pin(async move { more })
    }
}

// req: AUTH-018 AUTH-019 M-AUTH-029 M-AUTH-030
#[test]
fn every_request_carries_its_authorization() {
    run(async {
        let versions = [
            ProtocolVersion::V2025_03_26,
            ProtocolVersion::V2025_06_18,
            ProtocolVersion::V2025_11_25,
            ProtocolVersion::V2026_07_28,
        ];
        for version in versions {
            let (service, _) = service();
            let endpoint = endpoint(&service);
            let purse = Purse { tokens: Mutex::new(vec!["Bearer s3cret"]), challenges: Arc::default() };
            let seen = Arc::<Mutex<Vec<(String, bool)>>>::default();
            let log = seen.clone();
            let look = move |head: &Parts| {
                let proves = head.headers.get_all(header::AUTHORIZATION).iter().eq(["Bearer s3cret"]);
                let tells = head.uri.to_string().contains("s3cret");
                log.lock().expect("no panic").push((head.method.to_string(), proves && !tells));
            };
            let guarded = Guarded { tokens: vec![("Bearer s3cret", "alice")], ..Guarded::open(endpoint.clone(), look) };
            let connector =
                Connector::with_client_options(ClientOptions::new("http://server.example/mcp", 1).expect("an address"));
            let connector = connector.http_client(guarded).auth(purse);
            let client = within(connector.connect(&host(VersionSet::only(version)))).await.expect("it is let in");
            for _ in 0..2 {
                assert_eq!(call(&client, "who", json!({})).await, "alice");
            }
            within(client.close()).await;
            within(endpoint.close()).await;
            let seen = seen.lock().expect("no panic").clone();
            assert!(seen.iter().all(|(_, proves)| *proves), "{version}: {seen:?}");
            let methods: &[&str] = if version.era() == Era::Legacy { &["POST", "GET", "DELETE"] } else { &["POST"] };
            for method in methods {
                assert!(seen.iter().any(|(sent, _)| sent == method), "{version}: {method}: {seen:?}");
            }
        }
    });
}

#[test]
fn client_authenticates_after_a_challenge() {
    run(async {
        for versions in [VersionSet::ALL, VersionSet::LEGACY] {
            for (tokens, expected) in [(vec!["good", "bad"], Some("alice")), (vec!["worse", "bad"], None)] {
                let (service, _) = service();
                let endpoint = endpoint(&service);
                let challenges = Arc::<Mutex<Vec<String>>>::default();
                let purse = Purse { tokens: Mutex::new(tokens), challenges: challenges.clone() };
                let tokens = vec![("good", "alice"), ("better", "else")];
                let guarded = Guarded { tokens, ..Guarded::open(endpoint.clone(), |_| ()) };
                let address = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
                let connector = Connector::with_client_options(address).http_client(guarded).auth(purse);
                let client = within(connector.connect(&host(versions))).await;
                let seen = challenges.lock().expect("no panic").clone();
                match expected {
                    Some(name) => {
                        assert_eq!(seen, [r#"401 ["Bearer"], sent 1 times"#]);
                        let client = client.expect("it is let in");
                        assert_eq!(call(&client, "who", json!({})).await, name);
                        within(client.close()).await;
                    }
                    None => {
                        // The extensions that the provider adds to a request are kept when it is sent again.
                        assert_eq!(seen, [1, 2].map(|count| format!(r#"401 ["Bearer"], sent {count} times"#)));
                        let refused = client.expect_err("it is not let in").to_string();
                        assert!(refused.contains("401"), "{refused}");
                    }
                }
                within(endpoint.close()).await;
                assert_eq!(endpoint.sessions(), 0);
            }
        }
    });
}

/// The state of a server that requires a token.
#[derive(Default)]
struct Asking {
    requested: bool,
    over: bool,
}

/// A client whose refusal ends only after the provider was challenged.
struct Slow {
    guarded: Guarded,
    asking: Arc<Watched<Asking>>,
}

impl HttpClient for Slow {
    fn make(
        &self,
        request: Request<Arc<[u8]>>,
        mut response: ResponseHandler,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if request.headers().contains_key(header::AUTHORIZATION) {
            return self.guarded.make(request, response);
        }
        let asking = self.asking.clone();
        Box::pin(async move {
            let refusal =
                http::Response::builder().status(StatusCode::UNAUTHORIZED).body(()).expect("it is well formed");
            response.head(&refusal.into_parts().0);
            asking.wait_for(|asking| asking.requested.then_some(())).await;
            response.chunk(b"no");
            response.end();
            asking.update(|asking| asking.over = true);
        })
    }
}

/// A provider that has a token only after the refusal has ended.
struct Looking(Arc<Watched<Asking>>);

impl AuthProvider for Looking {
    fn authorize<'a>(
        &'a self,
        request: &'a mut Request<Arc<[u8]>>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>> {
        if self.0.read(|asking| asking.over) {
            request.headers_mut().insert(header::AUTHORIZATION, header::HeaderValue::from_static("good"));
        }
        Box::pin(async { Ok(()) })
    }

    fn challenged<'a>(&'a self, _: &'a mut Refusal) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async {
            self.0.update(|asking| asking.requested = true);
            self.0.wait_for(|asking| asking.over.then_some(true)).await
        })
    }
}

/// A provider for another server.
struct Elsewhere;

impl AuthProvider for Elsewhere {
    fn check_server(&self, url: &Uri) -> io::Result<()> {
        assert_eq!(url, "http://server.example/mcp");
        Err(io::Error::other("the tokens are for another server"))
    }

    fn authorize<'a>(
        &'a self,
        _: &'a mut Request<Arc<[u8]>>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>> {
        panic!("nothing is sent")
    }

    fn challenged<'a>(&'a self, _: &'a mut Refusal) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async { false })
    }
}

#[test]
fn credentials_for_another_server_are_not_sent() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        let address = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
        let open = Guarded::open(endpoint.clone(), |_| panic!("nothing is sent"));
        let connector = Connector::with_client_options(address).http_client(open).auth(Elsewhere);
        let error = within(connector.connect(&host(VersionSet::ALL))).await.expect_err("it does not connect");
        assert_eq!(error.to_string(), "the tokens are for another server");
        within(endpoint.close()).await;
    });
}

/// Credentials of the user of an application, and the next user, who comes while a request gets its credentials.
#[derive(Clone, Default)]
struct Users(Arc<Mutex<(&'static str, Option<&'static str>)>>);

impl Users {
    fn set(&self, now: &'static str, next: Option<&'static str>) {
        *self.0.lock().expect("no panic") = (now, next);
    }
}

impl AuthProvider for Users {
    fn authorize<'a>(
        &'a self,
        request: &'a mut Request<Arc<[u8]>>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>> {
        let (user, next) = &mut *self.0.lock().expect("no panic");
        *user = next.take().unwrap_or(*user);
        request.headers_mut().insert(header::AUTHORIZATION, header::HeaderValue::from_static(user));
        Box::pin(async { Ok(()) })
    }

    fn challenged<'a>(&'a self, _: &'a mut Refusal) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async { false })
    }

    fn principal(&self) -> Option<Arc<str>> {
        Some(self.0.lock().expect("no panic").0.into())
    }
}

// req: M-CACHE-017
#[test]
fn each_principal_of_a_provider_has_its_own_results() {
    run(async {
        let reads = AtomicUsize::new(0);
        let me = move |context: Context| {
            let user = context.info().principal.as_ref().map_or_else(String::new, |user| user.id.clone());
            format!("{user} {}", reads.fetch_add(1, Ordering::SeqCst) + 1)
        };
        let resource = |uri| Resource::new(uri, uri, me).cache_for(Duration::from_secs(3600), CacheScope::Private);
        let service = Service::builder("users", "1").resource(resource("me://")).build().expect("one resource");
        let endpoint = endpoint(&service);
        let tokens = vec![("ada", "ada"), ("eve", "eve")];
        let guarded = Guarded { tokens, ..Guarded::open(endpoint.clone(), |_| ()) };
        let address = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
        let users = Users::default();
        users.set("ada", None);
        let connector = Connector::with_client_options(address).http_client(guarded).auth(users.clone());
        let client = within(connector.connect(&host(VersionSet::ALL))).await.expect("it is let in");
        let read = async || match within(client.read_resource("me://").expect("it is sent")).await {
            Ok(result) => match &result.contents[0] {
                ResourceContents::Text(contents) => contents.text.clone(),
                contents => panic!("{contents:?}"),
            },
            Err(error) => panic!("{error}"),
        };
        // The request is made for Ada, and sent with the token of Eve.
        users.set("ada", Some("eve"));
        assert_eq!(read().await, "eve 1");
        users.set("ada", None);
        assert_eq!([read().await, read().await], ["ada 2", "ada 2"]);
        users.set("eve", None);
        assert_eq!([read().await, read().await], ["eve 3", "eve 3"]);
        users.set("ada", None);
        assert_eq!(read().await, "ada 2");
        within(client.close()).await;
        within(endpoint.close()).await;
    });
}

#[test]
fn slow_401_body_does_not_lose_credentials() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        let tokens = vec![("good", "alice")];
        let guarded = Guarded { tokens, ..Guarded::open(endpoint.clone(), |_| ()) };
        let asking = Arc::<Watched<Asking>>::default();
        let address = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
        let looking = Looking(asking.clone());
        let connector = Connector::with_client_options(address).http_client(Slow { guarded, asking }).auth(looking);
        let client = within(connector.connect(&host(VersionSet::LEGACY))).await.expect("it is let in");
        assert_eq!(call(&client, "who", json!({})).await, "alice");
        within(client.close()).await;
        within(endpoint.close()).await;
    });
}

/// A handler that calls another server is a client of that server. Credentials of its own caller are not forwarded.
#[test]
fn caller_credentials_are_not_forwarded() {
    run(async {
        for versions in [VersionSet::ALL, VersionSet::LEGACY] {
            let (far, _) = service();
            let far = endpoint(&far);
            let seen = Arc::<Mutex<Vec<String>>>::default();
            let log = seen.clone();
            let watched = Guarded::open(far.clone(), move |head| {
                log.lock().expect("no panic").push(format!("{:?}", head.headers));
            });
            let address = ClientOptions::new("http://far.example/mcp", 1).expect("an address");
            let beyond =
                within(Connector::with_client_options(address).http_client(watched).connect(&host(versions))).await;
            let beyond = Arc::new(beyond.expect("it serves"));
            let requested = beyond.clone();
            let between = Tool::new_async("echo", move |echo: Echo| {
                let pending = requested.call_tool("echo", json!({"message": echo.message}));
                async move { Ok::<_, Failure>(pending?.await?) }
            });
            let near = endpoint(&Service::builder("between", "1").tool(between).build().expect("a service"));
            let guarded = Guarded { tokens: vec![("s3cret", "alice")], ..Guarded::open(near.clone(), |_| ()) };
            let mut address = ClientOptions::new("http://near.example/mcp", 1).expect("an address");
            address.headers.insert(header::COOKIE, header::HeaderValue::from_static("s3cret"));
            let purse = Purse { tokens: Mutex::new(vec!["s3cret"]), challenges: Arc::default() };
            let connector = Connector::with_client_options(address).http_client(guarded).auth(purse);
            let client = within(connector.connect(&host(versions))).await.expect("it is let in");
            assert_eq!(call(&client, "echo", json!({"message": "hi"})).await, "hi");
            let seen = std::mem::take(&mut *seen.lock().expect("no panic"));
            assert!(seen.len() > 1, "the other server was asked");
            for headers in seen {
                let ours =
                    !headers.contains("s3cret") && !headers.contains("authorization") && !headers.contains("cookie");
                assert!(ours, "{headers}");
            }
            within(client.close()).await;
            within(beyond.close()).await;
            within(near.close()).await;
            within(far.close()).await;
        }
    });
}

/// A user who signs in when the test says so.
#[derive(Default)]
struct SignIn {
    is_signed_in: bool,
    /// How many requests have waited for the user.
    waits: usize,
}

/// A provider whose requests wait for the user: before they are sent, or after a refusal.
#[derive(Clone)]
struct Patient {
    user: Arc<Watched<SignIn>>,
    waits_first: bool,
}

impl Patient {
    async fn wait(&self) {
        self.user.update(|user| user.waits += 1);
        self.user.wait_for(|user| user.is_signed_in.then_some(())).await;
    }
}

impl AuthProvider for Patient {
    fn authorize<'a>(
        &'a self,
        request: &'a mut Request<Arc<[u8]>>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>> {
        Box::pin(async {
            let has_token = self.user.read(|user| user.is_signed_in);
            if !has_token && self.waits_first {
                self.wait().await;
            }
            let token = if has_token || self.waits_first { "good" } else { "expired" };
            request.headers_mut().insert(header::AUTHORIZATION, header::HeaderValue::from_static(token));
            Ok(())
        })
    }

    fn challenged<'a>(&'a self, _: &'a mut Refusal) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async {
            self.wait().await;
            true
        })
    }
}

/// A server that does not respond.
struct Silent;

impl HttpClient for Silent {
    fn make(&self, _: Request<Arc<[u8]>>, response: ResponseHandler) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(response);
        })
    }
}

/// The time of a sign-in counts neither against the handshake nor against a call.
#[test]
fn a_sign_in_outlasts_the_timeouts_of_requests() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        let host = |versions| {
            let request = RequestOptions::within(TIMEOUT);
            let settings = Settings { handshake_timeout: TIMEOUT, request, ..Settings::default() };
            Host::builder("test", "1").settings(settings).versions(versions).build()
        };
        let connector =
            || Connector::with_client_options(ClientOptions::new("http://server.example/mcp", 1).expect("an address"));
        // The clients sign in later than the timeouts allow: another client, which started afterwards, has timed out.
        let late = async |user: &Watched<SignIn>, waits| {
            within(user.wait_for(|user| (user.waits >= waits).then_some(()))).await;
            let timed_out = within(connector().http_client(Silent).connect(&host(VersionSet::ALL))).await;
            assert!(matches!(timed_out, Err(Error::Handshake(_))), "{timed_out:?}");
            user.update(|user| user.is_signed_in = true);
        };
        let user = Arc::<Watched<SignIn>>::default();
        let kinds = [(true, VersionSet::ALL), (true, VersionSet::LEGACY), (false, VersionSet::ALL)];
        let mut clients = Vec::new();
        for (waits_first, versions) in kinds.into_iter().chain([(false, VersionSet::LEGACY)]) {
            let guarded = Guarded { tokens: vec![("good", "alice")], ..Guarded::open(endpoint.clone(), |_| ()) };
            let credentials = Patient { user: user.clone(), waits_first };
            let (connector, host) = (connector().http_client(guarded).auth(credentials), host(versions));
            clients.push(spawn(async move { connector.connect(&host).await }));
        }
        late(&user, clients.len()).await;
        let mut connected = Vec::new();
        for client in clients {
            connected.push(within(client).await.expect("the user has signed in"));
        }
        // The tokens expire, and each client makes a call.
        user.update(|user| *user = SignIn::default());
        let calls: Vec<_> = connected.iter().map(|client| client.call_tool("who", json!({})).expect("room")).collect();
        late(&user, calls.len()).await;
        for call in calls {
            let result = within(call).await.expect("the user has signed in");
            assert_eq!(result.content[0].as_text(), Some("alice"));
        }
        for client in connected {
            within(client.close()).await;
        }
        within(endpoint.close()).await;
    });
}
