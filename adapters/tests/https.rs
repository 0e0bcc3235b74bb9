//! Clients and servers over HTTP with TLS, and through proxies, on runtimes. The including test has the adapter as
//! `crate::adapter`, and its runtime as `crate::{run, spawn, timeout}`.

#[path = "identity.rs"]
mod identity;

use std::{
    future::Future,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    pin::Pin,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use mcp_driver::StopHandle;
use mcp_proto::protocol::VersionSet;
use mcp_service::{Host, Service, Tool};
use serde_json::json;

use self::identity::Identity;
use crate::{
    adapter::{
        Client, Error,
        http::{Connector, Listener, Proxy, rustls},
    },
    run, spawn, timeout,
};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(20);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

fn service() -> Service {
    let service = Service::builder("web", "1").tool(Tool::new_async("echo", async |echo: Echo| echo.message));
    service.build().expect("a service")
}

fn host(versions: VersionSet) -> Host {
    Host::builder("test", "1").versions(versions).build()
}

/// A running server.
struct Running {
    address: SocketAddr,
    stop: StopHandle,
    served: Pin<Box<dyn Future<Output = Result<(), Error>>>>,
}

impl Running {
    async fn new(tls: Option<&Identity>) -> Self {
        let listener = Listener::bind("127.0.0.1:0").await.expect("there is a port");
        Self::with(match tls {
            Some(identity) => listener.tls(identity.server.clone()),
            None => listener,
        })
    }

    fn with(listener: Listener) -> Self {
        let listener = listener.with_http_sse();
        let (address, stop) = (listener.local_addr(), listener.stop_handle());
        Self { address, stop, served: Box::pin(spawn(async move { listener.serve(&service()).await })) }
    }

    /// Returns a URL with the name of the certificate.
    fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://localhost:{}{path}", self.address.port())
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

async fn echo(client: &Client, message: &str) {
    let result = within(client.call_tool("echo", json!({"message": message})).expect("it is sent")).await;
    assert_eq!(result.expect("it is answered").content[0].as_text(), Some(message));
}

async fn connect(connector: Connector) -> Result<Client, String> {
    within(connector.connect(&host(VersionSet::ALL))).await.map_err(|error| error.to_string())
}

#[test]
fn serves_and_connects_over_tls() {
    run(async {
        let identity = Identity::new();
        let server = Running::new(Some(&identity)).await;
        for (versions, path) in [(VersionSet::ALL, "/mcp"), (VersionSet::LEGACY, "/mcp"), (VersionSet::LEGACY, "/sse")]
        {
            let connector =
                Connector::new(&server.url("https", path)).expect("an address").tls(identity.client.clone());
            let client = within(connector.connect(&host(versions))).await.expect("it serves");
            echo(&client, "Ünïcode\n").await;
            // More than the buffers on the way hold.
            echo(&client, &"x".repeat(3 << 20)).await;
            within(client.close()).await.into_result().expect("a good end");
        }
        server.stop().await;
    });
}

#[test]
fn rejects_untrusted_certificates() {
    run(async {
        let identity = Identity::new();
        let (server, plain) = (Running::new(Some(&identity)).await, Running::new(None).await);
        let url = server.url("https", "/mcp");
        let connector = |url: &str| Connector::new(url).expect("an address");
        // The certificate is not trusted by default, is not the one that is trusted, and is for another name.
        let unknown = connect(connector(&url)).await.expect_err("an unknown certificate");
        assert!(unknown.contains("ertificate"), "it says why: {unknown}");
        let other =
            connect(connector(&url).tls(Identity::new().client)).await.expect_err("another certificate is trusted");
        assert!(other.contains("invalid peer certificate"), "it says why: {other}");
        let number = url.replace("localhost", "127.0.0.1");
        let misnamed = connect(connector(&number).tls(identity.client.clone())).await.expect_err("another name");
        assert!(misnamed.contains("not valid for name"), "it says why: {misnamed}");
        // TLS to a server without it, and a server with TLS without it.
        let to_plain = connector(&plain.url("https", "/mcp")).tls(identity.client.clone());
        connect(to_plain).await.expect_err("it does not speak TLS");
        connect(connector(&server.url("http", "/mcp"))).await.expect_err("it speaks nothing but TLS");
        for running in [server, plain] {
            running.stop().await;
        }
    });
}

#[test]
fn closes_connections_without_tls_handshake() {
    run(async {
        let listener = Listener::bind("127.0.0.1:0").await.expect("there is a port");
        let listener = listener.tls(Identity::new().server).read_timeout(Duration::from_millis(50));
        let server = Running::with(listener);
        for text in ["", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x01\x00"] {
            hang_on(server.address, text);
        }
        server.stop().await;
    });
}

/// Sends a text that is no handshake, or not a complete one, and waits until the server disconnects.
fn hang_on(address: SocketAddr, text: &str) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a time");
    stream.write_all(text.as_bytes()).expect("it reads");
    let read = stream.read_to_end(&mut Vec::new());
    assert!(!read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "it hangs up at last");
}

/// A proxy that records the first line of each connection.
struct Relay {
    address: SocketAddr,
    received: Arc<Mutex<Vec<String>>>,
}

impl Relay {
    /// Creates a proxy that requires this authorization.
    fn new(authorization: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let relay = Self { address: listener.local_addr().expect("it has an address"), received: Arc::default() };
        let received = relay.received.clone();
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let received = received.clone();
                // Errors are visible at both ends of the connection.
                thread::spawn(move || serve(client, authorization, &received));
            }
        });
        relay
    }

    fn proxy(&self) -> Proxy {
        Proxy::new(&format!("http://{}", self.address)).expect("an address")
    }

    fn received(&self) -> Vec<String> {
        std::mem::take(&mut *self.received.lock().expect("no panic"))
    }
}

/// Serves one connection of a proxy. Requests to a server without TLS are forwarded unchanged, and so are later bytes.
fn serve(mut client: TcpStream, authorization: &str, received: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line)? > 2 {
        head += &line;
        line.clear();
    }
    let first = head.lines().next().unwrap_or_default().to_owned();
    received.lock().expect("no panic").push(first.clone());
    if !head.lines().any(|line| line == format!("proxy-authorization: {authorization}")) {
        return client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
    }
    let target = first.split(' ').nth(1).unwrap_or_default();
    let authority = target.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let mut server = TcpStream::connect(authority)?;
    if first.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    } else {
        server.write_all(format!("{head}\r\n").as_bytes())?;
    }
    server.write_all(reader.buffer())?;
    let (mut back, mut forth) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut back, &mut forth);
        let _ = forth.shutdown(std::net::Shutdown::Both);
    });
    let copied = io::copy(&mut client, &mut server);
    server.shutdown(std::net::Shutdown::Both)?;
    copied.map(|_| ())
}

#[test]
fn connects_through_a_proxy() {
    run(async {
        let identity = Identity::new();
        // "user:secret", in base64.
        let relay = Relay::new("Basic dXNlcjpzZWNyZXQ=");
        for scheme in ["http", "https"] {
            let server = Running::new((scheme == "https").then_some(&identity)).await;
            let url = server.url(scheme, "/mcp");
            let connector = Connector::new(&url).expect("an address").tls(identity.client.clone());
            let client = connect(connector.clone().proxy(relay.proxy().basic("user", "secret"))).await;
            let client = client.expect("it is let through");
            echo(&client, &"x".repeat(1 << 20)).await;
            for _ in 0..20 {
                echo(&client, "hello").await;
            }
            within(client.close()).await.into_result().expect("a good end");
            let name = format!("localhost:{}", server.address.port());
            let expected =
                if scheme == "http" { format!("POST {url} HTTP/1.1") } else { format!("CONNECT {name} HTTP/1.1") };
            let received = relay.received();
            assert!(!received.is_empty() && received.iter().all(|line| *line == expected), "{received:?}");
            assert!(received.len() < 10, "connections are used again: {}", received.len());
            // Without credentials the proxy refuses the connection.
            let refused = connect(connector.clone().proxy(relay.proxy().basic("user", "wrong"))).await;
            let refused = refused.expect_err("it is not let through");
            assert!(refused.contains("407"), "it says why: {refused}");
            // If the proxy cannot be reached, the client does not connect directly.
            let nowhere = TcpListener::bind("127.0.0.1:0").expect("there is a port").local_addr().expect("an address");
            let proxy = Proxy::new(&format!("http://{nowhere}")).expect("an address");
            let lost = connect(connector.proxy(proxy)).await.expect_err("there is no proxy");
            assert!(lost.contains(&format!("the proxy {nowhere}")), "it says why: {lost}");
            relay.received();
            server.stop().await;
        }
        for url in ["https://proxy.example:3128", "socks5://proxy.example", "proxy.example", "http://me@proxy.example"]
        {
            assert!(matches!(Proxy::new(url), Err(Error::Io(_))), "{url}");
        }
    });
}
