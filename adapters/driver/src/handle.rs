//! The handle of a connection on a runtime.

use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use mcp_proto::{
    connection::{CloseReason, Connection},
    rpc::Timestamp,
};

use crate::{
    event_loop::{
        binding::{Binding, PipeBinding},
        run_loop::EventLoop,
        shared::{Lifecycle, SharedConnection},
    },
    options::DriverOptions,
    runtime::{Runtime, TransportKind},
    stream::{
        connection_task::ConnectionTask,
        framed::{ByteTransport, FramedTransport, WholeMessages},
        transport::{IntoTransport, Io, Transport},
    },
    watched::Watched,
};
use mcp_service::{
    Deferred,
    driver_api::{Application, ConnectionHandle},
};

/// Returns the waker of the first poll of a connection, which happens before its task exists. It wakes nothing, because
/// the task polls everything again. A transport need not register it.
#[must_use]
pub fn first_poll_waker() -> &'static Waker {
    // Each crate may have another waker of this kind, and these are not equal.
    static WAKER: &Waker = Waker::noop();
    WAKER
}

/// A connection that runs in a task of its own, with any [`Application`]. `Client` and [`Server`](super::Server)
/// contain one.
///
/// Dropping it begins to [`close`](Self::close); its task does the rest.
pub struct Handle<E: Send + 'static> {
    shared: Arc<dyn DynConnection<E>>,
}

/// A running connection, with any kind of transport.
trait DynConnection<E>: ConnectionHandle<E> {
    fn lifecycle(&self) -> &Watched<Lifecycle>;

    /// Returns whether a handler of the connection runs on this thread.
    fn is_in_handler(&self) -> bool;

    fn connection(self: Arc<Self>) -> Arc<dyn ConnectionHandle<E>>;
}

impl<E: Send + 'static, C: Binding<E>> DynConnection<E> for SharedConnection<E, C> {
    fn lifecycle(&self) -> &Watched<Lifecycle> {
        &self.lifecycle
    }

    fn is_in_handler(&self) -> bool {
        self.handler_scope.is_current()
    }

    fn connection(self: Arc<Self>) -> Arc<dyn ConnectionHandle<E>> {
        self
    }
}

impl<E: Send + 'static> Handle<E> {
    /// Returns a handle of a running connection.
    #[cfg(feature = "http")]
    pub(super) fn of<C: Binding<E>>(shared: Arc<SharedConnection<E, C>>) -> Self {
        Self { shared }
    }

    /// Runs a connection over the transport of an adapter.
    ///
    /// # Errors
    /// If there is no runtime (outside of one of tokio), or no thread or descriptor for a connection over pipes (smol).
    pub fn start<M: IntoTransport>(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        transport: M,
        options: &DriverOptions,
    ) -> io::Result<Self> {
        let runtime = M::Runtime::current()?;
        let (handle, _, run, kind) =
            Self::prepare(connection, application, transport, options, &runtime, |shared| shared);
        runtime.run_connection(run, kind)?;
        Ok(handle)
    }

    /// Starts a connection as [`start`](Self::start) does, and processes the messages that the peer has already sent on
    /// the calling thread, before there is a task and a thread for it.
    pub(super) fn start_inline<M: IntoTransport>(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        transport: M,
        options: &DriverOptions,
    ) -> io::Result<Self> {
        let runtime = M::Runtime::current()?;
        let (handle, _, run, kind) =
            Self::prepare(connection, application, transport, options, &runtime, |shared| shared);
        let mut run = Box::pin(run);
        if run.as_mut().poll(&mut Context::from_waker(first_poll_waker())).is_pending() {
            runtime.run_connection(run, kind)?;
        }
        Ok(handle)
    }

    /// Creates a connection, and the future that runs it to its end. The application uses the connection that `wrap`
    /// returns, which is also the second value. The last value is the kind of the transport.
    pub(super) fn prepare<M: IntoTransport>(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        transport: M,
        options: &DriverOptions,
        runtime: &M::Runtime,
        wrap: impl FnOnce(Arc<dyn ConnectionHandle<E>>) -> Arc<dyn ConnectionHandle<E>>,
    ) -> (Self, Arc<dyn ConnectionHandle<E>>, impl Future<Output = ()> + Send + 'static, TransportKind) {
        let Transport { io, close_timeout, sniffer, timeouts, kind, functions, end } = transport.into_transport();
        let shared = SharedConnection::new(|now| PipeBinding::new(connection(now), functions), options);
        let limit = shared.lock().binding.settings().limits.frame_bytes;
        let wire: Box<dyn FramedTransport> = match io {
            Io::Bytes(source, sink) => Box::new(ByteTransport::new(source, sink, limit, sniffer)),
            Io::MessageTransport(messages) => Box::new(WholeMessages::new(messages)),
        };
        let connection = wrap(shared.clone());
        let event_loop = EventLoop::new(shared.clone(), connection.clone(), application, runtime.clone());
        let task = ConnectionTask::new(event_loop, wire, timeouts);
        (Self { shared }, connection, task.run(end, close_timeout), kind)
    }

    /// Returns the connection.
    #[must_use]
    pub fn connection(&self) -> Arc<dyn ConnectionHandle<E>> {
        self.shared.clone().connection()
    }

    /// Begins to close the connection, without waiting. Pending calls of this side end at once, and no new requests
    /// begin. Requests of the peer may still get their responses for a while.
    pub fn begin_close(&self) {
        self.shared.with_mut(&mut |connection, now| connection.close(now));
    }

    /// Waits until the connection and its tasks have ended, and returns why it ended.
    ///
    /// In a handler this does not wait, since the end of the connection itself waits for handlers.
    pub fn wait(&self) -> Deferred<Option<CloseReason>> {
        let shared = self.shared.clone();
        Deferred::new(async move {
            let mut over = pin!(
                shared
                    .lifecycle()
                    .wait_for(|lifecycle| lifecycle.finished.then(|| lifecycle.closed.as_deref().cloned()))
            );
            poll_fn(|cx| {
                if shared.is_in_handler() {
                    return Poll::Ready(shared.lifecycle().read(|lifecycle| lifecycle.closed.as_deref().cloned()));
                }
                over.as_mut().poll(cx)
            })
            .await
        })
    }

    /// Ends the connection and waits until its tasks have ended. That takes a bounded time, however the peer behaves. A
    /// second call has no further effect.
    pub fn close(&self) -> Deferred<Option<CloseReason>> {
        self.begin_close();
        self.wait()
    }

    /// Returns whether [`wait`](Self::wait) would return at once.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.lifecycle().read(|lifecycle| lifecycle.finished)
    }
}

impl<E: Send + 'static> Drop for Handle<E> {
    fn drop(&mut self) {
        self.begin_close();
    }
}

impl<E: Send + 'static> fmt::Debug for Handle<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = self.connection();
        let phase = connection.update(|connection, _| connection.phase());
        f.debug_struct("Handle").field("phase", &phase).finish_non_exhaustive()
    }
}
