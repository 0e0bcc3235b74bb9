//! Members of an object as one piece of text: read when somebody asks for them.

use alloc::{borrow::Cow, string::String, vec::Vec};
use core::fmt;

use serde_core::{Deserialize, Deserializer};
use serde_json::Error;

use super::{
    decode::{Member, read_from},
    encode::{Entries, Output, through_write},
};
use crate::{
    protocol::ProtocolVersion,
    wire::{
        Json, RawJson, encode,
        index::place,
        reader::{Reader, read},
    },
};

/// Members that a type of the schema has no field for, in their order and as they came.
///
/// They are one text, and cost nothing if there are none. Looking one up walks over all of them. If a peer wrote a name
/// twice, both members are kept and the later one is found.
#[derive(Clone, Default)]
pub struct Extra {
    /// An object; empty if it has no members. Every name in it stands for a text.
    text: String,
}

impl Extra {
    /// No members.
    #[must_use]
    pub const fn new() -> Self {
        Self { text: String::new() }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there are no members.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The value of the member `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<RawJson<'_>> {
        self.find(name).map(RawJson::trusted)
    }

    /// The value of the member `name`, if it is a `T`.
    #[must_use]
    pub fn decode<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        self.find(name).and_then(|value| read(value).ok())
    }

    /// Sets the member `name` and hands back its former value.
    pub fn insert(&mut self, name: impl AsRef<str>, value: Json) -> Option<Json> {
        let Some(former) = self.find(name.as_ref()) else {
            self.push(name.as_ref(), value.get());
            return None;
        };
        let (place, former) = (place(former.as_bytes(), self.text.as_bytes())?, Json::trusted(former));
        self.text.replace_range(place, value.get());
        Some(former)
    }

    /// Removes the member `name` and hands back its value.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let former = self.find(name).map(Json::trusted)?;
        let mut others = Self::new();
        self.members().filter(|(known, _)| known != name).for_each(|(known, value)| others.push(&known, value));
        *self = others;
        Some(former)
    }

    /// The members in their order.
    #[must_use]
    pub fn iter(&self) -> ExtraIter<'_> {
        let mut reader = Reader::new(&self.text);
        let over = self.is_empty() || reader.members(&"an object").is_err();
        ExtraIter { reader, first: true, over }
    }

    /// Adds a member behind the others, without a look at their names. `value` is one JSON value.
    pub(crate) fn push(&mut self, name: &str, value: &str) {
        let separator = if self.text.pop().is_some() { ',' } else { '{' };
        self.text.push(separator);
        push_string(&mut self.text, name);
        self.text.push(':');
        self.text.push_str(value);
        self.text.push('}');
    }

    fn members(&self) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
        let mut members = self.iter();
        core::iter::from_fn(move || members.step())
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.members().filter(|(known, _)| known == name).last().map(|(_, value)| value)
    }
}

/// The members of [`Extra`] or [`Meta`](super::Meta) in their order: names and values.
#[derive(Clone)]
pub struct ExtraIter<'a> {
    reader: Reader<'a>,
    first: bool,
    over: bool,
}

impl<'a> ExtraIter<'a> {
    fn step(&mut self) -> Option<(Cow<'a, str>, &'a str)> {
        if self.over {
            return None;
        }
        let name = self.reader.next_name(core::mem::replace(&mut self.first, false)).ok().flatten();
        self.over = name.is_none();
        Some((name?, self.reader.raw().ok()?))
    }
}

impl<'a> Iterator for ExtraIter<'a> {
    type Item = (Cow<'a, str>, RawJson<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.step().map(|(name, value)| (name, RawJson::trusted(value)))
    }
}

impl fmt::Debug for ExtraIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

impl<'a> IntoIterator for &'a Extra {
    type Item = (Cow<'a, str>, RawJson<'a>);
    type IntoIter = ExtraIter<'a>;

    fn into_iter(self) -> ExtraIter<'a> {
        self.iter()
    }
}

impl<K: AsRef<str>> FromIterator<(K, Json)> for Extra {
    fn from_iter<I: IntoIterator<Item = (K, Json)>>(members: I) -> Self {
        let mut extra = Self::new();
        members.into_iter().for_each(|(name, value)| extra.push(name.as_ref(), value.get()));
        extra
    }
}

impl<K: AsRef<str>, const N: usize> From<[(K, Json); N]> for Extra {
    fn from(members: [(K, Json); N]) -> Self {
        members.into_iter().collect()
    }
}

impl PartialEq for Extra {
    /// The same members in the same order, their values as equal texts.
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text || self.members().eq(other.members())
    }
}

impl Eq for Extra {}

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

impl Extra {
    fn write<O: Output>(&self, _version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
        let mut object = out.object()?;
        self.iter().try_for_each(|(name, value)| object.kept(&name, &value))?;
        object.end()
    }
}

through_write! { Extra }

impl<'de> Deserialize<'de> for Extra {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_from(deserializer, Self::read)
    }
}

impl Member for Extra {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        if reader.peek() != Some(b'{') {
            return Err(reader.unexpected(&"an object"));
        }
        let text = reader.raw()?;
        if text.contains('\\') {
            check_names(text)?;
        }
        let is_empty = text[1..].trim_ascii_start().len() == 1;
        Ok(Self { text: if is_empty { String::new() } else { text.into() } })
    }
}

/// Appends a JSON string. It takes no look at what is there already, since there can be as many members as fit into a message.
fn push_string(text: &mut String, content: &str) {
    let mut quoted = Vec::with_capacity(content.len() + 2);
    encode::text(&mut quoted, content);
    // It is made of a text.
    text.push_str(core::str::from_utf8(&quoted).unwrap_or("\"\""));
}

/// Checks that the names in an object stand for texts: one that was written with escapes may not.
#[cold]
fn check_names(object: &str) -> Result<(), Error> {
    let mut reader = Reader::new(object);
    let mut members = reader.members(&"an object")?;
    while members.next()?.is_some() {
        members.value().raw()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::ToString};

    fn json(text: &str) -> Json {
        Json::parse(text).expect("JSON")
    }

    #[test]
    fn members_keep_their_order_and_spelling_and_the_last_of_two_counts() {
        let text = r#"{"b":1.50,"a":{"c" : []},"b":"3"}"#;
        let mut extra: Extra = serde_json::from_str(text).expect("an object");
        assert_eq!(serde_json::to_string(&extra).expect("text"), text);
        assert_eq!(format!("{extra:?}"), r#"{"b": 1.50, "a": {"c" : []}, "b": "3"}"#);
        assert_eq!((extra.len(), extra.decode("b"), extra.decode::<u8>("a")), (3, Some("3"), None));
        assert_eq!((extra.get("a"), extra.get("c")), (Some(RawJson::from(&json(r#"{"c" : []}"#))), None));

        assert_eq!(extra.insert("b", json("[4]")), Some(json("\"3\"")));
        assert_eq!(extra.insert("c", json("5")), None);
        assert_eq!(serde_json::to_string(&extra).expect("text"), r#"{"b":1.50,"a":{"c" : []},"b":[4],"c":5}"#);
        assert_eq!(extra.remove("b"), Some(json("[4]")));
        assert_eq!(extra, Extra::from([("a", json(r#"{"c" : []}"#)), ("c", json("5"))]));
        assert_eq!(extra.remove("b"), None);
        assert_eq!((extra.remove("a").is_some(), extra.remove("c").is_some(), extra.is_empty()), (true, true, true));
        assert_eq!(extra, Extra::new());
    }

    /// A peer can send very many, and each is added to those before it.
    #[test]
    fn many_members_are_added_without_a_look_at_the_others() {
        const MANY: u32 = 300_000;
        let extra: Extra = (0..MANY).map(|number| (number.to_string(), json("null"))).collect();
        assert_eq!((extra.len(), extra.decode::<Option<u8>>("299999")), (MANY as usize, Some(None)));
    }

    #[test]
    fn other_spellings_of_names_and_spaces_make_no_other_members() {
        let read = |text: &str| serde_json::from_str::<Extra>(text).expect(text);
        let plain = read(r#"{"a\"é":1,"b":[ 2 ]}"#);
        let spaced = read(" { \"\\u0061\\\"\\u00e9\" :\n1 , \"b\"\t: [ 2 ] } ");
        assert_eq!(plain, spaced);
        assert_eq!(plain, Extra::from([("a\"é", json("1")), ("b", json("[ 2 ]"))]));
        assert_eq!(serde_json::to_string(&spaced).expect("text"), serde_json::to_string(&plain).expect("text"));
        assert_eq!(spaced.get("a\"é").map(|one| one.get().to_string()).as_deref(), Some("1"));
        assert_ne!(plain, read(r#"{"b":[ 2 ],"a\"é":1}"#));
        assert_ne!(plain, read(r#"{"a\"é":1,"b":[2]}"#));
        assert_eq!(spaced.clone().insert("b", json("3")), Some(json("[ 2 ]")));

        for empty in ["{}", "{ \n}", " {\t} "] {
            assert_eq!((read(empty), read(empty).is_empty(), read(empty).len()), (Extra::new(), true, 0));
        }
        for none in ["[]", "null", "\"{}\"", "7", r#"{"\ud800":1}"#, r#"{"a":1"#] {
            assert!(serde_json::from_str::<Extra>(none).is_err(), "{none}");
        }
    }
}
