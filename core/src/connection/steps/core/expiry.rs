//! Inbound requests that were not answered before their deadline.

use crate::{
    connection::{
        engine::Engine,
        types::{CancelCause, CloseReason, Event},
    },
    rpc::{ReplyKey, State},
    wire::ErrorObject,
};

impl Engine {
    /// Ends a request of the peer that was not answered before its deadline.
    pub(crate) fn expire(&mut self, key: ReplyKey) {
        let Some((entry, state)) = self.requests.get(key) else { return };
        let question = entry.tag.question;
        if state != State::Open {
            self.release(key);
            return;
        }
        if self.is_full() {
            return self.end(CloseReason::PeerNotReading);
        }
        self.events.push_back(Event::Cancelled { key, cause: CancelCause::TimedOut });
        let error = ErrorObject::internal("Internal error: the request was not answered in time");
        if let Some(question) = question {
            self.as_client().answer_question(key, question, Err(&error));
        } else if self.put_answer(key, Err(&error)).is_err() {
            // The error response is larger than the frame limit.
            self.cancel_request(key);
            self.release(key);
            self.check_drained();
        }
    }
}
