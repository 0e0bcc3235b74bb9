//! JSON text that stays text: values of the user are not parsed until they are decoded as a type of the user.

use alloc::{boxed::Box, string::String};
use core::fmt;

use serde_core::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use super::{
    RawJson, one_line,
    reader::{RawText, read},
};

/// One JSON value, kept byte for byte as it was received or written.
///
/// Numbers keep their spelling, objects keep their order and unknown members. Two values are equal if their texts are
/// equal; two spellings of one value are not.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Box<str>);

impl Json {
    /// Encodes `value` as JSON.
    ///
    /// # Errors
    /// Returns an error if JSON cannot represent `value`, such as a map with keys that are not strings.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self::from)
    }

    /// Creates a value from `text`, which must be one JSON value.
    ///
    /// # Errors
    /// Returns a syntax error if it is not.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self::from)
    }

    /// Creates a value from a copy of `text`, which has been scanned already.
    pub(crate) fn trusted(text: &str) -> Self {
        Self(text.into())
    }

    /// Creates a value from `text`, which has been written as one value.
    pub(crate) fn whole(text: String) -> Self {
        Self(text.into())
    }

    /// Returns the text, without surrounding white space.
    #[must_use]
    pub fn get(&self) -> &str {
        &self.0
    }

    /// Decodes the text as `T`, which may borrow from it.
    ///
    /// # Errors
    /// Returns an error if the text does not fit `T`.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        read(self.get())
    }

    /// Returns whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    /// Returns whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawJson::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawText::deserialize(deserializer).map(|text| Self(text.0.into()))
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw.into())
    }
}

/// One JSON object, kept byte for byte. Two objects are equal if their texts are equal.
///
/// Objects made by [`new`](Self::new) or [`parse`](Self::parse) are checked once for the rules that params and results
/// must satisfy before they are sent.
#[derive(Clone)]
pub struct JsonObject(
    /// The text, followed by [`READY`] if the object was checked and can be sent without changes. The mark takes less
    /// memory than a flag; each connection keeps such an object for the capabilities of its peer.
    Box<str>,
);

/// A character that no object ends with.
const READY: char = ' ';

impl JsonObject {
    /// Creates an object without members.
    #[must_use]
    pub fn empty() -> Self {
        Self("{}".into())
    }

    /// Encodes `value` as JSON, which must be an object.
    ///
    /// # Errors
    /// As [`Json::new`]; also if `value` is not an object.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Json::new(value)?.try_into().map(Self::validated)
    }

    /// Creates an object from `text`, which must be one JSON object.
    ///
    /// # Errors
    /// Returns an error if it is not.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        Json::parse(text)?.try_into().map(Self::validated)
    }

    fn validated(self) -> Self {
        if one_line::line_break(self.0.as_bytes()).is_some() || RawJson::from(&self).is_ambiguous() {
            return self;
        }
        let mut text = String::from(self.0);
        text.reserve_exact(READY.len_utf8());
        text.push(READY);
        Self(text.into())
    }

    /// Returns whether the object was checked and can be sent without changes, as params or as a result.
    pub(super) fn is_ready(&self) -> bool {
        self.0.ends_with(READY)
    }

    /// Returns the text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.strip_suffix(READY).unwrap_or(&self.0)
    }

    /// Decodes the text as `T`, which may borrow from it.
    ///
    /// # Errors
    /// Returns an error if the text does not fit `T`.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        read(self.get())
    }
}

impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for JsonObject {}

impl TryFrom<Json> for JsonObject {
    type Error = serde_json::Error;

    fn try_from(json: Json) -> Result<Self, serde_json::Error> {
        if json.is_object() { Ok(Self(json.0)) } else { Err(de::Error::custom("expected an object")) }
    }
}

impl From<JsonObject> for Json {
    fn from(object: JsonObject) -> Self {
        let mut text = String::from(object.0);
        if text.ends_with(READY) {
            text.pop();
        }
        Self(text.into())
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawJson::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::deserialize(deserializer)?.try_into().map_err(|_| de::Error::custom("expected an object"))
    }
}

#[cfg(test)]
mod tests {
    use alloc::{borrow::ToOwned, format};

    use super::*;

    #[test]
    fn ready_flag_does_not_affect_equality() {
        for (text, is_ready) in [
            ("{}", true),
            (r#"{"name":"echo","arguments":{"a":1,"a":2},"own":1,"own":2}"#, true),
            (r#"{"name":1,"name":2}"#, false),
            (r#"{"n\u0061me":1,"name":2}"#, false),
            (r#"{"_meta":{"progressToken":1,"progressToken":2}}"#, false),
            ("{\"name\":\n1}", false),
            ("{\"name\":\r1}", false),
            ("{\"name\":1 }", true),
        ] {
            let made = JsonObject::parse(format!(" {text}\n ")).expect(text);
            let read: JsonObject = read(text).expect(text);
            assert_eq!((made.is_ready(), read.is_ready()), (is_ready, false), "{text}");
            assert_eq!((made.get(), read.get(), &made), (text, text, &read));
            assert_eq!((format!("{made:?}"), RawJson::from(&made).get()), (text.to_owned(), text));
            assert_eq!(serde_json::to_string(&made).expect(text), text);
            assert_eq!((Json::from(made), Json::from(read)), (Json(text.into()), Json(text.into())));
        }
    }
}
