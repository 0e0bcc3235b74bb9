//! What a handler knows of the request it works on, and what it can do meanwhile.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use mcp_proto::{
    connection::{CancelCause, RequestOptions, SendError, ServerEnd},
    protocol::ProtocolVersion,
    schema::{ClientCapabilities, Implementation, LoggingLevel, Meta, ProgressToken, Request},
    wire::ErrorObject,
};

use crate::{
    CallError, Failure, Link, Peer, Role,
    session::Shared,
    work::{Origin, Work},
};

/// What a peer is told of a question whose request was cancelled.
pub(crate) const NO_LONGER_NEEDED: &str = "no longer needed";

/// In which circumstances a request was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestInfo {
    /// The revision that it is made in.
    pub version: ProtocolVersion,
    /// Who the peer says it is.
    pub peer: Option<Implementation>,
    /// What the client can do for the server.
    pub client_capabilities: ClientCapabilities,
    /// The least severe log messages that the client wants, if it has said so.
    pub log_level: Option<LoggingLevel>,
    /// The token under which the peer wants to hear of progress.
    pub progress_token: Option<ProgressToken>,
}

/// What a handler knows of the request it works on, and what it can do meanwhile: say how far it is, ask back, notice
/// that nobody wants the result any more.
///
/// It is cheap to clone and works from any thread. What it waits for ends when the request is cancelled or the
/// connection ends.
pub struct Context<E: Role = ServerEnd> {
    pub(crate) shared: Arc<Shared<E>>,
    pub(crate) link: Arc<dyn Link<E>>,
    pub(crate) work: Arc<Work>,
    options: Option<RequestOptions>,
}

impl<E: Role> Context<E> {
    pub(crate) const fn new(shared: Arc<Shared<E>>, link: Arc<dyn Link<E>>, work: Arc<Work>) -> Self {
        Self { shared, link, work, options: None }
    }

    /// The other end of the connection. What is asked through it outlives this request.
    #[must_use]
    pub fn peer(&self) -> Peer<E> {
        Peer::new(self.link.clone(), self.shared.calls.clone())
    }

    /// The same context, with other times for the questions that are asked through it.
    ///
    /// Without it, a client has the [time](mcp_proto::connection::Settings::request) that any request has; but where it has
    /// to ask its user or its model, it may be silent for as long as it takes in all.
    #[must_use]
    pub fn with_options(&self, options: RequestOptions) -> Self {
        Self { options: Some(options), ..self.clone() }
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
            self.link.run(|conn, _| E::info(conn, key))
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

    /// The id of the task that the request has become (2025-11-25).
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        match &self.work.origin {
            Origin::Task(id) => Some(id),
            Origin::Request(_) => None,
        }
    }

    /// Says how far the request is: `progress` out of `total`, if that is known, and a word for people (2025-03-26).
    /// Nothing is sent if the peer has not asked for it.
    ///
    /// Blocks while a peer that does not read leaves no room.
    ///
    /// # Errors
    /// If `progress` does not grow, or the connection is closed.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) -> Result<(), SendError> {
        self.when_there_is_room(|| match &self.work.origin {
            Origin::Request(key) => self.link.run(|conn, _| conn.progress(*key, progress, total, message)),
            Origin::Task(id) => self.link.run(|conn, _| self.shared.tasks.progress(conn, id, progress, total, message)),
        })
    }

    /// Whether nobody wants the result any more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.work.is_cancelled()
    }

    /// Why nobody wants the result any more, if that is so.
    #[must_use]
    pub fn cancel_cause(&self) -> Option<CancelCause<'static>> {
        self.work.cause()
    }

    /// For `?` between two steps of long work.
    ///
    /// # Errors
    /// [`CallError::Cancelled`] if nobody wants the result any more.
    pub fn check(&self) -> Result<(), CallError> {
        if self.is_cancelled() { Err(CallError::Cancelled) } else { Ok(()) }
    }

    /// Blocks for `time`, or until nobody wants the result any more.
    ///
    /// # Errors
    /// [`CallError::Cancelled`] if nobody wants the result any more.
    pub fn sleep(&self, time: Duration) -> Result<(), CallError> {
        if self.work.sleep(time) { Err(CallError::Cancelled) } else { Ok(()) }
    }

    /// Ends when nobody wants the result any more; for handlers that drive futures.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled(self.work.clone())
    }

    /// Asks the peer on behalf of this request, and waits.
    pub(crate) fn ask<R: Request<Result: 'static>>(&self, question: &R) -> Result<R::Result, CallError> {
        self.check()?;
        let peer = match self.options.clone() {
            Some(options) => self.peer().with_options(options),
            None => self.peer().patient_for::<R>(),
        };
        let pending = self.when_there_is_room(|| peer.request(question))?;
        if !self.work.ask(pending.id()) {
            pending.cancel(Some(NO_LONGER_NEEDED));
            return Err(CallError::Cancelled);
        }
        let _waiting = self.task_id().map(|id| self.shared.tasks.question(&self.link, id));
        let call = pending.id();
        let result = pending.wait();
        self.work.asked(call);
        result
    }

    /// Does something, and once more if there was no room at first.
    pub(crate) fn when_there_is_room<T>(&self, f: impl Fn() -> Result<T, SendError>) -> Result<T, SendError> {
        match f() {
            Err(SendError::Busy) => {
                self.link.wait_for_room();
                f()
            }
            done => done,
        }
    }

    /// A failure as the request's revision puts it.
    pub(crate) fn explain(&self, failure: Failure) -> ErrorObject {
        failure.into_error(self.version())
    }

    /// The metadata that belongs to whatever this work sends.
    pub(crate) fn related(&self, mut meta: Option<Meta>) -> Option<Meta> {
        if let Some(id) = self.task_id() {
            // Every text can be written as JSON.
            let _ = meta.get_or_insert_default().set_related_task(id);
        }
        meta
    }
}

impl<E: Role> Clone for Context<E> {
    fn clone(&self) -> Self {
        Self { options: self.options.clone(), ..Self::new(self.shared.clone(), self.link.clone(), self.work.clone()) }
    }
}

impl<E: Role> fmt::Debug for Context<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("origin", &self.work.origin).finish_non_exhaustive()
    }
}

/// A future that ends when a request is cancelled. See [`Context::cancelled`].
#[must_use = "a future does nothing by itself"]
pub struct Cancelled(Arc<Work>);

impl Future for Cancelled {
    type Output = CancelCause<'static>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        self.0.poll_cancelled(cx)
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").finish_non_exhaustive()
    }
}
