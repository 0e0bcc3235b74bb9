//! Bytes that come in and become lines.

use std::io;

use mcp_proto::codec::{Frame, LineDecoder};

use crate::tuning::{FIRST_READ_CHUNK, READ_CHUNK};

/// A read buffer that splits its bytes into lines.
#[derive(Debug)]
pub struct LineReader {
    decoder: LineDecoder,
    /// How much is read at once.
    wanted: usize,
    /// How much there was room for.
    offered: usize,
}

impl LineReader {
    /// Lines have at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { decoder: LineDecoder::new(limit), wanted: FIRST_READ_CHUNK, offered: 0 }
    }

    /// Returns the buffer for the next bytes.
    pub fn spare_capacity(&mut self) -> &mut [u8] {
        let spare_capacity = self.decoder.room(self.wanted);
        self.offered = spare_capacity.len();
        spare_capacity
    }

    /// Adds this many bytes, or the end if there are none. Returns whether there may be more.
    pub fn advance(&mut self, len: usize) -> bool {
        self.decoder.filled(len);
        if len == 0 {
            self.decoder.end();
        } else if len == self.offered {
            // There may be more than that at once.
            self.wanted = READ_CHUNK;
        }
        len > 0
    }

    /// Returns whether a part of a line has come.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.decoder.buffered() > 0
    }

    /// Returns the next line of the bytes that were read.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        self.decoder.next_frame()
    }
}

/// Checks that what a peer sends first is the beginning of a JSON object, as every first message of MCP is.
///
/// A web page can have a browser send an HTTP request to a raw socket, and its body can hold whole messages on lines of their
/// own. The first byte of such a request is part of the name of a method, so the connection ends before anything of it is
/// taken in.
#[derive(Debug, Default)]
pub struct Sniffer {
    /// Only white space has come so far.
    waits: bool,
}

impl Sniffer {
    /// Creates one that refuses what is no JSON object.
    #[must_use]
    pub const fn new() -> Self {
        Self { waits: true }
    }

    /// Creates one that lets everything pass.
    #[must_use]
    pub const fn off() -> Self {
        Self { waits: false }
    }

    /// Looks at what was read, before it is taken in.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) if the first thing that has come is no JSON object.
    pub fn check(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.waits
            && let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            self.waits = false;
            if *first != b'{' {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer does not begin with a JSON object"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_byte_that_is_no_white_space_counts() {
        for (chunks, passes) in [
            (&["{", "x"][..], true),
            (&["", " \r\n\t", "{}", "POST"], true),
            (&["POST / HTTP/1.1"], false),
            (&["\n", "\n", "["], false),
            (&["\u{feff}{"], false),
            (&[" \n"], true),
        ] {
            let mut sniffer = Sniffer::new();
            assert_eq!(chunks.iter().all(|chunk| sniffer.check(chunk.as_bytes()).is_ok()), passes, "{chunks:?}");
            let mut off = Sniffer::off();
            assert!(chunks.iter().all(|chunk| off.check(chunk.as_bytes()).is_ok()));
        }
    }
}
