//! Objects of several kinds.

use alloc::borrow::Cow;
use core::{fmt, marker::PhantomData};

use serde_core::{
    Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use smallvec::SmallVec;

use super::{Extra, Name, Object, RawText, inside, remaining, text::Text};
use crate::wire::{Json, reader::Reader};

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
    let mut before = Waiting::new();
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

/// Members that wait for the one that decides what they are, usually few.
pub(crate) type Waiting<'de> = SmallVec<[(Name<'de>, RawText<'de>); 2]>;

/// An object that was read up to the member that decides what it is.
pub(crate) struct Opened<'a, 'de, A> {
    before: Waiting<'de>,
    deciding: Option<(&'a str, Cow<'a, str>)>,
    map: A,
}

impl<'a, 'de, A: MapAccess<'de>> Opened<'a, 'de, A> {
    /// Read up to and with the member `deciding`.
    pub(crate) const fn new(before: Waiting<'de>, deciding: Option<(&'a str, Cow<'a, str>)>, map: A) -> Self {
        Self { before, deciding, map }
    }

    /// Reads the rest as a `T`.
    pub(crate) fn finish<T: Object, U>(self, wrap: fn(T) -> U) -> Result<U, A::Error> {
        let mut slots = T::Slots::default();
        for (name, RawText(text)) in self.before {
            T::member(&mut slots, &name.0, &mut Reader::new(&text))
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
        for (name, RawText(text)) in self.before {
            members.push(&*name.0, Json::trusted(&text));
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
