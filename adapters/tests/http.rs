//! Clients and servers over HTTP, on any runtime. The including test has the adapter as `crate::adapter`, and its
//! runtime as `crate::{run, spawn, timeout}`.

#[path = "http_proofs.rs"]
mod http_proofs;

use std::{
    future::Future,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use http::{Request, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full};
use mcp_driver::Watched;
use mcp_proto::wire::JsonObject;
use mcp_proto::{
    connection::{Principal, Settings},
    http::{AuthRefusal, server::Caller},
    protocol::{ProtocolVersion, VersionSet},
    schema::{CreateMessageParams, CreateMessageResult, Role, SamplingContent, SamplingMessage},
};
use mcp_service::{Context, Failure, Host, RegisterError, Service, Tool};
use serde_json::{Value, json};

use crate::{
    adapter::{
        Client, Error, StopHandle,
        http::{
            ClientOptions, Connector, Endpoint, EndpointOptions, HttpClient, Listener, Paths, Policy, ResponseHandler,
        },
    },
    run, spawn, timeout,
};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(20);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

/// Counters of the handlers.
#[derive(Default)]
struct Handlers {
    begun: usize,
    cancelled: usize,
}

fn service() -> (Service, Arc<Watched<Handlers>>) {
    let received = Arc::new(Watched::<Handlers>::default());
    let waiting = received.clone();
    let mut settings = Settings::default();
    settings.limits.drain = Duration::from_millis(100);
    let service = Service::builder("web", "1")
        .settings(settings)
        .subscriptions()
        .tool(Tool::new_async("echo", async |echo: Echo| echo.message))
        .tool(Tool::new("echo_on_a_thread", |echo: Echo| echo.message))
        .tool(Tool::new_async("ask", async |context: Context| {
            let answer = context.sample(CreateMessageParams::new([SamplingMessage::user("who?")], 10_u64)).await?;
            Ok::<_, Failure>(answer.model)
        }))
        .tool(Tool::new_async("count", async |context: Context| {
            for step in 1..=3_u8 {
                context.progress(step.into(), Some(3.0), None).await?;
            }
            Ok::<_, Failure>("counted")
        }))
        .tool(Tool::new_async("who", async |context: Context| {
            context.info().principal.as_ref().map_or_else(|| "anonymous".to_owned(), |it| it.id.clone())
        }))
        .tool(Tool::new_async("later", async |context: Context| {
            context.release_stream(Some(Duration::from_millis(1)));
            context.sleep(Duration::from_millis(50)).await.map(|()| "you are back")
        }))
        .tool(Tool::new_async("wait", move |context: Context| {
            let received = waiting.clone();
            async move {
                received.update(|received| received.begun += 1);
                context.cancelled().await;
                received.update(|received| received.cancelled += 1);
                "cancelled"
            }
        }))
        .build()
        .expect("all names differ");
    (service, received)
}

fn host(versions: VersionSet) -> Host {
    let sample = |_, _| async {
        Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("hm"), "a model"))
    };
    Host::builder("test", "1").versions(versions).sampling_async(sample).build()
}

/// A running server.
struct Running {
    address: SocketAddr,
    stop: StopHandle,
    served: Pin<Box<dyn Future<Output = Result<(), Error>>>>,
}

impl Running {
    async fn new(address: &str, service: &Service) -> Self {
        let listener = Listener::bind(address.to_owned()).await.expect("there is a port").with_http_sse();
        let (address, stop) = (listener.local_addr(), listener.stop_handle());
        let service = service.clone();
        Self { address, stop, served: Box::pin(spawn(async move { listener.serve(&service).await })) }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn stop(self) {
        (self.stop)();
        within(self.served).await.expect("it was told to");
    }
}

/// Fails the test, instead of hanging, if a future takes too long.
async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(LONG, future).await.expect("it does not take that long")
}

async fn call(client: &Client, tool: &str, arguments: Value) -> String {
    let result = within(client.call_tool(tool, arguments).expect("it is sent")).await;
    result.expect("it is answered").content[0].as_text().expect("a text").to_owned()
}

#[test]
fn one_address_serves_every_revision() {
    run(async {
        let (service, _) = service();
        let server = Running::new("127.0.0.1:0", &service).await;
        let versions = VersionSet::ALL.iter().map(VersionSet::only).chain([VersionSet::ALL, VersionSet::LEGACY]);
        for versions in versions {
            for path in ["/mcp", "/sse"] {
                let newest = versions.newest().expect("it has one");
                if path == "/sse" && newest == ProtocolVersion::V2026_07_28 {
                    continue;
                }
                let client = within(Client::connect_http(&server.url(path), &host(versions))).await.expect("it serves");
                assert_eq!(client.version(), Some(newest));
                assert_eq!(call(&client, "echo", json!({"message": "Ünïcode\n"})).await, "Ünïcode\n");
                assert_eq!(
                    call(&client, "echo_on_a_thread", json!({"message": "x".repeat(1 << 16)})).await.len(),
                    1 << 16
                );
                assert_eq!(call(&client, "ask", json!({})).await, "a model");
                assert_eq!(call(&client, "later", json!({})).await, "you are back");
                let steps = Arc::new(AtomicUsize::new(0));
                let seen = steps.clone();
                let counted = client.call_tool("count", json!({})).expect("it is sent");
                let counted = counted.on_progress(move |_| _ = seen.fetch_add(1, Ordering::SeqCst));
                within(counted).await.expect("it is answered");
                assert_eq!(steps.load(Ordering::SeqCst), 3, "{newest} at {path}");
                let ending = within(client.close()).await;
                assert!(ending.into_result().is_ok());
            }
        }
        server.stop().await;
    });
}

#[test]
fn abandoned_calls_are_cancelled() {
    run(async {
        let (service, received) = service();
        let server = Running::new("127.0.0.1:0", &service).await;
        let mut expected = 0;
        for versions in [VersionSet::ALL, VersionSet::LEGACY] {
            let client = within(Client::connect_http(&server.url("/mcp"), &host(versions))).await.expect("it serves");
            // A call that is cancelled, and one whose client is dropped.
            for round in 0..2 {
                let waits = client.call_tool("wait", json!({})).expect("it is sent");
                expected += 1;
                within(received.wait_for(|received| (received.begun == expected).then_some(()))).await;
                if round == 0 {
                    drop(waits);
                } else {
                    within(client.close()).await;
                }
                within(received.wait_for(|received| (received.cancelled == expected).then_some(()))).await;
            }
        }
        server.stop().await;
    });
}

#[test]
fn stopped_server_fails_pending_calls() {
    run(async {
        for versions in [VersionSet::ALL, VersionSet::LEGACY] {
            let (service, received) = service();
            let server = Running::new("127.0.0.1:0", &service).await;
            let client = within(Client::connect_http(&server.url("/mcp"), &host(versions))).await.expect("it serves");
            let waits = client.call_tool("wait", json!({})).expect("it is sent");
            within(received.wait_for(|received| (received.begun == 1).then_some(()))).await;
            server.stop().await;
            within(waits).await.expect_err("no answer");
            within(client.close()).await;
        }
    });
}

#[test]
fn client_reconnects_to_restarted_server() {
    run(async {
        for versions in [VersionSet::ALL, VersionSet::LEGACY] {
            let (service, _) = service();
            let server = Running::new("127.0.0.1:0", &service).await;
            let (address, url) = (server.address.to_string(), server.url("/mcp"));
            let client = within(Client::connect_http(&url, &host(versions))).await.expect("it serves");
            assert_eq!(call(&client, "echo", json!({"message": "one"})).await, "one");
            server.stop().await;
            let server = Running::new(&address, &service).await;
            assert_eq!(call(&client, "echo", json!({"message": "two"})).await, "two");
            within(client.close()).await;
            server.stop().await;
        }
    });
}

#[test]
fn connect_without_listener_is_an_error() {
    run(async {
        let (service, _) = service();
        let server = Running::new("127.0.0.1:0", &service).await;
        let url = server.url("/mcp");
        let nowhere = within(Client::connect_http(&server.url("/nowhere"), &host(VersionSet::ALL))).await;
        assert!(matches!(nowhere, Err(Error::Handshake(_))), "{nowhere:?}");
        server.stop().await;
        let refused = within(Client::connect_http(&url, &host(VersionSet::ALL))).await.expect_err("no listener");
        assert!(refused.to_string().contains("refused"), "it says why: {refused}");
        assert!(matches!(Client::connect_http("ftp://x/", &host(VersionSet::ALL)).await, Err(Error::Io(_))));
    });
}

/// Sends a text over a new connection. Returns the response.
fn exchange(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a time");
    stream.write_all(text.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn rejects_invalid_http_requests() {
    run(async {
        let (service, _) = service();
        let server = Running::new("127.0.0.1:0", &service).await;
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
        let post = |head: &str, body: &str| {
            format!(
                "POST /mcp HTTP/1.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
                 accept: application/json, text/event-stream\r\ncontent-length: {}\r\n{head}\r\n{body}",
                body.len()
            )
        };
        for (request, status) in [
            (post("host: localhost\r\n", body), 200),
            (post("host: localhost\r\norigin: http://localhost:1234\r\n", body), 200),
            (post("host: evil.example\r\n", body), 403),
            (post("host: localhost\r\norigin: http://evil.example\r\n", body), 403),
            (post("host: localhost\r\nmcp-session-id: guessed\r\n", body), 404),
            (post("", body), 400),
            (post("host: localhost\r\nhost: localhost\r\n", body), 400),
            (post(&format!("host: localhost\r\nx: {}\r\n", "x".repeat(100_000)), body), 431),
            (post("host: localhost\r\n", body).replace("content-length: ", "content-length: 99999"), 413),
            ("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_owned(), 404),
            ("PUT /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_owned(), 405),
            ("junk\r\n\r\n".to_owned(), 400),
        ] {
            let answer = exchange(server.address, &request);
            let shown = &request[..request.len().min(300)];
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status} for {shown}: {answer}");
        }
        server.stop().await;
    });
}

/// An endpoint without a network.
fn endpoint(service: &Service) -> Endpoint {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.paths = Paths::at("/mcp");
    Endpoint::new(service, options).expect("there is a runtime")
}

#[test]
fn missing_request_body_times_out() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service).read_timeout(Duration::from_millis(10));
        let request = || {
            Request::post("/mcp")
                .header(header::HOST, "localhost")
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "*/*")
        };
        for (body, status) in
            [(Broken(None), StatusCode::REQUEST_TIMEOUT), (Broken(Some("reset")), StatusCode::BAD_REQUEST)]
        {
            let answer = within(endpoint.handle(request().body(body).expect("a request"))).await;
            assert_eq!(answer.status(), status);
        }
        within(endpoint.close()).await;
        let late = within(endpoint.handle(request().body(Full::new(&b"{}"[..])).expect("a request"))).await;
        assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
    });
}

/// A body that sends no data, or fails.
struct Broken(Option<&'static str>);

impl http_body::Body for Broken {
    type Data = io::Cursor<Vec<u8>>;
    type Error = &'static str;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        self.0.map_or(Poll::Pending, |why| Poll::Ready(Some(Err(why))))
    }
}

/// Passes requests to an endpoint, if they are authorized.
struct Guarded {
    endpoint: Endpoint,
    /// The valid tokens with their subjects. If there are none, requests need no token.
    tokens: Vec<(&'static str, &'static str)>,
    look: Box<dyn Fn(&Parts) + Send + Sync>,
}

impl Guarded {
    fn open(endpoint: Endpoint, look: impl Fn(&Parts) + Send + Sync + 'static) -> Self {
        Self { endpoint, tokens: Vec::new(), look: Box::new(look) }
    }
}

impl HttpClient for Guarded {
    fn make(
        &self,
        request: Request<Arc<[u8]>>,
        mut response: ResponseHandler,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (mut head, body) = request.into_parts();
        (self.look)(&head);
        let token = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let known = self.tokens.iter().find(|(known, _)| Some(*known) == token);
        head.extensions.insert(match known {
            None if self.tokens.is_empty() => Caller::Anybody,
            Some((_, name)) => Caller::Known(Arc::new(Principal::new(*name))),
            None => Caller::Refused(AuthRefusal::unauthorized(header::HeaderValue::from_static("Bearer"))),
        });
        head.headers.insert(header::HOST, header::HeaderValue::from_static("localhost"));
        head.uri = "/mcp".parse().expect("a path");
        let request = Request::from_parts(head, Full::new(io::Cursor::new(body)));
        let endpoint = self.endpoint.clone();
        Box::pin(async move {
            let (head, mut body) = endpoint.handle(request).await.into_parts();
            response.head(&head);
            while let Some(Ok(frame)) = body.frame().await {
                frame.data_ref().into_iter().for_each(|data| response.chunk(data));
            }
            response.end();
        })
    }
}

#[test]
fn handler_messages_use_the_stream_of_the_request() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let log = seen.clone();
        let watched = Guarded::open(endpoint.clone(), move |head| {
            let last = head.headers.get("last-event-id").is_some();
            log.lock().expect("no panic").push(format!("{}{}", head.method, if last { " again" } else { "" }));
        });
        // The client opens no other stream for these messages.
        let mut address = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
        address.listen = false;
        let connector = Connector::with_client_options(address).http_client(watched);
        let client = within(connector.connect(&host(VersionSet::only(ProtocolVersion::V2025_11_25)))).await;
        let client = client.expect("it serves");
        // The first request of the server waits for the end of the handshake, so its exchange is not counted below.
        assert_eq!(call(&client, "ask", json!({})).await, "a model");
        seen.lock().expect("no panic").clear();
        assert_eq!(call(&client, "ask", json!({})).await, "a model");
        assert_eq!(std::mem::take(&mut *seen.lock().expect("no panic")), ["POST", "POST"], "the call, and an answer");
        assert_eq!(call(&client, "later", json!({})).await, "you are back");
        assert_eq!(std::mem::take(&mut *seen.lock().expect("no panic")), ["POST", "GET again"]);
        within(client.close()).await;
        within(endpoint.close()).await;
    });
}

#[test]
fn panic_of_an_http_client_ends_only_its_request() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        for versions in [VersionSet::ALL, VersionSet::LEGACY] {
            let panics = Arc::<AtomicBool>::default();
            let next = panics.clone();
            let fragile = Guarded::open(endpoint.clone(), move |_| {
                assert!(!next.swap(false, Ordering::Relaxed), "the HTTP client panics");
            });
            let address = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
            let connector = Connector::with_client_options(address).http_client(fragile);
            let client = within(connector.connect(&host(versions))).await.expect("it serves");
            // After the requests that begin a session.
            assert_eq!(call(&client, "ask", json!({})).await, "a model");
            panics.store(true, Ordering::Relaxed);
            let failed = within(client.call_tool("ask", json!({})).expect("it is allowed")).await;
            assert!(failed.is_err(), "{failed:?}");
            assert_eq!(call(&client, "ask", json!({})).await, "a model");
            within(client.close()).await;
        }
        within(endpoint.close()).await;
    });
}

#[test]
fn mirrored_headers_must_match_arguments() {
    run(async {
        let schema = r#"{"type":"object","properties":{"row":{"type":"integer","x-mcp-header":"Row"}}}"#;
        let schema = JsonObject::parse(schema).expect("an object");
        let service = Service::builder("web", "1").tool(Tool::with_schema("pick", schema, || "picked"));
        let service = service.build().expect("a service");
        let endpoint = endpoint(&service);
        for (row, status, code) in [(Some("12"), 200, None), (Some("13"), 400, Some(-32020)), (None, 400, Some(-32020))]
        {
            let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}});
            let params = json!({"name": "pick", "arguments": {"row": 12}, "_meta": meta});
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
            let mut request = Request::post("/mcp")
                .header(header::HOST, "localhost")
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, text/event-stream")
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", "tools/call")
                .header("mcp-name", "pick");
            if let Some(row) = row {
                request = request.header("mcp-param-row", row);
            }
            let answer =
                within(endpoint.handle(request.body(Full::new(io::Cursor::new(body))).expect("a request"))).await;
            assert_eq!(answer.status().as_u16(), status, "{row:?}");
            let body = answer.into_body().collect().await.expect("it is whole").to_bytes();
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!(body["error"]["code"].as_i64(), code, "{body}");
        }
        // The client sends the header, since the tool list contains its name.
        let connector =
            Connector::with_client_options(ClientOptions::new("http://server.example/mcp", 1).expect("an address"));
        let client =
            within(connector.http_client(Guarded::open(endpoint.clone(), |_| ())).connect(&host(VersionSet::ALL)))
                .await;
        let client = client.expect("it serves");
        assert_eq!(call(&client, "pick", json!({"row": 7})).await, "picked");
        within(client.close()).await;
        let bad = JsonObject::parse(r#"{"type":"object","properties":{"row":{"type":"number","x-mcp-header":"Row"}}}"#);
        let tool = Tool::with_schema("pick", bad.expect("an object"), || "");
        assert!(matches!(Service::builder("web", "1").tool(tool).build(), Err(RegisterError::Schema { .. })));
    });
}
