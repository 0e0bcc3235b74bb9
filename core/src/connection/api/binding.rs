//! What a binding with several streams asks of a connection, and a pipe does not.

use alloc::{string::ToString, sync::Arc};
use core::{marker::PhantomData, time::Duration};

use crate::{
    connection::{
        api::{ClientEnd, Connection, ServerEnd},
        engine::{Engine, RoleState},
        state::{streams::Downstream, tags::CallTag},
        types::{ClientConfig, CloseReason, Event, Failure, Limits, Opening, Outcome, RequestOptions},
    },
    protocol::{Era, Method, Phase},
    rpc::{CallId, Priority, ReplyKey, Timestamp},
    wire::{RequestId, encode},
};

impl Connection<ServerEnd> {
    /// The stream that a request came in on, answered or not, as long as it has a place in the table.
    pub(crate) fn stream_of(&self, key: ReplyKey) -> Option<u64> {
        self.engine.requests.get(key)?.0.tag.stream()
    }

    /// Nothing is going on for now: gives back the space of buffers that are empty.
    pub(crate) fn shrink(&mut self) {
        self.engine.shrink();
    }

    /// A number for an id of the peer, which does not know it.
    pub(crate) fn hash_of(&self, id: &RequestId) -> u64 {
        self.engine.requests.hash_of(id)
    }

    /// Whether a request of the peer is there under this id.
    pub(crate) fn knows_request(&self, id: &RequestId) -> bool {
        self.engine.requests.find(id).is_some()
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.engine.limits()
    }

    /// Whether requests of the peer are still there.
    pub(crate) fn has_requests(&self) -> bool {
        self.request_count() > 0
    }

    /// The number of requests of the peer that are still there.
    pub(crate) fn request_count(&self) -> usize {
        self.engine.requests.len()
    }

    /// So many bytes that were polled wait to be written. They count as what waits here, and no room is left if it is
    /// `full`.
    pub(crate) fn hold(&mut self, bytes: usize, full: bool) {
        let held = Downstream { bytes, full };
        if held != self.engine.streams.downstream {
            self.engine.streams.downstream = held;
        }
    }

    /// Bytes that wait to be written, or for the answers that they are to be written with.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.engine.pending_bytes()
    }

    /// The most bytes that the params of `initialize` take, which are kept.
    pub(crate) const fn described_bytes(&self) -> usize {
        self.engine.described as usize
    }

    /// What requests of the peer take that are in flight.
    pub(crate) const fn request_bytes(&self) -> usize {
        self.engine.request_bytes
    }

    /// Whether a request of so many bytes would not be refused because too much is in flight. One that is larger than
    /// the limit has nothing to wait for once it is alone.
    pub(crate) fn has_room_for_inbound(&self, bytes: usize) -> bool {
        let (engine, limits) = (&self.engine, self.engine.limits());
        let fits = engine.request_bytes.saturating_add(bytes) <= limits.request_bytes;
        engine.requests.len() == 0 || engine.requests.len() < limits.requests && fits
    }

    /// Whether a request of ours is still to be answered.
    pub(crate) fn asks(&self, call: CallId) -> bool {
        self.engine.calls.get(call).is_some()
    }
}

impl Connection<ClientEnd> {
    /// [`knowing`](Self::knowing), for a server that answers every question with something: that it does not says
    /// nothing of its era.
    pub(crate) fn over_http(config: Arc<ClientConfig>, opening: Opening, now: Timestamp) -> Self {
        let mut engine = Engine::new(RoleState::client(config, opening), now);
        if let Some(start_state) = engine.start_state() {
            start_state.over_http = true;
        }
        engine.unordered = true;
        engine.open(now);
        Self { engine, end: PhantomData }
    }

    /// Whether the answer to a request that was last sent under this id is still to come.
    pub(crate) fn awaits(&self, wire: u64) -> bool {
        let calls = &self.engine.calls;
        calls.by_wire(wire).and_then(|call| calls.get(call)).is_some_and(|call| !call.waits)
    }

    /// Whether something waits to be sent that goes before new requests.
    pub(crate) fn has_control(&self) -> bool {
        self.engine.outbox.has_control()
    }

    /// Whether a request is in flight, under whatever id.
    pub(crate) fn knows(&self, call: CallId) -> bool {
        self.engine.calls.get(call).is_some()
    }

    /// The server has lost the session: begins another one, in the same revision. Its `initialize` goes first.
    pub(crate) fn renew(&mut self, now: Timestamp) {
        let engine = &mut self.engine;
        if engine.phase == Phase::Ready && engine.version.is_some_and(|version| version.era() == Era::Legacy) {
            engine.shake_hands(now, engine.version);
        }
    }

    /// Sends a request again under a new id: what it was answered with is not its end. Whether it can be.
    pub(crate) fn resend(&mut self, call: CallId) -> bool {
        if !self.engine.retries.has(call) || self.engine.pursues(call) {
            return false;
        }
        self.engine.calls.suspend(call);
        self.engine.send_again(call);
        true
    }

    /// Asks for a page of the list of tools, on the binding's own behalf: the application does not hear of the answer.
    pub(crate) fn ask_for_tools(&mut self, now: Timestamp, cursor: Option<&str>, within: Duration) -> Option<u64> {
        let options = RequestOptions::within(within);
        let call = self.engine.start(
            now,
            Priority::Control,
            Method::ListTools.as_str(),
            CallTag::CancelTask,
            options,
            |out| {
                if let Some(cursor) = cursor {
                    out.extend_from_slice(b"{\"cursor\":");
                    encode::text(out, cursor);
                    out.push(b'}');
                }
                Ok(())
            },
        );
        call.ok().map(CallId::as_u64)
    }
}

impl<E> Connection<E> {
    /// Ends the connection at once. The peer is gone already.
    pub(crate) fn finish(&mut self, reason: CloseReason) {
        self.engine.break_off(reason);
    }

    /// A request of ours cannot be brought to the peer, or its answer not back.
    pub(crate) fn fail(&mut self, call: CallId, failure: Failure) {
        self.engine.fail(call, failure);
    }
}

impl Engine {
    fn fail(&mut self, call: CallId, failure: Failure) {
        let now = self.clock;
        if self.calls.get(call).is_some() && self.pursues(call) {
            // That it could not be asked how a task stands is not the end of the task.
            self.take_back(call);
            let event = self.look_failed(call, false, Outcome::Failed(failure));
            self.events.extend(event);
            return;
        }
        self.take_back(call);
        self.drop_questions(call);
        if self.listens(call) && failure.may_pass() {
            let event = self.subscription_ended(call, Outcome::Failed(failure));
            self.events.extend(event);
            return;
        }
        self.stop_listening(call);
        self.keep_no_more(call);
        let Some(entry) = self.calls.retire(call) else { return };
        match entry.tag {
            CallTag::User { .. } => {
                self.events.push_back(Event::Response { call, outcome: Outcome::Failed(failure) });
            }
            CallTag::Keepalive => self.ping_missed(now),
            CallTag::CancelTask => {}
            CallTag::Probe { .. } if failure.means_legacy() => {
                self.heard_of_probe();
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
    fn what_the_binding_asks_is_taken_back_when_its_time_is_up() {
        let mut config = ClientConfig::new(Implementation::new("c", "1"), 1);
        config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
        let mut client = Client::new(config, Timestamp::ZERO);
        let mut out = Vec::new();
        assert!(client.poll_transmit(&mut out).is_some());
        let discovered = br#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}"#;
        assert_eq!(client.handle_frame(Timestamp::ZERO, Frame::new(discovered)), Some(Event::Ready));
        let within = Duration::from_secs(1);
        assert!(client.ask_for_tools(Timestamp::ZERO, None, within).is_some());
        assert!(client.has_output());
        client.handle_timeout(Timestamp::ZERO + within);
        assert_eq!((client.has_output(), client.usage().calls), (false, 0));
        assert!(client.poll_event().is_none());
    }
}
