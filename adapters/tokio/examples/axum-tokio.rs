//! A server of one tool among the routes of an application of axum.
//!
//! ```sh
//! cargo run --example axum-tokio -- 127.0.0.1:8000
//! cargo run --example tour-tokio -- http://127.0.0.1:8000/mcp
//! ```

use std::{env, error::Error};

use axum::{Router, routing::get};
use mcp_service::{Service, Tool};
use mcp_tokio::http::{Endpoint, Options, Policy};
use tokio::net::TcpListener;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// What to say.
    message: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = Service::builder("echo", "1.0.0")
        .tool(Tool::new_async("echo", async |echo: Echo| echo.message).description("Says it again"))
        .build()?;
    // The router says where it is; under which names, and by which web pages it may be asked, is said here.
    let endpoint = Endpoint::new(&service, Options::new(Policy::loopback()))?;
    let app = Router::new().route("/", get(|| async { "MCP is at /mcp" })).route_service("/mcp", endpoint.clone());

    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".into());
    let listener = TcpListener::bind(address).await?;
    eprintln!("at http://{}/mcp", listener.local_addr()?);
    let stopped = async move {
        // Without a signal there is nothing to wait for, and it serves until the process is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        endpoint.close().await;
    };
    Ok(axum::serve(listener, app).with_graceful_shutdown(stopped).await?)
}
