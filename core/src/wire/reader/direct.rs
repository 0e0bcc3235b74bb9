//! Decoding of this crate's types without serde, by one function for each type, whichever deserializer has the text.

use alloc::{borrow::Cow, string::String, vec::Vec};
use core::{fmt, mem};

use serde_core::{
    Deserialize, Deserializer,
    de::{self, Error as _, Expected, Visitor},
};
use serde_json::{Error, value::RawValue};

use super::{RawText, Reader, ScanError, Scanner, syntax};
use crate::wire::{escape, scan::StringToken};

/// How a type of our own is read.
pub(super) type Read<T> = fn(&mut Reader<'_>) -> Result<T, Error>;

/// By this name a type of our own asks a deserializer for text. Ours knows it and gives all that it has; to others it
/// is the name of a wrapper like any.
pub(super) const TEXT: &str = "$mcp_proto::private::Text";

/// Reads all of `text`, which has to be one JSON value.
///
/// # Errors
/// What `value` has against it, or what is wrong with its syntax; both with the place.
pub(crate) fn read_all<'de, T>(
    text: &'de str,
    value: impl FnOnce(&mut Reader<'de>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut reader = Reader::new(text);
    match value(&mut reader) {
        Ok(value) if reader.scanner.expect_end().is_ok() => Ok(value),
        Ok(_) => Err(reader.located(&"trailing characters")),
        Err(error) => Err(reader.told(error)),
    }
}

/// Reads a type of our own from any deserializer.
pub(crate) fn read_from<'de, T, D: Deserializer<'de>>(deserializer: D, read: Read<T>) -> Result<T, D::Error> {
    struct Text<T>(Read<T>);

    impl<'de, T> Visitor<'de> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any valid JSON value")
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
            match RawText::deserialize(deserializer)?.0 {
                Cow::Borrowed(text) => read_all(text, self.0).map_err(D::Error::custom),
                // A place in a text that was made up for this would mean nothing.
                Cow::Owned(text) => (self.0)(&mut Reader::new(&text)).map_err(D::Error::custom),
            }
        }

        /// A word by itself, which is no JSON.
        fn visit_str<E: de::Error>(self, word: &str) -> Result<T, E> {
            let mut text = Vec::new();
            escape::string(&mut text, word);
            let text = String::from_utf8(text).map_err(E::custom)?;
            (self.0)(&mut Reader::new(&text)).map_err(E::custom)
        }
    }

    deserializer.deserialize_newtype_struct(TEXT, Text(read))
}

impl<'de> Reader<'de> {
    /// What `look` finds in what comes next, which is still to be read.
    pub(crate) fn look_ahead<T>(&self, look: impl FnOnce(&mut Self) -> T) -> T {
        look(&mut self.clone())
    }

    /// What `read` reads, or nothing: then the reader stands where it stood, and no text is made of what is wrong.
    pub(crate) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Option<T> {
        let before = self.clone();
        self.quiet = true;
        let value = read(self);
        self.quiet = before.quiet;
        if value.is_err() {
            *self = before;
        }
        value.ok()
    }

    /// All of the text, of which nothing is left then.
    pub(super) fn take_all(&mut self) -> &'de str {
        let all = self.scanner.go_to(0);
        self.scanner.go_to(all.len());
        all
    }

    /// The first byte of what comes next.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.scanner.peek()
    }

    /// Takes `null`, if that comes next.
    pub(crate) fn null(&mut self) -> Result<bool, Error> {
        let is_null = self.peek() == Some(b'n');
        if is_null {
            self.raw()?;
        }
        Ok(is_null)
    }

    /// The string that comes next, borrowed from the input unless it was written with escapes.
    pub(crate) fn string(&mut self) -> Result<Cow<'de, str>, Error> {
        if self.peek() == Some(b'"') { self.text() } else { Err(self.unexpected(&"a string")) }
    }

    /// Takes the string that comes next, if it says this and is written without escapes.
    pub(crate) fn eat_plain(&mut self, text: &str) -> bool {
        self.scanner.eat_plain(text)
    }

    /// The members of the object that comes next.
    pub(crate) fn members(&mut self, expected: &dyn Expected) -> Result<Members<'_, 'de>, Error> {
        self.open(b'{', expected)?;
        Ok(Members { reader: self, first: true })
    }

    /// The name of the next member of the object that the reader is in; `None` behind its closing brace.
    pub(crate) fn next_name(&mut self, first: bool) -> Result<Option<StringToken<'de>>, Error> {
        self.scanner.next_member(first).map_err(syntax)
    }

    /// As [`next_name`](Self::next_name): what can be [compared](StringToken::comparable) with names.
    fn next_comparable(&mut self, first: bool) -> Result<Option<Cow<'de, str>>, Error> {
        match self.scanner.next_member(first) {
            Ok(name) => Ok(name.map(StringToken::comparable)),
            Err(error) => Err(syntax(error)),
        }
    }

    /// The name of the member whose value comes next, as it is written between its quotes.
    pub(crate) fn written_name(&self) -> &'de str {
        let before = self.scanner.since(0).trim_ascii_end();
        let name = before.strip_suffix(':').map_or("", str::trim_ascii_end);
        let name = name.strip_suffix('"').unwrap_or_default();
        // Quotes in it stand behind an odd number of backslashes.
        let is_free = |quote: &usize| {
            let backslashes = name.as_bytes()[..*quote].iter().rev().take_while(|byte| **byte == b'\\');
            backslashes.count() % 2 == 0
        };
        let quote = memchr::memrchr_iter(b'"', name.as_bytes()).find(is_free);
        quote.map_or("", |quote| &name[quote + 1..])
    }

    /// Reads the elements of the array that comes next.
    pub(crate) fn elements(
        &mut self,
        expected: &dyn Expected,
        mut element: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.open(b'[', expected)?;
        let mut first = true;
        while self.scanner.begin_element(first).map_err(syntax)? {
            element(self)?;
            first = false;
        }
        self.depth += 1;
        Ok(())
    }

    fn open(&mut self, bracket: u8, expected: &dyn Expected) -> Result<(), Error> {
        if !self.scanner.eat(bracket) {
            return Err(self.unexpected(expected));
        }
        self.depth = self.depth.checked_sub(1).ok_or_else(|| Error::custom("recursion limit exceeded"))?;
        Ok(())
    }
}

/// The members of an object, one after the other.
pub(crate) struct Members<'a, 'de> {
    reader: &'a mut Reader<'de>,
    first: bool,
}

impl<'de> Members<'_, 'de> {
    /// The name of the next member, whose value is to be read then, for those who compare it with names of their own;
    /// `None` behind the closing brace. It is the text of the name if that has only letters and digits of ASCII.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Cow<'de, str>>, Error> {
        let name = self.reader.next_comparable(mem::replace(&mut self.first, false))?;
        self.reader.depth += u32::from(name.is_none());
        Ok(name)
    }

    /// The name of the next member, for those who keep it as text.
    ///
    /// # Errors
    /// If half of a surrogate pair is in it, as well.
    pub(crate) fn next_text(&mut self) -> Result<Option<Cow<'de, str>>, Error> {
        let Some(name) = self.reader.next_name(mem::replace(&mut self.first, false))? else {
            self.reader.depth += 1;
            return Ok(None);
        };
        name.text().map(Some).ok_or_else(|| Error::custom("lone surrogate in an escape"))
    }

    /// Where the value of the member is read.
    #[inline]
    pub(crate) fn value(&mut self) -> &mut Reader<'de> {
        self.reader
    }
}

/// The text of a value that is nested deeper than the scanner follows, which serde_json does.
///
/// # Errors
/// If it is no JSON.
#[cold]
pub(crate) fn deep<'de>(scanner: &mut Scanner<'de>, start: usize) -> Result<&'de str, Error> {
    if !scanner.is_too_deep() {
        return Err(syntax(ScanError));
    }
    let rest = scanner.go_to(start);
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
    let value = values.next().unwrap_or_else(|| Err(syntax(ScanError)))?;
    scanner.go_to(start + values.byte_offset());
    Ok(value.get())
}
