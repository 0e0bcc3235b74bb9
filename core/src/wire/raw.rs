//! A JSON value as a piece of the frame it came in.

use alloc::borrow::Cow;
use core::{fmt, iter, mem};

use serde_core::{Deserialize, de};
use smallvec::SmallVec;

use super::{
    Json, JsonObject,
    message::string,
    reader::read,
    scan::{MAX_DEPTH, Scanner},
};

/// The text of one JSON value, usually borrowed from the frame that holds it.
///
/// The syntax has been checked; what it means is decoded once, by the type that wants it.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson<'a>(Cow<'a, str>);

impl<'a> RawJson<'a> {
    /// `text` must be one JSON value that the scanner has accepted.
    pub(crate) const fn trusted(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// The text.
    #[must_use]
    pub fn get(&self) -> &str {
        &self.0
    }

    /// Decodes the text as `T`, which may borrow from it.
    ///
    /// # Errors
    /// What `T` has against the text.
    pub fn decode<'b, T: Deserialize<'b>>(&'b self) -> Result<T, serde_json::Error> {
        read(&self.0)
    }

    /// What it says, if it is a string. Nothing is copied unless there are escapes in it.
    #[must_use]
    pub fn into_text(self) -> Option<Cow<'a, str>> {
        match self.0 {
            Cow::Borrowed(text) => string(text),
            Cow::Owned(text) => Some(Cow::Owned(string(&text)?.into_owned())),
        }
    }

    /// A copy that does not borrow.
    #[must_use]
    pub fn into_owned(self) -> RawJson<'static> {
        RawJson(Cow::Owned(self.0.into_owned()))
    }

    /// What this may take at most when it is decoded and kept, in bytes: its text, and for each member or element the
    /// room that a list has for it. It may be more than its text has by far, since `"",` is an element, too.
    pub(crate) fn weight(&self) -> usize {
        const PLACE: usize = 96;
        self.0.len() + PLACE * (1 + memchr::memchr_iter(b',', self.0.as_bytes()).count())
    }

    /// The value of a member, if this is an object that has it.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<RawJson<'_>> {
        self.members().find_map(|(found, value)| (found == name).then_some(value))
    }

    /// The members, if this is an object: their names, unescaped, and their values, in the order in which they stand there.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'_, str>, RawJson<'_>)> {
        let mut scanner = Scanner::new(&self.0, MAX_DEPTH);
        let mut first = true;
        let is_object = scanner.eat(b'{');
        iter::from_fn(move || {
            if !is_object {
                return None;
            }
            let name = scanner.next_member(mem::replace(&mut first, false)).ok()??;
            let value = scanner.value(1).ok()?;
            Some((name.text(), RawJson::trusted(value)))
        })
    }

    /// Whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }
}

/// The text of a JSON value that is kept for a while. A short one is kept in place.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptJson(SmallVec<[u8; 96]>);

impl KeptJson {
    /// The value.
    #[must_use]
    pub fn get(&self) -> RawJson<'_> {
        RawJson::trusted(core::str::from_utf8(&self.0).unwrap_or("null"))
    }
}

impl From<RawJson<'_>> for KeptJson {
    fn from(RawJson(text): RawJson<'_>) -> Self {
        Self(match text {
            Cow::Borrowed(text) => SmallVec::from_slice(text.as_bytes()),
            Cow::Owned(text) => SmallVec::from_vec(text.into_bytes()),
        })
    }
}

impl fmt::Debug for KeptJson {
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
        Self(Cow::Borrowed(object.get()))
    }
}

impl<'a> From<&'a Json> for RawJson<'a> {
    fn from(json: &'a Json) -> Self {
        Self(Cow::Borrowed(json.get()))
    }
}

impl TryFrom<RawJson<'_>> for Json {
    type Error = serde_json::Error;

    fn try_from(raw: RawJson<'_>) -> Result<Self, serde_json::Error> {
        Self::parse(raw.0.into_owned()).map_err(de::Error::custom)
    }
}

impl fmt::Debug for RawJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
