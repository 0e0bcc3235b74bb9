//! A JSON value as a piece of the frame it came in.

use alloc::{borrow::Cow, string::String};
use core::{fmt, iter, mem};

use serde_core::{Deserialize, Serialize, Serializer, ser::Error as _};

use super::{
    Json, JsonObject,
    members::{member_value, walk},
    reader::{raw, read},
    scan::{MAX_DEPTH, Scanner, may_have},
    sole::is_ambiguous,
    text::string,
};
use crate::wire::member_index::{Examined, Index};

/// The text of one JSON value, usually borrowed from the frame that holds it.
///
/// The syntax has been checked; what it means is decoded once, by the type that wants it.
#[derive(Clone)]
pub struct RawJson<'a> {
    text: Cow<'a, str>,
    /// Where its members are, if that was seen when the syntax was checked.
    index: Index,
}

impl<'a> RawJson<'a> {
    /// `text` must be one JSON value that the scanner has accepted.
    pub(crate) const fn trusted(text: &'a str) -> Self {
        Self::indexed(text, Index::NOTHING)
    }

    /// As [`trusted`](Self::trusted), for an object whose members are there.
    pub(super) const fn indexed(text: &'a str, index: Index) -> Self {
        Self { text: Cow::Borrowed(text), index }
    }

    /// Whether it is known that it can be sent as it is, as params or as a result.
    pub(crate) fn is_ready(&self) -> bool {
        self.index.is_examined(Examined::Lines)
    }

    /// Whether it has a member twice that [decides](super::sole), or its `_meta` has: a peer would not accept it as params
    /// or as a result.
    pub(crate) fn is_ambiguous(&self) -> bool {
        !self.index.is_examined(Examined::Meta) && is_ambiguous(&self.text)
    }

    /// Where its members are, as far as that is known.
    #[cfg(feature = "http")]
    pub(super) const fn index(&self) -> Index {
        self.index
    }

    /// The text.
    #[must_use]
    pub fn get(&self) -> &str {
        &self.text
    }

    /// Decodes the text as `T`, which may borrow from it.
    ///
    /// # Errors
    /// What `T` has against the text.
    pub fn decode<'b, T: Deserialize<'b>>(&'b self) -> Result<T, serde_json::Error> {
        read(&self.text)
    }

    /// What it says, if it is a string. Nothing is copied unless there are escapes in it.
    #[must_use]
    pub fn into_text(self) -> Option<Cow<'a, str>> {
        match self.text {
            Cow::Borrowed(text) => string(text),
            Cow::Owned(text) => Some(Cow::Owned(string(&text)?.into_owned())),
        }
    }

    /// A copy that does not borrow.
    #[must_use]
    pub fn into_owned(self) -> RawJson<'static> {
        RawJson { text: Cow::Owned(self.text.into_owned()), index: self.index }
    }

    /// What this may take at most when it is decoded and kept, in bytes: its text, and for each member or element the
    /// room that a list has for it. It may be more than its text has by far, since `"",` is an element, too.
    pub(crate) fn weight(&self) -> usize {
        const PLACE: usize = 96;
        self.text.len() + PLACE * (1 + memchr::memchr_iter(b',', self.text.as_bytes()).count())
    }

    /// The value of a member, if this is an object that has it. Of several with this name it is the last one, as for those
    /// who decode the object as a map or as a [`Value`](https://docs.rs/serde_json/latest/serde_json/enum.Value.html).
    #[must_use]
    pub fn member(&self, name: &str) -> Option<RawJson<'_>> {
        if self.index.is_known() {
            return self.index.find(&self.text, name).map(RawJson::trusted);
        }
        let is_sole = self.index.is_sole(name);
        let mut value = None;
        walk(&self.text, |found, text| {
            if found.is(name) {
                value = Some(text);
            }
            !is_sole || value.is_none()
        });
        value.map(RawJson::trusted)
    }

    /// The texts of the values of several members, if this is an object that has them: as [`member`](Self::member).
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

    /// The values of these members, if there are no others and none is there twice.
    #[must_use]
    pub fn only<const N: usize>(&self, names: [&str; N]) -> Option<[Option<RawJson<'_>>; N]> {
        let mut values = [None; N];
        let no_others = self.all_members(|found, value| {
            let at = names.iter().position(|name| *name == found);
            at.is_some_and(|at| values[at].replace(value).is_none())
        });
        no_others.then(|| values.map(|value| value.map(RawJson::trusted)))
    }

    /// Whether `f` holds for all members, by their names, unescaped, and the texts of their values: as
    /// [`members`](Self::members), for who looks at each of them only once.
    pub fn all_members<'b>(&'b self, mut f: impl FnMut(&str, &'b str) -> bool) -> bool {
        if self.index.is_known() {
            return self.index.members(&self.text).all(|(name, value)| f(name, value));
        }
        walk(&self.text, |name, value| f(&name.shown(), value))
    }

    /// Whether this is an object that has such a member, where it hardly ever has.
    pub(crate) fn has(&self, name: &str) -> bool {
        may_have(self.text.as_bytes(), name) && self.member(name).is_some()
    }

    /// The members, if this is an object: their names, unescaped, and their values, in the order in which they stand there.
    ///
    /// A name may be there twice; [`member`](Self::member) takes the last one then. Where an escape in a name is half of a
    /// surrogate pair, U+FFFD is in its place, and `member` does not find it under any name.
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

    /// Whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    /// Whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.text == "null"
    }
}

impl PartialEq for RawJson<'_> {
    /// Whether the texts are equal: two spellings of one value are not, such as `1.0` and `1`, or with other white space.
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

/// The text of a JSON value that is kept for a while.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedRawJson(String);

impl OwnedRawJson {
    /// The value.
    #[must_use]
    pub const fn get(&self) -> RawJson<'_> {
        RawJson::trusted(self.0.as_str())
    }

    /// Keeps a value in room that there is already, and is enlarged if it is too small.
    #[must_use]
    pub fn in_buffer(raw: &RawJson<'_>, mut buffer: String) -> Self {
        buffer.clear();
        buffer.push_str(raw.get());
        Self(buffer)
    }

    /// The room that it took, for the next one.
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

/// Decodes params, which a message may leave out: absent is decoded like `{}`.
///
/// # Errors
/// What `T` has against the text.
pub fn decode_params<'b, T: Deserialize<'b>>(params: Option<&'b RawJson<'_>>) -> Result<T, serde_json::Error> {
    read(params.map_or("{}", RawJson::get))
}

impl<'a> From<&'a JsonObject> for RawJson<'a> {
    fn from(object: &'a JsonObject) -> Self {
        let examined = if object.is_ready() { Examined::Lines } else { Examined::Nothing };
        Self::indexed(object.get(), Index::NOTHING.examined(examined))
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
