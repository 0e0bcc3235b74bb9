//! A connection to a server.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    ops::Deref,
    sync::{Arc, OnceLock},
};
#[cfg(feature = "os")]
use std::{net::SocketAddr, path::Path};

use mcp_proto::{
    connection::{Client as Connection, ClientRole, CloseReason},
    schema::InitializeResult,
};

#[cfg(feature = "signals")]
use crate::process::signals;
use crate::{
    driven_connection::client_connection,
    error::{Disconnected, Error},
    handle::Handle,
    options::DriverOptions,
    process::child::Child,
    runtime::Runtime,
    stream::transport::IntoTransport,
};
#[cfg(feature = "os")]
use crate::{
    process::{command::Command, start::Start},
    stream::stream_runtime::{Resolve, StreamRuntime},
};
use mcp_service::{Calls, Deferred, Host, Peer, driver_api::ConnectionHandle};

/// A connection to a server after the handshake, with the child process if the server runs as one.
///
/// It is cheap to clone. When the last clone is dropped, the connection begins to [close](Self::close).
pub struct Client<R> {
    inner: Arc<Inner>,
    runtime: PhantomData<fn() -> R>,
}

struct Inner {
    peer: Peer<ClientRole>,
    handle: Handle<ClientRole>,
    child: Option<Child>,
    /// The result of the handshake, after it has succeeded.
    server: OnceLock<InitializeResult>,
}

#[cfg(feature = "os")]
impl<R: StreamRuntime> Client<R> {
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
            let start = Start::begin_async().await;
            // The tasks that belong to the child are not those of a server.
            let runtime = R::current()?.for_client();
            runtime.start_threads()?;
            let (transport, child) = Child::start(command, start, &runtime)
                .map_err(|error| Error::Spawn { program: command.program(), error })?;
            Ok((transport, Some(child)))
        };
        Self::connect_with_retry(start, host, options).await
    }

    /// Connects over TCP. If the server closes the connection because of the probe of its era, the client connects a
    /// second time without the probe.
    ///
    /// The address can be anything that implements `ToSocketAddrs`: see [`Resolve`].
    ///
    /// # Errors
    /// If no server listens there, or the host does not support it.
    pub async fn connect_tcp<A>(address: A, host: &Host) -> Result<Self, Error>
    where
        R: Resolve<A>,
    {
        let addresses: &[SocketAddr] = &R::resolve(address).await?;
        let connect = || async move { Ok((R::connect_tcp(addresses.to_vec()).await?, None)) };
        Self::connect_with_retry(connect, host, &DriverOptions::default()).await
    }

    /// Connects to a Unix domain socket, as [`connect_tcp`](Self::connect_tcp) does.
    ///
    /// # Errors
    /// As [`connect_tcp`](Self::connect_tcp).
    #[cfg(unix)]
    pub async fn connect_unix(path: impl AsRef<Path>, host: &Host) -> Result<Self, Error> {
        Self::connect_local(path.as_ref(), host).await
    }

    /// Connects to a named pipe, such as `\\.\pipe\my-server`, as [`connect_tcp`](Self::connect_tcp) does.
    ///
    /// # Errors
    /// As [`connect_tcp`](Self::connect_tcp), and [`Unsupported`](std::io::ErrorKind::Unsupported) if the runtime has
    /// no named pipes, as smol.
    #[cfg(windows)]
    pub async fn connect_pipe(name: impl AsRef<Path>, host: &Host) -> Result<Self, Error> {
        Self::connect_local(name.as_ref(), host).await
    }

    async fn connect_local(path: &Path, host: &Host) -> Result<Self, Error> {
        let connect = || async move { Ok((R::connect_local(path.to_owned()).await?, None)) };
        Self::connect_with_retry(connect, host, &DriverOptions::default()).await
    }
}

impl<R: Runtime> Client<R> {
    /// Connects over any transport.
    ///
    /// # Errors
    /// If no server that the host supports responds over it.
    pub async fn connect(transport: impl IntoTransport<Runtime = R>, host: &Host) -> Result<Self, Error> {
        Self::connect_with(transport, host, &DriverOptions::default()).await
    }

    /// Connects over any transport as [`connect`](Self::connect) does, with these options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(
        transport: impl IntoTransport<Runtime = R>,
        host: &Host,
        options: &DriverOptions,
    ) -> Result<Self, Error> {
        Self::connect_once(transport, None, host, options).await
    }

    /// Connects over the transport that `open` returns, with the child process at its other end. Connects a second time
    /// if the failed handshake has shown how else to begin.
    #[cfg(feature = "os")]
    async fn connect_with_retry<M, F>(open: impl Fn() -> F, host: &Host, options: &DriverOptions) -> Result<Self, Error>
    where
        M: IntoTransport<Runtime = R>,
        F: Future<Output = Result<(M, Option<Child>), Error>>,
    {
        connect_with_hint(options, |options| {
            let opened = open();
            async move {
                let (transport, child) = opened.await?;
                Self::connect_once(transport, child, host, &options).await
            }
        })
        .await
    }

    async fn connect_once(
        transport: impl IntoTransport<Runtime = R>,
        child: Option<Child>,
        host: &Host,
        options: &DriverOptions,
    ) -> Result<Self, Error> {
        let session = Arc::new(host.session_with(options.subscriptions.clone().unwrap_or_default()));
        let calls = session.calls().clone();
        let connection = |now| Connection::with_opening(host.config(), options.opening, now);
        let runtime = R::current()?.for_client();
        let wrap = |connection| client_connection(&runtime, connection);
        let (handle, connection, run, kind) = Handle::prepare(connection, session, transport, options, &runtime, wrap);
        runtime.run_connection(run, kind)?;
        Self::begin(handle, connection, calls, child).await
    }
}

impl<R> Client<R> {
    /// Waits for the handshake.
    pub(super) async fn begin(
        handle: Handle<ClientRole>,
        connection: Arc<dyn ConnectionHandle<ClientRole>>,
        calls: Arc<Calls<ClientRole>>,
        child: Option<Child>,
    ) -> Result<Self, Error> {
        let peer = Peer::new(connection, calls);
        let inner = Arc::new(Inner { peer, handle, child, server: OnceLock::new() });
        let client = Self { inner, runtime: PhantomData };
        #[cfg(feature = "signals")]
        signals::register(&client.inner);
        let ready = client.ready().await;
        let server = client.connection().update(|connection, _| connection.server().cloned());
        match (ready, server) {
            (Ok(()), Some(server)) => {
                client.inner.server.get_or_init(|| server);
                Ok(client)
            }
            _ => Err(Error::Handshake(client.close().await)),
        }
    }

    /// Returns the server's result of the handshake: its name and version, its capabilities and its instructions.
    ///
    /// # Panics
    /// Never: without a handshake there is no client.
    #[must_use]
    pub fn server(&self) -> &InitializeResult {
        self.inner.server.get().expect("the handshake is over")
    }

    /// Ends the connection and waits until its tasks, descriptors and child processes are gone. This takes a bounded
    /// time, however the server behaves. Calls in flight fail at once. The input of a child process is closed; if the
    /// child does not exit then, its whole process group is killed. Further calls wait for the same end.
    ///
    /// In a handler of this connection it does not wait.
    pub fn close(&self) -> Deferred<Disconnected> {
        self.inner.handle.begin_close();
        self.wait()
    }

    /// Waits until the connection has ended and its tasks, descriptors and child processes are gone. In a handler of
    /// this connection it does not wait.
    pub fn wait(&self) -> Deferred<Disconnected> {
        let Inner { handle, child, .. } = &*self.inner;
        let (ended, child, connection) = (handle.wait(), child.clone(), self.connection().clone());
        Deferred::new(async move {
            let reason = ended.await.unwrap_or(CloseReason::Local);
            #[cfg(feature = "signals")]
            signals::pending_if_ending().await;
            let next_opening = connection.update(|connection, _| connection.next_opening());
            Disconnected::new(reason, child.and_then(|child| child.exit()), next_opening)
        })
    }
}

/// Connects, and connects a second time if the failed handshake has shown how else to begin.
///
/// # Errors
/// Those of the last attempt.
pub async fn connect_with_hint<T, F: Future<Output = Result<T, Error>>>(
    options: &DriverOptions,
    connect: impl Fn(DriverOptions) -> F,
) -> Result<T, Error> {
    let mut options = options.clone();
    loop {
        match connect(options.clone()).await {
            // There is no third attempt: the end of a second one contains no `next_opening`.
            Err(Error::Handshake(Disconnected { next_opening: Some(opening), .. })) => options.opening = opening,
            connected => return connected,
        }
    }
}

impl<R> Clone for Client<R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), runtime: PhantomData }
    }
}

impl<R> Deref for Client<R> {
    type Target = Peer<ClientRole>;

    fn deref(&self) -> &Self::Target {
        &self.inner.peer
    }
}

impl<R> fmt::Debug for Client<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("handle", &self.inner.handle).finish_non_exhaustive()
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
        self.handle.wait().wait();
    }

    fn kill(&self) {
        if let Some(child) = &self.child {
            child.kill();
        }
    }
}
