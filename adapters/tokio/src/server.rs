//! A server at standard input and output.

use mcp_driver::serve;
use mcp_service::Service;

use crate::transport::Transport;
use mcp_driver::Error;

/// Serves the client at standard input and output until either side ends the connection:
///
/// ```no_run
/// # use mcp_service::Service;
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let service = Service::builder("my-server", "1.0.0").build()?;
///     mcp_tokio::serve_stdio(&service).await?;
///     Ok(())
/// }
/// ```
///
/// It returns within its grace period, also while a handler that is a function still runs. Neither this function nor
/// dropping the runtime waits for such a handler.
///
/// Output of handlers with `println!` goes to standard error: see [`Transport::stdio`].
///
/// # Errors
/// As [`serve`], and if standard input and output were taken before.
pub async fn serve_stdio(service: &Service) -> Result<(), Error> {
    serve(service, Transport::stdio()?).await
}
