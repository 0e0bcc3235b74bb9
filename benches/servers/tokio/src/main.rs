//! The smallest server on tokio.

#[path = "../../echo.rs"]
mod echo;

use echo::{Echo, service};
use mcp_service::Tool;

fn main() -> Result<(), mcp_tokio::Error> {
    let service = service(|schema| Tool::with_schema_async("echo", schema, async |echo: Echo| echo.message));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(mcp_tokio::serve_stdio(&service))
}
