//! A server with everything that servers can have, over standard input and output.
//!
//! ```sh
//! everything-tokio [--page-size N]
//! ```
//!
//! What it serves is in `adapters/examples/everything`.

#[path = "../../examples/everything/mod.rs"]
mod everything;

use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(mcp_tokio::serve_stdio(&everything::from_args()?).await?)
}
