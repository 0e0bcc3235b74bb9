//! A server over HTTP whose clients need access tokens: JSON Web Tokens of an authorization server. With `--dpop` as
//! the last argument, only tokens that are bound to a key of the client (DPoP).
//!
//! ```sh
//! cargo run --example protected-server-blocking --features jwt,tls -- \
//!     127.0.0.1:8000 https://mcp.example.com/mcp https://auth.example.com https://auth.example.com/jwks
//! ```

#[path = "../../examples/protected/mod.rs"]
mod protected;

use mcp_blocking::http::{FetchClient, Listener};
use protected::{Wanted, service};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = Wanted::from_args()?;
    let listener = Listener::bind(&wanted.address)?.endpoint(wanted.endpoint());
    wanted.announce()?;
    let authorization = wanted.authorization(FetchClient::new())?;
    listener.protect(authorization).serve(&service()?)?;
    Ok(())
}
