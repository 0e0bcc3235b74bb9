//! A server on tokio as the README shows it, over HTTP.

#[path = "../../ten-lines.rs"]
mod ten_lines;

use mcp_service::{Service, Tool};
use ten_lines::{Echo, address};

async fn echo(echo: Echo) -> String {
    echo.message
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Service::builder("echo", "1.0.0").tool(Tool::new_async("echo", echo)).build()?;
    Ok(mcp_tokio::http::serve_http(&service, address()).await?)
}
