//! How objects are read: one pass, members in any order, names compared where they lie in the input.
//!
//! The decoder knows no revisions. It reads what any revision may hold and keeps what it does not know.

mod member;
mod text;
mod union;

use core::{fmt, marker::PhantomData};

use serde_core::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor},
};

use super::Extra;
use crate::{
    protocol::VersionSet,
    wire::{Json, reader::Reader},
};

pub(crate) use crate::wire::reader::{Name, RawText};
pub(crate) use member::{Member, lenient, strict};
pub(crate) use text::word;
pub(crate) use union::{Opened, Union, Waiting, union, union_of};

/// An object that is read member by member.
pub(crate) trait Object: Sized {
    /// The members found so far.
    type Slots: Default;
    /// The name of the type, for errors.
    const NAME: &'static str;
    /// Whether the object is params: no optional member may have a wrong type.
    const STRICT: bool;
    /// The revisions that have it.
    #[cfg_attr(not(feature = "arbitrary"), expect(dead_code, reason = "only the generator asks"))]
    const VERSIONS: VersionSet;

    /// Takes in one member.
    fn member<'de, D: Deserializer<'de>>(slots: &mut Self::Slots, name: &str, value: D) -> Result<(), D::Error>;

    /// Builds the object out of all members.
    fn finish<E: de::Error>(slots: Self::Slots) -> Result<Self, E>;

    /// Whether it would be written as `{}`.
    fn is_empty(&self) -> bool;
}

/// Reads an object. Params may also be `null`, which is read like `{}`.
pub(crate) fn object<'de, T: Object, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    if T::STRICT {
        deserializer.deserialize_option(Whole(PhantomData))
    } else {
        deserializer.deserialize_map(Whole(PhantomData))
    }
}

struct Whole<T>(PhantomData<T>);

impl<'de, T: Object> Visitor<'de> for Whole<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, an object", T::NAME)
    }

    fn visit_none<E: de::Error>(self) -> Result<T, E> {
        T::finish(T::Slots::default())
    }

    fn visit_unit<E: de::Error>(self) -> Result<T, E> {
        self.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        remaining(T::Slots::default(), map)
    }
}

/// Takes in what is left of an object and builds it.
pub(super) fn remaining<'de, T: Object, A: MapAccess<'de>>(mut slots: T::Slots, mut map: A) -> Result<T, A::Error> {
    while let Some(name) = map.next_key::<Name<'de>>()? {
        map.next_value_seed(Value::<T> { slots: &mut slots, name: &name.0 })?;
    }
    T::finish(slots)
}

/// The value of a member on its way into the object.
struct Value<'a, T: Object> {
    slots: &'a mut T::Slots,
    name: &'a str,
}

impl<'de, T: Object> DeserializeSeed<'de> for Value<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        T::member(self.slots, self.name, value).map_err(|error| inside(T::NAME, self.name, &error))
    }
}

/// Reads the member that says which kind of object this is, where the kind is already decided.
pub(crate) fn tag<'de, D: Deserializer<'de>>(seen: &mut bool, kind: &str, value: D) -> Result<(), D::Error> {
    if core::mem::replace(seen, true) {
        return Err(D::Error::custom("given twice"));
    }
    let found = Name::deserialize(value)?.0;
    if found == kind { Ok(()) } else { Err(D::Error::custom(format_args!("`{found}` where `{kind}` was expected"))) }
}

/// Checks that the member read by [`tag`] was there.
pub(crate) fn tagged<E: de::Error>(seen: bool, owner: &str, tag: &str) -> Result<(), E> {
    if seen { Ok(()) } else { Err(missing(owner, tag)) }
}

/// Keeps a member that the object does not have.
pub(crate) fn unknown<'de, D: Deserializer<'de>>(extra: &mut Extra, name: &str, value: D) -> Result<(), D::Error> {
    extra.push(name, Json::deserialize(value)?);
    Ok(())
}

/// The error for a member that has to be there.
#[cold]
pub(crate) fn missing<E: de::Error>(owner: &str, name: &str) -> E {
    E::custom(format_args!("{owner}: missing member `{name}`"))
}

/// `error`, with the member in which it happened.
#[cold]
pub(crate) fn inside<E: de::Error>(owner: &str, name: &str, error: &E) -> E {
    E::custom(format_args!("{owner}.{name}: {error}"))
}

/// Finds one member of an object that is not read yet.
pub(crate) fn peek(object: &str, name: &str) -> Result<Option<Json>, serde_json::Error> {
    struct Find<'a>(&'a str);

    impl<'de> Visitor<'de> for Find<'_> {
        type Value = Option<Json>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Json>, A::Error> {
            let mut found = None;
            while let Some(name) = map.next_key::<Name<'de>>()? {
                if name.0 == self.0 {
                    found = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }

    Reader::new(object).deserialize_map(Find(name))
}
