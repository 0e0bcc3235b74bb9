//! Backpressure: when reading pauses, and when it resumes.

use alloc::boxed::Box;

use crate::{
    connection::{
        engine::Engine,
        state::input_pause::{Pause, RefusedSends},
        types::{SendError, Writable},
    },
    protocol::Phase,
    rpc::Timestamp,
};

impl Engine {
    /// Records a refused send for [`poll_writable`](crate::connection::Connection::poll_writable).
    pub(crate) fn record_busy<T>(&mut self, kind: Writable, result: Result<T, SendError>) -> Result<T, SendError> {
        if matches!(result, Err(SendError::Busy)) {
            self.refused.0 |= RefusedSends::bit(kind);
        }
        result
    }

    pub(crate) fn has_room_for_input(&self) -> bool {
        self.pause.is_none() && !self.is_congested()
    }

    /// Returns whether to read now. Begins a pause if the connection holds too much.
    #[inline]
    pub(crate) fn wants_input(&mut self, now: Timestamp) -> bool {
        // Most connections hold nothing when they read.
        let holds_nothing = self.requests.len() == 0 && self.outbox.frames() == 0 && self.batches.allocated().is_none();
        self.pause.is_none() && holds_nothing || self.wants_more_input(now)
    }

    #[inline(never)]
    fn wants_more_input(&mut self, now: Timestamp) -> bool {
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
            // The peer may have sent messages during the pause, so it does not count as silent.
            self.note_received(now);
            return true;
        }
        is_over
    }

    /// Returns whether reading is paused now.
    pub(crate) fn is_paused(&self) -> bool {
        self.pause_ends().is_some()
    }

    /// Returns the deadline of the pause, after which reading resumes even without room.
    pub(crate) fn pause_ends(&self) -> Option<Timestamp> {
        self.pause.as_ref()?.until
    }

    /// Records progress: output was polled or written, or a response was queued.
    pub(crate) fn progressed(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.moved = true;
        }
    }

    /// Handles the deadline of a pause: extends the pause if there was progress, else lets reading resume.
    pub(crate) fn end_pause(&mut self, now: Timestamp) {
        let again = now + self.limits().input_pause;
        if let Some(pause) = self.pause.as_mut().filter(|pause| pause.until.is_some_and(|until| until <= now)) {
            pause.until = core::mem::take(&mut pause.moved).then_some(again);
        }
    }

    /// Returns whether the connection holds so much that it would have to refuse further input.
    fn is_congested(&self) -> bool {
        let limits = self.limits();
        if self.phase >= Phase::Draining || limits.input_pause.is_zero() {
            return false;
        }
        let has_many_requests = || {
            let full = self.requests.len() >= limits.requests
                || self.request_bytes.saturating_add(limits.next_request()) > limits.request_bytes;
            full && !self.waits_for_answers()
        };
        self.has_much_to_write(limits.outbox_bytes / 2) || self.requests.len() > 0 && has_many_requests()
    }

    /// Returns whether there is enough room to end a pause.
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

    /// Returns whether more than `bytes` bytes can be written now.
    fn has_much_to_write(&self, bytes: usize) -> bool {
        // Responses of incomplete batches do not count: completing a batch may need more input.
        self.leaving_bytes() > bytes
    }

    /// Returns whether a request of this side, other than a keepalive ping, is in flight. Its response must be read,
    /// because a handler of the application may be waiting for it.
    fn waits_for_answers(&self) -> bool {
        let has_ping = self.keepalive.as_ref().is_some_and(|keepalive| keepalive.is_in_flight());
        self.calls.len() > usize::from(has_ping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        connection::{Server, ServerConfig},
        schema::Implementation,
    };

    #[test]
    fn server_without_space_for_requests_keeps_reading() {
        let mut config = ServerConfig::new(Implementation::new("s", "1"), 1);
        config.settings.limits.requests = 0;
        let mut server = Server::new(config, Timestamp::ZERO);
        assert!(server.has_room_for_input() && server.wants_input(Timestamp::ZERO));
    }
}
