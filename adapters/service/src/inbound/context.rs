//! The context of a handler: the metadata of its request, progress, requests to the peer, and cancellation.

use std::{fmt, future::pending, sync::Arc, time::Duration};

use mcp_proto::{
    connection::{CancelCause, Connection, RequestOptions, SendError, ServerRole},
    protocol::ProtocolVersion,
    rpc::{CallId, Timestamp},
    schema::{Meta, Request, TraceContext},
    wire::ErrorObject,
};

use super::{
    failure::Failure,
    in_flight::{InFlight, RequestOrigin, RoleInFlight},
    request::RequestInfo,
    session_tasks::TaskCarrier,
    state::{Role, SessionState},
};
use crate::{
    driver_api::{
        connection_handle::ConnectionHandle,
        deferred::{Deferred, select_biased},
    },
    outbound::{error::CallError, peer::Peer, pending::Pending},
};

/// The reason for cancelling a request to the peer because the peer's own request was cancelled.
pub(crate) const NO_LONGER_NEEDED: &str = "no longer needed";

/// The request that a handler works on: its metadata, and methods to report progress, send requests to the peer, and
/// notice cancellation.
///
/// It is cheap to clone and can be used on any thread. Methods that may have to wait return a [`Deferred`]: a function
/// blocks with [`wait`](Deferred::wait), an asynchronous handler awaits it. It ends when the request is cancelled or
/// the connection ends.
pub struct Context<E: Role = ServerRole> {
    pub(crate) shared: Arc<SessionState<E>>,
    pub(crate) connection: Arc<dyn ConnectionHandle<E>>,
    pub(crate) in_flight: Arc<InFlight<E::InFlight>>,
    /// Boxed, since few contexts have options, and every handler has several contexts.
    options: Option<Box<RequestOptions>>,
}

/// The context of a request, owned by its responder alone or shared with middleware.
pub(crate) trait RequestContext<E: Role>: Send + 'static {
    fn context(&self) -> &Context<E>;

    /// Recycles the entry of the ended request, unless it is still referenced.
    fn recycle(self);
}

impl<E: Role> Context<E> {
    pub(crate) const fn new(
        shared: Arc<SessionState<E>>,
        connection: Arc<dyn ConnectionHandle<E>>,
        in_flight: Arc<InFlight<E::InFlight>>,
    ) -> Self {
        Self { shared, connection, in_flight, options: None }
    }

    /// Returns the peer of the connection. Requests through it do not end with this request.
    #[must_use]
    pub fn peer(&self) -> Peer<E> {
        Peer::new(self.connection.clone(), self.shared.calls.clone())
    }

    /// Returns the same context with other options for its requests to the peer.
    ///
    /// Without it they have the options of the connection's [settings](mcp_proto::connection::Settings::request), but
    /// requests to the user or the model of a client have no idle timeout.
    #[must_use]
    pub fn with_options(&self, options: RequestOptions) -> Self {
        Self { options: Some(Box::new(options)), ..self.clone() }
    }

    /// Returns the same context with a timeout for each of its requests to the peer.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        self.with_options(RequestOptions::within(timeout))
    }

    /// Returns the circumstances of the request: its revision, its client, and its principal, for example.
    #[must_use]
    pub fn info(&self) -> &RequestInfo {
        self.in_flight.info.get_or_init(|| {
            let key = match self.in_flight.origin {
                RequestOrigin::Request(key) => Some(key),
                RequestOrigin::Task(_) => None,
            };
            Box::new(self.connection.read(|conn| E::info(conn, key)))
        })
    }

    /// Returns the revision of the request.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.info().version
    }

    /// Returns the current time of the connection's clock, which stands still in tests. The time between two of them is
    /// [`saturating_since`](Timestamp::saturating_since).
    #[doc(alias = "elapsed")]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.connection.update(|_, now| now)
    }

    /// Returns the `_meta` of the request.
    #[must_use]
    pub fn meta(&self) -> Option<&Meta> {
        self.in_flight.meta()
    }

    /// Returns the distributed trace of the request. Requests through this context belong to it as well, unless their
    /// [options](Self::with_options) or the application ([`trace_with`](crate::ServiceBuilder::trace_with)) set another
    /// one.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        self.info().trace.clone().or_else(|| self.meta()?.trace())
    }

    /// Returns the id of the task that the request has become, if it has (2025-11-25, 2026-07-28).
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        match &self.in_flight.origin {
            RequestOrigin::Task(id) => Some(id),
            RequestOrigin::Request(_) => self.in_flight.role.task_id(),
        }
    }

    /// Reports the progress of the request: `progress` out of `total`, if that is known, and a message for users
    /// (2025-03-26). It does nothing if the peer did not request progress. For a task of 2026-07-28 only the message
    /// is kept, as the status message of the task.
    ///
    /// The future is pending only while the peer does not read and the outbox is full; dropping it then drops the
    /// notification. It fails if `progress` does not grow, or the connection is closed.
    pub fn progress(
        &self,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Deferred<Result<(), SendError>> {
        match self.send_progress(progress, total, message) {
            Err(SendError::Busy) => {
                let message = message.map(str::to_owned);
                self.send_when_writable(move |context| context.send_progress(progress, total, message.as_deref()))
            }
            sent => Deferred::ready(sent),
        }
    }

    fn send_progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) -> Result<(), SendError> {
        if self.in_flight.role.task_id().is_some() {
            message.inspect(|message| E::on_task_message(&self.shared, &self.connection, &self.in_flight, message));
            return Ok(());
        }
        match &self.in_flight.origin {
            RequestOrigin::Request(key) => {
                self.connection.update(|conn, _| conn.progress(*key, progress, total, message))
            }
            RequestOrigin::Task(id) => {
                self.connection.update(|conn, _| self.shared.tasks.progress(conn, id, progress, total, message))
            }
        }
    }

    /// Returns the options for requests to the peer, if they were set.
    pub(crate) fn options(&self) -> Option<&RequestOptions> {
        self.options.as_deref()
    }

    /// Returns whether the request was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.in_flight.is_cancelled()
    }

    /// Returns why the request was cancelled, if it was.
    #[must_use]
    pub fn cancel_cause(&self) -> Option<CancelCause<'static>> {
        self.in_flight.cause()
    }

    /// Checks for cancellation, for `?` between two steps of long work.
    ///
    /// # Errors
    /// [`CallError::Cancelled`] if the request was cancelled.
    pub fn check(&self) -> Result<(), CallError> {
        if self.is_cancelled() { Err(CallError::Cancelled) } else { Ok(()) }
    }

    /// Waits for `time`, or fails with [`CallError::Cancelled`] as soon as the request is cancelled. It uses the clock
    /// of the connection.
    pub fn sleep(&self, time: Duration) -> Deferred<Result<(), CallError>> {
        if let Err(error) = self.check() {
            return Deferred::ready(Err(error));
        }
        let (connection, in_flight, calls) =
            (self.connection.clone(), self.in_flight.clone(), self.shared.calls.clone());
        let until = connection.update(|_, now| now) + time;
        Deferred::new(async move {
            let slept = async {
                match in_flight.role.task_id() {
                    Some(_) => E::sleep_as_task(connection, calls, until).await,
                    None => connection.sleep_until(until).await,
                }
            };
            in_flight.unless_cancelled(slept).await.ok_or(CallError::Cancelled)
        })
    }

    /// Waits until the request is cancelled, and returns why.
    pub fn cancelled(&self) -> Deferred<CancelCause<'static>> {
        let in_flight = self.in_flight.clone();
        Deferred::new(async move { in_flight.cancelled().await })
    }

    /// Sends a request to the peer on behalf of this request.
    pub(crate) fn send_request<R>(&self, request: R) -> Deferred<Result<R::Result, CallError>>
    where
        R: Request<Result: Send> + Send + Sync + 'static,
    {
        if let Err(error) = self.check() {
            return Deferred::ready(Err(error));
        }
        let peer = match self.options() {
            Some(options) => self.peer().with_options(options.clone()),
            None => self.peer().with_user_timeout::<R>(),
        };
        let peer = match self.trace() {
            Some(trace) => peer.with_default_trace(trace),
            None => peer,
        };
        let peer = match &self.in_flight.origin {
            RequestOrigin::Request(key) => peer.caused_by(*key),
            RequestOrigin::Task(id) if self.shared.tasks.is_announced(id) => peer,
            RequestOrigin::Task(id) => return self.request_with_result(id.clone(), peer, request),
        };
        match peer.request(&request) {
            Ok(pending) => match PendingCall::begin(self, &pending) {
                Ok(pending_call) => Deferred::new(pending_call.end(pending)),
                Err(error) => Deferred::ready(Err(error)),
            },
            Err(SendError::Busy) => {
                let context = self.clone();
                Deferred::new(async move {
                    let sent = context
                        .in_flight
                        .unless_cancelled(context.connection.when_request_slot(|| peer.request(&request)))
                        .await;
                    let pending = sent.ok_or(CallError::Cancelled)??;
                    PendingCall::begin(&context, &pending)?.end(pending).await
                })
            }
            Err(error) => Deferred::ready(Err(error.into())),
        }
    }

    /// Sends a request of a task on the stream of a request that waits for the result of the task, as soon as there is
    /// one.
    fn request_with_result<R>(&self, id: String, peer: Peer<E>, request: R) -> Deferred<Result<R::Result, CallError>>
    where
        R: Request<Result: Send> + Send + Sync + 'static,
    {
        let (context, counted) = (self.clone(), InputRequired::new(self));
        let total = peer.options().or_else(|| self.connection.read(|conn| Some(conn.settings().request.clone())));
        let until =
            total.and_then(|options| options.total_timeout).map(|total| self.connection.update(|_, now| now + total));
        Deferred::new(async move {
            let _counted = counted;
            let tasks = &context.shared.tasks;
            let choose = |conn: &Connection<E>| match tasks.carrier(conn, &id) {
                TaskCarrier::Request(waiting) => Some(waiting),
                TaskCarrier::Session | TaskCarrier::Nothing => None,
            };
            let sent = async {
                loop {
                    context.in_flight.wait_for(|| context.connection.read(choose)).await;
                    let sent = context.connection.when_request_slot(|| peer.request_on(&request, choose)).await;
                    // That request may have ended in between.
                    if !matches!(sent, Err(SendError::Answered)) {
                        return sent;
                    }
                }
            };
            let late = async {
                match until {
                    Some(until) => context.connection.sleep_until(until).await,
                    None => pending().await,
                }
            };
            let sent =
                context.in_flight.unless_cancelled(select_biased(sent, late)).await.ok_or(CallError::Cancelled)?;
            let pending = sent.map_err(|()| CallError::TimedOut { total: true })??;
            PendingCall::begin(&context, &pending)?.end(pending).await
        })
    }

    /// Sends a message for which there was no room at first. Succeeds without sending it if the request is cancelled.
    pub(crate) fn send_when_writable(
        &self,
        mut f: impl FnMut(&Self) -> Result<(), SendError> + Send + 'static,
    ) -> Deferred<Result<(), SendError>> {
        let context = self.clone();
        Deferred::new(async move {
            let sent = context.in_flight.unless_cancelled(context.connection.when_writable(|| f(&context))).await;
            sent.unwrap_or(Ok(()))
        })
    }

    /// Converts a failure into an error of the request's revision.
    pub(crate) fn explain(&self, failure: Failure) -> ErrorObject {
        self.masked(failure).into_error(self.version())
    }

    /// Recycles the entry of the ended request, unless it is still referenced.
    pub(super) fn recycle(self) {
        let Self { in_flight, .. } = self;
        in_flight.recycle();
    }

    /// Returns the entry of the ended request for reuse, unless it is still referenced.
    #[inline]
    pub(super) fn into_entry(self) -> Option<Arc<InFlight<E::InFlight>>> {
        let Self { in_flight, .. } = self;
        in_flight.cleared()
    }

    /// Returns the failure as the peer may get it.
    pub(crate) fn masked(&self, failure: Failure) -> Failure {
        if E::masks_failures(&self.shared.app) { failure.masked() } else { failure }
    }

    /// Adds the metadata of the task, if it is one, to that of a message.
    pub(crate) fn related(&self, mut meta: Option<Meta>) -> Option<Meta> {
        if let RequestOrigin::Task(id) = &self.in_flight.origin {
            // Every text can be written as JSON.
            let _ = meta.get_or_insert_default().set_related_task(id);
        }
        meta
    }
}

impl<E: Role> Clone for Context<E> {
    fn clone(&self) -> Self {
        Self {
            options: self.options.clone(),
            ..Self::new(self.shared.clone(), self.connection.clone(), self.in_flight.clone())
        }
    }
}

impl<E: Role> fmt::Debug for Context<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("origin", &self.in_flight.origin).finish_non_exhaustive()
    }
}

/// A request to the peer on behalf of one of the peer's requests, until it has ended or was dropped.
struct PendingCall<E: Role> {
    call: CallId,
    counted: InputRequired<E>,
}

impl<E: Role> PendingCall<E> {
    fn begin<T>(context: &Context<E>, pending: &Pending<T>) -> Result<Self, CallError> {
        let call = pending.id();
        if !context.in_flight.add_call(call) {
            pending.cancel(Some(NO_LONGER_NEEDED));
            return Err(CallError::Cancelled);
        }
        Ok(Self { call, counted: InputRequired::new(context) })
    }

    async fn end<T>(self, pending: Pending<T>) -> Result<T, CallError> {
        pending.await
    }
}

impl<E: Role> Drop for PendingCall<E> {
    fn drop(&mut self) {
        self.counted.context.in_flight.remove_call(self.call);
    }
}

/// A request to the peer that a task waits for, until it is dropped. The status of the task shows that there is one.
struct InputRequired<E: Role> {
    context: Context<E>,
}

impl<E: Role> InputRequired<E> {
    fn new(context: &Context<E>) -> Self {
        let counted = Self { context: context.clone() };
        counted.count(1);
        counted
    }

    fn count(&self, difference: isize) {
        let Context { shared, connection, .. } = &self.context;
        if let RequestOrigin::Task(id) = &self.context.in_flight.origin {
            shared.tasks.count_input_requests(connection, id, difference);
        }
    }
}

impl<E: Role> Drop for InputRequired<E> {
    fn drop(&mut self) {
        self.count(-1);
    }
}
