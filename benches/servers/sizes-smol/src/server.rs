//! The smallest server on smol: over stdio, over HTTP, and with authorization.

#[path = "../../echo.rs"]
mod echo;
#[cfg(feature = "auth")]
#[path = "../../sizes.rs"]
#[allow(dead_code)]
mod sizes;

use echo::{Echo, service};
pub(crate) use mcp_smol as adapter;
use mcp_service::{Service, Tool};

#[cfg(not(feature = "http"))]
async fn serve(service: &Service) -> Result<(), Box<dyn std::error::Error>> {
    Ok(adapter::serve_stdio(service).await?)
}

#[cfg(feature = "http")]
async fn serve(service: &Service) -> Result<(), Box<dyn std::error::Error>> {
    let listener = adapter::http::Listener::bind("127.0.0.1:8000").await?;
    #[cfg(feature = "auth")]
    let listener = listener.protect(sizes::server::protection());
    Ok(listener.serve(service).await?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = service(|schema| Tool::with_schema_async("echo", schema, async |echo: Echo| echo.message));
    smol::block_on(serve(&service))
}
