//! What has happened, in order: as a number that stands for all of it, and as text for readers.

use std::fmt::{self, Write};

use mcp_proto::{protocol::Role, rpc::Timestamp};

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// Connections are numbered as they begin.
    pub pair: usize,
    /// Which of its ends.
    pub role: Role,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.role {
            Role::Client => 'c',
            Role::Server => 's',
        };
        write!(f, "{}{end}", self.pair)
    }
}

/// Takes the lines of a trace, one at a time.
pub type Reader<'a> = Box<dyn FnMut(&str) + 'a>;

/// The trace of one run.
pub struct Trace<'a> {
    hash: u64,
    entries: u64,
    line: String,
    reader: Option<Reader<'a>>,
}

/// FNV-1a, which is written down in full here and will never change.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

impl<'a> Trace<'a> {
    /// A trace that nothing is in yet.
    #[must_use]
    pub fn new(reader: Option<Reader<'a>>) -> Self {
        Self { hash: OFFSET, entries: 0, line: String::new(), reader }
    }

    /// Adds what has happened to a peer, as `what` and `detail`.
    pub fn note(&mut self, now: Timestamp, who: Who, what: &str, detail: impl fmt::Display) {
        self.line.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.line, "{:>14} {who} {what:<8} {detail}", micros(now));
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        self.entries += 1;
        if let Some(reader) = &mut self.reader {
            reader(&self.line);
        }
    }

    /// A number that stands for everything in it.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// How much is in it.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }
}

fn micros(now: Timestamp) -> String {
    let nanos = now.as_nanos();
    format!("{}.{:06}", nanos / 1_000_000_000, nanos / 1000 % 1_000_000)
}
