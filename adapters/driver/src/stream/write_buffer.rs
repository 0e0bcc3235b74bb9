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
