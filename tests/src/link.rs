//! One direction of a byte pipe: a finite buffer with delay, chunk size and cut.

use std::{collections::VecDeque, time::Duration};

use mcp_proto::rpc::Timestamp;

/// The behaviour of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// Bytes that fit between writer and reader. The writer keeps the rest. At least 1.
    pub capacity: usize,
    /// The most bytes that one read returns. At least 1.
    pub chunk: usize,
    /// The time until a byte arrives.
    pub delay: Duration,
    /// The link breaks after this many bytes.
    pub cut_after: Option<u64>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self { capacity: usize::MAX, chunk: usize::MAX, delay: Duration::ZERO, cut_after: None }
    }
}

impl LinkConfig {
    /// Returns a link that holds one byte.
    #[must_use]
    pub fn one_byte() -> Self {
        Self { capacity: 1, chunk: 1, ..Self::default() }
    }
}

/// Bytes in flight in one direction.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    under_way: VecDeque<(Timestamp, Vec<u8>)>,
    held: usize,
    carried: u64,
    /// The writer has closed its side, or the link was cut.
    ended: bool,
    /// The reader does not read.
    pub stalled: bool,
}

impl Link {
    /// Returns an empty link.
    #[must_use]
    pub fn new(config: LinkConfig) -> Self {
        Self { config, under_way: VecDeque::new(), held: 0, carried: 0, ended: false, stalled: false }
    }

    /// Replaces the configuration. Bytes in flight keep their order.
    pub const fn behave(&mut self, config: LinkConfig) {
        self.config = config;
    }

    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> LinkConfig {
        self.config
    }

    /// Returns whether the link broke at its configured cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.config.cut_after.is_some_and(|cut| cut <= self.carried)
    }

    /// Moves as many bytes of `out` as fit into the link. Returns their number.
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

    /// Closes the writer's side. Bytes in flight still arrive.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Reads once: `None` if a read would block, an empty chunk at the end.
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

    /// Returns when the next byte arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Timestamp> {
        if self.stalled { None } else { self.under_way.front().map(|(at, _)| *at) }
    }
}
