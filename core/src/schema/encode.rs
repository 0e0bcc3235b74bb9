//! How objects are written: with what a revision has, without what it does not have.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;

use serde_core::{
    Serialize, Serializer,
    ser::{self, Error as _, SerializeMap},
};
use serde_json::Number;

use super::{Extra, decode::Object, format::Format};
use crate::{
    protocol::{Method, ProtocolVersion, VersionSet},
    wire::{Json, JsonObject, RequestId, encode},
};

/// A value that is written differently for different revisions.
///
/// With a revision, what that revision does not have is left out where it only adds to the picture (a title, an
/// icon), and is an error where the message would mean something else without it. With `None` everything is written.
pub trait Encode {
    /// Writes the value in the form that `version` has for it.
    ///
    /// # Errors
    /// If `version` has no form for it, and those of the serializer.
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error>;

    /// Writes that form as text. What is sent most often knows a shorter way than through a serializer.
    ///
    /// # Errors
    /// As [`encode_at`](Self::encode_at). What `out` was given before is of no use then.
    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        out.value(&At(self, version))
    }
}

/// JSON text while it is written: on one line, whoever writes it, since on most transports a line is a message.
#[derive(Debug)]
pub struct JsonLine<'a>(&'a mut Vec<u8>);

impl<'a> JsonLine<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self(out)
    }

    /// Appends the text of `value`. Line breaks between tokens of JSON that it has as text ([`Json`]) become spaces.
    ///
    /// # Errors
    /// Those of `value`, and for keys that are no strings.
    pub fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), serde_json::Error> {
        encode::value(self.0, value)
    }

    /// Appends a string, in quotes and escaped.
    pub fn string(&mut self, text: &str) {
        encode::text(self.0, text);
    }

    /// Appends part of a value, as it is. It has no line break.
    pub(crate) fn part(&mut self, json: &'static str) {
        self.0.extend_from_slice(json.as_bytes());
    }
}

/// A value together with the revision to write it for, for whoever wants a [`Serialize`].
#[derive(Debug)]
pub struct At<'a, T: ?Sized>(pub &'a T, pub Option<ProtocolVersion>);

impl<T: Encode + ?Sized> Serialize for At<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.encode_at(self.1, serializer)
    }
}

macro_rules! in_every_revision {
    ($($Type:ty),*) => {
        $(impl Encode for $Type {
            fn encode_at<S: Serializer>(&self, _version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
                self.serialize(serializer)
            }
        })*
    };
}

in_every_revision!(String, bool, i64, u64, Number, Json, JsonObject, RequestId);

impl<T: Encode> Encode for Vec<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|item| At(item, version)))
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.encode_at(version, serializer),
            None => serializer.serialize_none(),
        }
    }
}

impl<T: Encode + ?Sized> Encode for Box<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).encode_at(version, serializer)
    }
}

/// What holds for a member: which revisions have it, and what is done about the others.
pub(crate) struct Rule<T> {
    versions: VersionSet,
    refuse: bool,
    needed: bool,
    insists: bool,
    fits: Option<fn(&T, ProtocolVersion) -> bool>,
    fallback: Option<fn() -> T>,
    format: Option<Format>,
    mend: Option<fn(&mut T)>,
}

impl<T> Rule<T> {
    /// In every revision.
    pub(crate) const fn new() -> Self {
        Self {
            versions: VersionSet::ALL,
            refuse: false,
            needed: false,
            insists: false,
            fits: None,
            fallback: None,
            format: None,
            mend: None,
        }
    }

    /// In `version` and all later ones.
    pub(crate) const fn since(mut self, version: ProtocolVersion) -> Self {
        self.versions = self.versions.intersection(VersionSet::since(version));
        self
    }

    /// In `version` and all earlier ones.
    pub(crate) const fn until(mut self, version: ProtocolVersion) -> Self {
        self.versions = self.versions.intersection(VersionSet::between(ProtocolVersion::V2024_11_05, version));
        self
    }

    /// Only in `version`.
    pub(crate) const fn only(mut self, version: ProtocolVersion) -> Self {
        self.versions = VersionSet::only(version);
        self
    }

    /// Where `method` exists, also inside of another message.
    pub(crate) const fn method(mut self, method: Method) -> Self {
        self.versions = self.versions.intersection(super::messages::versions(method));
        self
    }

    /// Without it the message would mean something else: writing it for another revision is an error.
    pub(crate) const fn or_refuse(mut self) -> Self {
        self.refuse = true;
        self
    }

    /// Optional in the type, required by the revisions that have it.
    pub(crate) const fn needed(mut self) -> Self {
        self.needed = true;
        self
    }

    /// Only values of this kind exist in a revision. Others are treated as in revisions without the member.
    pub(crate) const fn fits(mut self, fits: fn(&T, ProtocolVersion) -> bool) -> Self {
        self.fits = Some(fits);
        self
    }

    /// Only values of this kind exist in a revision, and others are refused.
    pub(crate) const fn has_to(mut self, fits: fn(&T, ProtocolVersion) -> bool) -> Self {
        self.insists = true;
        self.fits(fits)
    }

    /// What a missing member stands for. A required one may be missing from the input; an optional one is written
    /// for the revisions that have it.
    pub(crate) const fn or(mut self, fallback: fn() -> T) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// What the text or number has to look like.
    pub(crate) const fn is(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// How a random value becomes one that [`has_to`](Self::has_to) lets through, where few of them are.
    pub(crate) const fn mended(mut self, mend: fn(&mut T)) -> Self {
        self.mend = Some(mend);
        self
    }

    /// The revisions that have the member.
    pub(crate) const fn versions(&self) -> VersionSet {
        self.versions
    }

    /// What a missing member stands for.
    pub(crate) const fn fallback(&self) -> Option<fn() -> T> {
        self.fallback
    }

    /// Whether the member is written with this value.
    pub(crate) fn admits(&self, value: &T, version: ProtocolVersion) -> bool {
        self.versions.contains(version) && self.fits.is_none_or(|fits| fits(value, version))
    }

    /// Whether it is an error to write the member with a value that `version` does not admit.
    pub(crate) const fn refuses(&self, version: ProtocolVersion) -> bool {
        self.refuse || (self.insists && self.versions.contains(version))
    }

    /// Whether a member that had an unexpected form may be written out again.
    pub(crate) fn may_be_odd(&self, version: Option<ProtocolVersion>) -> bool {
        version.is_none_or(|version| self.versions.contains(version) && !self.must_be_there(version))
    }

    /// Whether `version` wants the member in every object.
    pub(crate) fn must_be_there(&self, version: ProtocolVersion) -> bool {
        self.versions.contains(version) && (self.needed || self.fallback.is_some())
    }

    /// Makes a random value one that the rule admits.
    #[cfg(feature = "arbitrary")]
    pub(crate) fn mend(&self, value: &mut T) {
        if let Some(mend) = self.mend {
            mend(value);
        }
    }

    /// What the text or number has to look like.
    #[cfg(feature = "arbitrary")]
    pub(crate) const fn format(&self) -> Option<Format> {
        self.format
    }
}

/// An object while it is written.
pub(crate) struct Members<M> {
    map: M,
    version: Option<ProtocolVersion>,
    owner: &'static str,
}

impl<M: SerializeMap> Members<M> {
    /// Opens `object`.
    pub(crate) fn new<S: Serializer<SerializeMap = M, Error = M::Error>, T: Object>(
        object: &T,
        serializer: S,
        version: Option<ProtocolVersion>,
        rule: &Rule<T>,
    ) -> Result<Self, M::Error> {
        match version {
            Some(version) if !rule.versions.contains(version) => Err(absent(T::NAME, version)),
            Some(version) if !rule.admits(object, version) => Err(unfit(T::NAME, version)),
            _ => Ok(Self { map: serializer.serialize_map(None)?, version, owner: T::NAME }),
        }
    }

    /// Writes the member that says which kind of object this is.
    pub(crate) fn tag(&mut self, name: &'static str, kind: &'static str) -> Result<(), M::Error> {
        self.map.serialize_entry(name, kind)
    }

    /// Writes a member that is always there.
    pub(crate) fn required<T: Encode>(
        &mut self,
        name: &'static str,
        value: &T,
        rule: &Rule<T>,
    ) -> Result<(), M::Error> {
        match self.version {
            Some(version) if !rule.admits(value, version) => Err(self.refused(name, rule, version)),
            version => self.map.serialize_entry(name, &At(value, version)),
        }
    }

    /// Writes a member that is always there and may be `null`.
    pub(crate) fn nullable<T: Encode>(
        &mut self,
        name: &'static str,
        value: &Option<T>,
        _rule: &Rule<T>,
    ) -> Result<(), M::Error> {
        self.map.serialize_entry(name, &At(value, self.version))
    }

    /// Writes a member if there is one and the revision has it.
    pub(crate) fn optional<T: Encode>(
        &mut self,
        name: &'static str,
        value: &Option<T>,
        rule: &Rule<T>,
    ) -> Result<(), M::Error> {
        match (value, self.version) {
            (Some(value), None) => self.map.serialize_entry(name, &At(value, None)),
            (Some(value), Some(version)) if rule.admits(value, version) => {
                self.map.serialize_entry(name, &At(value, Some(version)))
            }
            (Some(_), Some(version)) if rule.refuses(version) => Err(self.refused(name, rule, version)),
            (_, Some(version)) if rule.must_be_there(version) => match rule.fallback() {
                Some(fallback) => self.map.serialize_entry(name, &At(&fallback(), Some(version))),
                None => Err(M::Error::custom(format_args!("{}.{name} is required by {version}", self.owner))),
            },
            _ => Ok(()),
        }
    }

    /// Writes the other members, except for those whose place is taken.
    pub(crate) fn extra(&mut self, extra: &Extra, is_free: impl Fn(&str) -> bool) -> Result<(), M::Error> {
        if extra.is_empty() {
            return Ok(());
        }
        for (name, value) in extra.iter().filter(|(name, _)| is_free(name)) {
            self.map.serialize_entry(&name, &value)?;
        }
        Ok(())
    }

    /// Closes the object.
    pub(crate) fn end(self) -> Result<M::Ok, M::Error> {
        self.map.end()
    }

    #[cold]
    fn refused<T>(&self, name: &str, rule: &Rule<T>, version: ProtocolVersion) -> M::Error {
        let name = format_args!("{}.{name}", self.owner);
        if rule.versions.contains(version) { unfit(name, version) } else { absent(name, version) }
    }
}

/// The error for something that a revision does not have.
#[cold]
pub(crate) fn absent<E: ser::Error>(what: impl fmt::Display, version: ProtocolVersion) -> E {
    E::custom(format_args!("{what} is not part of {version}"))
}

/// The error for something that a revision has, but not with this value.
#[cold]
pub(crate) fn unfit<E: ser::Error>(what: impl fmt::Display, version: ProtocolVersion) -> E {
    E::custom(format_args!("{what} has a value that {version} does not allow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_written_is_one_line() {
        let kept = |text| Json::parse(text).expect("JSON");
        let mut out = Vec::new();
        let mut line = JsonLine::new(&mut out);
        line.part("[");
        line.value(&[kept("[1,\n2]"), kept("{\"a\":\r\n\"b\"}")]).expect("it has been read");
        line.part(",");
        line.string("a\r\nb");
        line.part("]");
        assert_eq!(String::from_utf8(out).expect("text"), r#"[[[1, 2],{"a":  "b"}],"a\r\nb"]"#);
    }
}
