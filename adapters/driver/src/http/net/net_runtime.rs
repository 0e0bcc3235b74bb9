//! The interface between HTTP and a runtime.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    task::{Context, Poll},
};

use hyper::rt::{Read, Write};

use crate::runtime::Runtime;

/// A runtime that connects to TCP sockets.
pub trait ConnectRuntime: Runtime {
    /// A connection, with the I/O traits of hyper. It has `TCP_NODELAY`, since clients wait for each of the small
    /// chunks of a stream.
    type Stream: Read + Write + Send + Unpin + 'static;

    /// Connects to an address.
    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static;
}

/// A runtime with TCP sockets, also those that listen.
pub trait NetRuntime: ConnectRuntime {
    /// A listening socket.
    type Socket: fmt::Debug + Send + Sync + 'static;

    /// Registers a listening, non-blocking socket with the runtime.
    ///
    /// # Errors
    /// The error of the system.
    fn listen(&self, socket: TcpListener) -> io::Result<Self::Socket>;

    /// Accepts a connection, and returns it with the address of its peer.
    ///
    /// # Errors
    /// The error of the system. One that is not [fatal](crate::os::net::is_fatal) does not end the listener.
    fn poll_accept(socket: &Self::Socket, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Stream, SocketAddr)>>;
}
