//! Runs the example with axum, authorization, web pages and metrics.

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use http::{Request, Response};
use libtest_mimic::{Arguments, Failed, Trial};
use mcp_tokio::http::{FetchClient, HttpFetch as _};
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};
use serde_json::{Value, json};

const PUBLIC: &str = "https://mcp.example/mcp";
const ISSUER: &str = "https://auth.example";
const PAGE: &str = "https://app.example";

fn main() -> ExitCode {
    // Cargo builds it with the tests, unless it builds only some tests.
    assert!(
        example().exists(),
        "build it first: cargo build -p mcp-tokio --features jwt --example axum-protected-tokio"
    );
    let trials = vec![Trial::test("the_example_needs_tokens_lets_a_page_in_and_counts", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(tour());
        Ok::<(), Failed>(())
    })];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn example() -> PathBuf {
    let program = env::current_exe().expect("it has a name");
    // This program is in the folder `deps` beside the examples.
    program.ancestors().nth(2).expect("it is in a folder").join("examples/axum-protected-tokio")
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    mcp_proto::schema::encode_base64(bytes.as_ref()).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

/// The authorization server: its key, and the address of its public key.
struct Issuer {
    key: KeyPair,
    url: String,
}

impl Issuer {
    fn start() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": encode(key.public_key_raw())});
        let body = json!({"keys": [jwk]}).to_string();
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let url = format!("http://{}/jwks", listener.local_addr().expect("it has one"));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let head = BufReader::new(&stream).lines();
                head.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
                let length = body.len();
                let _ =
                    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            }
        });
        Self { key, url }
    }

    fn token(&self, scope: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
        let head = json!({"alg": "EdDSA", "kid": "k"}).to_string();
        let claims = json!({"iss": ISSUER, "sub": "ada", "aud": PUBLIC, "exp": now + 60, "scope": scope}).to_string();
        let signed = format!("{}.{}", encode(head), encode(claims));
        let signature = self.key.sign(signed.as_bytes()).expect("it signs");
        format!("{signed}.{}", encode(signature))
    }
}

/// The running example, which is killed at the end of the test.
struct Server {
    child: Child,
    mcp: String,
    metrics: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(keys: &str) -> Self {
        let mut child = Command::new(example())
            .args(["127.0.0.1:0", "127.0.0.1:0", PUBLIC, ISSUER, keys, PAGE])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("it is piped");
        BufReader::new(out.take(1024)).read_line(&mut line).expect("it says where it is");
        let (mcp, metrics) = line.trim_end().split_once(' ').expect("two addresses");
        Self { mcp: mcp.into(), metrics: metrics.into(), child }
    }

    async fn send_request(&self, url: &str, method: &str, headers: &[(&str, &str)], body: &Value) -> Response<Vec<u8>> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { Vec::new() } else { body.to_string().into() };
        FetchClient::new().fetch(request.body(body).expect("a request"), 64 * 1024).await.expect("it responds")
    }

    /// Sends a request of 2026-07-28 from the page.
    async fn call(&self, token: Option<&str>, method: &str, tool: Option<&str>) -> Response<Vec<u8>> {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let mut params = json!({"_meta": meta});
        let mut headers = vec![
            ("origin", PAGE),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ];
        let bearer = token.map(|token| format!("Bearer {token}"));
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        if let Some(tool) = tool {
            params["name"] = tool.into();
            headers.push(("mcp-name", tool));
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send_request(&self.mcp, "POST", &headers, &body).await
    }

    async fn metrics(&self) -> String {
        let response = self.send_request(&self.metrics, "GET", &[], &Value::Null).await;
        assert!(header(&response, "content-type").starts_with("application/openmetrics-text"));
        text(&response)
    }
}

fn header(response: &Response<Vec<u8>>, name: &str) -> String {
    response.headers().get(name).map_or_else(String::new, |value| value.to_str().expect("text").to_owned())
}

fn text(response: &Response<Vec<u8>>) -> String {
    String::from_utf8(response.body().clone()).expect("text")
}

async fn tour() {
    let issuer = Issuer::start();
    let server = Server::start(&issuer.url);

    // The preflight request of the page is allowed, and that of another page is not.
    let requested = |origin| [("origin", origin), ("access-control-request-method", "POST")];
    let allowed = server.send_request(&server.mcp, "OPTIONS", &requested(PAGE), &Value::Null).await;
    assert_eq!((allowed.status().as_u16(), &*header(&allowed, "access-control-allow-origin")), (204, PAGE));
    assert!(header(&allowed, "access-control-allow-headers").contains("authorization"));
    let refused = server.send_request(&server.mcp, "OPTIONS", &requested("https://evil.example"), &Value::Null).await;
    assert_eq!((refused.status().as_u16(), &*header(&refused, "access-control-allow-origin")), (403, ""));

    // Without a token there is a challenge, which names the document and can be read by the page.
    let challenged = server.call(None, "tools/list", None).await;
    let document = "https://mcp.example/.well-known/oauth-protected-resource/mcp";
    assert_eq!(challenged.status(), 401);
    assert!(header(&challenged, "www-authenticate").contains(&format!("resource_metadata=\"{document}\"")));
    assert_eq!(header(&challenged, "access-control-allow-origin"), PAGE);
    assert!(header(&challenged, "access-control-expose-headers").contains("www-authenticate"));
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let url = server.mcp.replace("/mcp", path);
        let found = server.send_request(&url, "GET", &[("origin", PAGE)], &Value::Null).await;
        let found: Value = serde_json::from_slice(found.body()).expect("JSON");
        assert_eq!([&found["resource"], &found["authorization_servers"]], [&json!(PUBLIC), &json!([ISSUER])]);
    }
    assert_eq!(server.call(Some("forged"), "tools/list", None).await.status(), 401);
    assert_eq!(server.call(Some(&issuer.token("other")), "tools/list", None).await.status(), 403);

    // With a token, the tools with its scopes can be called.
    let (token, writes) = (issuer.token("mcp"), issuer.token("mcp notes:write"));
    let called = server.call(Some(&token), "tools/call", Some("whoami")).await;
    assert!(called.status() == 200 && text(&called).contains("https://auth.example ada"), "{called:?}");
    let refused = server.call(Some(&token), "tools/call", Some("forget")).await;
    assert_eq!(refused.status(), 403);
    assert!(header(&refused, "www-authenticate").contains("scope=\"mcp notes:write\""));
    assert_eq!(server.call(Some(&writes), "tools/call", Some("forget")).await.status(), 200);
    assert_eq!(server.call(Some(&token), "made/up", None).await.status(), 404);

    // All of it is counted, and no name that a client has chosen becomes a label.
    let metrics = server.metrics().await;
    for line in [
        "mcp_requests_total{method=\"tools/call\",name=\"whoami\",outcome=\"result\"} 1",
        "mcp_requests_total{method=\"tools/call\",name=\"forget\",outcome=\"result\"} 1",
        "mcp_request_duration_seconds_count{method=\"tools/call\",name=\"whoami\",outcome=\"result\"} 1",
        "mcp_request_duration_seconds_bucket{le=\"60.0\",method=\"tools/call\",name=\"whoami\",outcome=\"result\"} ",
        "mcp_requests_in_flight{method=\"tools/call\"} 0",
        "http_responses_total{status=\"204\"} 1",
        "http_responses_total{status=\"401\"} 2",
        "http_responses_total{status=\"403\"} 3",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert!(!metrics.contains("made/up") && metrics.ends_with("# EOF\n"), "{metrics}");
    // The metrics are not at the public address.
    let url = server.mcp.replace("/mcp", "/metrics");
    assert_eq!(server.send_request(&url, "GET", &[], &Value::Null).await.status(), 404);
}
