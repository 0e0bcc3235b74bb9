//! The skills extension: folders of instructions for models. Their files are resources of a server.
//!
//! A server that declares the extension lists its skills, each with all of its files and their digests, and serves the
//! files as resources. Clients declare nothing. The extension is written for 2026-07-28. Sessions of 2025-11-25 have it
//! too, since both sides of some of them use it.
//!
//! Spec: [skills](https://modelcontextprotocol.io/extensions/skills)

use alloc::{string::String, vec::Vec};

use serde_core::{
    Deserialize, Deserializer,
    de::{Error as _, Unexpected},
};
use serde_json::Error;

use super::{CacheScope, Resource};
use crate::{
    protocol::ProtocolVersion,
    schema::base::{
        decode::{Member, read_from},
        encode::Output,
        macros::*,
    },
    wire::reader::Reader,
};

/// The value instead of a list of files for a skill whose files are generated when they are read.
const DYNAMIC: &str = "dynamic";

object! {
    /// Params of `skills/list`.
    pub struct ListSkillsParams: params(ListSkills => ListSkillsResult) {
        /// The `next_cursor` of the previous page; absent for the first page.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `skills/list`: one page of skills. A server may omit skills.
    pub struct ListSkillsResult: result, since(V2025_11_25) {
        /// The skills.
        "skills" => skills: required Vec<Skill>;
        /// The cursor of the next page; absent on the last page.
        "nextCursor" => next_cursor: optional String;
        /// The time for which the result may be cached, in milliseconds. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// The users for whom the cached result may be used. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `skills/get`.
    pub struct GetSkillParams: params(GetSkill => GetSkillResult) {
        /// The URI of the `SKILL.md`.
        "uri" => uri: required String, is(Uri);
    }
}

object! {
    /// The result of `skills/get`: the current state of one skill.
    pub struct GetSkillResult: result, since(V2025_11_25) {
        /// The skill.
        "skill" => skill: required Skill;
        /// The time for which the result may be cached, in milliseconds. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// The users for whom the cached result may be used. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `resources/directory/read`.
    pub struct ReadDirectoryParams: params(ReadDirectory => ReadDirectoryResult) {
        /// The URI of the directory, without a final slash.
        "uri" => uri: required String, is(Uri);
        /// The `next_cursor` of the previous page; absent for the first page.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `resources/directory/read`: one page of the entries of a directory.
    pub struct ReadDirectoryResult: result, since(V2025_11_25) {
        /// The files and directories; the latter have the type [`DIRECTORY`].
        "resources" => resources: required Vec<Resource>;
        /// The cursor of the next page; absent on the last page.
        "nextCursor" => next_cursor: optional String;
    }
}

/// The media type of a resource that is a directory.
pub const DIRECTORY: &str = "inode/directory";

/// The limits within which every host loads a skill: the number of files, and the bytes of all of them together.
pub const SKILL_LIMITS: (usize, u64) = (512, 16 * 1024 * 1024);

object! {
    /// A skill: its description and its files.
    pub struct Skill: data, since(V2025_11_25) {
        /// The URI of its `SKILL.md`. The folder above that has the name of the skill.
        "uri" => uri: required String, is(Uri);
        /// The front matter of its `SKILL.md`.
        "frontmatter" => frontmatter: required SkillFrontmatter;
        /// The files of the skill.
        "resources" => resources: required SkillResources;
    }
}

object! {
    /// The front matter of a `SKILL.md`. Further members are in `extra`, as received.
    pub struct SkillFrontmatter: data, since(V2025_11_25) {
        /// The name of the skill.
        "name" => name: required String;
        /// The purpose of the skill, and when to use it.
        "description" => description: required String;
    }
}

object! {
    /// A file of a skill.
    pub struct SkillResource: data, since(V2025_11_25) {
        /// The URI of the file.
        "uri" => uri: required String, is(Uri);
        /// The SHA-256 digest of its bytes: `sha256:` and 64 hexadecimal digits in lower case.
        "digest" => digest: required String, is(Digest);
        /// The number of bytes.
        "size" => size: required u64;
    }
}

/// The files of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillResources {
    /// All files, each once, with the `SKILL.md` itself and the files of nested skills.
    Listed(Vec<SkillResource>),
    /// `"dynamic"`: the files are generated when they are read, so that they have no digests.
    Dynamic,
}

impl SkillResources {
    /// Returns the files, or `None` for dynamic ones.
    #[must_use]
    pub fn listed(&self) -> Option<&[SkillResource]> {
        match self {
            Self::Listed(files) => Some(files),
            Self::Dynamic => None,
        }
    }
}

impl From<Vec<SkillResource>> for SkillResources {
    fn from(files: Vec<SkillResource>) -> Self {
        Self::Listed(files)
    }
}

impl SkillResources {
    fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
        match self {
            Self::Listed(files) => out.value(files, version),
            Self::Dynamic => out.string(DYNAMIC),
        }
    }
}

through_write! { SkillResources }

impl Member for SkillResources {
    /// Reads an array of files or `"dynamic"`. Any other value is an error: a skill without known files is not loaded.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        const EXPECTED: &str = "an array of files or \"dynamic\"";
        match reader.peek() {
            Some(b'[') => Vec::read(reader).map(Self::Listed),
            Some(b'"') => match &*reader.string()? {
                DYNAMIC => Ok(Self::Dynamic),
                other => Err(Error::invalid_value(Unexpected::Str(other), &EXPECTED)),
            },
            _ => Err(reader.unexpected(&EXPECTED)),
        }
    }
}

impl<'de> Deserialize<'de> for SkillResources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_from(deserializer, Self::read)
    }
}

#[cfg(feature = "arbitrary")]
impl super::ArbitraryAt for SkillResources {
    fn arbitrary_at(u: &mut arbitrary::Unstructured<'_>, version: Option<ProtocolVersion>) -> arbitrary::Result<Self> {
        if u.ratio(1, 4)? { Ok(Self::Dynamic) } else { super::ArbitraryAt::arbitrary_at(u, version).map(Self::Listed) }
    }
}
