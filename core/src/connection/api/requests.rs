//! The messages that an application sends with a [`Connection`]: requests, notifications, responses and progress.

use alloc::{string::String, vec::Vec};

use serde_core::ser::Error as _;

use crate::{
    connection::{
        api::Connection,
        types::{RequestOptions, SendError, TaskProgress, Writable},
    },
    protocol::{CapabilitySet, Method},
    rpc::{CallId, EntryState, ReplyKey, Timestamp},
    schema::{CreateTaskResult, Encode, JsonLine, LogMessageParams, Notification, Request},
    wire::{ErrorObject, RawJson, encode},
};

impl<E> Connection<E> {
    /// Sends a request to the peer. It ends with exactly one [`Event::Response`](crate::connection::Event::Response).
    ///
    /// # Errors
    /// Returns a [`SendError`] if the request is not allowed now. Nothing has changed then.
    pub fn request<R: Request>(
        &mut self,
        now: Timestamp,
        params: &R,
        options: RequestOptions,
    ) -> Result<CallId, SendError> {
        let version = self.engine.version;
        let has_task = params.is_task();
        let result = self.engine.request(now, &R::METHOD.into(), params.needs(), has_task, &options, &|out| {
            if params.is_empty() { Ok(()) } else { params.append_at(version, &mut JsonLine::new(out)) }
        });
        self.engine.record_busy(Writable::Request, result)
    }

    /// Sends a request by name: a method of your own, or one of the specification with params as text.
    ///
    /// `params` is a JSON object, or absent. A method of the specification is checked against the table as in
    /// [`request`](Self::request), but its params are not.
    ///
    /// # Errors
    /// Returns a [`SendError`] if the request is not allowed now. Nothing has changed then.
    pub fn request_raw(
        &mut self,
        now: Timestamp,
        method: &str,
        params: Option<&RawJson<'_>>,
        options: RequestOptions,
    ) -> Result<CallId, SendError> {
        let method = self.engine.method(method);
        let can_be_task =
            method.known().is_some_and(Method::can_be_task) && self.version().is_some_and(|v| v.has_tasks());
        let task = can_be_task && params.is_some_and(|params| params.has("task"));
        let result = self.engine.request(now, &method, CapabilitySet::EMPTY, task, &options, &|out| {
            params.map_or(Ok(()), |params| raw_object(out, params))
        });
        self.engine.record_busy(Writable::Request, result)
    }

    /// Sends a notification to the peer.
    ///
    /// Log messages below the level that the client has set are dropped. A list that changed several times is announced
    /// once.
    ///
    /// # Errors
    /// Returns a [`SendError`] if the notification is not allowed now. Nothing has changed then.
    pub fn notify<N: Notification>(&mut self, params: &N) -> Result<(), SendError> {
        let versions = N::METHOD.versions();
        let version = self.engine.version.filter(|version| versions.contains(*version)).or_else(|| versions.newest());
        let subject = params.resource().or_else(|| params.task());
        let result = self.engine.notify(&N::METHOD.into(), params.level(), subject, &|out| {
            if params.is_empty() { Ok(()) } else { params.append_at(version, &mut JsonLine::new(out)) }
        });
        self.engine.record_busy(Writable::Message, result)
    }

    /// Sends a notification by name.
    ///
    /// # Errors
    /// Returns a [`SendError`] if the notification is not allowed now. Nothing has changed then.
    pub fn notify_raw(&mut self, method: &str, params: Option<&RawJson<'_>>) -> Result<(), SendError> {
        let method = self.engine.method(method);
        let logged = params.filter(|_| method.known() == Some(Method::LogMessage));
        let level = logged.and_then(|params| params.member("level")?.decode().ok());
        let subject = if method.known() == Some(Method::ExtTaskChanged) { "taskId" } else { "uri" };
        let subject: Option<String> = params.and_then(|params| params.member(subject)?.decode().ok());
        let result = self
            .engine
            .notify(&method, level, subject.as_deref(), &|out| params.map_or(Ok(()), |params| raw_object(out, params)));
        self.engine.record_busy(Writable::Message, result)
    }

    /// Cancels a call. It ends at once, as [`Outcome::Cancelled`](crate::connection::Outcome::Cancelled). The
    /// cancellation is sent to the peer when that is possible.
    ///
    /// # Errors
    /// Returns a [`SendError`] if the call has ended, or is the handshake.
    pub fn cancel(&mut self, call: CallId, reason: Option<&str>) -> Result<(), SendError> {
        self.engine.cancel(call, reason)
    }

    /// Responds to a request. If the peer has cancelled it, the response is dropped.
    ///
    /// # Errors
    /// Returns a [`SendError`] if the request has a response already, or if the result cannot be encoded or queued now.
    /// In the latter cases the request still needs a response: see [`respond_or_error`](Self::respond_or_error).
    pub fn respond<T: Encode>(&mut self, key: ReplyKey, result: &T) -> Result<(), SendError> {
        let version = self.engine.version_of(key);
        let answered = self.engine.respond(key, Ok(&|out| result.append_at(version, &mut JsonLine::new(out))));
        self.engine.record_busy(Writable::Message, answered)
    }

    /// Responds to a request with `result`, or with an internal error if `result` cannot be sent.
    ///
    /// Returns `None` if the result was queued, else why it was not and the error was queued in its place.
    ///
    /// # Errors
    /// Returns [`SendError::Busy`] if it cannot be queued now, [`SendError::Answered`] if the request has a response
    /// already, and [`SendError::TooLarge`] if [`Limits::frame_bytes`](crate::connection::Limits::frame_bytes) is too
    /// small for any response. The request still needs a response then, unless it has one.
    pub fn respond_or_error<T: Encode>(&mut self, key: ReplyKey, result: &T) -> Result<Option<SendError>, SendError> {
        let version = self.engine.version_of(key);
        let answered = self.engine.respond_or_error(key, Ok(&|out| result.append_at(version, &mut JsonLine::new(out))));
        self.engine.record_busy(Writable::Message, answered)
    }

    /// Responds to a request as [`respond_or_error`](Self::respond_or_error) does, with the text of a JSON object.
    ///
    /// # Errors
    /// Returns the errors of [`respond_or_error`](Self::respond_or_error).
    pub fn respond_raw_or_error(
        &mut self,
        key: ReplyKey,
        result: &RawJson<'_>,
    ) -> Result<Option<SendError>, SendError> {
        let answered = self.engine.respond_or_error(key, Ok(&|out| raw_object(out, result)));
        self.engine.record_busy(Writable::Message, answered)
    }

    /// Responds to a request with the text of a JSON object.
    ///
    /// # Errors
    /// Returns the errors of [`respond`](Self::respond).
    pub fn respond_raw(&mut self, key: ReplyKey, result: &RawJson<'_>) -> Result<(), SendError> {
        let answered = self.engine.respond(key, Ok(&|out| raw_object(out, result)));
        self.engine.record_busy(Writable::Message, answered)
    }

    /// Responds to a request with an error.
    ///
    /// # Errors
    /// Returns the errors of [`respond`](Self::respond).
    pub fn respond_error(&mut self, key: ReplyKey, error: &ErrorObject) -> Result<(), SendError> {
        let answered = self.engine.respond(key, Err(error));
        self.engine.record_busy(Writable::Message, answered)
    }

    /// Responds to a request with an error, also while too much waits to be written. It is for a request that nothing
    /// serves any more, so that nothing waits for room to respond.
    ///
    /// Like the responses of the connection itself, the error may exceed
    /// [`Limits::outbox_bytes`](crate::connection::Limits::outbox_bytes) by
    /// [`Limits::control_bytes`](crate::connection::Limits::control_bytes). Beyond that the peer does not read, and the
    /// connection closes with [`CloseReason::PeerNotReading`](crate::connection::CloseReason::PeerNotReading).
    ///
    /// # Errors
    /// Returns the errors of [`respond`](Self::respond), but not [`SendError::Busy`].
    pub fn refuse(&mut self, key: ReplyKey, error: &ErrorObject) -> Result<(), SendError> {
        self.engine.refuse_request(key, error)
    }

    /// Sends the progress of a request of the peer. It sends nothing if the peer did not request progress.
    ///
    /// # Errors
    /// Returns a [`SendError`] if `progress` does not grow, the request has a response already, or too much waits to be
    /// written.
    pub fn progress(
        &mut self,
        key: ReplyKey,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let reported = self.engine.progress(key, progress, total, message);
        self.engine.record_busy(Writable::Message, reported)
    }

    /// Sends a log message on behalf of a request. It is sent before the response, and only if the client accepts
    /// messages of this severity: for this request (2026-07-28) or for the session.
    ///
    /// # Errors
    /// Returns a [`SendError`] if logging was not declared, the request has a response already, or too much waits to be
    /// written.
    pub fn log(&mut self, key: ReplyKey, message: &LogMessageParams) -> Result<(), SendError> {
        let version = self.engine.version_of(key);
        let logged = self.engine.log(key, message.level, &|out| message.append_at(version, &mut JsonLine::new(out)));
        self.engine.record_busy(Writable::Message, logged)
    }

    /// Responds to a request with the task that it has become (2025-11-25). Progress can still be sent under the same
    /// token: pass the returned value to [`task_progress`](Self::task_progress). Returns `None` if the peer did not
    /// request progress.
    ///
    /// # Errors
    /// Returns the errors of [`respond`](Self::respond).
    pub fn respond_task(&mut self, key: ReplyKey, task: &CreateTaskResult) -> Result<Option<TaskProgress>, SendError> {
        let (token, last) = match self.engine.requests.get(key) {
            Some((entry, EntryState::Open)) => (entry.token().cloned(), entry.tag.last_progress),
            _ => (None, None),
        };
        self.respond(key, task)?;
        Ok(token.map(|token| TaskProgress { token, last, task: task.task.task_id.clone() }))
    }

    /// Sends the progress of a task. It must not be called once the task has ended.
    ///
    /// # Errors
    /// Returns the errors of [`progress`](Self::progress).
    pub fn task_progress(
        &mut self,
        task: &mut TaskProgress,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let reported = self.engine.task_progress(None, task, (progress, total, message));
        self.engine.record_busy(Writable::Message, reported)
    }

    /// Sends the progress of a task, as [`task_progress`](Self::task_progress), on the stream of a request that waits
    /// for the result of the task (`tasks/result`).
    ///
    /// Over a binding with several streams, the progress is then sent before that result and cannot be overtaken by it.
    /// If the request does not wait any more, this is the same as [`task_progress`](Self::task_progress).
    ///
    /// # Errors
    /// Returns the errors of [`progress`](Self::progress).
    pub fn task_progress_on(
        &mut self,
        waiting: ReplyKey,
        task: &mut TaskProgress,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let reported = self.engine.task_progress(Some(waiting), task, (progress, total, message));
        self.engine.record_busy(Writable::Message, reported)
    }

    /// Closes the connection: calls end at once, new requests are refused, and open requests of the peer may still get
    /// responses for a while ([`Limits::drain`](crate::connection::Limits::drain)). A second call does nothing.
    pub fn close(&mut self, now: Timestamp) {
        self.engine.close(now);
    }
}

/// Appends params or a result of the application. It must be an object in which no member that the protocol reads
/// occurs twice.
fn raw_object(out: &mut Vec<u8>, raw: &RawJson<'_>) -> Result<(), serde_json::Error> {
    if raw.is_ready() {
        out.extend_from_slice(raw.get().as_bytes());
        return Ok(());
    }
    if !raw.is_object() {
        return Err(serde_json::Error::custom("expected an object"));
    }
    if raw.is_ambiguous() {
        return Err(serde_json::Error::custom("a member occurs twice"));
    }
    encode::raw(out, raw.get());
    Ok(())
}
