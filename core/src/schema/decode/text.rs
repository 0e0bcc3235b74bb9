//! Words, and texts that were read already.

use alloc::borrow::Cow;
use core::marker::PhantomData;

use serde_core::{
    Deserialize, Deserializer,
    de::{self, Visitor},
    forward_to_deserialize_any,
};

use crate::wire::reader::Name;

/// Reads a word of an open set.
pub(crate) fn word<'de, T: for<'a> From<&'a str>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Name::deserialize(deserializer).map(|name| T::from(&name.0))
}

/// A text that was read already, to be read by the type that wants it.
pub(super) struct Text<'a, E>(pub(super) Cow<'a, str>, pub(super) PhantomData<E>);

impl<'de, E: de::Error> Deserializer<'de> for Text<'_, E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
