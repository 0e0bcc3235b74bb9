//! Tests of `mcp login`, `mcp logout` and the tokens that are stored, with an authorization server, a protected server
//! and a browser in this program.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use mcp_blocking::http::{AccessToken, Listener, ResourceServer, TokenError};
use serde_json::{Value, json};

use crate::{Output, bridge::Bridge, recorder::Folder, server, target};

/// The variable of the environment that makes this program a browser.
pub(crate) const BROWSER: &str = "MCP_TEST_BROWSER";

/// The browser of a user who agrees: follows the redirect of the authorization server.
pub(crate) fn browse(url: &str) {
    let (_, location) = get(url);
    let (status, _) = get(&location.expect("a redirect"));
    assert_eq!(status, 200);
}

/// Returns the status and the location.
fn get(url: &str) -> (u16, Option<String>) {
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a URL");
    let mut stream = TcpStream::connect(host).expect("it listens");
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").expect("it is sent");
    let mut head = String::new();
    stream.read_to_string(&mut head).expect("text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.lines().find_map(|line| line.strip_prefix("location: ")).map(str::to_owned))
}

#[derive(Default)]
struct State {
    active: Vec<String>,
    refresh: Option<String>,
    tokens: usize,
    refuses_refreshes: bool,
    /// How many more requests with a token are accepted. `None` has no limit.
    accepted: Option<usize>,
    /// Whether a refresh gets no response.
    hangs: bool,
    /// How long the response to a refresh takes, after which the earlier tokens are not valid.
    delay: Duration,
    requests: BTreeMap<String, usize>,
}

/// An authorization server.
#[derive(Clone)]
struct Issuer {
    url: String,
    state: Arc<Mutex<State>>,
}

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
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut length, mut authorization, mut has_origin) = (0, String::new(), false);
        loop {
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().expect("a length");
            } else if name.eq_ignore_ascii_case("authorization") {
                value.clone_into(&mut authorization);
            }
            has_origin |= name.eq_ignore_ascii_case("origin");
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("it is whole");
        if target == "/token" && self.state.lock().expect("no panic").hangs {
            // Until the client has closed the connection.
            let _ = reader.read(&mut [0]);
            return;
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let delay = self.state.lock().expect("no panic").delay;
        let (status, location, body) = match path {
            // It refuses methods that it does not know before it looks at the token.
            "/late" if method(&body) == "server/discover" => (404, None, Value::Null),
            "/late" if !self.is_active(&authorization) => (401, None, Value::Null),
            "/origin" if has_origin => (401, None, Value::Null),
            "/echo" | "/origin" if authorization.is_empty() => (401, None, Value::Null),
            "/echo" | "/late" | "/origin" => (200, None, echo(&body, &authorization, "2025-11-25")),
            "/revision" => (200, None, echo(&body, &authorization, &authorization)),
            _ => self.respond(path, query, &String::from_utf8(body).expect("text")),
        };
        if path == "/token" {
            thread::sleep(delay);
        }
        let (location, body) = (location.map(|it| format!("location: {it}\r\n")).unwrap_or_default(), body.to_string());
        let head = format!("content-type: application/json\r\n{location}connection: close");
        let _ = write!(stream, "HTTP/1.1 {status} x\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    }

    fn respond(&self, path: &str, query: &str, body: &str) -> (u16, Option<String>, Value) {
        let fields: BTreeMap<_, _> = [query, body]
            .into_iter()
            .flat_map(|text| text.split('&'))
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name, value.replace("%3A", ":").replace("%2F", "/")))
            .collect();
        let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let url = |path: &str| format!("{}{path}", self.url);
        let mut state = self.state.lock().expect("no panic");
        *state.requests.entry(path.to_owned()).or_default() += 1;
        match path {
            "/.well-known/oauth-authorization-server" => {
                let document = json!({"issuer": self.url, "authorization_endpoint": url("/authorize"),
                    "token_endpoint": url("/token"), "registration_endpoint": url("/register"),
                    "revocation_endpoint": url("/revoke"), "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"]});
                (200, None, document)
            }
            "/register" => (201, None, json!({"client_id": "id", "client_secret": "canary-secret"})),
            "/authorize" => {
                let redirect = format!("{}?code=canary-code&state={}", field("redirect_uri"), field("state"));
                (302, Some(redirect), Value::Null)
            }
            "/token" => {
                let is_refresh = field("grant_type") == "refresh_token";
                let is_known =
                    !state.refuses_refreshes && state.refresh.as_deref() == fields.get("refresh_token").map(|it| &**it);
                if is_refresh && !is_known {
                    return (400, None, json!({"error": "invalid_grant"}));
                }
                state.tokens += 1;
                let (access, refresh) =
                    (format!("canary-{}", state.tokens), format!("canary-refresh-{}", state.tokens));
                state.active.push(access.clone());
                state.refresh = Some(refresh.clone());
                (200, None, json!({"access_token": access, "token_type": "Bearer", "refresh_token": refresh}))
            }
            "/revoke" => {
                state.active.clear();
                (200, None, Value::Null)
            }
            // A server that wants a token, and fails with it.
            "/broken" => (if state.tokens == 0 { 401 } else { 500 }, None, Value::Null),
            path => match path.strip_prefix("/.well-known/oauth-protected-resource") {
                Some(path) => (200, None, json!({"resource": url(path), "authorization_servers": [self.url]})),
                None => (404, None, Value::Null),
            },
        }
    }

    fn is_active(&self, authorization: &str) -> bool {
        let state = self.state.lock().expect("no panic");
        state.active.iter().any(|token| authorization.strip_prefix("Bearer ") == Some(token))
    }

    fn count(&self, path: &str) -> usize {
        self.state.lock().expect("no panic").requests.get(path).copied().unwrap_or_default()
    }

    /// Starts a server that accepts the tokens of this issuer. Returns its URL.
    fn protect(&self) -> String {
        let listener = Listener::bind("127.0.0.1:0").expect("there is a port");
        let url = format!("http://{}/mcp", listener.local_addr());
        let (issuer, state) = (self.url.clone(), self.state.clone());
        let verify = move |token: &str| {
            let mut state = state.lock().expect("no panic");
            let is_active = state.active.iter().any(|active| active == token) && state.accepted != Some(0);
            state.accepted = state.accepted.map(|left| left.saturating_sub(1));
            if is_active { Ok(AccessToken::new(issuer.clone(), "ada")) } else { Err(TokenError::Expired) }
        };
        let protected = listener.protect(ResourceServer::new(&url, &self.url, verify).expect("URLs"));
        thread::spawn(move || protected.serve(&server::service()));
        url
    }
}

fn method(body: &[u8]) -> Value {
    serde_json::from_slice::<Value>(body).unwrap_or_default()["method"].take()
}

/// Returns a response whose texts are the credentials of the request.
fn echo(body: &[u8], authorization: &str, version: &str) -> Value {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let info = json!({"name": authorization, "version": authorization});
    if request["method"] == "initialize" {
        let result = json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info});
        return json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    }
    json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": authorization}})
}

/// A user with a file for tokens, and a browser.
struct User {
    folder: Folder,
}

impl User {
    fn new() -> Self {
        Self { folder: Folder::new("tokens") }
    }

    fn tokens(&self) -> PathBuf {
        self.folder.file("tokens.json")
    }

    fn mcp(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
        command.args(arguments).arg("--tokens").arg(self.tokens()).env_remove("MCP_BEARER_TOKEN");
        command.env("BROWSER", env::current_exe().expect("a program")).env(BROWSER, "1");
        let output = command.output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let (out, error) = (text(output.stdout), text(output.stderr));
        assert!(!format!("{out}{error}").contains("canary"), "a secret is shown: {out}{error}");
        (output.status.code().unwrap_or(-1), out, error)
    }
}

pub(crate) fn tokens_are_stored_refreshed_and_removed() {
    let (issuer, user) = (Issuer::start(), User::new());
    let url = issuer.protect();
    let is_refused = |(code, _, error): &Output| *code == 3 && error.contains("`mcp login` signs in");
    let before = user.mcp(&["list", &url, "tools"]);
    assert!(is_refused(&before), "{before:?}");
    assert_eq!(issuer.count("/.well-known/oauth-authorization-server"), 0, "without tokens, nothing is looked up");

    let (code, out, error) = user.mcp(&["login", &url]);
    assert_eq!((code, &*out), (0, ""), "{error}");
    assert!(
        error.contains(&format!("sign in at {}/authorize?", issuer.url)) && error.ends_with("signed in\n"),
        "{error}"
    );
    for era in ["legacy", "modern"] {
        let (code, out, error) = user.mcp(&["call", &url, "echo", "message=7", "--era", era]);
        assert_eq!((code, &*out, &*error), (0, "7\n", ""));
    }
    assert_eq!((issuer.count("/authorize"), issuer.count("/token")), (1, 1));
    let (code, _, error) = user.mcp(&["login", &url]);
    assert!(code == 0 && error.contains("signed in already"), "{error}");

    // The access token has expired: it is refreshed, and the user is not asked.
    issuer.state.lock().expect("no panic").active.clear();
    assert_eq!(user.mcp(&["list", &url, "prompts"]).0, 0);
    assert_eq!(user.mcp(&["list", &url, "prompts"]).0, 0);
    assert_eq!((issuer.count("/authorize"), issuer.count("/token")), (1, 2), "the new token is stored");

    // A token of the user has priority, and so has a header.
    for given in [["--bearer", "wrong"], ["--header", "authorization: Bearer wrong"]] {
        let outcome = user.mcp(&[&["list", &url][..], &given].concat());
        assert!(is_refused(&outcome), "{outcome:?}");
    }

    let (code, _, error) = user.mcp(&["logout", &url]);
    assert!(code == 0 && error.contains("signed out"), "{error}");
    assert!(issuer.count("/revoke") > 0);
    let after = user.mcp(&["list", &url]);
    assert!(is_refused(&after), "{after:?}");
    let (code, _, error) = user.mcp(&["logout", &url]);
    assert!(code == 0 && error.contains("there are no tokens"), "{error}");
}

/// A refresh token that is of no use does not make the program register, or open a browser.
pub(crate) fn other_commands_never_ask_the_user() {
    let (issuer, user) = (Issuer::start(), User::new());
    let url = issuer.protect();
    assert_eq!(user.mcp(&["login", &url]).0, 0);
    {
        let mut state = issuer.state.lock().expect("no panic");
        state.active.clear();
        state.refuses_refreshes = true;
    }
    let (code, _, error) = user.mcp(&["list", &url]);
    assert!(code == 3 && error.contains("`mcp login`"), "{error}");
    assert_eq!((issuer.count("/authorize"), issuer.count("/register")), (1, 1));
    issuer.state.lock().expect("no panic").refuses_refreshes = false;
    let (code, _, error) = user.mcp(&["login", &url]);
    assert!(code == 0 && error.ends_with("signed in\n"), "{error}");
    assert_eq!(user.mcp(&["list", &url]).0, 0);
}

/// A check writes its own requests. They have the token, too, which is refreshed once the server refuses it.
pub(crate) fn checks_use_stored_tokens() {
    let (issuer, user) = (Issuer::start(), User::new());
    let url = issuer.protect();
    let check = |more: &[&str]| user.mcp(&[&["check", &url, "--only", "ping"], more].concat());
    let is_refused = |(code, _, error): &Output| *code == 3 && error.contains("`mcp login` signs in");
    let before = check(&[]);
    assert!(is_refused(&before), "{before:?}");
    assert_eq!(user.mcp(&["login", &url]).0, 0);
    let (code, out, error) = check(&[]);
    assert!(code == 0 && out.contains("passed"), "{out} {error}");
    assert_eq!(issuer.count("/token"), 1);

    issuer.state.lock().expect("no panic").active.clear();
    assert_eq!(check(&[]).0, 0);
    assert_eq!(check(&[]).0, 0);
    assert_eq!((issuer.count("/authorize"), issuer.count("/token")), (1, 2), "the new token is stored");
    let given = check(&["--bearer", "wrong"]);
    assert!(is_refused(&given), "{given:?}");
    let headers = check(&["--header", "authorization: Bearer wrong"]);
    assert!(is_refused(&headers), "{headers:?}");

    let config = user.tokens().with_file_name("servers.json");
    let servers = format!(r#"{{"mcpServers": {{"protected": {{"type": "http", "url": "{url}"}}}}}}"#);
    fs::write(&config, servers).expect("it is written");
    let config = config.to_str().expect("UTF-8");
    let named = user.mcp(&["check", "protected", "--config", config, "--only", "ping"]);
    assert_eq!(named.0, 0, "{named:?}");
    // There are no tokens for an address with the name of a user.
    let other = user.mcp(&["check", &url.replace("http://", "http://user@"), "--only", "ping"]);
    assert!(is_refused(&other), "{other:?}");

    {
        let mut state = issuer.state.lock().expect("no panic");
        state.active.clear();
        state.refuses_refreshes = true;
    }
    let after = check(&[]);
    assert!(is_refused(&after), "{after:?}");
    assert_eq!((issuer.count("/authorize"), issuer.count("/register")), (1, 1), "the user is not asked");
}

/// The server has no part in it if its token ends in the middle of a check, and the next one is refused.
pub(crate) fn tokens_that_expire_fail_no_check() {
    let given: [&[&str]; 3] =
        [&[], &["--bearer", "canary-bearer"], &["--header", "authorization: Bearer canary-bearer"]];
    for given in given {
        for accepted in [1, 20] {
            let (issuer, user) = (Issuer::start(), User::new());
            let url = issuer.protect();
            if given.is_empty() {
                assert_eq!(user.mcp(&["login", &url]).0, 0);
            }
            {
                let mut state = issuer.state.lock().expect("no panic");
                state.active.push("canary-bearer".to_owned());
                (state.accepted, state.refuses_refreshes) = (Some(accepted), true);
            }
            let (code, out, error) = user.mcp(&[&["check", &url], given].concat());
            assert!(code == 0 && out.contains("passed"), "{given:?} {code} {out} {error}");
            assert!(out.contains("which it has accepted before"), "{given:?} {out} {error}");
        }
    }
}

/// A server may refuse requests for other reasons before it looks at a token.
pub(crate) fn tokens_that_are_never_accepted_are_reported() {
    let (issuer, user) = (Issuer::start(), User::new());
    let url = format!("{}/late", issuer.url);
    assert_eq!(user.mcp(&["login", &url]).0, 0);
    let (code, out, error) = user.mcp(&["check", &url, "--only", "session-id"]);
    assert!(code == 0 && out.contains("not applicable"), "{code} {out} {error}");
    {
        let mut state = issuer.state.lock().expect("no panic");
        state.active.clear();
        state.refuses_refreshes = true;
    }
    let given: [&[&str]; 2] = [&[], &["--bearer", "canary-wrong"]];
    for given in given {
        let (code, _, error) = user.mcp(&[&["check", &url], given].concat());
        assert!(code == 3 && error.contains("`mcp login` signs in"), "{given:?} {error}");
        assert!(!error.contains("accepted before"), "{given:?} {error}");
    }
}

/// The token is valid: the server answers one request with a wrong status.
pub(crate) fn servers_that_refuse_valid_tokens_fail() {
    let (issuer, user) = (Issuer::start(), User::new());
    let url = format!("{}/origin", issuer.url);
    assert_eq!(user.mcp(&["login", &url]).0, 0);
    let given: [&[&str]; 2] = [&[], &["--bearer", "canary-bearer"]];
    for given in given {
        let (code, out, error) = user.mcp(&[&["check", &url, "--only", "http-origin"], given].concat());
        assert!(code == 1 && out.contains("the status is 401 instead of 403"), "{given:?} {code} {out} {error}");
    }
    assert_eq!(issuer.count("/token"), 1, "a token that is valid is not refreshed");
}

/// A refresh takes no longer than a response may.
pub(crate) fn checks_do_not_wait_for_refreshes() {
    let (issuer, user) = (Issuer::start(), User::new());
    let url = issuer.protect();
    assert_eq!(user.mcp(&["login", &url]).0, 0);
    {
        let mut state = issuer.state.lock().expect("no panic");
        state.active.clear();
        state.hangs = true;
    }
    let began = Instant::now();
    let (code, _, error) = user.mcp(&["check", &url, "--only", "ping", "--timeout", "1"]);
    assert!(code == 3 && error.contains("`mcp login` signs in"), "{error}");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// The authorization server has replaced the tokens when its response comes late.
pub(crate) fn tokens_of_late_refreshes_are_stored() {
    let (issuer, user) = (Issuer::start(), User::new());
    let url = issuer.protect();
    assert_eq!(user.mcp(&["login", &url]).0, 0);
    {
        let mut state = issuer.state.lock().expect("no panic");
        state.active.clear();
        state.delay = Duration::from_secs(4);
    }
    let (code, _, error) = user.mcp(&["check", &url, "--only", "ping", "--timeout", "1"]);
    assert_eq!((code, issuer.count("/token")), (3, 2), "{error}");
    issuer.state.lock().expect("no panic").delay = Duration::ZERO;
    let (code, _, error) = user.mcp(&["list", &url, "tools"]);
    assert_eq!((code, issuer.count("/token")), (0, 2), "{error}");
}

/// A server may repeat the credentials of a request in its response.
pub(crate) fn credentials_are_masked_in_reports() {
    let (issuer, user) = (Issuer::start(), User::new());
    let url = format!("{}/echo", issuer.url);
    let page = user.folder.file("a.html");
    let files = ["--html", page.to_str().expect("UTF-8"), "--timeout", "5"];
    assert_eq!((user.mcp(&["login", &url]).0, issuer.count("/token")), (0, 1));
    let given: [&[&str]; 4] = [
        &["--bearer", "canary-bearer"],
        &["--header", "authorization: Basic canary-basic"],
        &["--json", "--bearer", "canary-json"],
        &[],
    ];
    for given in given {
        let (code, out, error) = user.mcp(&[&["check", &url], given, &files].concat());
        assert!(code == 1 && out.contains("***"), "{code} {out} {error}");
        let page = fs::read_to_string(&page).expect("it is written");
        assert!(!page.contains("canary") && page.contains("***"), "{page}");
    }
    let url = format!("{}/revision", issuer.url);
    let (_, out, error) = user.mcp(&["check", &url, "--bearer", "canary-bearer", "--only", "ping"]);
    assert!(out.contains("(Bearer ***)"), "{out} {error}");
}

pub(crate) fn servers_that_fail_after_the_sign_in_are_reported() {
    let (issuer, user) = (Issuer::start(), User::new());
    let (code, _, error) = user.mcp(&["login", &format!("{}/broken", issuer.url)]);
    assert_eq!((code, issuer.count("/token")), (3, 1), "{error}");
    assert!(error.contains("the tokens are stored, but") && !error.contains("signed in\n"), "{error}");
}

pub(crate) fn wrong_sign_ins() {
    let user = User::new();
    let bridge = Bridge::start(&[]);
    let (code, _, error) = user.mcp(&["login", &bridge.url]);
    assert!(code == 0 && error.contains("does not ask for a sign-in"), "{error}");
    let (code, _, error) = user.mcp(&["login", &target("")]);
    assert!(code == 2 && error.contains("must be a URL"), "{error}");
    let (code, _, error) = user.mcp(&["login", "http://127.0.0.1:1/mcp", "--client-id", "x"]);
    assert!(code == 2 && error.contains("--issuer"), "{error}");
    let (code, _, error) = user.mcp(&["login", &bridge.url, "--header", "authorization: Bearer x"]);
    assert!(code == 2 && error.contains("has priority"), "{error}");
    let (code, _, error) = user.mcp(&["login", "http://127.0.0.1:1/mcp", "--scope", "a\"b"]);
    assert!(code == 2 && error.contains("--scope"), "{error}");
    fs::write(user.tokens(), "no JSON").expect("it is written");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(user.tokens(), fs::Permissions::from_mode(0o600)).expect("it is ours");
    }
    let (code, _, error) = user.mcp(&["list", &bridge.url]);
    assert!(code == 2 && error.contains("the file of the tokens is damaged"), "{error}");
    assert!(error.contains(&*user.tokens().to_string_lossy()), "{error}");
}
