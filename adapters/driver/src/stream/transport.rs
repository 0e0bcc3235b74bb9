//! The transport of a connection.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

#[cfg(feature = "os")]
use std::marker::PhantomData;

use crate::sync::lock;
use crate::{
    limits::functions::Functions,
    runtime::{Runtime, TransportKind},
    stream::{
        connection_task::Timeouts,
        io::{ByteReader, ByteWriter, MessageTransport},
        line_reader::Sniffer,
        memory::pipe,
    },
};
use mcp_service::driver_api::Holder;

/// The transport of a connection on a runtime, and how it is closed.
pub struct Transport {
    pub(crate) io: Io,
    pub(crate) close_timeout: Duration,
    pub(crate) sniffer: Sniffer,
    pub(crate) timeouts: Timeouts,
    pub(crate) kind: TransportKind,
    pub(crate) functions: Option<(Arc<Functions>, Holder)>,
    pub(crate) end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

pub(crate) enum Io {
    Bytes(Box<dyn ByteReader>, Box<dyn ByteWriter>),
    MessageTransport(Box<dyn MessageTransport>),
}

impl Transport {
    /// Creates a transport for bytes.
    pub fn new(source: impl ByteReader, sink: impl ByteWriter) -> Self {
        Self::with(Io::Bytes(Box::new(source), Box::new(sink)))
    }

    /// Creates a transport for bytes in both directions over one stream.
    pub fn duplex(stream: impl ByteReader + ByteWriter) -> Self {
        let stream = Arc::new(Mutex::new(stream));
        Self::new(Half(stream.clone()), Half(stream))
    }

    /// Creates a transport for whole messages.
    pub fn messages(messages: impl MessageTransport) -> Self {
        Self::with(Io::MessageTransport(Box::new(messages)))
    }

    fn with(io: Io) -> Self {
        let (sniffer, timeouts, kind) = (Sniffer::off(), Timeouts::default(), TransportKind::Other);
        Self { io, close_timeout: Duration::ZERO, sniffer, timeouts, kind, functions: None, end: None }
    }

    /// Sets the kind, on which it depends how the [runtime](Runtime::run_connection) runs the connection. Default:
    /// [`TransportKind::Other`].
    #[must_use]
    pub fn kind(mut self, kind: TransportKind) -> Self {
        self.kind = kind;
        self
    }

    /// Creates two transports that are each other's peer. Each direction holds at most `capacity` bytes, and at least
    /// one.
    #[must_use]
    pub fn pair(capacity: usize) -> (Self, Self) {
        let ((from_left, to_right), (from_right, to_left)) = (pipe(capacity), pipe(capacity));
        let transport = |reader, writer| Self::new(reader, writer).kind(TransportKind::Memory);
        (transport(from_right, to_right), transport(from_left, to_left))
    }

    /// Sets how long reading continues after the last byte was written, if the peer does not end its stream.
    #[must_use]
    pub fn close_timeout(mut self, close_timeout: Duration) -> Self {
        self.close_timeout = close_timeout;
        self
    }

    /// Ends the connection if the input does not begin with a JSON object: see [`Sniffer`]. Default: no check.
    #[must_use]
    pub fn json_first(mut self) -> Self {
        self.sniffer = Sniffer::new();
        self
    }

    /// Ends the connection if the first message is not received within `timeout`, or a message that has begun is not
    /// complete within `timeout`. The time starts anew after backpressure has paused reading. Default: never.
    #[must_use]
    pub fn message_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.message = Some(timeout);
        self
    }

    /// Ends the connection if output is pending and none of it could be written for `timeout`. Default: never.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.write = Some(timeout);
        self
    }

    /// Limits blocking functions together with those of other connections, as functions of this client.
    #[cfg(feature = "os")]
    pub(crate) fn functions(mut self, functions: Arc<Functions>, holder: Holder) -> Self {
        self.functions = Some((functions, holder));
        self
    }

    /// Sets a future that runs after the last byte was written and the writer dropped, while input is still read.
    #[must_use]
    pub fn on_close(mut self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        self.end = Some(Box::pin(end));
        self
    }
}

/// A transport of an adapter, and the runtime that its connection runs on.
pub trait IntoTransport {
    /// The runtime.
    type Runtime: Runtime;

    /// Returns the transport.
    fn into_transport(self) -> Transport;
}

/// A transport that an adapter has not wrapped, with its runtime.
#[cfg(feature = "os")]
pub(crate) struct OnRuntime<R> {
    pub(crate) transport: Transport,
    pub(crate) runtime: PhantomData<fn() -> R>,
}

#[cfg(feature = "os")]
impl<R: Runtime> IntoTransport for OnRuntime<R> {
    type Runtime = R;

    fn into_transport(self) -> Transport {
        self.transport
    }
}

/// One direction of a bidirectional stream. The lock is never contended, since one task owns both directions.
struct Half<S>(Arc<Mutex<S>>);

impl<S: ByteReader> ByteReader for Half<S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_read(cx, buffer)
    }
}

impl<S: ByteWriter> ByteWriter for Half<S> {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_write(cx, bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).poll_close(cx)
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("close_timeout", &self.close_timeout).finish_non_exhaustive()
    }
}
