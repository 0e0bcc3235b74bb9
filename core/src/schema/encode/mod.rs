//! How objects are written: with what a revision has, without what it does not have.

mod members;
mod rule;

use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;

use serde_core::{Serialize, Serializer, ser};
use serde_json::Number;

use crate::{
    protocol::ProtocolVersion,
    wire::{Json, JsonObject, RequestId, encode},
};

pub(crate) use members::Members;
pub(crate) use rule::Rule;

/// A value that is written differently for different revisions.
///
/// With a revision, what that revision does not have is left out where it only adds to the picture (a title, an
/// icon), and is an error where the message would mean something else without it. With `None` everything is written.
pub trait Encode {
    /// Writes the value in the form that `version` has for it.
    ///
    /// # Errors
    /// If `version` has no form for it, and those of the serializer.
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error>;

    /// Writes that form as text. What is sent most often knows a shorter way than through a serializer.
    ///
    /// # Errors
    /// As [`encode_at`](Self::encode_at). What `out` was given before is of no use then.
    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        out.value(&At(self, version))
    }
}

/// JSON text while it is written: on one line, whoever writes it, since on most transports a line is a message.
#[derive(Debug)]
pub struct JsonLine<'a>(&'a mut Vec<u8>);

impl<'a> JsonLine<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self(out)
    }

    /// Appends the text of `value`. Line breaks between tokens of JSON that it has as text ([`Json`]) become spaces.
    ///
    /// # Errors
    /// Those of `value`, and for keys that are no strings.
    pub fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), serde_json::Error> {
        encode::value(self.0, value)
    }

    /// Appends a string, in quotes and escaped.
    pub fn string(&mut self, text: &str) {
        encode::text(self.0, text);
    }

    /// Appends part of a value, as it is. It has no line break.
    pub(crate) fn part(&mut self, json: &'static str) {
        self.0.extend_from_slice(json.as_bytes());
    }
}

/// A value together with the revision to write it for, for whoever wants a [`Serialize`].
#[derive(Debug)]
pub struct At<'a, T: ?Sized>(pub &'a T, pub Option<ProtocolVersion>);

impl<T: Encode + ?Sized> Serialize for At<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.encode_at(self.1, serializer)
    }
}

macro_rules! in_every_revision {
    ($($Type:ty),*) => {
        $(impl Encode for $Type {
            fn encode_at<S: Serializer>(&self, _version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
                self.serialize(serializer)
            }
        })*
    };
}

in_every_revision!(String, bool, i64, u64, Number, Json, JsonObject, RequestId);

impl<T: Encode> Encode for Vec<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|item| At(item, version)))
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.encode_at(version, serializer),
            None => serializer.serialize_none(),
        }
    }
}

impl<T: Encode + ?Sized> Encode for Box<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).encode_at(version, serializer)
    }
}

/// The error for something that a revision does not have.
#[cold]
pub(crate) fn absent<E: ser::Error>(what: impl fmt::Display, version: ProtocolVersion) -> E {
    E::custom(format_args!("{what} is not part of {version}"))
}

/// The error for something that a revision has, but not with this value.
#[cold]
pub(crate) fn unfit<E: ser::Error>(what: impl fmt::Display, version: ProtocolVersion) -> E {
    E::custom(format_args!("{what} has a value that {version} does not allow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_written_is_one_line() {
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
