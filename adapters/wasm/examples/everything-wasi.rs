//! A server with all features, over standard input and output in WASI.
//!
//! ```sh
//! cargo build -p mcp-wasm --example everything-wasi --target wasm32-wasip1
//! wasmtime target/wasm32-wasip1/debug/examples/everything-wasi.wasm [--page-size N]
//! ```
//!
//! Its service is in `adapters/examples/everything`.

#[path = "../../examples/everything/mod.rs"]
mod everything;

use std::error::Error;

use everything::Wanted;

fn main() -> Result<(), Box<dyn Error>> {
    let Wanted { service, http, tcp } = Wanted::from_args()?;
    if http.is_some() || tcp.is_some() {
        return Err("WASI has no sockets: only standard input and output".into());
    }
    Ok(serve_stdio(&service)?)
}

#[cfg(any(unix, target_os = "wasi"))]
use mcp_wasm::wasi::serve_stdio;

#[cfg(not(any(unix, target_os = "wasi")))]
fn serve_stdio(_: &mcp_wasm::mcp_service::Service) -> Result<(), Box<dyn Error>> {
    Err("this program is for WASI".into())
}
