//! Server-sent events out of a byte stream, and into one (WHATWG HTML, server-sent events).

use alloc::{string::String, vec::Vec};
use core::{fmt, time::Duration};

use memchr::memchr2;

const BOM: &[u8; 3] = b"\xEF\xBB\xBF";

/// The longest name of a field that means something is one shorter.
const NAME: usize = 6;

/// What a decoder keeps of its buffer for the next event.
const SPARE: usize = 64 * 1024;

/// The most bytes of an id, which is sent back in a header and kept as long as the stream, and of the kind of an event.
const ID: usize = 4096;

/// One event. It borrows from the decoder, up to the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// What kind: `message`, unless the stream says otherwise.
    pub kind: &'a str,
    /// The lines of data, joined by line feeds. It may be empty.
    pub data: &'a [u8],
}

/// An event is larger than the decoder's limit. The rest of it is dropped, and the next one is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseTooLong<'a> {
    /// The beginning of its data.
    pub beginning: &'a [u8],
}

impl fmt::Display for SseTooLong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event is larger than the limit")
    }
}

impl core::error::Error for SseTooLong<'_> {}

/// Cuts a byte stream into events.
///
/// Lines end at a line feed, a carriage return, or both; a byte order mark at the very start, comments and unknown
/// fields are dropped. How the stream is cut into chunks makes no difference. An event that the stream does not end is
/// never handed out, and neither its id nor anything else of it counts but `retry`.
///
/// An id of more than 4 KiB is dropped, and the last id is empty then, as if the stream had taken the id back: the stream cannot
/// be resumed until an event has another one.
///
/// An event whose kind has more than 4 KiB is too long, as one beyond the limit is.
///
/// Memory: at most the limit, and 20 KiB for ids and the kind.
///
/// ```
/// use mcp_proto::codec::SseDecoder;
///
/// let mut events = SseDecoder::new(1024);
/// let mut chunk: &[u8] = b": hello\n\nid: 7\ndata: one\ndata: two\n\ndata: th";
/// let event = events.next_event(&mut chunk).unwrap().unwrap();
/// assert_eq!((event.kind, event.data), ("message", &b"one\ntwo"[..]));
/// assert_eq!(events.next_event(&mut chunk), None);
/// assert_eq!((chunk, events.last_id()), (&b""[..], "7"));
/// ```
#[derive(Clone, Debug)]
pub struct SseDecoder {
    limit: usize,
    state: Line,
    /// How much of a byte order mark has been seen, or all that there is to see.
    bom: usize,
    after_return: bool,
    /// The name of the field, as far as it can mean something.
    name: ([u8; NAME], usize),
    /// The value of a field that is not data.
    value: Vec<u8>,
    kind: Option<String>,
    data: Option<Vec<u8>>,
    /// The last one that was handed out, for its space.
    spare: Vec<u8>,
    /// The id that will count when the event ends.
    id: Option<String>,
    last_id: String,
    retry: Option<Duration>,
    excess: Excess,
    /// What was kept of the event was handed out.
    spent: bool,
}

/// Whether the event is over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excess {
    No,
    /// It is, and nobody knows yet.
    New,
    /// It is, and its rest is dropped.
    Known,
}

/// Where in a line the decoder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Name,
    /// Behind the colon, where one space does not count.
    Colon(Field),
    Value(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment, or a field that means nothing.
    Other,
}

impl SseDecoder {
    /// A decoder for events of at most `limit` bytes of data, kind and id.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            state: Line::Name,
            bom: 0,
            after_return: false,
            name: ([0; NAME], 0),
            value: Vec::new(),
            kind: None,
            data: None,
            spare: Vec::new(),
            id: None,
            last_id: String::new(),
            retry: None,
            excess: Excess::No,
            spent: false,
        }
    }

    /// A decoder for the rest of a stream, of which this is the last id that was read.
    #[must_use]
    pub fn resuming(limit: usize, last_id: impl Into<String>) -> Self {
        Self { last_id: last_id.into(), ..Self::new(limit) }
    }

    /// The id of the last event that has ended, whether or not it had data; empty if there was none, or if it had more than
    /// 4 KiB.
    #[must_use]
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// How long to wait before coming back, as the stream said last.
    #[must_use]
    pub const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The number of bytes held for an event that is not complete.
    #[must_use]
    pub fn buffered(&self) -> usize {
        let data = self.data.as_ref().map_or(0, Vec::len);
        data + self.value.len() + self.kind.as_ref().map_or(0, String::len) + self.id.as_ref().map_or(0, String::len)
    }

    /// The next event in `chunk`, which loses what was read of it; `None` when more bytes are needed.
    ///
    /// # Errors
    /// If the event is larger than the limit: once for each.
    pub fn next_event(&mut self, chunk: &mut &[u8]) -> Option<Result<SseEvent<'_>, SseTooLong<'_>>> {
        if self.spent {
            self.forget();
        }
        while let Some(&byte) = chunk.first() {
            if core::mem::take(&mut self.after_return) && byte == b'\n' {
                *chunk = &chunk[1..];
                continue;
            }
            let ended = match self.state {
                Line::Name => {
                    *chunk = &chunk[1..];
                    self.read_name(byte)
                }
                Line::Colon(field) => {
                    if byte == b' ' {
                        *chunk = &chunk[1..];
                    }
                    self.state = Line::Value(field);
                    false
                }
                Line::Value(field) => {
                    let end = memchr2(b'\r', b'\n', chunk);
                    let (part, rest) = chunk.split_at(end.unwrap_or(chunk.len()));
                    *chunk = rest;
                    self.read_value(field, part);
                    if let Some((&byte, rest)) = chunk.split_first() {
                        *chunk = rest;
                        self.after_return = byte == b'\r';
                        self.end_field(field);
                        self.state = Line::Name;
                    }
                    false
                }
            };
            if self.excess == Excess::New {
                (self.excess, self.spent) = (Excess::Known, true);
                return Some(Err(SseTooLong { beginning: self.data.as_deref().unwrap_or_default() }));
            }
            if ended && self.end_event() {
                self.spent = true;
                let kind = self.kind.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("message");
                return Some(Ok(SseEvent { kind, data: self.data.as_deref().unwrap_or_default() }));
            }
        }
        None
    }

    /// A byte at the start of a line; whether that was a blank one.
    fn read_name(&mut self, byte: u8) -> bool {
        if self.bom < BOM.len() {
            if byte == BOM[self.bom] {
                self.bom += 1;
                if self.bom == BOM.len() {
                    self.name.1 = 0;
                    return false;
                }
            } else {
                self.bom = BOM.len();
            }
        }
        let (name, len) = &mut self.name;
        match byte {
            b'\r' | b'\n' => {
                self.after_return = byte == b'\r';
                if *len == 0 {
                    return true;
                }
                let field = field(&name[..*len]);
                self.begin_field(field);
                self.end_field(field);
            }
            b':' => {
                let field = field(&name[..*len]);
                self.begin_field(field);
                self.state = Line::Colon(field);
            }
            byte if *len < NAME => {
                name[*len] = byte;
                *len += 1;
            }
            _ => {}
        }
        false
    }

    fn begin_field(&mut self, field: Field) {
        self.name.1 = 0;
        self.value.clear();
        if field == Field::Data && self.excess == Excess::No {
            match &self.data {
                Some(_) => self.read_value(field, b"\n"),
                None => self.data = Some(core::mem::take(&mut self.spare)),
            }
        }
    }

    /// Takes in a piece of a value, as far as it fits.
    fn read_value(&mut self, field: Field, mut part: &[u8]) {
        if field == Field::Other || self.excess != Excess::No {
            return;
        }
        if field == Field::Id {
            // One byte more than an id may have is enough to know that it is too long.
            part = &part[..part.len().min((ID + 1).saturating_sub(self.value.len()))];
        }
        let room = self.limit.saturating_sub(self.buffered());
        let room = if field == Field::Event { room.min(ID.saturating_sub(self.value.len())) } else { room };
        if part.len() > room {
            self.excess = Excess::New;
        }
        let part = &part[..part.len().min(room)];
        match (field, &mut self.data) {
            (Field::Data, Some(data)) => data.extend_from_slice(part),
            _ => self.value.extend_from_slice(part),
        }
    }

    fn end_field(&mut self, field: Field) {
        let value = core::mem::take(&mut self.value);
        match field {
            _ if self.excess != Excess::No => {}
            Field::Event => self.kind = Some(String::from_utf8_lossy(&value).into_owned()),
            Field::Id if !value.contains(&0) => {
                let id = String::from_utf8_lossy(&value);
                self.id = Some(if id.len() > ID { String::new() } else { id.into_owned() });
            }
            Field::Retry if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = core::str::from_utf8(&value).unwrap_or_default();
                self.retry = Some(Duration::from_millis(digits.parse().unwrap_or(u64::MAX)));
            }
            Field::Data | Field::Id | Field::Retry | Field::Other => {}
        }
    }

    /// A blank line; whether there is an event to hand out.
    fn end_event(&mut self) -> bool {
        if let Some(id) = self.id.take() {
            self.last_id = id;
        }
        let excess = core::mem::replace(&mut self.excess, Excess::No);
        if excess != Excess::No || self.data.is_none() {
            self.forget();
            return false;
        }
        true
    }

    /// Begins a new event, or drops what was kept of one that is too long.
    fn forget(&mut self) {
        self.spent = false;
        self.kind = None;
        if let Some(mut data) = self.data.take() {
            data.clear();
            data.shrink_to(SPARE);
            self.spare = data;
        }
    }
}

fn field(name: &[u8]) -> Field {
    match name {
        b"data" => Field::Data,
        b"event" => Field::Event,
        b"id" => Field::Id,
        b"retry" => Field::Retry,
        _ => Field::Other,
    }
}

/// An event to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct SseText<'a> {
    /// Its kind; `message` if absent.
    pub kind: Option<&'a str>,
    /// What a client that comes back says that it has seen.
    pub id: Option<&'a str>,
    /// How long to wait before coming back.
    pub retry: Option<Duration>,
    /// Its data, in one line or several. Without any it is no event for whoever reads it, but `id` and `retry` count.
    pub data: Option<&'a [u8]>,
}

impl SseText<'_> {
    /// Appends the event. Line breaks in `kind` and `id` are left out.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(kind) = self.kind {
            one_line(out, b"event: ", kind.as_bytes());
        }
        if let Some(id) = self.id {
            one_line(out, b"id: ", id.as_bytes());
        }
        if let Some(retry) = self.retry {
            line(out, b"retry: ", [itoa::Buffer::new().format(retry.as_millis()).as_bytes()]);
        }
        if let Some(mut data) = self.data {
            while let Some(end) = memchr2(b'\r', b'\n', data) {
                line(out, b"data: ", [&data[..end]]);
                let both = data[end..].starts_with(b"\r\n");
                data = &data[end + 1 + usize::from(both)..];
            }
            line(out, b"data: ", [data]);
        }
        out.push(b'\n');
    }

    /// Appends a comment, which a client reads and forgets.
    pub fn comment(out: &mut Vec<u8>) {
        out.extend_from_slice(b":\n\n");
    }
}

const fn is_break(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// Appends a field with a value, line breaks left out.
fn one_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    // They are short and hardly ever have any: without a way out, all bytes are looked at side by side.
    if value.iter().fold(false, |any, byte| any | is_break(byte)) {
        line(out, name, value.split(is_break));
    } else {
        line(out, name, [value]);
    }
}

/// Appends a field with a value in pieces, which have no line breaks.
fn line<'a>(out: &mut Vec<u8>, name: &[u8], value: impl IntoIterator<Item = &'a [u8]>) {
    out.extend_from_slice(name);
    value.into_iter().for_each(|piece| out.extend_from_slice(piece));
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::ToString, vec};

    /// What came of a stream: events as kind, data and the last id behind each, `None` for one that is too long.
    type Seen = (Vec<Option<(String, String, String)>>, String, Option<Duration>);

    fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Seen {
        let mut events = SseDecoder::new(limit);
        let mut seen = Vec::new();
        for mut chunk in chunks {
            loop {
                match events.next_event(&mut chunk) {
                    None => break,
                    Some(Ok(event)) => {
                        let (kind, data) = (event.kind.to_string(), String::from_utf8_lossy(event.data).to_string());
                        seen.push(Some((kind, data, events.last_id().to_string())));
                    }
                    Some(Err(long)) => {
                        assert!(long.beginning.len() <= limit);
                        seen.push(None);
                    }
                }
                assert!(events.buffered() <= limit);
            }
            assert!(chunk.is_empty(), "everything is read");
            assert!(events.buffered() <= limit);
        }
        (seen, events.last_id().to_string(), events.retry())
    }

    /// Every way to cut `input` in two, byte by byte, and whole, with each kind of line break: the same.
    fn all_cuts(limit: usize, input: &str) -> Seen {
        let whole = decode(limit, [input.as_bytes()]);
        for ending in ["\n", "\r", "\r\n"] {
            let input = input.replace('\n', ending).into_bytes();
            assert_eq!(decode(limit, input.chunks(1)), whole, "byte by byte, {ending:?}");
            for cut in 0..=input.len() {
                let (a, b) = input.split_at(cut);
                assert_eq!(decode(limit, [a, b]), whole, "cut at {cut}, {ending:?}");
            }
        }
        whole
    }

    fn message(data: &str, id: &str) -> Option<(String, String, String)> {
        Some(("message".to_string(), data.to_string(), id.to_string()))
    }

    // req: HTTP-074 M-HTTP-023 M-HTTP-098
    #[test]
    fn streams_mean_what_the_standard_says() {
        let table = [
            ("data: one\n\n", vec![message("one", "")]),
            ("data:one\n\ndata:  two\n\n", vec![message("one", ""), message(" two", "")]),
            ("data: YHOO\ndata: +2\ndata: 10\n\n", vec![message("YHOO\n+2\n10", "")]),
            (
                ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
                vec![message("first event", "1"), message("second event", ""), message(" third event", "")],
            ),
            ("data\n\ndata\ndata\n\ndata:", vec![message("", ""), message("\n", "")]),
            ("data:test\n\ndata: test\n\n", vec![message("test", ""), message("test", "")]),
            ("id: 1\ndata: \n\n", vec![message("", "1")]),
            ("id: 1\nevent: ping\n\ndata: x\n\n", vec![message("x", "1")]),
            ("id: 1\ndata: x\n\nid: a\0b\ndata: y\n\n", vec![message("x", "1"), message("y", "1")]),
            ("event: ping\ndata: {}\n\n", vec![Some(("ping".into(), "{}".into(), String::new()))]),
            ("event: a\nevent: b\ndata: {}\n\n", vec![Some(("b".into(), "{}".into(), String::new()))]),
            ("event: a\nevent\ndata: {}\n\n", vec![message("{}", "")]),
            ("Data: x\ndata : x\n data: x\ndatas: x\ndat: x\nnothing\n\n", vec![]),
            ("\u{feff}data: x\n\n\u{feff}data: y\n\n", vec![message("x", "")]),
            ("\u{feff}\u{feff}data: x\n\ndata: y\n\n", vec![message("y", "")]),
            ("\u{feff}: x\ndata: y\n\n", vec![message("y", "")]),
            ("\n\n\n:\n: :\ndata: é😀\n\n\n", vec![message("é😀", "")]),
            ("data: x\nid: 5\n", vec![]),
            ("data: x\nid: 5", vec![]),
        ];
        for (input, expected) in table {
            assert_eq!(all_cuts(99, input).0, expected, "{input:?}");
        }
    }

    #[test]
    fn bytes_that_begin_like_a_byte_order_mark_are_the_name_of_a_field() {
        for start in [&b"\xEF"[..], b"\xEF\xBB", b"\xEF\xBBx", b"\xBB"] {
            let input = [start, b"data: x\n\ndata: y\n\n"].concat();
            assert_eq!(decode(99, [&input[..]]).0, [message("y", "")], "{start:?}");
            assert_eq!(decode(99, input.chunks(1)).0, [message("y", "")], "{start:?}");
            let input = [start, b"\ndata: y\n\n"].concat();
            assert_eq!(decode(99, [&input[..]]).0, [message("y", "")], "{start:?}");
        }
    }

    // req: HTTP-027
    #[test]
    fn an_id_counts_when_its_event_has_ended_whether_or_not_it_has_data() {
        assert_eq!(all_cuts(99, "id: 1\n\n").1, "1");
        assert_eq!(all_cuts(99, "id: 1\n\nid: 2\ndata: x\n").1, "1");
        assert_eq!(all_cuts(99, "id: 1\n\nid\n\n").1, "");
    }

    #[test]
    fn an_id_that_is_too_long_is_dropped_and_its_event_is_whole() {
        let long = |length: usize, filler: &str| format!("id: a\n\nid: {}\ndata: x\n\n", filler.repeat(length));
        // The id, and what is left of it. Bytes that are not UTF-8 have three for each.
        for (length, filler, kept) in [(4096, "z", 4096), (4097, "z", 0), (40_000, "z", 0), (2048, "é", 4096)] {
            let stream = long(length, filler);
            for chunk in [1, 7, 4096, stream.len()] {
                let (seen, last_id, _) = decode(50_000, stream.as_bytes().chunks(chunk));
                assert_eq!((seen.len(), last_id.len()), (1, kept), "{length}");
            }
        }
        let stream = [b"id: ", &[0xff; 1366][..], b"\ndata: x\n\n"].concat();
        assert_eq!(decode(50_000, [&stream[..]]).1, "");
        let stream = [b"id: ", &[0xff; 1365][..], b"\ndata: x\n\n"].concat();
        assert_eq!(decode(50_000, [&stream[..]]).1.len(), 4095);
        // While one comes, no more is held of it.
        let mut events = SseDecoder::new(50_000);
        for mut chunk in [&b"id: "[..]].into_iter().chain([&b"zzzzzzzz"[..]; 10_000]) {
            assert_eq!(events.next_event(&mut chunk), None);
            assert!(events.buffered() <= 4097);
        }
    }

    #[test]
    fn the_time_to_wait_counts_at_once_and_has_to_be_a_number() {
        let retry = |input: &str| all_cuts(99, input).2;
        assert_eq!(retry("retry: 500\n"), Some(Duration::from_millis(500)));
        assert_eq!(retry("retry: 500\nretry: 5x\nretry: -1\nretry\nretry:\n\n"), Some(Duration::from_millis(500)));
        assert_eq!(retry("retry: 500"), None);
        assert_eq!(retry("retry: 99999999999999999999999999\n"), Some(Duration::from_millis(u64::MAX)));
    }

    #[test]
    fn an_event_over_the_limit_is_reported_once_and_the_next_one_is_whole() {
        let long = "y".repeat(11);
        let stream = format!(
            "data: 0123456789\n\nid: 1\ndata: {long}\ndata: {long}\n\ndata: ok\n\ndata: 01234\ndata: 5678\n\ndata: \
             01234\ndata: 56789\n\nevent: {long}\nid: 2\n\nid: {long}\n\nid: 3\n: {long}{long}\nname: {long}{long}\n\n"
        );
        let (seen, last_id, _) = all_cuts(10, &stream);
        let whole = |data: &str| message(data, "1");
        assert_eq!(seen[..3], [message("0123456789", ""), None, whole("ok")]);
        assert_eq!(seen[3..], [whole("01234\n5678"), None, None, None]);
        assert_eq!(last_id, "3");
    }

    #[test]
    fn what_never_ends_is_held_in_bounded_memory() {
        // How a stream begins, how it goes on for ever, and how often an event is too long.
        let table = [
            ("data: ", "xxxxxxxx", 1),
            ("data: x\n", "data: x\n", 1),
            ("", "data\n", 1),
            ("event: ", "xxxxxxxx", 1),
            ("id: ", "xxxxxxxx", 1),
            ("retry: ", "00000000", 1),
            ("", "id: xxxx\n", 0),
            ("", "xxxxxxxx", 0),
            (":", "xxxxxxxx", 0),
            ("name: ", "xxxxxxxx", 0),
        ];
        for (start, more, expected) in table {
            let mut events = SseDecoder::new(100);
            let mut reports = 0;
            for text in [start].into_iter().chain([more; 10_000]) {
                let mut chunk = text.as_bytes();
                while let Some(event) = events.next_event(&mut chunk) {
                    assert!(event.is_err());
                    reports += 1;
                }
                assert!(events.buffered() <= 100);
            }
            assert_eq!(reports, expected, "{more:?}");
        }
    }

    #[test]
    fn a_kind_is_kept_in_bounded_memory() {
        // Invalid UTF-8 becomes three times as long as text.
        let mut events = SseDecoder::new(1 << 20);
        let input = ["event: ".as_bytes(), &[0xff; 100_000], b"\n"].concat();
        let mut chunk = &input[..];
        while let Some(event) = events.next_event(&mut chunk) {
            assert!(event.is_err());
        }
        assert!(events.kind.as_ref().map_or(0, String::len) <= 3 * ID, "a kind of {} bytes", input.len());
        // An event of such a kind is too long, and the next one is not.
        let input = [&b"event: "[..], &[b'e'; ID + 1], b"\ndata: x\n\ndata: y\n\n"].concat();
        let (mut chunk, mut events) = (&input[..], SseDecoder::new(1 << 20));
        assert!(matches!(events.next_event(&mut chunk), Some(Err(_))));
        assert!(matches!(events.next_event(&mut chunk), Some(Ok(event)) if event.data == b"y"));
    }

    #[test]
    fn a_million_lines_that_say_nothing_do_no_harm() {
        let input = ": comment\nunknown: field\n\nevent: ping\n\n".repeat(250_000) + "data: x\n\n";
        assert_eq!(decode(99, [input.as_bytes()]).0, [message("x", "")]);
    }

    // req: HTTP-075 M-HTTP-097
    #[test]
    fn what_is_written_is_read_back() {
        for data in ["", "x", "{\"a\":1}", " leading", "a\nb", "a\r\nb\rc\n", "\n", "é\u{0}"] {
            let mut out = Vec::new();
            let retry = Some(Duration::from_millis(1500));
            SseText { kind: Some("endpoint"), id: Some("4-2"), retry, data: Some(data.as_bytes()) }.write(&mut out);
            SseText::comment(&mut out);
            SseText { id: Some("4-3"), ..SseText::default() }.write(&mut out);
            let text = String::from_utf8(out).expect("text stays text");
            let joined = data.replace("\r\n", "\n").replace('\r', "\n");
            let expected = vec![Some(("endpoint".to_string(), joined, "4-2".to_string()))];
            assert_eq!(all_cuts(99, &text), (expected, "4-3".to_string(), retry), "{text:?}");
        }
    }

    #[test]
    fn nobody_breaks_out_of_a_field() {
        let mut out = Vec::new();
        let text = "x\ndata: y\r\n\r\n".to_string();
        SseText { kind: Some(&text), id: Some(&text), retry: None, data: Some(b"z") }.write(&mut out);
        assert_eq!(out, b"event: xdata: y\nid: xdata: y\ndata: z\n\n");
    }
}
