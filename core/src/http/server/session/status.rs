//! The state and the sizes of a session.

use super::{Session, SessionKind};
use crate::{
    connection::SessionSnapshot,
    http::{SessionId, server::ResourceUsage},
    protocol::Phase,
    schema::LoggingLevel,
};

impl Session {
    /// Returns the id of the session, if it is one of the legacy era.
    #[must_use]
    pub const fn id(&self) -> Option<&SessionId> {
        match &self.kind {
            SessionKind::Modern { .. } => None,
            SessionKind::Streams { id, .. } | SessionKind::Old { id, .. } => Some(id),
        }
    }

    /// Returns whether the connection of the session has ended, so that no request can be opened any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.conn.phase() == Phase::Closed
    }

    /// Returns whether the session is over: its connection has ended, every event was polled and every exchange is
    /// complete. The driver then [removes](crate::http::server::Endpoint::remove) it from the endpoint, and drops it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.conn.is_drained() && self.events.is_empty() && self.exchanges.is_empty()
    }

    /// Returns how many bytes the session holds for its client: those that wait to be written, on exchanges and in its
    /// connection, and messages that wait for a stream. It includes neither requests in flight nor messages that are
    /// kept for replay.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let waiting = match &self.kind {
            SessionKind::Streams { streams, .. } => streams.waiting_bytes(),
            SessionKind::Modern { .. } | SessionKind::Old { .. } => 0,
        };
        // Messages that no exchange has room for, and responses that wait for the rest of their batch, are in the
        // connection.
        self.queued + self.conn.pending_bytes() + waiting
    }

    /// Returns the bytes of the messages that are kept for replay.
    #[must_use]
    pub fn replay_bytes(&self) -> usize {
        match &self.kind {
            SessionKind::Streams { streams, .. } => streams.replay.usage().1,
            SessionKind::Modern { .. } | SessionKind::Old { .. } => 0,
        }
    }

    /// Returns about how many bytes of the params of `initialize` the session stores.
    #[must_use]
    pub const fn described_bytes(&self) -> usize {
        self.conn.described_bytes()
    }

    /// Returns the state that another process needs to resume the session. `None` before the handshake, and for a
    /// session that cannot be resumed: one of the modern era, or over the old transport.
    #[must_use]
    pub fn snapshot(&self) -> Option<SessionSnapshot> {
        if matches!(self.kind, SessionKind::Streams { .. }) { self.conn.snapshot() } else { None }
    }

    /// Returns the part of the [`snapshot`](Self::snapshot) that can change: whether the client is ready, and its log
    /// level.
    #[must_use]
    pub fn mutable_state(&self) -> Option<(bool, Option<LoggingLevel>)> {
        let has_begun = matches!(self.kind, SessionKind::Streams { .. }) && self.conn.version().is_some();
        has_begun.then(|| self.conn.mutable_state())
    }

    /// Returns the current resource usage of the session, without its connection.
    #[must_use]
    pub fn usage(&self) -> ResourceUsage {
        let (streams, waiting, (replay, replay_bytes)) = match &self.kind {
            SessionKind::Streams { streams, .. } => (streams.all.len(), streams.waiting(), streams.replay.usage()),
            SessionKind::Modern { .. } | SessionKind::Old { .. } => (0, 0, (0, 0)),
        };
        ResourceUsage {
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
