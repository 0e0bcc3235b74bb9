//! The weather server, over standard input and output. What it serves is in `adapters/examples/weather`.

#[path = "../../examples/weather/mod.rs"]
mod weather;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    Ok(mcp_blocking::serve_stdio(&weather::from_args()?)?)
}
