//! Protected servers, on any runtime: tokens, challenges, scopes and the metadata document. The including
//! test has the adapter as `crate::adapter`, and its runtime as `crate::{run, spawn}`.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use http::{Request, request::Builder};
use http_body_util::{BodyExt, Full};
use mcp_proto::auth::{ResourceMetadata, Scopes, Secret};
use mcp_service::{Context, Deferred, Service, Tool};
use serde_json::{Value, json};

use crate::{
    adapter::http::{
        AccessToken, Endpoint, EndpointOptions, FetchClient, HttpFetch as _, Listener, Paths, Policy, ResourceServer,
        TokenError, TokenVerifier,
    },
    run, spawn,
};

/// The revisions with sessions over Streamable HTTP.
const WITH_SESSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

pub(crate) const METADATA: &str = "https://mcp.example/.well-known/oauth-protected-resource/mcp";

pub(crate) const ISSUER: &str = "https://auth.example";

/// Part of every token, and of nothing else.
const CANARY: &str = "canary";

pub(crate) fn scopes(text: &str) -> Scopes {
    Scopes::parse(text).expect("scopes")
}

/// The tokens that are valid: their names, which are in them, their subjects and their scopes.
fn verify(token: &str) -> Result<AccessToken, TokenError> {
    let name = token.strip_prefix("canary.").ok_or(TokenError::Malformed)?;
    let client = |subject: &str, scope: &str| Ok(AccessToken::new(ISSUER, subject).client_id("app").scope(scope));
    match name {
        "ada" => client("ada", "mcp"),
        "ada-writes" => client("ada", "mcp files:read files:write"),
        "ada-admin" => client("ada", "admin"),
        "eve" => client("eve", "mcp files:read files:write"),
        "no-scope" => client("ada", "other"),
        "bad-scope" => client("ada", "mcp \"x\""),
        "old" => client("ada", "mcp").map(|token| token.expires(SystemTime::now() - Duration::from_secs(1))),
        "new" => client("ada", "mcp").map(|token| token.expires(SystemTime::now() + Duration::from_secs(60))),
        "soon" => client("ada", "mcp").map(|token| token.expires(SystemTime::now() + Duration::from_millis(200))),
        "no-subject" => client("", "mcp").map(|mut token| {
            (token.subject, token.client_id) = (None, None);
            token
        }),
        "only-client" => client("", "mcp").map(|mut token| {
            token.subject = None;
            token
        }),
        "empty-subject" => client("", "mcp"),
        // The verifier is set up for another authorization server than the metadata names.
        "foreign" => Ok(AccessToken::new("https://auth.example/", "ada").client_id("app").scope("mcp")),
        "down" => Err(TokenError::Unavailable("the keys of canary cannot be fetched".into())),
        _ => Err(TokenError::Signature),
    }
}

pub(crate) fn server() -> ResourceServer {
    let (url, issuer) = ("https://mcp.example/mcp".parse(), ISSUER.parse());
    let metadata = ResourceMetadata::new(url.expect("a URL"), issuer.expect("a URL"))
        .name("Files")
        .required_scopes(scopes("mcp"))
        .supported_scopes(scopes("files:read files:write"))
        .implies("admin", scopes("mcp files:read files:write"));
    ResourceServer::of(metadata, verify)
}

/// A service, and how often its tool that needs scopes has run.
fn service() -> (Service, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let service = Service::builder("protected", "1")
        .tool(Tool::new_async("who", async |context: Context| {
            let info = context.info();
            let principal = info.principal.as_ref().expect("it is known");
            let (id, client, scopes) = (&principal.id, &principal.client_id, &principal.scopes);
            // All that a handler can print.
            format!("{id} {client:?} {scopes:?} {context:?} {info:?}")
        }))
        .tool(
            Tool::new_async("write", move || {
                count.fetch_add(1, Ordering::SeqCst);
                async { "written" }
            })
            .scope("files:read")
            .scope("files:write"),
        )
        .build()
        .expect("all names differ");
    (service, runs)
}

pub(crate) fn endpoint(service: &Service) -> Endpoint {
    unprotected(service).protect(server())
}

pub(crate) fn unprotected(service: &Service) -> Endpoint {
    let policy = Policy::hosts(["mcp.example"]).and_then(|policy| policy.allow_origin("https://app.example"));
    let mut options = EndpointOptions::new(policy.expect("an origin"));
    options.paths = Paths::at("/mcp").with_http_sse("/sse", "/message");
    Endpoint::new(service, options).expect("there is a runtime")
}

/// The head of a response, and its body if that has ended.
pub(crate) struct Received {
    pub(crate) status: u16,
    headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns a parameter of the challenge.
    pub(crate) fn challenged(&self, name: &str) -> Option<&str> {
        let challenge = self.header("www-authenticate")?;
        let (_, value) = challenge.split_once(&format!("{name}=\""))?;
        value.split_once('"').map(|(value, _)| value)
    }

    pub(crate) fn text(&self) -> String {
        let json = self.body.split_once("data: {").map_or(self.body.clone(), |(_, rest)| format!("{{{rest}"));
        let json: Value = serde_json::from_str(json.trim()).expect("JSON");
        json["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
    }
}

pub(crate) async fn ask(endpoint: &Endpoint, request: Builder, body: &Value) -> Received {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = request.body(Full::new(io::Cursor::new(body))).expect("a request");
    let is_stream = request.method() == "GET" && request.uri().path() == "/mcp";
    let (head, body) = endpoint.handle(request).await.into_parts();
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().to_owned(), value.to_str().expect("text").to_owned())
    };
    let headers: BTreeMap<_, _> = head.headers.iter().map(header).collect();
    let body = match head.status.as_u16() {
        200 if is_stream => String::new(),
        _ => String::from_utf8(body.collect().await.expect("it is whole").to_bytes().to_vec()).expect("text"),
    };
    for shown in [&format!("{headers:?}"), &body] {
        assert!(!shown.contains(CANARY), "a token is shown: {shown}");
    }
    Received { status: head.status.as_u16(), headers, body }
}

pub(crate) fn request(method: &str, path: &str, token: Option<&str>) -> Builder {
    let request = Request::builder().method(method).uri(path).header("host", "mcp.example");
    let request = request.header("accept", "application/json, text/event-stream");
    let request = if method == "POST" { request.header("content-type", "application/json") } else { request };
    match token {
        Some(token) => request.header("authorization", format!("Bearer canary.{token}")),
        None => request,
    }
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}})
}

/// Begins a session, and returns its id.
pub(crate) async fn begin(endpoint: &Endpoint, version: &str, token: &str) -> String {
    let begun = ask(endpoint, request("POST", "/mcp", Some(token)), &initialize(version)).await;
    assert_eq!(begun.status, 200, "{}", begun.body);
    let id = begun.header("mcp-session-id").expect("a session").to_owned();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let said = ask(endpoint, request("POST", "/mcp", Some(token)).header("mcp-session-id", &id), &initialized).await;
    assert_eq!(said.status, 202);
    id
}

/// Begins a session in each revision that has sessions. The last entry is for 2026-07-28, which has none.
async fn sessions(endpoint: &Endpoint, token: &str) -> Vec<Option<String>> {
    let mut sessions = Vec::new();
    for version in WITH_SESSIONS {
        sessions.push(Some(begin(endpoint, version, token).await));
    }
    sessions.push(None);
    sessions
}

/// Sends a request in a session, or one of 2026-07-28 without one.
pub(crate) async fn send(
    endpoint: &Endpoint,
    session: Option<&str>,
    token: Option<&str>,
    method: &str,
    tool: &str,
) -> Received {
    let mut params = if tool.is_empty() { json!({}) } else { json!({"name": tool, "arguments": {}}) };
    let mut head = request("POST", "/mcp", token);
    match session {
        Some(id) => head = head.header("mcp-session-id", id),
        None => {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}});
            head = head.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
            head = if tool.is_empty() { head } else { head.header("mcp-name", tool) };
        }
    }
    ask(endpoint, head, &json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params})).await
}

// req: AUTH-010 AUTH-020 AUTH-021 AUTH-022 AUTH-023 AUTH-029 AUTH-030 AUTH-035 M-AUTH-032 M-AUTH-033 M-AUTH-036
#[test]
fn a_request_needs_a_valid_token() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        let routes = [
            ("POST", "/mcp", initialize("2025-03-26")),
            ("POST", "/mcp", initialize("2025-06-18")),
            ("POST", "/mcp", initialize("2025-11-25")),
            ("GET", "/mcp", Value::Null),
            ("DELETE", "/mcp", Value::Null),
            ("GET", "/sse", Value::Null),
            ("POST", "/message?sessionId=x", initialize("2024-11-05")),
        ];
        for (method, path, body) in &routes {
            for (token, status, error, why) in [
                (None, 401, None, None),
                (Some("forged"), 401, Some("invalid_token"), Some("the signature of the token is wrong")),
                (Some("foreign"), 401, Some("invalid_token"), Some("the token is from another issuer")),
                (Some("old"), 401, Some("invalid_token"), Some("the token has expired")),
                (
                    Some("no-subject"),
                    401,
                    Some("invalid_token"),
                    Some("the claim 'sub' of the token is missing or invalid"),
                ),
                (
                    Some("empty-subject"),
                    401,
                    Some("invalid_token"),
                    Some("the claim 'sub' of the token is missing or invalid"),
                ),
                (
                    Some("bad-scope"),
                    401,
                    Some("invalid_token"),
                    Some("the claim 'scope' of the token is missing or invalid"),
                ),
                (Some("no-scope"), 403, Some("insufficient_scope"), None),
                (Some("a b"), 400, Some("invalid_request"), None),
            ] {
                let received = ask(&endpoint, request(method, path, token), body).await;
                let shown = (received.status, received.challenged("error"), received.challenged("error_description"));
                assert_eq!(shown, (status, error, why), "{method} {path} {token:?}: {}", received.body);
                assert_eq!(
                    (received.challenged("resource_metadata"), received.challenged("scope")),
                    (Some(METADATA), Some("mcp"))
                );
            }
            // The verifier is unavailable, so the token is not refused.
            let received = ask(&endpoint, request(method, path, Some("down")), body).await;
            assert_eq!((received.status, received.header("www-authenticate")), (503, None));
            // A page of another origin gets no challenge.
            let cross_site = request(method, path, None).header("origin", "https://evil.example");
            assert_eq!(ask(&endpoint, cross_site, body).await.status, 403);
        }
        for (token, status, error) in [
            (None, 401, None),
            (Some("forged"), 401, Some("invalid_token")),
            (Some("old"), 401, Some("invalid_token")),
            (Some("no-scope"), 403, Some("insufficient_scope")),
            (Some("ada"), 200, None),
        ] {
            let received = send(&endpoint, None, token, "tools/list", "").await;
            assert_eq!(
                (received.status, received.challenged("error")),
                (status, error),
                "{token:?}: {}",
                received.body
            );
            assert_eq!(received.challenged("scope"), (status != 200).then_some("mcp"));
        }
        assert_eq!(endpoint.sessions(), 0, "nothing was begun");
        assert_eq!(ask(&endpoint, request("POST", "/elsewhere", None), &Value::Null).await.status, 404);
        for token in ["ada", "new", "only-client", "ada-admin"] {
            begin(&endpoint, "2025-11-25", token).await;
        }
        endpoint.close().await;
    });
}

// req: AUTH-024 M-AUTH-035
#[test]
fn a_token_is_read_from_one_header_only() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        for version in WITH_SESSIONS {
            let body = initialize(version);
            let path = "/mcp?access_token=canary.ada";
            assert_eq!(ask(&endpoint, request("POST", path, None), &body).await.status, 401);
            let twice = request("POST", "/mcp", Some("ada")).header("authorization", "Bearer canary.ada");
            assert_eq!(ask(&endpoint, twice, &body).await.status, 400);
            let other = request("POST", "/mcp", None).header("authorization", "Basic canary.ada");
            let received = ask(&endpoint, other, &body).await;
            assert_eq!((received.status, received.challenged("error")), (401, None));
            let long = format!("Bearer {}", "x".repeat(8 * 1024 + 1));
            assert_eq!(
                ask(&endpoint, request("POST", "/mcp", None).header("authorization", long), &body).await.status,
                400
            );
        }
        let unread = request("POST", "/mcp?access_token=canary.ada", None).header("mcp-protocol-version", "2026-07-28");
        assert_eq!(ask(&endpoint, unread, &json!({})).await.status, 401);
        endpoint.close().await;
    });
}

// req: AUTH-056 AUTH-069 M-AUTH-034
#[test]
fn handlers_see_the_principal_but_not_the_token() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        for session in sessions(&endpoint, "ada").await.iter().map(Option::as_deref) {
            let received = send(&endpoint, session, Some("ada-writes"), "tools/call", "who").await;
            let start = "https://auth.example ada Some(\"app\") [\"mcp\", \"files:read\", \"files:write\"]";
            assert!(received.text().starts_with(start), "{}", received.body);
            // The scopes are those of the token of the request, not of the token that began the session.
            let received = send(&endpoint, session, Some("ada"), "tools/call", "who").await;
            assert!(
                received.text().starts_with("https://auth.example ada Some(\"app\") [\"mcp\"]"),
                "{}",
                received.body
            );
        }
        let received = send(&endpoint, None, Some("only-client"), "tools/call", "who").await;
        assert!(received.text().starts_with("https://auth.example#client app "), "{}", received.body);
        assert!(!format!("{endpoint:?} {:?}", server()).contains(CANARY));
        endpoint.close().await;
    });
}

// req: SEC-001 SEC-003 M-AUTH-055
#[test]
fn session_is_bound_to_the_subject_of_its_token() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        for version in WITH_SESSIONS {
            let id = begin(&endpoint, version, "ada").await;
            let session = Some(&*id);
            assert_eq!(send(&endpoint, session, Some("eve"), "tools/list", "").await.status, 404);
            assert_eq!(send(&endpoint, session, None, "tools/list", "").await.status, 401);
            for method in ["GET", "DELETE"] {
                let other = request(method, "/mcp", Some("eve")).header("mcp-session-id", &id);
                assert_eq!(ask(&endpoint, other, &Value::Null).await.status, 404, "{method}");
            }
            assert_eq!(send(&endpoint, session, Some("ada-writes"), "tools/list", "").await.status, 200);
        }
        endpoint.close().await;
    });
}

// req: AUTH-023 AUTH-059 AUTH-060 M-AUTH-035 M-AUTH-037 M-AUTH-038 M-AUTH-039
#[test]
fn tool_call_requires_the_scopes_of_the_tool() {
    run(async {
        let (service, runs) = service();
        let endpoint = endpoint(&service);
        for session in sessions(&endpoint, "ada").await.iter().map(Option::as_deref) {
            // A client can list the tool without its scopes, so that it can request them.
            let listed = send(&endpoint, session, Some("ada"), "tools/list", "").await;
            assert!(listed.status == 200 && listed.body.contains("\"write\""), "{}", listed.body);
            let before = runs.load(Ordering::SeqCst);
            let refused = send(&endpoint, session, Some("ada"), "tools/call", "write").await;
            assert_eq!(
                (refused.status, refused.challenged("error")),
                (403, Some("insufficient_scope")),
                "{}",
                refused.body
            );
            assert_eq!(refused.challenged("scope"), Some("mcp files:read files:write"), "all of them, and at once");
            assert_eq!(refused.challenged("resource_metadata"), Some(METADATA));
            let error: Value = serde_json::from_str(&refused.body).expect("JSON");
            assert_eq!((&error["id"], &error["error"]["code"]), (&json!(2), &json!(-32600)));
            assert_eq!(runs.load(Ordering::SeqCst), before, "the handler has not run");
            // The same session accepts a token with more scopes.
            for (index, token) in ["ada-writes", "ada-admin"].into_iter().enumerate() {
                let done = send(&endpoint, session, Some(token), "tools/call", "write").await;
                assert_eq!((done.status, done.text().as_str()), (200, "written"));
                assert_eq!(runs.load(Ordering::SeqCst), before + index + 1);
            }
        }
        endpoint.close().await;
    });
}

/// A request without a valid token costs no more than its head.
#[test]
fn the_body_of_a_refused_request_is_not_read() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        for (token, status) in
            [(None, 401), (Some("forged"), 401), (Some("no-scope"), 403), (Some("a b"), 400), (Some("ada"), 200)]
        {
            let is_read = AtomicUsize::new(0);
            let body = Full::new(io::Cursor::new(initialize("2025-11-25").to_string())).map_frame(|frame| {
                is_read.fetch_add(1, Ordering::SeqCst);
                frame
            });
            let response = endpoint.handle(request("POST", "/mcp", token).body(body).expect("a request")).await;
            assert_eq!((response.status().as_u16(), is_read.load(Ordering::SeqCst) > 0), (status, status == 200));
            assert_eq!(response.headers().contains_key("connection"), status != 200, "the rest is not a request");
        }
        endpoint.close().await;
    });
}

/// A verifier that never completes.
struct Silent;

impl TokenVerifier for Silent {
    fn verify(&self, _: &Secret) -> Deferred<Result<AccessToken, TokenError>> {
        Deferred::new(std::future::pending())
    }
}

#[test]
fn slow_verifier_times_out_the_request() {
    run(async {
        let (service, _) = service();
        let server = ResourceServer::new("https://mcp.example/mcp", ISSUER, Silent).expect("two URLs");
        let endpoint = unprotected(&service).protect(server).read_timeout(Duration::from_millis(10));
        let received = ask(&endpoint, request("POST", "/mcp", Some("ada")), &initialize("2025-11-25")).await;
        assert_eq!((received.status, received.header("www-authenticate")), (408, None));
        endpoint.close().await;
    });
}

/// A tool with scopes is refused also if no verifier is configured.
#[test]
fn unprotected_endpoint_rejects_scoped_tools() {
    run(async {
        let (service, runs) = service();
        let mut options = EndpointOptions::new(Policy::any_host());
        options.paths = Paths::at("/mcp");
        let endpoint = Endpoint::new(&service, options).expect("there is a runtime");
        let refused = send(&endpoint, None, None, "tools/call", "write").await;
        assert_eq!((refused.status, refused.challenged("scope")), (403, Some("files:read files:write")));
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        endpoint.close().await;
    });
}

// req: AUTH-025 AUTH-026 AUTH-030 AUTH-031 M-AUTH-003 M-AUTH-004 M-AUTH-005
#[test]
fn metadata_document_requires_no_token() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
            let received = ask(&endpoint, request("GET", path, None), &Value::Null).await;
            assert_eq!((received.status, received.header("content-type")), (200, Some("application/json")));
            let document: Value = serde_json::from_str(&received.body).expect("JSON");
            assert_eq!(
                document,
                json!({"resource": "https://mcp.example/mcp", "authorization_servers": [ISSUER],
                    "scopes_supported": ["mcp", "files:read", "files:write"], "bearer_methods_supported": ["header"],
                    "resource_name": "Files"})
            );
            // An invalid token does not matter here.
            assert_eq!(ask(&endpoint, request("GET", path, Some("forged")), &Value::Null).await.body, received.body);
            let only_head = ask(&endpoint, request("HEAD", path, None), &Value::Null).await;
            assert_eq!((only_head.status, &*only_head.body), (200, ""));
            assert_eq!(only_head.header("content-length"), received.header("content-length"));
            let posted = ask(&endpoint, request("POST", path, None), &json!({})).await;
            assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD")));
            assert_eq!(posted.header("connection"), Some("close"), "its body was not read");
            let cross_site = Request::get(path).header("host", "evil.example");
            assert_eq!(ask(&endpoint, cross_site, &Value::Null).await.status, 403);
        }
        let other = request("GET", "/.well-known/oauth-protected-resource/other", None);
        assert_eq!(ask(&endpoint, other, &Value::Null).await.status, 404);
        endpoint.close().await;
    });
}

/// A proxy that forwards requests under another name has no effect: the public URL is configured.
#[test]
fn public_url_is_not_taken_from_requests() {
    run(async {
        let (service, _) = service();
        let mut options = EndpointOptions::new(Policy::any_host());
        options.paths = Paths::at("/mcp");
        let endpoint = Endpoint::new(&service, options).expect("there is a runtime").protect(server());
        for host in ["10.0.0.7:8080", "evil.example"] {
            let from = |method: &str, path: &str| {
                let request = Request::builder().method(method).uri(path).header("host", host);
                request.header("x-forwarded-host", "evil.example").header("forwarded", "host=evil.example")
            };
            let refused = ask(&endpoint, from("GET", "/mcp"), &Value::Null).await;
            assert_eq!((refused.status, refused.challenged("resource_metadata")), (401, Some(METADATA)));
            let document = ask(&endpoint, from("GET", "/.well-known/oauth-protected-resource/mcp"), &Value::Null).await;
            assert!(document.body.contains("\"resource\":\"https://mcp.example/mcp\""), "{}", document.body);
        }
        endpoint.close().await;
    });
}

#[test]
fn listener_requires_tokens_and_serves_metadata() {
    run(async {
        let (service, _) = service();
        let listener = Listener::bind("127.0.0.1:0").await.expect("there is a port").protect(server());
        let (address, stop) = (listener.local_addr(), listener.stop_handle());
        let served = spawn(async move { listener.serve(&service).await });
        let get = |path: &str| Request::get(format!("http://{address}{path}")).body(Vec::new()).expect("a request");
        let (client, path) = (FetchClient::new(), "/.well-known/oauth-protected-resource/mcp");
        let document = client.fetch(get(path), 4096).await.expect("it is served");
        assert_eq!((document.status().as_u16(), document.body()), (200, &server().metadata().document()));
        let length = document.body().len();
        assert!(client.fetch(get(path), length).await.is_ok());
        let refused = client.fetch(get(path), length - 1).await.expect_err("it is too long");
        assert_eq!(refused.to_string(), "the response is too long");
        let challenged = client.fetch(get("/mcp"), 4096).await.expect("it is served");
        assert!(challenged.status() == 401 && challenged.headers().contains_key("www-authenticate"));
        stop();
        served.await.expect("it was told to");
        assert!(client.fetch(get(path), 4096).await.is_err());
    });
}

#[test]
fn stream_ends_when_its_token_expires() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        for version in WITH_SESSIONS {
            let id = begin(&endpoint, version, "ada").await;
            let listen = request("GET", "/mcp", Some("soon")).header("mcp-session-id", &id);
            let listen = listen.body(Full::new(io::Cursor::new(String::new()))).expect("a request");
            let (head, body) = endpoint.handle(listen).await.into_parts();
            assert_eq!(head.status, 200);
            let body = body.collect().await.expect("it is whole").to_bytes();
            assert_eq!(body.ends_with(b"retry: 1000\n\n"), version == "2025-11-25", "{body:?}");
            assert_eq!(send(&endpoint, Some(&id), Some("ada"), "tools/list", "").await.status, 200);
        }
        endpoint.close().await;
    });
}
