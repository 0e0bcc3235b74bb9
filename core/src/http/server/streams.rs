//! The streams of a session: which message goes where, and what is kept of it.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

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

/// A stream of a session. It lives as long as its client can resume it, on whichever exchange.
#[derive(Debug)]
pub(super) struct Stream {
    /// The exchange that carries it now.
    pub(super) exchange: Option<ExchangeId>,
    /// The exchange that carried it last, which may not have been read to its end.
    unread: Option<ExchangeId>,
    /// It was opened with GET and belongs to no request.
    pub(super) listens: bool,
    /// The number of its latest message.
    seq: u64,
    /// The answer was sent on it, and nothing follows.
    pub(super) done: bool,
    /// Requests of ours that were sent on it, with their numbers there.
    calls: Vec<(u64, CallId)>,
}

/// What is missing of a stream behind a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// How many messages are not kept.
    pub(super) messages: u64,
    /// None of what follows is kept either.
    pub(super) rest: bool,
}

/// A message that waits for a stream.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The request of ours that it is.
    pub(super) call: Option<CallId>,
    message: Vec<u8>,
}

/// Why a stream cannot be taken up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// There never was such a message.
    Never,
    /// It is not known any more.
    Gone,
    /// It is not known any more, and belonged to no request: any other stream will do.
    Listener,
    /// It was sent elsewhere.
    Elsewhere(EventId),
}

/// Every stream of a session that is known.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) all: SeqMap<Stream>,
    /// Those that belong to no request and are carried. There are few.
    listeners: Vec<u64>,
    next: u64,
    /// Which part of a shared session this is: the upper half of the numbers of its streams.
    part: u32,
    /// There may be other parts of it elsewhere.
    pub(super) shared: bool,
    waiting: LazyBox<VecDeque<Waiting>>,
    waiting_bytes: usize,
    pub(super) replay: Box<dyn ReplayBuffer>,
    /// How many streams there may be before it is worth looking for those that are over.
    tidy_at: usize,
}

/// Fewer streams than this are not worth a look.
const FEW: usize = 64;

impl Streams {
    pub(super) fn new(replay: Box<dyn ReplayBuffer>, part: u32) -> Self {
        Self {
            all: SeqMap::new(),
            listeners: Vec::new(),
            next: Self::first(part) + 1,
            part,
            shared: part > 0,
            waiting: LazyBox::default(),
            waiting_bytes: 0,
            replay,
            tidy_at: FEW,
        }
    }

    /// What the numbers of a part of a session are larger than. They stay small enough for those who read numbers of
    /// JSON as floating point, up to two million parts.
    pub(super) const fn first(part: u32) -> u64 {
        (part as u64) << 32
    }

    /// A new stream, carried by this exchange.
    pub(super) fn begin(&mut self, exchange: ExchangeId, listens: bool) -> u64 {
        if listens {
            // One that a client has lost, and on which nothing was sent, is seen nowhere else.
            self.tidy_sometimes();
        }
        let stream = self.next;
        self.next += 1;
        let exchange = Some(exchange);
        self.all.insert(stream, Stream { exchange, unread: None, listens, seq: 0, done: false, calls: Vec::new() });
        if listens {
            self.listeners.push(stream);
        }
        stream
    }

    /// Has an exchange carry a stream from now on. Returns the one that did before, which may have ended.
    pub(super) fn carry(&mut self, stream: u64, exchange: ExchangeId) -> Option<ExchangeId> {
        let known = self.all.get_mut(stream)?;
        let before = known.exchange.replace(exchange);
        if known.listens && before.is_none() {
            self.listeners.push(stream);
        }
        before.or(known.unread)
    }

    /// How many streams are open that belong to no request.
    pub(super) const fn listening(&self) -> usize {
        self.listeners.len()
    }

    /// Streams that are open and belong to no request.
    pub(super) fn listeners(&self) -> &[u64] {
        &self.listeners
    }

    /// The stream for messages that belong to no request: the one that was opened last, which is the one that is most
    /// likely alive.
    pub(super) fn listener(&self) -> Option<u64> {
        self.listeners.iter().copied().max()
    }

    fn id(&self, stream: u64, seq: u64) -> EventId {
        let listens = self.all.get(stream).is_some_and(|stream| stream.listens);
        EventId { listens, stream, seq }
    }

    /// The first event of a stream: an id to come back with.
    pub(super) fn prime(&self, stream: u64, exchange: &mut Exchange) -> usize {
        let id = self.id(stream, 0).text();
        exchange.event(&SseText { id: Some(&id), data: Some(b""), ..SseText::default() })
    }

    /// The id of the next message on a stream, which is kept under it. `call` is the request of ours that it is.
    pub(super) fn keep(&mut self, now: Timestamp, stream: u64, call: Option<CallId>, message: &[u8]) -> EventId {
        let (listens, seq) = self.all.get_mut(stream).map_or((false, 0), |stream| {
            stream.seq += 1;
            stream.calls.extend(call.map(|call| (stream.seq, call)));
            (stream.listens, stream.seq)
        });
        self.replay.keep(now, stream, seq, message);
        EventId { listens, stream, seq }
    }

    /// Forgets the requests of ours on a stream that are not in flight, when there are many.
    pub(super) fn tidy_calls(&mut self, stream: u64, asks: impl Fn(CallId) -> bool) {
        if let Some(known) = self.all.get_mut(stream)
            && known.calls.len() >= FEW
            && known.calls.len().is_power_of_two()
        {
            known.calls.retain(|(_, call)| asks(*call));
        }
    }

    /// Takes the requests of ours that were sent on a stream between two messages.
    pub(super) fn lost_calls(&mut self, stream: u64, (after, before): (u64, u64)) -> Vec<CallId> {
        let Some(known) = self.all.get_mut(stream) else { return Vec::new() };
        let is_lost = |seq: u64| seq > after && seq < before;
        let lost = known.calls.iter().filter(|(seq, _)| is_lost(*seq)).map(|(_, call)| *call).collect();
        known.calls.retain(|(seq, _)| !is_lost(*seq));
        lost
    }

    /// The number of the latest message of a stream.
    pub(super) fn latest(&self, stream: u64) -> u64 {
        self.all.get(stream).map_or(0, |stream| stream.seq)
    }

    /// What is not kept of a stream behind a message.
    pub(super) fn missing(&self, EventId { stream, seq, .. }: EventId) -> Option<Missing> {
        let latest = self.latest(stream);
        let mut first = None;
        self.replay.after(stream, seq, &mut |seq, _| first = first.or(Some(seq)));
        let next = first.unwrap_or(latest + 1);
        let messages = next.saturating_sub(seq + 1);
        (messages > 0).then_some(Missing { messages, rest: first.is_none() })
    }

    /// Nothing follows on a stream.
    pub(super) fn done(&mut self, stream: u64) {
        if let Some(known) = self.all.get_mut(stream).filter(|known| !known.done) {
            known.done = true;
            self.replay.done(stream);
        }
    }

    /// The place in a stream that a client says it has read up to.
    pub(super) fn find(&self, last: &str) -> Result<EventId, Lost> {
        let id = EventId::parse(last).ok_or(Lost::Never)?;
        match self.all.get(id.stream) {
            Some(stream) if stream.listens != id.listens || id.seq > stream.seq => Err(Lost::Never),
            Some(_) => Ok(id),
            None if self.shared && id.stream >> 32 != u64::from(self.part) => Err(Lost::Elsewhere(id)),
            None if id.stream < self.next => Err(if id.listens { Lost::Listener } else { Lost::Gone }),
            None => Err(Lost::Never),
        }
    }

    /// Writes what is kept of a stream behind a message, until so many bytes wait on the exchange: how many bytes that
    /// are, and the number of the last message that was written.
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

    /// A message has to wait for a stream. Returns what is given up for it.
    pub(super) fn wait(&mut self, limits: &Limits, call: Option<CallId>, message: &[u8]) -> Vec<Waiting> {
        self.waiting_bytes += message.len();
        self.waiting.push_back(Waiting { call, message: message.to_vec() });
        let mut given_up = Vec::new();
        while self.waiting.len() > limits.waiting || self.waiting_bytes > limits.waiting_bytes {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.waiting_bytes -= oldest.message.len();
            given_up.push(oldest);
        }
        given_up
    }

    /// The message that has waited longest.
    pub(super) fn next_waiting(&mut self) -> Option<(Option<CallId>, Vec<u8>)> {
        let Waiting { call, message } = self.waiting.made()?.pop_front()?;
        self.waiting_bytes -= message.len();
        Some((call, message))
    }

    /// An exchange does not carry a stream any more.
    pub(super) fn leave(&mut self, stream: u64, exchange: ExchangeId) {
        if let Some(known) = self.all.get_mut(stream).filter(|known| known.exchange == Some(exchange)) {
            known.unread = known.exchange.take();
            self.listeners.retain(|listener| *listener != stream);
        }
    }

    /// Forgets a stream on which nothing follows, unless a client can come back for something of it.
    pub(super) fn forget_if_over(&mut self, stream: u64) {
        let over = self.all.get(stream).is_some_and(|known| known.done && known.exchange.is_none());
        if over && !self.replay.has(stream) {
            self.all.remove(stream);
        }
    }

    /// As [`tidy`](Self::tidy), often enough.
    pub(super) fn tidy_sometimes(&mut self) {
        if self.all.len() > self.tidy_at {
            self.tidy();
            self.tidy_at = FEW.max(2 * self.all.len());
        }
    }

    /// Forgets streams that cannot be resumed: no exchange carries them, and none of their messages are kept.
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

    /// Gives back the room of an empty table.
    pub(super) fn shrink(&mut self) {
        if self.all.is_empty() {
            self.all = SeqMap::new();
        }
        if self.waiting.is_empty() {
            self.waiting = LazyBox::default();
        }
    }

    /// Bytes of messages that wait for a stream.
    pub(super) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Messages that wait for a stream.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
