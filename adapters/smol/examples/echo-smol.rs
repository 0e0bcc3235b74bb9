//! A server with one tool, over standard input and output, or over HTTP at `/mcp`.
//!
//! ```sh
//! cargo run --example tour-smol -- target/debug/examples/echo-smol
//! echo-smol --http 127.0.0.1:8000 [--answers json|sse]
//! ```

#[path = "../../examples/echo/mod.rs"]
mod echo;

use echo::Wanted;
use mcp_service::{Service, Tool};
use mcp_smol::http::Listener;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// The message to return.
    message: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = Wanted::from_args()?;
    let service = Service::builder("echo", "1.0.0")
        .tool(Tool::new_async("echo", async |echo: Echo| echo.message).description("Returns the message"))
        .build()?;
    smol::block_on(async {
        match wanted.http.clone() {
            None => mcp_smol::serve_stdio(&service).await?,
            Some(address) => Listener::bind(address).await?.endpoint(wanted.endpoint()).serve(&service).await?,
        }
        Ok(())
    })
}
