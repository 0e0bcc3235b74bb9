//! Keepalive pings for a silent peer.

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
    /// Records that the peer sent something, which restarts the keepalive interval.
    pub(crate) fn note_received(&mut self, now: Timestamp) {
        if let Some(keepalive) = &mut self.keepalive {
            keepalive.last_received = now;
            keepalive.missed = 0;
        }
    }

    /// Sends a ping if the peer has been silent for the interval and no ping is in flight.
    pub(crate) fn keep_alive(&mut self, now: Timestamp) {
        let is_paused = self.is_paused();
        let Some(keepalive) = &mut self.keepalive else { return };
        if keepalive.due().is_none_or(|due| due > now) {
            return;
        }
        if self.phase != Phase::Ready || is_paused {
            // The handshake has its own deadline, and during a pause of reading a peer cannot be judged silent.
            keepalive.last_received = now;
            return;
        }
        let options = RequestOptions::within(keepalive.config.interval);
        keepalive.in_flight = true;
        if self.send_ping(now, Priority::Control, CallTag::Keepalive, options).is_err() {
            // The frame limit is smaller than a ping.
            self.keepalive = None;
        }
    }

    /// Handles the timeout of a keepalive ping. Closes the connection after too many in a row.
    pub(crate) fn ping_missed(&mut self, now: Timestamp) {
        let is_paused = self.is_paused();
        let Some(keepalive) = &mut self.keepalive else { return };
        keepalive.in_flight = false;
        if is_paused {
            keepalive.last_received = now;
            return;
        }
        if keepalive.last_received + keepalive.config.interval > now {
            return;
        }
        keepalive.missed += 1;
        if keepalive.missed >= keepalive.config.max_missed {
            self.end(CloseReason::PeerSilent);
        } else {
            self.keep_alive(now);
        }
    }

    /// Handles the response to a keepalive ping. A peer that does not support the method gets no more pings.
    pub(crate) fn ping_answered(&mut self, error: Option<&ErrorObject>) {
        if error.is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND) {
            self.keepalive = None;
        } else if let Some(keepalive) = &mut self.keepalive {
            keepalive.in_flight = false;
        }
    }

    /// Sends a ping with this priority.
    pub(crate) fn send_ping(
        &mut self,
        now: Timestamp,
        priority: Priority,
        tag: CallTag,
        options: RequestOptions,
    ) -> Result<CallId, SendError> {
        self.start(now, priority, &Method::Ping.into(), tag, &options, &|_| Ok(()))
    }
}
