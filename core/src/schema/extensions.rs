//! The `extensions` of capabilities (2026-07-28, and peers of 2025-11-25).

use alloc::string::String;
use core::fmt;

use serde_core::{Deserialize, Deserializer};

use super::Map;
use crate::{
    protocol::{InvalidMetaKey, ProtocolVersion, VersionSet, check_extension_name},
    schema::base::{
        decode::{Member, read_from},
        encode::{Entries, Output, through_write},
    },
    wire::{JsonObject, reader::Reader},
};

/// The name of the tasks extension among the `extensions`.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The name of the skills extension among the `extensions`.
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// Extensions and their settings; `{}` for an extension without settings.
///
/// Any name is accepted from a peer. Names that the application inserts follow a grammar, see [`insert`](Self::insert).
///
/// Spec: [extension
/// negotiation](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation)
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Extensions(Map<JsonObject>);

impl Extensions {
    /// Creates an object without extensions.
    #[must_use]
    pub const fn new() -> Self {
        Self(Map::new())
    }

    /// Returns the settings of the extension `name`, if it is declared.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&JsonObject> {
        self.0.get(name)
    }

    /// Declares an extension, such as `com.example/barn`, and returns its former settings.
    ///
    /// # Errors
    /// Returns an error if the name has no prefix, or is not a valid key of `_meta`.
    pub fn insert(
        &mut self,
        name: impl Into<String>,
        settings: JsonObject,
    ) -> Result<Option<JsonObject>, InvalidMetaKey> {
        let name = name.into();
        check_extension_name(&name)?;
        Ok(self.0.insert(name, settings))
    }

    /// Removes an extension and returns its settings.
    pub fn remove(&mut self, name: &str) -> Option<JsonObject> {
        self.0.remove(name)
    }

    /// Returns an iterator over the names and settings in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &JsonObject)> {
        self.0.iter()
    }

    /// Returns whether there are no extensions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether `version` has any of the extensions. True for an empty object.
    pub(super) fn exist_in(&self, version: ProtocolVersion) -> bool {
        self.0.is_empty() || self.0.iter().any(|(name, _)| versions(name).contains(version))
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Extensions {
    fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
        let there = |name: &str| version.is_none_or(|version| versions(name).contains(version));
        let mut object = out.object()?;
        self.iter()
            .filter(|(name, _)| there(name))
            .try_for_each(|(name, settings)| object.named(name, settings, version))?;
        object.end()
    }
}

through_write! { Extensions }

/// Returns the revisions that have an extension: all of them, if the extension is unknown.
fn versions(name: &str) -> VersionSet {
    if name == TASKS_EXTENSION { VersionSet::MODERN } else { VersionSet::ALL }
}

impl<'de> Deserialize<'de> for Extensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_from(deserializer, Self::read)
    }
}

impl Member for Extensions {
    fn read(reader: &mut Reader<'_>) -> Result<Self, serde_json::Error> {
        Map::read(reader).map(Self)
    }
}

#[cfg(feature = "arbitrary")]
impl super::ArbitraryAt for Extensions {
    fn arbitrary_at(u: &mut arbitrary::Unstructured<'_>, version: Option<ProtocolVersion>) -> arbitrary::Result<Self> {
        super::ArbitraryAt::arbitrary_at(u, version).map(Self)
    }
}
