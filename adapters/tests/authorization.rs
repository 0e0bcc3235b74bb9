//! Clients with OAuth and with a token, their server and its authorization server, over sockets on any runtime. The
//! including test has the adapter as `crate::adapter`, and its runtime as `crate::{run, spawn}`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use mcp_proto::{
    connection::ClientRole,
    schema::{CacheScope, ResourceContents},
};
use mcp_service::{Context, Host, Peer, Resource, Service, Tool};
use serde_json::{Value, json};

use crate::{
    adapter::http::{
        Connector, FetchClient, IntrospectionVerifier, Listener, OAuth, ResourceMetadata, ResourceServer, Scopes,
        auth::{Loopback, MemoryTokenStore, Registration, Secret, Settings, TokenStore, Url},
    },
    run, spawn,
};

#[path = "authorization_keys.rs"]
mod authorization_keys;
#[path = "recorder.rs"]
mod recorder;

use recorder::Recorder;

/// Part of every secret that the test makes up, and of nothing else.
const CANARY: &str = "canary";

/// An authorization server on the loopback interface.
#[derive(Clone)]
struct Issuer {
    url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The URL of the protected server.
    resource: String,
    /// The active access tokens, with their scopes and subjects.
    active: BTreeMap<String, (String, &'static str)>,
    /// The user who consents, if it is not Ada.
    user: Option<&'static str>,
    /// The thumbprint of the key to which tokens are bound.
    thumbprint: Option<String>,
    /// The scopes to which the user has consented last.
    scope: String,
    codes: usize,
    tokens: usize,
    /// Token requests are refused with a description that quotes them.
    refuses: bool,
    /// The response to requests of this path is [`FLOOD`] bytes long.
    floods: Option<&'static str>,
    /// How many such responses were begun, and how much of each was written before the client closed the connection.
    floods_begun: usize,
    /// How many requests to the path `/mcp` were refused for their scopes, or redirected.
    refused: usize,
    flooded: Vec<usize>,
    /// What clients have sent and that is secret: verifiers, and the values of `Authorization`.
    sent: Vec<String>,
    requests: BTreeMap<String, usize>,
}

/// The bytes of a response that is too long. The buffers of a connection on loopback hold some of it.
const FLOOD: usize = 64 << 20;

impl Issuer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let url = format!("http://{}", listener.local_addr().expect("it has one"));
        let issuer = Self { url, state: Arc::default() };
        let served = issuer.clone();
        thread::spawn(move || listener.incoming().flatten().for_each(|stream| served.serve(stream)));
        issuer
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
        let mut line = String::new();
        if reader.read_line(&mut line).is_err() {
            return;
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut length = 0;
        loop {
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match &*name.to_ascii_lowercase() {
                "content-length" => length = value.parse().expect("a length"),
                "authorization" | "dpop" => self.update(|state| state.sent.push(value.replace("Basic ", ""))),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("it is whole");
        if path.starts_with("/mcp") {
            let number = self.update(|state| {
                state.refused += 1;
                state.refused
            });
            let (status, header) = match number % 4 {
                0 => (307, format!("location: /mcp/{number}")),
                _ => (403, format!("www-authenticate: Bearer error=\"insufficient_scope\", scope=\"s{number}\"")),
            };
            let _ = write!(stream, "HTTP/1.1 {status} x\r\n{header}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            return;
        }
        if self.update(|state| state.floods) == Some(&*path) {
            self.update(|state| state.floods_begun += 1);
            // For a client that neither reads nor closes the connection.
            stream.set_write_timeout(Some(Duration::from_secs(30))).expect("a timeout");
            let length = FLOOD + 1;
            let _ = write!(
                stream,
                "HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{{"
            );
            let chunk = [b' '; 64 << 10];
            let written = (0..FLOOD / chunk.len()).take_while(|_| stream.write_all(&chunk).is_ok()).count();
            return self.update(|state| state.flooded.push(written * chunk.len()));
        }
        let (status, body) = self.respond(&path, &String::from_utf8(body).expect("text"));
        let (body, head) = (body.to_string(), "content-type: application/json\r\nconnection: close");
        let _ = write!(stream, "HTTP/1.1 {status} x\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    }

    fn respond(&self, path: &str, body: &str) -> (u16, Value) {
        let fields: BTreeMap<_, _> = body.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let url = |path: &str| format!("{}{path}", self.url);
        self.update(|state| {
            *state.requests.entry(path.to_owned()).or_default() += 1;
            let secrets = ["code_verifier", "client_assertion"].into_iter().filter_map(|name| fields.get(name));
            state.sent.extend(secrets.map(|secret| (*secret).to_owned()));
            match path {
                "/.well-known/oauth-authorization-server" => (
                    200,
                    json!({"issuer": self.url, "authorization_endpoint": url("/authorize"),
                        "token_endpoint": url("/token"), "registration_endpoint": url("/register"),
                        "revocation_endpoint": url("/revoke"), "response_types_supported": ["code"],
                        "code_challenge_methods_supported": ["S256"],
                        "token_endpoint_auth_methods_supported": ["client_secret_basic", "private_key_jwt"],
                        "dpop_signing_alg_values_supported": ["ES256"]}),
                ),
                "/register" => (201, json!({"client_id": "id", "client_secret": "canary-secret"})),
                "/token" if state.refuses => {
                    (400, json!({"error": "invalid_grant", "error_description": format!("not good: {body}")}))
                }
                "/token" => {
                    state.tokens += 1;
                    let access = format!("canary-access-{}", state.tokens);
                    state.active.insert(access.clone(), (state.scope.clone(), state.user.unwrap_or("ada")));
                    let refresh = format!("canary-refresh-{}", state.tokens);
                    let kind = if state.thumbprint.is_some() { "DPoP" } else { "Bearer" };
                    (200, json!({"access_token": access, "token_type": kind, "refresh_token": refresh}))
                }
                "/introspect" => match fields.get("token").and_then(|token| state.active.get(*token)) {
                    Some((scope, subject)) => {
                        let mut body = json!({"active": true, "sub": subject, "scope": scope, "aud": state.resource});
                        if let Some(thumbprint) = &state.thumbprint {
                            body["cnf"] = json!({"jkt": thumbprint});
                        }
                        (200, body)
                    }
                    None => (200, json!({"active": false})),
                },
                "/revoke" => (200, Value::Null),
                _ => (404, Value::Null),
            }
        })
    }

    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("no panic"))
    }

    fn count(&self, path: &str) -> usize {
        self.update(|state| state.requests.get(path).copied().unwrap_or_default())
    }

    /// The user, who consents: the browser follows the redirect.
    fn consent(&self, url: &Url) {
        let query = url.query().expect("a query");
        let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let code = self.update(|state| {
            state.scope = field("scope").unwrap_or_default().replace('+', " ");
            state.codes += 1;
            format!("canary-code-{}", state.codes)
        });
        let redirect = field("redirect_uri").expect("a URI").replace("%3A", ":").replace("%2F", "/");
        let (host, path) = redirect.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a URI");
        let request = format!("/{path}?code={code}&state={}", field("state").expect("a state"));
        let mut stream = TcpStream::connect(host).expect("it listens");
        thread::spawn(move || {
            let _ = write!(stream, "GET {request} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        });
    }
}

fn service() -> Service {
    const HOUR: Duration = Duration::from_secs(3600);
    let who = |context: Context| context.info().principal.as_ref().map_or_else(String::new, |who| who.id.clone());
    let reads = AtomicUsize::new(0);
    let me = move |context: Context| format!("{} {}", who(context), reads.fetch_add(1, Ordering::SeqCst) + 1);
    Service::builder("protected", "1")
        .tool(Tool::new("who", who))
        .tool(Tool::new("write", || "written").scope("write"))
        .resource(Resource::new("me://", "me", me).cache_for(HOUR, CacheScope::Private))
        .cache_lists_for(HOUR, CacheScope::Private)
        .hide_without_scopes()
        .build()
        .expect("all names differ")
}

/// Listens with a server whose tokens `issuer` knows, and returns its URL.
async fn protected(issuer: &Issuer) -> (Listener, String) {
    protected_by(issuer, |server| server).await
}

async fn protected_by(issuer: &Issuer, change: impl FnOnce(ResourceServer) -> ResourceServer) -> (Listener, String) {
    let listener = Listener::bind("127.0.0.1:0").await.expect("there is a port");
    let url = format!("http://{}/mcp", listener.local_addr());
    issuer.update(|state| state.resource.clone_from(&url));
    let scopes = |text: &str| Scopes::parse(text).expect("scopes");
    let metadata = ResourceMetadata::new(url.parse().expect("a URL"), issuer.url.parse().expect("a URL"))
        .required_scopes(scopes("mcp"))
        .supported_scopes(scopes("write"));
    let verifier = IntrospectionVerifier::new(
        &format!("{}/introspect", issuer.url),
        (&issuer.url, &url),
        ("server", &Secret::new("canary-introspection")),
        FetchClient::new(),
    );
    let verifier = verifier.expect("it is on the loopback interface").cache_ttl(Duration::ZERO);
    (listener.protect(change(ResourceServer::of(metadata, verifier))), url)
}

fn host() -> Host {
    Host::builder("test", "1").build()
}

/// Returns the credentials of a client that registers itself, and whose user consents.
fn oauth(issuer: &Issuer, url: &str) -> OAuth {
    oauth_with(issuer, url, MemoryTokenStore::default())
}

fn oauth_with(issuer: &Issuer, url: &str, store: impl TokenStore) -> OAuth {
    let mut settings = Settings::default();
    settings.identities.registration = Some(Registration::new("test", []));
    let user = issuer.clone();
    let browser = Loopback::new().expect("a port").open_with(move |url| {
        user.consent(url);
        Ok(())
    });
    let builder = OAuth::builder(url).expect("a URL").settings(settings).user_agent(browser).store(store);
    builder.build().expect("random bytes")
}

/// Calls a tool, and returns its text or all that is shown of the error.
async fn call(client: &Peer<ClientRole>, tool: &str) -> Result<String, String> {
    match client.call_tool(tool, json!({})).expect("it is sent").await {
        Ok(result) => Ok(result.content[0].as_text().expect("a text").to_owned()),
        Err(error) => Err(format!("{error} {error:?}")),
    }
}

// req: AUTH-017 AUTH-018 AUTH-019 M-AUTH-029 M-AUTH-030
#[test]
fn a_token_that_the_application_has_is_sent_with_each_request() {
    Recorder::install();
    run(async {
        let issuer = Issuer::start();
        issuer.update(|state| state.active.insert("canary-bearer".into(), ("mcp".into(), "ada")));
        let (listener, url) = protected(&issuer).await;
        let stop = listener.stop_handle();
        let served = spawn(async move { listener.serve(&service()).await });
        let connector = |token: &str| Connector::new(&url).expect("a URL").bearer(token).expect("a token");
        let client = connector("canary-bearer").connect(&host()).await.expect("the token is valid");
        assert_eq!(call(&client, "who").await, Ok(format!("{} ada", issuer.url)));
        // It is verified with each request, and not renewed.
        issuer.update(|state| state.active.clear());
        let refused = call(&client, "who").await.expect_err("the token is revoked");
        assert!(refused.contains("401") && !refused.contains(CANARY), "{refused}");
        client.close().await;
        for token in ["canary-bearer", "canary-other"] {
            let refused = connector(token).connect(&host()).await.map(drop).expect_err("it is not valid");
            let refused = format!("{refused} {refused:?}");
            assert!(refused.contains("401") && !refused.contains(CANARY), "{refused}");
        }
        assert!(Connector::new(&url).expect("a URL").connect(&host()).await.is_err(), "without a token");
        assert_eq!((issuer.count("/token"), issuer.count("/register")), (0, 0));
        stop();
        served.await.expect("it is stopped");
    });
}

/// Reads the resource of the user: who it is for, and how often it was read on the server.
async fn me(client: &Peer<ClientRole>) -> Result<String, String> {
    match client.read_resource("me://").expect("it is sent").await {
        Ok(result) => match &result.contents[0] {
            ResourceContents::Text(contents) => Ok(contents.text.clone()),
            contents => panic!("{contents:?}"),
        },
        Err(error) => Err(format!("{error} {error:?}")),
    }
}

async fn tools(client: &Peer<ClientRole>) -> Vec<String> {
    let listed = client.list_tools(None).expect("it is sent").await.expect("tools");
    listed.tools.into_iter().map(|tool| tool.name).collect()
}

// req: M-CACHE-017
#[test]
fn private_results_of_one_user_are_not_shown_to_another() {
    run(async {
        let issuer = Issuer::start();
        let (listener, url) = protected(&issuer).await;
        let stop = listener.stop_handle();
        let served = spawn(async move { listener.serve(&service()).await });
        let store = Arc::new(MemoryTokenStore::default());
        let oauth = oauth_with(&issuer, &url, store.clone());
        let connector = Connector::new(&url).expect("a URL").auth(oauth.clone());
        let client = connector.connect(&host()).await.expect("the user consents");
        let seen = |user: &str, reads: usize| Ok(format!("{} {user} {reads}", issuer.url));
        assert_eq!((me(&client).await, me(&client).await), (seen("ada", 1), seen("ada", 1)));
        // The same grant: the cache is kept.
        issuer.update(|state| state.active.clear());
        assert_eq!(call(&client, "who").await, Ok(format!("{} ada", issuer.url)));
        assert_eq!((issuer.update(|state| state.tokens), me(&client).await), (2, seen("ada", 1)));
        // More scopes: other tools are listed.
        assert_eq!((tools(&client).await, tools(&client).await), (vec!["who".to_owned()], vec!["who".to_owned()]));
        assert_eq!(call(&client, "write").await.as_deref(), Ok("written"));
        assert_eq!((tools(&client).await, me(&client).await), (vec!["who".into(), "write".into()], seen("ada", 2)));
        // Another user on the same connection.
        oauth.sign_out().await.expect("it is in memory");
        issuer.update(|state| state.user = Some("eve"));
        // The result of a request that was made before the sign-in is not cached.
        assert_eq!((me(&client).await, tools(&client).await), (seen("eve", 3), vec!["who".to_owned()]));
        assert_eq!((me(&client).await, me(&client).await), (seen("eve", 4), seen("eve", 4)));
        // Without a user.
        oauth.sign_out().await.expect("it is in memory");
        issuer.update(|state| state.refuses = true);
        assert!(me(&client).await.is_err());
        issuer.update(|state| state.refuses = false);
        oauth.allow_authorization();
        assert_eq!(me(&client).await, seen("eve", 5));
        assert_eq!((me(&client).await, me(&client).await), (seen("eve", 6), seen("eve", 6)));
        // Another user signs in with another process, which shares the store.
        let other = oauth_with(&issuer, &url, store);
        other.sign_out().await.expect("it is in memory");
        issuer.update(|state| {
            state.active.clear();
            state.user = Some("bob");
        });
        let connector = Connector::new(&url).expect("a URL").auth(other);
        connector.connect(&host()).await.expect("the user consents").close().await;
        assert_eq!(call(&client, "who").await, Ok(format!("{} bob", issuer.url)));
        assert_eq!((me(&client).await, me(&client).await), (seen("bob", 7), seen("bob", 7)));
        client.close().await;
        stop();
        served.await.expect("it is stopped");
    });
}

/// The deadlines of a request are paused while the client authenticates, so the number of attempts is what ends it.
#[test]
fn server_that_refuses_all_tokens_gets_few_of_them() {
    run(async {
        let issuer = Issuer::start();
        let (listener, url) = protected(&issuer).await;
        // The tokens are for another server.
        issuer.update(|state| state.resource = "https://other.example/mcp".to_owned());
        let stop = listener.stop_handle();
        let served = spawn(async move { listener.serve(&service()).await });
        let oauth = oauth(&issuer, &url);
        let connector = || Connector::new(&url).expect("a URL").auth(oauth.clone());
        for _ in 0..2 {
            let refused = connector().connect(&host()).await.map(drop).expect_err("no token is accepted");
            assert!(refused.to_string().contains("401"), "{refused}");
            // The user is not asked again.
            assert_eq!(issuer.update(|state| state.codes), 1);
        }
        assert!(issuer.count("/token") <= 3, "{}", issuer.count("/token"));
        stop();
        served.await.expect("it is stopped");
    });
}

/// The number of attempts of a request includes those before a redirect.
#[test]
fn redirects_do_not_cause_more_authorizations() {
    run(async {
        let issuer = Issuer::start();
        let url = format!("{}/mcp", issuer.url);
        let oauth = oauth(&issuer, &url);
        let connector = Connector::new(&url).expect("a URL").auth(oauth.clone());
        let refused = connector.connect(&host()).await.map(drop).expect_err("no scopes are enough");
        assert!(refused.to_string().contains("403"), "{refused}");
        let (codes, requests) = issuer.update(|state| (state.codes, state.refused));
        assert!(codes == 3 && requests > 4, "{codes} authorizations, {requests} requests");
    });
}

/// Documents are read up to a limit, and the connection is closed there.
#[test]
fn long_documents_are_not_read_to_their_end() {
    run(async {
        for path in ["/.well-known/oauth-authorization-server", "/register", "/token"] {
            let issuer = Issuer::start();
            let (listener, url) = protected(&issuer).await;
            issuer.update(|state| state.floods = Some(path));
            let stop = listener.stop_handle();
            let served = spawn(async move { listener.serve(&service()).await });
            let oauth = oauth(&issuer, &url);
            let connector = Connector::new(&url).expect("a URL").auth(oauth.clone());
            drop(connector.connect(&host()).await.map(drop).expect_err("there is no token"));
            let error = oauth.error().expect("a document was refused").to_string();
            assert!(error.contains("the document is too long"), "{path}: {error}");
            stop();
            served.await.expect("it is stopped");
            // The issuer notices the end of the connection when it writes.
            let flooded = loop {
                match issuer.update(|state| (state.floods_begun, state.flooded.clone())) {
                    (begun, flooded) if begun == flooded.len() => break flooded,
                    _ => thread::yield_now(),
                }
            };
            assert!(!flooded.is_empty() && flooded.iter().all(|written| *written < FLOOD / 2), "{path}: {flooded:?}");
        }
    });
}

// req: AUTH-069
#[test]
fn no_secret_of_a_whole_authorization_is_logged_or_shown() {
    Recorder::install();
    run(async {
        let issuer = Issuer::start();
        let (listener, url) = protected(&issuer).await;
        let stop = listener.stop_handle();
        let served = spawn(async move { listener.serve(&service()).await });
        let oauth = oauth(&issuer, &url);
        let connector = Connector::new(&url).expect("a URL").auth(oauth.clone());
        let client = connector.connect(&host()).await.expect("the user consents");
        let mut shown = String::new();
        // The user consents to the scopes of the server, then to those of a tool.
        assert_eq!(call(&client, "who").await, Ok(format!("{} ada", issuer.url)));
        assert_eq!(call(&client, "write").await.as_deref(), Ok("written"));
        let _ = write!(shown, "{oauth:?}");
        // The token is refreshed.
        issuer.update(|state| state.active.clear());
        assert_eq!(call(&client, "who").await, Ok(format!("{} ada", issuer.url)));
        assert_eq!(issuer.update(|state| (state.codes, state.tokens)), (2, 3));
        // A server that quotes what it was sent.
        issuer.update(|state| {
            state.active.clear();
            state.refuses = true;
        });
        shown += &call(&client, "who").await.expect_err("there is no token");
        let error = oauth.error().expect("the token request has failed");
        let _ = write!(shown, "{error} {error:?} {oauth:?}");
        assert!(error.to_string().contains("invalid_grant"), "{error}");
        issuer.update(|state| state.refuses = false);
        oauth.allow_authorization();
        assert_eq!(call(&client, "who").await, Ok(format!("{} ada", issuer.url)));
        client.close().await;
        oauth.sign_out().await.expect("it is in memory");
        assert_eq!(issuer.count("/revoke"), 1);
        let _ = write!(shown, "{oauth:?}");
        stop();
        served.await.expect("it is stopped");

        let sent = issuer.update(|state| state.sent.clone());
        assert!(sent.len() > 4, "verifiers, and secrets of the client and of the server");
        assert_hidden(&shown, sent.iter().map(String::as_str));
    });
}

/// Checks that no secret was logged, and that none is in this text.
fn assert_hidden<'a>(shown: &str, secrets: impl IntoIterator<Item = &'a str>) {
    let records = Recorder::records();
    assert!(records.contains("tools/call"), "the requests are logged");
    for secret in secrets.into_iter().chain([CANARY]) {
        for text in [&*records, shown] {
            let place = text.find(secret).map(|at| &text[at.saturating_sub(80)..(at + 80).min(text.len())]);
            assert_eq!(place, None, "{secret} is shown");
        }
    }
}
