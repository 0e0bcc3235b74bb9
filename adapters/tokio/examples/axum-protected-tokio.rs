//! A protected server in an application of axum, in one file: access tokens, web pages of one origin, and metrics.
//!
//! The clients of the public address need JSON Web Tokens of an authorization server. The page at `ORIGIN` may use the
//! server from browsers. `/metrics` is at an address of its own, since it needs no token and is not for the public.
//!
//! ```sh
//! cargo run --example axum-protected-tokio --features jwt,tls -- 127.0.0.1:8000 127.0.0.1:9000 \
//!     https://mcp.example.com/mcp https://auth.example.com https://auth.example.com/jwks https://app.example.com
//! curl http://127.0.0.1:9000/metrics
//! ```

use std::{env, error::Error, io, net::SocketAddr, sync::atomic::AtomicU64, time::Duration};

use axum::{
    Extension, Router,
    extract::{Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use mcp_driver::{
    Holder, Quota,
    http::{PeerAddr, WriteTimeout},
};
use mcp_proto::auth::{ResourceMetadata, Scopes};
use mcp_service::{
    Context, RegisterError, Service, Tool,
    layers::{DURATION, IN_FLIGHT, Labels, Metrics, MetricsRecorder, REQUESTS},
};
use mcp_tokio::http::{Endpoint, EndpointOptions, FetchClient, JwtVerifier, KeySource, Policy, ResourceServer};
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};

/// The maximum number of connections at each address. A single client cannot take all of them.
const CONNECTIONS: usize = 1024;

/// The timeout of the head of a request, and of writes to a client that reads nothing.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait if no connection can be accepted, for lack of descriptors for example.
const PAUSE: Duration = Duration::from_millis(50);

/// The bounds of the histogram, in seconds.
const BUCKETS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// The labels of a measurement, whose values are bounded: see [`Metrics`].
type Named = Vec<(&'static str, String)>;

/// The metrics. The layer [`Metrics`] measures requests of MCP.
#[derive(Clone)]
struct Measured {
    requests: Family<Named, Counter>,
    durations: Family<Named, Histogram>,
    in_flight: Family<Named, Gauge<f64, AtomicU64>>,
    responses: Family<[(&'static str, u16); 1], Counter>,
}

impl Measured {
    fn new(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let measured = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            in_flight: Family::default(),
            responses: Family::default(),
        };
        let Self { requests, durations, in_flight, responses } = measured.clone();
        // The library adds `_total` to the names of counters.
        registry.register(
            REQUESTS.trim_end_matches("_total"),
            "Requests of MCP, by method, name and outcome",
            requests,
        );
        registry.register(DURATION, "How long requests of MCP take", durations);
        registry.register(IN_FLIGHT, "Requests of MCP in flight", in_flight);
        registry.register("http_responses", "Responses over HTTP, by status", responses);
        measured
    }
}

impl MetricsRecorder for Measured {
    fn count(&self, _: &'static str, labels: &Labels<'_>, by: u64) {
        self.requests.get_or_create(&owned(labels)).inc_by(by);
    }

    fn observe(&self, _: &'static str, labels: &Labels<'_>, value: f64) {
        self.durations.get_or_create(&owned(labels)).observe(value);
    }

    fn adjust(&self, _: &'static str, labels: &Labels<'_>, by: f64) {
        self.in_flight.get_or_create(&owned(labels)).inc_by(by);
    }
}

fn owned(labels: &Labels<'_>) -> Named {
    labels.iter().map(|&(name, value)| (name, value.to_owned())).collect()
}

/// Builds a service with a tool for all clients with a token, and one for those with a scope.
fn service(measured: Measured) -> Result<Service, RegisterError> {
    let who = |context: Context| context.info().principal.as_ref().map_or_else(String::new, |who| who.id.clone());
    Service::builder("notes", "1.0.0")
        .tool(Tool::new("whoami", who).description("Returns the subject of the token"))
        .tool(Tool::new("forget", || "All notes are gone").description("Deletes all notes").scope("notes:write"))
        .with_layer(Metrics::new(measured))
        .build()
}

/// Counts the responses over HTTP, including those to requests that have not reached the service, such as ones without
/// a token.
async fn count_response(State(measured): State<Measured>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    measured.responses.get_or_create(&[("status", response.status().as_u16())]).inc();
    response
}

/// Writes the metrics in the text format that Prometheus reads.
async fn write_metrics(State(registry): State<&'static Registry>) -> Response {
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => {
            ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    let Ok([address, metrics_address, url, issuer, keys, origin]) = <[String; 6]>::try_from(args) else {
        return Err("arguments: ADDRESS METRICS-ADDRESS PUBLIC-URL ISSUER JWKS-URL ORIGIN".into());
    };
    let mut registry = Registry::default();
    let measured = Measured::new(&mut registry);

    // Authorization.
    let metadata = ResourceMetadata::new(url.parse()?, issuer.parse()?)
        .required_scopes(Scopes::of(["mcp"]).ok_or("no scopes")?)
        .supported_scopes(Scopes::of(["notes:write"]).ok_or("no scopes")?);
    let verifier = JwtVerifier::new(&issuer, metadata.resource(), KeySource::remote(&keys, FetchClient::new())?);
    let authorization = ResourceServer::of(metadata, verifier);

    // CORS follows the origins of the policy: the endpoint responds to preflight requests itself. A proxy in front of
    // this server, which has the certificate, checks the name of the host.
    let options = EndpointOptions::new(Policy::any_host().allow_origin(&origin)?);
    let endpoint = Endpoint::new(&service(measured.clone())?, options)?.protect(authorization);
    let app = Router::new()
        .route_service("/mcp", endpoint.clone())
        // Clients find the authorization server at these paths.
        .route_service("/.well-known/oauth-protected-resource", endpoint.clone())
        .route_service("/.well-known/oauth-protected-resource/{*path}", endpoint.clone())
        .layer(middleware::from_fn_with_state(measured, count_response));
    let registry: &'static Registry = Box::leak(Box::new(registry));
    let internal = Router::new().route("/metrics", get(write_metrics)).with_state(registry);

    let public = TcpListener::bind(address).await?;
    let private = TcpListener::bind(metrics_address).await?;
    announce(&public, &private)?;
    let graceful = GracefulShutdown::new();
    let stopped = async {
        // Without a signal handler the server runs until the process is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = serve(&public, &app, &endpoint, &graceful) => {}
        () = serve(&private, &internal, &endpoint, &graceful) => {}
        () = stopped => {}
    }
    endpoint.close().await;
    graceful.shutdown().await;
    Ok(())
}

/// Prints the addresses of the server and of its metrics.
fn announce(public: &TcpListener, private: &TcpListener) -> io::Result<()> {
    use io::Write as _;
    let (public, private) = (public.local_addr()?, private.local_addr()?);
    writeln!(io::stdout(), "http://{public}/mcp http://{private}/metrics")
}

/// Serves the connections of a listener. `axum::serve` would bound neither their number nor their time.
async fn serve(listener: &TcpListener, app: &Router, endpoint: &Endpoint, graceful: &GracefulShutdown) {
    let connections = Quota::new(CONNECTIONS);
    loop {
        connections.until_free().await;
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        // A connection of an address that has reached its share is closed.
        if let Some(permit) = connections.take(&Holder::at(peer.ip()), 1) {
            let serving = graceful.watch(connection(stream, peer, app, endpoint));
            tokio::spawn(async move {
                let _permit = permit;
                let _ = serving.await;
            });
        }
    }
}

/// Serves one connection.
fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    app: &Router,
    endpoint: &Endpoint,
) -> http1::Connection<impl hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static, TowerToHyperService<Router>> {
    let stream = WriteTimeout::new(TokioIo::new(stream), endpoint.runtime(), TIMEOUT);
    // Clients without a principal are distinguished by their addresses.
    let app = app.clone().layer(Extension(PeerAddr(peer.ip())));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .serve_connection(stream, TowerToHyperService::new(app))
}
