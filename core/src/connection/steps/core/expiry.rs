//! Inbound requests without a response at their deadline.

use crate::{
    connection::{
        engine::Engine,
        types::{CancelCause, CloseReason, Event},
    },
    rpc::{EntryState, ReplyKey},
    wire::ErrorObject,
};

impl Engine {
    /// Ends a request of the peer that has no response at its deadline.
    pub(crate) fn expire(&mut self, key: ReplyKey) {
        let Some((entry, state)) = self.requests.get(key) else { return };
        let input_request = entry.tag.input_request;
        if state != EntryState::Open {
            self.release(key);
            return;
        }
        if self.is_full() {
            return self.end(CloseReason::PeerNotReading);
        }
        self.events.push_back(Event::Cancelled { key, cause: CancelCause::TimedOut });
        let error = ErrorObject::internal("Internal error: the request timed out");
        if let Some(input_request) = input_request {
            self.as_client().respond_to_input_request(key, input_request, Err(&error));
        } else if self.queue_response(key, Err(&error)).is_err() {
            // The error response is larger than the frame limit.
            self.cancel_request(key);
            self.release(key);
            self.check_drained();
        }
    }
}
