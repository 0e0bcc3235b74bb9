//! The streams of a session, with the messages that are kept for replay and those that wait for a stream.

use alloc::{boxed::Box, collections::VecDeque, string::String, vec::Vec};

use super::{
    ExchangeId,
    exchange::{Exchange, MESSAGE},
};
use crate::{
    codec::SseText,
    collections::{LazyBox, SeqMap},
    http::{Limits, ReplayBuffer, session_id::EventId},
    rpc::{CallId, Timestamp},
};

/// A stream of a session. It is kept as long as its client can resume it, and can move to another exchange.
#[derive(Debug)]
pub(super) struct Stream {
    /// The exchange that carries the stream now.
    pub(super) exchange: Option<ExchangeId>,
    /// The previous exchange, whose output may not have been polled to its end.
    unread: Option<ExchangeId>,
    /// Whether the stream was opened with GET and belongs to no request.
    pub(super) listens: bool,
    /// The number of the latest message.
    seq: u64,
    /// Whether the stream is complete: no message follows.
    pub(super) done: bool,
    /// Requests of the server that were sent on the stream, with their message numbers.
    calls: Vec<(u64, CallId)>,
    /// The scopes that its requests have required: a client needs them to resume the stream.
    pub(super) scopes: Vec<String>,
    /// Whether the stream was resumed.
    is_resumed: bool,
}

/// Messages after some message of a stream that are not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// The number of messages that are not kept.
    pub(super) messages: u64,
    /// Whether no later message is kept either.
    pub(super) rest: bool,
}

/// A message that waits for a stream.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    /// The id of the call, if the message is a request of the server.
    pub(super) call: Option<CallId>,
    message: Vec<u8>,
}

/// The reason why a stream cannot be resumed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayError {
    /// The message never existed.
    Never,
    /// The stream is not known any more.
    Gone,
    /// The stream is not known any more, and belonged to no request: a new stream replaces it.
    Listener,
    /// Another process has sent the stream.
    Elsewhere(EventId),
}

/// The known streams of a session.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) all: SeqMap<Stream>,
    /// The streams that belong to no request and have an exchange. There are few.
    listeners: Vec<u64>,
    next: u64,
    /// The number of this process in a shared session: the upper half of the numbers of its streams.
    part: u32,
    /// Whether a request has required scopes.
    pub(super) needs_scopes: bool,
    /// Whether other processes may take part in the session.
    pub(super) shared: bool,
    waiting: LazyBox<VecDeque<QueuedMessage>>,
    waiting_bytes: usize,
    pub(super) replay: Box<dyn ReplayBuffer>,
    /// The number of streams above which those that are over are searched for.
    tidy_at: usize,
}

/// With fewer streams, or fewer calls of a stream, than this, a cleanup is not worth its cost.
const MIN_STREAMS: usize = 64;

impl Streams {
    pub(super) fn new(replay: Box<dyn ReplayBuffer>, part: u32) -> Self {
        Self {
            all: SeqMap::new(),
            listeners: Vec::new(),
            next: Self::first(part) + 1,
            part,
            needs_scopes: false,
            shared: part > 0,
            waiting: LazyBox::default(),
            waiting_bytes: 0,
            replay,
            tidy_at: MIN_STREAMS,
        }
    }

    /// Returns the number that precedes the numbers of streams and calls of a part. With up to two million parts, all
    /// numbers are exact in JSON readers that use floating point.
    pub(super) const fn first(part: u32) -> u64 {
        (part as u64) << 32
    }

    /// Creates a stream on this exchange, and returns its number.
    pub(super) fn begin(&mut self, exchange: ExchangeId, listens: bool) -> u64 {
        if listens {
            // Without this, lost streams on which nothing was sent would pile up.
            self.remove_ended_amortized();
        }
        let stream = self.next;
        self.next += 1;
        let exchange = Some(exchange);
        let (calls, scopes) = (Vec::new(), Vec::new());
        let begun = Stream { exchange, unread: None, listens, seq: 0, done: false, calls, scopes, is_resumed: false };
        self.all.insert(stream, begun);
        if listens {
            self.listeners.push(stream);
        }
        stream
    }

    /// Moves a stream to an exchange. Returns the exchange that carried it before, which may have ended.
    pub(super) fn carry(&mut self, stream: u64, exchange: ExchangeId) -> Option<ExchangeId> {
        let known = self.all.get_mut(stream)?;
        known.is_resumed = true;
        let before = known.exchange.replace(exchange);
        if known.listens && before.is_none() {
            self.listeners.push(stream);
        }
        before.or(known.unread)
    }

    /// Returns the number of open streams that belong to no request.
    pub(super) const fn listening(&self) -> usize {
        self.listeners.len()
    }

    /// Returns the open streams that belong to no request.
    pub(super) fn listeners(&self) -> &[u64] {
        &self.listeners
    }

    /// Returns the stream for messages that belong to no request: the one that was opened last, since it is most likely
    /// to be alive.
    pub(super) fn listener(&self) -> Option<u64> {
        self.listeners.iter().copied().max()
    }

    fn id(&self, stream: u64, seq: u64) -> EventId {
        let listens = self.all.get(stream).is_some_and(|stream| stream.listens);
        EventId { listens, stream, seq }
    }

    /// Writes the first event of a stream, whose id lets the client resume it. Returns the number of bytes.
    pub(super) fn prime(&self, stream: u64, exchange: &mut Exchange) -> usize {
        let id = self.id(stream, 0).text();
        exchange.event(&SseText { id: Some(&id), data: Some(b""), ..SseText::default() })
    }

    /// Keeps the next message of a stream for replay, and returns its event id. `call` is set if the message is a
    /// request of the server.
    pub(super) fn keep(&mut self, now: Timestamp, stream: u64, call: Option<CallId>, message: &[u8]) -> EventId {
        let (listens, seq, scopes) = self.all.get_mut(stream).map_or((false, 0, &[][..]), |stream| {
            stream.seq += 1;
            stream.calls.extend(call.map(|call| (stream.seq, call)));
            (stream.listens, stream.seq, &stream.scopes)
        });
        if scopes.is_empty() {
            self.replay.keep(now, stream, seq, message);
        } else {
            self.replay.keep_scoped(now, stream, seq, message, scopes);
        }
        EventId { listens, stream, seq }
    }

    /// Adds scopes that a client needs to resume a stream. Returns the exchange that carries the stream if it was
    /// resumed before.
    pub(super) fn require(&mut self, stream: u64, scopes: &[String]) -> Option<ExchangeId> {
        self.needs_scopes = true;
        let known = self.all.get_mut(stream)?;
        let added = scopes.iter().filter(|scope| !known.scopes.contains(scope)).cloned().collect::<Vec<_>>();
        known.scopes.extend(added);
        known.exchange.filter(|_| known.is_resumed)
    }

    /// Removes calls of a stream that are not in flight any more, when there are many.
    pub(super) fn remove_ended_calls(&mut self, stream: u64, is_in_flight: impl Fn(CallId) -> bool) {
        if let Some(known) = self.all.get_mut(stream)
            && known.calls.len() >= MIN_STREAMS
            && known.calls.len().is_power_of_two()
        {
            known.calls.retain(|(_, call)| is_in_flight(*call));
        }
    }

    /// Removes and returns the calls that were sent on a stream between two messages.
    pub(super) fn lost_calls(&mut self, stream: u64, (after, before): (u64, u64)) -> Vec<CallId> {
        let Some(known) = self.all.get_mut(stream) else { return Vec::new() };
        let is_lost = |seq: u64| seq > after && seq < before;
        let lost = known.calls.iter().filter(|(seq, _)| is_lost(*seq)).map(|(_, call)| *call).collect();
        known.calls.retain(|(seq, _)| !is_lost(*seq));
        lost
    }

    /// Returns the number of the latest message of a stream.
    pub(super) fn latest(&self, stream: u64) -> u64 {
        self.all.get(stream).map_or(0, |stream| stream.seq)
    }

    /// Returns the messages directly after this one that are not kept, if any.
    pub(super) fn missing(&self, EventId { stream, seq, .. }: EventId) -> Option<Missing> {
        let latest = self.latest(stream);
        let mut first = None;
        self.replay.after(stream, seq, &mut |seq, _| first = first.or(Some(seq)));
        let next = first.unwrap_or(latest + 1);
        let messages = next.saturating_sub(seq + 1);
        (messages > 0).then_some(Missing { messages, rest: first.is_none() })
    }

    /// Marks a stream as complete.
    pub(super) fn done(&mut self, stream: u64) {
        if let Some(known) = self.all.get_mut(stream).filter(|known| !known.done) {
            known.done = true;
            self.replay.done(stream);
        }
    }

    /// Returns the event that a client names in `Last-Event-ID`.
    pub(super) fn find(&self, last: &str) -> Result<EventId, ReplayError> {
        let id = EventId::parse(last).ok_or(ReplayError::Never)?;
        match self.all.get(id.stream) {
            Some(stream) if stream.listens != id.listens || id.seq > stream.seq => Err(ReplayError::Never),
            Some(_) => Ok(id),
            None if self.shared && id.stream >> 32 != u64::from(self.part) => Err(ReplayError::Elsewhere(id)),
            None if id.stream < self.next => Err(if id.listens { ReplayError::Listener } else { ReplayError::Gone }),
            None => Err(ReplayError::Never),
        }
    }

    /// Writes the kept messages after an event, until `most` bytes wait on the exchange. Returns the number of bytes,
    /// and the number of the last message that was written.
    pub(super) fn repeat(&self, from: EventId, exchange: &mut Exchange, most: usize) -> (usize, u64) {
        let (mut bytes, mut at) = (0, from.seq);
        self.replay.after(from.stream, from.seq, &mut |seq, message| {
            if exchange.waiting() < most && seq == at + 1 {
                let id = EventId { seq, ..from }.text();
                bytes += exchange.event(&SseText { id: Some(&id), data: Some(message), ..MESSAGE });
                at = seq;
            }
        });
        (bytes, at)
    }

    /// Queues a message until there is a stream for it. Returns the messages that are dropped to stay within the
    /// limits.
    pub(super) fn wait(&mut self, limits: &Limits, call: Option<CallId>, message: &[u8]) -> Vec<QueuedMessage> {
        self.waiting_bytes += message.len();
        self.waiting.push_back(QueuedMessage { call, message: message.to_vec() });
        let mut evicted = Vec::new();
        while self.waiting.len() > limits.waiting || self.waiting_bytes > limits.waiting_bytes {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.waiting_bytes -= oldest.message.len();
            evicted.push(oldest);
        }
        evicted
    }

    /// Removes and returns the message that has waited longest.
    pub(super) fn next_waiting(&mut self) -> Option<(Option<CallId>, Vec<u8>)> {
        let QueuedMessage { call, message } = self.waiting.allocated_mut()?.pop_front()?;
        self.waiting_bytes -= message.len();
        Some((call, message))
    }

    /// Detaches a stream from an exchange.
    pub(super) fn detach(&mut self, stream: u64, exchange: ExchangeId) {
        if let Some(known) = self.all.get_mut(stream).filter(|known| known.exchange == Some(exchange)) {
            known.unread = known.exchange.take();
            self.listeners.retain(|listener| *listener != stream);
        }
    }

    /// Removes a stream that is complete, unless an exchange carries it or its client can resume it.
    pub(super) fn forget_if_over(&mut self, stream: u64) {
        let over = self.all.get(stream).is_some_and(|known| known.done && known.exchange.is_none());
        if over && !self.replay.has(stream) {
            self.all.remove(stream);
        }
    }

    /// Calls [`tidy`](Self::tidy) if the number of streams has doubled since the last cleanup.
    pub(super) fn remove_ended_amortized(&mut self) {
        if self.all.len() > self.tidy_at {
            self.tidy();
            self.tidy_at = MIN_STREAMS.max(2 * self.all.len());
        }
    }

    /// Removes streams that cannot be resumed: no exchange carries them, and none of their messages are kept. Streams
    /// of requests that are not complete stay.
    pub(super) fn tidy(&mut self) {
        let replay = &mut self.replay;
        self.all.retain(|id, stream| {
            let over = stream.exchange.is_none() && (stream.done || stream.listens) && !replay.has(id);
            if over && !stream.done {
                replay.forget(id);
            }
            !over
        });
    }

    /// Frees the memory of empty tables.
    pub(super) fn shrink(&mut self) {
        if self.all.is_empty() {
            self.all = SeqMap::new();
        }
        if self.waiting.is_empty() {
            self.waiting = LazyBox::default();
        }
    }

    /// Returns the number of bytes of the messages that wait for a stream.
    pub(super) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Returns the number of messages that wait for a stream.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::MemoryReplayBuffer;
    use alloc::{string::ToString, vec};
    use core::time::Duration;

    const NOW: Timestamp = Timestamp::ZERO;

    fn streams(part: u32) -> Streams {
        Streams::new(Box::new(MemoryReplayBuffer::new(100, 1000, Duration::from_secs(1))), part)
    }

    /// Begins streams whose exchanges are over, and which are complete.
    fn begin_ended(streams: &mut Streams, count: usize) {
        for _ in 0..count {
            let id = streams.begin(ExchangeId(1), false);
            streams.done(id);
            streams.detach(id, ExchangeId(1));
        }
    }

    #[test]
    fn cleanup_begins_above_twice_the_last_number() {
        let mut streams = streams(0);
        begin_ended(&mut streams, MIN_STREAMS);
        streams.remove_ended_amortized();
        assert_eq!(streams.all.len(), MIN_STREAMS, "there are not more");
        let kept: Vec<_> = (0..50).map(|_| streams.begin(ExchangeId(2), false)).collect();
        streams.remove_ended_amortized();
        assert_eq!((streams.all.len(), streams.tidy_at), (50, 100));
        begin_ended(&mut streams, 50);
        streams.remove_ended_amortized();
        assert_eq!(streams.all.len(), 100);
        begin_ended(&mut streams, 1);
        streams.remove_ended_amortized();
        assert_eq!((streams.all.len(), streams.tidy_at), (50, 100));
        for id in kept {
            streams.done(id);
            streams.detach(id, ExchangeId(2));
        }
        begin_ended(&mut streams, 51);
        streams.remove_ended_amortized();
        assert_eq!((streams.all.len(), streams.tidy_at), (0, MIN_STREAMS));
    }

    #[test]
    fn waiting_messages_are_bounded_in_number_and_bytes() {
        let limits = Limits { waiting: 3, waiting_bytes: 10, ..Limits::default() };
        let mut streams = streams(0);
        for (len, evicted, waiting) in [
            (4, 0, (1, 4)),
            (4, 0, (2, 8)),
            (2, 0, (3, 10)),
            (1, 1, (3, 7)),
            (4, 1, (3, 7)),
            (10, 3, (1, 10)),
            (11, 2, (0, 0)),
            (0, 0, (1, 0)),
        ] {
            assert_eq!(streams.wait(&limits, None, &vec![b'x'; len]).len(), evicted, "{len}");
            assert_eq!((streams.waiting(), streams.waiting_bytes()), waiting, "{len}");
        }
        streams.wait(&limits, None, b"abc");
        assert_eq!(streams.next_waiting(), Some((None, vec![])));
        assert_eq!(streams.next_waiting(), Some((None, b"abc".to_vec())));
        assert_eq!((streams.next_waiting(), streams.waiting(), streams.waiting_bytes()), (None, 0, 0));
    }

    #[test]
    fn messages_that_are_not_kept_are_counted() {
        let mut streams = streams(0);
        let id = streams.begin(ExchangeId(1), false);
        for _ in 0..4 {
            streams.keep(NOW, id, None, b"x");
        }
        let missing = |streams: &Streams, seq| {
            streams.missing(EventId { listens: false, stream: id, seq }).map(|it| (it.messages, it.rest))
        };
        assert_eq!((streams.latest(id), missing(&streams, 0)), (4, None));
        streams.replay.received(id, 2);
        let all: Vec<_> = (0..=4).map(|seq| missing(&streams, seq)).collect();
        assert_eq!(all, [Some((2, false)), Some((1, false)), None, None, None]);
        streams.replay.received(id, 4);
        let all: Vec<_> = (2..=4).map(|seq| missing(&streams, seq)).collect();
        assert_eq!(all, [Some((2, true)), Some((1, true)), None]);
        assert_eq!(streams.latest(99), 0);
    }

    #[test]
    fn event_ids_are_found_or_refused() {
        let mut streams = streams(2);
        let first = (2 << 32) + 1;
        let [own, listens] = [false, true].map(|listens| streams.begin(ExchangeId(1), listens));
        assert_eq!([own, listens], [first, first + 1]);
        streams.keep(NOW, own, None, b"x");
        let ended = streams.begin(ExchangeId(1), false);
        streams.all.remove(ended);
        let other = EventId { listens: false, stream: 7, seq: 9 };
        for (last, expected) in [
            (alloc::format!("{own}-0"), Ok((own, 0))),
            (alloc::format!("{own}-1"), Ok((own, 1))),
            (alloc::format!("{own}-2"), Err(ReplayError::Never)),
            (alloc::format!("g{own}-1"), Err(ReplayError::Never)),
            (alloc::format!("g{listens}-0"), Ok((listens, 0))),
            (alloc::format!("{ended}-0"), Err(ReplayError::Gone)),
            (alloc::format!("g{ended}-0"), Err(ReplayError::Listener)),
            (alloc::format!("{}-0", ended + 1), Err(ReplayError::Never)),
            ("7-9".to_string(), Err(ReplayError::Elsewhere(other))),
            ("x".to_string(), Err(ReplayError::Never)),
        ] {
            assert_eq!(streams.find(&last).map(|id| (id.stream, id.seq)), expected, "{last}");
        }
        streams.shared = false;
        assert_eq!(streams.find("7-9"), Err(ReplayError::Gone));
    }

    #[test]
    fn listeners_are_the_open_streams_without_a_request() {
        let mut streams = streams(0);
        let all = [1, 2, 3].map(|id| streams.begin(ExchangeId(id), id > 1));
        assert_eq!((streams.listening(), streams.listener(), streams.listeners()), (2, Some(all[2]), &all[1..]));
        streams.detach(all[2], ExchangeId(2));
        assert_eq!(streams.listening(), 2, "another exchange carries it");
        streams.detach(all[2], ExchangeId(3));
        assert_eq!((streams.listening(), streams.listener()), (1, Some(all[1])));
        // The exchange that carried a stream before may have output.
        assert_eq!(streams.carry(all[2], ExchangeId(4)), Some(ExchangeId(3)));
        assert_eq!(streams.carry(all[2], ExchangeId(5)), Some(ExchangeId(4)));
        assert_eq!((streams.listening(), streams.listener()), (2, Some(all[2])));
        assert_eq!(streams.carry(99, ExchangeId(5)), None);
    }

    #[test]
    fn streams_are_forgotten_when_nothing_needs_them() {
        for (done, detached, kept, expected) in [
            (true, true, false, false),
            (false, true, false, true),
            (true, false, false, true),
            (true, true, true, true),
        ] {
            let mut streams = streams(0);
            let id = streams.begin(ExchangeId(1), false);
            if kept {
                streams.keep(NOW, id, None, b"x");
            }
            if done {
                streams.done(id);
            }
            if detached {
                streams.detach(id, ExchangeId(1));
            }
            streams.forget_if_over(id);
            assert_eq!(streams.all.contains(id), expected, "{done} {detached} {kept}");
            streams.tidy();
            assert_eq!(streams.all.contains(id), expected, "{done} {detached} {kept}");
        }
    }

    #[test]
    fn only_calls_between_two_messages_are_lost() {
        let mut streams = streams(0);
        let id = streams.begin(ExchangeId(1), false);
        let calls: Vec<_> = (1..=5).map(CallId::from_raw).collect();
        for call in &calls {
            streams.keep(NOW, id, Some(*call), b"x");
        }
        assert_eq!(streams.lost_calls(id, (2, 5)), calls[2..4]);
        assert_eq!(streams.lost_calls(id, (2, 5)), []);
        assert_eq!(streams.lost_calls(id, (0, 9)), [calls[0], calls[1], calls[4]]);
        // Ended calls are searched for when there are 64, 128 and so on.
        let all = |streams: &Streams| streams.all.get(id).map_or(0, |known| known.calls.len());
        for (number, is_searched) in [(63, false), (64, true), (65, false), (96, false), (128, true)] {
            while all(&streams) < number {
                streams.keep(NOW, id, Some(calls[0]), b"x");
            }
            let mut searched = core::cell::Cell::new(0);
            streams.remove_ended_calls(id, |_| {
                searched.set(searched.get() + 1);
                true
            });
            assert_eq!(*searched.get_mut(), if is_searched { number } else { 0 }, "{number}");
        }
        streams.remove_ended_calls(id, |_| false);
        assert_eq!(all(&streams), 0);
    }
}
