//! What a session holds.

/// What a session holds right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Exchanges that are not over.
    pub exchanges: usize,
    /// Those of them whose requests wait for room.
    pub waiting_requests: usize,
    /// Bytes that wait to be written.
    pub queued_bytes: usize,
    /// Streams that a client can come back to, or has open.
    pub streams: usize,
    /// Messages that wait for a stream.
    pub waiting: usize,
    /// Messages that are kept in case a stream has to be sent again.
    pub replay: usize,
    /// Their bytes.
    pub replay_bytes: usize,
    /// Events that wait to be taken.
    pub events: usize,
}
