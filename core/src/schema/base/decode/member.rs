//! The values of members.

use alloc::{string::String, vec::Vec};
use core::fmt;

use serde_core::{
    Deserialize, Deserializer,
    de::{self, Error as _, Visitor},
};
use serde_json::{Error, Number};

use super::Extra;
use crate::wire::{
    Json, JsonObject, RequestId,
    reader::{Reader, short_integer},
};

/// A type of the value of a member.
pub(crate) trait Member: Sized {
    /// Reads the next value.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error>;
}

impl<T: Member> Member for Vec<T> {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let mut list = Self::new();
        reader.elements(&"a sequence", |reader| {
            let element = T::read(reader)?;
            if list.is_empty() {
                // Most lists have one element, and the default capacity of four elements would waste memory.
                list = Self::with_capacity(1);
            }
            list.push(element);
            Ok(())
        })?;
        Ok(list)
    }
}

impl Member for Number {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        match reader.peek() {
            Some(b'-' | b'0'..=b'9') => {
                let number = reader.raw()?;
                short_integer(number).map_or_else(|| number.parse(), |integer| Ok(integer.into()))
            }
            _ => Err(reader.unexpected(&"a JSON number")),
        }
    }
}

impl Member for i64 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Self::deserialize(reader)
    }
}

impl Member for RequestId {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Self::from_token(reader.raw()?).ok_or_else(|| Error::custom("expected a string or an integer"))
    }
}

impl Member for bool {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Self::deserialize(reader)
    }
}

impl Member for String {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        reader.string().map(Self::from)
    }
}

impl Member for Json {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        reader.raw().map(Self::trusted)
    }
}

impl Member for JsonObject {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Json::read(reader)?.try_into()
    }
}

impl Member for u64 {
    /// Reads an integer, also one that is spelled with a fraction or an exponent, such as `100.0`.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        struct Integer;

        impl Visitor<'_> for Integer {
            type Value = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer that is not negative")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
                Ok(value)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
                value.try_into().map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<u64, E> {
                // The first float that does not fit any more; below it the conversion is exact for integers.
                const END: f64 = 18_446_744_073_709_551_616.0;
                let integer = value as u64;
                if (0.0..END).contains(&value) && integer as f64 == value {
                    Ok(integer)
                } else {
                    Err(E::invalid_value(de::Unexpected::Float(value), &self))
                }
            }
        }

        reader.deserialize_u64(Integer)
    }
}

fn fill<T>(slot: &mut Option<T>, value: T) -> Result<(), Error> {
    // This moves less than `replace`.
    if slot.is_some() {
        return Err(twice());
    }
    *slot = Some(value);
    Ok(())
}

#[cold]
fn twice() -> Error {
    Error::custom("duplicate member")
}

/// Members of params: of the right type, or `null` if they are optional.
pub(crate) mod strict {
    use super::{Error, Extra, Member, Reader, fill};

    pub(crate) const STRICT: bool = true;

    pub(crate) fn required<T: Member>(
        slot: &mut Option<T>,
        _extra: &mut Extra,
        _name: &str,
        reader: &mut Reader<'_>,
    ) -> Result<(), Error> {
        fill(slot, T::read(reader)?)
    }

    pub(crate) fn optional<T: Member>(
        slot: &mut Option<Option<T>>,
        _extra: &mut Extra,
        _name: &str,
        reader: &mut Reader<'_>,
    ) -> Result<(), Error> {
        let value = if reader.null()? { None } else { Some(T::read(reader)?) };
        fill(slot, value)
    }

    pub(crate) use self::optional as nullable;
}

/// Members of results and of data: an optional one of the wrong type is kept in `extra`.
pub(crate) mod lenient {
    use super::{Error, Extra, Member, Reader, fill};

    pub(crate) use super::strict::{nullable, required};

    pub(crate) const STRICT: bool = false;

    pub(crate) fn optional<T: Member>(
        slot: &mut Option<Option<T>>,
        extra: &mut Extra,
        name: &str,
        reader: &mut Reader<'_>,
    ) -> Result<(), Error> {
        if let Some(value) = reader.attempt(T::read) {
            return fill(slot, Some(value));
        }
        extra.push(name, reader.raw()?);
        fill(slot, None)
    }
}
