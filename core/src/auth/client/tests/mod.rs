//! A client, its servers and its store.

mod contexts;
mod deadlines;
mod explore;
mod flows;
mod grants;
mod hostile;
mod identities;
mod metadata;
mod refresh;
mod revisions;
mod scopes;
mod sign_out;
mod stores;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use core::time::Duration;

use serde_json::json;

use super::*;
use crate::auth::{
    auth_method::AuthMethod,
    client_identity::{ClientIdentity, ClientOptions, NoIdentity, Registration},
    discovery::NotFound,
    document::DocumentError,
    oauth_error::OAuthError,
};

const SERVER: &str = "https://mcp.example/mcp";
const REDIRECT: &str = "http://127.0.0.1:7777/callback";
const RESOURCE: &str = "GET https://mcp.example/.well-known/oauth-protected-resource/mcp";
const METADATA: &str = "GET https://as.example/.well-known/oauth-authorization-server";
const REGISTER: &str = "POST https://as.example/register";
const TOKEN: &str = "POST https://as.example/token";
const REVOKE: &str = "POST https://as.example/revoke";

fn url(text: &str) -> Url {
    Url::parse(text).expect(text)
}

fn at(seconds: u64) -> Now {
    let instant = Timestamp::ZERO + Duration::from_secs(seconds);
    Now { instant, unix_seconds: 1_000_000 + seconds }
}

/// A store that several clients share.
#[derive(Default)]
struct Store {
    entries: BTreeMap<String, (Generation, Credentials)>,
    last: u64,
    /// It does not take anything.
    is_broken: bool,
    /// It cannot be read.
    is_unreadable: bool,
    /// It says that something else is there, whatever is expected.
    conflicts: bool,
    /// The number of writes that were tried.
    writes: usize,
}

impl Store {
    fn store(&mut self, key: &str, expected: Option<Generation>, credentials: Option<Credentials>) -> StoreReply {
        self.writes += 1;
        if self.is_broken {
            return StoreReply::Failed;
        }
        let found = self.entries.get(key).cloned();
        if self.conflicts || found.as_ref().map(|(generation, _)| *generation) != expected {
            return StoreReply::Conflict(found.map(Box::new));
        }
        StoreReply::Stored(self.put(key, credentials))
    }

    fn put(&mut self, key: &str, credentials: Option<Credentials>) -> Generation {
        self.last += 1;
        let generation = Generation(self.last);
        match credentials {
            // What a store keeps is the serialized form.
            Some(it) => {
                let json = it.to_json();
                let it = Credentials::from_json(json.expose().as_bytes()).expect("it was written so");
                drop(self.entries.insert(key.into(), (generation, it)));
            }
            None => drop(self.entries.remove(key)),
        }
        generation
    }

    fn tokens(&self) -> Option<&StoredTokens> {
        self.entries.get(SERVER)?.1.tokens.as_ref()
    }

    fn refresh(&self) -> Option<&str> {
        self.tokens()?.refresh.as_ref().map(Secret::expose)
    }
}

/// The response to a request.
#[derive(Clone, Default)]
struct Reply {
    status: u16,
    body: String,
    nonce: Option<String>,
}

/// The servers: responses by method and URL, which may be changed; and what was requested.
struct World {
    responses: BTreeMap<String, Reply>,
    /// Responses that are given once, before the others.
    once: BTreeMap<String, VecDeque<Reply>>,
    requests: Vec<Request>,
    store: Store,
    opened: Vec<Url>,
    signed: Vec<Claims>,
    /// The JWT that the application supplies.
    jwt: Option<Secret>,
    /// For which kind, audience and resource it was supplied.
    supplied: Vec<(AssertionKind, String, String)>,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            responses: BTreeMap::new(),
            once: BTreeMap::new(),
            requests: Vec::new(),
            store: Store::default(),
            opened: Vec::new(),
            signed: Vec::new(),
            jwt: None,
            supplied: Vec::new(),
        };
        world.set(
            RESOURCE,
            200,
            &json!({"resource": SERVER, "authorization_servers": ["https://as.example"], "scopes_supported": ["a"]}),
        );
        world.set_metadata("https://as.example", &json!({}));
        world.set(REGISTER, 201, &json!({"client_id": "dynamic"}));
        world.grant("one", Some("r1"));
        world
    }

    fn set(&mut self, request: &str, status: u16, body: &serde_json::Value) {
        self.responses.insert(request.into(), Reply { status, body: body.to_string(), nonce: None });
    }

    fn once(&mut self, request: &str, status: u16, body: &serde_json::Value, nonce: Option<&str>) {
        let reply = Reply { status, body: body.to_string(), nonce: nonce.map(ToString::to_string) };
        self.once.entry(request.into()).or_default().push_back(reply);
    }

    /// Sets the metadata of an authorization server, with these members in addition.
    fn set_metadata(&mut self, issuer: &str, members: &serde_json::Value) {
        let mut body = json!({
            "issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"), "registration_endpoint": format!("{issuer}/register"),
            "revocation_endpoint": format!("{issuer}/revoke"), "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        });
        for (name, value) in members.as_object().expect("an object") {
            body[name] = value.clone();
        }
        self.set(&format!("GET {issuer}/.well-known/oauth-authorization-server"), 200, &body);
    }

    /// Moves the resource to another authorization server, at which the client `b` can get the token `two`.
    fn migrate(&mut self) {
        let servers = json!({"resource": SERVER, "authorization_servers": ["https://b.example"]});
        self.set(RESOURCE, 200, &servers);
        self.set_metadata("https://b.example", &json!({}));
        self.set("POST https://b.example/register", 201, &json!({"client_id": "b"}));
        self.set("POST https://b.example/token", 200, &json!({"access_token": "two", "token_type": "Bearer"}));
    }

    fn grant(&mut self, access: &str, refresh: Option<&str>) {
        let mut body = json!({"access_token": access, "token_type": "Bearer", "expires_in": 3600});
        if let Some(refresh) = refresh {
            body["refresh_token"] = refresh.into();
        }
        self.set(TOKEN, 200, &body);
    }

    fn refuse(&mut self, code: &str) {
        self.set(TOKEN, 400, &json!({"error": code}));
    }

    /// Returns how often something was requested.
    fn count(&self, name: &str) -> usize {
        self.requests.iter().filter(|it| format!("{} {}", it.method, it.url.as_str()) == name).count()
    }

    fn bodies(&self, name: &str) -> Vec<String> {
        let is_it = |it: &&Request| format!("{} {}", it.method, it.url.as_str()) == name;
        self.requests.iter().filter(is_it).map(|request| request.body.expose().to_string()).collect()
    }

    /// Returns the values of a header in the requests of this name.
    fn headers(&self, name: &str, header: &str) -> Vec<Option<String>> {
        let is_it = |it: &&Request| format!("{} {}", it.method, it.url.as_str()) == name;
        let value = |it: &Request| it.headers.iter().find(|(known, _)| *known == header).map(|it| it.1.expose().into());
        self.requests.iter().filter(is_it).map(value).collect()
    }

    /// Performs actions until there are none, of which there are not many.
    fn run(&mut self, client: &mut AuthClient, now: Now) {
        for _ in 0..64 {
            let Some(action) = client.poll_action() else { return };
            self.perform(client, now, action);
        }
        panic!("it does not end: {client:?}");
    }

    /// Performs actions until the next one is of this kind, and returns it.
    fn run_to(&mut self, client: &mut AuthClient, now: Now, is_it: impl Fn(&Action) -> bool) -> Action {
        for _ in 0..64 {
            let action = client.poll_action().expect("it has more to do");
            if is_it(&action) {
                return action;
            }
            self.perform(client, now, action);
        }
        panic!("it does not end: {client:?}");
    }

    fn reply(&mut self, name: &str) -> Reply {
        let once = self.once.get_mut(name).and_then(VecDeque::pop_front);
        once.or_else(|| self.responses.get(name).cloned()).unwrap_or(Reply { status: 404, ..Reply::default() })
    }

    fn perform(&mut self, client: &mut AuthClient, now: Now, action: Action) {
        match action {
            Action::Request(request) => {
                let (id, name) = (request.id, format!("{} {}", request.method, request.url.as_str()));
                self.requests.push(request);
                let Reply { status, body, nonce } = self.reply(&name);
                let location = (300..400).contains(&status).then_some(&*body);
                let dpop_nonce = nonce.as_deref();
                let response = (status > 0).then_some(Response { status, location, dpop_nonce, body: body.as_bytes() });
                client.handle_response(now, id, response);
            }
            Action::OpenBrowser(url) => self.opened.push(url),
            Action::Load { id, key } => {
                let found = self.store.entries.get(key.expose()).cloned();
                client.handle_loaded(id, if self.store.is_unreadable { Err(()) } else { Ok(found) });
            }
            Action::Store { id, key, expected, credentials } => {
                client.handle_stored(id, self.store.store(key.expose(), expected, credentials.map(|it| *it)));
            }
            Action::Sign { id, claims } => {
                self.signed.push(claims);
                client.handle_signed(id, Some(&Secret::new(format!("jwt-{}", self.signed.len()))));
            }
            Action::Assertion { id, kind, audience, resource } => {
                self.supplied.push((kind, audience, resource.as_str().into()));
                client.handle_assertion(id, self.jwt.as_ref());
            }
        }
    }

    /// Lets the user consent.
    fn consent(&mut self, client: &mut AuthClient, now: Now) {
        let query = self.redirect("code=c");
        client.handle_redirect(now, &query).expect("a good redirect");
        self.run(client, now);
    }

    /// Returns the query of a redirect with the `state` of the URL that was opened last.
    fn redirect(&self, rest: &str) -> String {
        let state = self.asked("state").expect("a state");
        format!("state={state}&{rest}")
    }

    /// Returns a parameter of the URL that was opened last, as it is written there.
    fn asked(&self, name: &str) -> Option<String> {
        let query = self.opened.last().and_then(Url::query).expect("a URL was opened");
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(known, _)| *known == name).map(|(_, value)| value.to_string()).next()
    }
}

fn settings() -> Settings {
    let identities =
        ClientOptions { registration: Some(Registration::new("Test", [url(REDIRECT)])), ..ClientOptions::default() };
    let grant_type = GrantType::AuthorizationCode { redirect_uri: url(REDIRECT) };
    Settings { identities, grant_type, ..Settings::default() }
}

fn identity(client_id: &str, method: AuthMethod) -> ClientIdentity {
    ClientIdentity {
        issuer: "https://as.example".into(),
        client_id: client_id.into(),
        secret: Some(Secret::new("s3cr3t")),
        secret_expires_at: None,
        redirect_uris: Vec::new(),
        auth_method: Some(method),
    }
}

/// Settings of a client that its operator has registered.
fn registered(method: AuthMethod) -> Settings {
    let identities = ClientOptions { pre_registered: vec![identity("app", method)], ..ClientOptions::default() };
    Settings { identities, ..settings() }
}

fn client(world: &mut World, settings: Settings) -> AuthClient {
    let mut client = AuthClient::new(url(SERVER), settings, [7; 32]);
    world.run(&mut client, at(0));
    assert!(!client.is_busy());
    client
}

fn token(client: &AuthClient) -> Option<&str> {
    client.token().map(|token| token.token.expose())
}

/// A request that the server refuses.
#[derive(Clone)]
struct Call {
    status: u16,
    challenges: Vec<Challenge>,
    used: Option<TokenId>,
    attempts: Attempts,
}

impl Call {
    /// A request with the current token.
    fn new(client: &AuthClient) -> Self {
        Self::refused(client, 401, "Bearer")
    }

    fn refused(client: &AuthClient, status: u16, challenge: &str) -> Self {
        let challenges = Challenge::parse_all([challenge.as_bytes()]);
        Self { status, challenges, used: client.token().map(|token| token.id), attempts: Attempts::default() }
    }

    /// Asks what becomes of it.
    fn ask(&mut self, client: &mut AuthClient, now: Now) -> Verdict {
        client.handle_challenge(now, self.status, &self.challenges, self.used, &mut self.attempts)
    }

    /// It was sent again, with the current token, and refused again.
    fn again(&mut self, client: &mut AuthClient, now: Now) -> Verdict {
        self.used = client.token().map(|token| token.id);
        self.ask(client, now)
    }

    /// Asks, and performs what there is to do until the user is asked or a verdict is found.
    fn wait(&mut self, world: &mut World, client: &mut AuthClient, now: Now) -> Verdict {
        assert_eq!(self.ask(client, now), Verdict::Wait);
        world.run(client, now);
        self.ask(client, now)
    }
}

/// A client with the token `one`, which the server has taken, and the refresh token `r1`.
fn authorized(world: &mut World) -> AuthClient {
    authorized_with(world, settings())
}

fn authorized_with(world: &mut World, settings: Settings) -> AuthClient {
    let mut client = client(world, settings);
    assert_eq!(Call::new(&client).wait(world, &mut client, at(0)), Verdict::Wait);
    world.consent(&mut client, at(1));
    assert_eq!(token(&client), Some("one"));
    accept(&mut client);
    client
}

/// The server takes the current token.
fn accept(client: &mut AuthClient) {
    client.handle_accepted(client.token().expect("a token").id);
}

fn rejected(code: &str) -> AuthError {
    AuthError::Rejected(OAuthError { code: code.into(), description: None })
}

fn insufficient(scope: &str) -> String {
    format!(r#"Bearer error="insufficient_scope", scope="{scope}""#)
}

fn is_store(action: &Action) -> bool {
    matches!(action, Action::Store { .. })
}
