//! Newline-delimited frames out of a byte stream.

use alloc::vec::Vec;

use memchr::memchr;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One line of input, or one whole message of a transport that has message boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    end: FrameEnd,
}

/// The end of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEnd {
    /// The frame is whole.
    Complete,
    /// The frame is longer than the decoder's limit. Its first `limit` bytes are here; the rest is dropped up to the
    /// next line feed.
    Oversized,
    /// The stream ended before the line feed.
    Unterminated,
}

impl<'a> Frame<'a> {
    /// Creates a frame from a whole message that did not come through a [`LineDecoder`], such as an HTTP body.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, end: FrameEnd::Complete }
    }

    /// Returns the bytes, without the line break.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns how the frame ended.
    #[must_use]
    pub const fn end(self) -> FrameEnd {
        self.end
    }
}

/// A decoder that splits a byte stream into lines (specification, transports, stdio).
///
/// It owns the bytes of an incomplete line. A reader passes it the bytes of each read, or reads into [its
/// buffer](Self::room). Lines end at a line feed. The decoder drops one carriage return before the line feed, a byte
/// order mark at the start of the stream, and blank lines. How the stream is split into chunks makes no difference to
/// the frames.
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
    /// The bytes that were read, and spare space.
    buffer: Vec<u8>,
    /// The end of the bytes that were read.
    filled: usize,
    /// The start of the line that was not returned yet.
    start: usize,
    /// The position up to which the line was searched for its end. No byte is searched twice.
    searched: usize,
    limit: usize,
    at_start_of_stream: bool,
    discarding: bool,
    ended: bool,
}

impl LineDecoder {
    /// Creates a decoder for lines of at most `limit` bytes, line break not counted.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            filled: 0,
            start: 0,
            searched: 0,
            limit,
            at_start_of_stream: true,
            discarding: false,
            ended: false,
        }
    }

    /// Takes in the next bytes of the stream. Call [`next_frame`](Self::next_frame) afterwards until it returns `None`.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.compact();
        self.buffer.truncate(self.filled);
        let needed = self.filled + chunk.len();
        if needed > self.buffer.capacity() {
            self.buffer.reserve_exact(self.capacity_for(chunk.len()) - self.filled);
        }
        self.buffer.extend_from_slice(chunk);
        self.filled = needed;
    }

    /// Returns space for the next bytes of the stream, so that they need not be copied. The caller writes them to its
    /// beginning, and passes their number to [`filled`](Self::filled). The content of the space is unspecified.
    ///
    /// Its length is at most `wanted`, and at least half of that.
    pub fn room(&mut self, wanted: usize) -> &mut [u8] {
        if self.start == self.filled {
            self.compact();
        }
        let is_enough = |room: usize| 2 * room >= wanted;
        if !is_enough(self.buffer.len() - self.filled) {
            self.compact();
        }
        if !is_enough(self.buffer.capacity() - self.filled) {
            // Fresh memory is zero already, and most systems do not commit it before the first write.
            let mut buffer = alloc::vec![0; self.capacity_for(wanted)];
            buffer[..self.filled].copy_from_slice(&self.buffer[..self.filled]);
            self.buffer = buffer;
        } else if !is_enough(self.buffer.len() - self.filled) {
            self.buffer.resize(self.buffer.capacity(), 0);
        }
        let end = self.buffer.len().min(self.filled + wanted);
        &mut self.buffer[self.filled..end]
    }

    /// Records that `len` bytes were written to the [`room`](Self::room), at most its length. Call
    /// [`next_frame`](Self::next_frame) afterwards until it returns `None`.
    pub fn filled(&mut self, len: usize) {
        self.filled = self.buffer.len().min(self.filled.saturating_add(len));
    }

    /// Moves the incomplete line to the beginning of the buffer.
    fn compact(&mut self) {
        if self.start == self.filled {
            (self.start, self.searched, self.filled) = (0, 0, 0);
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
    }

    /// Returns the capacity needed for `more` bytes: twice the present one, but not more than a line within the limit
    /// needs.
    fn capacity_for(&self, more: usize) -> usize {
        let enough = self.limit.saturating_add(more);
        (2 * self.buffer.capacity()).min(enough).max(self.filled + more)
    }

    /// Ends the stream: an incomplete line is returned as [`FrameEnd::Unterminated`].
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Returns how many bytes are held for an incomplete line.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.filled - self.start
    }

    /// Returns the next frame, or `None` if it needs more bytes.
    #[inline]
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.searched == self.filled && !self.ended { None } else { self.search() }
    }

    fn search(&mut self) -> Option<Frame<'_>> {
        let found = self.line_feed();
        // Most lines are whole, not blank and not too long, and end without a carriage return.
        if let Some(to) = found
            && !self.discarding
            && !self.at_start_of_stream
            && let Some([b'!'..=u8::MAX, .., b'!'..=u8::MAX]) = self.buffer.get(self.start..to)
            && to - self.start <= self.limit
        {
            let from = core::mem::replace(&mut self.start, to + 1);
            self.searched = self.start;
            return Some(Frame { bytes: &self.buffer[from..to], end: FrameEnd::Complete });
        }
        let (from, to, end) = self.next_range(found)?;
        Some(Frame { bytes: &self.buffer[from..to], end })
    }

    /// Returns the position of the line feed that ends the line.
    fn line_feed(&self) -> Option<usize> {
        memchr(b'\n', &self.buffer[self.searched..self.filled]).map(|offset| self.searched + offset)
    }

    /// Returns the range of the next line, for lines of every kind. The line feed of the first one is at `found`.
    fn next_range(&mut self, mut found: Option<usize>) -> Option<(usize, usize, FrameEnd)> {
        loop {
            if !self.skip_byte_order_mark(found.is_some()) {
                return None;
            }
            let from = self.start;
            let to = found.unwrap_or(self.filled);
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
                found?;
                found = self.line_feed();
                continue;
            }
            if oversized {
                return Some((from, from + self.limit, FrameEnd::Oversized));
            }
            if !self.buffer[from..trimmed].iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
                let end = if found.is_some() { FrameEnd::Complete } else { FrameEnd::Unterminated };
                return Some((from, trimmed, end));
            }
            found?;
            found = self.line_feed();
        }
    }

    /// Skips a byte order mark at the start of the stream; returns `false` if more bytes are needed to decide.
    fn skip_byte_order_mark(&mut self, line_is_complete: bool) -> bool {
        if !self.at_start_of_stream {
            return true;
        }
        let beginning = &self.buffer[self.start..self.filled];
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

    /// Decodes chunks, and checks that feeding them and writing them into the room of the decoder give the same frames.
    fn decode(limit: usize, chunks: &[&[u8]]) -> Seen {
        let fed = decode_by(limit, chunks, |_| false);
        for (remainder, of) in [(0, 1), (0, 2), (1, 2), (0, 3), (2, 5)] {
            assert_eq!(decode_by(limit, chunks, |number| number % of == remainder), fed, "{remainder} of {of}");
        }
        fed
    }

    fn decode_by(limit: usize, chunks: &[&[u8]], by_room: impl Fn(usize) -> bool) -> Seen {
        let mut lines = LineDecoder::new(limit);
        let mut seen = Vec::new();
        for (number, chunk) in chunks.iter().enumerate() {
            if by_room(number) {
                let room = lines.room(2 * chunk.len());
                room.fill(b'\n');
                room[..chunk.len()].copy_from_slice(chunk);
                lines.filled(chunk.len());
            } else {
                lines.feed(chunk);
            }
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

    /// Returns the frames of `input`, and checks that they are the same for every cut in two and byte by byte.
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
    fn splits_lines_and_strips_one_carriage_return() {
        assert_eq!(all_cuts(99, b"one\ntwo\r\nthree\r\r\n"), complete(&["one", "two", "three\r"]));
    }

    #[test]
    fn skips_blank_lines() {
        assert_eq!(all_cuts(99, b"\n\r\n \t\na\n\n\n b\n"), complete(&["a", " b"]));
        assert_eq!(all_cuts(99, b""), vec![]);
        assert_eq!(all_cuts(99, b"\n"), vec![]);
    }

    #[test]
    fn drops_one_leading_byte_order_mark() {
        assert_eq!(all_cuts(99, b"\xEF\xBB\xBF{}\n"), complete(&["{}"]));
        assert_eq!(all_cuts(99, b"\xEF\xBB\xBF\n{}\n"), complete(&["{}"]));
        assert_eq!(all_cuts(99, "a\n\u{feff}b\n".as_bytes()), complete(&["a", "\u{feff}b"]));
        assert_eq!(all_cuts(99, b"\xEF\xBB\n").len(), 1);
        assert_eq!(all_cuts(99, b"\xEF\xBB"), vec![(b"\xEF\xBB".to_vec(), FrameEnd::Unterminated)]);
    }

    #[test]
    fn end_of_stream_yields_unterminated_line() {
        let seen = all_cuts(99, b"a\n{\"half\":");
        assert_eq!(seen[1], (b"{\"half\":".to_vec(), FrameEnd::Unterminated));
        assert_eq!(all_cuts(99, b"a\n \r"), complete(&["a"]));
    }

    #[test]
    fn oversized_line_is_reported_once() {
        let exact = "x".repeat(8);
        let over = "y".repeat(9);
        let input = format!("{exact}\n{over}\n{over}{over}\r\n{exact}\r\nok\n");
        let seen = all_cuts(8, input.as_bytes());
        let head = (b"yyyyyyyy".to_vec(), FrameEnd::Oversized);
        let whole = (exact.as_bytes().to_vec(), FrameEnd::Complete);
        assert_eq!(seen, vec![whole.clone(), head.clone(), head, whole, (b"ok".to_vec(), FrameEnd::Complete)]);
    }

    #[test]
    fn buffer_grows_up_to_the_line_limit() {
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
    fn read_buffer_grows_and_is_reused() {
        let mut lines = LineDecoder::new(1000);
        let (mut text, mut seen) = (b"x".repeat(900), 0);
        text.push(b'\n');
        for _ in 0..3 {
            let mut rest = &text[..];
            while !rest.is_empty() {
                let room = lines.room(64);
                assert!((32..=64).contains(&room.len()), "{}", room.len());
                let (now, later) = rest.split_at(room.len().min(rest.len()).min(50));
                room[..now.len()].copy_from_slice(now);
                lines.filled(now.len());
                rest = later;
                while let Some(frame) = lines.next_frame() {
                    assert_eq!(frame.bytes(), &text[..900]);
                    seen += 1;
                }
            }
            assert_eq!((lines.buffered(), lines.buffer.capacity()), (0, 1024));
        }
        assert_eq!(seen, 3);
        lines.filled(usize::MAX);
        assert_eq!(lines.buffered(), lines.buffer.len() - lines.start, "no more than there is room");
    }

    #[test]
    fn endless_line_is_held_in_bounded_memory() {
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
