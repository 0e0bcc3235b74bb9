//! The sizes of a session's tables and buffers.

/// The sizes of a session's tables and buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceUsage {
    /// Exchanges that are not over.
    pub exchanges: usize,
    /// Exchanges whose requests wait for capacity.
    pub waiting_requests: usize,
    /// Bytes that wait to be written.
    pub queued_bytes: usize,
    /// Streams that are open, or that a client can resume.
    pub streams: usize,
    /// Messages that wait for a stream.
    pub waiting: usize,
    /// Messages that are kept for replay.
    pub replay: usize,
    /// Bytes of the messages that are kept for replay.
    pub replay_bytes: usize,
    /// Events that wait to be polled.
    pub events: usize,
}
