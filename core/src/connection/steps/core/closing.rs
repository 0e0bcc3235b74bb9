//! The closing of a connection.

use alloc::{boxed::Box, string::String};

use crate::{
    collections::LazyBox,
    connection::{
        engine::Engine,
        state::tags::CallTag,
        types::{CancelCause, CloseReason, Event, Outcome},
    },
    protocol::{Phase, Role},
    rpc::{EntryState, FrameOwner, Priority, Timestamp},
};

impl Engine {
    /// Handles the end of the peer's input. A server may still respond to open requests for a while.
    pub(crate) fn handle_eof(&mut self, now: Timestamp) {
        match self.role() {
            Role::Server => self.start_draining(now, CloseReason::Eof),
            // A server that closes its output cannot respond any more.
            Role::Client => self.end(CloseReason::Eof),
        }
    }

    /// Handles a failure of the transport.
    pub(crate) fn handle_disconnect(&mut self, why: Option<String>) {
        self.break_off(why.map_or(CloseReason::ConnectionLost, CloseReason::TransportError));
    }

    /// Closes the connection at once and drops all output.
    pub(crate) fn break_off(&mut self, reason: CloseReason) {
        self.end(reason);
        self.outbox.clear();
        self.batches = LazyBox::default();
        for key in self.requests.keys(EntryState::Answered) {
            self.release(key);
        }
    }

    pub(crate) fn close(&mut self, now: Timestamp) {
        self.start_draining(now, CloseReason::Local);
    }

    fn start_draining(&mut self, now: Timestamp, reason: CloseReason) {
        if self.phase >= Phase::Draining {
            return;
        }
        self.end_calls(&reason);
        self.end_subscriptions();
        (self.keepalive, self.pause) = (None, None);
        self.aborted = self.phase < Phase::Ready;
        self.phase = Phase::Draining;
        if self.requests.open() == 0 {
            return self.end(reason);
        }
        self.drain = Some(Box::new((now + self.limits().drain, reason)));
    }

    /// Closes a draining connection if no request is open any more.
    pub(crate) fn check_drained(&mut self) {
        if self.phase == Phase::Draining && self.requests.open() == 0 {
            self.finish_draining();
        }
    }

    pub(crate) fn finish_draining(&mut self) {
        if let Some(drain) = self.drain.take() {
            self.end(drain.1);
        }
    }

    /// Closes the connection: ends all calls, subscriptions and requests of the peer.
    pub(crate) fn end(&mut self, reason: CloseReason) {
        if self.phase == Phase::Closed {
            return;
        }
        self.note_exit(&reason);
        self.end_calls(&reason);
        self.end_subscriptions();
        if let Some(subscriptions) = self.modern.allocated_mut().map(|modern| &mut modern.subscriptions) {
            subscriptions.clear();
        }
        self.cancel_requests();
        self.phase = Phase::Closed;
        self.drain = None;
        (self.keepalive, self.pause) = (None, None);
        self.list_changes.clear();
        self.task_progress.clear();
        self.ended = Some(Box::new(reason));
    }

    /// Cancels all requests of the peer, because the connection or the session ends.
    pub(crate) fn cancel_requests(&mut self) {
        for key in self.requests.keys(EntryState::Open) {
            self.cancel_request(key);
            self.events.push_back(Event::Cancelled { key, cause: CancelCause::Closed });
        }
    }

    /// Removes all responses that wait to be sent, because the session of their requests was lost.
    #[cfg(feature = "http")]
    pub(crate) fn drop_responses(&mut self) {
        for key in self.requests.keys(EntryState::Answered) {
            self.cancel_request(key);
        }
        self.outbox.take_back_answers();
        self.batches = LazyBox::default();
    }

    fn end_calls(&mut self, reason: &CloseReason) {
        if self.calls.len() == 0 {
            return;
        }
        for priority in [Priority::Request, Priority::Control] {
            self.outbox.take_back(priority, |owner| matches!(owner, FrameOwner::Call(_)));
        }
        for id in self.calls.ids() {
            self.drop_input_requests(id);
            self.drop_retry(id);
            if matches!(self.calls.retire(id), Some(CallTag::User { .. })) {
                self.events.push_back(Event::Response { call: id, outcome: Outcome::Closed(reason.clone()) });
            }
        }
    }
}
