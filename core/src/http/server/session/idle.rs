//! Idle sessions: when they expire, and the memory that they free.

use alloc::{collections::VecDeque, vec::Vec};
use core::time::Duration;

use super::{Session, SessionKind};
use crate::{collections::SeqMap, protocol::Phase, rpc::Timestamp};

/// For how long a session keeps empty tables and buffers after a request, since another is likely to follow.
const RETENTION_AFTER_REQUEST: Duration = Duration::from_secs(1);

impl Session {
    /// Returns when the session expires because it is not used.
    pub(super) fn expiry(&self) -> Option<Timestamp> {
        let limits = &self.options.limits;
        match self.kind {
            SessionKind::Streams { .. } if self.conn.phase() != Phase::Closed => {
                self.idle.map(|since| since + if self.came_back { limits.idle } else { limits.abandoned })
            }
            SessionKind::Modern { .. } | SessionKind::Streams { .. } | SessionKind::Old { .. } => None,
        }
    }

    /// Returns when the session has been idle for so long that it frees its tables and buffers.
    pub(super) fn cools(&self) -> Option<Timestamp> {
        self.idle.filter(|_| self.warm).map(|since| since + RETENTION_AFTER_REQUEST)
    }

    /// Updates whether the session is idle, and the bytes of its requests. A session that is not warm frees its empty
    /// tables and buffers, since most sessions are idle most of the time.
    pub(super) fn settle(&mut self) {
        // A session may keep an exchange open for hours after a large response, and is not idle then.
        self.conn.trim();
        if !self.warm {
            self.cool();
        }
        if !self.exchanges.is_empty() || self.conn.has_requests() {
            self.idle = None;
        } else if self.idle.is_none() {
            self.idle = Some(self.clock);
        }
        self.weigh_requests();
        if let Some(activity) = &self.activity {
            activity.set(self.idle, self.used);
            self.load.set_idle(self.idle.is_some(), self.used);
        }
    }

    /// Frees the memory of empty tables and buffers.
    fn cool(&mut self) {
        if self.exchanges.is_empty() {
            self.exchanges = SeqMap::new();
            self.spare = None;
            self.ready = VecDeque::new();
            self.frame = Vec::new();
            self.conn.shrink();
        }
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
        if let SessionKind::Streams { streams, .. } = &mut self.kind {
            streams.shrink();
        }
    }
}
