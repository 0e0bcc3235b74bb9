//! Masks secrets in text: values after their names, and credentials after `Bearer`.

use super::word::Word;

/// The replacement of a masked value.
pub(super) const MASK: &[u8] = b"***";

/// The digits of an escape such as `\u0022`.
const DIGITS: usize = 4;

/// The syntax of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// JSON, in which texts may contain `name=value` and JSON with escapes.
    Json,
    /// Any text.
    Text,
}

/// A place in text. `wide`: the value is several words. `list`: it is an element of a list.
#[derive(Clone, Copy, Debug)]
enum Place {
    Scan,
    /// After the name of a secret.
    Named {
        wide: bool,
    },
    /// After the colon or the equals sign. `is_equals`: directly after the latter.
    Value {
        wide: bool,
        list: bool,
        is_equals: bool,
    },
    /// In quotes that have this many backslashes before them.
    Quoted {
        wide: bool,
        list: bool,
        quote: u8,
        slashes: u32,
        shown: bool,
    },
    /// In a value without quotes, of which `word` has the first letters.
    Bare {
        wide: bool,
        list: bool,
    },
}

/// An escape of JSON that has begun: `u` after backslashes, and these digits.
#[derive(Clone, Copy, Debug)]
struct Escape {
    digits: [u8; DIGITS],
    len: usize,
}

impl Escape {
    /// Returns the character if it is in ASCII, and another byte for all others.
    fn character(self) -> u8 {
        let digits = str::from_utf8(&self.digits).unwrap_or_default();
        let code = u8::from_str_radix(digits, 16).unwrap_or(u8::MAX);
        if code.is_ascii() { code } else { u8::MAX }
    }
}

/// A character, as a byte or as an escape.
#[derive(Clone, Copy, Debug)]
struct Letter<'a> {
    byte: u8,
    /// The backslashes before it. Those that stand for its own level of nesting do not count.
    slashes: u32,
    is_escape: bool,
    /// Its bytes after the backslashes.
    raw: &'a [u8],
}

/// Masks one text after the other. Where nothing is masked, each byte is written when it is taken.
#[derive(Debug)]
pub(super) struct TextMasker {
    kind: Kind,
    place: Place,
    /// The end of the whole text. A secret may be the last part of a name, as in `db.password`.
    name: Word,
    word: Word,
    /// The backslashes before the next byte.
    run: u32,
    escape: Option<Escape>,
}

impl TextMasker {
    pub(super) const fn new(kind: Kind) -> Self {
        Self { kind, place: Place::Scan, name: Word::new(), word: Word::new(), run: 0, escape: None }
    }

    /// Returns whether the next bytes may be a secret.
    pub(super) const fn is_before_value(&self) -> bool {
        matches!(self.place, Place::Value { .. })
    }

    /// Ends the text, and writes what was kept back. Returns whether it is the name of a secret.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> bool {
        self.end_escape(out);
        if self.run > 0 && self.is_before_value() {
            out.extend_from_slice(MASK);
        }
        let is_name = self.run == 0 && self.name.is_secret();
        self.name.clear();
        self.word.clear();
        (self.place, self.run) = (Place::Scan, 0);
        is_name
    }

    /// Takes a byte. Backslashes and escapes are kept back where they may be part of a secret.
    pub(super) fn take(&mut self, byte: u8, out: &mut Vec<u8>) {
        if matches!(self.place, Place::Scan | Place::Named { .. }) {
            out.push(byte);
        }
        if let Some(escape) = &mut self.escape {
            if byte.is_ascii_hexdigit() {
                escape.digits[escape.len] = byte;
                escape.len += 1;
                if escape.len == DIGITS {
                    let escape = *escape;
                    self.escape = None;
                    self.take_escape(escape, out);
                }
                return;
            }
            self.end_escape(out);
        }
        match byte {
            b'\\' => self.run = self.run.saturating_add(1),
            b'u' if self.run > 0 => self.escape = Some(Escape { digits: [0; DIGITS], len: 0 }),
            _ => self.take_byte(byte, out),
        }
    }

    fn take_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.letter(Letter { byte, slashes: self.run, is_escape: false, raw: &[byte] }, out);
    }

    /// Takes the bytes of an escape that is none.
    fn end_escape(&mut self, out: &mut Vec<u8>) {
        if let Some(escape) = self.escape.take() {
            self.take_byte(b'u', out);
            escape.digits[..escape.len].iter().for_each(|digit| self.take_byte(*digit, out));
        }
    }

    fn take_escape(&mut self, escape: Escape, out: &mut Vec<u8>) {
        let byte = escape.character();
        // At each level of nesting, the number of backslashes is doubled. `\\u0022` is a quote in a text within a text,
        // as `\\\"` is.
        let level = self.run & self.run.wrapping_neg();
        if byte == b'\\' {
            // As two backslashes are.
            self.run = self.run.saturating_add(level);
            return;
        }
        let slashes = if byte == b'"' { self.run.saturating_add(level - 1) } else { self.run - level };
        let [a, b, c, d] = escape.digits;
        self.letter(Letter { byte, slashes, is_escape: true, raw: &[b'u', a, b, c, d] }, out);
    }

    fn letter(&mut self, letter: Letter<'_>, out: &mut Vec<u8>) {
        if letter.slashes > 0 || !self.name.push(letter.byte) {
            self.name.clear();
        }
        match self.place {
            Place::Scan | Place::Named { .. } => {
                if letter.slashes > 0 {
                    self.place = self.next(b'\\');
                }
                self.place = self.next(letter.byte);
            }
            Place::Value { .. } => self.value(letter, out),
            Place::Quoted { .. } => self.quoted(letter, out),
            Place::Bare { .. } => self.bare(letter, out),
        }
        self.run = 0;
    }

    /// Returns the place after a byte outside of values.
    fn next(&mut self, byte: u8) -> Place {
        match (self.place, byte) {
            (Place::Named { wide }, b'\\' | b'"' | b'\'' | b' ' | b']') => Place::Named { wide },
            (Place::Named { wide }, b':' | b'=') => Place::Value { wide, list: false, is_equals: byte == b'=' },
            _ => self.scan(byte),
        }
    }

    fn scan(&mut self, byte: u8) -> Place {
        if self.word.push(byte) {
            return Place::Scan;
        }
        let (is_secret, wide) = (self.word.is_secret(), self.word.is_wide());
        let is_bearer = self.word.get().ends_with(b"bearer");
        self.word.clear();
        match byte {
            b' ' if is_bearer => Place::Value { wide: false, list: false, is_equals: false },
            b':' | b'=' if is_secret => Place::Value { wide, list: false, is_equals: byte == b'=' },
            b'\\' | b'"' | b'\'' | b' ' | b']' if is_secret => Place::Named { wide },
            _ => Place::Scan,
        }
    }

    /// Takes a letter before a value.
    fn value(&mut self, letter: Letter<'_>, out: &mut Vec<u8>) {
        let Place::Value { wide, list, is_equals } = self.place else { return };
        let Letter { byte, slashes, .. } = letter;
        let is_short = slashes > 0 && !letter.is_escape && self.kind == Kind::Json;
        let before = Place::Value { wide, list, is_equals: false };
        self.place = match byte {
            b'"' | b'\'' => Place::Quoted { wide, list, quote: byte, slashes, shown: false },
            // An escaped blank, or an escaped line break in a list.
            b't' if is_short => before,
            b'n' | b'r' if is_short && list => before,
            b'n' | b'r' if is_short => Place::Scan,
            b'\n' | b'\r' if list && (self.kind == Kind::Text || letter.is_escape) => before,
            b'\n' | b'\r' => self.scan(byte),
            b' ' | b'\t' | b'(' if slashes == 0 => before,
            b'=' if slashes == 0 => Place::Value { wide, list, is_equals: true },
            // As in `token => "x"`.
            b'>' if slashes == 0 && is_equals => before,
            b'[' if slashes == 0 => Place::Value { wide, list: true, is_equals: false },
            b',' if slashes == 0 && list => before,
            b'{' | b',' | b';' | b'&' | b'}' | b']' | b')' if slashes == 0 => self.scan(byte),
            _ => {
                out.extend_from_slice(MASK);
                self.word.clear();
                self.word.push(byte);
                self.place = Place::Bare { wide, list };
                return;
            }
        };
        self.write(letter, out);
    }

    /// Takes a letter of a value without quotes. Escapes belong to it, except those of line breaks, blanks and signs.
    fn bare(&mut self, letter: Letter<'_>, out: &mut Vec<u8>) {
        let Place::Bare { wide, list } = self.place else { return };
        let Letter { byte, is_escape, .. } = letter;
        // In other text than JSON, a backslash has no meaning.
        let is_literal = self.kind == Kind::Text && !is_escape;
        let slashes = if is_literal { 0 } else { letter.slashes };
        let is_short = slashes > 0 && !is_escape;
        // `Bearer` and `Basic` are followed by the secret.
        let is_scheme = [&b"bearer"[..], b"basic"].contains(&self.word.get());
        let is_end = match byte {
            b'\n' | b'\r' | b'"' => true,
            b'n' | b'r' if is_short => true,
            b't' if is_short => !wide && !is_scheme,
            _ if slashes > 0 => false,
            b',' | b']' if list => true,
            b'\'' | b',' | b';' | b'&' | b'<' | b'>' | b')' | b'}' | b']' => !wide,
            b' ' | b'\t' => !wide && !is_scheme,
            _ => false,
        };
        if !is_end {
            // The letter of an escaped blank is no part of a word.
            if byte != b't' || !is_short {
                self.word.push(byte);
            }
            return;
        }
        self.word.clear();
        self.place = match byte {
            b',' if list => Place::Value { wide, list, is_equals: false },
            b'n' | b'r' | b't' => Place::Scan,
            _ => self.scan(byte),
        };
        if is_literal {
            self.run = 0;
        }
        self.write(letter, out);
    }

    /// Takes a letter of a value in quotes.
    fn quoted(&mut self, letter: Letter<'_>, out: &mut Vec<u8>) {
        let Place::Quoted { wide, list, quote, slashes, shown } = self.place else { return };
        let is_line_end = letter.byte == b'\n' && !letter.is_escape;
        let is_quote_end = letter.byte == quote
            && if quote == b'\'' && self.kind == Kind::Json {
                // JSON escapes no such quote, so how deep it is nested is not known: any backslash may escape it.
                letter.slashes == slashes
            } else {
                // Each level of nesting doubles the backslashes before a quote that ends the value.
                letter.slashes % slashes.saturating_add(1).saturating_mul(2) == slashes
            };
        if is_quote_end || is_line_end {
            self.word.clear();
            let next = Place::Value { wide, list, is_equals: false };
            self.place = if list && is_quote_end { next } else { Place::Scan };
            if is_line_end {
                self.run = 0;
            }
            return self.write(letter, out);
        }
        if !shown {
            out.extend_from_slice(MASK);
        }
        self.place = Place::Quoted { wide, list, quote, slashes, shown: true };
    }

    /// Writes a letter with its backslashes, which were kept back.
    fn write(&self, letter: Letter<'_>, out: &mut Vec<u8>) {
        out.extend((0..self.run).map(|_| b'\\'));
        out.extend_from_slice(letter.raw);
    }
}
