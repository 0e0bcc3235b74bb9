//! Counters and gauges of a connection.

/// Counters since the beginning of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Frames that were received.
    pub frames_received: u64,
    /// Messages that were polled.
    pub frames_sent: u64,
    /// Violations of the protocol by the peer.
    pub violations: u64,
    /// Lines that were not JSON (servers).
    pub parse_errors: u64,
    /// Responses and progress for calls that had ended.
    pub late_responses: u64,
    /// Responses whose id the peer had turned into a string.
    pub coerced_ids: u64,
    /// Calls that timed out.
    pub timed_out: u64,
    /// Requests of the peer that it cancelled.
    pub cancelled: u64,
    /// Calls that were completed from the cache (clients, 2026-07-28).
    pub cache_hits: u64,
    /// Calls for which the cache had no result, or no valid one (clients, 2026-07-28).
    pub cache_misses: u64,
}

/// The sizes of the tables and buffers of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceUsage {
    /// Requests of this side in flight.
    pub calls: usize,
    /// Entries in the queue of deadlines, stale ones included.
    pub deadlines: usize,
    /// Requests of the peer that hold a slot, cancelled ones included.
    pub requests: usize,
    /// Requests of the peer whose id is in use.
    pub request_ids: usize,
    /// The size of the peer's requests in flight.
    pub request_bytes: usize,
    /// Messages that wait to be written.
    pub outbox_frames: usize,
    /// The bytes of waiting messages, including the bookkeeping.
    pub outbox_bytes: usize,
    /// Batches whose response has not been polled.
    pub batches: usize,
    /// Events that wait to be polled.
    pub events: usize,
    /// Tasks (2025-11-25) whose progress is still reported.
    pub tasks: usize,
    /// Changed lists whose notification was not sent yet.
    pub changes: usize,
    /// Subscriptions that the peer has opened (2026-07-28).
    pub subscriptions: usize,
    /// Requests of this side that are retained because they may have to be sent again (2026-07-28).
    pub kept: usize,
    /// The bytes of the retained requests ([`kept`](Self::kept)).
    pub call_bytes: usize,
}
