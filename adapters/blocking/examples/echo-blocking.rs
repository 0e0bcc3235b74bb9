//! A server with one tool, over standard input and output, or over HTTP at `/mcp`.
//!
//! ```sh
//! cargo run --example tour-blocking -- target/debug/examples/echo-blocking
//! echo-blocking --http 127.0.0.1:8000 [--answers json|sse]
//! ```

#[path = "../../examples/echo/mod.rs"]
mod echo;

use echo::Wanted;
use mcp_blocking::http::Listener;
use mcp_service::{Service, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// The message to return.
    message: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = Wanted::from_args()?;
    let service = Service::builder("echo", "1.0.0")
        .tool(Tool::new("echo", |echo: Echo| echo.message).description("Returns the message"))
        .build()?;
    match &wanted.http {
        None => mcp_blocking::serve_stdio(&service)?,
        Some(address) => Listener::bind(address)?.endpoint(wanted.endpoint()).serve(&service)?,
    }
    Ok(())
}
