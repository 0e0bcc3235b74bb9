//! Writes the members of an object by their rules.

use core::fmt;

use serde_core::ser::Error as _;

use super::{Encode, Entries, Name, Output, Rule, Word, absent, unfit};
use crate::{
    protocol::ProtocolVersion,
    schema::{Extra, base::decode::Object},
    wire::RawJson,
};

/// Writes one object.
pub(crate) struct Members<E> {
    entries: E,
    version: Option<ProtocolVersion>,
    owner: &'static str,
}

impl<E: Entries> Members<E> {
    /// Opens `object`.
    #[inline]
    pub(crate) fn new<O: Output<Object = E, Error = E::Error>, T: Object>(
        object: &T,
        out: O,
        version: Option<ProtocolVersion>,
        rule: &Rule<T>,
    ) -> Result<Self, E::Error> {
        match version {
            Some(version) if !rule.admits(object, version) => Err(refused(T::NAME, rule, version)),
            _ => Ok(Self { entries: out.object()?, version, owner: T::NAME }),
        }
    }

    /// Writes the member that names the kind of the object.
    #[inline]
    pub(crate) fn tag(&mut self, name: Name, kind: Word) -> Result<(), E::Error> {
        self.entries.word(name, kind)
    }

    /// Writes a required member.
    #[inline]
    pub(crate) fn required<T: Encode>(&mut self, name: Name, value: &T, rule: &Rule<T>) -> Result<(), E::Error> {
        match self.version {
            Some(version) if !rule.admits(value, version) => Err(self.refused(name, rule, version)),
            version => self.entries.member(name, value, version),
        }
    }

    /// Writes a required member that may be `null`.
    #[inline]
    pub(crate) fn nullable<T: Encode>(
        &mut self,
        name: Name,
        value: &Option<T>,
        _rule: &Rule<T>,
    ) -> Result<(), E::Error> {
        self.entries.member(name, value, self.version)
    }

    /// Writes a member if it is present and the revision has it.
    #[inline]
    pub(crate) fn optional<T: Encode>(
        &mut self,
        name: Name,
        value: &Option<T>,
        rule: &Rule<T>,
    ) -> Result<(), E::Error> {
        match (value, self.version) {
            (Some(value), version) if version.is_none_or(|version| rule.admits(value, version)) => {
                self.entries.member(name, value, version)
            }
            (Some(_), Some(version)) if rule.refuses(version) => Err(self.refused(name, rule, version)),
            (_, Some(version)) if rule.must_be_there(version) => self.fallback(name, rule, version),
            _ => Ok(()),
        }
    }

    /// Writes the extra members, except for those whose name is taken.
    #[inline]
    pub(crate) fn extra(&mut self, extra: &Extra, is_free: impl Fn(&str) -> bool) -> Result<(), E::Error> {
        if extra.is_empty() { Ok(()) } else { self.others(extra, &is_free) }
    }

    /// Closes the object.
    #[inline]
    pub(crate) fn end(self) -> Result<E::Done, E::Error> {
        self.entries.end()
    }

    #[cold]
    fn others(&mut self, extra: &Extra, is_free: &dyn Fn(&str) -> bool) -> Result<(), E::Error> {
        let free = extra.members().filter(|(name, _)| is_free(&name.comparable()));
        free.map(|(name, value)| (name, RawJson::trusted(value)))
            .try_for_each(|(name, value)| self.entries.kept(name, &value))
    }

    /// Writes the value of a missing member.
    #[cold]
    fn fallback<T: Encode>(&mut self, name: Name, rule: &Rule<T>, version: ProtocolVersion) -> Result<(), E::Error> {
        match rule.fallback() {
            Some(fallback) => self.entries.member(name, &fallback(), Some(version)),
            None => Err(E::Error::custom(format_args!("{}.{name} is required by {version}", self.owner))),
        }
    }

    #[cold]
    fn refused<T>(&self, name: Name, rule: &Rule<T>, version: ProtocolVersion) -> E::Error {
        refused(format_args!("{}.{name}", self.owner), rule, version)
    }
}

/// Returns the error for a value that `version` does not admit.
#[cold]
fn refused<T, E: serde_core::ser::Error>(what: impl fmt::Display, rule: &Rule<T>, version: ProtocolVersion) -> E {
    if rule.versions().contains(version) { unfit(what, version) } else { absent(what, version) }
}
