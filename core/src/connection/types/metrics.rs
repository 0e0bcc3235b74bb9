//! What a connection counts, and what it holds.

/// What has been counted since the beginning of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames that came in.
    pub frames_received: u64,
    /// Messages that were polled.
    pub frames_sent: u64,
    /// What the peer did wrong.
    pub violations: u64,
    /// Lines that were no JSON (servers).
    pub parse_errors: u64,
    /// Responses and progress for calls that had ended.
    pub late: u64,
    /// Responses whose id had become a string on the way.
    pub lenient_ids: u64,
    /// Calls that ran out of time.
    pub timed_out: u64,
    /// Requests of the peer that it cancelled.
    pub cancelled: u64,
    /// Calls that were answered from the cache (clients, 2026-07-28).
    pub cache_hits: u64,
    /// Calls that could have been, and were not: there was no result, or none that was still good.
    pub cache_misses: u64,
}

/// What a connection holds right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Requests of ours in flight.
    pub calls: usize,
    /// Entries in the queue of deadlines, stale ones included.
    pub deadlines: usize,
    /// Requests of the peer that hold a slot, cancelled ones included.
    pub requests: usize,
    /// Requests of the peer whose id is taken.
    pub request_ids: usize,
    /// The size of the peer's requests in flight.
    pub request_bytes: usize,
    /// Messages that wait to be written.
    pub outbox_frames: usize,
    /// Their bytes, and those that it takes to keep track of them.
    pub outbox_bytes: usize,
    /// Batches whose answers are not complete.
    pub batches: usize,
    /// Events that wait to be taken.
    pub events: usize,
    /// Tasks whose progress is followed.
    pub tasks: usize,
    /// Lists that have changed and are not announced yet.
    pub changes: usize,
    /// Subscriptions that the peer has opened (2026-07-28).
    pub subscriptions: usize,
    /// Requests of ours that are kept because they may have to be sent again (2026-07-28).
    pub kept: usize,
    /// What they take, in bytes.
    pub call_bytes: usize,
}
