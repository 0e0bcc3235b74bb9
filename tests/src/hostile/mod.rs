//! Hostile peers: floods, slow input, invalid and repeated ids, cancellations, lines without an end, and messages that
//! resemble the protocol. A connection under attack has to stay within its limits and become idle afterwards.
//!
//! A peer is a name and a function that produces its output of each step. So the same peers attack a connection in
//! memory, under virtual time, and all adapters over real sockets: [`CLIENTS`] attack servers, [`SERVERS`] attack
//! clients. An [`Attack`] is a running peer.

mod clients;
mod peer_io;
mod servers;

use mcp_proto::{
    codec::LineDecoder,
    protocol::{ProtocolVersion, Role},
};

pub use clients::CLIENTS;
pub use peer_io::{PeerIo, ReceivedRequest};
pub use servers::SERVERS;

/// A peer that violates the protocol.
#[derive(Clone, Copy, Debug)]
pub struct HostilePeer {
    /// Its name in the names of tests.
    pub name: &'static str,
    /// The number of its steps.
    pub steps: u64,
    /// The bytes that it writes at once.
    pub chunk: usize,
    /// Whether it reads its input.
    pub reads: bool,
    /// Its behaviour after the last step.
    pub end: Ending,
    /// Whether it completes the handshake, or responds to it, before the attack.
    pub completes_handshake: bool,
    /// Writes the output of the step with this number.
    pub step: fn(&mut PeerIo, u64),
}

/// The behaviour of a peer after its last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its stream stays open.
    StaysOpen,
    /// It closes its output and continues to read.
    HalfCloses,
    /// It disconnects.
    Disconnects,
}

impl HostilePeer {
    /// Returns a peer that completes the handshake, reads, and stays connected.
    const fn new(name: &'static str, steps: u64, step: fn(&mut PeerIo, u64)) -> Self {
        Self { name, steps, chunk: 4096, reads: true, end: Ending::StaysOpen, completes_handshake: true, step }
    }

    const fn dripping(self) -> Self {
        Self { chunk: 1, ..self }
    }

    const fn not_reading(self) -> Self {
        Self { reads: false, ..self }
    }

    const fn without_handshake(self) -> Self {
        Self { completes_handshake: false, ..self }
    }

    const fn ending_with(self, end: Ending) -> Self {
        Self { end, ..self }
    }
}

/// A running hostile peer.
pub struct Attack {
    hostile: HostilePeer,
    io: PeerIo,
    lines: LineDecoder,
    step: u64,
}

/// The longest line that a peer reads.
const LONGEST: usize = 1 << 20;

impl Attack {
    /// Starts an attack by a peer with this role. Its messages have up to `frame_bytes` bytes.
    #[must_use]
    pub fn new(hostile: HostilePeer, role: Role, version: ProtocolVersion, frame_bytes: usize) -> Self {
        let mut io = PeerIo::new(role, version, frame_bytes);
        if hostile.completes_handshake && role == Role::Client {
            io.start_handshake();
        }
        Self { hostile, io, lines: LineDecoder::new(LONGEST), step: 0 }
    }

    /// Returns the definition of the peer.
    #[must_use]
    pub const fn hostile(&self) -> HostilePeer {
        self.hostile
    }

    /// Returns its next output, or `None` after the last step.
    pub fn next_bytes(&mut self) -> Option<Vec<u8>> {
        let is_server = self.io.role() == Role::Server;
        // A server that completes the handshake waits for the first request.
        let waits = is_server && self.hostile.completes_handshake && !self.io.has_completed_handshake();
        if !waits {
            if self.step == self.hostile.steps {
                return None;
            }
            (self.hostile.step)(&mut self.io, self.step);
            self.step += 1;
        }
        Some(self.io.take_output())
    }

    /// Passes bytes to the peer.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.lines.feed(bytes);
        while let Some(line) = self.lines.next_frame() {
            self.io.receive(line.bytes(), self.hostile.completes_handshake);
        }
    }
}
