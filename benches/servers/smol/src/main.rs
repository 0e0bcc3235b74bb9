//! The smallest server on smol.

#[path = "../../echo.rs"]
mod echo;

use echo::{Echo, service};
use mcp_service::Tool;

fn main() -> Result<(), mcp_smol::Error> {
    let service = service(|schema| Tool::with_schema_async("echo", schema, async |echo: Echo| echo.message));
    smol::block_on(mcp_smol::serve_stdio(&service))
}
