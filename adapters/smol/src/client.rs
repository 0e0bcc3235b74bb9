//! A connection to a server.

use crate::driver::Smol;

/// A connection to a server after the handshake.
///
/// It dereferences to a [`Peer`](mcp_service::Peer), which has a method for each request to a server and options per
/// call:
///
/// ```no_run
/// # use std::time::Duration;
/// # use mcp_smol::{Client, Command, Error};
/// # use mcp_service::Host;
/// # async fn tour() -> Result<(), Error> {
/// let host = Host::builder("my-client", "1.0.0").build();
/// let client = Client::spawn(Command::new("my-server").arg("--fast"), &host).await?;
/// let mut tools = client.all_tools();
/// while let Some(tool) = tools.try_next().await? {
///     println!("{}", tool.name);
/// }
/// let call = client.within(Duration::from_secs(10)).call_tool("dig", ())?;
/// let stop = call.canceller(); // for another task; dropping `call` cancels too
/// let result = call.on_progress(|progress| println!("{}", progress.progress)).await?;
/// let ending = client.close().await;
/// # let _ = (stop, result, ending);
/// # Ok(())
/// # }
/// ```
///
/// It is cheap to clone, and any number of tasks can use it at once. When the last clone is dropped, the connection
/// begins to [close](Client::close); its task completes this as long as the process runs. A `Peer` alone does not keep
/// it open.
pub type Client = mcp_driver::Client<Smol>;
