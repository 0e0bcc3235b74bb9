//! An authorization server on the loopback interface, over TLS.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use mcp_driver::http::auth::Url;
use serde_json::{Value, json};

use super::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// An authorization server. Each secret that it issues contains the canary.
#[derive(Clone)]
pub(crate) struct Issuer {
    url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The access tokens that are valid.
    active: BTreeSet<String>,
    tokens: usize,
    /// The numbers of requests, by path.
    requests: BTreeMap<String, usize>,
}

impl Issuer {
    pub(crate) fn start(config: Arc<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let port = listener.local_addr().expect("an address").port();
        let issuer = Self { url: format!("https://localhost:{port}"), state: Arc::default() };
        let served = issuer.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (issuer, config) = (served.clone(), config.clone());
                // Errors are visible at the client.
                thread::spawn(move || issuer.serve(stream, config));
            }
        });
        issuer
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn is_active(&self, token: &str) -> bool {
        self.update(|state| state.active.contains(token))
    }

    /// Makes all access tokens invalid.
    pub(crate) fn revoke(&self) {
        self.update(|state| state.active.clear());
    }

    /// Returns how many requests with this path there were.
    pub(crate) fn requests(&self, path: &str) -> usize {
        self.update(|state| state.requests.get(path).copied().unwrap_or_default())
    }

    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("no panic"))
    }

    /// Serves one request.
    fn serve(&self, stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut reader = BufReader::new(StreamOwned::new(connection, stream));
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().map_err(io::Error::other)?;
            }
        }
        reader.read_exact(&mut vec![0; length])?;
        let (status, body) = self.respond(first.split(' ').nth(1).unwrap_or_default());
        let (body, stream) = (body.to_string(), reader.get_mut());
        let head = "content-type: application/json\r\nconnection: close";
        write!(stream, "HTTP/1.1 {status} x\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
        stream.conn.send_close_notify();
        stream.flush()
    }

    fn respond(&self, path: &str) -> (u16, Value) {
        let url = |path: &str| format!("{}{path}", self.url);
        self.update(|state| {
            *state.requests.entry(path.to_owned()).or_default() += 1;
            match path {
                "/.well-known/oauth-authorization-server" => (
                    200,
                    json!({"issuer": self.url, "authorization_endpoint": url("/authorize"),
                        "token_endpoint": url("/token"), "registration_endpoint": url("/register"),
                        "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                        "token_endpoint_auth_methods_supported": ["client_secret_basic"]}),
                ),
                "/register" => (201, json!({"client_id": "id", "client_secret": "canary-secret"})),
                "/token" => {
                    state.tokens += 1;
                    let (access, refresh) =
                        (format!("canary-access-{}", state.tokens), format!("canary-refresh-{}", state.tokens));
                    state.active.insert(access.clone());
                    (200, json!({"access_token": access, "token_type": "Bearer", "refresh_token": refresh}))
                }
                "/introspect" => (200, json!({"active": true, "sub": "canary-subject"})),
                _ => (404, Value::Null),
            }
        })
    }

    /// Consents as the user: the browser follows the redirect with a code.
    pub(crate) fn consent(&self, url: &Url) {
        let query = url.query().expect("a query");
        let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let redirect = field("redirect_uri").expect("a URI").replace("%3A", ":").replace("%2F", "/");
        let (host, path) = redirect.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a URI");
        let request = format!("/{path}?code=canary-code&state={}", field("state").expect("a state"));
        let mut stream = TcpStream::connect(host).expect("it listens");
        thread::spawn(move || {
            let _ = write!(stream, "GET {request} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        });
    }
}
