//! The trace of a run: its entries in order, as a hash and as text.

use std::fmt::{self, Write};

use mcp_proto::{protocol::Role, rpc::Timestamp};

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerId {
    /// The number of the connection, in the order of their start.
    pub pair: usize,
    /// The side of the connection.
    pub role: Role,
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.role {
            Role::Client => 'c',
            Role::Server => 's',
        };
        write!(f, "{}{end}", self.pair)
    }
}

/// Receives the lines of a trace, one at a time.
pub type Sink<'a> = Box<dyn FnMut(&str) + 'a>;

/// The trace of one run.
pub struct Trace<'a> {
    hash: u64,
    entries: u64,
    line: String,
    sink: Option<Sink<'a>>,
}

/// FNV-1a. The definition is part of this file, so it never changes.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

impl<'a> Trace<'a> {
    /// Returns an empty trace.
    #[must_use]
    pub fn new(sink: Option<Sink<'a>>) -> Self {
        Self { hash: OFFSET, entries: 0, line: String::new(), sink }
    }

    /// Adds an entry for a peer, with `what` and `detail`.
    pub fn note(&mut self, now: Timestamp, peer_id: PeerId, what: &str, detail: impl fmt::Display) {
        self.line.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.line, "{:>14} {peer_id} {what:<8} {detail}", micros(now));
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        self.entries += 1;
        if let Some(sink) = &mut self.sink {
            sink(&self.line);
        }
    }

    /// Returns the hash of all entries.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the number of entries.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }
}

fn micros(now: Timestamp) -> String {
    let nanos = now.as_nanos();
    format!("{}.{:06}", nanos / 1_000_000_000, nanos / 1000 % 1_000_000)
}
