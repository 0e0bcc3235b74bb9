//! The `extensions` of capabilities (2026-07-28): what a side speaks beyond the specification.

use alloc::string::String;
use core::fmt;

use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Encode, Map, decode::Member};
use crate::{
    protocol::{InvalidMetaKey, ProtocolVersion, check_extension_name},
    wire::JsonObject,
};

/// Extensions and their settings, `{}` where there is nothing to set.
///
/// Any name is accepted from a peer. Own names follow the grammar, see [`insert`](Self::insert).
///
/// Spec: [extension negotiation](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation)
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Extensions(Map<JsonObject>);

impl Extensions {
    /// No extensions.
    #[must_use]
    pub const fn new() -> Self {
        Self(Map::new())
    }

    /// The settings of the extension `name`, if it is declared.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&JsonObject> {
        self.0.get(name)
    }

    /// Declares an extension, such as `com.example/barn`, and hands back the settings that it had.
    ///
    /// # Errors
    /// If the name has no prefix, or is none that a key of `_meta` could have.
    pub fn insert(
        &mut self,
        name: impl Into<String>,
        settings: JsonObject,
    ) -> Result<Option<JsonObject>, InvalidMetaKey> {
        let name = name.into();
        check_extension_name(&name)?;
        Ok(self.0.insert(name, settings))
    }

    /// Takes an extension out, and hands back its settings.
    pub fn remove(&mut self, name: &str) -> Option<JsonObject> {
        self.0.remove(name)
    }

    /// All extensions in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &JsonObject)> {
        self.0.iter()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Encode for Extensions {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.encode_at(version, serializer)
    }
}

impl Serialize for Extensions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Extensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self)
    }
}

impl Member for Extensions {}

#[cfg(feature = "arbitrary")]
impl super::ArbitraryAt for Extensions {
    fn arbitrary_at(u: &mut arbitrary::Unstructured<'_>, version: Option<ProtocolVersion>) -> arbitrary::Result<Self> {
        super::ArbitraryAt::arbitrary_at(u, version).map(Self)
    }
}
