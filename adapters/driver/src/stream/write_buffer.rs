//! Bytes on their way out.

use mcp_proto::connection::Connection;

/// How much is taken from the connection for one write: what was taken, a cancellation cannot take back.
const HIGH_WATER: usize = 64 * 1024;

/// A write buffer: output of a connection that is still to be written.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    bytes: Vec<u8>,
    /// How many of them have been written.
    written: usize,
}

impl WriteBuffer {
    /// Takes more from the connection, as far as it fits; whether there is something to write.
    pub fn fill<E>(&mut self, connection: &mut Connection<E>) -> bool {
        // Asking whether there is more costs less than asking for more.
        while connection.has_output() {
            if connection.poll_transmit_up_to(&mut self.bytes, HIGH_WATER).is_none() {
                break;
            }
        }
        !self.is_empty()
    }

    /// Returns whether more would fit.
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

    /// Removes this many bytes, which have been written.
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
        // The space of a large message is kept for another one, but not for small ones.
        if 4 * used < self.bytes.capacity() {
            self.bytes.shrink_to(2 * used.max(HIGH_WATER));
        }
    }
}
