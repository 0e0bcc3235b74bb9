//! The way from one end to the other: a byte pipe, or a transport that carries whole messages and may let them overtake
//! each other.

use std::time::Duration;

use mcp_proto::{
    connection::Route,
    rpc::{ReplyKey, Timestamp},
};

use super::dice::Dice;
use crate::link::{Link, LinkConfig};

/// How a way behaves.
#[derive(Clone, Copy, Debug)]
pub struct WayPlan {
    /// Whether it carries messages, which may overtake each other, instead of bytes.
    pub letters: bool,
    /// Bytes or messages that fit into it.
    pub capacity: usize,
    /// The most that one read gives.
    pub chunk: usize,
    /// The longest that anything is under way.
    pub delay: Duration,
    /// It breaks behind this many bytes or messages.
    pub cut_after: Option<u64>,
}

/// What a read gives.
#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    /// Some bytes.
    Bytes(Vec<u8>),
    /// One message.
    Letter(Vec<u8>),
    /// Nothing will come any more.
    End,
}

/// What is written is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// Which messages keep their order among each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// Those that belong to no request of the peer, on the way to a client.
    Session,
    /// Those that belong to one request of the peer, on the way to a client.
    Reply(ReplyKey),
    /// One that stands alone, on the way to a server.
    Alone,
}

struct Letter {
    arrives: Timestamp,
    stream: Stream,
    bytes: Vec<u8>,
}

/// Messages under way.
#[derive(Default)]
struct Post {
    letters: Vec<Letter>,
    carried: u64,
    ended: bool,
}

enum Kind {
    Bytes(Link),
    Letters(Post),
}

/// One direction of a connection.
pub struct Way {
    plan: WayPlan,
    kind: Kind,
    to_server: bool,
    /// Nothing is read until then.
    pub stalled_until: Timestamp,
    /// The reader has left.
    pub abandoned: bool,
}

impl Way {
    /// A way that nothing is on.
    #[must_use]
    pub fn new(plan: WayPlan, to_server: bool) -> Self {
        let WayPlan { capacity, chunk, delay, cut_after, .. } = plan;
        let kind = if plan.letters {
            Kind::Letters(Post::default())
        } else {
            Kind::Bytes(Link::new(LinkConfig { capacity, chunk, delay, cut_after }))
        };
        Self { plan, kind, to_server, stalled_until: Timestamp::ZERO, abandoned: false }
    }

    /// Whether it carries messages.
    #[must_use]
    pub const fn has_letters(&self) -> bool {
        matches!(self.kind, Kind::Letters(_))
    }

    /// Takes as much of `out` as fits, and says how much that was.
    ///
    /// # Errors
    /// If it will never be read.
    pub fn write(&mut self, now: Timestamp, dice: &mut Dice, out: &mut Vec<u8>) -> Result<usize, Broken> {
        let Kind::Bytes(link) = &mut self.kind else { return Ok(0) };
        if self.abandoned || link.is_cut() {
            return Err(Broken);
        }
        let delay = dice.time(self.plan.delay);
        link.behave(LinkConfig { delay, ..link.config() });
        let written = link.write(now, out);
        if link.is_cut() { Err(Broken) } else { Ok(written) }
    }

    /// Whether another message fits, or would show that the reader is gone.
    #[must_use]
    pub fn has_room(&self) -> bool {
        match &self.kind {
            Kind::Bytes(_) => true,
            Kind::Letters(post) => self.abandoned || post.letters.len() < self.plan.capacity,
        }
    }

    /// Takes a message. One that is `behind_all` overtakes nothing.
    ///
    /// # Errors
    /// If it will never be read.
    pub fn send(
        &mut self,
        now: Timestamp,
        dice: &mut Dice,
        route: Route,
        bytes: Vec<u8>,
        behind_all: bool,
    ) -> Result<(), Broken> {
        let Kind::Letters(post) = &mut self.kind else { return Ok(()) };
        if self.abandoned || post.is_cut(&self.plan) {
            return Err(Broken);
        }
        let stream = match route {
            _ if self.to_server => Stream::Alone,
            Route::Reply { key, .. } => Stream::Reply(key),
            _ => Stream::Session,
        };
        let is_before = |letter: &&Letter| behind_all || letter.stream == stream && stream != Stream::Alone;
        let before = post.letters.iter().filter(is_before);
        let earliest = before.map(|letter| letter.arrives).max().unwrap_or(Timestamp::ZERO);
        let arrives = (now + dice.time(self.plan.delay)).max(earliest);
        post.letters.push(Letter { arrives, stream, bytes });
        post.carried += 1;
        if post.is_cut(&self.plan) { Err(Broken) } else { Ok(()) }
    }

    /// Closes the writer's end; what is under way still arrives.
    pub fn end(&mut self) {
        match &mut self.kind {
            Kind::Bytes(link) => link.end(),
            Kind::Letters(post) => post.ended = true,
        }
    }

    /// What one read gives now; `None` when it would block.
    pub fn read(&mut self, now: Timestamp, dice: &mut Dice) -> Option<Input> {
        if self.stalled_until > now {
            return None;
        }
        match &mut self.kind {
            Kind::Bytes(link) => {
                // Most reads give what there is.
                let chunk = if dice.percent(50) { self.plan.chunk } else { dice.size(1..=self.plan.chunk.min(64)) };
                link.behave(LinkConfig { chunk, ..link.config() });
                let bytes = link.read(now)?;
                Some(if bytes.is_empty() { Input::End } else { Input::Bytes(bytes) })
            }
            Kind::Letters(post) => {
                let arrived = post.letters.iter().enumerate().filter(|(_, letter)| letter.arrives <= now);
                match arrived.min_by_key(|(_, letter)| letter.arrives).map(|(at, _)| at) {
                    Some(at) => Some(Input::Letter(post.letters.remove(at).bytes)),
                    None if post.letters.is_empty() && (post.ended || post.is_cut(&self.plan)) => Some(Input::End),
                    None => None,
                }
            }
        }
    }

    /// When there will be something to be read, if not now.
    #[must_use]
    pub fn next_arrival(&self, now: Timestamp) -> Option<Timestamp> {
        let next = match &self.kind {
            Kind::Bytes(link) => link.next_arrival(),
            Kind::Letters(post) => post.letters.iter().map(|letter| letter.arrives).min(),
        };
        // The end of what is stalled waits as well.
        Some(next.unwrap_or(self.stalled_until).max(self.stalled_until)).filter(|at| *at > now)
    }
}

impl Post {
    fn is_cut(&self, plan: &WayPlan) -> bool {
        plan.cut_after.is_some_and(|cut| cut <= self.carried)
    }
}
