//! A server with all features, over standard input and output, over HTTP, or over raw TCP sockets.
//!
//! ```sh
//! everything-tokio [--page-size N] [--stateless KEY] [--http ADDRESS | --tcp ADDRESS]
//! ```
//!
//! Over HTTP it is at `/mcp`, and at `/sse` for clients of 2024-11-05. Its service is in
//! `adapters/examples/everything`.

#[path = "../../examples/everything/mod.rs"]
mod everything;

use std::error::Error;

use everything::Wanted;
use mcp_tokio::http::Listener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Wanted { service, http, tcp } = Wanted::from_args()?;
    match (http, tcp) {
        (None, None) => mcp_tokio::serve_stdio(&service).await?,
        (Some(address), _) => {
            let listener = Listener::bind(address).await?.with_http_sse();
            eprintln!("at http://{}/mcp", listener.local_addr());
            listener.serve(&service).await?;
        }
        (None, Some(address)) => {
            let listener = mcp_tokio::Listener::tcp(address).await?;
            eprintln!("at tcp://{}", listener.local_addr().ok_or("no address")?);
            listener.serve(&service).await?;
        }
    }
    Ok(())
}
