//! The weather server, over standard input and output. What it serves is in `adapters/examples/weather`.

#[path = "../../examples/weather/mod.rs"]
mod weather;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let service = weather::from_args()?;
    Ok(smol::block_on(mcp_smol::serve_stdio(&service))?)
}
