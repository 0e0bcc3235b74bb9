//! How a session is, and what it holds.

use super::{Session, SessionKind};
use crate::{
    connection::SessionSnapshot,
    http::{SessionId, server::Usage},
    protocol::Phase,
    schema::LoggingLevel,
};

impl Session {
    /// What the client calls it, if it is a session of the legacy era.
    #[must_use]
    pub const fn id(&self) -> Option<&SessionId> {
        match &self.kind {
            SessionKind::Modern { .. } => None,
            SessionKind::Streams { id, .. } | SessionKind::Old { id, .. } => Some(id),
        }
    }

    /// Whether its connection has ended, so that nothing can be brought to it any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.conn.phase() == Phase::Closed
    }

    /// Whether it is over: its connection has ended, every event is taken and everything written. Then the endpoint is to
    /// [forget](crate::http::server::Endpoint::forget) it, and it can be dropped.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.conn.is_drained() && self.events.is_empty() && self.exchanges.is_empty()
    }

    /// Returns how many bytes the session holds for its client: those that wait to be written, on exchanges and in its
    /// connection, and messages that wait for a stream. Requests in flight are not among them, and neither are messages that are
    /// kept in case a stream has to be sent again.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let waiting = match &self.kind {
            SessionKind::Streams { streams, .. } => streams.waiting_bytes(),
            SessionKind::Modern { .. } | SessionKind::Old { .. } => 0,
        };
        // Messages that no exchange has room for, and answers that wait for the rest of their batch, are in the connection.
        self.queued + self.conn.pending_bytes() + waiting
    }

    /// Returns about how many bytes the session keeps of the params of `initialize`, as long as it is there.
    #[must_use]
    pub const fn described_bytes(&self) -> usize {
        self.conn.described_bytes()
    }

    /// How it stands, as far as another process has to know to go on with it. `None` before the handshake.
    #[must_use]
    pub fn snapshot(&self) -> Option<SessionSnapshot> {
        if matches!(self.kind, SessionKind::Streams { .. }) { self.conn.snapshot() } else { None }
    }

    /// What of [`snapshot`](Self::snapshot) can change.
    #[must_use]
    pub fn mutable_state(&self) -> Option<(bool, Option<LoggingLevel>)> {
        let has_begun = matches!(self.kind, SessionKind::Streams { .. }) && self.conn.version().is_some();
        has_begun.then(|| self.conn.mutable_state())
    }

    /// What it holds right now, its connection aside.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let (streams, waiting, (replay, replay_bytes)) = match &self.kind {
            SessionKind::Streams { streams, .. } => (streams.all.len(), streams.waiting(), streams.replay.usage()),
            SessionKind::Modern { .. } | SessionKind::Old { .. } => (0, 0, (0, 0)),
        };
        Usage {
            exchanges: self.exchanges.len(),
            waiting_requests: self.queue.len(),
            queued_bytes: self.queued,
            streams,
            waiting,
            replay,
            replay_bytes,
            events: self.events.len(),
        }
    }
}
