//! A server on smol as the README shows it, over HTTP.

#[path = "../../ten-lines.rs"]
mod ten_lines;

use mcp_service::{Service, Tool};
use ten_lines::{Echo, address};

async fn echo(echo: Echo) -> String {
    echo.message
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Service::builder("echo", "1.0.0").tool(Tool::new_async("echo", echo)).build()?;
    Ok(smol::block_on(mcp_smol::http::serve_http(&service, address()))?)
}
