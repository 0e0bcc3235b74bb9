//! A server on threads as the README shows it, over HTTP.

#[path = "../../ten-lines.rs"]
mod ten_lines;

use mcp_service::{Service, Tool};
use ten_lines::{Echo, address};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Service::builder("echo", "1.0.0").tool(Tool::new("echo", |echo: Echo| echo.message)).build()?;
    Ok(mcp_blocking::http::serve_http(&service, address())?)
}
