//! The interface of HTTP to a runtime.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    task::{Context, Poll},
};

use hyper::rt::{Read, Write};

use crate::{client::Client, runtime::Runtime};

/// A runtime with sockets of TCP.
pub trait NetRuntime: Runtime {
    /// A connection, as hyper reads and writes it. What is written leaves at once: streams are made of small pieces,
    /// and a client waits for each of them.
    type Stream: Read + Write + Send + Unpin + 'static;
    /// A listening socket.
    type Socket: fmt::Debug + Send + Sync + 'static;
    /// A client, as the adapter calls it.
    type Client: From<Client>;

    /// Connects to an address.
    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static;

    /// Takes over a socket that listens and does not block.
    ///
    /// # Errors
    /// The error of the system.
    fn listen(&self, socket: TcpListener) -> io::Result<Self::Socket>;

    /// Accepts a connection. Returns the address of its peer as well.
    ///
    /// # Errors
    /// The error of the system. One that is not [fatal](crate::unix::fd::is_fatal) does not end the listener.
    fn poll_accept(socket: &Self::Socket, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Stream, SocketAddr)>>;
}
