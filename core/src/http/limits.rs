//! The limits of an HTTP server.

use alloc::boxed::Box;
use core::time::Duration;

use super::{MemoryReplayBuffer, ReplayBuffer};

/// Limits of a server: those of one [`Endpoint`](super::server::Endpoint), and those of each of its sessions.
///
/// The size of a body is limited by [`frame_bytes`](crate::connection::Limits::frame_bytes), as that of any message. A
/// session holds at most the memory of its connection, the bodies of requests that wait
/// ([`admission`](Self::admission)), [`waiting_bytes`](Self::waiting_bytes), and [`replay_bytes`](Self::replay_bytes)
/// and one message. Bytes that wait to be written on its exchanges count as part of the connection's
/// [`outbox_bytes`](crate::connection::Limits::outbox_bytes). Over the transport of 2024-11-05, and for a request of
/// 2026-07-28, [`queued_bytes`](Self::queued_bytes) and one message are added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a request's target and headers. Default 64 KiB: arguments of tools can be repeated there.
    pub head_bytes: usize,
    /// Bytes of bodies that are being read, of all requests together. Default 256 MiB. Beyond it, more bytes of a body
    /// are refused with 503: without it, every connection could hold one large body that never ends.
    ///
    /// One [`Caller`](super::server::Caller) may hold at most seven times the free amount, so at most seven eighths,
    /// and other callers can use a part of the rest. One sixteenth is reserved for bodies of at most 64 KiB of any
    /// caller.
    pub body_bytes: usize,
    /// Sessions at once. Default 16,384. Beyond it, a session that is not in use is closed to make room for a new one:
    /// first those that their clients have not used since the handshake, then the one that is idle longest. If all are
    /// in use, new ones are refused with 503. A client whose session was closed gets a 404, and begins a new one.
    ///
    /// One [`Caller`](super::server::Caller) may have at most seven times the free amount, so at most seven eighths:
    /// beyond it, one of its sessions is closed. At the limit, the sessions of the caller with most of them are closed
    /// before equal ones of others, if it has more than one eighth.
    pub sessions: usize,
    /// Sessions of one principal at once. Default 1,024. Beyond it, one of its sessions is closed. Sessions of callers
    /// without a principal are not counted.
    pub sessions_each: usize,
    /// Requests of 2026-07-28 at once, subscriptions included: each is a separate connection as long as it lasts.
    /// Default 16,384. Beyond it, new ones are refused with 503.
    pub requests: usize,
    /// Bytes of requests that wait or are in flight, of all sessions and requests of 2026-07-28 together. Default 256
    /// MiB. Beyond it, new requests are refused with 503. Responses and notifications are not.
    ///
    /// One [`Caller`](super::server::Caller) may hold at most seven times the free amount, as with
    /// [`body_bytes`](Self::body_bytes), and a request counts for the caller that began its session. If callers cannot
    /// be distinguished, this holds for each session. One sixteenth is reserved for requests that take at most 64 KiB.
    /// A request counts with its length, 1 KiB for table entries, twice the size of its
    /// [`Principal`](crate::connection::Principal), and its [head](super::server::RequestHead) if that is exposed. In
    /// 2026-07-28, the decoded parts of its `_meta` that are kept are added, the filter of a subscription, and for
    /// `tools/call` the headers that repeat parts of it.
    pub request_bytes: usize,
    /// Exchanges of one session at once. Default 1,024. Beyond it, requests wait, and streams are refused with 503.
    /// Responses and notifications never wait, since requests in flight may wait for them: they may take the session up
    /// to twice this limit. A batch (2025-03-26), which may contain some of them, does not wait either: requests of it
    /// for which the connection has no room are refused one by one. Over the transport of 2024-11-05 a batch with
    /// requests waits for room in the outbox.
    pub exchanges: usize,
    /// How long a request waits for room in its session: among [`exchanges`](Self::exchanges), and among the
    /// [`requests`](crate::connection::Limits::requests) and
    /// [`request_bytes`](crate::connection::Limits::request_bytes) of its connection. Over the transport of 2024-11-05
    /// it also waits for room in the [`outbox_bytes`](crate::connection::Limits::outbox_bytes), since its response does
    /// not use its exchange. Default 30 seconds. After that it is refused with 503. At most 16 requests for each
    /// exchange wait, with at most half of [`request_bytes`](Self::request_bytes); more are refused with 503 at once.
    pub admission: Duration,
    /// Streams that one session holds open with GET. Default 8: a client needs one, and the rest is for streams whose
    /// loss was not detected yet. Beyond it, new ones, and lost ones that are resumed, are refused with 409.
    pub streams: usize,
    /// Bytes of one session that wait to be written, beyond which new messages are refused as busy. Default 4 MiB.
    ///
    /// If a session has several exchanges, each of them counts with at most a quarter of this: one client connection
    /// that is not read does not hold up the others. All bytes together are limited by
    /// [`outbox_bytes`](crate::connection::Limits::outbox_bytes).
    pub queued_bytes: usize,
    /// How long a session waits for clients that do not read, once it refuses messages as busy. After that, each
    /// exchange from which nothing was read for that time is ended, and its waiting bytes are dropped. Its stream
    /// continues as after a disconnection: the messages in the replay buffer are sent to a client that resumes it.
    /// Default 10 seconds.
    ///
    /// A session over HTTP+SSE and a request of 2026-07-28 have one stream, which cannot be resumed. For them the time
    /// begins when a message waits because the stream has [`queued_bytes`](Self::queued_bytes). After it, the session
    /// ends, or the request is cancelled, as if the client had disconnected.
    pub stalled: Duration,
    /// Messages of a session that wait for a stream to be opened. Default 256. Beyond it, the oldest is dropped.
    pub waiting: usize,
    /// Bytes of the messages that wait for a stream. Default 1 MiB.
    pub waiting_bytes: usize,
    /// Messages of a session that are kept for replay. Default 1,024. Beyond it, the oldest is dropped.
    pub replay: usize,
    /// Bytes of the messages that are kept for replay; one message is always kept, however large. Default 1 MiB.
    pub replay_bytes: usize,
    /// How long messages are kept for replay. Default 5 minutes.
    pub replay_time: Duration,
    /// How long a session may be without a running request and without an open stream. Default 30 minutes.
    pub idle: Duration,
    /// How long a session lasts if its client has sent nothing since it was opened. Default 1 minute.
    pub abandoned: Duration,
    /// How long a stream may be quiet before the session sends a comment to keep it alive. Default 15 seconds: some
    /// proxies close a stream after 30.
    pub keepalive: Duration,
    /// How long a response may take before a stream is opened for it, so that proxies see some bytes. Default 10
    /// seconds.
    pub stream_after: Duration,
    /// The reconnection delay for a stream that was closed early, if the application does not set one. Default 1
    /// second.
    pub retry: Duration,
}

impl Limits {
    /// Creates the default replay buffer of a session.
    pub(super) fn replay(&self) -> Box<dyn ReplayBuffer> {
        Box::new(MemoryReplayBuffer::new(self.replay, self.replay_bytes, self.replay_time))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 64 << 10,
            body_bytes: 256 << 20,
            sessions: 16_384,
            sessions_each: 1024,
            requests: 16_384,
            request_bytes: 256 << 20,
            exchanges: 1024,
            admission: Duration::from_secs(30),
            streams: 8,
            queued_bytes: 4 << 20,
            stalled: Duration::from_secs(10),
            waiting: 256,
            waiting_bytes: 1 << 20,
            replay: 1024,
            replay_bytes: 1 << 20,
            replay_time: Duration::from_secs(5 * 60),
            idle: Duration::from_secs(30 * 60),
            abandoned: Duration::from_secs(60),
            keepalive: Duration::from_secs(15),
            stream_after: Duration::from_secs(10),
            retry: Duration::from_secs(1),
        }
    }
}
