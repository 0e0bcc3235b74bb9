//! The smallest server on threads: over stdio, over HTTP, and with authorization.

#[path = "../../echo.rs"]
mod echo;
#[cfg(feature = "auth")]
#[path = "../../sizes.rs"]
#[allow(dead_code)]
mod sizes;

use echo::{Echo, service};
pub(crate) use mcp_blocking as adapter;
use mcp_service::{Service, Tool};

#[cfg(not(feature = "http"))]
fn serve(service: &Service) -> Result<(), Box<dyn std::error::Error>> {
    Ok(adapter::serve_stdio(service)?)
}

#[cfg(feature = "http")]
fn serve(service: &Service) -> Result<(), Box<dyn std::error::Error>> {
    let listener = adapter::http::Listener::bind("127.0.0.1:8000")?;
    #[cfg(feature = "auth")]
    let listener = listener.protect(sizes::server::protection());
    Ok(listener.serve(service)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = service(|schema| Tool::with_schema("echo", schema, |echo: Echo| echo.message));
    serve(&service)
}
