//! Masks streams of events. Their data are messages in JSON, and in HTTP+SSE (2024-11-05) the address of a session.

use super::{
    mask::{Kind, Masker},
    pseudonym::{Pseudonyms, UrlMasker},
};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The longest word that is told apart: `endpoint`, and one byte more.
const WORD: usize = 9;

/// The first bytes of a word.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    bytes: [u8; WORD],
    len: usize,
}

impl Word {
    fn push(&mut self, byte: u8) {
        if self.len < WORD {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A place in a line.
#[derive(Debug)]
enum Place {
    /// In the name of a field.
    Name(Word),
    /// In the kind of an event, after a blank or not.
    Kind(Word),
    /// Before the data of a line.
    Data,
    Address,
    Other,
}

/// Masks a stream as it passes by. Data that are no JSON are masked as an address, whatever the kind of their event is:
/// it may follow them.
#[derive(Debug)]
pub(crate) struct EventsMasker {
    names: Pseudonyms,
    json: Masker,
    /// Masks the address of this line.
    address: UrlMasker,
    place: Place,
    has_started: bool,
    has_returned: bool,
    /// Whether the event is an `endpoint`, if it has a kind so far.
    is_endpoint: Option<bool>,
    /// Whether the data of the event are JSON, if they have begun.
    is_json: Option<bool>,
}

impl EventsMasker {
    pub(crate) fn new(names: Pseudonyms) -> Self {
        Self {
            address: UrlMasker::new(names.clone()),
            names,
            json: Masker::new(Kind::Json),
            place: Place::Name(Word::default()),
            has_started: false,
            has_returned: false,
            is_endpoint: None,
            is_json: None,
        }
    }

    /// Appends the bytes to `out`, with their secrets masked.
    pub(crate) fn mask(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            let is_second = byte == b'\n' && self.has_returned;
            self.has_returned = byte == b'\r';
            match byte {
                _ if is_second => {}
                b'\r' | b'\n' => self.end_line(out),
                byte => self.take(byte),
            }
            match self.place {
                Place::Address => self.address.mask(&[byte], out),
                _ => self.json.mask(&[byte], out),
            }
        }
    }

    /// Writes what was kept back: the stream has ended.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        if matches!(self.place, Place::Address) {
            self.address.end(out);
        }
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        match &mut self.place {
            // An empty line ends the event.
            Place::Name(Word { len: 0, .. }) => (self.is_endpoint, self.is_json) = (None, None),
            Place::Kind(word) => self.is_endpoint = Some(word.get() == b"endpoint"),
            Place::Address => self.address.end(out),
            _ => {}
        }
        self.has_started = true;
        self.place = Place::Name(Word::default());
    }

    /// Takes a byte within a line.
    fn take(&mut self, byte: u8) {
        match &mut self.place {
            Place::Name(word) if byte == b':' => {
                self.place = match word.get() {
                    b"data" => Place::Data,
                    b"event" => Place::Kind(Word::default()),
                    _ => Place::Other,
                };
            }
            Place::Name(word) => {
                word.push(byte);
                if !self.has_started && word.get() == BOM {
                    *word = Word::default();
                }
            }
            // One blank after the colon is no part of the value.
            Place::Kind(word) if byte == b' ' && word.len == 0 => {}
            Place::Kind(word) => word.push(byte),
            Place::Data if matches!(byte, b' ' | b'\t') => {}
            Place::Data => {
                let is_json = *self.is_json.get_or_insert(match byte {
                    b'{' => true,
                    b'[' | b'"' => self.is_endpoint != Some(true),
                    _ => self.is_endpoint == Some(false),
                });
                self.place = if is_json { Place::Other } else { Place::Address };
                self.address = UrlMasker::new(self.names.clone());
            }
            Place::Address | Place::Other => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_all_events_are_masked_in_chunks_of_any_size() {
        let long = format!(":{}\n", "x".repeat(20_000));
        let rows = [
            ("event: endpoint\ndata: /m?s=canary\n\n", "event: endpoint\ndata: /m?s=id-1\n\n"),
            ("\u{feff}data:/m?s=canary\revent:endpoint\r\r", "\u{feff}data:/m?s=id-1\revent:endpoint\r\r"),
            // Behind another event, and a second address.
            (
                "data: {\"token\":\"canary\"}\r\n\r\nevent: endpoint\r\ndata: /m?s=canary\r\n\r\ndata: /m?canary\n\n",
                "data: {\"token\":\"***\"}\r\n\r\nevent: endpoint\r\ndata: /m?s=id-1\r\n\r\ndata: /m?id-1\n\n",
            ),
            // JSON in several lines, and JSON that is cut.
            ("data: [\ndata:  \"a?b=c\"]\n\n", "data: [\ndata:  \"a?b=c\"]\n\n"),
            ("event: message\ndata: a?b=c", "event: message\ndata: a?b=c"),
            ("event: endpoint\ndata: \"/m?s=canary", "event: endpoint\ndata: \"/m?s=id-1"),
            ("data: /m?s=canary\ndata:  canary=a?canary", "data: /m?s=id-1\ndata:  canary=a?id-1"),
        ];
        let long_rows = [
            (
                format!("{long}event: endpoint\ndata: /m?s=canary\n\n"),
                format!("{long}event: endpoint\ndata: /m?s=id-1\n\n"),
            ),
            (
                format!("data: /m?s={}\nevent: endpoint\n\n", "canary".repeat(5_000)),
                "data: /m?s=id-1\nevent: endpoint\n\n".to_owned(),
            ),
        ];
        let short = rows.map(|(text, expected)| (text.to_owned(), expected.to_owned()));
        for (text, expected) in short.into_iter().chain(long_rows) {
            for chunk in (1..=text.len().min(120)).chain([text.len()]) {
                let (mut masker, mut out) = (EventsMasker::new(Pseudonyms::default()), Vec::new());
                text.as_bytes().chunks(chunk).for_each(|bytes| masker.mask(bytes, &mut out));
                masker.end(&mut out);
                assert_eq!(String::from_utf8(out).expect("UTF-8"), expected, "by {chunk}");
            }
        }
    }
}
