//! Encoding for a revision: with the members that it has, and without others.

mod members;
mod output;
mod rule;

use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;

use serde_core::{Serialize, Serializer, ser};
use serde_json::{Error, Number};

use crate::{
    protocol::ProtocolVersion,
    wire::{Json, JsonObject, RequestId, encode},
};

pub(crate) use members::Members;
pub(crate) use output::{Entries, Name, Output, Word};
pub(crate) use rule::Rule;

/// A value whose encoding depends on the revision.
///
/// For a revision, members that the revision does not have are omitted if they only add information, such as a title or
/// an icon. They are an error if the message would have another meaning without them. With `None` every member is
/// written.
pub trait Encode {
    /// Serializes the value in the form that it has in `version`.
    ///
    /// # Errors
    /// Returns an error if `version` has no form for the value, and errors of the serializer.
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error>;

    /// Appends that form as JSON text. Types of the schema do so without a serializer, which is faster.
    ///
    /// # Errors
    /// As [`encode_at`](Self::encode_at). After an error, `out` may contain an incomplete value.
    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), Error> {
        out.value(&At(self, version))
    }
}

/// A writer of JSON text on one line, for transports that delimit messages by line breaks.
#[derive(Debug)]
pub struct JsonLine<'a>(&'a mut Vec<u8>);

impl<'a> JsonLine<'a> {
    /// Creates a writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self(out)
    }

    /// Appends the JSON text of `value`. Line breaks between the tokens of a [`Json`] in it become spaces.
    ///
    /// # Errors
    /// Returns errors of `value`, and an error for keys that are not strings.
    pub fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        encode::value(self.0, value)
    }

    /// Appends a string, in quotes and escaped.
    pub fn string(&mut self, text: &str) {
        encode::text(self.0, text);
    }

    /// Appends a part of a value unchanged. It has no line break.
    pub(crate) fn part(&mut self, json: &'static str) {
        self.0.extend_from_slice(json.as_bytes());
    }
}

/// A value together with the revision to write it for. Implements [`Serialize`].
#[derive(Debug)]
pub struct At<'a, T: ?Sized>(pub &'a T, pub Option<ProtocolVersion>);

impl<T: Encode + ?Sized> At<'_, T> {
    /// Returns the JSON text of the value for the revision, on one line.
    ///
    /// # Errors
    /// As [`Encode::append_at`].
    pub fn to_json(&self) -> Result<Json, Error> {
        let mut text = Vec::new();
        self.0.append_at(self.1, &mut JsonLine::new(&mut text))?;
        String::from_utf8(text).map(Json::whole).map_err(ser::Error::custom)
    }
}

impl<T: Encode + ?Sized> Serialize for At<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.encode_at(self.1, serializer)
    }
}

/// Implements every way to encode a type through its method `write`.
macro_rules! through_write {
    ($Type:ty $(where [$($parameters:tt)*])?) => {
        impl$(<$($parameters)*>)? crate::schema::Encode for $Type {
            fn encode_at<S: serde_core::Serializer>(
                &self,
                version: Option<crate::protocol::ProtocolVersion>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                self.write(version, serializer)
            }

            fn append_at(
                &self,
                version: Option<crate::protocol::ProtocolVersion>,
                out: &mut crate::schema::JsonLine<'_>,
            ) -> Result<(), serde_json::Error> {
                self.write(version, out)
            }
        }

        impl$(<$($parameters)*>)? serde_core::Serialize for $Type {
            fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.write(None, serializer)
            }
        }
    };
}

pub(crate) use through_write;

macro_rules! in_every_revision {
    ($($Type:ty: |$value:ident, $out:ident| $append:expr;)*) => {
        $(impl Encode for $Type {
            fn encode_at<S: Serializer>(&self, _version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
                self.serialize(serializer)
            }

            #[inline]
            fn append_at(&self, _version: Option<ProtocolVersion>, line: &mut JsonLine<'_>) -> Result<(), Error> {
                let ($value, $out) = (self, &mut *line.0);
                $append;
                Ok(())
            }
        })*
    };
}

in_every_revision! {
    String: |text, out| encode::text(out, text);
    bool: |value, out| out.extend_from_slice(if *value { b"true" } else { b"false" });
    i64: |number, out| encode::number(out, *number);
    u64: |number, out| encode::unsigned(out, *number);
    Number: |number, out| encode::value(out, number)?;
    Json: |json, out| encode::raw(out, json.get());
    JsonObject: |object, out| encode::raw(out, object.get());
    RequestId: |id, out| out.extend_from_slice(id.as_bytes());
}

impl<T: Encode> Encode for Vec<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|item| At(item, version)))
    }

    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), Error> {
        let mut before = "[";
        for item in self {
            out.part(before);
            item.append_at(version, out)?;
            before = ",";
        }
        out.part(if self.is_empty() { "[]" } else { "]" });
        Ok(())
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.encode_at(version, serializer),
            None => serializer.serialize_none(),
        }
    }

    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), Error> {
        match self {
            Some(value) => value.append_at(version, out),
            None => {
                out.part("null");
                Ok(())
            }
        }
    }
}

impl<T: Encode + ?Sized> Encode for Box<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).encode_at(version, serializer)
    }

    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), Error> {
        (**self).append_at(version, out)
    }
}

/// Returns the error for a feature that a revision does not have.
#[cold]
pub(crate) fn absent<E: ser::Error>(what: impl fmt::Display, version: ProtocolVersion) -> E {
    E::custom(format_args!("{what} is not part of {version}"))
}

/// Returns the error for a value that a revision does not have.
#[cold]
pub(crate) fn unfit<E: ser::Error>(what: impl fmt::Display, version: ProtocolVersion) -> E {
    E::custom(format_args!("{what} has a value that {version} does not allow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_values_contain_no_line_breaks() {
        let kept = |text| Json::parse(text).expect("JSON");
        let mut out = Vec::new();
        let mut line = JsonLine::new(&mut out);
        line.part("[");
        line.value(&[kept("[1,\n2]"), kept("{\"a\":\r\n\"b\"}")]).expect("it has been read");
        line.part(",");
        line.string("a\r\nb");
        line.part("]");
        assert_eq!(String::from_utf8(out).expect("text"), r#"[[[1, 2],{"a":  "b"}],"a\r\nb"]"#);
    }
}
