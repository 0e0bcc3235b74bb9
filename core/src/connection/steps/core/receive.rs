//! What the peer sends: each frame is checked, entered into the tables, and becomes at most one event.

use alloc::{borrow::Cow, boxed::Box, string::String};

use crate::{
    codec::{Frame, FrameEnd},
    connection::{
        engine::{Engine, RoleState},
        state::tags::{FIRST_ID, Origin, RequestTag, Token},
        types::{CancelCause, CloseReason, Event, Outcome, Progress, Violation, error::syntax_at},
    },
    protocol::{Capability, Method, MethodKind, MethodName, Phase, Refusal, Role, check},
    rpc::{CallId, FrameOwner, Inserted, ReplyKey, State, Timestamp},
    schema::{LoggingLevel, SetLevelParams, TraceContext, keys},
    wire::{
        self, ErrorCode, ErrorObject, Malformed, MalformedKind, MalformedSubject, Message, RawJson, RequestId,
        decode_params,
        encode::{self, MissingId},
    },
};

/// How much of a line that is no message is shown.
const NOISE_SHOWN: usize = 256;

impl Engine {
    pub(crate) fn handle_frame<'a>(&mut self, now: Timestamp, frame: Frame<'a>) -> Option<Event<'a>> {
        self.handle(now, |engine| engine.receive(now, frame))
    }

    /// As [`handle_frame`](Self::handle_frame), for a frame of so many bytes that was read before.
    #[cfg(feature = "http")]
    pub(crate) fn handle_message<'a>(
        &mut self,
        now: Timestamp,
        message: Message<'a>,
        bytes: usize,
    ) -> Option<Event<'a>> {
        self.handle(now, |engine| {
            engine.noise = 0;
            engine.receive_message(now, message, Origin { batch: None, bytes })
        })
    }

    fn handle<'a>(
        &mut self,
        now: Timestamp,
        receive: impl FnOnce(&mut Self) -> Option<Event<'a>>,
    ) -> Option<Event<'a>> {
        if self.phase == Phase::Closed {
            return None;
        }
        self.stats.frames_received += 1;
        self.heard(now);
        self.clock = self.clock.max(now);
        let mut event = receive(self);
        // Something waits already, and this came after it.
        if !self.events.is_empty()
            && let Some(event) = event.take()
        {
            self.events.push_back(event.into_owned());
        }
        event
    }

    fn receive<'a>(&mut self, now: Timestamp, frame: Frame<'a>) -> Option<Event<'a>> {
        let bytes = frame.bytes();
        // What did not come through a decoder was not measured before.
        if frame.end() == FrameEnd::Oversized || bytes.len() > self.limits().frame_bytes {
            return self.receive_oversized(bytes);
        }
        let origin = Origin { batch: None, bytes: bytes.len() };
        let text = match wire::text(bytes) {
            Ok(text) => text,
            Err(error) => return self.receive_junk(frame, syntax_at(error)),
        };
        match Message::parse(text, self.limits().json_depth) {
            Ok(message) => {
                self.noise = 0;
                self.receive_message(now, message, origin)
            }
            Err(Malformed { kind: kind @ (MalformedKind::Syntax(_) | MalformedKind::NotAnObject), .. }) => {
                self.receive_junk(frame, kind)
            }
            Err(Malformed { kind: MalformedKind::Array, .. }) if self.version.is_some_and(|v| v.has_batches()) => {
                self.noise = 0;
                self.receive_batch(now, text)
            }
            Err(malformed) => self.receive_malformed(malformed, origin),
        }
    }

    /// A line that is not even an object.
    fn receive_junk<'a>(&mut self, frame: Frame<'a>, kind: MalformedKind) -> Option<Event<'a>> {
        if frame.end() == FrameEnd::Unterminated {
            return self.violation(Violation::Truncated);
        }
        match self.role() {
            Role::Client => {
                self.noise += 1;
                if self.noise > self.limits().noise_lines {
                    self.end(CloseReason::TooMuchNoise);
                    return None;
                }
                let shown = frame.bytes().get(..NOISE_SHOWN).unwrap_or(frame.bytes());
                self.violation(Violation::Noise(Cow::Borrowed(shown)))
            }
            Role::Server => {
                self.stats.parse_errors += 1;
                if self.stats.parse_errors <= u64::from(self.limits().parse_errors) {
                    self.refuse(Origin::default(), None, &ErrorObject::new(kind.code(), kind.message()));
                }
                self.violation(Violation::Malformed(kind))
            }
        }
    }

    fn receive_oversized(&mut self, beginning: &[u8]) -> Option<Event<'static>> {
        let text = match core::str::from_utf8(beginning) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&beginning[..error.valid_up_to()]).unwrap_or_default(),
        };
        match Message::beginning(text).subject {
            MalformedSubject::Request(id) => {
                return self.refuse_oversized(Origin::default(), &id);
            }
            MalformedSubject::Response(id) => {
                if let Some(call) = self.find_call(&id) {
                    return self.answered_badly(call);
                }
            }
            MalformedSubject::Nothing | MalformedSubject::Unreadable => {}
        }
        self.violation(Violation::Oversized)
    }

    /// A request that is too long, or says too much.
    pub(crate) fn refuse_oversized<'a>(&mut self, origin: Origin, id: &RequestId) -> Option<Event<'a>> {
        let error = ErrorObject::new(ErrorCode::INVALID_REQUEST, "Invalid request: larger than the limit");
        self.refuse(origin, Some(id), &error);
        self.violation(Violation::Oversized)
    }

    /// An object, or a member of a batch, that is no message.
    pub(crate) fn receive_malformed(&mut self, malformed: Malformed, origin: Origin) -> Option<Event<'static>> {
        let Malformed { kind, subject } = malformed;
        let error = || ErrorObject::new(kind.code(), kind.message());
        match subject {
            MalformedSubject::Nothing => {}
            MalformedSubject::Unreadable => self.refuse(origin, None, &error()),
            MalformedSubject::Request(id) => self.refuse(origin, Some(&id), &error()),
            MalformedSubject::Response(id) => {
                if let Some(call) = self.find_call(&id) {
                    return self.answered_badly(call);
                }
            }
        }
        self.violation(Violation::Malformed(kind))
    }

    pub(crate) fn violation<'a>(&mut self, violation: Violation<'a>) -> Option<Event<'a>> {
        self.stats.violations += 1;
        Some(Event::Violation(violation))
    }

    /// Answers with an error; `None` is an id that could not be read.
    pub(crate) fn refuse(&mut self, origin: Origin, id: Option<&RequestId>, error: &ErrorObject) {
        if self.answers_nothing() {
            return;
        }
        let omits = self.version.map_or_else(|| self.serves_modern(), |version| version.omits_unreadable_id());
        let missing = if omits { MissingId::Absent } else { MissingId::Null };
        let owner = if id.is_some() { FrameOwner::Answered(None) } else { FrameOwner::None };
        self.answer(origin.batch, owner, |out| encode::error(out, id.ok_or(missing), error));
    }

    pub(crate) fn receive_message<'a>(
        &mut self,
        now: Timestamp,
        message: Message<'a>,
        origin: Origin,
    ) -> Option<Event<'a>> {
        match message {
            Message::Request { id, method, params, meta } => {
                self.receive_request(id, MethodName::new(method), params, meta, origin)
            }
            Message::Notification { method, params } => self.receive_notification(now, MethodName::new(method), params),
            Message::Response { id, result } => match self.find_call(&id) {
                Some(call) if result.is_object() => self.receive_result(now, call, result),
                Some(call) => self.answered_badly(call),
                None => {
                    self.as_client().dismiss_late_task(&id, &result);
                    self.unmatched(id)
                }
            },
            Message::Error { id: None, error } => Some(Event::PeerError(error)),
            Message::Error { id: Some(id), error } => match self.find_call(&id) {
                Some(call) if self.has_poller(call) => self.as_client().task_refused(call, error),
                Some(call) if self.as_client().renegotiate(now, call, &error) => None,
                Some(call) => self.finish_call(call, Outcome::Error(error)),
                None => self.unmatched(id),
            },
        }
    }

    // ---- requests ----

    fn receive_request<'a>(
        &mut self,
        id: RequestId,
        method: MethodName<'a>,
        params: Option<RawJson<'a>>,
        meta: Option<RawJson<'a>>,
        origin: Origin,
    ) -> Option<Event<'a>> {
        let refuse = |engine: &mut Self, code, message: &'static str, violation| {
            engine.refuse(origin, Some(&id), &ErrorObject::new(code, message));
            engine.violation(violation)
        };
        if self.answers_nothing() {
            return self.violation(Violation::UnexpectedRequest(method.into_owned()));
        }
        if self.requests.find(&id).is_some() {
            let message = "Invalid request: a request with this id is in flight";
            return refuse(self, ErrorCode::INVALID_REQUEST, message, Violation::DuplicateId(id.clone()));
        }
        if self.is_modern(meta.as_ref()) {
            if origin.batch.is_some() {
                // The session on this pipe has batches; this request is none of its.
                let message = "Invalid request: its revision has no batches";
                return refuse(self, ErrorCode::INVALID_REQUEST, message, Violation::Malformed(MalformedKind::Array));
            }
            return self.receive_modern(id, method, params, meta.as_ref(), origin);
        }
        match method.known() {
            Some(Method::Ping) if self.speaks_legacy() => {
                self.answer(origin.batch, FrameOwner::Answered(None), |out| {
                    encode::open_response(out, &id);
                    out.extend_from_slice(b"{}}");
                });
                return None;
            }
            Some(Method::Initialize) if self.role() == Role::Server => {
                return self.receive_initialize(&id, params, origin);
            }
            Some(known) if known.kind() == MethodKind::Notification => {
                let message = "Invalid request: this method is a notification";
                return refuse(self, ErrorCode::INVALID_REQUEST, message, Violation::WrongKind(known));
            }
            _ => {}
        }
        if self.phase == Phase::Draining {
            self.refuse_while_closing(origin, &id);
            return None;
        }
        if self.phase == Phase::Opening && self.is_modern_server() {
            self.refuse(origin, Some(&id), &self.names_versions());
            return self.violation(Violation::NotReady(method.into_owned()));
        }
        if !self.phase.serves_requests() {
            let message = "Invalid request: the connection is not initialized";
            return refuse(self, ErrorCode::INVALID_REQUEST, message, Violation::NotReady(method.into_owned()));
        }
        if self.settings().strict_meta && meta.as_ref().is_some_and(has_modern_keys) {
            let message = "Invalid params: _meta has keys that this session's revision does not have";
            return refuse(self, ErrorCode::INVALID_PARAMS, message, Violation::BadMeta);
        }
        let checked = method.known().map(|known| self.check_request(&id, known, params.as_ref(), origin));
        let level = match checked.transpose() {
            Ok(level) => level.flatten(),
            Err(violation) => return self.violation(violation),
        };
        let token = Token::named(meta.as_ref(), &id);
        let trace = meta.as_ref().and_then(TraceContext::of).map(Box::new);
        let tag = RequestTag { level, trace, ..RequestTag::new(method.known(), token, origin) };
        let key = match self.admit(id, tag, origin) {
            Ok(key) => key,
            Err(violation) => return self.violation(violation),
        };
        Some(Event::Request { key, method, params })
    }

    /// Checks a request of a session against the tables and its params, and returns the level that `logging/setLevel`
    /// sets. A request that fails is answered with an error.
    fn check_request(
        &mut self,
        id: &RequestId,
        known: Method,
        params: Option<&RawJson<'_>>,
        origin: Origin,
    ) -> Result<Option<LoggingLevel>, Violation<'static>> {
        if let Err(refusal) = self.admits(known) {
            self.refuse(origin, Some(id), &ErrorObject::method_not_found(known.as_str()));
            return Err(match refusal {
                Refusal::WrongDirection => Violation::WrongDirection(known),
                Refusal::NotInRevision | Refusal::Undeclared(_) | Refusal::Unshared(_) => {
                    Violation::NotSupported(known)
                }
            });
        }
        if let Some(message) = self.undeclared_form(known, params) {
            self.refuse(origin, Some(id), &ErrorObject::new(ErrorCode::INVALID_PARAMS, message));
            return Err(Violation::NotSupported(known));
        }
        if known != Method::SetLevel {
            return Ok(None);
        }
        match decode_params::<SetLevelParams>(params) {
            Ok(params) => Ok(Some(params.level)),
            Err(_) => {
                let message = "Invalid params: level is not a log level";
                self.refuse(origin, Some(id), &ErrorObject::new(ErrorCode::INVALID_PARAMS, message));
                Err(Violation::BadParams(known))
            }
        }
    }

    /// Nothing new is begun. The peer could not know.
    pub(crate) fn refuse_while_closing(&mut self, origin: Origin, id: &RequestId) {
        self.refuse(origin, Some(id), &ErrorObject::internal("The connection is closing"));
    }

    /// Enters a request into the table, if there is room for it.
    pub(crate) fn admit(
        &mut self,
        id: RequestId,
        mut tag: RequestTag,
        origin: Origin,
    ) -> Result<ReplyKey, Violation<'static>> {
        let limits = self.limits();
        if self.requests.len() >= limits.requests
            || self.request_bytes.saturating_add(origin.bytes) > limits.request_bytes
            || origin.batch.is_some() && !self.has_room_in_batches()
        {
            self.refuse(origin, Some(&id), &ErrorObject::internal("Too many requests in flight"));
            return Err(Violation::TooManyRequests);
        }
        tag.arrival.clone_from(&self.arrival);
        let timeout = self.settings().reply_timeout;
        match self.requests.insert(self.clock, id, tag) {
            Inserted::Duplicate(id) => Err(Violation::DuplicateId(id)),
            Inserted::New(key) => {
                self.request_bytes += origin.bytes;
                if let Some(batch) = origin.batch {
                    self.batch_request(batch);
                }
                if let Some(timeout) = timeout {
                    self.requests.set_deadline(key, Some(self.clock + timeout));
                }
                Ok(key)
            }
        }
    }

    /// Whether the table lets the peer send this.
    pub(crate) fn admits(&self, method: Method) -> Result<(), Refusal> {
        let Some(version) = self.version else { return Err(Refusal::NotInRevision) };
        check(method, version, self.role().other(), self.declared())
    }

    /// Some methods come in forms that have a capability of their own.
    pub(crate) fn undeclared_form(&self, method: Method, params: Option<&RawJson<'_>>) -> Option<&'static str> {
        let has = |name: &str| params.is_some_and(|params| params.member(name).is_some());
        match method {
            Method::Elicit => {
                let mode = params.and_then(|params| params.member("mode"));
                let mode = mode.map_or(Ok(None), |mode| mode.decode::<Option<String>>());
                match mode.as_ref().map(Option::as_deref) {
                    Ok(None | Some("form")) if self.local.contains(Capability::ElicitationForm) => None,
                    Ok(Some("url")) if self.local.contains(Capability::ElicitationUrl) => None,
                    Ok(None | Some("form")) => Some("Invalid params: this client does not show forms"),
                    Ok(Some("url")) => Some("Invalid params: this client does not open urls"),
                    _ => Some("Invalid params: this client does not know the mode"),
                }
            }
            Method::CreateMessage
                if !self.local.contains(Capability::SamplingTools) && (has("tools") || has("toolChoice")) =>
            {
                Some("Invalid params: this client does not sample with tools")
            }
            _ => None,
        }
    }

    /// The peer does not want an answer any more. What waits to be written for it is taken back.
    pub(crate) fn cancel_request(&mut self, key: ReplyKey) {
        let Some((entry, state)) = self.requests.get(key) else { return };
        if state == State::Cancelled {
            return;
        }
        let (batch, stream) = (entry.tag.batch, entry.tag.stream());
        if entry.tag.queued > 0 {
            self.outbox.take_back_joined(entry.tag.last_queued, entry.tag.queued);
        }
        if let Some(batch) = batch {
            self.batch_cancel(batch, key);
        } else if let Some(stream) = stream {
            self.streams.unanswered.push_back(stream);
        }
        match state {
            State::Open => self.requests.cancel(key),
            State::Answered | State::Cancelled => self.release(key),
        }
    }

    // ---- notifications ----

    fn receive_notification<'a>(
        &mut self,
        now: Timestamp,
        method: MethodName<'a>,
        params: Option<RawJson<'a>>,
    ) -> Option<Event<'a>> {
        let Some(known) = method.known() else {
            // Anybody's own notifications may come at any time.
            return Some(Event::Notification { method, params });
        };
        if known.kind() == MethodKind::Request {
            return self.violation(Violation::WrongKind(known));
        }
        match (known, params) {
            (Method::Initialized, _) if self.role() == Role::Server => self.receive_initialized(),
            (Method::Cancelled, params) => self.receive_cancelled(params?),
            (Method::Progress, Some(params)) => self.receive_progress(now, params),
            (Method::Progress, None) => self.violation(Violation::BadParams(known)),
            (_, params) => {
                if !self.role().other().sends(known) {
                    return self.violation(Violation::WrongDirection(known));
                }
                if known == Method::TaskStatus
                    && let Some(task) = &params
                {
                    self.watch_task(task);
                }
                self.as_client().hear_of_change(known, params.as_ref());
                if let Some(params) = &params
                    && let Some(event) = self.as_client().subscription_says(known, params)
                {
                    return event;
                }
                if known == Method::ExtTaskChanged
                    && let Some(task) = &params
                {
                    self.as_client().told_of_task(task);
                }
                Some(Event::Notification { method, params })
            }
        }
    }

    /// Takes back an answer of the connection's own that waits to be written; whether there was one.
    fn take_back_own_answer(&mut self, id: &RequestId) -> bool {
        let Self { outbox, requests, .. } = self;
        let Some(stream) = outbox.take_back_answer(id, |id| requests.hash_of(id)) else { return false };
        self.nothing_follows(stream);
        true
    }

    fn receive_cancelled<'a>(&mut self, params: RawJson<'a>) -> Option<Event<'a>> {
        // Unknown, finished and unreadable ids are ignored: the cancellation may have crossed the answer.
        let id = id_in(&params, "requestId")?;
        if self.is_modern_client() {
            // The only thing that a server cancels is a subscription of ours.
            let call = self.find_call(&id)?;
            return match self.listens(call) {
                true => self.as_client().subscription_ended(call, Outcome::Cancelled),
                false => self.violation(Violation::WrongDirection(Method::Cancelled)),
            };
        }
        let Some(key) = self.requests.find(&id).or_else(|| self.requests.find(&id.retyped()?)) else {
            let taken_back = self.take_back_own_answer(&id) || self.batch_take_back(&id);
            self.stats.cancelled += u64::from(taken_back);
            return None;
        };
        if self.end_subscription(key) {
            self.cancel_request(key);
            self.release(key);
            return None;
        }
        let open = matches!(self.requests.get(key), Some((_, State::Open)));
        self.cancel_request(key);
        self.stats.cancelled += 1;
        let reason = params.member("reason").and_then(|reason| reason.decode().ok()).map(Cow::Owned);
        // It may have been the last thing that was owed.
        self.check_drained();
        open.then_some(Event::Cancelled { key, cause: CancelCause::Peer(reason) })
    }

    fn receive_progress<'a>(&mut self, now: Timestamp, params: RawJson<'a>) -> Option<Event<'a>> {
        let token = id_in(&params, "progressToken");
        let progress: Option<f64> = params.member("progress").and_then(|progress| progress.decode().ok());
        let (Some(token), Some(progress)) = (token, progress) else {
            return self.violation(Violation::BadParams(Method::Progress));
        };
        let Some(number) = token.as_u64().filter(|number| self.calls.was_issued(*number, FIRST_ID)) else {
            return self.violation(Violation::UnknownProgress);
        };
        // A token is good for as long as the request under that id: what comes for an earlier one is late.
        let call = match self.calls.find(number) {
            Some((call, entry)) if entry.progress && entry.sent => call,
            Some((_, entry)) if entry.waits => {
                self.stats.late_responses += 1;
                return None;
            }
            Some(_) => return self.violation(Violation::UnknownProgress),
            None if self.followed.contains(CallId::from_raw(number)) => CallId::from_raw(number),
            // It was asked for once, and the call has ended or goes on under another id: it crossed that.
            None => {
                self.stats.late_responses += 1;
                return None;
            }
        };
        self.calls.touch(now, call);
        let total = params.member("total").and_then(|total| total.decode().ok());
        let message = params.member("message").and_then(|message| message.decode().ok()).map(Cow::Owned);
        Some(Event::Progress { call, progress: Progress { progress, total, message } })
    }

    fn receive_initialized(&mut self) -> Option<Event<'static>> {
        match (&self.role_state, self.phase) {
            (_, Phase::Initializing) => {
                self.phase = Phase::Ready;
                // What the handshake took is more than most of what is to come needs.
                self.shrink();
                Some(Event::Ready)
            }
            // It has overtaken `initialize`, as it may over HTTP.
            (RoleState::Server { .. }, Phase::Opening) => {
                self.initialized_early = true;
                self.violation(Violation::NotReady(Method::Initialized.into()))
            }
            _ => None,
        }
    }
}

/// The id, or progress token, that is a member of an object.
fn id_in(object: &RawJson<'_>, name: &str) -> Option<RequestId> {
    RequestId::from_token(object.member(name)?.get())
}

/// Whether `_meta` says what only requests of 2026-07-28 say.
fn has_modern_keys(meta: &RawJson<'_>) -> bool {
    const KEYS: [&str; 4] = [keys::PROTOCOL_VERSION, keys::CLIENT_INFO, keys::CLIENT_CAPABILITIES, keys::LOG_LEVEL];
    KEYS.iter().any(|key| meta.member(key).is_some())
}
