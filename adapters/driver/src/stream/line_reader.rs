//! Reading lines from bytes.

use std::io;

use mcp_proto::codec::{Frame, LineDecoder};

use crate::tuning::{FIRST_READ_CHUNK, READ_CHUNK};

/// A read buffer that splits its bytes into lines.
#[derive(Debug)]
pub struct LineReader {
    decoder: LineDecoder,
    /// The minimum size of the next buffer.
    wanted: usize,
    /// The size of the last buffer.
    offered: usize,
}

impl LineReader {
    /// Creates a reader for lines of at most `limit` bytes.
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

    /// Adds `len` bytes that were read into the buffer, or the end of the input if `len` is 0. Returns whether more may
    /// follow.
    pub fn advance(&mut self, len: usize) -> bool {
        self.decoder.filled(len);
        if len == 0 {
            self.decoder.end();
        } else if len == self.offered {
            // The buffer was full, so more is likely to be available: the next one is larger.
            self.wanted = READ_CHUNK;
        }
        len > 0
    }

    /// Returns whether a part of a line was read.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.decoder.buffered() > 0
    }

    /// Returns the next line of the bytes that were read.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        self.decoder.next_frame()
    }
}

/// Checks that the input of a peer begins with a JSON object, as every first message of MCP does.
///
/// A web page can have a browser send an HTTP request to a raw socket, and its body can hold whole messages on lines of
/// their own. The first byte of such a request is part of an HTTP method, so the connection ends before any of it is
/// processed.
#[derive(Debug, Default)]
pub struct Sniffer {
    /// Only white space was read so far.
    waits: bool,
}

impl Sniffer {
    /// Creates a sniffer that rejects input that does not begin with a JSON object.
    #[must_use]
    pub const fn new() -> Self {
        Self { waits: true }
    }

    /// Creates a sniffer that accepts all input.
    #[must_use]
    pub const fn off() -> Self {
        Self { waits: false }
    }

    /// Checks bytes that were read, before they are processed.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) if the first byte that is not white space does not begin a JSON
    /// object.
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
    fn sniffer_checks_first_non_whitespace_byte() {
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

    #[test]
    fn full_reads_enlarge_the_next_buffer() {
        let mut reader = LineReader::new(1 << 20);
        let len = |reader: &mut LineReader| reader.spare_capacity().len();
        assert_eq!(len(&mut reader), FIRST_READ_CHUNK);
        reader.spare_capacity()[..3].copy_from_slice(b"{}\n");
        assert!(reader.advance(3));
        assert_eq!(reader.next_frame().map(|frame| frame.bytes().to_vec()).as_deref(), Some(&b"{}"[..]));
        assert!(reader.next_frame().is_none() && !reader.has_begun());
        let rest = len(&mut reader);
        assert!((FIRST_READ_CHUNK / 2..=FIRST_READ_CHUNK).contains(&rest), "{rest}");
        reader.spare_capacity().fill(b'x');
        assert!(reader.advance(rest));
        assert!(reader.next_frame().is_none() && reader.has_begun());
        let larger = len(&mut reader);
        assert!((READ_CHUNK / 2..=READ_CHUNK).contains(&larger), "{larger}");
        assert!(!reader.advance(0), "the end of the input");
        assert_eq!(reader.next_frame().map(|frame| frame.bytes().len()), Some(rest));
        assert!(reader.next_frame().is_none());
    }
}
