//! A JSON value as a part of the frame that holds it.

use alloc::{borrow::Cow, string::String};
use core::{fmt, iter, mem, ops::Range};

use serde_core::{Deserialize, Serialize, Serializer, ser::Error as _};

use super::{
    Json, JsonObject,
    members::{member_value, walk},
    name_search::may_have,
    reader::{raw, read},
    scan::{MAX_DEPTH, Scanner},
    sole::{decides, is_ambiguous},
    text::string,
};
use crate::wire::member_index::{Index, Validated};

/// The text of one JSON value, usually borrowed from the frame that holds it.
///
/// The syntax has been checked. The value is decoded once, by the type that uses it.
#[derive(Clone)]
pub struct RawJson<'a> {
    text: Cow<'a, str>,
    /// The positions of the members, if they were found when the syntax was checked.
    index: Index,
}

impl<'a> RawJson<'a> {
    /// Creates a value from `text`, which must be one JSON value that the scanner has accepted.
    pub(crate) const fn trusted(text: &'a str) -> Self {
        Self::indexed(text, Index::NOTHING)
    }

    /// Creates a value as [`trusted`](Self::trusted) does, for an object in which no member that
    /// [decides](super::sole) should occur twice. Of those the first one counts.
    #[cfg(feature = "http")]
    pub(crate) const fn unambiguous(text: &'a str) -> Self {
        Self::indexed(text, Index::NOTHING.validated(Validated::Names))
    }

    /// Creates a value as [`trusted`](Self::trusted) does, for an object whose members are at the positions in `index`.
    pub(super) const fn indexed(text: &'a str, index: Index) -> Self {
        Self { text: Cow::Borrowed(text), index }
    }

    /// Returns whether the value was checked and can be sent without changes, as params or as a result.
    pub(crate) fn is_ready(&self) -> bool {
        self.index.is_examined(Validated::Lines)
    }

    /// Returns whether a member that [decides](super::sole) occurs twice in the object or in its `_meta`. A peer would
    /// not accept it as params or as a result.
    pub(crate) fn is_ambiguous(&self) -> bool {
        !self.index.is_examined(Validated::Meta) && is_ambiguous(&self.text)
    }

    /// Returns the positions of the members, as far as they are known.
    #[cfg(feature = "http")]
    pub(super) const fn index(&self) -> Index {
        self.index
    }

    /// Returns the text.
    #[must_use]
    pub fn get(&self) -> &str {
        &self.text
    }

    /// Decodes the text as `T`, which may borrow from it.
    ///
    /// # Errors
    /// Returns an error if the text does not fit `T`.
    pub fn decode<'b, T: Deserialize<'b>>(&'b self) -> Result<T, serde_json::Error> {
        read(&self.text)
    }

    /// Returns the text of a string, or `None` for any other value. A borrowed text is copied only if it has escapes.
    #[must_use]
    pub fn into_text(self) -> Option<Cow<'a, str>> {
        match self.text {
            Cow::Borrowed(text) => string(text),
            Cow::Owned(text) => Some(Cow::Owned(string(&text)?.into_owned())),
        }
    }

    /// Converts the value into one that does not borrow.
    #[must_use]
    pub fn into_owned(self) -> RawJson<'static> {
        RawJson { text: Cow::Owned(self.text.into_owned()), index: self.index }
    }

    /// Returns an estimate of the memory of the decoded value, in bytes: its text, and for each member or element its
    /// place in a list. It can be far larger than the text, since `"",` is an element. It is an upper bound for strings
    /// and members of maps. A list of small objects, such as icons, takes up to three times as much, because a place is
    /// as large as the type and a list that grows has up to twice as many, or the four places of the smallest list.
    pub(crate) fn weight(&self) -> usize {
        self.weight_with(self.commas())
    }

    /// Returns the [weight](Self::weight) of a value whose text has this many commas.
    pub(crate) fn weight_with(&self, commas: usize) -> usize {
        const PLACE: usize = 96;
        self.text.len() + PLACE * (1 + commas)
    }

    /// Returns the number of commas in the text.
    pub(crate) fn commas(&self) -> usize {
        // A number has none.
        if let [b'0'..=b'9', ..] = self.text.as_bytes() {
            return 0;
        }
        memchr::memchr_iter(b',', self.text.as_bytes()).count()
    }

    /// Returns the value of the member `name`, or `None` if this is not an object or has no such member.
    ///
    /// Of several members with this name the last one counts, as it does when the object is decoded as a map or as a
    /// [`Value`](https://docs.rs/serde_json/latest/serde_json/enum.Value.html).
    #[must_use]
    pub fn member(&self, name: &str) -> Option<RawJson<'_>> {
        self.member_text(name).map(RawJson::trusted)
    }

    /// Returns the text of the value of a member, as [`member`](Self::member) does.
    pub(crate) fn member_text(&self, name: &str) -> Option<&str> {
        if self.index.is_known() {
            return self.index.find(&self.text, name);
        }
        let is_sole = self.index.is_sole(name);
        let mut value = None;
        walk(&self.text, |found, text| {
            if found.is(name) {
                value = Some(text);
            }
            !is_sole || value.is_none()
        });
        value
    }

    /// Returns the value of a member whose name [decides](super::sole), as [`member`](Self::member) does. If the names
    /// were checked, the search ends at the first member with this name.
    pub(crate) fn deciding_member(&self, name: &str) -> Option<RawJson<'_>> {
        debug_assert!(decides(name.as_bytes()), "{name}");
        if self.index.is_known() && self.index.is_examined(Validated::Names) {
            return self.index.find_first(&self.text, name).map(RawJson::trusted);
        }
        self.member(name)
    }

    /// Returns the text of the value of the member `name`, if the object is known to have no others.
    #[inline]
    pub(crate) fn sole_member(&self, name: &str) -> Option<&str> {
        if self.index.has_one_member() { self.index.find(&self.text, name) } else { None }
    }

    /// Returns the texts of the values of several members, as [`member`](Self::member) does.
    pub(crate) fn pick<const N: usize>(&self, names: [&str; N]) -> [Option<&str>; N] {
        let mut picked = [None; N];
        self.all_members(|found, value| {
            if let Some(at) = names.iter().position(|name| found == *name) {
                picked[at] = Some(value);
            }
            true
        });
        picked
    }

    /// Returns the values of the members `names`, or `None` if there are other members or one occurs twice.
    ///
    /// A value that is not an object counts as one without members.
    #[must_use]
    pub fn only<const N: usize>(&self, names: [&str; N]) -> Option<[Option<RawJson<'_>>; N]> {
        let mut values = [None; N];
        let mut take = |found: &[u8], value| {
            let at = names.iter().position(|name| name.as_bytes() == found);
            at.is_some_and(|at| values[at].replace(value).is_none())
        };
        let no_others = match self.index.is_known() {
            true => self.index.values(&self.text).all(|(name, value)| take(name, value)),
            false => walk(&self.text, |name, value| take(name.shown().as_bytes(), value)),
        };
        if !no_others {
            return None;
        }
        // In place: `map` would move each value twice.
        let mut found = [const { None }; N];
        for (place, value) in found.iter_mut().zip(values) {
            *place = value.map(RawJson::trusted);
        }
        Some(found)
    }

    /// Returns whether `f` returns true for the unescaped name and the text of the value of every member.
    ///
    /// Stops at the first member for which it does not. Returns true for a value that is not an object. See
    /// [`members`](Self::members) for an iterator.
    pub fn all_members<'b>(&'b self, mut f: impl FnMut(&str, &'b str) -> bool) -> bool {
        if self.index.is_known() {
            return self.index.members(&self.text).all(|(name, value)| f(name, value));
        }
        walk(&self.text, |name, value| f(&name.shown(), value))
    }

    /// Returns whether this is an object with the member `name`. Fast if the name does not occur in the text.
    #[inline]
    pub(crate) fn has(&self, name: &str) -> bool {
        may_have(self.text.as_bytes(), name) && self.member(name).is_some()
    }

    /// Returns an iterator over the unescaped names and the values of the members, in the order of the text. A value
    /// that is not an object has none.
    ///
    /// A name may occur twice; [`member`](Self::member) returns the last one. If an escape in a name is half of a
    /// surrogate pair, the name has U+FFFD in its place, and `member` never finds it.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'_, str>, RawJson<'_>)> {
        let known = self.index.members(&self.text).map(|(name, value)| (Cow::Borrowed(name), RawJson::trusted(value)));
        let mut scanner = Scanner::new(&self.text, MAX_DEPTH);
        let mut first = true;
        let is_searched = !self.index.is_known() && scanner.eat(b'{');
        known.chain(iter::from_fn(move || {
            if !is_searched {
                return None;
            }
            let name = scanner.next_member(mem::replace(&mut first, false)).ok()??;
            let value = member_value(&mut scanner)?;
            Some((name.shown(), RawJson::trusted(value)))
        }))
    }

    /// Returns whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    /// Returns whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.text == "null"
    }
}

impl PartialEq for RawJson<'_> {
    /// Returns whether the texts are equal. Two spellings of one value are not, such as `1.0` and `1`, or different
    /// white space.
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RawJson<'_> {}

impl Serialize for RawJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        raw(&self.text).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// The text of a JSON value in a buffer that can be reused.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedRawJson(String);

impl OwnedRawJson {
    /// Returns the value.
    #[must_use]
    pub const fn get(&self) -> RawJson<'_> {
        RawJson::trusted(self.0.as_str())
    }

    /// Copies a value into `buffer`, which is cleared first and grows if it is too small.
    #[must_use]
    pub fn in_buffer(raw: &RawJson<'_>, mut buffer: String) -> Self {
        buffer.clear();
        buffer.push_str(raw.get());
        Self(buffer)
    }

    /// Returns the buffer for reuse.
    #[must_use]
    pub fn into_buffer(self) -> String {
        self.0
    }
}

impl From<RawJson<'_>> for OwnedRawJson {
    fn from(raw: RawJson<'_>) -> Self {
        Self(raw.text.into_owned())
    }
}

impl fmt::Debug for OwnedRawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A buffer for the text of a JSON value and the place of one of its parts. It can be reused.
#[derive(Debug, Default)]
pub struct RawJsonBuffer {
    /// The text of the value; empty if there is none.
    text: String,
    part: Range<usize>,
}

impl RawJsonBuffer {
    /// Copies a value into the buffer, which grows if it is too small. `part` is a part of the value, borrowed from the
    /// same text; any other one is ignored.
    pub fn set(&mut self, value: &RawJson<'_>, part: Option<&RawJson<'_>>) {
        self.text.clear();
        self.text.push_str(&value.text);
        self.part = part.and_then(|part| place(&value.text, &part.text)).unwrap_or_default();
    }

    /// Removes the value. The memory is kept unless it is larger than `max` bytes.
    pub fn clear(&mut self, max: usize) {
        self.part = 0..0;
        if self.text.capacity() > max {
            self.text = String::new();
        } else {
            self.text.clear();
        }
    }

    /// Returns the value, if there is one.
    #[must_use]
    pub fn get(&self) -> Option<RawJson<'_>> {
        (!self.text.is_empty()).then(|| RawJson::trusted(&self.text))
    }

    /// Returns a member of the value, as [`RawJson::member`] does.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<RawJson<'_>> {
        let mut value = None;
        walk(&self.text, |found, text| {
            if found.is(name) {
                value = Some(text);
            }
            true
        });
        value.map(RawJson::trusted)
    }

    /// Returns the part of the value, if its place is known.
    #[must_use]
    pub fn part(&self) -> Option<RawJson<'_>> {
        // No JSON text is empty.
        let part = self.text.get(self.part.clone()).filter(|part| !part.is_empty())?;
        Some(RawJson::trusted(part))
    }
}

/// Returns the place of a part that borrows from `text`.
fn place(text: &str, part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let end = start + part.len();
    (end <= text.len()).then_some(start..end)
}

/// Decodes params. Absent params are decoded like `{}`.
///
/// # Errors
/// Returns an error if the text does not fit `T`.
pub fn decode_params<'b, T: Deserialize<'b>>(params: Option<&'b RawJson<'_>>) -> Result<T, serde_json::Error> {
    read(params.map_or("{}", RawJson::get))
}

impl<'a> From<&'a JsonObject> for RawJson<'a> {
    fn from(object: &'a JsonObject) -> Self {
        let validated = if object.is_ready() { Validated::Lines } else { Validated::Nothing };
        Self::indexed(object.get(), Index::NOTHING.validated(validated))
    }
}

impl<'a> From<&'a Json> for RawJson<'a> {
    fn from(json: &'a Json) -> Self {
        Self::trusted(json.get())
    }
}

impl From<RawJson<'_>> for Json {
    fn from(raw: RawJson<'_>) -> Self {
        Self::trusted(raw.get())
    }
}

impl fmt::Debug for RawJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_keeps_the_place_of_a_borrowed_part() {
        let raw = RawJson::trusted(r#"{"name":"a","arguments":{"b":1}}"#);
        let mut buffer = RawJsonBuffer::default();
        assert!(buffer.get().is_none() && buffer.part().is_none());
        for _ in 0..2 {
            buffer.set(&raw, raw.member("arguments").as_ref());
            assert_eq!(buffer.get().as_ref(), Some(&raw));
            assert_eq!(buffer.part().expect("it is known").get(), r#"{"b":1}"#);
            buffer.clear(1 << 10);
            assert!(buffer.get().is_none() && buffer.part().is_none());
        }
        // A part of another text has no place.
        buffer.set(&raw, None);
        assert_eq!(buffer.member("arguments").expect("it is there").get(), r#"{"b":1}"#);
        for other in [raw.member("arguments").map(RawJson::into_owned), Some(RawJson::trusted("{}")), None] {
            buffer.set(&raw, other.as_ref());
            assert_eq!(buffer.get().as_ref(), Some(&raw));
            assert!(buffer.part().is_none());
        }
        buffer.clear(1);
        assert_eq!(buffer.text.capacity(), 0);
    }

    #[test]
    fn decoded_lists_exceed_their_weight_only_for_objects() {
        use crate::schema::Icon;
        use std::vec::Vec;

        for number in [1_usize, 4, 5, 16, 17, 33, 65, 1025] {
            let names = std::format!("[{}]", std::vec![r#""""#; number].join(","));
            let raw = RawJson::trusted(&names);
            let decoded: Vec<String> = raw.decode().expect("it is a list");
            assert!(decoded.capacity() * size_of::<String>() <= raw.weight(), "{number}");
            let icons = std::format!("[{}]", std::vec![r#"{"src":""}"#; number].join(","));
            let raw = RawJson::trusted(&icons);
            let decoded: Vec<Icon> = raw.decode().expect("it is a list");
            let bytes = decoded.capacity() * size_of::<Icon>();
            assert!(bytes <= (3 * raw.weight()).max(4 * size_of::<Icon>()), "{number}: {bytes}");
            assert!(number != 1025 || bytes > raw.weight(), "{number}: {bytes}");
        }
    }

    #[test]
    fn weight_counts_a_place_for_each_element() {
        for (text, commas) in
            [("1", 0), ("[]", 0), ("[1]", 0), ("[1,2]", 1), (r#"{"a":1,"b":[2,3]}"#, 2), (r#"",""#, 1)]
        {
            let raw = RawJson::trusted(text);
            assert_eq!((raw.commas(), raw.weight()), (commas, text.len() + 96 * (commas + 1)), "{text}");
            assert_eq!(raw.weight_with(9), text.len() + 960);
        }
    }
}
