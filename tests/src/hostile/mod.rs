//! Peers that do their worst: floods, drips, games with ids, storms of cancellations, lines without an end, and much that
//! looks like the protocol and is not. What they meet has to stay within its limits and leave nothing behind.
//!
//! A peer is a name and what it says in each of its steps, so the same ones attack a connection by hand, under virtual
//! time, and every adapter over real pipes: [`CLIENTS`] attack servers, [`SERVERS`] attack clients. An [`Attack`] is one of
//! them at work.

mod clients;
mod mouth;
mod servers;

use mcp_proto::{
    codec::LineDecoder,
    protocol::{ProtocolVersion, Role},
};

pub use clients::CLIENTS;
pub use mouth::{Heard, Mouth};
pub use servers::SERVERS;

/// A peer that does not keep the rules.
#[derive(Clone, Copy, Debug)]
pub struct Hostile {
    /// What it is called in the names of tests.
    pub name: &'static str,
    /// How often it does what it does.
    pub steps: u64,
    /// How much of it goes out at once.
    pub chunk: usize,
    /// Whether it reads what is written to it.
    pub reads: bool,
    /// How it goes when it has done its worst.
    pub end: End,
    /// Whether it begins as it should: with the handshake, or with the answer to it.
    pub greets: bool,
    /// What it says in a step, of which it is told the number.
    pub step: fn(&mut Mouth, u64),
}

/// How a peer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Not at all: its stream stays open.
    Stays,
    /// It says that nothing more will come, and goes on reading.
    HalfCloses,
    /// It is gone.
    Vanishes,
}

impl Hostile {
    /// One that begins as it should, reads, and stays.
    const fn new(name: &'static str, steps: u64, step: fn(&mut Mouth, u64)) -> Self {
        Self { name, steps, chunk: 4096, reads: true, end: End::Stays, greets: true, step }
    }

    const fn dripping(self) -> Self {
        Self { chunk: 1, ..self }
    }

    const fn deaf(self) -> Self {
        Self { reads: false, ..self }
    }

    const fn rude(self) -> Self {
        Self { greets: false, ..self }
    }

    const fn going(self, end: End) -> Self {
        Self { end, ..self }
    }
}

/// A peer at work.
pub struct Attack {
    hostile: Hostile,
    mouth: Mouth,
    lines: LineDecoder,
    step: u64,
}

/// The longest line that a peer listens to.
const LONGEST: usize = 1 << 20;

impl Attack {
    /// `role` is the peer's. It knows how long a message may be, and goes up to that.
    #[must_use]
    pub fn new(hostile: Hostile, role: Role, version: ProtocolVersion, frame_bytes: usize) -> Self {
        let mut mouth = Mouth::new(role, version, frame_bytes);
        if hostile.greets && role == Role::Client {
            mouth.greet();
        }
        Self { hostile, mouth, lines: LineDecoder::new(LONGEST), step: 0 }
    }

    /// Who it is.
    #[must_use]
    pub const fn hostile(&self) -> Hostile {
        self.hostile
    }

    /// What it says next; `None` when it has done its worst.
    pub fn speak(&mut self) -> Option<Vec<u8>> {
        let is_server = self.mouth.role() == Role::Server;
        // A server waits until it is spoken to, if it means to begin as it should.
        let waits = is_server && self.hostile.greets && !self.mouth.has_greeted();
        if !waits {
            if self.step == self.hostile.steps {
                return None;
            }
            (self.hostile.step)(&mut self.mouth, self.step);
            self.step += 1;
        }
        Some(self.mouth.take())
    }

    /// Takes in what was written to it.
    pub fn hear(&mut self, bytes: &[u8]) {
        self.lines.feed(bytes);
        while let Some(line) = self.lines.next_frame() {
            self.mouth.hear(line.bytes(), self.hostile.greets);
        }
    }
}
