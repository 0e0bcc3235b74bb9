//! The two outputs of a value: JSON text, and any serializer of serde.

use core::fmt;

use serde_core::{
    Serializer,
    ser::{self, Error as _, SerializeMap},
};
use serde_json::Error;

use super::{At, Encode, JsonLine};
use crate::{
    protocol::ProtocolVersion,
    wire::{RawJson, encode, scan::StringToken},
};

/// An output for a value. Each type describes its form once, for both outputs.
pub(crate) trait Output: Sized {
    type Done;
    type Error: ser::Error;
    type Object: Entries<Done = Self::Done, Error = Self::Error>;

    /// Writes another value.
    fn value<T: Encode + ?Sized>(self, value: &T, version: Option<ProtocolVersion>) -> Result<Self::Done, Self::Error>;

    /// Writes a string.
    fn string(self, text: &str) -> Result<Self::Done, Self::Error>;

    /// Opens an object.
    fn object(self) -> Result<Self::Object, Self::Error>;
}

/// An object that is being written.
pub(crate) trait Entries {
    type Done;
    type Error: ser::Error;

    /// Writes a member that the schema defines.
    fn member<T: Encode + ?Sized>(
        &mut self,
        name: Name,
        value: &T,
        version: Option<ProtocolVersion>,
    ) -> Result<(), Self::Error>;

    /// Writes a member whose value is a word that the schema defines.
    fn word(&mut self, name: Name, word: Word) -> Result<(), Self::Error>;

    /// Writes a member whose name is not defined by the schema.
    fn named<T: Encode + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
        version: Option<ProtocolVersion>,
    ) -> Result<(), Self::Error>;

    /// Writes a member as it was received.
    fn kept(&mut self, name: StringToken<'_>, value: &RawJson<'_>) -> Result<(), Self::Error>;

    /// Closes the object.
    fn end(self) -> Result<Self::Done, Self::Error>;
}

/// The name of a member with its punctuation: `,"name":`.
#[derive(Clone, Copy)]
pub(crate) struct Name(&'static str);

impl Name {
    /// Creates a name from its text with the punctuation.
    pub(crate) const fn new(written: &'static str) -> Self {
        let bytes = written.as_bytes();
        assert!(bytes[0] == b',' && bytes[bytes.len() - 1] == b':' && is_plain(bytes, 1, bytes.len() - 1));
        Self(written)
    }

    fn as_str(self) -> &'static str {
        &self.0[2..self.0.len() - 2]
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word of the schema in quotes.
#[derive(Clone, Copy)]
pub(crate) struct Word(&'static str);

impl Word {
    /// Creates a word from its text with the quotes.
    pub(crate) const fn new(written: &'static str) -> Self {
        assert!(is_plain(written.as_bytes(), 0, written.len()));
        Self(written)
    }

    fn as_str(self) -> &'static str {
        &self.0[1..self.0.len() - 1]
    }
}

/// Returns whether these bytes are a JSON string without escapes.
const fn is_plain(bytes: &[u8], start: usize, end: usize) -> bool {
    let mut at = start + 1;
    while at + 1 < end {
        if !matches!(bytes[at], b' '..=b'~') || matches!(bytes[at], b'"' | b'\\') {
            return false;
        }
        at += 1;
    }
    bytes[start] == b'"' && bytes[end - 1] == b'"' && start + 1 < end
}

impl<S: Serializer> Output for S {
    type Done = S::Ok;
    type Error = S::Error;
    type Object = S::SerializeMap;

    fn value<T: Encode + ?Sized>(self, value: &T, version: Option<ProtocolVersion>) -> Result<S::Ok, S::Error> {
        value.encode_at(version, self)
    }

    fn string(self, text: &str) -> Result<S::Ok, S::Error> {
        self.serialize_str(text)
    }

    fn object(self) -> Result<S::SerializeMap, S::Error> {
        self.serialize_map(None)
    }
}

impl<M: SerializeMap> Entries for M {
    type Done = M::Ok;
    type Error = M::Error;

    fn member<T: Encode + ?Sized>(
        &mut self,
        name: Name,
        value: &T,
        version: Option<ProtocolVersion>,
    ) -> Result<(), M::Error> {
        self.serialize_entry(name.as_str(), &At(value, version))
    }

    fn word(&mut self, name: Name, word: Word) -> Result<(), M::Error> {
        self.serialize_entry(name.as_str(), word.as_str())
    }

    fn named<T: Encode + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
        version: Option<ProtocolVersion>,
    ) -> Result<(), M::Error> {
        self.serialize_entry(name, &At(value, version))
    }

    fn kept(&mut self, name: StringToken<'_>, value: &RawJson<'_>) -> Result<(), M::Error> {
        match name.text() {
            Some(name) => self.serialize_entry(&*name, value),
            None => Err(M::Error::custom("the name of a member has half of a surrogate pair")),
        }
    }

    fn end(self) -> Result<M::Ok, M::Error> {
        SerializeMap::end(self)
    }
}

impl<'a, 'out> Output for &'a mut JsonLine<'out> {
    type Done = ();
    type Error = Error;
    type Object = ObjectText<'a, 'out>;

    #[inline]
    fn value<T: Encode + ?Sized>(self, value: &T, version: Option<ProtocolVersion>) -> Result<(), Error> {
        value.append_at(version, self)
    }

    #[inline]
    fn string(self, text: &str) -> Result<(), Error> {
        JsonLine::string(self, text);
        Ok(())
    }

    #[inline]
    fn object(self) -> Result<ObjectText<'a, 'out>, Error> {
        Ok(ObjectText { start: self.0.len(), line: self })
    }
}

/// An object that is written as text.
pub(crate) struct ObjectText<'a, 'out> {
    line: &'a mut JsonLine<'out>,
    /// The position of the opening brace. Each member is written with a comma before it; the first comma is replaced by
    /// the brace.
    start: usize,
}

impl ObjectText<'_, '_> {
    fn name(&mut self, name: &str) {
        self.line.0.push(b',');
        self.line.string(name);
        self.line.0.push(b':');
    }
}

impl Entries for ObjectText<'_, '_> {
    type Done = ();
    type Error = Error;

    #[inline]
    fn member<T: Encode + ?Sized>(
        &mut self,
        name: Name,
        value: &T,
        version: Option<ProtocolVersion>,
    ) -> Result<(), Error> {
        self.line.part(name.0);
        value.append_at(version, self.line)
    }

    #[inline]
    fn word(&mut self, name: Name, word: Word) -> Result<(), Error> {
        self.line.part(name.0);
        self.line.part(word.0);
        Ok(())
    }

    fn named<T: Encode + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
        version: Option<ProtocolVersion>,
    ) -> Result<(), Error> {
        self.name(name);
        value.append_at(version, self.line)
    }

    fn kept(&mut self, name: StringToken<'_>, value: &RawJson<'_>) -> Result<(), Error> {
        match name.ready() {
            Some(name) => {
                [",\"", name, "\":"].into_iter().for_each(|part| self.line.0.extend_from_slice(part.as_bytes()))
            }
            None => self.name(&name.shown()),
        }
        encode::raw(self.line.0, value.get());
        Ok(())
    }

    #[inline]
    fn end(self) -> Result<(), Error> {
        match self.line.0.get_mut(self.start) {
            Some(first) => *first = b'{',
            None => self.line.0.push(b'{'),
        }
        self.line.0.push(b'}');
        Ok(())
    }
}
