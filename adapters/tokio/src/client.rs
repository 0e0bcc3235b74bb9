//! A connection to a server.

use std::{fmt, ops::Deref, path::Path};

use mcp_driver::Runtime;
use mcp_proto::{connection::ClientRole, schema::InitializeResult};
use mcp_service::{Deferred, Host, Peer};
use tokio::net::{TcpStream, ToSocketAddrs, UnixStream};

use crate::{child, driver::Tokio, transport::Transport};
use mcp_driver::{Command, Disconnected, DriverOptions, Error};

/// A connection to a server after the handshake.
///
/// It dereferences to a [`Peer`], which has a method for each request to a server and options per call:
///
/// ```no_run
/// # use std::time::Duration;
/// # use mcp_tokio::{Client, Command, Error};
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
/// begins to [close](Self::close); its task completes this as long as the runtime runs. A `Peer` alone does not keep it
/// open.
#[derive(Clone)]
pub struct Client(mcp_driver::Client);

impl Client {
    /// Starts a program and connects to its standard input and output.
    ///
    /// Some old servers exit when the client probes their era. Such a program is started a second time, without the
    /// probe.
    ///
    /// # Errors
    /// If the program cannot be started, or is no server that the host supports.
    pub async fn spawn(command: Command, host: &Host) -> Result<Self, Error> {
        Self::spawn_with(command, host, &DriverOptions::default()).await
    }

    /// Starts a program and connects to it as [`spawn`](Self::spawn) does, with these options.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub async fn spawn_with(command: Command, host: &Host, options: &DriverOptions) -> Result<Self, Error> {
        let command = &command;
        let start = || async move {
            let (transport, child) = child::spawn(command, &Tokio::current()?)
                .map_err(|error| Error::Spawn { program: command.program(), error })?;
            Ok((transport, Some(child)))
        };
        Ok(Self(mcp_driver::Client::connect_with_retry(start, host, options).await?))
    }

    /// Connects over TCP. If the server closes the connection because of the probe of its era, the client connects a
    /// second time without the probe.
    ///
    /// # Errors
    /// If no server listens there, or the host does not support it.
    pub async fn connect_tcp(address: impl ToSocketAddrs, host: &Host) -> Result<Self, Error> {
        let address = &address;
        let connect = || async move { Ok((Transport::tcp(TcpStream::connect(address).await?)?, None)) };
        Ok(Self(mcp_driver::Client::connect_with_retry(connect, host, &DriverOptions::default()).await?))
    }

    /// Connects to a Unix domain socket, as [`connect_tcp`](Self::connect_tcp) does.
    ///
    /// # Errors
    /// As [`connect_tcp`](Self::connect_tcp).
    pub async fn connect_unix(path: impl AsRef<Path>, host: &Host) -> Result<Self, Error> {
        let path = path.as_ref();
        let connect = || async move { Ok((Transport::unix(UnixStream::connect(path).await?), None)) };
        Ok(Self(mcp_driver::Client::connect_with_retry(connect, host, &DriverOptions::default()).await?))
    }

    /// Connects over any transport.
    ///
    /// # Errors
    /// If no server that the host supports responds over it.
    pub async fn connect(transport: Transport, host: &Host) -> Result<Self, Error> {
        Self::connect_with(transport, host, &DriverOptions::default()).await
    }

    /// Connects over any transport as [`connect`](Self::connect) does, with these options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(transport: Transport, host: &Host, options: &DriverOptions) -> Result<Self, Error> {
        Ok(Self(mcp_driver::Client::connect_with(transport, host, options).await?))
    }

    /// Returns the server's result of the handshake: its name and version, its capabilities and its instructions.
    ///
    /// # Panics
    /// Never: without a handshake there is no client.
    #[must_use]
    pub fn server(&self) -> &InitializeResult {
        self.0.server()
    }

    /// Ends the connection and waits until its tasks, descriptors and child processes are gone. This takes a bounded
    /// time, however the server behaves. Calls in flight fail at once. The input of a child process is closed; if the
    /// child does not exit then, its whole process group is killed. Further calls wait for the same end.
    ///
    /// In a handler of this connection it does not wait.
    pub fn close(&self) -> Deferred<Disconnected> {
        self.0.close()
    }

    /// Waits until the connection has ended and its tasks, descriptors and child processes are gone. In a handler of
    /// this connection it does not wait.
    pub fn wait(&self) -> Deferred<Disconnected> {
        self.0.wait()
    }
}

impl From<mcp_driver::Client> for Client {
    fn from(client: mcp_driver::Client) -> Self {
        Self(client)
    }
}

impl Deref for Client {
    type Target = Peer<ClientRole>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
