//! Requests of the peer: checks them, enters them into the table, and cancels them.

use alloc::{boxed::Box, string::String};

use crate::{
    connection::{
        engine::Engine,
        state::tags::{Origin, RequestTag, Token},
        types::{Event, Violation},
    },
    protocol::{Capability, Method, MethodKind, MethodName, MethodRefusal, Phase, Role, check},
    rpc::{EntryState, FrameOwner, ReplyKey},
    schema::{LoggingLevel, SetLevelParams, TraceContext, keys},
    wire::{ErrorCode, ErrorObject, MalformedKind, RawJson, RequestId, decode_params, encode},
};

impl Engine {
    pub(crate) fn receive_request<'a>(
        &mut self,
        id: RequestId,
        method: MethodName<'a>,
        params: Option<RawJson<'a>>,
        meta: Option<RawJson<'a>>,
        origin: Origin,
    ) -> Option<Event<'a>> {
        let hash = self.requests.hash(&id);
        let refuse = |engine: &mut Self, code, message: &'static str, violation| {
            engine.refuse(origin, Some(&id), &ErrorObject::new(code, message));
            engine.violation(violation)
        };
        if self.answers_nothing() {
            return self.violation(Violation::UnexpectedRequest(method.into_owned()));
        }
        if self.requests.find_hashed(&id, hash).is_some() {
            let message = "Invalid request: a request with this id is in flight";
            return refuse(self, ErrorCode::INVALID_REQUEST, message, Violation::DuplicateId(id.clone()));
        }
        let origin = Origin { unused_id: Some(hash), ..origin };
        if self.is_modern(meta.as_ref(), origin.repetition) {
            if origin.batch.is_some() {
                // The session on this connection has batches, but this request does not belong to it.
                let message = "Invalid request: its revision does not support batches";
                return refuse(self, ErrorCode::INVALID_REQUEST, message, Violation::Malformed(MalformedKind::Array));
            }
            return self.receive_modern(id, method, params, meta.as_ref(), origin);
        }
        match method.known() {
            Some(Method::Ping) if self.supports_legacy() => {
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
        // Most requests have nothing but a progress token in their `_meta`.
        let token = meta.as_ref().and_then(|meta| meta.sole_member(keys::PROGRESS_TOKEN));
        let others = meta.as_ref().filter(|_| token.is_none());
        if self.settings().strict_meta && others.is_some_and(has_modern_keys) {
            let message = "Invalid params: _meta has keys that this session's revision does not have";
            return refuse(self, ErrorCode::INVALID_PARAMS, message, Violation::BadMeta);
        }
        let checked = method.known().map(|known| self.check_request(&id, known, params.as_ref(), origin));
        let level = match checked.transpose() {
            Ok(level) => level.flatten(),
            Err(violation) => return self.violation(violation),
        };
        let token = token.or_else(|| others?.member_text(keys::PROGRESS_TOKEN));
        let token = Token::of(token, &id);
        let trace = others.and_then(TraceContext::of).map(Box::new);
        let tag = RequestTag { level, trace, ..RequestTag::new(method.known(), token, origin) };
        let key = match self.admit(id, tag, origin) {
            Ok(key) => key,
            Err(violation) => return self.violation(violation),
        };
        Some(Event::Request { key, method, params })
    }

    /// Checks a request of a session against the tables and its params, and returns the level that `logging/setLevel`
    /// sets. A request that fails gets an error response.
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
                MethodRefusal::WrongDirection => Violation::WrongDirection(known),
                MethodRefusal::NotInRevision | MethodRefusal::Undeclared(_) | MethodRefusal::Unshared(_) => {
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

    /// Refuses a request because the connection is closing.
    pub(crate) fn refuse_while_closing(&mut self, origin: Origin, id: &RequestId) {
        self.refuse(origin, Some(id), &ErrorObject::internal("The connection is closing"));
    }

    /// Adds a request to the table, or refuses it if a limit is reached.
    pub(crate) fn admit(
        &mut self,
        id: RequestId,
        mut tag: RequestTag,
        origin: Origin,
    ) -> Result<ReplyKey, Violation<'static>> {
        let limits = self.limits();
        let bytes = origin.bytes.saturating_add(self.arrival.as_ref().map_or(0, |arrival| arrival.weight()));
        if self.requests.len() >= limits.requests
            || self.request_bytes.saturating_add(bytes) > limits.request_bytes
            || origin.batch.is_some() && !self.has_room_in_batches()
        {
            self.refuse(origin, Some(&id), &ErrorObject::internal("Too many requests in flight"));
            return Err(Violation::TooManyRequests);
        }
        tag.arrival.clone_from(&self.arrival);
        tag.bytes = bytes;
        let timeout = self.settings().reply_timeout;
        let hash = match origin.unused_id {
            Some(hash) => hash,
            None => {
                let hash = self.requests.hash(&id);
                if self.requests.find_hashed(&id, hash).is_some() {
                    return Err(Violation::DuplicateId(id));
                }
                hash
            }
        };
        let key = self.requests.insert_hashed(self.clock, (id, hash), tag);
        self.request_bytes += bytes;
        if let Some(batch) = origin.batch {
            self.batch_request(batch);
        }
        if let Some(timeout) = timeout {
            self.requests.set_deadline(key, Some(self.clock + timeout));
        }
        Ok(key)
    }

    /// Checks whether the method table allows the peer to send this method.
    pub(crate) fn admits(&self, method: Method) -> Result<(), MethodRefusal> {
        let Some(version) = self.version else { return Err(MethodRefusal::NotInRevision) };
        check(method, version, self.role().other(), self.declared())
    }

    /// Returns the error for params in a form whose own capability was not declared: modes of elicitation, tools of
    /// sampling. These forms and capabilities are of 2025-11-25. They are also refused in sessions of earlier
    /// revisions, which have no rule for them: an application does not get what its configuration excludes.
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
                    _ => Some("Invalid params: unsupported elicitation mode"),
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

    /// Cancels a request of the peer. Messages that wait to be written for it are removed.
    pub(crate) fn cancel_request(&mut self, key: ReplyKey) {
        let Some((entry, state)) = self.requests.get(key) else { return };
        if state == EntryState::Cancelled {
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
            EntryState::Open => self.requests.cancel(key),
            EntryState::Answered | EntryState::Cancelled => self.release(key),
        }
    }
}

/// Returns whether `_meta` has a key that only requests of 2026-07-28 have.
fn has_modern_keys(meta: &RawJson<'_>) -> bool {
    const KEYS: [&str; 4] = [keys::PROTOCOL_VERSION, keys::CLIENT_INFO, keys::CLIENT_CAPABILITIES, keys::LOG_LEVEL];
    KEYS.iter().any(|key| meta.member(key).is_some())
}
