//! What an adapter holds of a connection on a runtime.

use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use mcp_proto::{
    connection::{CloseReason, Connection},
    rpc::Timestamp,
};

use super::{
    Holder, Messages, Options, Runtime, Sink, Sniffer, Source, Watch,
    carrier::{Carrier, Piped},
    conversation::{Conversation, Timeouts},
    functions::Functions,
    hub::{Hub, Stage},
    memory::pipe,
    wire::{Bytes, Whole, Wire},
};
#[cfg(feature = "http")]
use super::{
    desk::Desk,
    http::{Credentials, Errands, Messenger, Requests},
};
use crate::sync::lock;
use mcp_service::{Application, Later, Link};

/// What a connection on a runtime runs over, and how that ends.
pub struct Transport {
    io: Io,
    linger: Duration,
    sniffer: Sniffer,
    timeouts: Timeouts,
    functions: Option<(Arc<Functions>, Holder)>,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

enum Io {
    Bytes(Box<dyn Source>, Box<dyn Sink>),
    Messages(Box<dyn Messages>),
}

impl Transport {
    /// Bytes.
    pub fn new(source: impl Source, sink: impl Sink) -> Self {
        Self::with(Io::Bytes(Box::new(source), Box::new(sink)))
    }

    /// Bytes in both directions over one stream.
    pub fn duplex(stream: impl Source + Sink) -> Self {
        let stream = Arc::new(Mutex::new(stream));
        Self::new(Half(stream.clone()), Half(stream))
    }

    /// Whole messages.
    pub fn messages(messages: impl Messages) -> Self {
        Self::with(Io::Messages(Box::new(messages)))
    }

    fn with(io: Io) -> Self {
        let (sniffer, timeouts) = (Sniffer::off(), Timeouts::default());
        Self { io, linger: Duration::ZERO, sniffer, timeouts, functions: None, end: None }
    }

    /// Two transports that are each other's peer. Each direction holds at most `capacity` bytes, and at least one.
    #[must_use]
    pub fn pair(capacity: usize) -> (Self, Self) {
        let ((from_left, to_right), (from_right, to_left)) = (pipe(capacity), pipe(capacity));
        (Self::new(from_right, to_right), Self::new(from_left, to_left))
    }

    /// How long to go on reading after the last byte was written, if the peer does not end its stream by itself.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Ends the connection if the first thing that comes is no JSON object: see [`Sniffer`]. Default: it goes on.
    #[must_use]
    pub fn json_first(mut self) -> Self {
        self.sniffer = Sniffer::new();
        self
    }

    /// Ends the connection if no message has come after so long, or one that has begun is not complete after so long. The time in
    /// which nothing is read because of what the connection holds does not count. Default: never.
    #[must_use]
    pub fn message_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.message = Some(timeout);
        self
    }

    /// Ends the connection if there is something to write and none of it could be written for so long. Default: never.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.write = Some(timeout);
        self
    }

    /// Has functions count among those of other connections, as functions of this client.
    #[cfg(all(unix, feature = "os"))]
    pub(super) fn functions(mut self, functions: Arc<Functions>, holder: Holder) -> Self {
        self.functions = Some((functions, holder));
        self
    }

    /// What to do when the last byte was written and the sink dropped, while the source is still read.
    #[must_use]
    pub fn at_end(mut self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        self.end = Some(Box::pin(end));
        self
    }
}

/// A transport of an adapter: what a connection runs over, and the runtime that it runs on.
pub trait Medium {
    /// The runtime.
    type Runtime: Runtime;

    /// What there is to run over.
    fn into_transport(self) -> Transport;
}

/// One direction of a stream that has both. Nobody else is under the lock: both belong to one task.
struct Half<S>(Arc<Mutex<S>>);

impl<S: Source> Source for Half<S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_read(cx, buffer)
    }
}

impl<S: Sink> Sink for Half<S> {
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
        f.debug_struct("Transport").field("linger", &self.linger).finish_non_exhaustive()
    }
}

/// A connection that runs as a task of its own, whatever [`Application`] runs on it. A `Client` and a [`Server`](super::Server)
/// are made of this.
///
/// Dropping it begins to [`close`](Self::close), and what is left to do for that is done by its task.
pub struct Handle<E: Send + 'static> {
    hub: Arc<dyn Held<E>>,
}

/// A connection that runs, whatever its messages travel on.
trait Held<E>: Link<E> {
    fn stage(&self) -> &Watch<Stage>;

    /// Whether a handler of it runs on this thread.
    fn is_on_duty(&self) -> bool;

    fn link(self: Arc<Self>) -> Arc<dyn Link<E>>;
}

impl<E: Send + 'static, C: Carrier<E>> Held<E> for Hub<E, C> {
    fn stage(&self) -> &Watch<Stage> {
        &self.stage
    }

    fn is_on_duty(&self) -> bool {
        self.duty.is_on()
    }

    fn link(self: Arc<Self>) -> Arc<dyn Link<E>> {
        self
    }
}

impl<E: Send + 'static> Handle<E> {
    /// Runs a connection over the transport of an adapter.
    ///
    /// # Errors
    /// If there is nothing to run it on: outside of a runtime of tokio.
    pub fn start<M: Medium>(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        transport: M,
        options: &Options,
    ) -> io::Result<Self> {
        let (handle, runtime, run) = Self::prepare(connection, application, transport, options)?;
        M::Runtime::detach(runtime.spawn(run));
        Ok(handle)
    }

    /// [`start`](Self::start) for a caller who has nothing else to do: what the peer has said by now is answered here, before
    /// there is a task and a thread to run it.
    pub(super) fn start_here<M: Medium>(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        transport: M,
        options: &Options,
    ) -> io::Result<Self> {
        let (handle, runtime, run) = Self::prepare(connection, application, transport, options)?;
        let mut run = Box::pin(run);
        // Nobody is to be woken: the task looks at everything anew.
        if run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            M::Runtime::detach(runtime.spawn(run));
        }
        Ok(handle)
    }

    /// A connection, and what runs it to its end.
    fn prepare<M: Medium>(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        transport: M,
        options: &Options,
    ) -> io::Result<(Self, M::Runtime, impl Future<Output = ()> + Send + 'static)> {
        let runtime = M::Runtime::current()?;
        let Transport { io, linger, sniffer, timeouts, functions, end } = transport.into_transport();
        let hub = Hub::new(|now| Piped::new(connection(now), functions), options);
        let limit = lock(&hub.state).carrier.settings().limits.frame_bytes;
        let wire: Box<dyn Wire> = match io {
            Io::Bytes(source, sink) => Box::new(Bytes::new(source, sink, limit, sniffer)),
            Io::Messages(messages) => Box::new(Whole::new(messages)),
        };
        let conversation = Conversation::new(hub.clone(), application, (wire, timeouts), runtime.clone());
        Ok((Self { hub }, runtime, conversation.run(end, linger)))
    }

    /// The connection.
    #[must_use]
    pub fn link(&self) -> Arc<dyn Link<E>> {
        self.hub.clone().link()
    }

    /// Begins to end the connection, and does not wait: calls of ours end at once, nothing new is begun, and what the
    /// peer was promised may still be answered for a while.
    pub fn begin_close(&self) {
        self.hub.with(&mut |connection, now| connection.close(now));
    }

    /// Waits until the connection has ended and all that belongs to it is gone; why it ended.
    ///
    /// In a handler this does not wait: the end waits for handlers, if only for a while.
    pub fn wait(&self) -> Later<Option<CloseReason>> {
        let hub = self.hub.clone();
        Later::new(async move {
            let mut over = pin!(hub.stage().until(|stage| stage.over.then(|| stage.closed.clone())));
            poll_fn(|cx| {
                if hub.is_on_duty() {
                    return Poll::Ready(hub.stage().look(|stage| stage.closed.clone()));
                }
                over.as_mut().poll(cx)
            })
            .await
        })
    }

    /// Ends the connection and waits until all that belongs to it is gone. That takes a bounded time, however the peer
    /// behaves. Closing twice is closing once.
    pub fn close(&self) -> Later<Option<CloseReason>> {
        self.begin_close();
        self.wait()
    }

    /// Whether [`wait`](Self::wait) would not wait.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.hub.stage().look(|stage| stage.over)
    }
}

#[cfg(feature = "http")]
impl Handle<mcp_proto::connection::ClientEnd> {
    /// Runs a client over HTTP.
    pub fn over_http<R: Runtime>(
        client: impl FnOnce(Timestamp) -> mcp_proto::http::client::Client,
        application: Arc<dyn Application<mcp_proto::connection::ClientEnd>>,
        requests: Arc<dyn Requests>,
        credentials: Option<Arc<dyn Credentials>>,
        options: &Options,
        runtime: &R,
    ) -> Self {
        let hub = Hub::new(|now| Messenger::new(client(now)), options);
        let mut desk = Desk::new(hub.clone(), application, runtime.clone());
        let mut errands = Errands::new(runtime.clone(), requests, credentials);
        R::detach(runtime.spawn(async move {
            desk.until_closed(&mut errands).await;
            // The core sees to it that this takes no longer than its limit says.
            desk.until(&mut errands, None, |desk, _, _| lock(&desk.post.hub.state).carrier.client.is_over()).await;
            desk.end_jobs(&mut errands).await;
        }));
        Self { hub }
    }
}

impl<E: Send + 'static> Drop for Handle<E> {
    fn drop(&mut self) {
        self.begin_close();
    }
}

impl<E: Send + 'static> fmt::Debug for Handle<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = self.link();
        let phase = link.run(|connection, _| connection.phase());
        f.debug_struct("Handle").field("phase", &phase).finish_non_exhaustive()
    }
}
