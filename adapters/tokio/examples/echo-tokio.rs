//! A server with one tool, over standard input and output.
//!
//! ```sh
//! cargo run --example tour-tokio -- target/debug/examples/echo-tokio
//! ```

use mcp_service::{Service, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// What to say.
    message: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Service::builder("echo", "1.0.0")
        .tool(Tool::new_async("echo", async |echo: Echo| echo.message).description("Says it again"))
        .build()?;
    Ok(mcp_tokio::serve_stdio(&service).await?)
}
