//! Messages that were sent on the streams of a session, kept for clients that resume a lost stream.

use alloc::{boxed::Box, collections::VecDeque, string::String};
use core::{fmt, time::Duration};

use crate::{collections::SeqMap, rpc::Timestamp};

/// A buffer of the messages that a session has sent.
///
/// The default of a session is [`MemoryReplayBuffer`]. A store that is shared by several processes has an
/// implementation that writes behind: these methods store in memory and do not block, and the driver writes to the
/// store afterwards. Messages that another process has stored are requested with
/// [`poll_replay_request`](super::server::Session::poll_replay_request).
pub trait ReplayBuffer: fmt::Debug + Send {
    /// Stores the message with this number, which is about to be sent on a stream. Numbers of a stream grow.
    fn keep(&mut self, now: Timestamp, stream: u64, seq: u64, message: &[u8]);

    /// Stores a message as [`keep`](Self::keep) does, of a stream that a client may resume only with these scopes. A
    /// session checks them when a stream is resumed that it has sent itself. A buffer whose messages other processes
    /// read stores them with the message. The default does not store them.
    fn keep_scoped(&mut self, now: Timestamp, stream: u64, seq: u64, message: &[u8], scopes: &[String]) {
        let _ = scopes;
        self.keep(now, stream, seq, message);
    }

    /// Records that no message follows on a stream.
    fn done(&mut self, stream: u64) {
        let _ = stream;
    }

    /// Removes a stream that is not [done](Self::done): no exchange carries it, and none of its messages are kept here.
    fn forget(&mut self, stream: u64) {
        let _ = stream;
    }

    /// Calls `each` with every message of a stream after `seq`, in order.
    fn after(&self, stream: u64, seq: u64, each: &mut dyn FnMut(u64, &[u8]));

    /// Returns whether messages of a stream are kept.
    fn has(&self, stream: u64) -> bool;

    /// Records that the client has received every message of a stream up to `seq`.
    fn received(&mut self, stream: u64, seq: u64);

    /// Returns when [`expire`](Self::expire) must be called next.
    fn expiry(&self) -> Option<Timestamp>;

    /// Drops messages that have expired.
    fn expire(&mut self, now: Timestamp);

    /// Returns the number of messages, and their bytes.
    fn usage(&self) -> (usize, usize);
}

/// A buffer that keeps the latest messages in memory.
#[derive(Debug)]
pub struct MemoryReplayBuffer {
    max_messages: usize,
    max_bytes: usize,
    time: Duration,
    messages: VecDeque<BufferedMessage>,
    bytes: usize,
    /// The number of messages of each stream.
    streams: SeqMap<usize>,
}

struct BufferedMessage {
    until: Timestamp,
    stream: u64,
    seq: u64,
    message: Box<[u8]>,
}

impl fmt::Debug for BufferedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{} ({} bytes)", self.stream, self.seq, self.message.len())
    }
}

impl MemoryReplayBuffer {
    /// Creates a buffer for at most `max_messages` messages and `max_bytes` bytes, each for at most `time`. It keeps
    /// one message of any size.
    #[must_use]
    pub const fn new(max_messages: usize, max_bytes: usize, time: Duration) -> Self {
        Self { max_messages, max_bytes, time, messages: VecDeque::new(), bytes: 0, streams: SeqMap::new() }
    }

    fn remove_first(&mut self) {
        if let Some(kept) = self.messages.pop_front() {
            self.bytes -= kept.message.len();
            self.forgotten(kept.stream, 1);
        }
    }

    /// Subtracts dropped messages from those of a stream.
    fn forgotten(&mut self, stream: u64, messages: usize) {
        if let Some(left) = self.streams.get_mut(stream) {
            *left -= messages;
            if *left == 0 {
                self.streams.remove(stream);
            }
        }
        if self.messages.is_empty() {
            self.messages.shrink_to(0);
            self.streams = SeqMap::new();
        }
    }
}

impl ReplayBuffer for MemoryReplayBuffer {
    fn keep(&mut self, now: Timestamp, stream: u64, seq: u64, message: &[u8]) {
        self.bytes += message.len();
        *self.streams.entry(stream, || 0) += 1;
        self.messages.push_back(BufferedMessage { until: now + self.time, stream, seq, message: message.into() });
        while self.messages.len() > 1 && (self.messages.len() > self.max_messages || self.bytes > self.max_bytes) {
            self.remove_first();
        }
    }

    fn after(&self, stream: u64, seq: u64, each: &mut dyn FnMut(u64, &[u8])) {
        for kept in self.messages.iter().filter(|kept| kept.stream == stream && kept.seq > seq) {
            each(kept.seq, &kept.message);
        }
    }

    fn has(&self, stream: u64) -> bool {
        self.streams.contains(stream)
    }

    fn received(&mut self, stream: u64, seq: u64) {
        let (bytes, before) = (&mut self.bytes, self.messages.len());
        self.messages.retain(|kept| {
            let goes = kept.stream == stream && kept.seq <= seq;
            *bytes -= if goes { kept.message.len() } else { 0 };
            !goes
        });
        self.forgotten(stream, before - self.messages.len());
    }

    fn expiry(&self) -> Option<Timestamp> {
        self.messages.front().map(|kept| kept.until)
    }

    fn expire(&mut self, now: Timestamp) {
        while self.expiry().is_some_and(|until| until <= now) {
            self.remove_first();
        }
    }

    fn usage(&self) -> (usize, usize) {
        (self.messages.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec::Vec};

    const SECOND: Duration = Duration::from_secs(1);

    fn after(store: &MemoryReplayBuffer, stream: u64, seq: u64) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        store.after(stream, seq, &mut |seq, message| found.push((seq, String::from_utf8_lossy(message).to_string())));
        found
    }

    #[test]
    fn replays_a_stream_after_the_last_event() {
        let mut store = MemoryReplayBuffer::new(9, 99, SECOND);
        for (stream, seq, message) in [(1, 1, "a"), (2, 1, "x"), (1, 2, "b"), (1, 3, "c"), (2, 2, "y")] {
            store.keep(Timestamp::ZERO, stream, seq, message.as_bytes());
        }
        assert_eq!(after(&store, 1, 1), [(2, "b".to_string()), (3, "c".to_string())]);
        assert_eq!(after(&store, 1, 3), []);
        assert_eq!(after(&store, 1, u64::MAX), []);
        assert_eq!(after(&store, 3, 0), []);
        store.received(1, 2);
        assert_eq!(after(&store, 1, 0), [(3, "c".to_string())]);
        assert_eq!((store.usage(), store.has(1), store.has(3)), ((3, 3), true, false));
        store.received(1, 3);
        assert_eq!((store.usage(), store.has(1), store.has(2)), ((2, 2), false, true));
    }

    #[test]
    fn evicts_the_oldest_and_keeps_the_latest() {
        let mut store = MemoryReplayBuffer::new(3, 10, SECOND);
        for seq in 1..=5 {
            store.keep(Timestamp::ZERO, 1, seq, b"xx");
        }
        assert_eq!((after(&store, 1, 0).len(), store.usage()), (3, (3, 6)));
        store.keep(Timestamp::ZERO, 1, 6, b"xxxxxxx");
        assert_eq!(store.usage(), (2, 9));
        store.keep(Timestamp::ZERO, 1, 7, &[b'x'; 100]);
        assert_eq!((after(&store, 1, 0)[0].0, store.usage()), (7, (1, 100)));
        store.keep(Timestamp::ZERO, 1, 8, b"x");
        assert_eq!(store.usage(), (1, 1));
    }

    #[test]
    fn messages_expire_after_their_time() {
        let mut store = MemoryReplayBuffer::new(9, 99, SECOND);
        store.keep(Timestamp::ZERO, 1, 1, b"x");
        store.keep(Timestamp::ZERO + SECOND, 1, 2, b"y");
        assert_eq!(store.expiry(), Some(Timestamp::ZERO + SECOND));
        store.expire(Timestamp::ZERO + Duration::from_nanos(999_999_999));
        assert_eq!(store.usage(), (2, 2));
        store.expire(Timestamp::ZERO + SECOND);
        assert_eq!(after(&store, 1, 0), [(2, "y".to_string())]);
        store.expire(Timestamp::ZERO + 2 * SECOND);
        assert_eq!((store.usage(), store.expiry()), ((0, 0), None));
    }

    #[test]
    fn debug_output_has_no_messages() {
        let mut store = MemoryReplayBuffer::new(9, 99, SECOND);
        store.keep(Timestamp::ZERO, 1, 2, b"canary");
        let shown = alloc::format!("{store:?}");
        assert!(shown.contains("[1-2 (6 bytes)]") && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn buffer_limits_are_exact() {
        let kept = |messages: usize, bytes: usize, lens: &[usize]| {
            let mut store = MemoryReplayBuffer::new(messages, bytes, SECOND);
            for (seq, len) in (1..).zip(lens) {
                store.keep_scoped(Timestamp::ZERO, 1, seq, &alloc::vec![b'x'; *len], &[]);
            }
            store.usage()
        };
        assert_eq!([kept(2, 10, &[5, 5]), kept(2, 10, &[5, 6]), kept(2, 10, &[1, 1, 1])], [(2, 10), (1, 6), (2, 2)]);
        assert_eq!([kept(0, 0, &[5]), kept(0, 0, &[5, 6])], [(1, 5), (1, 6)]);
    }
}
