//! One direction of a transport: a byte pipe, or a transport of whole messages that may reorder them.

use std::time::Duration;

use mcp_proto::{
    connection::Route,
    rpc::{ReplyKey, Timestamp},
};

use super::rng::Rng;
use crate::link::{Link, LinkConfig};

/// The behaviour of a transport.
#[derive(Clone, Copy, Debug)]
pub struct TransportConfig {
    /// Whether it carries messages, which may be reordered, instead of bytes.
    pub whole_messages: bool,
    /// The bytes or messages that fit into it.
    pub capacity: usize,
    /// The most bytes that one read returns.
    pub chunk: usize,
    /// The longest time until bytes or a message arrive.
    pub delay: Duration,
    /// It breaks after this many bytes or messages.
    pub cut_after: Option<u64>,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    /// Some bytes.
    Bytes(Vec<u8>),
    /// One message.
    Message(Vec<u8>),
    /// Nothing follows.
    End,
}

/// The transport is broken: written data is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected;

/// The stream of a message. Messages of one stream keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// To a client: messages that belong to no request of the client.
    Session,
    /// To a client: messages that belong to one request of the client.
    Reply(ReplyKey),
    /// To a server: each message is independent of the others.
    Unordered,
}

struct QueuedMessage {
    arrives: Timestamp,
    stream: Stream,
    bytes: Vec<u8>,
}

/// Messages in flight.
#[derive(Default)]
struct MessageQueue {
    messages: Vec<QueuedMessage>,
    carried: u64,
    ended: bool,
}

enum Kind {
    Bytes(Link),
    Messages(MessageQueue),
}

/// One direction of a connection.
pub struct Transport {
    plan: TransportConfig,
    kind: Kind,
    to_server: bool,
    /// Nothing is read before this time.
    pub stalled_until: Timestamp,
    /// The reader has disconnected.
    pub abandoned: bool,
}

impl Transport {
    /// Returns an empty transport.
    #[must_use]
    pub fn new(plan: TransportConfig, to_server: bool) -> Self {
        let TransportConfig { capacity, chunk, delay, cut_after, .. } = plan;
        let kind = if plan.whole_messages {
            Kind::Messages(MessageQueue::default())
        } else {
            Kind::Bytes(Link::new(LinkConfig { capacity, chunk, delay, cut_after }))
        };
        Self { plan, kind, to_server, stalled_until: Timestamp::ZERO, abandoned: false }
    }

    /// Returns whether it carries messages.
    #[must_use]
    pub const fn carries_messages(&self) -> bool {
        matches!(self.kind, Kind::Messages(_))
    }

    /// Moves as many bytes of `out` as fit into the transport. Returns their number.
    ///
    /// # Errors
    /// If the transport is broken.
    pub fn write(&mut self, now: Timestamp, rng: &mut Rng, out: &mut Vec<u8>) -> Result<usize, Disconnected> {
        let Kind::Bytes(link) = &mut self.kind else { return Ok(0) };
        if self.abandoned || link.is_cut() {
            return Err(Disconnected);
        }
        let delay = rng.duration(self.plan.delay);
        link.behave(LinkConfig { delay, ..link.config() });
        let written = link.write(now, out);
        if link.is_cut() { Err(Disconnected) } else { Ok(written) }
    }

    /// Returns whether another message fits. Also true if the reader has disconnected, so that a write detects it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        match &self.kind {
            Kind::Bytes(_) => true,
            Kind::Messages(queue) => self.abandoned || queue.messages.len() < self.plan.capacity,
        }
    }

    /// Sends a message. A message that is `behind_all` is not reordered.
    ///
    /// # Errors
    /// If the transport is broken.
    pub fn send(
        &mut self,
        now: Timestamp,
        rng: &mut Rng,
        route: Route,
        bytes: Vec<u8>,
        behind_all: bool,
    ) -> Result<(), Disconnected> {
        let Kind::Messages(queue) = &mut self.kind else { return Ok(()) };
        if self.abandoned || queue.is_cut(&self.plan) {
            return Err(Disconnected);
        }
        let stream = match route {
            _ if self.to_server => Stream::Unordered,
            Route::Reply { key, .. } => Stream::Reply(key),
            _ => Stream::Session,
        };
        let is_before =
            |message: &&QueuedMessage| behind_all || message.stream == stream && stream != Stream::Unordered;
        let before = queue.messages.iter().filter(is_before);
        let earliest = before.map(|message| message.arrives).max().unwrap_or(Timestamp::ZERO);
        let arrives = (now + rng.duration(self.plan.delay)).max(earliest);
        queue.messages.push(QueuedMessage { arrives, stream, bytes });
        queue.carried += 1;
        if queue.is_cut(&self.plan) { Err(Disconnected) } else { Ok(()) }
    }

    /// Closes the writer's side. Data in flight still arrives.
    pub fn end(&mut self) {
        match &mut self.kind {
            Kind::Bytes(link) => link.end(),
            Kind::Messages(queue) => queue.ended = true,
        }
    }

    /// Reads once; `None` if a read would block.
    pub fn read(&mut self, now: Timestamp, rng: &mut Rng) -> Option<Input> {
        if self.stalled_until > now {
            return None;
        }
        match &mut self.kind {
            Kind::Bytes(link) => {
                // Half of the reads use the configured chunk size, the others a smaller one.
                let chunk = if rng.percent(50) { self.plan.chunk } else { rng.size(1..=self.plan.chunk.min(64)) };
                link.behave(LinkConfig { chunk, ..link.config() });
                let bytes = link.read(now)?;
                Some(if bytes.is_empty() { Input::End } else { Input::Bytes(bytes) })
            }
            Kind::Messages(queue) => {
                let arrived = queue.messages.iter().enumerate().filter(|(_, message)| message.arrives <= now);
                match arrived.min_by_key(|(_, message)| message.arrives).map(|(at, _)| at) {
                    Some(at) => Some(Input::Message(queue.messages.remove(at).bytes)),
                    None if queue.messages.is_empty() && (queue.ended || queue.is_cut(&self.plan)) => Some(Input::End),
                    None => None,
                }
            }
        }
    }

    /// Returns when the next data can be read, if not now.
    #[must_use]
    pub fn next_arrival(&self, now: Timestamp) -> Option<Timestamp> {
        let next = match &self.kind {
            Kind::Bytes(link) => link.next_arrival(),
            Kind::Messages(queue) => queue.messages.iter().map(|message| message.arrives).min(),
        };
        // The end of input waits for the end of the stall as well.
        Some(next.unwrap_or(self.stalled_until).max(self.stalled_until)).filter(|at| *at > now)
    }
}

impl MessageQueue {
    fn is_cut(&self, plan: &TransportConfig) -> bool {
        plan.cut_after.is_some_and(|cut| cut <= self.carried)
    }
}
