//! Heads of HTTP requests for handlers, on any runtime.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Full};
use mcp_driver::http::PeerAddr;
use mcp_proto::protocol::{ProtocolVersion, VersionSet};
use mcp_service::{Context, Host, Service, Tool};

use crate::{
    adapter::{
        Client,
        http::{
            ClientOptions, Connector, Endpoint, EndpointOptions, ExposedHeads, HttpClient, Listener, Policy,
            RequestHead, ResponseHandler,
        },
    },
    run, spawn, timeout,
};

/// A value that a layer in front of the endpoint adds.
#[derive(Clone)]
struct Tenant(String);

fn service() -> Service {
    let tool = Tool::new_async("head", async |context: Context| {
        let Some(head) = context.info().extension::<RequestHead>() else { return "nothing".to_owned() };
        let tenant = head.extensions.get::<Tenant>().map_or("-", |tenant| &tenant.0);
        let [number, secret, cookie] = ["x-number", "authorization", "cookie"].map(|name| head.header(name));
        format!("{} {tenant} {} {}", number.unwrap_or("-"), secret.unwrap_or("-"), cookie.unwrap_or("-"))
    });
    let peer = Tool::new_async("peer", async |context: Context| {
        let head = context.info().extension::<RequestHead>();
        let peer = head.and_then(|head| head.extensions.get::<PeerAddr>());
        peer.map_or_else(|| "unknown".to_owned(), |peer| peer.0.to_string())
    });
    Service::builder("heads", "1").tool(tool).tool(peer).build().expect("a good service")
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), future).await.expect("it does not take that long")
}

/// Passes requests to an endpoint as a layer does, each with another number.
struct Layer {
    endpoint: Endpoint,
    count: AtomicUsize,
}

impl HttpClient for Layer {
    fn make(
        &self,
        request: Request<Arc<[u8]>>,
        mut response: ResponseHandler,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (mut head, body) = request.into_parts();
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        head.extensions.insert(Tenant(format!("tenant-{number}")));
        head.headers.insert("x-number", number.to_string().parse().expect("a number"));
        head.headers.insert(header::AUTHORIZATION, HeaderValue::from_static("secret"));
        head.headers.insert(header::COOKIE, HeaderValue::from_static("crumbs"));
        head.headers.insert(header::HOST, HeaderValue::from_static("localhost"));
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

fn options(heads: Option<ExposedHeads>) -> EndpointOptions {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.heads = heads;
    options
}

fn host(version: ProtocolVersion) -> Host {
    Host::builder("test", "1").versions(VersionSet::only(version)).build()
}

async fn call(client: &Client) -> String {
    call_tool(client, "head").await
}

async fn call_tool(client: &Client, name: &str) -> String {
    let result = within(client.call_tool(name, ()).expect("it is sent")).await.expect("a result");
    result.content[0].as_text().expect("a text").to_owned()
}

async fn connect(heads: Option<ExposedHeads>, version: ProtocolVersion) -> Client {
    let endpoint = Endpoint::new(&service(), options(heads)).expect("there is a runtime");
    let mut address = ClientOptions::new("http://localhost/mcp", 1).expect("an address");
    address.listen = false;
    let connector = Connector::with_client_options(address);
    let (host, layer) = (host(version), Layer { endpoint, count: AtomicUsize::new(0) });
    within(connector.http_client(layer).connect(&host)).await.expect("it serves")
}

const VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

#[test]
fn each_handler_gets_the_head_of_its_own_request() {
    run(async {
        for version in VERSIONS {
            let client = connect(Some(ExposedHeads::new()), version).await;
            let (first, second) = (call(&client).await, call(&client).await);
            let numbers = [&first, &second].map(|head| {
                let number = head.split(' ').next().expect("a word").to_owned();
                assert_eq!(**head, format!("{number} tenant-{number} - -"), "{version}");
                number.parse::<usize>().expect("a number")
            });
            assert!(numbers[0] < numbers[1], "{version}: {numbers:?}");
            client.close().await;
        }
    });
}

#[test]
fn heads_are_exposed_on_request_only() {
    run(async {
        for version in VERSIONS {
            let client = connect(None, version).await;
            assert_eq!(call(&client).await, "nothing");
            client.close().await;
            let client = connect(Some(ExposedHeads::only([header::AUTHORIZATION])), version).await;
            let head = call(&client).await;
            assert!(head.starts_with("- tenant-") && head.ends_with(" secret -"), "{version}: {head}");
            client.close().await;
        }
    });
}

#[test]
fn listeners_expose_heads() {
    run(async {
        let listener = Listener::bind("127.0.0.1:0".to_owned()).await.expect("there is a port");
        let listener = listener.endpoint(options(Some(ExposedHeads::new())));
        let (address, stop) = (listener.local_addr(), listener.stop_handle());
        let serving = spawn(async move { listener.serve(&service()).await });
        for version in VERSIONS {
            let url = format!("http://{address}/mcp");
            let mut address = ClientOptions::new(&url, 1).expect("an address");
            address.headers.insert("x-number", HeaderValue::from_static("7"));
            address.headers.insert(header::COOKIE, HeaderValue::from_static("crumbs"));
            let connector = Connector::with_client_options(address);
            let client = within(connector.connect(&host(version))).await.expect("it serves");
            assert_eq!(call(&client).await, "7 - - -", "{version}");
            assert_eq!(call_tool(&client, "peer").await, "127.0.0.1", "{version}");
            client.close().await;
        }
        stop();
        within(serving).await.expect("it was told to");
    });
}
