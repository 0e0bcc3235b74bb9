//! A server on threads as the README shows it, over standard input and output.

#[path = "../../ten-lines.rs"]
mod ten_lines;

use mcp_service::{Service, Tool};
use ten_lines::Echo;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Service::builder("echo", "1.0.0").tool(Tool::new("echo", |echo: Echo| echo.message)).build()?;
    Ok(mcp_blocking::serve_stdio(&service)?)
}
