//! Members of an object, kept as one text and decoded on access.

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
        member_index::place,
        reader::{Reader, read},
        scan::StringToken,
    },
};

/// The members for which a type of the schema has no field, in their order and as received.
///
/// The members are kept as one text, which allocates nothing if there are none. A lookup searches the whole text. If a
/// name occurs twice, both members are kept and the last one is found.
///
/// A name with half of a surrogate pair is not valid text. Such a member is kept and written again as received, but no
/// lookup finds it. Iterators show U+FFFD in place of the half. Serializers that take names as text return an error for
/// it.
#[derive(Clone, Default)]
pub struct Extra {
    /// An object; empty if it has no members.
    text: String,
}

impl Extra {
    /// Creates an object without members.
    #[must_use]
    pub const fn new() -> Self {
        Self { text: String::new() }
    }

    /// Replaces all members by those of a JSON object, which is copied and not parsed again. The memory is reused.
    /// Returns whether it is an object; if it is not, there are no members.
    pub(crate) fn replace_with(&mut self, object: &RawJson<'_>) -> bool {
        self.text.clear();
        let text = object.get().trim_ascii();
        let Some(members) = text.strip_prefix('{') else { return false };
        if members.trim_ascii_start().len() > 1 {
            self.text.push_str(text);
        }
        true
    }

    /// Removes all members. The memory is kept unless it is larger than `max` bytes.
    pub(crate) fn clear(&mut self, max: usize) {
        self.text.clear();
        if self.text.capacity() > max {
            self.text = String::new();
        }
    }

    /// Returns the number of members. Counts them by a walk over the text.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns whether there are no members.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the value of the member `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<RawJson<'_>> {
        self.find(name).map(RawJson::trusted)
    }

    /// Returns the value of the member `name` decoded as `T`, or `None` if it is missing or does not fit.
    #[must_use]
    pub fn decode<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        self.find(name).and_then(|value| read(value).ok())
    }

    /// Sets the member `name` and returns its former value.
    pub fn insert(&mut self, name: impl AsRef<str>, value: Json) -> Option<Json> {
        let Some(former) = self.find(name.as_ref()) else {
            self.push(name.as_ref(), value.get());
            return None;
        };
        let (place, former) = (place(former.as_bytes(), self.text.as_bytes())?, Json::trusted(former));
        self.text.replace_range(place, value.get());
        Some(former)
    }

    /// Removes every member `name` and returns the value of the last one.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let former = self.find(name).map(Json::trusted)?;
        let mut others = Self::new();
        let kept = self.members().filter(|(known, _)| !known.is(name));
        kept.for_each(|(known, value)| others.push_written(known.written(), value));
        *self = others;
        Some(former)
    }

    /// Returns an iterator over the names and values in their order.
    #[must_use]
    pub fn iter(&self) -> ExtraIter<'_> {
        let mut reader = Reader::new(&self.text);
        let over = self.is_empty() || reader.members(&"an object").is_err();
        ExtraIter { reader, first: true, over }
    }

    /// Appends a member without a check for others with its name. `value` is one JSON value.
    pub(crate) fn push(&mut self, name: &str, value: &str) {
        self.separate();
        push_string(&mut self.text, name);
        self.end_with(value);
    }

    /// Appends a member as [`push`](Self::push) does, with the name as it is spelled between its quotes.
    pub(crate) fn push_written(&mut self, name: &str, value: &str) {
        self.separate();
        self.text.extend(["\"", name, "\""]);
        self.end_with(value);
    }

    fn separate(&mut self) {
        let separator = if self.text.pop().is_some() { ',' } else { '{' };
        self.text.push(separator);
    }

    fn end_with(&mut self, value: &str) {
        self.text.push(':');
        self.text.push_str(value);
        self.text.push('}');
    }

    /// Returns an iterator over the members in their order, with names as they are spelled.
    pub(crate) fn members(&self) -> impl Iterator<Item = (StringToken<'_>, &str)> {
        let mut members = self.iter();
        core::iter::from_fn(move || members.step())
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.members().filter(|(known, _)| known.is(name)).last().map(|(_, value)| value)
    }
}

/// An iterator over the names and values of [`Extra`] or [`Meta`](crate::schema::Meta) in their order.
#[derive(Clone)]
pub struct ExtraIter<'a> {
    reader: Reader<'a>,
    first: bool,
    over: bool,
}

impl<'a> ExtraIter<'a> {
    fn step(&mut self) -> Option<(StringToken<'a>, &'a str)> {
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
        self.step().map(|(name, value)| (name.shown(), RawJson::trusted(value)))
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
    /// Returns whether both have the same members in the same order. Names are compared as texts, values as they are
    /// spelled: `1.0` and `1` differ, and so do objects with different white space.
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text || self.members().map(MemberKey).eq(other.members().map(MemberKey))
    }
}

/// A member. Two names are equal if they are the same text, or, if they are not valid text, if their spelling is the
/// same.
struct MemberKey<'a>((StringToken<'a>, &'a str));

impl PartialEq for MemberKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (Self((name, value)), Self((other_name, other_value))) = (self, other);
        let same_name = name.written() == other_name.written()
            || name.text().is_some_and(|name| other_name.text().is_some_and(|other| name == other));
        same_name && value == other_value
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
        self.members().try_for_each(|(name, value)| object.kept(name, &RawJson::trusted(value)))?;
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
        let is_empty = text[1..].trim_ascii_start().len() == 1;
        Ok(Self { text: if is_empty { String::new() } else { text.into() } })
    }
}

/// Appends a JSON string. It does not check the existing text again, which would cost quadratic time with many members.
fn push_string(text: &mut String, content: &str) {
    let mut quoted = Vec::with_capacity(content.len() + 2);
    encode::text(&mut quoted, content);
    // The encoding of a text is valid UTF-8.
    text.push_str(core::str::from_utf8(&quoted).unwrap_or("\"\""));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Encode, JsonLine};
    use alloc::{format, string::ToString};

    fn json(text: &str) -> Json {
        Json::parse(text).expect("JSON")
    }

    #[test]
    fn extra_keeps_order_and_spelling_of_members() {
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
    fn adding_many_members_is_linear() {
        const MANY: u32 = 300_000;
        let extra: Extra = (0..MANY).map(|number| (number.to_string(), json("null"))).collect();
        assert_eq!((extra.len(), extra.decode::<Option<u8>>("299999")), (MANY as usize, Some(None)));
    }

    #[test]
    fn escaped_names_and_spaces_compare_equal() {
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
        for none in ["[]", "null", "\"{}\"", "7", r#"{"a":1"#] {
            assert!(serde_json::from_str::<Extra>(none).is_err(), "{none}");
        }
    }

    #[test]
    fn names_with_lone_surrogates_are_kept_verbatim() {
        let text = r#"{"\ud800":1,"\uDC00":2,"a\n\ud800":3,"":4,"\ud83d\ude80":5}"#;
        let read = |text: &str| serde_json::from_str::<Extra>(text).expect(text);
        let mut extra = read(text);
        let written = |extra: &Extra| {
            let mut out = Vec::new();
            extra.append_at(None, &mut JsonLine::new(&mut out)).expect("it is written");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(written(&extra), text.replace("\\ud83d\\ude80", "\u{1f680}"));
        assert_eq!(
            extra.iter().map(|(name, _)| name.into_owned()).collect::<Vec<_>>()[..3],
            ["\u{fffd}", "\u{fffd}", "a\n\u{fffd}"]
        );
        assert_eq!((extra.get("\u{fffd}"), extra.decode("")), (None, Some(4)));
        // Serde cannot express a name other than as text.
        assert!(serde_json::to_string(&extra).is_err());
        assert_eq!((extra.remove(""), extra.remove("\u{fffd}")), (Some(json("4")), None));
        assert_eq!(written(&extra), r#"{"\ud800":1,"\uDC00":2,"a\n\ud800":3,"🚀":5}"#);
        assert_ne!(read(r#"{"\ud800":1}"#), read(r#"{"\udc00":1}"#));
        assert_ne!(read(r#"{"\ud800":1}"#), read(r#"{"\ufffd":1}"#));
        assert_eq!(read(r#"{"\ud800" :1}"#), read(r#"{"\ud800":1}"#));
    }
}
