//! The write buffer of a connection.

use mcp_proto::connection::Connection;

/// How many bytes are taken from the connection for one write. A cancellation cannot remove output that was already
/// taken.
const HIGH_WATER: usize = 64 * 1024;

/// A buffer for output of a connection that is still to be written.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    bytes: Vec<u8>,
    /// How many of the bytes have been written.
    written: usize,
}

impl WriteBuffer {
    /// Takes output from the connection, as far as it fits, and returns whether there are bytes to write.
    pub fn fill<E>(&mut self, connection: &mut Connection<E>) -> bool {
        // `has_output` costs less than a call of `poll_transmit_up_to` that returns nothing.
        while connection.has_output() {
            if connection.poll_transmit_up_to(&mut self.bytes, HIGH_WATER).is_none() {
                break;
            }
        }
        !self.is_empty()
    }

    /// Returns whether the buffer can take more output.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.bytes.len() < HIGH_WATER
    }

    /// Returns the bytes to be written next.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Returns whether there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Marks this many bytes as written.
    pub fn advance(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written >= self.bytes.len() {
            self.clear();
        }
    }

    /// Drops all bytes.
    pub fn clear(&mut self) {
        let used = self.bytes.len();
        self.written = 0;
        self.bytes.clear();
        // The capacity is kept while it is used by large messages, and shrunk when the messages become small.
        if 4 * used < self.bytes.capacity() {
            self.bytes.shrink_to(2 * used.max(HIGH_WATER));
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::{connection::Client, rpc::Timestamp};
    use mcp_service::Host;

    use super::*;

    #[test]
    fn output_is_pending_until_it_is_written() {
        let mut connection = Client::new(Host::builder("x", "1").build().config(), Timestamp::ZERO);
        let mut buffer = WriteBuffer::default();
        assert!(buffer.is_empty() && buffer.pending().is_empty());
        assert!(buffer.fill(&mut connection), "the first request");
        let output = buffer.pending().to_vec();
        assert!(output.ends_with(b"\n") && !connection.has_output());
        for written in [0, 2, 1] {
            buffer.advance(written);
            assert!(!buffer.is_empty());
        }
        assert_eq!(buffer.pending(), &output[3..]);
        assert!(buffer.fill(&mut connection), "there is something left");
        buffer.advance(output.len() - 4);
        assert_eq!(buffer.pending(), b"\n");
        buffer.advance(1);
        assert!(buffer.is_empty() && buffer.pending().is_empty() && !buffer.fill(&mut connection));
    }

    #[test]
    fn capacity_is_kept_while_messages_are_large() {
        let buffer = |used: usize| {
            let mut bytes = Vec::with_capacity(16 * HIGH_WATER);
            bytes.resize(used, b'x');
            let mut buffer = WriteBuffer { bytes, written: 1 };
            buffer.clear();
            (buffer.bytes.capacity() / HIGH_WATER, buffer.written, buffer.is_empty())
        };
        assert_eq!(buffer(4 * HIGH_WATER), (16, 0, true));
        assert_eq!(buffer(4 * HIGH_WATER - 1), (7, 0, true), "twice of what was used");
        assert_eq!(buffer(1), (2, 0, true));
        let has_room = |used: usize| WriteBuffer { bytes: vec![b'x'; used], written: 0 }.has_room();
        assert_eq!([HIGH_WATER - 1, HIGH_WATER].map(has_room), [true, false]);
    }
}
