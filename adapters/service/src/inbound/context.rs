//! What a handler knows of the request it works on, and what it can do meanwhile.

use std::{fmt, sync::Arc, time::Duration};

use mcp_proto::{
    connection::{CancelCause, RequestOptions, SendError, ServerEnd},
    protocol::ProtocolVersion,
    rpc::CallId,
    schema::{Meta, Request, TraceContext},
    wire::ErrorObject,
};

use super::{
    failure::Failure,
    in_flight::{Origin, RoleWork, Work},
    request::RequestInfo,
    state::{Role, Shared},
};
use crate::{
    driver_api::{connection_handle::ConnectionHandle, deferred::Deferred},
    outbound::{error::CallError, peer::Peer, pending::Pending},
};

/// What a peer is told of a question whose request was cancelled.
pub(crate) const NO_LONGER_NEEDED: &str = "no longer needed";

/// The request that a handler works on: its metadata, and methods to report progress, send requests to the peer, and
/// notice cancellation.
///
/// It is cheap to clone and works from any thread. Whatever may have to wait comes back as [`Deferred`]: a function waits for it
/// with [`wait`](Deferred::wait), an asynchronous one awaits it. It ends when the request is cancelled or the connection ends.
pub struct Context<E: Role = ServerEnd> {
    pub(crate) shared: Arc<Shared<E>>,
    pub(crate) connection: Arc<dyn ConnectionHandle<E>>,
    pub(crate) work: Arc<Work<E::Work>>,
    /// Boxed, since few have any, and every handler has several of these.
    options: Option<Box<RequestOptions>>,
}

impl<E: Role> Context<E> {
    pub(crate) const fn new(
        shared: Arc<Shared<E>>,
        connection: Arc<dyn ConnectionHandle<E>>,
        work: Arc<Work<E::Work>>,
    ) -> Self {
        Self { shared, connection, work, options: None }
    }

    /// The other end of the connection. What is asked through it outlives this request.
    #[must_use]
    pub fn peer(&self) -> Peer<E> {
        Peer::new(self.connection.clone(), self.shared.calls.clone())
    }

    /// The same context, with other times for the questions that are asked through it.
    ///
    /// Without it, a client has the [time](mcp_proto::connection::Settings::request) that any request has; but where it has
    /// to ask its user or its model, it may be silent for as long as it takes in all.
    #[must_use]
    pub fn with_options(&self, options: RequestOptions) -> Self {
        Self { options: Some(Box::new(options)), ..self.clone() }
    }

    /// The same context, for questions that are answered within `timeout`.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        self.with_options(RequestOptions::within(timeout))
    }

    /// In which circumstances the request was made.
    #[must_use]
    pub fn info(&self) -> &RequestInfo {
        self.work.info.get_or_init(|| {
            let key = match self.work.origin {
                Origin::Request(key) => Some(key),
                Origin::Task(_) => None,
            };
            Box::new(self.connection.read(|conn| E::info(conn, key)))
        })
    }

    /// The revision that the request was made in.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.info().version
    }

    /// The `_meta` of the request.
    #[must_use]
    pub fn meta(&self) -> Option<&Meta> {
        self.work.meta.as_ref()
    }

    /// Which distributed trace the request belongs to. What is asked through this context belongs to it as well, unless its
    /// [options](Self::with_options) or the application ([`trace_with`](crate::ServiceBuilder::trace_with)) say otherwise.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        self.info().trace.clone().or_else(|| self.meta()?.trace())
    }

    /// The id of the task that the request has become (2025-11-25, 2026-07-28).
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        match &self.work.origin {
            Origin::Task(id) => Some(id),
            Origin::Request(_) => self.work.role.task_id(),
        }
    }

    /// Reports the progress of the request: `progress` out of `total`, if that is known, and a message for people
    /// (2025-03-26). Nothing is sent if the peer has not asked for progress. Of a task only the message is kept, and
    /// the peer gets it when it asks for the status (2026-07-28).
    ///
    /// It has to be waited for only while a peer that does not read leaves no room; dropped then, it is not said. It fails
    /// if `progress` does not grow, or the connection is closed.
    pub fn progress(
        &self,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Deferred<Result<(), SendError>> {
        match self.say_progress(progress, total, message) {
            Err(SendError::Busy) => {
                let message = message.map(str::to_owned);
                self.say_later(move |context| context.say_progress(progress, total, message.as_deref()))
            }
            said => Deferred::ready(said),
        }
    }

    fn say_progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) -> Result<(), SendError> {
        if self.work.role.task_id().is_some() {
            message.inspect(|message| E::said_of_task(&self.shared, &self.connection, &self.work, message));
            return Ok(());
        }
        match &self.work.origin {
            Origin::Request(key) => self.connection.update(|conn, _| conn.progress(*key, progress, total, message)),
            Origin::Task(id) => {
                self.connection.update(|conn, _| self.shared.tasks.progress(conn, id, progress, total, message))
            }
        }
    }

    /// The times that were chosen for questions.
    pub(crate) fn options(&self) -> Option<&RequestOptions> {
        self.options.as_deref()
    }

    /// Returns whether the request was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.work.is_cancelled()
    }

    /// Returns why the request was cancelled, if it was.
    #[must_use]
    pub fn cancel_cause(&self) -> Option<CancelCause<'static>> {
        self.work.cause()
    }

    /// Checks for cancellation, for `?` between two steps of long work.
    ///
    /// # Errors
    /// [`CallError::Cancelled`] if the request was cancelled.
    pub fn check(&self) -> Result<(), CallError> {
        if self.is_cancelled() { Err(CallError::Cancelled) } else { Ok(()) }
    }

    /// Waits for `time`, or fails with [`CallError::Cancelled`] as soon as the request is cancelled. Time is that of
    /// the connection.
    pub fn sleep(&self, time: Duration) -> Deferred<Result<(), CallError>> {
        if let Err(error) = self.check() {
            return Deferred::ready(Err(error));
        }
        let (connection, work, calls) = (self.connection.clone(), self.work.clone(), self.shared.calls.clone());
        let until = connection.update(|_, now| now) + time;
        Deferred::new(async move {
            let slept = async {
                match work.role.task_id() {
                    Some(_) => E::sleep_as_task(connection, calls, until).await,
                    None => connection.sleep_until(until).await,
                }
            };
            work.unless_cancelled(slept).await.ok_or(CallError::Cancelled)
        })
    }

    /// Waits until the request is cancelled, and returns why.
    pub fn cancelled(&self) -> Deferred<CancelCause<'static>> {
        let work = self.work.clone();
        Deferred::new(async move { work.cancelled().await })
    }

    /// Asks the peer on behalf of this request.
    pub(crate) fn ask<R>(&self, question: R) -> Deferred<Result<R::Result, CallError>>
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
        let peer = match self.work.origin {
            Origin::Request(key) => peer.caused_by(key),
            Origin::Task(_) => peer,
        };
        match peer.request(&question) {
            Ok(pending) => match Asking::begin(self, &pending) {
                Ok(asking) => Deferred::new(asking.end(pending)),
                Err(error) => Deferred::ready(Err(error)),
            },
            Err(SendError::Busy) => {
                let context = self.clone();
                Deferred::new(async move {
                    let asked = context
                        .work
                        .unless_cancelled(context.connection.when_request_slot(|| peer.request(&question)))
                        .await;
                    let pending = asked.ok_or(CallError::Cancelled)??;
                    Asking::begin(&context, &pending)?.end(pending).await
                })
            }
            Err(error) => Deferred::ready(Err(error.into())),
        }
    }

    /// Sends a message for which there was no room at first. Succeeds without sending it if the request is cancelled.
    pub(crate) fn say_later(
        &self,
        mut f: impl FnMut(&Self) -> Result<(), SendError> + Send + 'static,
    ) -> Deferred<Result<(), SendError>> {
        let context = self.clone();
        Deferred::new(async move {
            let said = context.work.unless_cancelled(context.connection.when_writable(|| f(&context))).await;
            said.unwrap_or(Ok(()))
        })
    }

    /// A failure as the request's revision puts it.
    pub(crate) fn explain(&self, failure: Failure) -> ErrorObject {
        failure.into_error(self.version())
    }

    /// The metadata that belongs to whatever this work sends.
    pub(crate) fn related(&self, mut meta: Option<Meta>) -> Option<Meta> {
        if let Origin::Task(id) = &self.work.origin {
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
            ..Self::new(self.shared.clone(), self.connection.clone(), self.work.clone())
        }
    }
}

impl<E: Role> fmt::Debug for Context<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("origin", &self.work.origin).finish_non_exhaustive()
    }
}

/// A request of ours that belongs to the work on one of the peer's, until it has ended or is given up.
struct Asking<E: Role> {
    context: Context<E>,
    call: CallId,
}

impl<E: Role> Asking<E> {
    fn begin<T>(context: &Context<E>, pending: &Pending<T>) -> Result<Self, CallError> {
        let call = pending.id();
        if !context.work.ask(call) {
            pending.cancel(Some(NO_LONGER_NEEDED));
            return Err(CallError::Cancelled);
        }
        let asking = Self { context: context.clone(), call };
        asking.count(1);
        Ok(asking)
    }

    async fn end<T>(self, pending: Pending<T>) -> Result<T, CallError> {
        pending.await
    }

    fn count(&self, difference: isize) {
        let Context { shared, connection, .. } = &self.context;
        if let Origin::Task(id) = &self.context.work.origin {
            shared.tasks.ask(connection, id, difference);
        }
    }
}

impl<E: Role> Drop for Asking<E> {
    fn drop(&mut self) {
        self.context.work.asked(self.call);
        self.count(-1);
    }
}
