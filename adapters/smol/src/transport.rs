//! Transports of connections: a stream of bytes in each direction, and an orderly end.

#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::{future::Future, io, net::TcpStream, time::Duration};

use async_io::Async;
use futures_io::{AsyncRead, AsyncWrite};

use mcp_driver::{ByteReader, ByteWriter, IntoTransport, MessageTransport, TransportKind, tuning::CLOSE_TIMEOUT};

use crate::{
    driver::Smol,
    io::{Socket, Stream},
    os,
};

/// A pair of streams that a connection can run over.
///
/// It can be anything that carries bytes both ways, in order and without loss: see [`Transport::from_io`]. Each message
/// is a line of JSON. The connection ends when either stream does.
#[derive(Debug)]
pub struct Transport(mcp_driver::Transport);

impl IntoTransport for Transport {
    type Runtime = Smol;

    fn into_transport(self) -> mcp_driver::Transport {
        self.0
    }
}

impl Transport {
    /// Creates a transport from your own reader and writer.
    pub fn new(source: impl ByteReader, sink: impl ByteWriter) -> Self {
        Self(mcp_driver::Transport::new(source, sink))
    }

    /// Creates a transport from your own type that carries whole messages.
    pub fn messages(messages: impl MessageTransport) -> Self {
        Self(mcp_driver::Transport::messages(messages))
    }

    /// Runs over any reader and writer. The writer is flushed after each batch of output.
    pub fn from_io(reader: impl AsyncRead + Send + 'static, writer: impl AsyncWrite + Send + 'static) -> Self {
        Self::new(Stream::new(reader), Stream::new(writer))
    }

    /// Runs over a stream that carries both directions.
    pub fn duplex(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self(mcp_driver::Transport::duplex(Stream::new(stream)))
    }

    /// Creates two transports that are each other's peer. Each direction holds at most `capacity` bytes, and at least
    /// one: a writer waits while the other end has not read enough.
    #[must_use]
    pub fn pair(capacity: usize) -> (Self, Self) {
        let (left, right) = mcp_driver::Transport::pair(capacity);
        (Self(left), Self(right))
    }

    /// Runs over this process's standard input and output, and replaces them for the rest of the process: descriptor 0
    /// becomes `/dev/null` and descriptor 1 a copy of standard error. So output of handlers with `println!`, and input
    /// and output of programs that they start, does not disturb the connection.
    ///
    /// No thread blocks in a read: the descriptors are polled, and a process can end while its input is open.
    /// They are not made non-blocking, since that is a property of the open files, which other processes may share.
    /// Readiness is checked before each read and each write.
    ///
    /// On Windows they cannot be replaced: handlers must not print with `println!`, and programs that they start must
    /// get an input and an output of their own. Two threads read and write them, and do not keep the process from
    /// ending.
    ///
    /// # Errors
    /// If they were taken before, or the process has no free descriptors.
    pub fn stdio() -> io::Result<Self> {
        Self::standard(true)
    }

    /// Runs over this process's standard input and output without replacing them. Nothing else may read from standard
    /// input or write to standard output while the connection lasts. Standard output stays open after it.
    ///
    /// # Errors
    /// If the process has no free descriptors.
    pub fn stdio_shared() -> io::Result<Self> {
        Self::standard(false)
    }

    fn standard(take: bool) -> io::Result<Self> {
        let (input, output) = os::stdio(take)?;
        Ok(Self(mcp_driver::Transport::new(input, output).kind(TransportKind::Pipes)))
    }

    /// Runs over a TCP connection. There is no encryption and no authentication: every peer that can connect is served.
    /// The connection ends if its first bytes are no JSON object, as those of a browser's request are not.
    ///
    /// # Errors
    /// It does not fail at present.
    pub fn tcp(stream: Async<TcpStream>) -> io::Result<Self> {
        // A message is written in one call, so Nagle's algorithm would only delay it. The call fails if the connection
        // was reset, which the next read reports.
        let _ = stream.get_ref().set_nodelay(true);
        Ok(Self(mcp_driver::Transport::duplex(Socket(stream)).close_timeout(CLOSE_TIMEOUT).json_first()))
    }

    /// Runs over a Unix domain socket. The permissions of its path decide which programs may connect.
    #[cfg(unix)]
    #[must_use]
    pub fn unix(stream: Async<UnixStream>) -> Self {
        Self(mcp_driver::Transport::duplex(Socket(stream)).close_timeout(CLOSE_TIMEOUT))
    }

    /// Runs over a connection of this machine.
    #[cfg(unix)]
    pub(crate) fn local(stream: os::LocalStream) -> Self {
        Self::unix(stream)
    }

    #[cfg(windows)]
    pub(crate) fn local(stream: os::LocalStream) -> Self {
        match stream {}
    }

    /// Sets how long the connection reads after the output has ended, if the peer does not end its stream before.
    /// Default: no time at all; for sockets, half a second.
    #[must_use]
    pub fn close_timeout(self, close_timeout: Duration) -> Self {
        Self(self.0.close_timeout(close_timeout))
    }

    /// Sets a future that runs after the last byte was written and the sink was dropped, while the source is still
    /// read. Closing the connection waits for it without a limit of time.
    #[must_use]
    pub fn on_close(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(self.0.on_close(end))
    }
}
