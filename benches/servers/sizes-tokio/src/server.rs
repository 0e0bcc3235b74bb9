//! The smallest server over HTTP on tokio, with and without authorization.

#[path = "../../echo.rs"]
mod echo;
#[cfg(feature = "auth")]
#[path = "../../sizes.rs"]
#[allow(dead_code)]
mod sizes;

use echo::{Echo, service};
pub(crate) use mcp_tokio as adapter;
use adapter::http::Listener;
use mcp_service::Tool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = service(|schema| Tool::with_schema_async("echo", schema, async |echo: Echo| echo.message));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
    let listener = Listener::bind("127.0.0.1:8000").await?;
    #[cfg(feature = "auth")]
    let listener = listener.protect(sizes::server::protection());
    listener.serve(&service).await?;
    Ok(())
    })
}
