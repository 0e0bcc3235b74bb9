//! Listeners, which serve many clients at once.

use std::net::ToSocketAddrs;
#[cfg(unix)]
use std::path::Path;

use mcp_service::Service;

use crate::driver::Smol;
use mcp_driver::Error;

/// Accepts connections and serves each of them independently of the others.
pub type Listener = mcp_driver::Listener<Smol>;

/// Listens on a TCP address and serves its clients until the process ends or the socket fails. See [`Listener`] for
/// more options.
///
/// # Errors
/// If the socket cannot be bound to the address, or fails.
pub async fn serve_tcp(service: &Service, address: impl ToSocketAddrs + Send + 'static) -> Result<(), Error> {
    Listener::tcp(address).await?.serve(service).await
}

/// Listens on a Unix domain socket and serves its clients until the process ends or the socket fails. See [`Listener`]
/// for more options.
///
/// # Errors
/// If the socket cannot be bound to the path, or fails.
#[cfg(unix)]
pub async fn serve_unix(service: &Service, path: impl AsRef<Path>) -> Result<(), Error> {
    Listener::unix(path)?.serve(service).await
}
