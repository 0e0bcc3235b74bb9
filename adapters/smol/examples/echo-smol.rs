//! A server with one tool, over standard input and output.
//!
//! ```sh
//! cargo run --example tour-smol -- target/debug/examples/echo-smol
//! ```

use mcp_service::{Service, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// What to say.
    message: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Service::builder("echo", "1.0.0")
        .tool(Tool::new_async("echo", async |echo: Echo| echo.message).description("Says it again"))
        .build()?;
    Ok(smol::block_on(mcp_smol::serve_stdio(&service))?)
}
