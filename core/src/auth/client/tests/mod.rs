mod metadata;
mod refresh;

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use serde_json::json;

use super::*;
use crate::auth::{
    auth_method::AuthMethod,
    authorization::RedirectError,
    client_identity::{ClientIdentity, Registration},
    discovery::NotFound,
    document::DocumentError,
    oauth_error::OAuthError,
};

const SERVER: &str = "https://mcp.example/mcp";
const REDIRECT: &str = "http://127.0.0.1:7777/callback";

fn url(text: &str) -> Url {
    Url::parse(text).expect(text)
}

fn at(seconds: u64) -> Now {
    let instant = Timestamp::ZERO + core::time::Duration::from_secs(seconds);
    Now { instant, unix_seconds: 1_000_000 + seconds }
}

/// A store that several clients share.
#[derive(Default)]
struct Store {
    entries: BTreeMap<String, (Generation, Credentials)>,
    last: u64,
    is_broken: bool,
}

impl Store {
    fn store(&mut self, key: &str, expected: Option<Generation>, credentials: Option<Credentials>) -> StoreReply {
        if self.is_broken {
            return StoreReply::Failed;
        }
        let found = self.entries.get(key).cloned();
        if found.as_ref().map(|(generation, _)| *generation) != expected {
            return StoreReply::Conflict(found.map(Box::new));
        }
        self.last += 1;
        let generation = Generation(self.last);
        match credentials {
            Some(credentials) => drop(self.entries.insert(key.into(), (generation, credentials))),
            None => drop(self.entries.remove(key)),
        }
        StoreReply::Stored(generation)
    }
}

/// The servers: responses by method and URL, which may be changed; and what was requested.
struct World {
    responses: BTreeMap<String, (u16, String)>,
    requests: Vec<Request>,
    store: Store,
    opened: Vec<Url>,
    signed: usize,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            responses: BTreeMap::new(),
            requests: Vec::new(),
            store: Store::default(),
            opened: Vec::new(),
            signed: 0,
        };
        world.set(
            "GET https://mcp.example/.well-known/oauth-protected-resource/mcp",
            200,
            &json!({"resource": SERVER, "authorization_servers": ["https://as.example"], "scopes_supported": ["a"]}),
        );
        world.set(
            "GET https://as.example/.well-known/oauth-authorization-server",
            200,
            &json!({
                "issuer": "https://as.example", "authorization_endpoint": "https://as.example/authorize",
                "token_endpoint": "https://as.example/token", "registration_endpoint": "https://as.example/register",
                "revocation_endpoint": "https://as.example/revoke", "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            }),
        );
        world.set("POST https://as.example/register", 201, &json!({"client_id": "dynamic"}));
        world.grant("one", Some("r1"));
        world
    }

    fn set(&mut self, request: &str, status: u16, body: &serde_json::Value) {
        self.responses.insert(request.into(), (status, body.to_string()));
    }

    fn grant(&mut self, access: &str, refresh: Option<&str>) {
        let mut body = json!({"access_token": access, "token_type": "Bearer", "expires_in": 3600});
        if let Some(refresh) = refresh {
            body["refresh_token"] = refresh.into();
        }
        self.set("POST https://as.example/token", 200, &body);
    }

    fn count(&self, url: &str) -> usize {
        self.requests.iter().filter(|request| request.url.as_str() == url).count()
    }

    fn bodies(&self, url: &str) -> Vec<String> {
        let requests = self.requests.iter().filter(|request| request.url.as_str() == url);
        requests.map(|request| request.body.expose().to_string()).collect()
    }

    /// Performs actions until there are none.
    fn run(&mut self, client: &mut AuthClient, now: Now) {
        while let Some(action) = client.poll_action() {
            self.perform(client, now, action);
        }
    }

    fn perform(&mut self, client: &mut AuthClient, now: Now, action: Action) {
        match action {
            Action::Request(request) => {
                let (id, name) = (request.id, format!("{} {}", request.method, request.url.as_str()));
                self.requests.push(request);
                let (status, body) = self.responses.get(&name).cloned().unwrap_or((404, String::new()));
                let location = (300..400).contains(&status).then_some(&*body);
                let response = (status > 0).then_some(Response { status, location, body: body.as_bytes() });
                client.handle_response(now, id, response);
            }
            Action::OpenBrowser(url) => self.opened.push(url),
            Action::Load { key } => client.handle_loaded(Ok(self.store.entries.get(&key).cloned())),
            Action::Store { key, expected, credentials } => {
                client.handle_stored(self.store.store(&key, expected, credentials.map(|it| *it)));
            }
            Action::Sign(claims) => {
                self.signed += 1;
                client.handle_signed(Some(&Secret::new(format!("signed-{}-{}", claims.client_id, claims.audience))));
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
        let query = self.opened.last().and_then(Url::query).expect("a URL was opened");
        let state = query.split('&').find(|part| part.starts_with("state=")).expect("a state");
        format!("{state}&{rest}")
    }
}

fn settings() -> Settings {
    let identities =
        ClientOptions { registration: Some(Registration::new("Test", [url(REDIRECT)])), ..ClientOptions::default() };
    Settings { identities, redirect_uri: Some(url(REDIRECT)), ..Settings::default() }
}

fn client(world: &mut World, settings: Settings) -> AuthClient {
    let mut client = AuthClient::new(url(SERVER), settings, [7; 32]);
    world.run(&mut client, at(0));
    assert!(!client.is_busy());
    client
}

fn unauthorized(client: &mut AuthClient, now: Now, attempts: &mut Attempts) -> Verdict {
    let used = client.token().map(|token| token.generation);
    client.handle_challenge(now, 401, &[], used, attempts)
}

fn token(client: &AuthClient) -> Option<&str> {
    client.token().map(|token| token.token.expose())
}

/// A client with the token `one` and the refresh token `r1`.
fn authorized(world: &mut World) -> AuthClient {
    let mut client = client(world, settings());
    assert_eq!(unauthorized(&mut client, at(0), &mut Attempts::default()), Verdict::Wait);
    world.run(&mut client, at(0));
    world.consent(&mut client, at(1));
    assert_eq!(token(&client), Some("one"));
    client
}

// req: AUTH-011 AUTH-027 M-AUTH-008 M-AUTH-026
#[test]
fn a_challenge_leads_to_a_token() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(token(&client), None);
    let mut attempts = Attempts::default();
    assert_eq!(unauthorized(&mut client, at(0), &mut attempts), Verdict::Wait);
    world.run(&mut client, at(0));
    assert_eq!(client.verdict(None), Verdict::Wait);
    assert_eq!(world.opened.len(), 1);
    world.consent(&mut client, at(1));
    assert_eq!(client.verdict(None), Verdict::Retry);
    assert_eq!(token(&client), Some("one"));
    let requests: Vec<_> = world.requests.iter().map(|it| format!("{} {}", it.method, it.url.as_str())).collect();
    assert_eq!(
        requests,
        [
            "GET https://mcp.example/.well-known/oauth-protected-resource/mcp",
            "GET https://as.example/.well-known/oauth-authorization-server",
            "POST https://as.example/register",
            "POST https://as.example/token",
        ]
    );
    let body = world.bodies("https://as.example/token").concat();
    assert!(body.contains("resource=https%3A%2F%2Fmcp.example%2Fmcp") && body.contains("client_id=dynamic"), "{body}");
    assert!(world.opened[0].as_str().contains("resource=https%3A%2F%2Fmcp.example%2Fmcp&scope=a"));
    // Each authorization has secrets of its own.
    let (one, two) = (client.draw_authorization(), client.draw_authorization());
    assert_eq!(
        vec![one.state, one.verifier, two.state, two.verifier]
            .into_iter()
            .collect::<alloc::collections::BTreeSet<_>>()
            .len(),
        4
    );
}

#[test]
fn what_is_stored_is_used() {
    let mut world = World::new();
    authorized(&mut world);
    let other = client(&mut world, settings());
    assert_eq!(token(&other), Some("one"));
    assert_eq!(world.count("https://as.example/token"), 1);
}

#[test]
fn a_server_that_refuses_every_token_is_tried_twice() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    let mut attempts = Attempts::default();
    assert_eq!(unauthorized(&mut client, at(0), &mut attempts), Verdict::Wait);
    world.run(&mut client, at(0));
    world.consent(&mut client, at(1));
    world.grant("two", Some("r2"));
    assert_eq!(unauthorized(&mut client, at(2), &mut attempts), Verdict::Wait);
    world.run(&mut client, at(2));
    assert_eq!(token(&client), Some("two"));
    assert_eq!(unauthorized(&mut client, at(3), &mut attempts), Verdict::Fail(AuthError::Refused));
    assert_eq!((world.opened.len(), world.count("https://as.example/token")), (1, 2));
}

#[test]
fn a_user_who_cancels_is_not_asked_again() {
    let denied =
        AuthError::Redirect(RedirectError::Denied(OAuthError { code: "access_denied".into(), description: None }));
    for is_redirect in [false, true] {
        let mut world = World::new();
        let mut client = client(&mut world, settings());
        assert_eq!(unauthorized(&mut client, at(0), &mut Attempts::default()), Verdict::Wait);
        world.run(&mut client, at(0));
        let expected = if is_redirect {
            let query = world.redirect("error=access_denied");
            client.handle_redirect(at(1), &query).expect_err("it is denied");
            denied.clone()
        } else {
            client.handle_cancelled();
            AuthError::Cancelled
        };
        assert_eq!(client.verdict(None), Verdict::Fail(expected.clone()));
        let again = client.handle_challenge(at(2), 401, &[], None, &mut Attempts::default());
        assert_eq!(again, Verdict::Fail(expected));
        assert_eq!((client.poll_action(), world.opened.len()), (None, 1));
    }
}

// req: M-AUTH-022 M-AUTH-023
#[test]
fn a_forged_redirect_changes_nothing() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(unauthorized(&mut client, at(0), &mut Attempts::default()), Verdict::Wait);
    world.run(&mut client, at(0));
    for query in ["code=c&state=x".to_string(), world.redirect("code=c&iss=https%3A%2F%2Fevil.example")] {
        client.handle_redirect(at(1), &query).expect_err("it is forged");
        assert_eq!((client.poll_action(), client.is_busy()), (None, true));
    }
    assert_eq!(world.count("https://as.example/token"), 0);
    world.consent(&mut client, at(1));
    assert_eq!(token(&client), Some("one"));
    client.handle_redirect(at(2), &world.redirect("code=c")).expect_err("it was used");
}

#[test]
fn an_authorization_without_a_redirect_expires() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    assert_eq!(unauthorized(&mut client, at(5), &mut Attempts::default()), Verdict::Wait);
    world.run(&mut client, at(5));
    assert_eq!(client.poll_timeout(), Some(at(605).instant));
    client.handle_timeout(at(604));
    assert!(client.is_busy());
    client.handle_timeout(at(605));
    assert_eq!(client.verdict(None), Verdict::Fail(AuthError::Expired));
}

fn insufficient(scope: &str) -> Vec<Challenge> {
    let value = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
    Challenge::parse_all([value.as_bytes()])
}

#[test]
fn more_scopes_are_added_to_those_that_were_granted_and_not_without_end() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    for (count, scope) in ["b", "c", "d"].into_iter().enumerate() {
        let used = client.token().map(|token| token.generation);
        let mut attempts = Attempts::default();
        let verdict = client.handle_challenge(at(2), 403, &insufficient(scope), used, &mut attempts);
        assert_eq!(verdict, Verdict::Wait);
        world.run(&mut client, at(2));
        let expected = ["scope=a+b", "scope=a+b+c", "scope=a+b+c+d"][count];
        assert!(world.opened.last().expect("a URL").as_str().ends_with(expected), "{:?}", world.opened.last());
        world.consent(&mut client, at(3));
    }
    let used = client.token().map(|token| token.generation);
    for challenges in [insufficient("e"), insufficient("a b"), Vec::new()] {
        let verdict = client.handle_challenge(at(4), 403, &challenges, used, &mut Attempts::default());
        assert!(matches!(verdict, Verdict::Fail(AuthError::Scopes | AuthError::Refused)), "{verdict:?}");
    }
    assert_eq!(world.opened.len(), 4);
}

#[test]
fn scopes_of_a_challenge_come_first() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    let challenges = Challenge::parse_all([&br#"Basic realm="x", Bearer scope="x y""#[..]]);
    let verdict = client.handle_challenge(at(0), 401, &challenges, None, &mut Attempts::default());
    assert_eq!(verdict, Verdict::Wait);
    world.run(&mut client, at(0));
    assert!(world.opened[0].as_str().ends_with("&scope=x+y"));
}

#[test]
fn a_client_without_a_user_uses_its_own_credentials() {
    for (method, is_signed) in [(AuthMethod::ClientSecretBasic, false), (AuthMethod::PrivateKeyJwt, true)] {
        let identity = ClientIdentity {
            issuer: "https://as.example".into(),
            client_id: "service".into(),
            secret: Some(Secret::new("s")),
            secret_expires_at: None,
            auth_method: Some(method),
        };
        let identities = ClientOptions { pre_registered: vec![identity], ..ClientOptions::default() };
        let mut world = World::new();
        world.grant("one", None);
        let mut client = client(&mut world, Settings { identities, ..Settings::default() });
        unauthorized(&mut client, at(0), &mut Attempts::default());
        world.run(&mut client, at(0));
        assert_eq!(token(&client), Some("one"));
        assert_eq!((world.opened.len(), world.signed), (0, usize::from(is_signed)));
        let body = world.bodies("https://as.example/token").concat();
        assert!(body.starts_with("grant_type=client_credentials&resource=https%3A%2F%2Fmcp.example%2Fmcp&scope=a"));
        assert_eq!(body.contains("client_assertion=signed-service-https%3A%2F%2Fas.example"), is_signed, "{body}");
    }
    let mut world = World::new();
    let mut client = client(&mut world, Settings { redirect_uri: None, ..settings() });
    unauthorized(&mut client, at(0), &mut Attempts::default());
    world.run(&mut client, at(0));
    assert_eq!(client.verdict(None), Verdict::Fail(AuthError::NotInteractive));
}

#[test]
fn a_late_response_changes_nothing() {
    let mut world = World::new();
    let mut client = client(&mut world, settings());
    unauthorized(&mut client, at(0), &mut Attempts::default());
    let Some(Action::Request(first)) = client.poll_action() else { panic!("it requests metadata") };
    client.handle_response(at(0), first.id, None);
    let body = json!({"resource": SERVER, "authorization_servers": ["https://evil.example"]}).to_string();
    client.handle_response(at(0), first.id, Some(Response { status: 200, location: None, body: body.as_bytes() }));
    world.run(&mut client, at(0));
    assert!(world.requests.iter().all(|it| it.url.host() != "evil.example"));
}

#[test]
fn nothing_secret_is_printed() {
    let mut world = World::new();
    let mut client = authorized(&mut world);
    let mut shown = format!("{client:?}");
    world.grant("two", Some("r2"));
    unauthorized(&mut client, at(2), &mut Attempts::default());
    while let Some(action) = client.poll_action() {
        shown += &format!("{action:?} {client:?}");
        world.perform(&mut client, at(2), action);
    }
    shown += &format!("{:?} {:?}", world.store.entries, world.requests);
    for secret in ["one", "two", "r1", "r2", "refresh_token=", "code_verifier="] {
        assert!(!shown.contains(&format!("\"{secret}")) && !shown.contains(&format!("={secret}")), "{secret}: {shown}");
    }
}
