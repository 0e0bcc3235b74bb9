//! Offers the operations of an HTTP API as tools. The API is a small server in this program, and a client in memory
//! calls the tools:
//!
//! ```sh
//! cargo run -p mcp-tokio --features openapi --example openapi-tokio
//! ```

use std::error::Error;
#[cfg(not(test))]
use std::io::Write;

use axum::{
    Router,
    extract::Path,
    http::{HeaderMap, StatusCode, header},
    routing::get,
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Uri, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use mcp_tokio::{
    Client, Transport,
    mcp_service::{
        Context, Failure, Host, Service, ServiceBuilder,
        openapi::{HttpRequest, HttpResponse, OpenApi},
    },
};
use tokio::net::{TcpListener, TcpStream};

/// The document of the API.
const DOCUMENT: &str = r##"{
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1.0.0"},
    "paths": {"/pets/{name}": {"get": {
        "operationId": "getPet",
        "summary": "Returns a pet",
        "parameters": [{
            "name": "name", "in": "path", "required": true, "description": "The name of the pet",
            "schema": {"type": "string"}
        }],
        "responses": {"200": {
            "description": "The pet",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}
        }}
    }}},
    "components": {"schemas": {"Pet": {
        "type": "object", "properties": {"name": {"type": "string"}, "kind": {"type": "string"}}, "required": ["name", "kind"]
    }}}
}"##;

/// The credential for the API. Clients and models never see it.
const TOKEN: &str = "Bearer example";

/// The API.
fn api() -> Router {
    let pet = async |Path(name): Path<String>, headers: HeaderMap| {
        let is_json = [(header::CONTENT_TYPE, "application/json")];
        if headers.get(header::AUTHORIZATION).is_none_or(|token| token != TOKEN) {
            return (StatusCode::UNAUTHORIZED, is_json, r#"{"error": "a token is required"}"#);
        }
        match name.as_str() {
            "Rex" => (StatusCode::OK, is_json, r#"{"name": "Rex", "kind": "dog"}"#),
            _ => (StatusCode::NOT_FOUND, is_json, r#"{"error": "there is no such pet"}"#),
        }
    };
    Router::new().route("/v1/pets/{name}", get(pet))
}

/// Sends a request to the API.
async fn send(request: HttpRequest, context: Context) -> Result<HttpResponse, Failure> {
    tokio::select! {
        response = exchange(request) => response,
        _ = context.cancelled() => Err(Failure::new("the call was cancelled")),
    }
}

async fn exchange(request: HttpRequest) -> Result<HttpResponse, Failure> {
    let uri: Uri = request.url.parse()?;
    // This client has no TLS, and the token must not be sent without it where the URL says so.
    if uri.scheme_str() != Some("http") {
        return Err(Failure::new("the scheme of the URL is not http"));
    }
    let authority = uri.authority().ok_or("the URL has no host")?.clone();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let stream = TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut head = Request::builder().method(request.method).uri(path);
    head = head.header(header::HOST, authority.as_str()).header(header::AUTHORIZATION, TOKEN);
    for (name, value) in &request.headers {
        head = head.header(name, value);
    }
    let sent = head.body(Full::new(Bytes::from(request.body.unwrap_or_default())))?;
    let exchange = async {
        let (head, body) = sender.send_request(sent).await?.into_parts();
        let body = Limited::new(body, request.max_response_bytes).collect().await.map_err(|error| error.to_string())?;
        let mut response = HttpResponse::new(head.status.as_u16()).body(body.to_bytes());
        if let Some(Ok(media_type)) = head.headers.get(header::CONTENT_TYPE).map(|value| value.to_str()) {
            response = response.header("content-type", media_type);
        }
        Ok(response)
    };
    tokio::pin!(exchange);
    // The connection is driven until the response is there.
    tokio::select! {
        response = &mut exchange => response,
        ended = connection => {
            ended?;
            exchange.await
        }
    }
}

/// Starts the API, and calls its operations as tools. Returns what they return.
pub(crate) async fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base_url = format!("http://{}/v1", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, api()).await });
    call(&base_url).await
}

/// Calls the operations of the API at a base URL as tools. Returns what they return.
pub(crate) async fn call(base_url: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let document = OpenApi::parse(DOCUMENT)?;
    for refused in document.refused() {
        eprintln!("{refused}");
    }
    let tools = document.tools_async(base_url, send)?;
    let service = Service::builder("pets", "1.0.0")
        .register(|builder| tools.into_iter().fold(builder, ServiceBuilder::tool))
        .build()?;

    let (near, far) = Transport::pair(64 * 1024);
    tokio::spawn(async move { mcp_tokio::serve(&service, far).await });
    let client = Client::connect(near, &Host::builder("example", "1.0.0").build()).await?;
    let mut lines = Vec::new();
    for name in ["Rex", "../../admin"] {
        let result = client.call_tool("getPet", serde_json::json!({"name": name}))?.await?;
        let text = result.content.first().and_then(|content| content.as_text()).unwrap_or_default();
        lines.push(format!("{name}: {text}"));
    }
    client.close().await;
    Ok(lines)
}

#[cfg(not(test))]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    run().await?.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(())
}
