//! A server on tokio as the README shows it, over standard input and output.

#[path = "../../ten-lines.rs"]
mod ten_lines;

use mcp_service::{Service, Tool};
use ten_lines::Echo;

async fn echo(echo: Echo) -> String {
    echo.message
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Service::builder("echo", "1.0.0").tool(Tool::new_async("echo", echo)).build()?;
    Ok(mcp_tokio::serve_stdio(&service).await?)
}
