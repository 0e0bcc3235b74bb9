//! A server with everything that servers can have, over standard input and output.
//!
//! ```sh
//! everything-smol [--page-size N]
//! ```
//!
//! What it serves is in `adapters/examples/everything`.

#[path = "../../examples/everything/mod.rs"]
mod everything;

use std::error::Error;

use everything::Wanted;

fn main() -> Result<(), Box<dyn Error>> {
    Ok(smol::block_on(mcp_smol::serve_stdio(&Wanted::from_args()?.over_stdio()?))?)
}
