//! The values of members.

use alloc::{string::String, vec::Vec};
use core::fmt;

use serde_core::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, Error as _, Visitor},
};
use serde_json::Number;

use super::{Extra, RawText};
use crate::wire::{Json, JsonObject, RequestId, reader::read};

/// What can be the value of a member.
pub(crate) trait Member: DeserializeOwned {
    /// Reads the value.
    fn decode<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Self::deserialize(value)
    }

    /// Reads the value from its text; `None` if it is something else.
    fn parse(text: &str) -> Option<Self> {
        read::<Seed<Self>>(text).ok().map(|seed| seed.0)
    }

    /// Reads the value, or keeps it as it is if it is something else.
    fn salvage<'de, D: Deserializer<'de>>(value: D) -> Result<Result<Self, Json>, D::Error> {
        let text = RawText::deserialize(value)?.0;
        match Self::parse(&text) {
            Some(value) => Ok(Ok(value)),
            None => Ok(Err(Json::trusted(&text))),
        }
    }
}

/// Leads serde to [`Member::decode`].
struct Seed<T>(T);

impl<'de, T: Member> Deserialize<'de> for Seed<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        T::decode(value).map(Self)
    }
}

impl<T: Member> Member for Vec<T> {}
impl Member for Number {}
impl Member for RequestId {}
impl Member for i64 {}

impl Member for bool {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }
}

impl Member for String {}

impl Member for Json {
    fn salvage<'de, D: Deserializer<'de>>(value: D) -> Result<Result<Self, Json>, D::Error> {
        Self::deserialize(value).map(Ok)
    }
}

impl Member for JsonObject {
    fn salvage<'de, D: Deserializer<'de>>(value: D) -> Result<Result<Self, Json>, D::Error> {
        let json = Json::deserialize(value)?;
        if json.is_object() { Self::try_from(json).map(Ok).map_err(D::Error::custom) } else { Ok(Err(json)) }
    }
}

impl Member for u64 {
    /// Also accepts an integer that was written with a fraction or an exponent, such as `100.0`.
    fn decode<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
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

        value.deserialize_u64(Integer)
    }
}

fn fill<T, E: de::Error>(slot: &mut Option<T>, value: T) -> Result<(), E> {
    if slot.replace(value).is_some() { Err(E::custom("given twice")) } else { Ok(()) }
}

/// The members of params: of the right type, or `null` where they are optional.
pub(crate) mod strict {
    use super::{Deserialize, Deserializer, Extra, Member, Seed, fill};

    pub(crate) const STRICT: bool = true;

    pub(crate) fn required<'de, T: Member, D: Deserializer<'de>>(
        slot: &mut Option<T>,
        _extra: &mut Extra,
        _name: &str,
        value: D,
    ) -> Result<(), D::Error> {
        fill(slot, T::decode(value)?)
    }

    pub(crate) fn optional<'de, T: Member, D: Deserializer<'de>>(
        slot: &mut Option<Option<T>>,
        _extra: &mut Extra,
        _name: &str,
        value: D,
    ) -> Result<(), D::Error> {
        fill(slot, Option::<Seed<T>>::deserialize(value)?.map(|seed| seed.0))
    }

    pub(crate) use self::optional as nullable;
}

/// The members of results and of data: an optional one of the wrong type is kept aside.
pub(crate) mod lenient {
    use super::{Deserializer, Extra, Member, fill};

    pub(crate) use super::strict::{nullable, required};

    pub(crate) const STRICT: bool = false;

    pub(crate) fn optional<'de, T: Member, D: Deserializer<'de>>(
        slot: &mut Option<Option<T>>,
        extra: &mut Extra,
        name: &str,
        value: D,
    ) -> Result<(), D::Error> {
        match T::salvage(value)? {
            Ok(value) => fill(slot, Some(value)),
            Err(json) => {
                extra.push(name, json);
                fill(slot, None)
            }
        }
    }
}
