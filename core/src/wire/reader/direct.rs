//! Decodes the types of this crate without serde, with one function for each type, from any deserializer.

use alloc::{borrow::Cow, string::String, vec::Vec};
use core::{fmt, mem};

use serde_core::{
    Deserialize, Deserializer,
    de::{self, Error as _, Expected, Visitor},
};
use serde_json::{Error, value::RawValue};

use super::{RawText, Reader, ScanError, Scanner, syntax};
use crate::wire::{escape, scan::StringToken};

/// The function that reads a type of this crate.
pub(super) type Read<T> = fn(&mut Reader<'_>) -> Result<T, Error>;

/// The name of the newtype with which a type of this crate requests text of a deserializer. [`Reader`] recognizes the
/// name and returns the text. Other deserializers treat it as any newtype.
pub(super) const TEXT: &str = "$mcp_proto::private::Text";

/// Reads all of `text`, which must be one JSON value.
///
/// # Errors
/// Returns the error of `value`, or a syntax error, with its line and column.
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

/// Reads a type of this crate from any deserializer.
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

        /// Reads a word that is not JSON text.
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
    /// Returns the result of `look` on the following values, which stay unread.
    pub(crate) fn look_ahead<T>(&self, look: impl FnOnce(&mut Self) -> T) -> T {
        look(&mut self.clone())
    }

    /// Returns the result of `read`. On an error the reader is where it was before, and no error text is made.
    pub(crate) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Option<T> {
        let (before, depth, quiet) = (self.scanner.position(), self.depth, self.quiet);
        self.quiet = true;
        let value = read(self);
        self.quiet = quiet;
        if value.is_err() {
            self.scanner.skip_to(before);
            self.depth = depth;
        }
        value.ok()
    }

    /// Takes all of the text.
    pub(super) fn take_all(&mut self) -> &'de str {
        let all = self.scanner.skip_to(0);
        self.scanner.skip_to(all.len());
        all
    }

    /// Returns the first byte of the next value.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.scanner.peek()
    }

    /// Takes `null`, if that is the next value. Returns whether it is.
    pub(crate) fn null(&mut self) -> Result<bool, Error> {
        let is_null = self.peek() == Some(b'n');
        if is_null {
            self.raw()?;
        }
        Ok(is_null)
    }

    /// Reads a string, borrowed from the input unless it has escapes.
    pub(crate) fn string(&mut self) -> Result<Cow<'de, str>, Error> {
        if self.peek() == Some(b'"') { self.text() } else { Err(self.unexpected(&"a string")) }
    }

    /// Takes the next string if it is spelled as `text`, without escapes. Returns whether it is.
    pub(crate) fn eat_plain(&mut self, text: &str) -> bool {
        self.scanner.eat_plain(text)
    }

    /// Opens the next object.
    pub(crate) fn members(&mut self, expected: &dyn Expected) -> Result<Members<'_, 'de>, Error> {
        self.open(b'{', expected)?;
        Ok(Members { reader: self, first: true })
    }

    /// Reads the name of the next member of the current object. Returns `None` after its closing brace.
    pub(crate) fn next_name(&mut self, first: bool) -> Result<Option<StringToken<'de>>, Error> {
        self.scanner.next_member(first).map_err(syntax)
    }

    /// Returns the name of the member whose value is next, as it is spelled between its quotes.
    pub(crate) fn written_name(&self) -> &'de str {
        let before = self.scanner.since(0).trim_ascii_end();
        let name = before.strip_suffix(':').map_or("", str::trim_ascii_end);
        let name = name.strip_suffix('"').unwrap_or_default();
        // Quotes in it follow an odd number of backslashes.
        let is_free = |quote: &usize| {
            let backslashes = name.as_bytes()[..*quote].iter().rev().take_while(|byte| **byte == b'\\');
            backslashes.count() % 2 == 0
        };
        let quote = memchr::memrchr_iter(b'"', name.as_bytes()).find(is_free);
        quote.map_or("", |quote| &name[quote + 1..])
    }

    /// Reads the elements of the next array.
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

/// Reads the members of an object one after the other.
pub(crate) struct Members<'a, 'de> {
    reader: &'a mut Reader<'de>,
    first: bool,
}

impl<'de> Members<'_, 'de> {
    /// Reads the name of the next member, whose value must be read then. Returns `None` after the closing brace. The
    /// text is for [comparison](StringToken::comparable) only: it is the name if that has only ASCII letters and
    /// digits.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Cow<'de, str>>, Error> {
        let first = mem::replace(&mut self.first, false);
        match self.reader.scanner.next_plain_name(first) {
            Some(name) => Ok(Some(Cow::Borrowed(name))),
            None => self.next_other(first),
        }
    }

    /// Reads a name as [`next`](Self::next) does, with white space and escapes.
    #[inline(never)]
    fn next_other(&mut self, first: bool) -> Result<Option<Cow<'de, str>>, Error> {
        let name = self.reader.next_name(first)?;
        self.reader.depth += u32::from(name.is_none());
        Ok(name.map(StringToken::comparable))
    }

    /// Reads the name of the next member as text.
    ///
    /// # Errors
    /// Returns an error for wrong syntax, and for a name with half of a surrogate pair.
    pub(crate) fn next_text(&mut self) -> Result<Option<Cow<'de, str>>, Error> {
        let Some(name) = self.reader.next_name(mem::replace(&mut self.first, false))? else {
            self.reader.depth += 1;
            return Ok(None);
        };
        name.text().map(Some).ok_or_else(|| Error::custom("lone surrogate in an escape"))
    }

    /// Returns the reader, for the value of the member.
    #[inline]
    pub(crate) fn value(&mut self) -> &mut Reader<'de> {
        self.reader
    }
}

/// Returns the text of a value that is nested deeper than the scanner accepts. serde_json reads it.
///
/// # Errors
/// Returns an error if the text is not JSON.
#[cold]
pub(crate) fn deep<'de>(scanner: &mut Scanner<'de>, start: usize) -> Result<&'de str, Error> {
    if !scanner.is_too_deep() {
        return Err(syntax(ScanError));
    }
    let rest = scanner.skip_to(start);
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
    let value = values.next().unwrap_or_else(|| Err(syntax(ScanError)))?;
    scanner.skip_to(start + values.byte_offset());
    Ok(value.get())
}
