//! A value that is written alone or in an array.

use alloc::vec::Vec;
use core::slice;

use serde_core::{Deserialize, Deserializer, ser::Error as _};
use serde_json::Error;

use super::{
    decode::{ExpectedType, Member, Union, read_from},
    encode::{Output, through_write},
};
use crate::{protocol::ProtocolVersion, schema::Encode, wire::reader::Reader};

/// One content block, or several. One block is equal to an array of this block.
///
/// Since 2025-11-25 both forms are written as they are. Earlier revisions have only a single block.
#[derive(Clone, Debug)]
pub enum OneOrMany<T> {
    /// One block, written without an array.
    One(T),
    /// Any number of blocks, written as an array.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// Returns all blocks as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    /// Returns an iterator over all blocks.
    pub fn iter(&self) -> slice::Iter<'_, T> {
        self.as_slice().iter()
    }

    /// Converts the value into a list of all blocks.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(one) => alloc::vec![one],
            Self::Many(many) => many,
        }
    }
}

impl<T: PartialEq> PartialEq for OneOrMany<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Eq> Eq for OneOrMany<T> {}

impl<T> From<Vec<T>> for OneOrMany<T> {
    fn from(many: Vec<T>) -> Self {
        Self::Many(many)
    }
}

impl<'a, T> IntoIterator for &'a OneOrMany<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Encode> OneOrMany<T> {
    fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
        match (self, version) {
            (Self::One(one), _) => out.value(one, version),
            (Self::Many(many), Some(early)) if early < ProtocolVersion::V2025_11_25 => match many.as_slice() {
                [one] => out.value(one, version),
                _ => Err(O::Error::custom(format_args!("{} pieces of content do not fit into {early}", many.len()))),
            },
            (Self::Many(many), _) => out.value(many, version),
        }
    }
}

through_write! { OneOrMany<T> where [T: Encode] }

#[allow(private_bounds, reason = "unions are declared in the schema only")]
impl<'de, T: Union + Member> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_from(deserializer, Self::read)
    }
}

impl<T: Union + Member> Member for OneOrMany<T> {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        match reader.peek() {
            Some(b'{') => T::read(reader).map(Self::One),
            Some(b'[') => Vec::read(reader).map(Self::Many),
            _ => Err(reader.unexpected(&ExpectedType(T::NAME, "an object or an array of objects"))),
        }
    }
}

#[cfg(feature = "arbitrary")]
impl<T: crate::schema::ArbitraryAt> crate::schema::ArbitraryAt for OneOrMany<T> {
    fn arbitrary_at(u: &mut arbitrary::Unstructured<'_>, version: Option<ProtocolVersion>) -> arbitrary::Result<Self> {
        if u.arbitrary()? && version.is_none_or(|version| version >= ProtocolVersion::V2025_11_25) {
            crate::schema::ArbitraryAt::arbitrary_at(u, version).map(Self::Many)
        } else {
            crate::schema::ArbitraryAt::arbitrary_at(u, version).map(Self::One)
        }
    }
}
