//! The smallest server on threads.

#[path = "../../echo.rs"]
mod echo;

use echo::{Echo, service};
use mcp_service::Tool;

fn main() -> Result<(), mcp_blocking::Error> {
    mcp_blocking::serve_stdio(&service(|schema| Tool::with_schema("echo", schema, |echo: Echo| echo.message)))
}
