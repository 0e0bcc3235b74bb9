//! Limits, timeouts and retry intervals of a connection.

use alloc::sync::Arc;
use core::time::Duration;

use crate::{
    rpc::ReplyKey,
    schema::{ClientCapabilities, LoggingLevel, TraceContext},
};

/// Limits of one connection. Its memory stays under the sum of them, which [`memory`](Self::memory) returns, for all
/// input of the peer. What the application adds to requests of the peer counts too, such as principals. Bindings have
/// limits of their own for what they keep besides, such as the bodies of HTTP requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one message, either way. Default 16 MiB: images and files travel inside messages.
    pub frame_bytes: usize,
    /// The depth of nested objects and arrays in a message, at most 128. Default 128, as for typed decoding.
    pub json_depth: u32,
    /// Requests of this side in flight. Default 16,384.
    pub calls: usize,
    /// Bytes of this side's requests in flight that are retained because they may have to be sent again, and of
    /// responses to their input requests (2026-07-28). Beyond it new requests are refused. Default 64 MiB, as for
    /// requests of the peer.
    pub call_bytes: usize,
    /// Requests of the peer in flight, including cancelled requests without a response of the application. Default
    /// 16,384: enough for a client that sends all its requests at once, small against the memory of their params.
    pub requests: usize,
    /// Bytes of the peer's requests in flight: as they arrived, and the decoded parts that are kept (2026-07-28: client
    /// information, capabilities, subscriptions), and their [arrivals](crate::connection::Arrival): twice the
    /// principal, the extension, and for `tools/call` the headers. Default 64 MiB: four of the largest messages.
    pub request_bytes: usize,
    /// Bytes that wait to be written, beyond which new messages of this side are refused. The entry of a message in the
    /// queue counts too, so that many small messages take no more memory than a few large ones. A message that is
    /// written once for each subscription counts that often. Responses of incomplete batches (2025-03-26) have a
    /// separate limit of the same size. Default 64 MiB.
    pub outbox_bytes: usize,
    /// Bytes that the core's own responses (to pings, to bad requests) may add to [`outbox_bytes`](Self::outbox_bytes).
    /// A peer that exceeds it and does not read is disconnected. Default 1 MiB.
    pub control_bytes: usize,
    /// Members of a batch (2025-03-26). Default 1,024.
    pub batch_members: usize,
    /// Responses to lines that are not JSON, for the life of the connection; further ones are only counted. Default 16:
    /// enough to debug with, too few to be used as an amplifier.
    pub parse_errors: u32,
    /// Consecutive lines without a message before a client closes the connection. Default 4,096.
    pub noise_lines: u32,
    /// Tasks of the peer whose progress is still reported after the response to the request that started them. Beyond
    /// it the oldest is removed. Default 1,024.
    pub tasks: usize,
    /// `input_required` results of one call (2026-07-28). Default 16.
    pub rounds: u32,
    /// Input requests in one result (2026-07-28). Default 64.
    pub input_requests: usize,
    /// Input requests of one task in total, for calls that have become tasks (2026-07-28). Default 1,024.
    pub task_input_requests: usize,
    /// Subscriptions that a client may hold open (2026-07-28). Default 64.
    pub subscriptions: usize,
    /// Consecutive resubscriptions after the server ends a subscription (2026-07-28, see
    /// [`RequestOptions::resubscribe`]). Default 8: with the delays between them, enough for a server that restarts
    /// within half a minute.
    pub resubscriptions: u32,
    /// Results that a client stores in its cache (2026-07-28). 0 disables the cache. Default 1,024: every page of the
    /// lists of a few large servers.
    pub cache_entries: usize,
    /// Bytes of the results in the cache. Default 16 MiB: as much as the largest message.
    pub cache_bytes: usize,
    /// How long [reading may be paused](crate::connection::Connection::wants_input) without progress: no byte of output
    /// is polled or written, and no response is queued. After that reading resumes, and messages beyond these limits
    /// are refused. Progress is checked only at the deadline, so a pause ends at most twice this time after the last
    /// progress. Zero never pauses. Default 30 seconds: longer than a busy peer takes, shorter than the idle timeout of
    /// a request.
    pub input_pause: Duration,
    /// How long requests of the peer may still get responses after its input has ended or `close` was called. Default 5
    /// seconds.
    pub drain: Duration,
}

impl Limits {
    /// Creates the default limits. It can be called in a constant, so that the memory of a program that has no other is
    /// known when it is compiled:
    ///
    /// ```
    /// use mcp_proto::connection::Limits;
    ///
    /// const LIMITS: Limits = {
    ///     let mut limits = Limits::new();
    ///     (limits.frame_bytes, limits.outbox_bytes, limits.control_bytes) = (2048, 2048, 512);
    ///     (limits.requests, limits.request_bytes, limits.batch_members, limits.subscriptions) = (4, 4096, 4, 1);
    ///     // This side sends no requests.
    ///     (limits.calls, limits.call_bytes, limits.tasks, limits.input_requests) = (0, 0, 0, 0);
    ///     (limits.cache_entries, limits.cache_bytes) = (0, 0);
    ///     limits
    /// };
    /// const HEAP: usize = LIMITS.memory();
    /// assert_eq!(HEAP, 105 << 10);
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self {
            frame_bytes: 16 << 20,
            json_depth: 128,
            calls: 16_384,
            call_bytes: 64 << 20,
            requests: 16_384,
            request_bytes: 64 << 20,
            outbox_bytes: 64 << 20,
            control_bytes: 1 << 20,
            batch_members: 1024,
            parse_errors: 16,
            noise_lines: 4096,
            tasks: 1024,
            subscriptions: 64,
            resubscriptions: 8,
            cache_entries: 1024,
            cache_bytes: 16 << 20,
            rounds: 16,
            input_requests: 64,
            task_input_requests: 1024,
            input_pause: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }

    /// Returns the bytes that the next request of the peer may take. Room for it is kept free while reading is not
    /// paused.
    pub(crate) fn next_request(&self) -> usize {
        self.frame_bytes.min(self.request_bytes / 2)
    }

    /// Returns the limit for decoded data of a peer about itself or its subscriptions, in bytes. Decoded data takes
    /// more memory than its text, so it is more than a small limit for messages.
    pub(crate) const fn described_bytes(&self) -> usize {
        const LEAST: usize = 4 << 10;
        const SMALL: usize = 16 << 10;
        let small = larger(smaller(self.frame_bytes.saturating_mul(2), SMALL), LEAST);
        larger(self.frame_bytes, small)
    }

    /// Returns an upper bound of the memory that a connection and its [`LineDecoder`](crate::codec::LineDecoder)
    /// allocate, in bytes. Add to it twice the largest chunk that is fed into the decoder. Only a malicious peer causes
    /// nearly as much; an idle connection has a few kilobytes. It does not include events that the application keeps,
    /// the configuration, and the buffer for output.
    ///
    /// It adds up
    /// - output that waits, four times: [`outbox_bytes`](Self::outbox_bytes), [`control_bytes`](Self::control_bytes)
    ///   and one message. Its buffers grow by doubling, and free sent bytes when these are more than those that wait;
    /// - as much again, at most 64 KiB, for a second queue of output that is empty and keeps its buffer;
    /// - [`outbox_bytes`](Self::outbox_bytes) once more, for responses that wait for the rest of their batch
    ///   (2025-03-26);
    /// - [`request_bytes`](Self::request_bytes), [`cache_bytes`](Self::cache_bytes), and
    ///   [`call_bytes`](Self::call_bytes) twice;
    /// - seven messages: in the line decoder, in events, in requests of this side beyond `call_bytes`, and on the way
    ///   from one to the other;
    /// - three descriptions that the peer gives of itself. One has the bytes of a message; with messages of less than
    ///   16 KiB those of two, but at least 4 KiB and at most 16 KiB;
    /// - 2 KiB for each of [`requests`](Self::requests), and 1 KiB for each of [`calls`](Self::calls),
    ///   [`batch_members`](Self::batch_members), [`tasks`](Self::tasks), [`input_requests`](Self::input_requests),
    ///   [`subscriptions`](Self::subscriptions) and [`cache_entries`](Self::cache_entries);
    /// - and 8 KiB and four descriptions, at most 208 KiB, for small buffers that are kept for the next request, and
    ///   for parts that messages of 2026-07-28 repeat.
    #[must_use]
    pub const fn memory(&self) -> usize {
        const ENTRY: usize = 1 << 10;
        let waiting = sum(&[self.outbox_bytes, self.control_bytes, self.frame_bytes]).saturating_mul(4);
        let kept_queue = smaller(waiting, 64 << 10);
        let held = sum(&[self.outbox_bytes, self.request_bytes, self.cache_bytes, self.call_bytes.saturating_mul(2)]);
        let messages = self.frame_bytes.saturating_mul(7);
        let described = self.described_bytes();
        let kept_parts = smaller(described.saturating_mul(4).saturating_add(8 << 10), 208 << 10);
        let entries = sum(&[
            self.requests.saturating_mul(2),
            self.calls,
            self.batch_members,
            self.tasks,
            self.input_requests,
            self.subscriptions,
            self.cache_entries,
        ]);
        sum(&[
            waiting,
            kept_queue,
            held,
            messages,
            described.saturating_mul(3),
            entries.saturating_mul(ENTRY),
            kept_parts,
        ])
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the sum, or the largest number if it is larger.
const fn sum(parts: &[usize]) -> usize {
    let (mut sum, mut at) = (0_usize, 0);
    while at < parts.len() {
        sum = sum.saturating_add(parts[at]);
        at += 1;
    }
    sum
}

// `Ord` has no constant functions.
const fn smaller(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

const fn larger(a: usize, b: usize) -> usize {
    if a < b { b } else { a }
}

/// Options of a request: its timeouts, and data besides its params.
///
/// Both timeouts count from the call of `request`, so time in the outbox counts too. Over HTTP, time in which the
/// request waits for credentials does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOptions {
    /// How long the request may take without a progress notification, which restarts the time. `None` means forever.
    /// Default 60 seconds.
    pub idle_timeout: Option<Duration>,
    /// How long the request may take in total, regardless of progress. `None` means forever. Default 30 minutes.
    pub total_timeout: Option<Duration>,
    /// Whether to request progress. Without it nothing extends the idle deadline. Default true.
    pub progress: bool,
    /// The least severe log messages to be sent about this request (2026-07-28; in a session, see `logging/setLevel`).
    /// Default: none at all.
    pub log_level: Option<LoggingLevel>,
    /// The distributed trace of the request. Default: none.
    pub trace: Option<Arc<TraceContext>>,
    /// Whether to send the request even if the cache has a valid result (2026-07-28). Default false.
    pub bypass_cache: bool,
    /// Whether `subscriptions/listen` (2026-07-28) is sent again, after a pause, when the server ends the subscription.
    /// The server acknowledges it again then. After [`Limits::resubscriptions`] in a row the call ends. Default false.
    pub resubscribe: bool,
    /// The request of the peer on whose behalf this one is made. Over bindings with several streams, this request is
    /// sent on the stream of that request. Default: none.
    pub related_request: Option<ReplyKey>,
    /// Whether a task that the request becomes is polled until it ends (2026-07-28): the request ends with the result
    /// of the task, its timeouts cover both together, and cancelling it cancels the task. Otherwise it ends with the
    /// task itself, a [`CreateTaskResult`](crate::schema::tasks_extension::CreateTaskResult). Default true.
    pub follow_task: bool,
    /// The capabilities that the request declares in place of those of the client (2026-07-28), for a client that sends
    /// requests for others. What the client itself has declared still bounds what its peer may request. Default: none.
    pub client_capabilities: Option<Arc<ClientCapabilities>>,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            idle_timeout: Some(Duration::from_secs(60)),
            total_timeout: Some(Duration::from_secs(30 * 60)),
            ..Self::no_timeout()
        }
    }
}

impl RequestOptions {
    /// Creates options in which both timeouts are `timeout`. They do not request progress.
    #[must_use]
    pub const fn within(timeout: Duration) -> Self {
        Self {
            idle_timeout: Some(timeout),
            total_timeout: Some(timeout),
            progress: false,
            log_level: None,
            trace: None,
            bypass_cache: false,
            resubscribe: false,
            related_request: None,
            follow_task: true,
            client_capabilities: None,
        }
    }

    /// Creates options without a timeout. The request ends with its response, its cancellation or the connection.
    #[must_use]
    pub const fn no_timeout() -> Self {
        Self {
            idle_timeout: None,
            total_timeout: None,
            progress: true,
            log_level: None,
            trace: None,
            bypass_cache: false,
            resubscribe: false,
            related_request: None,
            follow_task: true,
            client_capabilities: None,
        }
    }
}

/// Exponential backoff for requests that the peer has deferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay. Each further delay is twice as long. Default 250 milliseconds.
    pub initial: Duration,
    /// The longest delay. Default 8 seconds.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Duration::from_millis(250), max: Duration::from_secs(8) }
    }
}

impl Backoff {
    /// Returns the `n`th delay; zero for `n` = 0.
    #[must_use]
    pub fn delay(self, n: u32) -> Duration {
        let Some(doubled) = n.checked_sub(1) else { return Duration::ZERO };
        1u32.checked_shl(doubled).map_or(self.max, |factor| self.initial.saturating_mul(factor)).min(self.max)
    }
}

/// The polling interval of requests that have become tasks (2026-07-28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polling {
    /// The interval if the server does not request one. Default 2 seconds.
    pub default: Duration,
    /// The shortest interval, regardless of the server's request. Default 50 milliseconds.
    pub min: Duration,
    /// The longest interval, regardless of the server's request. Default 1 hour.
    pub max: Duration,
}

impl Default for Polling {
    fn default() -> Self {
        Self { default: Duration::from_secs(2), min: Duration::from_millis(50), max: Duration::from_secs(3600) }
    }
}

impl Polling {
    /// Returns the interval to use if the server requests `interval`, or none.
    #[must_use]
    pub fn delay(self, interval: Option<Duration>) -> Duration {
        interval.unwrap_or(self.default).min(self.max).max(self.min)
    }
}

/// Pings that check whether a silent peer is still connected (specification, utilities, ping).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// How long the peer may be silent before it is pinged, and how long it may then take to send anything.
    pub interval: Duration,
    /// The number of unanswered pings in a row that ends the connection.
    pub max_missed: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let backoff = Backoff { initial: Duration::from_millis(250), max: Duration::from_secs(8) };
        let delays = [0, 1, 2, 3, 5, 6, 7, 32, 33, u32::MAX].map(|n| backoff.delay(n).as_millis());
        assert_eq!(delays, [0, 250, 500, 1000, 4000, 8000, 8000, 8000, 8000, 8000]);
        let polling =
            Polling { default: Duration::from_secs(2), min: Duration::from_millis(50), max: Duration::from_secs(60) };
        for (asked, millis) in [
            (None, 2000),
            (Some(0), 50),
            (Some(49), 50),
            (Some(51), 51),
            (Some(60_000), 60_000),
            (Some(60_001), 60_000),
        ] {
            assert_eq!(polling.delay(asked.map(Duration::from_millis)).as_millis(), millis, "{asked:?}");
        }
    }

    /// Each limit counts with its own factor. Buffers that are kept have their largest size here.
    #[test]
    fn memory_is_the_sum_of_all_limits() {
        const FRAME: usize = 1 << 20;
        let most = Limits { frame_bytes: FRAME, ..NONE };
        let kept = (64 << 10) + (208 << 10);
        assert_eq!(most.memory(), (4 + 7 + 3) * FRAME + kept);
        type Set = fn(&mut Limits);
        let all: [(Set, usize); 13] = [
            (|limits| limits.frame_bytes += 100, 1400),
            (|limits| limits.outbox_bytes = 100, 500),
            (|limits| limits.control_bytes = 100, 400),
            (|limits| limits.request_bytes = 100, 100),
            (|limits| limits.cache_bytes = 100, 100),
            (|limits| limits.call_bytes = 100, 200),
            (|limits| limits.requests = 100, 200 << 10),
            (|limits| limits.calls = 100, 100 << 10),
            (|limits| limits.batch_members = 100, 100 << 10),
            (|limits| limits.tasks = 100, 100 << 10),
            (|limits| limits.subscriptions = 100, 100 << 10),
            (|limits| limits.cache_entries = 100, 100 << 10),
            (|limits| limits.input_requests = 100, 100 << 10),
        ];
        for (index, (set, expected)) in all.into_iter().enumerate() {
            let mut limits = most.clone();
            set(&mut limits);
            assert_eq!(limits.memory() - most.memory(), expected, "{index}");
        }
        assert_eq!(Limits { calls: usize::MAX, ..NONE }.memory(), usize::MAX);
    }

    const NONE: Limits = Limits {
        frame_bytes: 0,
        calls: 0,
        call_bytes: 0,
        requests: 0,
        request_bytes: 0,
        outbox_bytes: 0,
        control_bytes: 0,
        batch_members: 0,
        tasks: 0,
        subscriptions: 0,
        cache_entries: 0,
        cache_bytes: 0,
        input_requests: 0,
        ..Limits::new()
    };

    #[test]
    fn small_messages_have_small_buffers() {
        const FIXED: usize = 8 << 10;
        for (frame, described, kept_queue) in [
            (0, 4 << 10, 0),
            (100, 4 << 10, 400),
            (2 << 10, 4 << 10, 8 << 10),
            (3 << 10, 6 << 10, 12 << 10),
            (8 << 10, 16 << 10, 32 << 10),
            (12 << 10, 16 << 10, 48 << 10),
            (16 << 10, 16 << 10, 64 << 10),
            (20 << 10, 20 << 10, 64 << 10),
        ] {
            let limits = Limits { frame_bytes: frame, ..NONE };
            assert_eq!(limits.described_bytes(), described, "{frame}");
            assert_eq!(limits.memory(), 11 * frame + kept_queue + 7 * described + FIXED, "{frame}");
        }
    }
}
