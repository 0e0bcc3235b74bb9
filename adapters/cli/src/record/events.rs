//! Masks streams of events. Their data are messages in JSON, and in HTTP+SSE (2024-11-05) the address of a session.

use super::{
    mask::Masker,
    pseudonym::{Pseudonyms, UrlMasker},
    text::{Kind, MASK},
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

/// The syntax of the data of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// An object in JSON.
    Object,
    /// An object in whose last line a masked number may have ended. If it goes on, the object is broken.
    Number,
    /// An object with a line break in a text or in a masked number, which is no JSON. Readers differ in where its texts
    /// end, so the rest of the data is masked.
    Broken,
    /// Another value in JSON, or lines of another kind.
    Lines,
    /// Text that may be an address.
    Address,
}

/// A place in a line.
#[derive(Debug)]
enum Place {
    /// In the name of a field.
    Name(Word),
    /// In the kind of an event, after a blank or not.
    Kind(Word),
    /// After the colon of data, before a blank or not. The blank is no part of the data.
    Colon,
    /// Before data that begin with blanks.
    Blanks,
    Data(Syntax),
    /// In a comment, or in another field.
    Other,
}

/// Masks a stream as it passes by. The data of an event are one text, whatever is between its lines. Where addresses
/// may be, data that are no JSON are masked as one, whatever the kind of their event is: it may follow them, also
/// behind another kind.
#[derive(Debug)]
pub(crate) struct EventsMasker {
    names: Pseudonyms,
    has_addresses: bool,
    /// Masks the joined data of an event.
    data: Masker,
    /// Masks what is no data in this line.
    line: Masker,
    /// Masks the address in the data of an event.
    address: UrlMasker,
    place: Place,
    has_started: bool,
    has_returned: bool,
    /// Whether the event is an `endpoint`, if it has a kind so far.
    is_endpoint: Option<bool>,
    /// The syntax of the data, if they have begun.
    syntax: Option<Syntax>,
}

impl EventsMasker {
    /// Creates a masker. `has_addresses`: an event may be an `endpoint`. Its address is recorded when its line has
    /// ended.
    pub(crate) fn new(names: Pseudonyms, has_addresses: bool) -> Self {
        Self {
            address: UrlMasker::new(names.clone()),
            names,
            has_addresses,
            data: Masker::new(Kind::Json),
            line: Masker::new(Kind::Text),
            place: Place::Name(Word::default()),
            has_started: false,
            has_returned: false,
            is_endpoint: None,
            syntax: None,
        }
    }

    /// Appends the bytes to `out`, with their secrets masked.
    pub(crate) fn mask(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            let is_second = byte == b'\n' && self.has_returned;
            self.has_returned = byte == b'\r';
            match byte {
                b'\r' | b'\n' => {
                    if !is_second {
                        self.end_line(out);
                    }
                    out.push(byte);
                }
                byte => self.take(byte, out),
            }
        }
    }

    /// Writes what was kept back: the stream has ended.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        if matches!(self.place, Place::Data(Syntax::Address)) {
            self.address.end(out);
        }
    }

    /// Ends the line, before its line break is written.
    fn end_line(&mut self, out: &mut Vec<u8>) {
        match &self.place {
            // An empty line ends the event.
            Place::Name(Word { len: 0, .. }) => {
                (self.is_endpoint, self.syntax) = (None, None);
                self.data = Masker::new(Kind::Json);
                self.address = UrlMasker::new(self.names.clone());
            }
            Place::Kind(word) => {
                self.is_endpoint = Some(word.get() == b"endpoint");
                self.line.end_line(out);
            }
            Place::Name(_) | Place::Other => self.line.end_line(out),
            Place::Colon | Place::Blanks => {}
            Place::Data(Syntax::Object) => {
                if self.data.is_number() {
                    self.syntax = Some(Syntax::Number);
                } else if !self.data.is_between() {
                    self.syntax = Some(Syntax::Broken);
                }
                self.data.end_line(out);
            }
            Place::Data(Syntax::Number | Syntax::Broken) => {}
            Place::Data(Syntax::Lines) => self.data.end_line(out),
            Place::Data(Syntax::Address) => self.address.end_line(out),
        }
        self.has_started = true;
        self.place = Place::Name(Word::default());
        self.line = Masker::new(Kind::Text);
    }

    /// Takes a byte within a line.
    fn take(&mut self, byte: u8, out: &mut Vec<u8>) {
        match &mut self.place {
            Place::Name(word) if byte == b':' => {
                self.place = match word.get() {
                    b"data" => Place::Colon,
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
            Place::Colon if byte == b' ' => {
                self.place = Place::Blanks;
                return out.push(byte);
            }
            Place::Colon | Place::Blanks => return self.begin_data(byte, out),
            Place::Data(syntax) => {
                let syntax = *syntax;
                return self.take_data(syntax, byte, out);
            }
            Place::Other => {}
        }
        self.line.mask(&[byte], out);
    }

    /// Takes the first byte of the data of a line.
    fn begin_data(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.syntax.is_none() && matches!(byte, b' ' | b'\t') {
            self.place = Place::Blanks;
            return out.push(byte);
        }
        let syntax = *self.syntax.get_or_insert(match byte {
            b'{' => Syntax::Object,
            b'[' | b'"' if self.is_endpoint != Some(true) => Syntax::Lines,
            _ if self.has_addresses => Syntax::Address,
            _ => Syntax::Lines,
        });
        self.place = Place::Data(syntax);
        if syntax == Syntax::Broken {
            return out.extend_from_slice(MASK);
        }
        self.take_data(syntax, byte, out);
    }

    fn take_data(&mut self, syntax: Syntax, byte: u8, out: &mut Vec<u8>) {
        match syntax {
            Syntax::Number if matches!(byte, b' ' | b'\t') => out.push(byte),
            Syntax::Number => {
                let next = if matches!(byte, b',' | b'}' | b']') { Syntax::Object } else { Syntax::Broken };
                (self.syntax, self.place) = (Some(next), Place::Data(next));
                if next == Syntax::Broken {
                    return out.extend_from_slice(MASK);
                }
                self.data.mask(&[byte], out);
            }
            Syntax::Object | Syntax::Lines => self.data.mask(&[byte], out),
            Syntax::Broken => {}
            Syntax::Address => self.address.mask(&[byte], out),
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
            ("event: message\ndata: {\"a\":\"a?b=c\"}", "event: message\ndata: {\"a\":\"a?b=c\"}"),
            ("event: endpoint\ndata: \"/m?s=canary", "event: endpoint\ndata: \"/m?s=id-1"),
            ("data: /m?s=canary\ndata:  x=a?canary", "data: /m?s=id-1\ndata:  x=a?id-1"),
            // The last kind counts, and may come last.
            (
                "event: message\nevent: endpoint\ndata: /m?canary\n\n",
                "event: message\nevent: endpoint\ndata: /m?id-1\n\n",
            ),
            (
                "event: message\ndata: /m?s=canary\nevent: endpoint\n\n",
                "event: message\ndata: /m?s=id-1\nevent: endpoint\n\n",
            ),
            ("event: ping\ndata: a?b=canary", "event: ping\ndata: a?b=id-1"),
            // A query in several lines.
            (
                "data: /m?s=can\ndata: ary&t=canary\nid: 1\ndata:\ndata:canary\n\n",
                "data: /m?s=id-1\ndata: id-2&t=id-3\nid: 1\ndata:\ndata:id-3\n\n",
            ),
            (
                "data: /m?can\ndata: ary=canary\ndata: # x\ndata: a\n\n",
                "data: /m?id-1\ndata: id-2\ndata: # x\ndata: a\n\n",
            ),
            ("data: /m\ndata: ?s=canary\n\ndata: a?b=canary\n\n", "data: /m\ndata: ?s=id-1\n\ndata: a?b=id-1\n\n"),
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
                let (mut masker, mut out) = (EventsMasker::new(Pseudonyms::default(), true), Vec::new());
                text.as_bytes().chunks(chunk).for_each(|bytes| masker.mask(bytes, &mut out));
                masker.end(&mut out);
                assert_eq!(String::from_utf8(out).expect("UTF-8"), expected, "by {chunk}");
            }
        }
    }

    fn masked(text: &str, has_addresses: bool, chunk: usize) -> String {
        let (mut masker, mut out) = (EventsMasker::new(Pseudonyms::default(), has_addresses), Vec::new());
        text.as_bytes().chunks(chunk).for_each(|bytes| masker.mask(bytes, &mut out));
        masker.end(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn data_of_several_lines_are_masked_as_one_text() {
        let rows = [
            ("data: {\"token\":\ndata: \"canary\"}\n\n", "data: {\"token\":\ndata: \"***\"}\n\n"),
            // Comments and other fields with a quote, before and between the lines.
            (": 5\" wide\n\ndata: {\"token\":\"canary\"}\n\n", ": 5\" wide\n\ndata: {\"token\":\"***\"}\n\n"),
            (
                "id: 7\"\ndata:{\"token\":\n: 5\" wide\nx\"y\nid: 8\"\ndata:\"canary\"}\n\n",
                "id: 7\"\ndata:{\"token\":\n: 5\" wide\nx\"y\nid: 8\"\ndata:\"***\"}\n\n",
            ),
            (
                "data\ndata:\ndata: \ndata: \t{\"token\":\"canary\"}\n\n",
                "data\ndata:\ndata: \ndata: \t{\"token\":\"***\"}\n\n",
            ),
            // An event that ends within a text.
            (
                "data: {\"a\":\"b\n\ndata: {\"token\":\"canary\"}\n\n",
                "data: {\"a\":\"b\n\ndata: {\"token\":\"***\"}\n\n",
            ),
            // Texts and numbers that may go on in the next line, or may not.
            ("data: {\"token\":\"can\ndata: ary\"}\n\n", "data: {\"token\":\"***\ndata: ***\n\n"),
            ("data: {\"to\ndata: ken\":\"canary\"}\n\n", "data: {\"to\ndata: ***\n\n"),
            ("data: {\"a\":\"b\ndata: c\",\"token\":\"canary\"}\n\n", "data: {\"a\":\"b\ndata: ***\n\n"),
            ("data: {\"a\":\"b\ndata: {\"token\":\"canary\"}\n\n", "data: {\"a\":\"b\ndata: ***\n\n"),
            ("data: {log} 5\" wide\ndata: {\"token\":\"canary\"}\n\n", "data: {log} 5\" wide\ndata: ***\n\n"),
            ("data: {\"a\":\"b\\\ndata: \",\"token\":\"canary\"}\n\n", "data: {\"a\":\"b\\\ndata: ***\n\n"),
            ("data: {\"a\":\"token=\\\ndata: canary\"}\n\n", "data: {\"a\":\"token=***\ndata: ***\n\n"),
            ("data: {\"token\":12\ndata: 34}\n\n", "data: {\"token\":\"***\"\ndata: ***\n\n"),
            ("data: {\"token\":12\ndata:\ndata:  .5}\n\n", "data: {\"token\":\"***\"\ndata:\ndata:  ***\n\n"),
            // A number that has ended before the line break.
            (
                "data: {\ndata:  \"accessToken\": 12345\ndata: }\n\ndata: {\"a\":1}\n\n",
                "data: {\ndata:  \"accessToken\": \"***\"\ndata: }\n\ndata: {\"a\":1}\n\n",
            ),
            (
                "data: {\"token\":[1\ndata:  , 2\n: x\ndata: \ndata: ],\"a\":\"b\"\ndata: ,\"token\":\"canary\"}\n\n",
                "data: {\"token\":[\"***\"\ndata:  , \"***\"\n: x\ndata: \ndata: ],\"a\":\"b\"\ndata: ,\"token\":\"***\"}\n\n",
            ),
            ("data: {\"token\":12\n\ndata: {\"a\":\"b\"}\n\n", "data: {\"token\":\"***\"\n\ndata: {\"a\":\"b\"}\n\n"),
            // The next event is read as usual.
            (
                "data: {\"a\":\"b\ndata: c\ndata:\n: d\nid: 1\n\ndata: {\"a\":\"b\"}\n\n",
                "data: {\"a\":\"b\ndata: ***\ndata:\n: d\nid: 1\n\ndata: {\"a\":\"b\"}\n\n",
            ),
            // A list that begins in a comment does not go on in the next line.
            (": token: [\ndata: {\"a\":1}\n\n", ": token: [\ndata: {\"a\":1}\n\n"),
            ("data: [{\"token\":\n: \"\ndata: \"canary\"}]\n\n", "data: [{\"token\":\n: \"\ndata: \"***\"}]\n\n"),
            // Lines that are no JSON, and secrets that are no data.
            ("data: [log] a \"b\ndata: {\"token\":\"canary\"}\n\n", "data: [log] a \"b\ndata: {\"token\":\"***\"}\n\n"),
            (
                "event: log\ndata: a \"b\ndata: {\"token\":\"canary\"}\n\n",
                "event: log\ndata: a \"b\ndata: {\"token\":\"***\"}\n\n",
            ),
            (
                ": password=canary x\nid: token=\\\npassword: canary\n\n",
                ": password=*** x\nid: token=\\\npassword: ***\n\n",
            ),
        ];
        for (text, expected) in rows {
            for end in ["\n", "\r", "\r\n"] {
                let (text, expected) = (text.replace('\n', end), expected.replace('\n', end));
                for chunk in 1..=text.len() {
                    for has_addresses in [true, false] {
                        let masked = masked(&text, has_addresses, chunk);
                        assert_eq!(masked, expected, "{text:?} by {chunk}, with addresses: {has_addresses}");
                    }
                }
            }
        }
    }

    #[test]
    fn streams_without_addresses_are_not_kept_back() {
        assert_eq!(masked("data: /m?a=b", false, 3), "data: /m?a=b");
        let (mut masker, mut out) = (EventsMasker::new(Pseudonyms::default(), false), Vec::new());
        masker.mask(b"data: a?b=c", &mut out);
        assert_eq!(out, b"data: a?b=c");
    }
}
