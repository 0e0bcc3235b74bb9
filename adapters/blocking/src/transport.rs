//! The transport of a connection.

#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::{
    fmt, io,
    net::TcpStream,
    task::{Context, Poll, Waker},
    time::Duration,
};

use mcp_driver::{
    ByteReader as _, ByteWriter as _, FdReader, FdWriter, Sniffer, StopHandle, WaitingThread,
    memory::{PipeReader, PipeWriter, pipe},
    tuning::CLOSE_TIMEOUT,
};
use mcp_service::block_on;
use rustix::fd::OwnedFd;

/// Reads bytes.
pub trait ByteReader: Send + 'static {
    /// Waits for bytes and reads some of them; `0` is the end of the input.
    ///
    /// # Errors
    /// If the transport has failed. The connection ends then.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Reads available bytes without waiting. With it, the first message can be processed before a thread is started
    /// that may wait.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if no bytes are available; otherwise as [`read`](Self::read).
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let _ = buffer;
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Waits for bytes as [`read`](Self::read) does, on a thread that waits for a response, until that thread is
    /// [notified](WaitingThread::is_notified). With it, such a thread reads its response itself, so a call needs no
    /// change of threads.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the thread was notified; otherwise as [`read`](Self::read).
    ///
    /// Default: [`Unsupported`](io::ErrorKind::Unsupported). The method is then not called again.
    fn read_until_notified(&mut self, buffer: &mut [u8], thread: &WaitingThread) -> io::Result<usize> {
        let _ = (buffer, thread);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns a handle with which another thread makes the current and all further calls of `read` return `0`.
    ///
    /// Without it, the thread that waits in `read` outlives the connection, until `read` returns.
    fn stop_handle(&self) -> Option<StopHandle> {
        None
    }
}

/// Writes bytes. Dropping it closes the stream for the peer.
pub trait ByteWriter: Send + 'static {
    /// Waits until some of the bytes can be written, and returns how many were.
    ///
    /// # Errors
    /// If the transport has failed. The connection ends then.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes as many bytes as possible without waiting, so that most messages need no thread that may wait.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if none can be written; otherwise as [`write`](Self::write).
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = bytes;
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Returns a handle with which another thread makes the current and all further calls of `write` fail.
    ///
    /// Without it, a thread that waits in `write` outlives the connection while its peer does not read.
    fn stop_handle(&self) -> Option<StopHandle> {
        None
    }
}

/// Reads whole messages, each one JSON text, for example from a WebSocket.
pub trait MessageSource: Send + 'static {
    /// Waits for a message, appends it to `message`, which is empty, and returns `true`; `false` is the end of the
    /// input.
    ///
    /// # Errors
    /// If the transport has failed. The connection ends then.
    fn receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool>;

    /// Returns a handle as [`ByteReader::stop_handle`] does.
    fn stop_handle(&self) -> Option<StopHandle> {
        None
    }
}

/// Writes whole messages. Dropping it closes the stream for the peer.
pub trait MessageSink: Send + 'static {
    /// Sends a message, and waits until the transport has accepted it.
    ///
    /// # Errors
    /// If the transport has failed. The connection ends then.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Returns a handle as [`ByteWriter::stop_handle`] does.
    fn stop_handle(&self) -> Option<StopHandle> {
        None
    }
}

/// A pair of streams that a connection can run over.
///
/// Every pair that carries bytes in both directions, in order and without loss, can be used: see [`Transport::new`].
/// Each message is a line of JSON. The connection ends when either stream does.
pub struct Transport {
    pub(crate) input: Input,
    pub(crate) sink: Box<dyn ByteWriter>,
    pub(crate) close_timeout: Duration,
    pub(crate) sniffer: Sniffer,
    /// The timeout of the first message, and of the rest of each message that has begun.
    pub(crate) message: Option<Duration>,
    pub(crate) end: Box<dyn FnOnce() + Send>,
}

/// The input of a connection.
pub(crate) enum Input {
    Bytes(Box<dyn ByteReader>),
    Messages(Box<dyn MessageSource>),
}

impl Input {
    pub(crate) fn stop_handle(&self) -> Option<StopHandle> {
        match self {
            Self::Bytes(source) => source.stop_handle(),
            Self::Messages(source) => source.stop_handle(),
        }
    }
}

impl Transport {
    /// Creates a transport from a reader and a writer of your own.
    pub fn new(source: impl ByteReader, sink: impl ByteWriter) -> Self {
        Self::with_input(Input::Bytes(Box::new(source)), sink)
    }

    /// Creates a transport of your own that carries whole messages.
    pub fn messages(source: impl MessageSource, sink: impl MessageSink) -> Self {
        Self::with_input(Input::Messages(Box::new(source)), MessageWriter(sink))
    }

    fn with_input(input: Input, sink: impl ByteWriter) -> Self {
        Self {
            input,
            sink: Box::new(sink),
            close_timeout: Duration::ZERO,
            sniffer: Sniffer::off(),
            message: None,
            end: Box::new(|| {}),
        }
    }

    /// Creates a transport from a reader and a writer of the standard library.
    ///
    /// Each write is flushed. Such a reader cannot be interrupted: if the connection ends first, the thread that waits
    /// in a read lives until the read returns, and delays nothing else.
    pub fn from_io(reader: impl io::Read + Send + 'static, writer: impl io::Write + Send + 'static) -> Self {
        Self::new(IoReader(reader), IoWriter(writer))
    }

    /// Creates two transports that are each other's peer. Each direction holds at most `capacity` bytes (and at least
    /// one): a writer waits until the other end has read.
    #[must_use]
    pub fn pair(capacity: usize) -> (Self, Self) {
        let ((left_reader, left_writer), (right_reader, right_writer)) = (pipe(capacity), pipe(capacity));
        (Self::new(right_reader, left_writer), Self::new(left_reader, right_writer))
    }

    /// Creates a transport over a TCP connection. There is no encryption and no authentication: every peer that can
    /// connect is served. The connection ends if its first bytes are no JSON object, as those of a browser's request
    /// are not.
    ///
    /// # Errors
    /// If the system has no free descriptors.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        Self::tcp_within(stream, None)
    }

    /// Creates a transport as [`tcp`](Self::tcp) does, with a limit on how long the peer may read nothing.
    pub(crate) fn tcp_within(stream: TcpStream, write: Option<Duration>) -> io::Result<Self> {
        // Each message is written at once and must not be delayed. The call fails on a connection that was reset, which
        // its reader notices.
        let _ = stream.set_nodelay(true);
        Ok(Self { sniffer: Sniffer::new(), ..Self::socket(stream.into(), write)? })
    }

    /// Creates a transport over a Unix domain socket. The permissions of its path decide which users can connect.
    ///
    /// # Errors
    /// If the system has no free descriptors.
    #[cfg(unix)]
    pub fn unix(stream: UnixStream) -> io::Result<Self> {
        Self::socket(stream.into(), None)
    }

    /// Creates a transport over a socket, with a limit on how long the peer may read nothing.
    pub(crate) fn socket(fd: OwnedFd, write: Option<Duration>) -> io::Result<Self> {
        Ok(Self::new(FdReader::new(fd.try_clone()?), FdWriter::new(fd, true).timeout(write))
            .close_timeout(CLOSE_TIMEOUT))
    }

    /// Sets how long reading continues after the last byte was written, if the peer does not end its stream. Default:
    /// not at all; for sockets, half a second.
    #[must_use]
    pub fn close_timeout(mut self, close_timeout: Duration) -> Self {
        self.close_timeout = close_timeout;
        self
    }

    /// Sets a function that runs after the last byte was written and the writer dropped, while input is still read. It
    /// may block; closing the connection waits for it.
    #[must_use]
    pub fn on_close(mut self, end: impl FnOnce() + Send + 'static) -> Self {
        self.end = Box::new(end);
        self
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("close_timeout", &self.close_timeout).finish_non_exhaustive()
    }
}

/// A reader of the standard library.
pub(crate) struct IoReader<R>(pub(crate) R);

impl<R: io::Read + Send + 'static> ByteReader for IoReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

/// A writer of the standard library.
pub(crate) struct IoWriter<W>(pub(crate) W);

impl<W: io::Write + Send + 'static> ByteWriter for IoWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(bytes)?;
        self.0.flush()?;
        Ok(bytes.len())
    }
}

/// Splits written bytes into messages. Each message contains no line feed and is followed by one.
struct MessageWriter<S>(S);

impl<S: MessageSink> ByteWriter for MessageWriter<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let message = bytes.split(|byte| *byte == b'\n').next().unwrap_or(bytes);
        self.0.send(message)?;
        Ok(bytes.len().min(message.len() + 1))
    }

    fn stop_handle(&self) -> Option<StopHandle> {
        self.0.stop_handle()
    }
}

impl ByteReader for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        block_on(std::future::poll_fn(|cx| self.poll_read(cx, buffer)))
    }

    fn read_until_notified(&mut self, buffer: &mut [u8], thread: &WaitingThread) -> io::Result<usize> {
        match self.poll_read(&mut Context::from_waker(&thread.waker()), buffer) {
            Poll::Ready(read) => read,
            Poll::Pending => {
                // Input also notifies the thread, which then reads again.
                thread.park();
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    fn stop_handle(&self) -> Option<StopHandle> {
        Some(Box::new(Self::stop_handle(self)))
    }
}

impl ByteWriter for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        block_on(std::future::poll_fn(|cx| self.poll_write(cx, bytes)))
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.poll_write(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn stop_handle(&self) -> Option<StopHandle> {
        Some(Box::new(Self::stop_handle(self)))
    }
}
