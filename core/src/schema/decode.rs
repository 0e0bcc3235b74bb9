//! How objects are read: one pass, members in any order, names compared where they lie in the input.
//!
//! The decoder knows no revisions. It reads what any revision may hold and keeps what it does not know.

use alloc::{
    borrow::{Cow, ToOwned},
    string::String,
    vec::Vec,
};
use core::{fmt, marker::PhantomData};

use serde_core::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor},
    forward_to_deserialize_any,
};
use serde_json::Number;

use super::Extra;
use crate::{
    protocol::VersionSet,
    wire::{Json, JsonObject, RequestId},
};

/// What can be the value of a member.
pub(crate) trait Member: DeserializeOwned {
    /// Reads the value.
    fn decode<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Self::deserialize(value)
    }

    /// Reads the value from its text and gives the text back if it is something else.
    fn salvage(json: Json) -> Result<Self, Json> {
        json.decode::<Seed<Self>>().map(|seed| seed.0).map_err(|_| json)
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
impl Member for bool {}
impl Member for Number {}
impl Member for RequestId {}

impl Member for String {
    fn salvage(json: Json) -> Result<Self, Json> {
        // Most strings hold no escape and are done with the quotes.
        match json.get().strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) if memchr::memchr(b'\\', text.as_bytes()).is_none() => Ok(text.to_owned()),
            Some(_) => json.decode().map_err(|_| json),
            None => Err(json),
        }
    }
}

impl Member for Json {
    fn salvage(json: Json) -> Result<Self, Json> {
        Ok(json)
    }
}

impl Member for JsonObject {
    fn salvage(json: Json) -> Result<Self, Json> {
        if json.is_object() { Self::try_from(json.clone()).map_err(|_| json) } else { Err(json) }
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
fn remaining<'de, T: Object, A: MapAccess<'de>>(mut slots: T::Slots, mut map: A) -> Result<T, A::Error> {
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

/// The name of a member or of a kind, borrowed from the input unless it was written with escapes.
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

/// Reads a word of an open set.
pub(crate) fn word<'de, T: for<'a> From<&'a str>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Name::deserialize(deserializer).map(|name| T::from(&name.0))
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
    use super::{Deserializer, Extra, Json, Member, fill};
    use serde_core::Deserialize;

    pub(crate) use super::strict::{nullable, required};

    pub(crate) const STRICT: bool = false;

    pub(crate) fn optional<'de, T: Member, D: Deserializer<'de>>(
        slot: &mut Option<Option<T>>,
        extra: &mut Extra,
        name: &str,
        value: D,
    ) -> Result<(), D::Error> {
        match T::salvage(Json::deserialize(value)?) {
            Ok(value) => fill(slot, Some(value)),
            Err(json) => {
                extra.push(name, json);
                fill(slot, None)
            }
        }
    }
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

    serde_json::Deserializer::from_str(object).deserialize_map(Find(name))
}

/// Objects that are told apart by one member.
pub(crate) trait Union: Sized {
    /// The name of the type, for errors.
    const NAME: &'static str;
    /// The name of the member.
    const TAG: &'static str;

    /// Reads the object as the kind that its tag names; `None` if there is no tag.
    fn variant<'de, A: MapAccess<'de>>(kind: Option<&str>, members: Opened<'_, 'de, A>) -> Result<Self, A::Error>;
}

/// Reads one of several kinds of objects. Members in front of the tag wait for it as raw text.
pub(crate) fn union<'de, U: Union, D: Deserializer<'de>>(deserializer: D) -> Result<U, D::Error> {
    deserializer.deserialize_map(OneOf(PhantomData))
}

struct OneOf<U>(PhantomData<U>);

impl<'de, U: Union> Visitor<'de> for OneOf<U> {
    type Value = U;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, an object", U::NAME)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<U, A::Error> {
        union_of(map)
    }
}

/// Reads one of several kinds of objects from its members.
pub(crate) fn union_of<'de, U: Union, A: MapAccess<'de>>(mut map: A) -> Result<U, A::Error> {
    let mut before = Vec::new();
    while let Some(name) = map.next_key::<Name<'de>>()? {
        if name.0 == U::TAG {
            let kind = map.next_value::<Option<Name<'de>>>().map_err(|error| inside(U::NAME, U::TAG, &error))?;
            let kind = kind.as_ref().map(|kind| &*kind.0);
            let deciding = kind.map(|kind| (U::TAG, Cow::Borrowed(kind)));
            return U::variant(kind, Opened::new(before, deciding, map));
        }
        before.push((name, map.next_value()?));
    }
    U::variant(None, Opened::new(before, None, map))
}

/// An object that was read up to the member that decides what it is.
pub(crate) struct Opened<'a, 'de, A> {
    before: Vec<(Name<'de>, Json)>,
    deciding: Option<(&'a str, Cow<'a, str>)>,
    map: A,
}

impl<'a, 'de, A: MapAccess<'de>> Opened<'a, 'de, A> {
    /// Read up to and with the member `deciding`.
    pub(crate) const fn new(before: Vec<(Name<'de>, Json)>, deciding: Option<(&'a str, Cow<'a, str>)>, map: A) -> Self {
        Self { before, deciding, map }
    }

    /// Reads the rest as a `T`.
    pub(crate) fn finish<T: Object, U>(self, wrap: fn(T) -> U) -> Result<U, A::Error> {
        let mut slots = T::Slots::default();
        for (name, json) in self.before {
            T::member(&mut slots, &name.0, &mut serde_json::Deserializer::from_str(json.get()))
                .map_err(|error| inside(T::NAME, &name.0, &A::Error::custom(error)))?;
        }
        if let Some((name, text)) = self.deciding {
            T::member(&mut slots, name, Text(text, PhantomData)).map_err(|error| inside(T::NAME, name, &error))?;
        }
        remaining(slots, self.map).map(wrap)
    }

    /// Keeps all members as they are.
    pub(crate) fn keep(mut self) -> Result<Extra, A::Error> {
        let mut members = Extra::new();
        for (name, json) in self.before {
            members.push(&*name.0, json);
        }
        if let Some((name, text)) = self.deciding {
            members.push(name, Json::new(&text).map_err(A::Error::custom)?);
        }
        while let Some(name) = self.map.next_key::<Name<'de>>()? {
            members.push(&*name.0, self.map.next_value()?);
        }
        Ok(members)
    }
}

/// A text that was read already, to be read by the type that wants it.
struct Text<'a, E>(Cow<'a, str>, PhantomData<E>);

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
