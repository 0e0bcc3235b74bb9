//! What a connection runs over: bytes in, bytes out, and an orderly end.

use std::{
    future::Future,
    io,
    net::TcpStream,
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::Duration,
};

use async_io::Async;
use futures_io::{AsyncRead, AsyncWrite};

use mcp_driver::{
    ByteReader, ByteWriter, IntoTransport, MessageTransport,
    tuning::LINGER,
    unix::fd::{share_stdio, take_stdio},
};

use crate::{
    driver::Smol,
    io::{Descriptor, Socket, Stream},
};

/// A pair of streams that a connection can run over.
///
/// Anything that carries bytes both ways, in order and without loss, will do: see [`Transport::over`]. Each message is a line
/// of JSON; the connection ends when either stream does.
#[derive(Debug)]
pub struct Transport(mcp_driver::Transport);

impl IntoTransport for Transport {
    type Runtime = Smol;

    fn into_transport(self) -> mcp_driver::Transport {
        self.0
    }
}

impl Transport {
    /// A transport of your own.
    pub fn new(source: impl ByteReader, sink: impl ByteWriter) -> Self {
        Self(mcp_driver::Transport::new(source, sink))
    }

    /// A transport of your own that carries whole messages.
    pub fn messages(messages: impl MessageTransport) -> Self {
        Self(mcp_driver::Transport::messages(messages))
    }

    /// Runs over anything that can be read from and written to. What is written is flushed.
    pub fn over(reader: impl AsyncRead + Send + 'static, writer: impl AsyncWrite + Send + 'static) -> Self {
        Self::new(Stream::new(reader), Stream::new(writer))
    }

    /// Runs over a stream that carries both directions.
    pub fn duplex(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self(mcp_driver::Transport::duplex(Stream::new(stream)))
    }

    /// Two transports that are each other's peer. Each direction holds at most `capacity` bytes (and at least one): who
    /// writes more waits until the other end has read.
    #[must_use]
    pub fn pair(capacity: usize) -> (Self, Self) {
        let (left, right) = mcp_driver::Transport::pair(capacity);
        (Self(left), Self(right))
    }

    /// Runs over this process's standard input and output, and keeps everybody else away from them: descriptor 0
    /// becomes `/dev/null` and descriptor 1 a copy of standard error. So whatever handlers print with `println!`, and
    /// whatever programs they start read and write, stays out of the connection.
    ///
    /// No thread waits in a read: the descriptors are watched, and a process can end while its input is open. They are
    /// not made non-blocking, which would be a property of the open files, and other processes may share those: the system
    /// is asked before each read and each write.
    ///
    /// # Errors
    /// If they were taken before, or the system has no descriptors left.
    pub fn stdio() -> io::Result<Self> {
        take_stdio().map(Self::descriptors)
    }

    /// Runs over this process's standard input and output without protecting them. Nothing else may read from standard
    /// input or write to standard output while the connection lasts, and standard output stays open after it.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn stdio_shared() -> io::Result<Self> {
        share_stdio().map(Self::descriptors)
    }

    fn descriptors((input, output): (OwnedFd, OwnedFd)) -> Self {
        Self::new(Descriptor::new(input), Descriptor::new(output))
    }

    /// Runs over a TCP connection. There is no encryption and no authentication in it: anything that can connect is
    /// served. The connection ends if the first thing that comes is no JSON object, as a request of a browser is not.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn tcp(stream: Async<TcpStream>) -> io::Result<Self> {
        // A message is written in one go, and the next one waits for its answer.
        // A connection that has been reset by now refuses it, and is noticed where it is read.
        let _ = stream.get_ref().set_nodelay(true);
        Ok(Self(mcp_driver::Transport::duplex(Socket(stream)).linger(LINGER).json_first()))
    }

    /// Runs over a Unix domain socket. Who may connect is decided by the permissions of its path.
    #[must_use]
    pub fn unix(stream: Async<UnixStream>) -> Self {
        Self(mcp_driver::Transport::duplex(Socket(stream)).linger(LINGER))
    }

    /// How long to go on reading after the last byte was written, if the peer does not end its stream by itself.
    /// Default: not at all; for sockets, half a second.
    #[must_use]
    pub fn linger(self, linger: Duration) -> Self {
        Self(self.0.linger(linger))
    }

    /// What to do when the last byte was written and the sink dropped, while the source is still read. It may take its
    /// time; closing waits for it.
    #[must_use]
    pub fn at_end(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(self.0.at_end(end))
    }
}
