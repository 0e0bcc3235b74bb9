//! How much a connection may hold.

use core::time::Duration;

/// Bounds of one connection. Memory stays under what they add up to:
///
/// [`outbox_bytes`](Self::outbox_bytes) + [`control_bytes`](Self::control_bytes) + one frame for what waits to be
/// written; [`calls`](Self::calls) and [`requests`](Self::requests) times a few hundred bytes for the tables;
/// [`request_bytes`](Self::request_bytes) for what the application keeps of requests it works on; and
/// [`frame_bytes`](Self::frame_bytes) with one chunk in the line decoder. Buffers grow by doubling, so an allocator may
/// have to provide twice as much.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one message, either way. Default 16 MiB: images and files travel inside messages.
    pub frame_bytes: usize,
    /// Brackets open at once, at most 128. Default 128, which is what typed decoding goes down to as well.
    pub json_depth: u32,
    /// Requests of ours in flight. Default 16,384.
    pub calls: usize,
    /// Requests of the peer in flight, those included that it cancelled and that are still worked on.
    /// Default 16,384: enough for a client that fires all it has, small against the memory of its params.
    pub requests: usize,
    /// Bytes of the peer's requests in flight, as they came in. Default 64 MiB: four of the largest messages.
    pub request_bytes: usize,
    /// Bytes that wait to be written, beyond which new messages of ours are refused. The entry of a message in the queue
    /// counts, too, so that many small ones take no more room than a few large ones. Default 64 MiB.
    pub outbox_bytes: usize,
    /// What the core's own answers (to pings, to bad requests) may add to that. A peer that makes it necessary and
    /// does not read is disconnected. Default 1 MiB.
    pub control_bytes: usize,
    /// Members of a batch (2025-03-26). Default 1,024.
    pub batch_members: usize,
    /// Answers to lines that are not JSON, for the life of the connection; further ones are only counted.
    /// Default 16: enough to debug with, too few to be used as an amplifier.
    pub parse_errors: u32,
    /// Lines in a row that hold no message before a client gives up on what cannot be a server. Default 4,096.
    pub noise_lines: u32,
    /// Tasks of the peer whose progress is still followed after the request that started them was answered.
    /// The oldest is forgotten first. Default 1,024.
    pub tasks: usize,
    /// How often one call may be answered with questions (2026-07-28). Default 16.
    pub rounds: u32,
    /// Questions in one answer (2026-07-28). Default 64.
    pub questions: usize,
    /// Subscriptions that a client may hold open (2026-07-28). Default 64.
    pub subscriptions: usize,
    /// How long answers may take after the peer's input has ended or `close` was called. Default 5 seconds.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 16 << 20,
            json_depth: 128,
            calls: 16_384,
            requests: 16_384,
            request_bytes: 64 << 20,
            outbox_bytes: 64 << 20,
            control_bytes: 1 << 20,
            batch_members: 1024,
            parse_errors: 16,
            noise_lines: 4096,
            tasks: 1024,
            subscriptions: 64,
            rounds: 16,
            questions: 64,
            drain: Duration::from_secs(5),
        }
    }
}

/// How long a request may take.
///
/// Both times count from the call of `request`, so time in the outbox counts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOptions {
    /// How long the peer may be silent about this request; its progress starts the time anew.
    /// `None` means forever, and has to be said. Default 60 seconds.
    pub idle_timeout: Option<Duration>,
    /// How long it may take in all, whatever progress it makes. `None` means forever, and has to be said.
    /// Default 30 minutes.
    pub total_timeout: Option<Duration>,
    /// Whether to ask for progress. Without it nothing moves the idle deadline. Default true.
    pub progress: bool,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            idle_timeout: Some(Duration::from_secs(60)),
            total_timeout: Some(Duration::from_secs(30 * 60)),
            progress: true,
        }
    }
}

impl RequestOptions {
    /// Both times `timeout`: progress does not prolong it.
    #[must_use]
    pub const fn within(timeout: Duration) -> Self {
        Self { idle_timeout: Some(timeout), total_timeout: Some(timeout), progress: false }
    }

    /// No deadline at all. The request ends when it is answered or cancelled, or with the connection.
    #[must_use]
    pub const fn forever() -> Self {
        Self { idle_timeout: None, total_timeout: None, progress: true }
    }
}

/// Pings that find out whether a quiet peer is still there (specification, utilities, ping).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// How long the peer may be quiet before it is pinged, and how long it may take to say anything after that.
    pub interval: Duration,
    /// Unanswered pings in a row that end the connection.
    pub missed: u32,
}
