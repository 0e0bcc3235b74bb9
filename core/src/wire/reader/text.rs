//! Texts of the input, and values that are not read yet.

use alloc::{
    borrow::{Cow, ToOwned},
    string::{String, ToString},
};
use core::fmt;

use serde_core::{
    Deserialize, Deserializer,
    de::{self, Error as _, IgnoredAny, MapAccess, Visitor},
    forward_to_deserialize_any,
};
use serde_json::{Value, value::RawValue};

/// The name of a member or of a kind, borrowed from the input unless it has escapes.
pub(crate) struct Name<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text)))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// The text of a value, borrowed from the input where possible.
///
/// serde_json has a borrowed and an owned type of raw text, but none for either. Both use the same name to request it.
/// For a deserializer without text, the value is written as text.
pub(crate) struct RawText<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for RawText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Raw;

        impl<'de> Visitor<'de> for Raw {
            type Value = RawText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any valid JSON value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawText<'de>, A::Error> {
                match map.next_entry::<IgnoredAny, Name<'de>>()? {
                    Some((_, text)) => Ok(RawText(text.0)),
                    None => Err(A::Error::custom("not a raw value")),
                }
            }

            /// Reads a deserializer that has values but no text, such as those of serde for fields of enums and
            /// flattened structs.
            fn visit_newtype_struct<D: Deserializer<'de>>(self, other: D) -> Result<RawText<'de>, D::Error> {
                Value::deserialize(other).map(|value| RawText(Cow::Owned(value.to_string())))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<RawText<'de>, E> {
                Ok(RawText(Cow::Owned(Value::from(word).to_string())))
            }
        }

        match raw_name() {
            Some(name) => deserializer.deserialize_newtype_struct(name, Raw),
            None => Err(D::Error::custom("serde_json has no raw values")),
        }
    }
}

/// Returns the name with which the types of serde_json request the text of a value. Finds it by a request of one of
/// them.
pub(super) fn raw_name() -> Option<&'static str> {
    match <&RawValue>::deserialize(NameProbe) {
        Err(NewtypeName(name)) => Some(name),
        Ok(_) => None,
    }
}

/// A deserializer without values that records the name of the requested newtype.
struct NameProbe;

/// The name of the requested newtype.
#[derive(Debug)]
struct NewtypeName(&'static str);

impl fmt::Display for NewtypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for NewtypeName {}

impl de::Error for NewtypeName {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self("")
    }
}

impl<'de> Deserializer<'de> for NameProbe {
    type Error = NewtypeName;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NewtypeName> {
        Err(NewtypeName(""))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, _: V) -> Result<V::Value, NewtypeName> {
        Err(NewtypeName(name))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_core::de::{IntoDeserializer as _, value};

    #[test]
    fn other_values_are_refused_with_what_is_expected() {
        let error = serde_json::from_str::<Name<'_>>("1").map(|_| ()).expect_err("no string").to_string();
        assert_eq!(error, "invalid type: integer `1`, expected a string at line 1 column 1");
        let nothing: value::UnitDeserializer<value::Error> = ().into_deserializer();
        let error = RawText::deserialize(nothing).map(|_| ()).expect_err("no text").to_string();
        assert_eq!(error, "invalid type: unit value, expected any valid JSON value");
        let name = |json: &str| serde_json::from_str::<Name<'_>>(json).map(|name| name.0.into_owned()).ok();
        assert_eq!((name(r#""a""#).as_deref(), name(r#""\u0061""#).as_deref()), (Some("a"), Some("a")));
        assert_eq!(NewtypeName("x").to_string(), "x");
        assert!(raw_name().is_some_and(|name| name.contains("RawValue")));
    }
}
