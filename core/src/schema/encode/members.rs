//! The members of an object: which are written, and which must not be.

use serde_core::{
    Serializer,
    ser::{Error as _, SerializeMap},
};

use super::{At, Encode, Rule, absent, unfit};
use crate::{
    protocol::ProtocolVersion,
    schema::{Extra, decode::Object},
};

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
            Some(version) if !rule.versions().contains(version) => Err(absent(T::NAME, version)),
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
        if rule.versions().contains(version) { unfit(name, version) } else { absent(name, version) }
    }
}
