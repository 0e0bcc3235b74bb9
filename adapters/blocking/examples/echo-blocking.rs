//! A server with one tool, over standard input and output.
//!
//! ```sh
//! cargo run --example tour-blocking -- target/debug/examples/echo-blocking
//! ```

use mcp_service::{Service, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// What to say.
    message: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Service::builder("echo", "1.0.0")
        .tool(Tool::new("echo", |echo: Echo| echo.message).description("Says it again"))
        .build()?;
    Ok(mcp_blocking::serve_stdio(&service)?)
}
