//! Transports of connections in WASI.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_driver::{ByteReader, ByteWriter, IntoTransport, MessageTransport};
use rustix::stdio::{stdin, stdout};

use super::{descriptor::Descriptor, runtime::Wasi};

/// A pair of streams that a connection can run over.
#[derive(Debug)]
pub struct Transport(mcp_driver::Transport);

impl IntoTransport for Transport {
    type Runtime = Wasi;

    fn into_transport(self) -> mcp_driver::Transport {
        self.0
    }
}

impl Transport {
    /// Creates a transport from your own reader and writer.
    pub fn new(source: impl ByteReader, sink: impl ByteWriter) -> Self {
        Self(mcp_driver::Transport::new(source, sink))
    }

    /// Creates a transport from your own type that carries whole messages.
    pub fn messages(messages: impl MessageTransport) -> Self {
        Self(mcp_driver::Transport::messages(messages))
    }

    /// Creates two transports that are each other's peer. Each direction holds at most `capacity` bytes, and at least
    /// one.
    #[must_use]
    pub fn pair(capacity: usize) -> (Self, Self) {
        let (left, right) = mcp_driver::Transport::pair(capacity);
        (Self(left), Self(right))
    }

    /// Runs over standard input and output. No other code may read from the one or write to the other.
    ///
    /// # Errors
    /// If they were taken before.
    pub fn stdio() -> io::Result<Self> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(io::Error::other("standard input and output belong to a connection already"));
        }
        Ok(Self::new(Descriptor::new(Arc::new(stdin())), Descriptor::new(Arc::new(stdout()))))
    }
}
