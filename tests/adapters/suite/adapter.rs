//! The interface of adapters to the suite: the same names over the same types. Async methods block.

use std::{
    fmt, io,
    net::{SocketAddr, TcpStream},
    ops::Deref,
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
    time::Duration,
};

use mcp_driver::{
    Command, Disconnected, DriverOptions, Error, RestartPolicy, StopHandle,
    memory::{PipeReader, PipeWriter},
};
use mcp_proto::{
    connection::{ClientRole, CloseReason, Connection, ServerRole},
    rpc::Timestamp,
    schema::InitializeResult,
};
use mcp_service::{
    Host, Peer, Service,
    driver_api::{Application, ConnectionHandle},
};

use crate::dialects::{blocking, smol, tokio};

/// Two connected transports.
pub(crate) type Pair<A> = (<A as Adapter>::Transport, <A as Adapter>::Transport);

/// An adapter. Its async methods block here.
pub(crate) trait Adapter: Sized + Send + Sync + 'static {
    /// The name of the adapter on the command line of this program and in the names of tests.
    const NAME: &'static str;
    /// Whether dropping a client waits until all of its resources are free. Otherwise that is so soon after.
    const DROP_WAITS: bool;

    type Transport: Send + 'static;
    type Handle<E: Send + 'static>: Handle<E>;
    type Client: Client;
    type Server: Server;
    type Listener: Listener;
    type WebListener: Listener;
    type Supervisor: Supervisor<Client = Self::Client>;

    // Transports.
    fn pair(capacity: usize) -> Pair<Self>;
    fn memory(source: PipeReader, sink: PipeWriter) -> Self::Transport;
    fn tcp(stream: TcpStream) -> Self::Transport;
    fn unix(stream: UnixStream) -> Self::Transport;
    /// A transport of any reader and writer.
    fn from_io(reader: io::PipeReader, writer: io::PipeWriter) -> Self::Transport;
    /// A transport of whole messages. Sent messages are formatted again, with line breaks.
    fn messages(incoming: Receiver<Vec<u8>>, outgoing: Sender<Vec<u8>>) -> Self::Transport;

    // Connections.
    fn start<E: Send + 'static>(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        transport: Self::Transport,
        options: &DriverOptions,
    ) -> Self::Handle<E>;
    fn serve_with(service: &Service, transport: Self::Transport, options: &DriverOptions) -> Self::Server;
    fn serve_stdio(service: &Service) -> Result<(), Error>;
    fn connect_with(transport: Self::Transport, host: &Host, options: &DriverOptions) -> Result<Self::Client, Error>;
    fn connect_tcp(address: SocketAddr, host: &Host) -> Result<Self::Client, Error>;
    fn connect_unix(path: &Path, host: &Host) -> Result<Self::Client, Error>;
    fn spawn_with(command: Command, host: &Host, options: &DriverOptions) -> Result<Self::Client, Error>;
    fn supervise(command: Command, host: &Host, restart: RestartPolicy) -> Self::Supervisor;
    fn listen_tcp(connections: usize) -> Self::Listener;
    fn listen_unix(path: &Path) -> Self::Listener;
    fn listen_http() -> Self::WebListener;
    fn connect_http(url: &str, host: &Host) -> Result<Self::Client, Error>;
    fn shutdown_on_signals() -> io::Result<()>;
    /// The number of tasks of the runtime, if it counts them.
    fn tasks() -> usize;

    fn serve(service: &Service, transport: Self::Transport) -> Self::Server {
        Self::serve_with(service, transport, &DriverOptions::default())
    }

    fn connect(transport: Self::Transport, host: &Host) -> Result<Self::Client, Error> {
        Self::connect_with(transport, host, &DriverOptions::default())
    }

    fn spawn(command: Command, host: &Host) -> Result<Self::Client, Error> {
        Self::spawn_with(command, host, &DriverOptions::default())
    }
}

pub(crate) trait Handle<E>: Send + Sync + 'static {
    fn connection(&self) -> Arc<dyn ConnectionHandle<E>>;
    fn wait(&self) -> Option<CloseReason>;
    fn close(&self) -> Option<CloseReason>;
}

pub(crate) trait Client: Clone + fmt::Debug + Deref<Target = Peer<ClientRole>> + Send + Sync + 'static {
    fn introduction(&self) -> &InitializeResult;
    fn wait(&self) -> Disconnected;
    fn close(&self) -> Disconnected;
}

pub(crate) trait Server: Deref<Target = Peer<ServerRole>> + Send + Sync + 'static {
    fn wait(&self) -> CloseReason;
    fn close(&self) -> CloseReason;
}

pub(crate) trait Listener: Sized + Send + 'static {
    /// The timeouts of the first message of a client, where there is one, and of writes to a client that reads nothing.
    fn timeouts(self, message: Duration, write: Duration) -> Self;
    /// The limit of blocking handlers that run at the same time for all clients, where connections share threads.
    fn functions(self, most: usize) -> Self;
    fn address(&self) -> Option<SocketAddr>;
    fn stop_handle(&self) -> StopHandle;
    fn serve(self, service: &Service) -> Result<(), Error>;
}

pub(crate) trait Supervisor: Send + Sync + 'static {
    type Client;
    fn client(&self) -> Result<Self::Client, Error>;
}

/// Implements [`Adapter`] by the names of a crate. `$home` is a module of `dialects`: it can [`enter`] its runtime,
/// wait until a future is `done`, wait for a `later` value, and has its types of streams.
///
/// [`enter`]: crate::dialects::tokio::enter
macro_rules! adapter {
    ($adapter:ident, $name:literal, $it:ident, $home:ident, drop waits: $drop_waits:literal) => {
        #[doc = concat!("`", stringify!($it), "`")]
        pub(crate) struct $adapter;

        impl Adapter for $adapter {
            const NAME: &'static str = $name;
            const DROP_WAITS: bool = $drop_waits;

            type Transport = $it::Transport;
            type Handle<E: Send + 'static> = $it::Handle<E>;
            type Client = $it::Client;
            type Server = $it::Server;
            type Listener = $it::Listener;
            type WebListener = $it::http::Listener;
            type Supervisor = $it::Supervisor;

            fn pair(capacity: usize) -> Pair<Self> {
                $it::Transport::pair(capacity)
            }

            fn memory(source: PipeReader, sink: PipeWriter) -> Self::Transport {
                $it::Transport::new(source, sink)
            }

            fn tcp(stream: TcpStream) -> Self::Transport {
                let _runtime = $home::enter();
                $home::tcp(stream)
            }

            fn unix(stream: UnixStream) -> Self::Transport {
                let _runtime = $home::enter();
                $home::unix(stream)
            }

            fn from_io(reader: io::PipeReader, writer: io::PipeWriter) -> Self::Transport {
                let _runtime = $home::enter();
                $home::from_io(reader, writer)
            }

            fn messages(incoming: Receiver<Vec<u8>>, outgoing: Sender<Vec<u8>>) -> Self::Transport {
                $home::messages(incoming, outgoing)
            }

            fn start<E: Send + 'static>(
                connection: impl FnOnce(Timestamp) -> Connection<E>,
                application: Arc<dyn Application<E>>,
                transport: Self::Transport,
                options: &DriverOptions,
            ) -> Self::Handle<E> {
                let _runtime = $home::enter();
                $it::Handle::start(connection, application, transport, options).expect("it can run")
            }

            fn serve_with(service: &Service, transport: Self::Transport, options: &DriverOptions) -> Self::Server {
                let _runtime = $home::enter();
                $it::Server::start(service, transport, options).expect("it can run")
            }

            fn serve_stdio(service: &Service) -> Result<(), Error> {
                $home::done($it::serve_stdio(service))
            }

            fn connect_with(
                transport: Self::Transport,
                host: &Host,
                options: &DriverOptions,
            ) -> Result<Self::Client, Error> {
                $home::done($it::Client::connect_with(transport, host, options))
            }

            fn connect_tcp(address: SocketAddr, host: &Host) -> Result<Self::Client, Error> {
                $home::done($it::Client::connect_tcp(address, host))
            }

            fn connect_unix(path: &Path, host: &Host) -> Result<Self::Client, Error> {
                $home::done($it::Client::connect_unix(path, host))
            }

            fn spawn_with(command: Command, host: &Host, options: &DriverOptions) -> Result<Self::Client, Error> {
                $home::done($it::Client::spawn_with(command, host, options))
            }

            fn supervise(command: Command, host: &Host, restart: RestartPolicy) -> Self::Supervisor {
                $it::Supervisor::new(command, host).restart(restart)
            }

            fn listen_tcp(connections: usize) -> Self::Listener {
                let listener = $home::done($it::Listener::tcp("127.0.0.1:0")).expect("loopback is there");
                listener.connections(connections)
            }

            fn listen_unix(path: &Path) -> Self::Listener {
                let _runtime = $home::enter();
                $it::Listener::unix(path).expect("the path is free")
            }

            fn listen_http() -> Self::WebListener {
                $home::done($it::http::Listener::bind("127.0.0.1:0")).expect("loopback is there")
            }

            fn connect_http(url: &str, host: &Host) -> Result<Self::Client, Error> {
                $home::done($it::Client::connect_http(url, host))
            }

            fn shutdown_on_signals() -> io::Result<()> {
                $it::shutdown_on_signals()
            }

            fn tasks() -> usize {
                $home::tasks()
            }
        }

        impl Client for $it::Client {
            fn introduction(&self) -> &InitializeResult {
                self.server()
            }

            fn wait(&self) -> Disconnected {
                $home::wait(Self::wait(self))
            }

            fn close(&self) -> Disconnected {
                $home::wait(Self::close(self))
            }
        }

        impl Listener for $it::Listener {
            fn timeouts(self, message: Duration, write: Duration) -> Self {
                self.message_timeout(message).write_timeout(write)
            }

            fn functions(self, most: usize) -> Self {
                self.options(DriverOptions { functions: most, ..DriverOptions::default() })
            }

            fn address(&self) -> Option<SocketAddr> {
                self.local_addr()
            }

            fn stop_handle(&self) -> StopHandle {
                Self::stop_handle(self)
            }

            fn serve(self, service: &Service) -> Result<(), Error> {
                $home::done(Self::serve(self, service))
            }
        }

        impl Listener for $it::http::Listener {
            fn timeouts(self, _: Duration, write: Duration) -> Self {
                self.write_timeout(write)
            }

            fn functions(self, most: usize) -> Self {
                self.options(DriverOptions { functions: most, ..DriverOptions::default() })
            }

            fn address(&self) -> Option<SocketAddr> {
                Some(self.local_addr())
            }

            fn stop_handle(&self) -> StopHandle {
                Self::stop_handle(self)
            }

            fn serve(self, service: &Service) -> Result<(), Error> {
                $home::done(Self::serve(self, service))
            }
        }

        impl Supervisor for $it::Supervisor {
            type Client = $it::Client;

            fn client(&self) -> Result<Self::Client, Error> {
                $home::done(Self::client(self))
            }
        }
    };
}

/// The handles of a connection: blocking ones, and those of runtimes.
macro_rules! held {
    ($handle:ty, $server:ty, $home:ident) => {
        impl<E: Send + 'static> Handle<E> for $handle {
            fn connection(&self) -> Arc<dyn ConnectionHandle<E>> {
                Self::connection(self)
            }

            fn wait(&self) -> Option<CloseReason> {
                $home::wait(Self::wait(self))
            }

            fn close(&self) -> Option<CloseReason> {
                $home::wait(Self::close(self))
            }
        }

        impl Server for $server {
            fn wait(&self) -> CloseReason {
                $home::wait(Self::wait(self))
            }

            fn close(&self) -> CloseReason {
                $home::wait(Self::close(self))
            }
        }
    };
}

held!(mcp_blocking::Handle<E>, mcp_blocking::Server, blocking);
held!(mcp_driver::Handle<E>, mcp_driver::Server, tokio);

adapter!(Blocking, "blocking", mcp_blocking, blocking, drop waits: true);
adapter!(Smol, "smol", mcp_smol, smol, drop waits: false);
adapter!(Tokio, "tokio", mcp_tokio, tokio, drop waits: false);
