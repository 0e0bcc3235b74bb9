//! A connection to a server.

use std::{
    fmt,
    future::ready,
    net::{TcpStream, ToSocketAddrs},
    ops::Deref,
    sync::{Arc, OnceLock},
};
#[cfg(unix)]
use std::{os::unix::net::UnixStream, path::Path};

use mcp_driver::connect_with_hint;
#[cfg(feature = "signals")]
use mcp_driver::signals;
use mcp_proto::{
    connection::{Client as Connection, ClientRole, CloseReason},
    schema::InitializeResult,
};
use mcp_service::{Calls, Host, Peer, block_on};

use crate::{child::Child, handle::Handle, transport::Transport};
use mcp_driver::{Command, Disconnected, DriverOptions, Error, Start};

/// A connection to a server, after the handshake.
///
/// It is a [`Peer`], which has a method for each request of a client, and options for each call:
///
/// ```no_run
/// # use std::time::Duration;
/// # use mcp_blocking::{Client, Command, Error};
/// # use mcp_service::Host;
/// # fn main() -> Result<(), Error> {
/// let host = Host::builder("my-client", "1.0.0").build();
/// let client = Client::spawn(Command::new("my-server").arg("--fast"), &host)?;
/// for tool in client.all_tools() {
///     println!("{}", tool?.name);
/// }
/// let call = client.within(Duration::from_secs(10)).call_tool("dig", ())?;
/// let stop = call.canceller(); // for another thread; dropping `call` cancels too
/// let result = call.wait_with(|progress| println!("{}", progress.progress))?;
/// let ending = client.close();
/// # let _ = (stop, result, ending);
/// # Ok(())
/// # }
/// ```
///
/// It is cheap to clone and works from any number of threads at once. When the last clone is dropped, the connection is
/// [closed](Self::close). A `Peer` alone does not keep it open.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    peer: Peer<ClientRole>,
    handle: Handle<ClientRole>,
    child: Option<Child>,
    /// The result of the handshake, after it has succeeded.
    server: OnceLock<InitializeResult>,
}

impl Client {
    /// Starts a program and connects to its standard input and output.
    ///
    /// Some old servers exit when they receive the probe of their era. Such a program is started a second time, without
    /// the probe.
    ///
    /// # Errors
    /// If the program cannot be started, or the host cannot talk to it.
    pub fn spawn(command: Command, host: &Host) -> Result<Self, Error> {
        Self::spawn_with(command, host, &DriverOptions::default())
    }

    /// Does what [`spawn`](Self::spawn) does, with options.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub fn spawn_with(command: Command, host: &Host, options: &DriverOptions) -> Result<Self, Error> {
        Self::connect_with_retry(host, options, || {
            let (transport, child) = Child::spawn(&command, Start::begin())
                .map_err(|error| Error::Spawn { program: command.program(), error })?;
            Ok((transport, Some(child)))
        })
    }

    /// Connects over TCP. If the server closes the connection because of the probe of its era, connects a second time.
    ///
    /// # Errors
    /// If no server listens at the address, or the host cannot talk to it.
    pub fn connect_tcp(address: impl ToSocketAddrs, host: &Host) -> Result<Self, Error> {
        Self::connect_with_retry(host, &DriverOptions::default(), || {
            Ok((Transport::tcp(TcpStream::connect(&address)?)?, None))
        })
    }

    /// Connects to a Unix domain socket, as [`connect_tcp`](Self::connect_tcp) does.
    ///
    /// # Errors
    /// As [`connect_tcp`](Self::connect_tcp).
    #[cfg(unix)]
    pub fn connect_unix(path: impl AsRef<Path>, host: &Host) -> Result<Self, Error> {
        Self::connect_with_retry(host, &DriverOptions::default(), || {
            Ok((Transport::unix(UnixStream::connect(&path)?)?, None))
        })
    }

    /// Connects over any transport.
    ///
    /// # Errors
    /// If the peer is no server that supports a revision of the host.
    pub fn connect(transport: Transport, host: &Host) -> Result<Self, Error> {
        Self::connect_with(transport, host, &DriverOptions::default())
    }

    /// Does what [`connect`](Self::connect) does, with options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_with(transport: Transport, host: &Host, options: &DriverOptions) -> Result<Self, Error> {
        Self::connect_once(transport, None, host, options)
    }

    /// Connects, and connects a second time if the failed handshake has shown how else to begin.
    fn connect_with_retry(
        host: &Host,
        options: &DriverOptions,
        transport: impl Fn() -> Result<(Transport, Option<Child>), Error>,
    ) -> Result<Self, Error> {
        block_on(connect_with_hint(options, |options| {
            ready(transport().and_then(|(transport, child)| Self::connect_once(transport, child, host, &options)))
        }))
    }

    fn connect_once(
        transport: Transport,
        child: Option<Child>,
        host: &Host,
        options: &DriverOptions,
    ) -> Result<Self, Error> {
        let session = Arc::new(host.session_with(options.subscriptions.clone().unwrap_or_default()));
        let calls = session.calls().clone();
        let connection = |now| Connection::with_opening(host.config(), options.opening, now);
        Self::begin(Handle::start(connection, session, transport, options)?, calls, child)
    }

    /// Waits for the handshake.
    pub(crate) fn begin(
        handle: Handle<ClientRole>,
        calls: Arc<Calls<ClientRole>>,
        child: Option<Child>,
    ) -> Result<Self, Error> {
        let peer = Peer::new(handle.connection(), calls);
        let client = Self(Arc::new(Inner { peer, handle, child, server: OnceLock::new() }));
        #[cfg(feature = "signals")]
        signals::register(&client.0);
        let ready = client.ready().wait();
        let server = client.connection().update(|connection, _| connection.server().cloned());
        match (ready, server) {
            (Ok(()), Some(server)) => {
                client.0.server.get_or_init(|| server);
                Ok(client)
            }
            _ => Err(Error::Handshake(client.close())),
        }
    }

    /// Returns the result of the handshake: the server's info and capabilities.
    ///
    /// # Panics
    /// Never: without a handshake there is no client.
    #[must_use]
    pub fn server(&self) -> &InitializeResult {
        self.0.server.get().expect("the handshake is over")
    }

    /// Ends the connection and waits until its threads and its child process have ended, which takes a bounded time
    /// however the server behaves. Calls in flight end at once. The input of a child is closed; processes of its group
    /// that do not end then are killed. A second call has no further effect.
    ///
    /// In a handler of this connection it does not wait.
    pub fn close(&self) -> Disconnected {
        self.0.handle.begin_close();
        self.wait()
    }

    /// Waits until the connection, its threads and its child process have ended. In a handler it does not wait.
    pub fn wait(&self) -> Disconnected {
        let reason = self.0.handle.wait();
        #[cfg(feature = "signals")]
        signals::block_if_ending();
        let exit = self.0.child.as_ref().and_then(Child::exit);
        let next_opening = self.connection().update(|connection, _| connection.next_opening());
        Disconnected::new(reason.unwrap_or(CloseReason::Local), exit, next_opening)
    }
}

impl Deref for Client {
    type Target = Peer<ClientRole>;

    fn deref(&self) -> &Self::Target {
        &self.0.peer
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("handle", &self.0.handle).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.handle.close();
        #[cfg(feature = "signals")]
        signals::block_if_ending();
    }
}

#[cfg(feature = "signals")]
impl signals::Closing for Inner {
    fn begin_close(&self) {
        self.handle.begin_close();
    }

    fn stop_draining(&self) {
        if self.child.is_some() {
            self.handle.connection().update(|connection, _| connection.handle_transport_error("this process ends"));
        }
    }

    fn wait(&self) {
        self.handle.wait();
    }

    fn kill(&self) {
        if let Some(child) = &self.child {
            child.kill();
        }
    }
}
