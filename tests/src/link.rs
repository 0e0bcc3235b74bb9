//! One direction of a byte pipe: a finite buffer that can delay, chop and cut.

use std::{collections::VecDeque, time::Duration};

use mcp_proto::rpc::Timestamp;

/// How a link behaves.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// Bytes that fit between writer and reader; what does not fit waits with the writer. At least 1.
    pub capacity: usize,
    /// The most that one read gives. At least 1.
    pub chunk: usize,
    /// How long a byte is under way.
    pub delay: Duration,
    /// The link breaks behind this many bytes.
    pub cut_after: Option<u64>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self { capacity: usize::MAX, chunk: usize::MAX, delay: Duration::ZERO, cut_after: None }
    }
}

impl LinkConfig {
    /// A link that holds one byte.
    #[must_use]
    pub fn one_byte() -> Self {
        Self { capacity: 1, chunk: 1, ..Self::default() }
    }
}

/// Bytes under way in one direction.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    under_way: VecDeque<(Timestamp, Vec<u8>)>,
    held: usize,
    carried: u64,
    /// The writer has closed its end, or the link was cut.
    ended: bool,
    /// The reader does not read.
    pub stalled: bool,
}

impl Link {
    /// A link without bytes.
    #[must_use]
    pub fn new(config: LinkConfig) -> Self {
        Self { config, under_way: VecDeque::new(), held: 0, carried: 0, ended: false, stalled: false }
    }

    /// How it behaves from now on. What is under way stays in its order.
    pub const fn behave(&mut self, config: LinkConfig) {
        self.config = config;
    }

    /// How it behaves.
    #[must_use]
    pub const fn config(&self) -> LinkConfig {
        self.config
    }

    /// Whether it broke where its configuration says.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.config.cut_after.is_some_and(|cut| cut <= self.carried)
    }

    /// Takes as much of `out` as fits, and says how much that was.
    pub fn write(&mut self, now: Timestamp, out: &mut Vec<u8>) -> usize {
        if self.ended {
            out.clear();
            return 0;
        }
        let left = self.config.cut_after.map_or(u64::MAX, |cut| cut.saturating_sub(self.carried));
        let room = (self.config.capacity.saturating_sub(self.held)).min(usize::try_from(left).unwrap_or(usize::MAX));
        let taken: Vec<u8> = out.drain(..room.min(out.len())).collect();
        let count = taken.len();
        self.held += count;
        self.carried += count as u64;
        if count > 0 {
            self.under_way.push_back((now + self.config.delay, taken));
        }
        if self.is_cut() {
            self.ended = true;
            out.clear();
        }
        count
    }

    /// Closes the writer's end; what is under way still arrives.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// What one read gives now: `None` when it would block, an empty chunk at the end.
    pub fn read(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        if self.stalled {
            return None;
        }
        let Some((at, bytes)) = self.under_way.front_mut() else {
            return self.ended.then(Vec::new);
        };
        if *at > now {
            return None;
        }
        let chunk: Vec<u8> = bytes.drain(..self.config.chunk.min(bytes.len())).collect();
        if bytes.is_empty() {
            self.under_way.pop_front();
        }
        self.held -= chunk.len();
        Some(chunk)
    }

    /// When the next byte arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Timestamp> {
        if self.stalled { None } else { self.under_way.front().map(|(at, _)| *at) }
    }
}
