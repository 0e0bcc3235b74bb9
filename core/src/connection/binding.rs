//! What a binding with several streams asks of a connection, and a pipe does not.

use alloc::collections::BTreeSet;

use super::{
    CloseReason, Connection, Event, Failure, Outcome, ServerEnd,
    engine::{CallTag, Engine},
};
use crate::rpc::{CallId, ReplyKey, State};

impl Connection<ServerEnd> {
    /// The stream that a request came in on, answered or not, as long as it has a place in the table.
    pub(crate) fn stream_of(&self, key: ReplyKey) -> Option<u64> {
        self.engine.requests.get(key)?.0.tag.stream()
    }

    /// Whether an answer to anything that came in on this stream is still to be sent.
    pub(crate) fn owes(&self, stream: u64) -> bool {
        self.engine.owed().any(|owed| owed == stream)
    }

    /// Every stream on which an answer is still to be sent.
    pub(crate) fn owed(&self) -> BTreeSet<u64> {
        self.engine.owed().collect()
    }
}

impl<E> Connection<E> {
    /// Ends the connection at once, with nobody at the other end any more.
    pub(crate) fn finish(&mut self, reason: CloseReason) {
        self.engine.break_off(reason);
    }

    /// A request of ours cannot be brought to the peer, or its answer not back.
    pub(crate) fn fail(&mut self, call: CallId, failure: Failure) {
        self.engine.fail(call, failure);
    }
}

impl Engine {
    fn owed(&self) -> impl Iterator<Item = u64> {
        let owed = [State::Open, State::Answered].into_iter().flat_map(|state| self.requests.keys(state));
        owed.filter_map(|key| self.requests.get(key)?.0.tag.stream())
    }

    fn fail(&mut self, call: CallId, failure: Failure) {
        let now = self.clock;
        self.take_back(call);
        self.drop_questions(call);
        self.repeats.end(call);
        let Some(entry) = self.calls.retire(call) else { return };
        match entry.tag {
            CallTag::User { .. } => {
                self.events.push_back(Event::Response { call, outcome: Outcome::Failed(failure) });
            }
            CallTag::Keepalive => self.ping_missed(now),
            CallTag::Farewell => {}
            CallTag::Handshake | CallTag::Probe { .. } => self.end(CloseReason::Failed(failure)),
        }
    }
}
