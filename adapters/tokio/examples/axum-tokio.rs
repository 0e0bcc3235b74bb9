//! An MCP server with one tool as a route of an axum application.
//!
//! `axum::serve` bounds neither how long the head of a request may take, nor how many connections there are, nor how
//! long a client may read nothing. So this example serves connections with hyper.
//!
//! ```sh
//! cargo run --example axum-tokio -- 127.0.0.1:8000
//! cargo run --example tour-tokio -- http://127.0.0.1:8000/mcp
//! ```

use std::{env, error::Error, net::SocketAddr, time::Duration};

use axum::{Extension, Router, routing::get};
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
use mcp_service::{Service, Tool};
use mcp_tokio::http::{Endpoint, EndpointOptions, Policy};
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};

/// The maximum number of connections. A single address cannot take all of them.
const CONNECTIONS: usize = 1024;

/// The timeout of the head of a request, and of writes to a client that reads nothing.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait if no connection can be accepted, for lack of descriptors for example.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// The message to return.
    message: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = Service::builder("echo", "1.0.0")
        .tool(Tool::new_async("echo", async |echo: Echo| echo.message).description("Returns the message"))
        .build()?;
    // The router has the path of the endpoint. The policy has its host names, and the web pages that may use it.
    let endpoint = Endpoint::new(&service, EndpointOptions::new(Policy::loopback()))?;
    let app = Router::new().route("/", get(|| async { "MCP is at /mcp" })).route_service("/mcp", endpoint.clone());

    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".into());
    let listener = TcpListener::bind(address).await?;
    eprintln!("at http://{}/mcp", listener.local_addr()?);
    let (connections, graceful) = (Quota::new(CONNECTIONS), GracefulShutdown::new());
    let accept = async {
        loop {
            connections.until_free().await;
            let Ok((stream, peer)) = listener.accept().await else {
                sleep(PAUSE).await;
                continue;
            };
            // A connection of an address that has reached its share is closed.
            if let Some(permit) = connections.take(&Holder::at(peer.ip()), 1) {
                let serving = graceful.watch(connection(stream, peer, &app, &endpoint));
                tokio::spawn(async move {
                    let _permit = permit;
                    let _ = serving.await;
                });
            }
        }
    };
    let stopped = async {
        // Without a signal handler the server runs until the process is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = accept => {}
        () = stopped => {}
    }
    endpoint.close().await;
    graceful.shutdown().await;
    Ok(())
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
