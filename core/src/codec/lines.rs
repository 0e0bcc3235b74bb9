//! Newline-delimited frames out of a byte stream.

use alloc::vec::Vec;

use memchr::memchr;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One line of input, or what the transport delivered as one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    end: FrameEnd,
}

/// How a frame ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEnd {
    /// It is whole.
    Complete,
    /// It is longer than the decoder's limit. Its beginning is here, the rest is dropped up to the next line feed.
    Oversized,
    /// The stream ended before the line feed.
    Unterminated,
}

impl<'a> Frame<'a> {
    /// A whole message that did not come through a [`LineDecoder`], such as an HTTP body.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, end: FrameEnd::Complete }
    }

    /// The bytes, without the line break.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// How the frame ended.
    #[must_use]
    pub const fn end(self) -> FrameEnd {
        self.end
    }
}

/// Cuts a byte stream into lines (specification, transports, stdio).
///
/// It owns the bytes that are not a whole line yet, so a reader may hand over whatever one read gave it and forget it.
/// Lines end at a line feed; one carriage return before it is dropped, and so are a byte order mark at the very start
/// and lines that are blank. How the stream is cut into chunks makes no difference to the frames.
///
/// Memory: at most the limit and one chunk.
///
/// ```
/// use mcp_proto::codec::LineDecoder;
///
/// let mut lines = LineDecoder::new(1024);
/// lines.feed(b"{\"a\":1}\r\n\n{\"b\"");
/// assert_eq!(lines.next_frame().unwrap().bytes(), b"{\"a\":1}");
/// assert_eq!(lines.next_frame(), None);
/// lines.feed(b":2}\n");
/// assert_eq!(lines.next_frame().unwrap().bytes(), b"{\"b\":2}");
/// ```
#[derive(Debug)]
pub struct LineDecoder {
    buffer: Vec<u8>,
    /// Where the line that is not handed out yet begins.
    start: usize,
    /// Up to where it has been searched for its end: a slow sender costs nothing twice.
    searched: usize,
    limit: usize,
    at_start_of_stream: bool,
    discarding: bool,
    ended: bool,
}

impl LineDecoder {
    /// A decoder for lines of at most `limit` bytes, line break not counted.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            limit,
            at_start_of_stream: true,
            discarding: false,
            ended: false,
        }
    }

    /// Takes in the next bytes of the stream. Call [`next_frame`](Self::next_frame) until it returns `None` afterwards.
    pub fn feed(&mut self, chunk: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        let needed = self.buffer.len() + chunk.len();
        if needed > self.buffer.capacity() {
            // By doubling, but not beyond what a line under the limit can need.
            let enough = self.limit.saturating_add(chunk.len());
            let capacity = (2 * self.buffer.capacity()).min(enough).max(needed);
            self.buffer.reserve_exact(capacity - self.buffer.len());
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// Says that the stream has ended: what is left is handed out as [`FrameEnd::Unterminated`].
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The number of bytes held for a line that is not complete.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The next frame, or `None` when more bytes are needed.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        let (from, to, end) = self.next_range()?;
        Some(Frame { bytes: &self.buffer[from..to], end })
    }

    fn next_range(&mut self) -> Option<(usize, usize, FrameEnd)> {
        loop {
            let found = memchr(b'\n', &self.buffer[self.searched..]).map(|offset| self.searched + offset);
            if !self.skip_byte_order_mark(found.is_some()) {
                return None;
            }
            let from = self.start;
            let to = found.unwrap_or(self.buffer.len());
            self.searched = to;
            let trimmed = match self.buffer[from..to] {
                [.., b'\r'] => to - 1,
                _ => to,
            };
            let oversized = trimmed - from > self.limit;
            let discarding = self.discarding;
            if found.is_some() {
                self.searched = to + 1;
                self.start = self.searched;
                self.discarding = false;
            } else if oversized || discarding {
                self.start = to;
                self.discarding = true;
            } else if !self.ended {
                return None;
            } else {
                self.start = to;
            }
            if discarding {
                if found.is_some() {
                    continue;
                }
                return None;
            }
            if oversized {
                return Some((from, from + self.limit, FrameEnd::Oversized));
            }
            if !self.buffer[from..trimmed].iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
                let end = if found.is_some() { FrameEnd::Complete } else { FrameEnd::Unterminated };
                return Some((from, trimmed, end));
            }
            found?;
        }
    }

    /// Steps over a byte order mark at the start of the stream; `false` if more bytes are needed to tell.
    fn skip_byte_order_mark(&mut self, line_is_complete: bool) -> bool {
        if !self.at_start_of_stream {
            return true;
        }
        let beginning = &self.buffer[self.start..];
        if beginning.starts_with(BOM) {
            self.start += BOM.len();
            self.searched = self.searched.max(self.start);
        } else if BOM.starts_with(beginning) && !line_is_complete && !self.ended {
            return false;
        }
        self.at_start_of_stream = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, vec, vec::Vec};

    type Seen = Vec<(Vec<u8>, FrameEnd)>;

    fn decode(limit: usize, chunks: &[&[u8]]) -> Seen {
        let mut lines = LineDecoder::new(limit);
        let mut seen = Vec::new();
        for chunk in chunks {
            lines.feed(chunk);
            while let Some(frame) = lines.next_frame() {
                seen.push((frame.bytes().to_vec(), frame.end()));
            }
            assert!(lines.buffered() <= limit + 1 + chunk.len());
        }
        lines.end();
        while let Some(frame) = lines.next_frame() {
            seen.push((frame.bytes().to_vec(), frame.end()));
        }
        seen
    }

    /// Every way to cut `input` in two, byte by byte, and whole: the same frames.
    fn all_cuts(limit: usize, input: &[u8]) -> Seen {
        let whole = decode(limit, &[input]);
        let single: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(decode(limit, &single), whole, "byte by byte");
        for cut in 0..=input.len() {
            let (a, b) = input.split_at(cut);
            assert_eq!(decode(limit, &[a, b]), whole, "cut at {cut}");
        }
        whole
    }

    fn complete(lines: &[&str]) -> Seen {
        lines.iter().map(|line| (line.as_bytes().to_vec(), FrameEnd::Complete)).collect()
    }

    // req: STDIO-004 STDIO-006
    #[test]
    fn lines_end_at_a_line_feed_and_lose_one_carriage_return() {
        assert_eq!(all_cuts(99, b"one\ntwo\r\nthree\r\r\n"), complete(&["one", "two", "three\r"]));
    }

    #[test]
    fn blank_lines_are_no_frames() {
        assert_eq!(all_cuts(99, b"\n\r\n \t\na\n\n\n b\n"), complete(&["a", " b"]));
        assert_eq!(all_cuts(99, b""), vec![]);
        assert_eq!(all_cuts(99, b"\n"), vec![]);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_once_at_the_start() {
        assert_eq!(all_cuts(99, b"\xEF\xBB\xBF{}\n"), complete(&["{}"]));
        assert_eq!(all_cuts(99, b"\xEF\xBB\xBF\n{}\n"), complete(&["{}"]));
        assert_eq!(all_cuts(99, "a\n\u{feff}b\n".as_bytes()), complete(&["a", "\u{feff}b"]));
        assert_eq!(all_cuts(99, b"\xEF\xBB\n").len(), 1);
        assert_eq!(all_cuts(99, b"\xEF\xBB"), vec![(b"\xEF\xBB".to_vec(), FrameEnd::Unterminated)]);
    }

    #[test]
    fn a_line_without_end_is_handed_out_when_the_stream_ends() {
        let seen = all_cuts(99, b"a\n{\"half\":");
        assert_eq!(seen[1], (b"{\"half\":".to_vec(), FrameEnd::Unterminated));
        assert_eq!(all_cuts(99, b"a\n \r"), complete(&["a"]));
    }

    #[test]
    fn a_line_over_the_limit_is_reported_once_and_the_next_one_is_whole() {
        let exact = "x".repeat(8);
        let over = "y".repeat(9);
        let input = format!("{exact}\n{over}\n{over}{over}\r\n{exact}\r\nok\n");
        let seen = all_cuts(8, input.as_bytes());
        let head = (b"yyyyyyyy".to_vec(), FrameEnd::Oversized);
        let whole = (exact.as_bytes().to_vec(), FrameEnd::Complete);
        assert_eq!(seen, vec![whole.clone(), head.clone(), head, whole, (b"ok".to_vec(), FrameEnd::Complete)]);
    }

    #[test]
    fn the_buffer_doubles_until_a_line_under_the_limit_fits() {
        let mut lines = LineDecoder::new(100);
        for chunk in [10, 10, 20, 40, 20] {
            lines.feed(&[b'x'; 40][..chunk]);
            assert_eq!(lines.next_frame(), None);
            assert!(lines.buffer.capacity() <= 100 + chunk, "{}", lines.buffer.capacity());
        }
        lines.feed(b"\n");
        assert_eq!(lines.next_frame().map(|frame| frame.bytes().len()), Some(100));
    }

    #[test]
    fn a_line_that_never_ends_is_reported_once_and_held_in_bounded_memory() {
        let mut lines = LineDecoder::new(100);
        let mut reports = 0;
        for _ in 0..10_000 {
            lines.feed(&[b'x'; 64]);
            while let Some(frame) = lines.next_frame() {
                assert_eq!(frame.end(), FrameEnd::Oversized);
                reports += 1;
            }
            assert!(lines.buffer.capacity() <= 100 + 64 + 1);
        }
        assert_eq!(reports, 1);
        lines.feed(b"\nok\n");
        assert_eq!(lines.next_frame().map(Frame::bytes), Some(&b"ok"[..]));
    }
}
