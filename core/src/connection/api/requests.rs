//! What an application does with a [`Connection`]: asks, tells, answers, reports and ends.

use alloc::{string::String, vec::Vec};

use serde_core::ser::Error as _;

use crate::{
    connection::{
        api::Connection,
        types::{RequestOptions, Room, SendError, TaskProgress},
    },
    protocol::{CapabilitySet, Method},
    rpc::{CallId, ReplyKey, State, Timestamp},
    schema::{CreateTaskResult, Encode, JsonLine, LogMessageParams, Notification, Request},
    wire::{ErrorObject, RawJson, encode},
};

impl<E> Connection<E> {
    /// Asks the peer for something. It ends with exactly one [`Event::Response`](crate::connection::Event::Response).
    ///
    /// # Errors
    /// If it is not allowed now; nothing has changed then.
    pub fn request<R: Request>(
        &mut self,
        now: Timestamp,
        params: &R,
        options: RequestOptions,
    ) -> Result<CallId, SendError> {
        let version = self.engine.version;
        let has_task = params.is_task();
        let asked = self.engine.request(now, &R::METHOD.into(), params.needs(), has_task, options, |out| {
            if params.is_empty() { Ok(()) } else { params.append_at(version, &mut JsonLine::new(out)) }
        });
        self.engine.noted(Room::Request, asked)
    }

    /// Asks the peer for something by name: a method of your own, or one of the specification with params as text.
    ///
    /// `params` is a JSON object, or absent. A method of the specification is checked against the table as in
    /// [`request`](Self::request), but its params are not.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has changed then.
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
        let asked = self.engine.request(now, &method, CapabilitySet::EMPTY, task, options, |out| {
            params.map_or(Ok(()), |params| raw_object(out, params))
        });
        self.engine.noted(Room::Request, asked)
    }

    /// Tells the peer something.
    ///
    /// Log messages below the level that the client has set are dropped. A list that changed several times is
    /// announced once.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has changed then.
    pub fn notify<N: Notification>(&mut self, params: &N) -> Result<(), SendError> {
        let versions = N::METHOD.versions();
        let version = self.engine.version.filter(|version| versions.contains(*version)).or_else(|| versions.newest());
        let subject = params.resource().or_else(|| params.task());
        let told = self.engine.notify(&N::METHOD.into(), params.level(), subject, |out| {
            if params.is_empty() { Ok(()) } else { params.append_at(version, &mut JsonLine::new(out)) }
        });
        self.engine.noted(Room::Message, told)
    }

    /// Tells the peer something by name.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has changed then.
    pub fn notify_raw(&mut self, method: &str, params: Option<&RawJson<'_>>) -> Result<(), SendError> {
        let method = self.engine.method(method);
        let logged = params.filter(|_| method.known() == Some(Method::LogMessage));
        let level = logged.and_then(|params| params.member("level")?.decode().ok());
        let subject = if method.known() == Some(Method::ExtTaskChanged) { "taskId" } else { "uri" };
        let subject: Option<String> = params.and_then(|params| params.member(subject)?.decode().ok());
        let told = self
            .engine
            .notify(&method, level, subject.as_deref(), |out| params.map_or(Ok(()), |params| raw_object(out, params)));
        self.engine.noted(Room::Message, told)
    }

    /// Gives up on a call. It ends at once, as [`Outcome::Cancelled`](crate::connection::Outcome::Cancelled); the peer is told when it can
    /// be.
    ///
    /// # Errors
    /// If it has ended, or is the handshake.
    pub fn cancel(&mut self, call: CallId, reason: Option<&str>) -> Result<(), SendError> {
        self.engine.cancel(call, reason)
    }

    /// Answers a request. After the peer's cancellation the answer is swallowed.
    ///
    /// # Errors
    /// If it has been answered before, or cannot be encoded or queued now. In the latter cases it is still owed one: see
    /// [`respond_or_error`](Self::respond_or_error).
    pub fn respond<T: Encode>(&mut self, key: ReplyKey, result: &T) -> Result<(), SendError> {
        let version = self.engine.version_of(key);
        let answered = self.engine.respond(key, Ok(&|out| result.append_at(version, &mut JsonLine::new(out))));
        self.engine.noted(Room::Message, answered)
    }

    /// Answers a request, with an internal error if `result` cannot be sent: the peer is owed an answer in any case.
    ///
    /// Returns `None` if the result was queued, else why it was not and the error was queued in its place.
    ///
    /// # Errors
    /// [`SendError::Busy`] if there is no room now and [`SendError::Answered`] if it has been answered before, as for
    /// [`respond`](Self::respond). [`SendError::TooLarge`] if [`Limits::frame_bytes`](crate::connection::Limits::frame_bytes) is too small
    /// for any answer. It is still owed one then, unless it has been answered.
    pub fn respond_or_error<T: Encode>(&mut self, key: ReplyKey, result: &T) -> Result<Option<SendError>, SendError> {
        let version = self.engine.version_of(key);
        let answered = self.engine.respond_or_error(key, Ok(&|out| result.append_at(version, &mut JsonLine::new(out))));
        self.engine.noted(Room::Message, answered)
    }

    /// As [`respond_or_error`](Self::respond_or_error), with a result that is already text: a JSON object.
    ///
    /// # Errors
    /// As [`respond_or_error`](Self::respond_or_error).
    pub fn respond_raw_or_error(
        &mut self,
        key: ReplyKey,
        result: &RawJson<'_>,
    ) -> Result<Option<SendError>, SendError> {
        let answered = self.engine.respond_or_error(key, Ok(&|out| raw_object(out, result)));
        self.engine.noted(Room::Message, answered)
    }

    /// Answers a request with a result that is already text: a JSON object.
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn respond_raw(&mut self, key: ReplyKey, result: &RawJson<'_>) -> Result<(), SendError> {
        let answered = self.engine.respond(key, Ok(&|out| raw_object(out, result)));
        self.engine.noted(Room::Message, answered)
    }

    /// Answers a request with an error.
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn respond_error(&mut self, key: ReplyKey, error: &ErrorObject) -> Result<(), SendError> {
        let answered = self.engine.respond(key, Err(error));
        self.engine.noted(Room::Message, answered)
    }

    /// Reports how far a request of the peer is. Nothing is sent if the peer has not asked for it.
    ///
    /// # Errors
    /// If `progress` does not grow, the request has been answered, or too much waits to be written.
    pub fn progress(
        &mut self,
        key: ReplyKey,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let reported = self.engine.progress(key, progress, total, message);
        self.engine.noted(Room::Message, reported)
    }

    /// Sends a log message on behalf of a request. It leaves before the answer, and only if the client wants messages
    /// as severe as this: of this request (2026-07-28) or of the session.
    ///
    /// # Errors
    /// If logging was not declared, the request has been answered, or too much waits to be written.
    pub fn log(&mut self, key: ReplyKey, message: &LogMessageParams) -> Result<(), SendError> {
        let version = self.engine.version_of(key);
        let logged = self.engine.log(key, message.level, |out| message.append_at(version, &mut JsonLine::new(out)));
        self.engine.noted(Room::Message, logged)
    }

    /// Answers a request with the task that it has become (2025-11-25). Its progress can go on under the same token:
    /// hand what this returns to [`task_progress`](Self::task_progress).
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn respond_task(&mut self, key: ReplyKey, task: &CreateTaskResult) -> Result<Option<TaskProgress>, SendError> {
        let (token, last) = match self.engine.requests.get(key) {
            Some((entry, State::Open)) => (entry.token().cloned(), entry.tag.last_progress),
            _ => (None, None),
        };
        self.respond(key, task)?;
        Ok(token.map(|token| TaskProgress { token, last, task: task.task.task_id.clone() }))
    }

    /// Reports how far a task is. Not to be used once the task has ended.
    ///
    /// # Errors
    /// As [`progress`](Self::progress).
    pub fn task_progress(
        &mut self,
        task: &mut TaskProgress,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let reported = self.engine.task_progress(None, task, (progress, total, message));
        self.engine.noted(Room::Message, reported)
    }

    /// [Reports](Self::task_progress) how far a task is, on the stream of a request that waits for its result
    /// (`tasks/result`). Where a binding has several streams, the report leaves before that result then, and cannot be overtaken
    /// by it. If the request does not wait any more, it is the same as [`task_progress`](Self::task_progress).
    ///
    /// # Errors
    /// As [`progress`](Self::progress).
    pub fn task_progress_on(
        &mut self,
        waiting: ReplyKey,
        task: &mut TaskProgress,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let reported = self.engine.task_progress(Some(waiting), task, (progress, total, message));
        self.engine.noted(Room::Message, reported)
    }

    /// Ends the connection: calls end at once, nothing new is begun, and what the peer was promised may still be
    /// answered for a while ([`Limits::drain`](crate::connection::Limits::drain)). Closing twice is closing once.
    pub fn close(&mut self, now: Timestamp) {
        self.engine.close(now);
    }
}

/// Appends params or a result that an application wrote. They are objects, and have each member that the protocol reads once.
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
