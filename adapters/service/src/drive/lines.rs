//! Bytes that come in and become lines.

use mcp_proto::codec::{Frame, LineDecoder};

use super::bounds::{CHUNK, FIRST_CHUNK};

/// Where a stream is read into, and what of it was not taken in yet.
#[derive(Debug)]
pub struct Lines {
    decoder: LineDecoder,
    /// How much is read at once.
    wanted: usize,
    /// How much there was room for.
    offered: usize,
}

impl Lines {
    /// Lines have at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { decoder: LineDecoder::new(limit), wanted: FIRST_CHUNK, offered: 0 }
    }

    /// Where the next bytes go.
    pub fn room(&mut self) -> &mut [u8] {
        let room = self.decoder.room(self.wanted);
        self.offered = room.len();
        room
    }

    /// So many bytes have come; none are the end. Whether there will be more.
    pub fn came(&mut self, len: usize) -> bool {
        self.decoder.filled(len);
        if len == 0 {
            self.decoder.end();
        } else if len == self.offered {
            // There may be more than that at once.
            self.wanted = CHUNK;
        }
        len > 0
    }

    /// The next line of what has come.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        self.decoder.next_frame()
    }
}
