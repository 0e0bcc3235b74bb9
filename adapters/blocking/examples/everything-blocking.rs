//! A server with everything that servers can have, over standard input and output.
//!
//! ```sh
//! everything-blocking [--page-size N]
//! ```
//!
//! What it serves is in `adapters/examples/everything`.

#[path = "../../examples/everything/mod.rs"]
mod everything;

use std::{env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    let mut page_size = None;
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.next()) {
            ("--page-size", Some(size)) => page_size = Some(size.parse()?),
            _ => return Err("usage: everything-blocking [--page-size N]".into()),
        }
    }
    Ok(mcp_blocking::serve_stdio(&everything::service(page_size)?)?)
}
