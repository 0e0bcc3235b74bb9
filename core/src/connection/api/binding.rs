//! Methods for bindings with several streams, such as HTTP. A pipe does not need them.

use alloc::{string::ToString, sync::Arc};
use core::{marker::PhantomData, time::Duration};

use crate::{
    connection::{
        api::{ClientRole, Connection, ServerRole},
        engine::{Engine, RoleState},
        state::{
            repeated_parts::KnownClient,
            stateless_request::ResultHead,
            streams::Downstream,
            tags::{CallTag, Origin},
        },
        types::{
            Arrival, ClientConfig, CloseReason, Event, Failure, Limits, Opening, Outcome, RequestOptions, ServerConfig,
        },
    },
    protocol::{Era, Method, MethodName, Phase, ProtocolVersion},
    rpc::{CallId, Priority, ReplyKey, Timestamp},
    wire::{Message, RawJson, Repetition, RequestId, text},
};

/// A request of 2026-07-28 that leaves.
pub(crate) struct OutgoingRequest<'a> {
    /// The id on the wire.
    pub(crate) id: u64,
    pub(crate) version: ProtocolVersion,
    pub(crate) method: &'a MethodName<'static>,
    /// The params, without what the connection adds to `_meta`.
    pub(crate) params: Option<RawJson<'a>>,
}

impl Connection<ServerRole> {
    /// Handles a parsed frame as [`handle_frame_from`](Self::handle_frame_from) does. Its length `bytes` was within the
    /// limits. `known` is the description of the client if the frame has it, as it was found there.
    #[must_use = "an event that is dropped may be a request, which then gets no response"]
    pub(crate) fn handle_message_from<'a>(
        &mut self,
        now: Timestamp,
        (message, bytes): (Message<'a>, usize),
        known: Option<&(Arc<KnownClient>, Repetition)>,
        arrival: Arrival,
    ) -> Option<Event<'a>> {
        let mut origin = Origin { bytes, ..Origin::default() };
        if let Some((client, repetition)) = known {
            self.engine.modern.repeated.set_client(client.clone());
            origin.repetition = *repetition;
        }
        self.engine.arrival = Some(Arc::new(arrival));
        let event = self.engine.handle_message(now, message, origin);
        self.engine.arrival = None;
        event
    }

    /// Returns the stream of a request that holds a slot, with or without a response.
    pub(crate) fn stream_of(&self, key: ReplyKey) -> Option<u64> {
        self.engine.requests.get(key)?.0.tag.stream()
    }

    /// Frees the space of empty queues beyond the little that they always keep.
    pub(crate) fn trim(&mut self) {
        self.engine.trim();
    }

    /// Frees the space of empty buffers while the connection is idle.
    pub(crate) fn shrink(&mut self) {
        self.engine.shrink();
    }

    /// Returns the hash of an id of the peer, which cannot predict it.
    pub(crate) fn hash_of(&self, id: &RequestId) -> u64 {
        self.engine.requests.hash_of(id)
    }

    /// Returns whether a request of the peer with this id is in flight.
    pub(crate) fn has_request(&self, id: &RequestId) -> bool {
        self.engine.requests.find(id).is_some()
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.engine.limits()
    }

    /// Returns whether requests of the peer hold a slot.
    pub(crate) fn has_requests(&self) -> bool {
        self.request_count() > 0
    }

    /// Returns the number of requests of the peer that hold a slot.
    pub(crate) fn request_count(&self) -> usize {
        self.engine.requests.len()
    }

    /// Records that `bytes` polled bytes wait to be written. They count as output that waits here; if `full` is set,
    /// there is no room for more.
    pub(crate) fn set_downstream(&mut self, bytes: usize, full: bool) {
        self.engine.streams.downstream = Downstream { bytes, full };
    }

    /// Creates a server for one request of the modern era, whose result begins with `head`.
    pub(crate) fn stateless(config: Arc<ServerConfig>, head: Option<ResultHead>, now: Timestamp) -> Self {
        let mut server = Self::new(config, now);
        server.engine.modern.result_head = head;
        server
    }

    /// Returns the number of bytes that wait to be written or for the rest of their batch.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.engine.pending_bytes()
    }

    /// Returns the number of bytes that the stored params of `initialize` take.
    pub(crate) const fn described_bytes(&self) -> usize {
        self.engine.described as usize
    }

    /// Returns the number of bytes that requests of the peer in flight take.
    pub(crate) const fn request_bytes(&self) -> usize {
        self.engine.request_bytes
    }

    /// Returns whether a request of this size fits into the limits of inbound requests. A request that is larger than
    /// the limit fits if no other is in flight.
    pub(crate) fn has_room_for_inbound(&self, bytes: usize) -> bool {
        let (engine, limits) = (&self.engine, self.engine.limits());
        let fits = engine.request_bytes.saturating_add(bytes) <= limits.request_bytes;
        engine.requests.len() == 0 || engine.requests.len() < limits.requests && fits
    }
}

impl Connection<ClientRole> {
    /// Creates a client as [`with_opening`](Self::with_opening) does, for HTTP. Over HTTP a server responds to every
    /// request, so a missing response does not show the era of the server.
    pub(crate) fn over_http(config: Arc<ClientConfig>, opening: Opening, now: Timestamp) -> Self {
        let mut engine = Engine::new(RoleState::client(config, opening), now);
        if let Some(start_state) = engine.start_state() {
            start_state.over_http = true;
        }
        engine.unordered = true;
        engine.open(now);
        Self { engine, role: PhantomData }
    }

    /// Returns whether the response to the request that was last sent under this id has not arrived.
    pub(crate) fn awaits(&self, wire: u64) -> bool {
        let calls = &self.engine.calls;
        calls.by_wire(wire).and_then(|call| calls.get(call)).is_some_and(|call| !call.is_suspended)
    }

    /// Returns the id on the wire and the method of a request of the application in a session: what its frame contains,
    /// without a look at the frame. The method is `None` if the specification does not define it.
    pub(crate) fn session_request(&self, call: CallId) -> Option<(u64, Option<Method>)> {
        let Engine { version, calls, .. } = &self.engine;
        if version.is_none_or(|version| version.era() != Era::Legacy) {
            return None;
        }
        match calls.get(call)?.tag {
            CallTag::User { method, .. } => Some((calls.wire(call).as_u64(), method)),
            CallTag::Handshake | CallTag::Probe { .. } | CallTag::Keepalive | CallTag::CancelTask => None,
        }
    }

    /// Returns what the frame of a request of the application of 2026-07-28 contains, without a look at the frame.
    /// Returns `None` if it may contain more than the application has written, or may be a request about a task. So it
    /// does for requests whose result is cacheable, and for subscriptions.
    pub(crate) fn stateless_request(&self, call: CallId) -> Option<OutgoingRequest<'_>> {
        let Engine { calls, retries, .. } = &self.engine;
        let retained = retries.get(call).filter(|retained| retained.is_unchanged())?;
        let params = text(&retained.params).ok()?;
        Some(OutgoingRequest {
            id: calls.wire(call).as_u64(),
            version: retained.version,
            method: &retained.method,
            params: (!params.is_empty()).then(|| RawJson::unambiguous(params)),
        })
    }

    /// Returns whether a frame waits that is sent before new requests.
    pub(crate) fn has_control(&self) -> bool {
        self.engine.outbox.has_control() || self.engine.batches.has_complete()
    }

    /// Begins another session in the same revision after the server has lost the session. Its `initialize` is sent
    /// first. The requests of the server in the lost session are cancelled, and responses that wait to be sent are
    /// removed: the server uses the ids again.
    pub(crate) fn renew(&mut self, now: Timestamp) {
        let engine = &mut self.engine;
        engine.cancel_requests();
        engine.drop_responses();
        if engine.phase == Phase::Ready && engine.version.is_some_and(|version| version.era() == Era::Legacy) {
            engine.shake_hands(now, engine.version);
        }
    }

    /// Sets the time at which deadlines of new requests begin, without the processing of those that are due.
    pub(crate) fn advance_clock(&mut self, now: Timestamp) {
        self.engine.clock = self.engine.clock.max(now);
    }

    /// Sends the request that was last sent under this id again under a new id, regardless of its response. Returns
    /// whether that is possible: a server may have answered the request, although it has also refused it.
    pub(crate) fn resend(&mut self, call: CallId, wire: u64) -> bool {
        if !self.awaits(wire) || !self.engine.retries.has(call) || self.engine.has_poller(call) {
            return false;
        }
        self.engine.calls.suspend(self.engine.clock, call);
        self.engine.resend(call);
        true
    }

    /// Pauses the deadlines of the request that was last sent under this id, until it is resumed or sent again.
    pub(crate) fn pause_deadlines(&mut self, now: Timestamp, wire: u64) {
        self.engine.calls.pause(now, wire);
    }

    /// Resumes the deadlines of the request that was last sent under this id, with the time that was left.
    pub(crate) fn resume_deadlines(&mut self, now: Timestamp, wire: u64) {
        self.engine.calls.resume(now, wire);
    }

    /// Pauses or resumes the deadlines of all requests in the outbox, also of those that are made from now on. A
    /// request that leaves the outbox during the pause stays paused.
    pub(crate) fn pause_unsent(&mut self, now: Timestamp, pauses: bool) {
        self.engine.calls.pause_unsent(now, pauses);
    }

    /// Requests a page of the list of tools on behalf of the binding. `cursor` is a JSON string. The application does
    /// not get the response.
    pub(crate) fn request_tools(&mut self, now: Timestamp, cursor: Option<&str>, within: Duration) -> Option<u64> {
        let options = RequestOptions::within(within);
        let call = self.engine.start(
            now,
            Priority::Control,
            &Method::ListTools.into(),
            CallTag::CancelTask,
            &options,
            &|out| {
                if let Some(cursor) = cursor {
                    out.extend_from_slice(b"{\"cursor\":");
                    out.extend_from_slice(cursor.as_bytes());
                    out.push(b'}');
                }
                Ok(())
            },
        );
        call.ok().map(CallId::as_u64)
    }
}

impl<E> Connection<E> {
    /// Returns whether a request of this side is in flight, also under another id on the wire.
    pub(crate) fn has_call(&self, call: CallId) -> bool {
        self.engine.calls.get(call).is_some()
    }

    /// Ends the connection at once, after the peer has disconnected.
    pub(crate) fn finish(&mut self, reason: CloseReason) {
        self.engine.break_off(reason);
    }

    /// Fails a request of this side that cannot be delivered, or whose response cannot.
    pub(crate) fn fail(&mut self, call: CallId, failure: Failure) {
        self.engine.fail(call, failure);
    }
}

impl Engine {
    fn fail(&mut self, call: CallId, failure: Failure) {
        let now = self.clock;
        if self.calls.get(call).is_some() && self.has_poller(call) {
            // A failed poll does not end the task.
            self.take_back(call);
            let event = self.poll_failed(call, false, Outcome::Failed(failure));
            self.events.extend(event);
            return;
        }
        self.take_back(call);
        self.drop_input_requests(call);
        if self.listens(call) && failure.may_pass() {
            let event = self.subscription_ended(call, Outcome::Failed(failure));
            self.events.extend(event);
            return;
        }
        self.stop_listening(call);
        self.drop_retry(call);
        let Some(tag) = self.calls.retire(call) else { return };
        match tag {
            CallTag::User { .. } => {
                self.events.push_back(Event::Response { call, outcome: Outcome::Failed(failure) });
            }
            CallTag::Keepalive => self.ping_missed(now),
            CallTag::CancelTask => {}
            CallTag::Probe { .. } if failure.means_legacy() => {
                self.mark_probe_answered();
                self.fall_back(now, &failure.to_string());
            }
            CallTag::Handshake | CallTag::Probe { .. } => self.end(CloseReason::Failed(failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::{
        codec::Frame,
        connection::Client,
        protocol::{ProtocolVersion, VersionSet},
        schema::Implementation,
    };

    #[test]
    fn binding_request_is_withdrawn_at_timeout() {
        let mut config = ClientConfig::new(Implementation::new("c", "1"), 1);
        config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
        let mut client = Client::new(config, Timestamp::ZERO);
        let mut out = Vec::new();
        assert!(client.poll_transmit(&mut out).is_some());
        let discovered = br#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}"#;
        assert_eq!(client.handle_frame(Timestamp::ZERO, Frame::new(discovered)), Some(Event::Ready));
        let within = Duration::from_secs(1);
        assert!(client.request_tools(Timestamp::ZERO, None, within).is_some());
        assert!(client.has_output());
        client.handle_timeout(Timestamp::ZERO + within);
        assert_eq!((client.has_output(), client.usage().calls), (false, 0));
        assert!(client.poll_event().is_none());
    }

    #[test]
    fn calls_of_a_session_are_not_sent_again() {
        let mut config = ClientConfig::new(Implementation::new("c", "1"), 1);
        config.settings.versions = VersionSet::only(ProtocolVersion::V2025_11_25);
        let mut client = Client::new(config, Timestamp::ZERO);
        let mut out = Vec::new();
        assert!(client.poll_transmit(&mut out).is_some());
        let initialized = br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
        assert_eq!(client.handle_frame(Timestamp::ZERO, Frame::new(initialized)), Some(Event::Ready));
        let call = client.request_raw(Timestamp::ZERO, "tools/list", None, RequestOptions::default()).expect("a call");
        assert!(!client.resend(call, call.as_u64()));
        assert!(client.awaits(call.as_u64()));
    }
}
