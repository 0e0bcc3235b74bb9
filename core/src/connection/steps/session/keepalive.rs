//! Pings for a peer that has been quiet.

use crate::{
    connection::{
        engine::Engine,
        state::tags::CallTag,
        types::{CloseReason, RequestOptions, SendError},
    },
    protocol::{Method, Phase},
    rpc::{CallId, Priority, Timestamp},
    wire::{ErrorCode, ErrorObject},
};

impl Engine {
    /// Anything the peer says proves that it is there.
    pub(crate) fn heard(&mut self, now: Timestamp) {
        if let Some(keepalive) = &mut self.keepalive {
            keepalive.heard = now;
            keepalive.missed = 0;
        }
    }

    pub(crate) fn keep_alive(&mut self, now: Timestamp) {
        let is_paused = self.is_paused();
        let Some(keepalive) = &mut self.keepalive else { return };
        if keepalive.due().is_none_or(|due| due > now) {
            return;
        }
        if self.phase != Phase::Ready || is_paused {
            // The handshake has a deadline of its own, and a peer that is not read is not silent.
            keepalive.heard = now;
            return;
        }
        let options = RequestOptions::within(keepalive.config.interval);
        keepalive.in_flight = true;
        if self.send_ping(now, Priority::Control, CallTag::Keepalive, options).is_err() {
            // Frames are limited to less than a ping.
            self.keepalive = None;
        }
    }

    pub(crate) fn ping_missed(&mut self, now: Timestamp) {
        let is_paused = self.is_paused();
        let Some(keepalive) = &mut self.keepalive else { return };
        keepalive.in_flight = false;
        if is_paused {
            keepalive.heard = now;
            return;
        }
        if keepalive.heard + keepalive.config.interval > now {
            return;
        }
        keepalive.missed += 1;
        if keepalive.missed >= keepalive.config.max_missed {
            self.end(CloseReason::PeerSilent);
        } else {
            self.keep_alive(now);
        }
    }

    /// The answer to a ping of ours. A peer that does not know the method is alive all the same, and is spared more.
    pub(crate) fn ping_answered(&mut self, error: Option<&ErrorObject>) {
        if error.is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND) {
            self.keepalive = None;
        } else if let Some(keepalive) = &mut self.keepalive {
            keepalive.in_flight = false;
        }
    }

    pub(crate) fn send_ping(
        &mut self,
        now: Timestamp,
        priority: Priority,
        tag: CallTag,
        options: RequestOptions,
    ) -> Result<CallId, SendError> {
        self.start(now, priority, Method::Ping.as_str(), tag, options, |_| Ok(()))
    }
}
