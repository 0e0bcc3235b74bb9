//! A server that is started again when it has ended.

use crate::driver::Tokio;

/// Starts a server when a client is requested and it does not run: the first time, and again after it has ended, as
/// often as [`RestartPolicy`](crate::RestartPolicy) allows.
///
/// Nothing runs in the background: call [`client`](Supervisor::client) each time before a request. Requests to a server
/// that has ended are not repeated. [Subscriptions](mcp_service::Peer::listen) are made again, and the era of the old
/// server is tried first.
///
/// ```no_run
/// # async fn list_tools() -> Result<(), mcp_tokio::Error> {
/// use mcp_tokio::{Command, Supervisor, mcp_service::Host};
///
/// let server = Supervisor::new(Command::new("my-server"), &Host::builder("my-client", "1.0.0").build());
/// let tools = server.client().await?.list_tools(None)?.await?;
/// # Ok(())
/// # }
/// ```
pub type Supervisor = mcp_driver::Supervisor<Tokio>;

/// A server of a [configuration file](mcp_service::config): started, or connected to over HTTP, when a client is
/// requested and there is no connection, as often as [`RestartPolicy`](crate::RestartPolicy) allows.
///
/// Its [`client`](ConfiguredServer::client) is what [`Backend::run`](mcp_service::proxy::Backend::run) connects with:
///
/// ```no_run
/// # fn example(backend: mcp_service::proxy::Backend, server: mcp_tokio::ConfiguredServer) {
/// tokio::spawn(async move { backend.run(|| server.client()).await });
/// # }
/// ```
pub type ConfiguredServer = mcp_driver::ConfiguredServer<Tokio>;
