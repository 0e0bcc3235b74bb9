//! Decodes JSON text for serde, as serde_json does, on the scanner of this crate.
//!
//! The text of a frame has been scanned already, and most of it are strings. So strings are searched and unescaped by
//! blocks, and raw values are copied without being read again. serde_json decodes rare types, value by value.

use alloc::{borrow::Cow, format, string::ToString};
use core::{fmt, iter};

use serde_core::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor, value},
    forward_to_deserialize_any,
};
use serde_json::{Error, value::RawValue};

mod direct;
mod text;

pub(crate) use direct::{deep, read_all, read_from};
pub(crate) use text::{Name, RawText};

use super::{
    excerpt::{excerpt, excerpt_of_error},
    scan::{MAX_DEPTH, ScanError, Scanner, StringToken},
    unescape::unescape,
};

/// Reads `text`, which must be one JSON value, as a `T`.
///
/// # Errors
/// Returns an error if the text does not fit `T` or is not JSON.
pub(crate) fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    read_all(text, |reader| T::deserialize(reader))
}

/// The deserializer of serde_json, for the values of rare types.
type Other<'de> = serde_json::Deserializer<serde_json::de::StrRead<'de>>;

/// Reads one value after the other.
#[derive(Clone)]
pub(crate) struct Reader<'de> {
    scanner: Scanner<'de>,
    /// The number of brackets that may still be opened.
    depth: u32,
    /// Whether errors are dropped, so that they need no text.
    quiet: bool,
}

impl<'de> Reader<'de> {
    /// Creates a reader at the beginning of `text`.
    pub(crate) fn new(text: &'de str) -> Self {
        let mut scanner = Scanner::new(text, MAX_DEPTH);
        scanner.skip_white_space();
        // The limit of serde_json.
        Self { scanner, depth: MAX_DEPTH - 1, quiet: false }
    }

    /// Creates an error with its line and column, which serde_json parses from the message.
    #[cold]
    fn located(&self, error: &dyn fmt::Display) -> Error {
        let before = self.scanner.since(0);
        let line = before.matches('\n').count() + 1;
        let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        Error::custom(format!("{error} at line {line} column {column}"))
    }

    /// Adds line and column to an error, and shortens a long text that it repeats.
    #[cold]
    fn told(&self, error: Error) -> Error {
        let text = error.to_string();
        match (excerpt_of_error(&text), error.line()) {
            (text, 0) => self.located(&text),
            (Cow::Borrowed(_), _) => error,
            (Cow::Owned(text), _) => self.located(&text),
        }
    }

    /// Reads the next value with serde_json.
    fn others<T>(&mut self, read: impl FnOnce(&mut Other<'de>) -> Result<T, Error>) -> Result<T, Error> {
        whole(self.raw()?, read)
    }

    /// Takes the text of the next value.
    pub(crate) fn raw(&mut self) -> Result<&'de str, Error> {
        let start = self.scanner.position();
        self.scanner.value(0).or_else(|_| deep(&mut self.scanner, start))
    }

    fn text(&mut self) -> Result<Cow<'de, str>, Error> {
        let (written, escaped) = self.scanner.text().map_err(syntax)?;
        if escaped {
            unescape(written).map(Cow::Owned).ok_or_else(|| Error::custom("lone surrogate in an escape"))
        } else {
            Ok(Cow::Borrowed(written))
        }
    }

    /// Returns the error that the next value is not of the expected type.
    #[cold]
    pub(crate) fn unexpected(&mut self, expected: &dyn de::Expected) -> Error {
        if self.quiet {
            return Error::custom("something else was expected");
        }
        match self.scanner.peek() {
            Some(b'{') => Error::invalid_type(Unexpected::Map, expected),
            Some(b'[') => Error::invalid_type(Unexpected::Seq, expected),
            Some(b'n') => Error::invalid_type(Unexpected::Unit, expected),
            Some(b't') => Error::invalid_type(Unexpected::Bool(true), expected),
            Some(b'f') => Error::invalid_type(Unexpected::Bool(false), expected),
            Some(b'"') => match self.scanner.text().map_err(syntax) {
                // A longer text is cut, and shown as it is written.
                Ok((written, _)) => match excerpt(written) {
                    Cow::Borrowed(whole) => match unescape(whole) {
                        Some(text) => Error::invalid_type(Unexpected::Str(&text), expected),
                        None => Error::custom("lone surrogate in an escape"),
                    },
                    text => Error::invalid_type(Unexpected::Str(&text), expected),
                },
                Err(error) => error,
            },
            _ => match self.raw() {
                Ok(number) => {
                    Error::invalid_type(Unexpected::Other(&format!("number `{}`", excerpt(number))), expected)
                }
                Err(error) => error,
            },
        }
    }

    /// Opens a bracket, calls `visit` with its inside, and closes it.
    fn inside<T>(
        &mut self,
        bracket: u8,
        visit: impl FnOnce(&mut Elements<'_, 'de>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.scanner.expect(bracket).map_err(syntax)?;
        self.depth = self.depth.checked_sub(1).ok_or_else(|| Error::custom("recursion limit exceeded"))?;
        let mut inside = Elements { reader: self, first: true, over: false };
        let value = visit(&mut inside)?;
        let over = inside.over;
        self.depth += 1;
        if !over {
            let closing = if bracket == b'{' { b'}' } else { b']' };
            self.scanner.skip_white_space();
            self.scanner.expect(closing).map_err(|_| Error::custom("trailing characters"))?;
        }
        Ok(value)
    }
}

#[cold]
fn syntax(_: ScanError) -> Error {
    Error::custom("invalid JSON")
}

/// Reads all of `text` with serde_json.
fn whole<'de, T>(text: &'de str, read: impl FnOnce(&mut Other<'de>) -> Result<T, Error>) -> Result<T, Error> {
    let mut other = Other::from_str(text);
    let value = read(&mut other)?;
    other.end()?;
    Ok(value)
}

/// Visits a text as borrowed or owned.
fn visit_text<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value, Error> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

/// Deserializes numbers; most are short and whole.
macro_rules! numbers {
    ($($deserialize:ident)*) => {
        $(
            fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
                match self.scanner.peek() {
                    Some(b'-' | b'0'..=b'9') => {
                        let number = self.raw()?;
                        match short_integer(number) {
                            Some(number) => visitor.visit_u64(number),
                            None => whole(number, |number| number.$deserialize(visitor)),
                        }
                    }
                    _ => Err(self.unexpected(&visitor)),
                }
            }
        )*
    };
}

/// Returns the number, if it has at most 18 digits and nothing else.
pub(crate) fn short_integer(number: &str) -> Option<u64> {
    if number.len() > 18 {
        return None;
    }
    number.bytes().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| 10 * sum + u64::from(digit - b'0')))
}

macro_rules! left_to_serde_json {
    ($($deserialize:ident)*) => {
        $(
            fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
                self.others(|other| other.$deserialize(visitor))
            }
        )*
    };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            Some(b'"') => visit_text(self.text()?, visitor),
            Some(b'{') => self.inside(b'{', |members| visitor.visit_map(members)),
            Some(b'[') => self.inside(b'[', |elements| visitor.visit_seq(elements)),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            Some(b'n') => self.deserialize_unit(visitor),
            // How a number is decoded depends on the features of serde_json.
            _ => self.others(|other| other.deserialize_any(visitor)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            Some(b't' | b'f') => {
                let value = self.raw()? == "true";
                visitor.visit_bool(value)
            }
            _ => Err(self.unexpected(&visitor)),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
    }

    left_to_serde_json! { deserialize_i128 deserialize_u128 deserialize_bytes deserialize_byte_buf }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            Some(b'"') => visit_text(self.text()?, visitor),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            Some(b'n') => {
                self.raw()?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            Some(b'n') => {
                self.raw()?;
                visitor.visit_unit()
            }
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        if name == direct::TEXT {
            // A type that reads the whole text does not need the end of the value.
            let is_all = self.scanner.since(0).trim_ascii().is_empty();
            return visitor.visit_newtype_struct(ValueText(if is_all { self.take_all() } else { self.raw()? }));
        }
        match text::raw_name() {
            Some(raw) if raw == name => ValueText(self.raw()?).deserialize_any(visitor),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            Some(b'[') => self.inside(b'[', |elements| visitor.visit_seq(elements)),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            Some(b'{') => self.inside(b'{', |members| visitor.visit_map(members)),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            Some(b'[') => self.inside(b'[', |elements| visitor.visit_seq(elements)),
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.scanner.peek() {
            // A unit variant, which is the usual case.
            Some(b'"') => {
                let text = self.text()?;
                visitor.visit_enum(IntoDeserializer::<Error>::into_deserializer(&*text))
            }
            _ => self.others(|other| other.deserialize_enum(name, variants, visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.raw()?;
        visitor.visit_unit()
    }
}

/// The inside of an object or an array.
struct Elements<'a, 'de> {
    reader: &'a mut Reader<'de>,
    first: bool,
    /// Whether the closing bracket was read.
    over: bool,
}

impl<'de> SeqAccess<'de> for &mut Elements<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let first = core::mem::replace(&mut self.first, false);
        if self.over || !self.reader.scanner.begin_element(first).map_err(syntax)? {
            self.over = true;
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

impl<'de> MapAccess<'de> for &mut Elements<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let first = core::mem::replace(&mut self.first, false);
        if self.over {
            return Ok(None);
        }
        let Some(name) = self.reader.scanner.next_member(first).map_err(syntax)? else {
            self.over = true;
            return Ok(None);
        };
        seed.deserialize(MemberName(name)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(&mut *self.reader)
    }
}

/// The name of a member, which may be a key of any scalar type.
struct MemberName<'de>(StringToken<'de>);

impl<'de> MemberName<'de> {
    fn text(&self) -> Result<Cow<'de, str>, Error> {
        self.0.text().ok_or_else(|| Error::custom("lone surrogate in an escape"))
    }

    /// Reads the name as a number with serde_json.
    fn number<T>(self, read: impl FnOnce(&mut Other<'de>) -> Result<T, Error>) -> Result<T, Error> {
        match self.text()? {
            Cow::Borrowed(text)
                if text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
                    && text.ends_with(|last: char| last.is_ascii_digit()) =>
            {
                whole(text, read)
            }
            _ => Err(Error::custom("invalid value: expected key to be a number in quotes")),
        }
    }
}

macro_rules! numbers_in_quotes {
    ($($deserialize:ident)*) => {
        $(
            fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
                self.number(|number| number.$deserialize(visitor))
            }
        )*
    };
}

impl<'de> Deserializer<'de> for MemberName<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visit_text(self.text()?, visitor)
    }

    numbers_in_quotes! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &*self.text()? {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            text => Err(Error::invalid_type(Unexpected::Str(text), &visitor)),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.text()? {
            Cow::Borrowed(text) => visitor.visit_borrowed_bytes(text.as_bytes()),
            Cow::Owned(text) => visitor.visit_byte_buf(text.into_bytes()),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        match text::raw_name() {
            // The text of a name has its quotes.
            Some(raw) if raw == name => ValueText(self.0.quoted()).deserialize_any(visitor),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(IntoDeserializer::<Error>::into_deserializer(&*self.text()?))
    }

    forward_to_deserialize_any! {
        char str string unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// Returns `text`, which must be one JSON value and is not checked, as a raw value of serde_json.
pub(crate) fn raw(text: &str) -> Result<&RawValue, Error> {
    <&RawValue>::deserialize(ValueText(text))
}

/// A deserializer that has the text of a value.
struct ValueText<'a>(&'a str);

impl<'de> Deserializer<'de> for ValueText<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(value::MapDeserializer::new(iter::once((text::raw_name().unwrap_or_default(), Raw(self.0)))))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The text of a value as the member of a map.
struct Raw<'de>(&'de str);

impl<'de> IntoDeserializer<'de, Error> for Raw<'de> {
    type Deserializer = value::BorrowedStrDeserializer<'de, Error>;

    fn into_deserializer(self) -> Self::Deserializer {
        value::BorrowedStrDeserializer::new(self.0)
    }
}

#[cfg(test)]
mod tests;
