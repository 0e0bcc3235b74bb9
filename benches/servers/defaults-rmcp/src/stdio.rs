//! A server with rmcp, over its usual transport for standard input and output.

#[path = "../../ten-lines.rs"]
mod ten_lines;

mod echo;

use rmcp::{ServiceExt, transport::stdio};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    echo::Echo.serve(stdio()).await?.waiting().await?;
    Ok(())
}
