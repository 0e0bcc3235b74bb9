//! Bytes that come in and become lines.

use mcp_proto::codec::{Frame, LineDecoder};

use super::bounds::{CHUNK, FIRST_CHUNK};

/// Where a stream is read into, and what of it was not taken in yet.
#[derive(Debug)]
pub struct Lines {
    chunk: Vec<u8>,
    decoder: LineDecoder,
}

impl Lines {
    /// Lines have at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { chunk: Vec::new(), decoder: LineDecoder::new(limit) }
    }

    /// Where the next bytes go.
    pub fn room(&mut self) -> &mut [u8] {
        if self.chunk.is_empty() {
            self.chunk = vec![0; FIRST_CHUNK];
        }
        &mut self.chunk
    }

    /// So many bytes have come; none are the end. Whether there will be more.
    pub fn came(&mut self, len: usize) -> bool {
        self.decoder.feed(&self.chunk[..len]);
        if len == 0 {
            self.decoder.end();
        } else if len == self.chunk.len() && len < CHUNK {
            // There may be more than that at once.
            self.chunk = vec![0; CHUNK];
        }
        len > 0
    }

    /// The next line of what has come.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        self.decoder.next_frame()
    }
}
