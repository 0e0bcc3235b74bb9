//! A decoder and an encoder for server-sent events (WHATWG HTML, server-sent events).

use alloc::{string::String, vec::Vec};
use core::{fmt, time::Duration};

use memchr::memchr2;

const BOM: &[u8; 3] = b"\xEF\xBB\xBF";

/// The length of the buffer for field names: one more than the longest name that has a meaning.
const NAME: usize = 6;

/// The capacity in bytes of the data buffer that a decoder keeps for the next event.
const SPARE: usize = 64 * 1024;

/// The most bytes of an event's kind, and of an id, which is sent back in a header and kept as long as the stream.
const ID: usize = 4096;

/// One event. It borrows from the decoder until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent<'a> {
    /// The kind of the event: `message`, unless the stream names another one.
    pub kind: &'a str,
    /// The lines of data, joined by line feeds. It may be empty.
    pub data: &'a [u8],
}

/// The error of an event that is larger than the decoder's limit. The rest of the event is dropped; the next one is
/// whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseTooLong<'a> {
    /// The beginning of the event's data.
    pub beginning: &'a [u8],
}

impl fmt::Display for SseTooLong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event is larger than the limit")
    }
}

impl core::error::Error for SseTooLong<'_> {}

/// A decoder that splits a byte stream into events.
///
/// Lines end at a line feed, a carriage return, or both. A byte order mark at the start of the stream, comments and
/// unknown fields are dropped. How the stream is split into chunks makes no difference. An event without its closing
/// blank line is never returned. Of its fields, only `retry` has an effect.
///
/// An id of more than 4 KiB is dropped, and [`last_id`](Self::last_id) is empty then, as if the stream had reset it:
/// the stream cannot be resumed until an event has another id.
///
/// An event whose kind has more than 4 KiB is an error, as one beyond the limit is.
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
    /// The number of bytes of a byte order mark that were read. Its full length once the start of the stream has been
    /// checked.
    bom: usize,
    after_return: bool,
    /// The name of the field, as far as it can mean something.
    name: ([u8; NAME], usize),
    /// The value of a field that is not data.
    value: Vec<u8>,
    kind: Option<String>,
    data: Option<Vec<u8>>,
    /// The data buffer of the last event, for reuse.
    spare: Vec<u8>,
    /// The id that becomes the last id when the event ends.
    id: Option<String>,
    last_id: String,
    retry: Option<Duration>,
    excess: Excess,
    /// Whether the current event was returned, so that its fields are cleared at the next call.
    spent: bool,
}

/// The state of an event's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excess {
    No,
    /// The event is too large, and the error was not returned yet.
    New,
    /// The event is too large, the error was returned, and the rest of the event is dropped.
    Known,
}

/// The position of the decoder in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Name,
    /// After the colon, where one space is skipped.
    Colon(Field),
    Value(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment, or a field without a meaning.
    Other,
}

impl SseDecoder {
    /// Creates a decoder for events of at most `limit` bytes of data, kind and id.
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

    /// Creates a decoder for the rest of a stream that was read up to the event with the id `last_id`.
    #[must_use]
    pub fn resuming(limit: usize, last_id: impl Into<String>) -> Self {
        Self { last_id: last_id.into(), ..Self::new(limit) }
    }

    /// Returns the id of the last event that has ended, with or without data. It is empty if no event had an id, or if
    /// the id had more than 4 KiB.
    #[must_use]
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// Returns the last reconnection delay that the stream set; `None` if it set none.
    #[must_use]
    pub const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Returns how many bytes are held for an incomplete event.
    #[must_use]
    pub fn buffered(&self) -> usize {
        let data = self.data.as_ref().map_or(0, Vec::len);
        data + self.value.len() + self.kind.as_ref().map_or(0, String::len) + self.id.as_ref().map_or(0, String::len)
    }

    /// Returns the next event in `chunk` and removes the bytes read from `chunk`. Returns `None` if it needs more
    /// bytes.
    ///
    /// # Errors
    /// Returns [`SseTooLong`] once for each event that is larger than the limit.
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

    /// Reads a byte of a field name; returns whether it ended a blank line.
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
        if field == Field::Data && self.excess == Excess::No {
            match &self.data {
                Some(_) => self.read_value(field, b"\n"),
                None => self.data = Some(core::mem::take(&mut self.spare)),
            }
        }
    }

    /// Appends a part of a value, as far as it fits into the limit.
    fn read_value(&mut self, field: Field, mut part: &[u8]) {
        if field == Field::Other || self.excess != Excess::No {
            return;
        }
        if field == Field::Id {
            // One byte above the limit for ids is enough to detect an id that is too long.
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
        let value = &self.value;
        match field {
            _ if self.excess != Excess::No => {}
            Field::Event => self.kind = Some(String::from_utf8_lossy(value).into_owned()),
            Field::Id if !value.contains(&0) => {
                let id = String::from_utf8_lossy(value);
                self.id = Some(if id.len() > ID { String::new() } else { id.into_owned() });
            }
            Field::Retry if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = core::str::from_utf8(value).unwrap_or_default();
                self.retry = Some(Duration::from_millis(digits.parse().unwrap_or(u64::MAX)));
            }
            Field::Data | Field::Id | Field::Retry | Field::Other => {}
        }
        self.value.clear();
        self.value.shrink_to(SPARE);
    }

    /// Ends the event at a blank line; returns whether there is an event to return.
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

    /// Clears the fields of the current event.
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

/// An event to encode.
#[derive(Clone, Copy, Debug, Default)]
pub struct SseText<'a> {
    /// The kind of the event; `message` if absent.
    pub kind: Option<&'a str>,
    /// The id of the event. A client sends it as `Last-Event-ID` when it resumes the stream.
    pub id: Option<&'a str>,
    /// How long the client waits before it reconnects.
    pub retry: Option<Duration>,
    /// The data, in one line or several. A client ignores an event without data, except for its `id` and `retry`.
    pub data: Option<&'a [u8]>,
}

impl SseText<'_> {
    /// Appends the event to `out`. Line breaks in `kind` and `id` are left out.
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

    /// Appends a comment, which clients ignore.
    pub fn comment(out: &mut Vec<u8>) {
        out.extend_from_slice(b":\n\n");
    }
}

const fn is_break(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// Appends a field with a value; line breaks in the value are left out.
fn one_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    // These values are short and rarely have line breaks. The loop does not stop early, so that it can be vectorized.
    if value.iter().fold(false, |any, byte| any | is_break(byte)) {
        line(out, name, value.split(is_break));
    } else {
        line(out, name, [value]);
    }
}

/// Appends a field whose value is given in parts without line breaks.
fn line<'a>(out: &mut Vec<u8>, name: &[u8], value: impl IntoIterator<Item = &'a [u8]>) {
    out.extend_from_slice(name);
    value.into_iter().for_each(|piece| out.extend_from_slice(piece));
    out.push(b'\n');
}

#[cfg(test)]
mod tests;
