//! A server with all features, over standard input and output, over HTTP, or over raw TCP sockets.
//!
//! ```sh
//! everything-blocking [--page-size N] [--http ADDRESS | --tcp ADDRESS]
//! ```
//!
//! Over HTTP it is at `/mcp`, and at `/sse` for clients of 2024-11-05. Its service is in
//! `adapters/examples/everything`.

#[path = "../../examples/everything/mod.rs"]
mod everything;

use std::error::Error;

use everything::Wanted;
use mcp_blocking::http::Listener;

fn main() -> Result<(), Box<dyn Error>> {
    let Wanted { service, http, tcp } = Wanted::from_args()?;
    match (http, tcp) {
        (None, None) => mcp_blocking::serve_stdio(&service)?,
        (Some(address), _) => {
            let listener = Listener::bind(address)?.with_http_sse();
            eprintln!("at http://{}/mcp", listener.local_addr());
            listener.serve(&service)?;
        }
        (None, Some(address)) => {
            let listener = mcp_blocking::Listener::tcp(address)?;
            eprintln!("at tcp://{}", listener.local_addr().ok_or("no address")?);
            listener.serve(&service)?;
        }
    }
    Ok(())
}
