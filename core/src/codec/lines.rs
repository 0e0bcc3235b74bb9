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
/// It owns the bytes that are not a whole line yet, so a reader may hand over whatever one read gave it and forget it,
/// or read into [its room](Self::room). Lines end at a line feed; one carriage return before it is dropped, and so are
/// a byte order mark at the very start and lines that are blank. How the stream is cut into chunks makes no difference
/// to the frames.
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
    /// What was read, and room for more.
    buffer: Vec<u8>,
    /// Up to where there is something.
    filled: usize,
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
            filled: 0,
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
        self.close_up();
        self.buffer.truncate(self.filled);
        let needed = self.filled + chunk.len();
        if needed > self.buffer.capacity() {
            self.buffer.reserve_exact(self.capacity_for(chunk.len()) - self.filled);
        }
        self.buffer.extend_from_slice(chunk);
        self.filled = needed;
    }

    /// Returns space for the next bytes of the stream, so that they need not be copied. The caller writes them to its
    /// beginning, and passes their number to [`filled`](Self::filled). The previous content of the space means nothing.
    ///
    /// Its length is `wanted`, or at least half of that where more would have to be allocated.
    pub fn room(&mut self, wanted: usize) -> &mut [u8] {
        if self.start == self.filled {
            self.close_up();
        }
        let is_enough = |room: usize| 2 * room >= wanted;
        if !is_enough(self.buffer.len() - self.filled) {
            self.close_up();
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

    /// So many bytes have been put into the [`room`](Self::room), at most as many as there were. Call
    /// [`next_frame`](Self::next_frame) until it returns `None` afterwards.
    pub fn filled(&mut self, len: usize) {
        self.filled = self.buffer.len().min(self.filled.saturating_add(len));
    }

    /// Moves the line that is not handed out yet to the beginning.
    fn close_up(&mut self) {
        if self.start > 0 {
            if self.start < self.filled {
                self.buffer.copy_within(self.start..self.filled, 0);
            }
            self.filled -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
    }

    /// The capacity that is needed for so many more bytes: twice of what there is, but not beyond what a line under the
    /// limit can need.
    fn capacity_for(&self, more: usize) -> usize {
        let enough = self.limit.saturating_add(more);
        (2 * self.buffer.capacity()).min(enough).max(self.filled + more)
    }

    /// Says that the stream has ended: what is left is handed out as [`FrameEnd::Unterminated`].
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The number of bytes held for a line that is not complete.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.filled - self.start
    }

    /// The next frame, or `None` when more bytes are needed.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        let (from, to, end) = self.next_range()?;
        Some(Frame { bytes: &self.buffer[from..to], end })
    }

    fn next_range(&mut self) -> Option<(usize, usize, FrameEnd)> {
        if self.searched == self.filled && !self.ended {
            return None;
        }
        loop {
            let rest = &self.buffer[self.searched..self.filled];
            let found = memchr(b'\n', rest).map(|offset| self.searched + offset);
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

    /// What becomes of chunks, each of which is fed, or put into the room of the decoder.
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
    fn the_room_is_kept_and_grows_with_a_line_that_is_long() {
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
