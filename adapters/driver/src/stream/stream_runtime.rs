//! The interface of clients, supervisors and listeners to a runtime.

use std::{
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    task::{Context, Poll},
};

use crate::{
    os::process::{ReadPipe, WritePipe},
    runtime::Runtime,
    stream::{
        io::{ByteReader, ByteWriter},
        transport::IntoTransport,
    },
};

/// A runtime with child processes and sockets. [`Client`](crate::Client), [`Supervisor`](crate::Supervisor) and
/// [`Listener`](crate::Listener) run on it.
pub trait StreamRuntime: Runtime {
    /// The transport of the adapter.
    type Transport: IntoTransport<Runtime = Self>;
    /// A listening TCP socket.
    type TcpListener: fmt::Debug + Send + Sync + 'static;
    /// A listening Unix domain socket, or on Windows a named pipe.
    type LocalListener: fmt::Debug + Send + Sync + 'static;

    /// Starts the threads that run tasks, if the adapter has its own and they do not run yet. Default: does nothing.
    ///
    /// # Errors
    /// If no thread can be started.
    fn start_threads(&self) -> io::Result<()> {
        Ok(())
    }

    /// Waits in the background until a child process has exited, and then calls `exited` with its status, if that is
    /// known. Dropping the task may end the wait.
    ///
    /// # Errors
    /// If there is no descriptor or no thread for it.
    fn wait_for_child(
        &self,
        child: Child,
        exited: impl FnOnce(Option<ExitStatus>) + Send + 'static,
    ) -> io::Result<Option<Self::Task>>;

    /// Returns a reader of a pipe from a child process.
    ///
    /// # Errors
    /// If the pipe cannot be registered with the runtime.
    fn pipe_reader(pipe: ReadPipe) -> io::Result<impl ByteReader>;

    /// Returns a writer of a pipe to a child process.
    ///
    /// # Errors
    /// If the pipe cannot be registered with the runtime.
    fn pipe_writer(pipe: WritePipe) -> io::Result<impl ByteWriter>;

    /// Connects to the first of these addresses that accepts a connection.
    fn connect_tcp(addresses: Vec<SocketAddr>) -> impl Future<Output = io::Result<Self::Transport>> + Send;

    /// Connects to a Unix domain socket, or on Windows to a named pipe.
    fn connect_local(path: PathBuf) -> impl Future<Output = io::Result<Self::Transport>> + Send;

    /// Listens on the first of these addresses that is available.
    fn listen_tcp(addresses: Vec<SocketAddr>) -> impl Future<Output = io::Result<Self::TcpListener>> + Send;

    /// Listens on a Unix domain socket, or on Windows on a named pipe.
    ///
    /// # Errors
    /// The error of the system.
    fn listen_local(path: &Path) -> io::Result<Self::LocalListener>;

    /// Accepts a TCP connection, and returns it with the address of its peer.
    ///
    /// # Errors
    /// The error of the system. One that is not [fatal](crate::os::net::is_fatal) does not end the listener.
    fn poll_accept_tcp(
        listener: &Self::TcpListener,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Self::Transport, SocketAddr)>>;

    /// Accepts a connection over a Unix domain socket or a named pipe.
    ///
    /// # Errors
    /// As [`poll_accept_tcp`](Self::poll_accept_tcp).
    fn poll_accept_local(listener: &Self::LocalListener, cx: &mut Context<'_>) -> Poll<io::Result<Self::Transport>>;

    /// Returns the local address of a listening TCP socket.
    ///
    /// # Errors
    /// The error of the system.
    fn local_addr(listener: &Self::TcpListener) -> io::Result<SocketAddr>;
}

/// Finds the socket addresses of a value of type `A`, such as a name and a port.
///
/// An adapter implements it for every `A` that implements `ToSocketAddrs`: that of tokio in `mcp-tokio`, and that of
/// the standard library in `mcp-smol`, where `A` is also `Send + 'static`.
pub trait Resolve<A>: Runtime {
    /// Returns the addresses. Name resolution does not block the calling thread.
    fn resolve(address: A) -> impl Future<Output = io::Result<Vec<SocketAddr>>>;
}
