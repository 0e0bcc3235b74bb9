//! Backpressure: when reading pauses, and when it resumes.

use alloc::boxed::Box;

use crate::{
    connection::{
        engine::Engine,
        state::input_pause::{Pause, RefusedSends},
        types::{Room, SendError},
    },
    protocol::Phase,
    rpc::Timestamp,
};

impl Engine {
    /// Remembers a refusal for [`poll_room`](Connection::poll_room).
    pub(crate) fn noted<T>(&mut self, kind: Room, result: Result<T, SendError>) -> Result<T, SendError> {
        if matches!(result, Err(SendError::Busy)) {
            self.refused.0 |= RefusedSends::bit(kind);
        }
        result
    }

    pub(crate) fn wants_input(&mut self, now: Timestamp) -> bool {
        let Some(pause) = &self.pause else {
            if !self.is_congested() {
                return true;
            }
            let until = Some(now + self.limits().input_pause);
            self.pause = Some(Box::new(Pause { until, moved: false }));
            return false;
        };
        let is_over = pause.until.is_none();
        if self.has_cleared() {
            self.pause = None;
            // What the peer has said meanwhile was not read.
            self.heard(now);
            return true;
        }
        is_over
    }

    /// Whether reading is paused now.
    pub(crate) fn is_paused(&self) -> bool {
        self.pause_ends().is_some()
    }

    /// When a pause ends, although there is no room.
    pub(crate) fn pause_ends(&self) -> Option<Timestamp> {
        self.pause.as_ref()?.until
    }

    /// Output has left, or a request was answered.
    pub(crate) fn progressed(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.moved = true;
        }
    }

    /// Ends a pause in which nothing has moved for too long.
    pub(crate) fn end_pause(&mut self, now: Timestamp) {
        let again = now + self.limits().input_pause;
        if let Some(pause) = self.pause.as_mut().filter(|pause| pause.until.is_some_and(|until| until <= now)) {
            pause.until = core::mem::take(&mut pause.moved).then_some(again);
        }
    }

    /// Whether so much is held that more input could only be refused.
    fn is_congested(&self) -> bool {
        let limits = self.limits();
        if self.phase >= Phase::Draining || limits.input_pause.is_zero() {
            return false;
        }
        let full = self.requests.len() >= limits.requests
            || self.request_bytes.saturating_add(limits.next_request()) > limits.request_bytes;
        self.has_much_to_write(limits.outbox_bytes / 2) || full && self.requests.len() > 0 && !self.waits_for_answers()
    }

    /// Whether there is enough room to read again.
    fn has_cleared(&self) -> bool {
        let limits = self.limits();
        if self.phase >= Phase::Draining {
            return true;
        }
        let bytes = self.request_bytes.saturating_add(limits.next_request()).saturating_add(limits.request_bytes / 8);
        let room = self.requests.len().saturating_add(limits.requests / 8) < limits.requests
            && bytes <= limits.request_bytes
            || self.requests.len() == 0;
        !self.has_much_to_write(limits.outbox_bytes / 4) && (room || self.waits_for_answers())
    }

    /// Whether more than so many bytes wait to be written and can be.
    fn has_much_to_write(&self, bytes: usize) -> bool {
        // What is held for the rest of a batch leaves when that is complete, which may take more input.
        self.leaving_bytes() > bytes
    }

    /// Whether a request of the application waits for the peer. A handler that answers requests may wait for it.
    fn waits_for_answers(&self) -> bool {
        let has_ping = self.keepalive.as_ref().is_some_and(|keepalive| keepalive.is_in_flight());
        self.calls.len() > usize::from(has_ping)
    }
}
