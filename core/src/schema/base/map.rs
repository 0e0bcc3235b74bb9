//! A small map that keeps the order of its members.

use alloc::{string::String, vec, vec::Vec};
use core::{fmt, marker::PhantomData, slice};

use serde_core::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Error;

use super::{
    decode::Member,
    encode::{Entries, Output, through_write},
};
use crate::{
    protocol::ProtocolVersion,
    schema::Encode,
    wire::reader::{Name, Reader},
};

/// A JSON object whose names the application chooses. Members keep their order.
///
/// A lookup compares all names, so the map suits few members. If a received object has a name twice, both members are
/// kept and the last one is found.
#[derive(Clone, PartialEq, Eq)]
pub struct Map<V>(Vec<(String, V)>);

impl<V> Map<V> {
    /// Creates an object without members.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of the member `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&V> {
        self.iter().rfind(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Sets the member `name` and returns its former value.
    pub fn insert(&mut self, name: impl Into<String>, value: V) -> Option<V> {
        let name = name.into();
        match self.0.iter_mut().rfind(|(known, _)| *known == name) {
            Some((_, slot)) => Some(core::mem::replace(slot, value)),
            None => {
                self.0.push((name, value));
                None
            }
        }
    }

    /// Removes every member `name` and returns the value of the last one.
    pub fn remove(&mut self, name: &str) -> Option<V> {
        let found = self.0.iter().rposition(|(known, _)| known == name).map(|at| self.0.remove(at));
        self.0.retain(|(known, _)| known != name);
        found.map(|(_, value)| value)
    }

    /// Returns an iterator over the names and values in their order.
    pub fn iter(&self) -> MapIter<'_, V> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Appends a member without a check for others with its name.
    pub(crate) fn push(&mut self, name: impl Into<String>, value: V) {
        self.0.push((name.into(), value));
    }
}

/// An iterator over the names and values of a [`Map`] in their order.
pub type MapIter<'a, V> = core::iter::Map<slice::Iter<'a, (String, V)>, fn(&'a (String, V)) -> (&'a str, &'a V)>;

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: fmt::Debug> fmt::Debug for Map<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a, V> IntoIterator for &'a Map<V> {
    type Item = (&'a str, &'a V);
    type IntoIter = MapIter<'a, V>;

    fn into_iter(self) -> MapIter<'a, V> {
        self.iter()
    }
}

impl<V> IntoIterator for Map<V> {
    type Item = (String, V);
    type IntoIter = vec::IntoIter<(String, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: Into<String>, V> FromIterator<(K, V)> for Map<V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        Self(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl<K: Into<String>, V, const N: usize> From<[(K, V); N]> for Map<V> {
    fn from(members: [(K, V); N]) -> Self {
        members.into_iter().collect()
    }
}

impl<V: Encode> Map<V> {
    fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
        let mut object = out.object()?;
        self.iter().try_for_each(|(name, value)| object.named(name, value, version))?;
        object.end()
    }
}

through_write! { Map<V> where [V: Encode] }

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Map<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
            type Value = Map<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<V>, A::Error> {
                let mut members = Map::new();
                while let Some(name) = map.next_key::<Name<'de>>()? {
                    members.push(name.0, map.next_value()?);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

impl<V: Member> Member for Map<V> {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let mut map = Self::new();
        let mut members = reader.members(&"an object")?;
        while let Some(name) = members.next_text()? {
            map.push(name, V::read(members.value())?);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn map_keeps_order_and_last_duplicate_wins() {
        let mut map: Map<String> = serde_json::from_str(r#"{"b":"1","a":"2","b":"3"}"#).expect("an object");
        assert_eq!(serde_json::to_string(&map).expect("text"), r#"{"b":"1","a":"2","b":"3"}"#);
        assert_eq!((map.len(), map.get("b").map(String::as_str), map.get("c")), (3, Some("3"), None));

        assert_eq!(map.insert("a", "4".to_string()), Some("2".to_string()));
        assert_eq!(map.insert("c", "5".to_string()), None);
        assert_eq!(map.remove("b"), Some("3".to_string()));
        assert_eq!(map, Map::from([("a", "4".to_string()), ("c", "5".to_string())]));
        assert_eq!(map.remove("b"), None);
    }

    #[test]
    fn map_is_expected_to_be_an_object() {
        let error = serde_json::from_str::<Map<String>>("7").expect_err("it is a number").to_string();
        assert_eq!(error, "invalid type: integer `7`, expected an object at line 1 column 1");
    }
}
