//! Sending: requests, notifications and responses of the application. All checks are made before any change of state.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    connection::{
        engine::Engine,
        state::{
            batch::{BatchEntry, EntryOwner},
            client_subscription::ClientSubscription,
            outgoing_meta::{MetaOptions, OutgoingMeta},
            tags::CallTag,
        },
        types::{CloseReason, Event, Outcome, RequestOptions, SendError, TaskProgress},
    },
    protocol::{
        Capability, CapabilitySet, Method, MethodKind, MethodName, MethodRefusal, Phase, ProtocolVersion, check,
    },
    rpc::{CallId, Entry, EntryState, FrameOwner, Priority, ReplyKey, Timestamp},
    schema::{LoggingLevel, keys},
    wire::{
        Message, RequestId,
        encode::{self, Encoded, Encoder},
    },
};

/// The bytes, in addition to its id, that a response in a batch may always have. They are reserved, so that every
/// request of the batch can get a response.
pub(super) const SMALL: usize = 512;

impl Engine {
    /// Checks whether this side may send `method` now.
    pub(crate) fn may_send(
        &self,
        method: &MethodName<'_>,
        kind: MethodKind,
        needs: CapabilitySet,
    ) -> Result<(), SendError> {
        let known = method.known();
        let open = match kind {
            // Until the era is known, not even pings may be sent: the modern era has none.
            MethodKind::Request => (self.version.is_some() || !self.serves_modern()) && self.phase.sends_request(known),
            // Notifications need a session, except those that belong to requests or subscriptions.
            MethodKind::Notification => self.has_session() && self.phase.sends_notification(known),
        };
        if !open {
            return Err(if self.phase >= Phase::Draining { SendError::Closed } else { SendError::NotReady });
        }
        let Some(method) = known else { return Ok(()) };
        if method.kind() != kind || matches!(method, Method::Initialize | Method::Initialized) {
            return Err(SendError::WrongKind(method));
        }
        // Before a revision is negotiated, only pings may be sent, which every legacy revision has.
        let version = self.version.unwrap_or(ProtocolVersion::LATEST_LEGACY);
        check(method, version, self.role(), self.declared()).map_err(|refusal| match refusal {
            MethodRefusal::WrongDirection => SendError::WrongDirection(method),
            MethodRefusal::NotInRevision => SendError::NotInRevision { method, version },
            MethodRefusal::Undeclared(capability) | MethodRefusal::Unshared(capability) => {
                SendError::Undeclared(capability)
            }
        })?;
        match needs.iter().find(|needed| !self.peer.contains(*needed)) {
            Some(missing) => Err(SendError::Undeclared(missing)),
            None => Ok(()),
        }
    }

    /// Checks whether there is room for another message of the application.
    pub(crate) fn has_room(&self) -> Result<(), SendError> {
        // Responses of incomplete batches do not count: they wait for further responses, which must not be refused
        // because of them.
        let waiting = self.leaving_bytes().saturating_add(self.streams.downstream.bytes);
        if self.streams.downstream.full || waiting >= self.limits().outbox_bytes {
            Err(SendError::Busy)
        } else {
            Ok(())
        }
    }

    /// Checks whether there is room for another request of the application.
    pub(crate) fn has_room_for_request(&self) -> Result<(), SendError> {
        let limits = self.limits();
        let full = self.calls.len() >= limits.calls || self.retries.bytes() >= limits.call_bytes;
        if full { Err(SendError::Busy) } else { self.has_room() }
    }

    pub(crate) fn request(
        &mut self,
        now: Timestamp,
        method: &MethodName<'_>,
        needs: CapabilitySet,
        task: bool,
        options: &RequestOptions,
        params: Encoder<'_>,
    ) -> Result<CallId, SendError> {
        self.may_send(method, MethodKind::Request, needs)?;
        if let Some(known) = self.cacheable(method.known()) {
            let mut text = self.retries.buffer();
            params(&mut text)?;
            let bypass_cache = options.bypass_cache;
            let call = self.start_or_use_cache(now, known, bypass_cache, &text, |engine| {
                engine.send_request(now, method, task, options, &|out| {
                    out.extend_from_slice(&text);
                    Ok(())
                })
            });
            self.retries.recycle(text);
            return call;
        }
        self.send_request(now, method, task, options, params)
    }

    fn send_request(
        &mut self,
        now: Timestamp,
        method: &MethodName<'_>,
        task: bool,
        options: &RequestOptions,
        params: Encoder<'_>,
    ) -> Result<CallId, SendError> {
        self.has_room_for_request()?;
        let stream = options.related_request.and_then(|key| self.requests.get(key)?.0.tag.stream());
        let tag = CallTag::User { method: method.known(), task, stream };
        let listening = method.known().filter(|method| *method == Method::Listen).map(|_| options.resubscribe);
        let call = self.start(now, Priority::Request, method, tag, options, params)?;
        if let Some(again) = listening {
            self.retries.change(call, |retry| retry.state.listening = Some(Box::new(ClientSubscription::new(again))));
        }
        Ok(call)
    }

    /// Queues a request and adds it to the table.
    pub(crate) fn start(
        &mut self,
        now: Timestamp,
        priority: Priority,
        method: &MethodName<'_>,
        tag: CallTag,
        options: &RequestOptions,
        params: Encoder<'_>,
    ) -> Result<CallId, SendError> {
        // A ping has no params, and a subscription makes no progress.
        let progress = options.progress && !matches!(method.known(), Some(Method::Ping | Method::Listen));
        let id = self.calls.next_id();
        let max_len = self.limits().frame_bytes;
        let extra = MetaOptions::of(options);
        let modern = self.modern_version(tag).and_then(|version| Some((version, self.role_state.identity()?)));
        let keep = modern.is_some() && matches!(tag, CallTag::User { .. });
        let meta = OutgoingMeta { modern, extra: &extra, token: progress.then_some(id) };
        let mut retry = if keep { self.retries.buffer() } else { Vec::new() };
        let queued = self.outbox.push(priority, FrameOwner::Call(id), max_len, |out| {
            encode::open_request(out, id.as_u64(), method.as_str());
            let before = out.len();
            out.extend_from_slice(b",\"params\":");
            let start = out.len();
            meta.append(out, |out| {
                let start = out.len();
                params(out)?;
                if keep {
                    retry.extend_from_slice(&out[start..]);
                }
                Ok(())
            })?;
            if out.len() == start {
                out.truncate(before);
            }
            out.push(b'}');
            Ok::<_, SendError>(())
        });
        if keep && !matches!(queued, Ok(Some(_))) {
            self.retries.recycle(core::mem::take(&mut retry));
        }
        queued?.ok_or(SendError::TooLarge)?;
        let call = self.calls.insert(now, tag, progress, options.idle_timeout, options.total_timeout);
        if !matches!(tag, CallTag::User { .. }) {
            self.calls.note_own(call);
        }
        if keep && let Some((version, _)) = modern {
            self.retries.begin(call, version, method.clone().into_owned(), (retry, extra));
        }
        Ok(call)
    }

    pub(crate) fn notify(
        &mut self,
        method: &MethodName<'_>,
        level: Option<LoggingLevel>,
        subject: Option<&str>,
        params: Encoder<'_>,
    ) -> Result<(), SendError> {
        if method.known() == Some(Method::ExtTaskChanged) && self.is_modern_server() {
            return self.notify_task_status(subject, params);
        }
        let known = method.known();
        let for_listeners = known.map_or(Ok(false), |known| self.has_listeners(known))?;
        // Before the handshake is complete, only subscribers can be notified.
        let for_session = !for_listeners || self.phase >= Phase::Ready;
        if for_session {
            self.may_send(method, MethodKind::Notification, CapabilitySet::EMPTY)?;
        }
        if let Some(known @ (Method::Cancelled | Method::Progress)) = known {
            // These belong to a request. They are sent with `cancel` and `progress`.
            return Err(SendError::WrongKind(known));
        }
        // Changes of lists wait for the next response or poll for output, so that many changes become one notification.
        let has_receiver = for_session || self.modern.subscriptions.len() > 0;
        if known.is_some_and(|known| self.record_change(known, has_receiver)) {
            return Ok(());
        }
        if level.is_some_and(|level| self.log_level.is_some_and(|least| level < least)) {
            return Ok(());
        }
        let to_session = |engine: &mut Self| {
            if !for_session {
                return Ok(());
            }
            engine.has_room()?;
            engine.push_notification(FrameOwner::None, method.as_str(), params)
        };
        match subject.filter(|_| for_listeners) {
            Some(uri) => self.notify_resource_updated(uri, to_session),
            None => to_session(self),
        }
    }

    /// Queues a notification without checking the phase or the room.
    pub(crate) fn push_notification(
        &mut self,
        owner: FrameOwner,
        method: &str,
        params: Encoder<'_>,
    ) -> Result<(), SendError> {
        let max_len = self.limits().frame_bytes;
        let queued = self.outbox.push(Priority::Control, owner, max_len, |out| {
            encode::open_notification(out, method);
            let before = out.len();
            out.extend_from_slice(b",\"params\":");
            let start = out.len();
            params(out)?;
            if out.len() == start {
                out.truncate(before);
            }
            out.push(b'}');
            Ok::<_, SendError>(())
        })?;
        queued.map(|_| ()).ok_or(SendError::TooLarge)
    }

    pub(crate) fn cancel(&mut self, id: CallId, reason: Option<&str>) -> Result<(), SendError> {
        match self.calls.get(id).map(|call| call.tag) {
            None | Some(CallTag::Keepalive | CallTag::CancelTask) => Err(SendError::UnknownCall),
            Some(CallTag::Handshake | CallTag::Probe { .. }) => Err(SendError::NotCancellable),
            Some(CallTag::User { .. }) => {
                self.abandon(id, reason);
                self.events.push_back(Event::Response { call: id, outcome: Outcome::Cancelled });
                Ok(())
            }
        }
    }

    /// Ends a call that was cancelled or has timed out. Sends a cancellation if the request is not in the outbox any
    /// more.
    pub(crate) fn abandon(&mut self, id: CallId, reason: Option<&str>) {
        let taken_back = self.take_back(id);
        let wire = self.calls.wire(id);
        let task = self.own_task(id);
        self.drop_input_requests(id);
        self.as_client().stop_listening(id);
        self.drop_retry(id);
        let is_suspended = self.calls.get(id).is_some_and(|call| call.is_suspended);
        let Some(tag) = self.calls.retire(id) else { return };
        if let Some(task) = task {
            self.as_client().cancel_task(&task);
            return;
        }
        // A request for a task is not cancelled this way; `tasks/cancel` ends the task.
        if taken_back || is_suspended || matches!(tag, CallTag::User { task: true, .. }) {
            return;
        }
        self.push_cancelled(wire, reason);
    }

    /// Sends `notifications/cancelled` for a request of this side.
    pub(crate) fn push_cancelled(&mut self, wire: CallId, reason: Option<&str>) {
        let _ = self.push_notification(FrameOwner::None, Method::Cancelled.as_str(), &|out| {
            out.extend_from_slice(b"{\"requestId\":");
            encode::value(out, &wire.as_u64())?;
            if let Some(reason) = reason {
                out.extend_from_slice(b",\"reason\":");
                encode::text(out, reason);
            }
            out.push(b'}');
            Ok(())
        });
    }

    /// Removes the frame of a call from the outbox. Returns `false` if it was already polled.
    pub(crate) fn take_back(&mut self, id: CallId) -> bool {
        let Some(call) = self.calls.get(id) else { return false };
        if call.sent {
            return false;
        }
        match call.tag {
            CallTag::Keepalive => self.outbox.take_back(Priority::Control, |owner| owner == FrameOwner::Call(id)) > 0,
            // The engine sends `tasks/cancel` and the first `initialize` with request priority. A binding sends
            // `tools/list` with control priority, and so is the `initialize` of a renewed session sent.
            CallTag::CancelTask | CallTag::Handshake => {
                self.outbox.take_back_call(id)
                    || self.outbox.take_back(Priority::Control, |owner| owner == FrameOwner::Call(id)) > 0
            }
            _ => self.outbox.take_back_call(self.calls.wire(id)),
        }
    }

    pub(crate) fn log(&mut self, key: ReplyKey, level: LoggingLevel, params: Encoder<'_>) -> Result<(), SendError> {
        let Some((entry, state)) = self.requests.get(key) else { return Err(SendError::Answered) };
        let is_requested = match &entry.tag.stateless {
            // A stateless request gets log messages only if its `_meta` requests them.
            Some(_) => entry.tag.log_level.is_some_and(|least| level >= least),
            None => self.log_level.is_none_or(|least| level >= least),
        };
        match state {
            EntryState::Answered => return Err(SendError::Answered),
            EntryState::Cancelled => return Ok(()),
            EntryState::Open if !self.local.contains(Capability::Logging) => {
                return Err(SendError::Undeclared(Capability::Logging));
            }
            EntryState::Open if !is_requested => return Ok(()),
            EntryState::Open => {}
        }
        self.has_room()?;
        self.push_notification(FrameOwner::Reply { key, last: false }, Method::LogMessage.as_str(), params)?;
        self.count_queued(key);
        Ok(())
    }

    pub(crate) fn progress(
        &mut self,
        key: ReplyKey,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), SendError> {
        let Some((entry, state)) = self.requests.get(key) else { return Err(SendError::Answered) };
        match state {
            EntryState::Answered => return Err(SendError::Answered),
            EntryState::Cancelled => return Ok(()),
            EntryState::Open => {}
        }
        let Some(token) = entry.token().cloned() else { return Ok(()) };
        if !progress.is_finite() || entry.tag.last_progress.is_some_and(|last| progress <= last) {
            return Err(SendError::ProgressNotGrowing);
        }
        self.has_room()?;
        self.push_progress(FrameOwner::Reply { key, last: false }, &token, progress, total, message, None)?;
        if let Some((entry, _)) = self.requests.get_mut(key) {
            entry.tag.last_progress = Some(progress);
        }
        self.count_queued(key);
        Ok(())
    }

    /// Sends a progress notification for a task (2025-11-25), on the stream of a request that waits for its result, if
    /// there is one.
    pub(crate) fn task_progress(
        &mut self,
        waiting: Option<ReplyKey>,
        task: &mut TaskProgress,
        (progress, total, message): (f64, Option<f64>, Option<&str>),
    ) -> Result<(), SendError> {
        if self.phase == Phase::Closed {
            return Err(SendError::Closed);
        }
        if !progress.is_finite() || task.last.is_some_and(|last| progress <= last) {
            return Err(SendError::ProgressNotGrowing);
        }
        self.has_room()?;
        let waiting = waiting.filter(|key| matches!(self.requests.get(*key), Some((_, EntryState::Open))));
        let owner = waiting.map_or(FrameOwner::None, |key| FrameOwner::Reply { key, last: false });
        self.push_progress(owner, &task.token, progress, total, message, Some(&task.task))?;
        if let Some(key) = waiting {
            self.count_queued(key);
        }
        task.last = Some(progress);
        Ok(())
    }

    /// Counts the frame that was queued last as one of this request.
    pub(crate) fn count_queued(&mut self, key: ReplyKey) {
        if let Some((Entry { tag, .. }, _)) = self.requests.get_mut(key) {
            tag.count_queued(&mut self.outbox);
        }
    }

    pub(crate) fn push_progress(
        &mut self,
        owner: FrameOwner,
        token: &RequestId,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
        task: Option<&str>,
    ) -> Result<(), SendError> {
        let version = match owner {
            FrameOwner::Reply { key, .. } => self.version_of(key),
            FrameOwner::None | FrameOwner::Behind(_) | FrameOwner::Answered(_) | FrameOwner::Call(_) => self.version,
        };
        let message = message.filter(|_| version >= Some(ProtocolVersion::V2025_03_26));
        self.push_notification(owner, Method::Progress.as_str(), &|out| {
            out.extend_from_slice(b"{\"progressToken\":");
            out.extend_from_slice(token.as_bytes());
            out.extend_from_slice(b",\"progress\":");
            number(out, progress)?;
            if let Some(total) = total.filter(|total| total.is_finite()) {
                out.extend_from_slice(b",\"total\":");
                number(out, total)?;
            }
            if let Some(message) = message {
                out.extend_from_slice(b",\"message\":");
                encode::text(out, message);
            }
            if let Some(task) = task {
                out.extend_from_slice(b",\"_meta\":{");
                encode::text(out, keys::RELATED_TASK);
                out.extend_from_slice(b":{\"taskId\":");
                encode::text(out, task);
                out.extend_from_slice(b"}}");
            }
            out.push(b'}');
            Ok(())
        })
    }

    /// Returns whether the outbox has no room even for responses of the engine itself.
    pub(crate) fn is_full(&self) -> bool {
        let limits = self.limits();
        self.leaving_bytes() > limits.outbox_bytes.saturating_add(limits.control_bytes)
    }

    /// Queues a response of the engine itself. If the outbox is full, the peer does not read, and the connection
    /// closes.
    ///
    /// A frame of [`FrameOwner::Answered`] is removed if the peer cancels the request later.
    pub(crate) fn answer(&mut self, batch: Option<u32>, owner: FrameOwner, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.is_full() {
            return self.end(CloseReason::PeerNotReading);
        }
        if let Some(batch) = batch {
            let mut text = Vec::new();
            encode(&mut text);
            let of = match owner {
                FrameOwner::Answered(_) => {
                    Message::answered(&text).map(|id| EntryOwner::Own(self.requests.hash_of(&id)))
                }
                _ => None,
            };
            return self.batch_answer(batch, BatchEntry { of: of.unwrap_or(EntryOwner::Nothing), text });
        }
        // With several streams, the response is sent on the stream of its request.
        let stream = self.arrival.as_ref().and_then(|arrival| arrival.stream);
        let owner = if stream.is_some() { FrameOwner::Answered(stream) } else { owner };
        let _: Result<_, ()> = self.outbox.push(Priority::Control, owner, usize::MAX, |out| {
            encode(out);
            Ok(())
        });
    }
}

/// Writes a number, without a fraction if it is whole.
fn number(out: &mut Vec<u8>, number: f64) -> Encoded {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.abs() < EXACT && number % 1.0 == 0.0 {
        #[allow(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
        encode::number(out, number as i64);
        Ok(())
    } else {
        encode::value(out, &number)
    }
}
