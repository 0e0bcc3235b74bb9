//! Frames of the peer: parses and checks each frame, and dispatches its messages.

use alloc::borrow::Cow;

use crate::{
    codec::{Frame, FrameEnd},
    connection::{
        engine::Engine,
        state::tags::Origin,
        types::{CloseReason, Event, Outcome, Violation, error::syntax_at},
    },
    protocol::{MethodName, Phase, Role},
    rpc::{FrameOwner, Timestamp},
    wire::{
        self, ErrorCode, ErrorObject, Malformed, MalformedKind, MalformedSubject, Message, RequestId,
        encode::{self, MissingId},
    },
};

/// The number of bytes of a line without a message that [`Violation::Noise`] shows.
const MAX_NOISE_EXCERPT: usize = 256;

impl Engine {
    pub(crate) fn handle_frame<'a>(&mut self, now: Timestamp, frame: Frame<'a>) -> Option<Event<'a>> {
        self.handle(now, |engine| engine.receive(now, frame))
    }

    /// Handles a message of this origin as [`handle_frame`](Self::handle_frame) does.
    #[cfg(feature = "http")]
    pub(crate) fn handle_message<'a>(
        &mut self,
        now: Timestamp,
        message: Message<'a>,
        origin: Origin,
    ) -> Option<Event<'a>> {
        self.handle(now, |engine| {
            engine.noise = 0;
            engine.receive_message(now, message, origin)
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
        self.note_received(now);
        self.clock = self.clock.max(now);
        let mut event = receive(self);
        // Other events wait already, so this one is queued after them.
        if !self.events.is_empty()
            && let Some(event) = event.take()
        {
            self.events.push_back(event.into_owned());
        }
        event
    }

    fn receive<'a>(&mut self, now: Timestamp, frame: Frame<'a>) -> Option<Event<'a>> {
        let bytes = frame.bytes();
        // A frame that did not pass through a decoder has an unchecked length.
        if frame.end() == FrameEnd::Oversized || bytes.len() > self.limits().frame_bytes {
            return self.receive_oversized(bytes);
        }
        let mut origin = Origin { bytes: bytes.len(), ..Origin::default() };
        let text = match wire::text(bytes) {
            Ok(text) => text,
            Err(error) => return self.receive_junk(frame, syntax_at(error)),
        };
        let (depth, repeated) = (self.limits().json_depth, self.modern.repeated.members());
        match Message::parse_repeating(text, depth, repeated, &mut origin.repetition) {
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

    /// Handles a frame that is not even a JSON object.
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
                let shown = frame.bytes().get(..MAX_NOISE_EXCERPT).unwrap_or(frame.bytes());
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
                    return self.end_malformed(call);
                }
            }
            MalformedSubject::Nothing | MalformedSubject::Unreadable => {}
        }
        self.violation(Violation::Oversized)
    }

    /// Refuses a request that is too long, or describes too much.
    pub(crate) fn refuse_oversized<'a>(&mut self, origin: Origin, id: &RequestId) -> Option<Event<'a>> {
        let error = ErrorObject::new(ErrorCode::INVALID_REQUEST, "Invalid request: larger than the limit");
        self.refuse(origin, Some(id), &error);
        self.violation(Violation::Oversized)
    }

    /// Handles an object, or a member of a batch, that is no message.
    pub(crate) fn receive_malformed(&mut self, malformed: Malformed, origin: Origin) -> Option<Event<'static>> {
        let Malformed { kind, subject } = malformed;
        let error = || ErrorObject::new(kind.code(), kind.message());
        match subject {
            MalformedSubject::Nothing => {}
            MalformedSubject::Unreadable => self.refuse(origin, None, &error()),
            MalformedSubject::Request(id) => self.refuse(origin, Some(&id), &error()),
            MalformedSubject::Response(id) => {
                if let Some(call) = self.find_call(&id) {
                    return self.end_malformed(call);
                }
            }
        }
        self.violation(Violation::Malformed(kind))
    }

    pub(crate) fn violation<'a>(&mut self, violation: Violation<'a>) -> Option<Event<'a>> {
        self.stats.violations += 1;
        Some(Event::Violation(violation))
    }

    /// Responds with an error. An `id` of `None` could not be read.
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
                Some(call) if result.is_object() => self.receive_result(now, call, result, origin.repetition),
                Some(call) => self.end_malformed(call),
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
}
