//! JSON text that stays text: what belongs to the user is not parsed until the user's own type asks for it.

use alloc::{boxed::Box, string::String};
use core::fmt;

use serde_core::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use super::{
    RawJson,
    reader::{RawText, read},
};

/// One JSON value, kept byte for byte as it came in or as its owner wrote it.
///
/// Numbers keep their spelling, objects their order and their unknown members. Equal are equal texts: two spellings of the
/// same value are not.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Box<str>);

impl Json {
    /// The JSON text of `value`.
    ///
    /// # Errors
    /// What `value` says of itself that JSON cannot hold, such as a map with keys that are not strings.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self::from)
    }

    /// Takes over `text`, which must be one JSON value.
    ///
    /// # Errors
    /// A syntax error if it is not.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self::from)
    }

    /// Copies `text`, which has been scanned already.
    pub(crate) fn trusted(text: &str) -> Self {
        Self(text.into())
    }

    /// Takes over `text`, which has been written as one value.
    pub(crate) fn whole(text: String) -> Self {
        Self(text.into())
    }

    /// The text, without surrounding white space.
    #[must_use]
    pub fn get(&self) -> &str {
        &self.0
    }

    /// Decodes the text as `T`, which may borrow from it.
    ///
    /// # Errors
    /// What `T` has against the text.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        read(self.get())
    }

    /// Whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    /// Whether the value is `null`.
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

/// One JSON object, kept byte for byte.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonObject(Json);

impl JsonObject {
    /// The object without members.
    #[must_use]
    pub fn empty() -> Self {
        Self(Json("{}".into()))
    }

    /// The JSON text of `value`, which must come out as an object.
    ///
    /// # Errors
    /// As [`Json::new`], and if it is not an object.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Json::new(value)?.try_into()
    }

    /// Takes over `text`, which must be one JSON object.
    ///
    /// # Errors
    /// If it is not.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        Json::parse(text)?.try_into()
    }

    /// The text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Decodes the text as `T`, which may borrow from it.
    ///
    /// # Errors
    /// What `T` has against the text.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        self.0.decode()
    }
}

impl TryFrom<Json> for JsonObject {
    type Error = serde_json::Error;

    fn try_from(json: Json) -> Result<Self, serde_json::Error> {
        if json.is_object() { Ok(Self(json)) } else { Err(de::Error::custom("expected an object")) }
    }
}

impl From<JsonObject> for Json {
    fn from(object: JsonObject) -> Self {
        object.0
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::deserialize(deserializer)?.try_into().map_err(|_| de::Error::custom("expected an object"))
    }
}
