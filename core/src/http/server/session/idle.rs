//! When a session is idle, when that ends it, and what it gives back then.

use alloc::{collections::VecDeque, vec::Vec};
use core::time::Duration;

use super::{Session, SessionKind};
use crate::{collections::SeqMap, protocol::Phase, rpc::Timestamp};

/// For how long a session that was asked something keeps its tables and buffers: who asks once asks again.
const WARM: Duration = Duration::from_secs(1);

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

    /// When nothing was going on for so long that its tables and buffers are not worth their room.
    pub(super) fn cools(&self) -> Option<Timestamp> {
        self.idle.filter(|_| self.warm).map(|since| since + WARM)
    }

    /// Looks whether anything is going on. Of what is over, soon not even the room is kept that it took in tables and
    /// buffers: most sessions are idle most of the time.
    pub(super) fn settle(&mut self) {
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
            activity.set(self.idle, self.came_back);
            self.load.set_idle(self.idle.is_some());
        }
    }

    /// Gives back the room of empty tables and buffers.
    fn cool(&mut self) {
        if self.exchanges.is_empty() {
            self.exchanges = SeqMap::new();
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
