//! The skills extension: folders of instructions for models, whose files are resources of a server.
//!
//! A server that declares it lists its skills, each with all of its files and their digests, and serves the files like
//! other resources. Clients need not declare anything. It is written for 2026-07-28; sessions of 2025-11-25 have it too,
//! since both sides of some of them do.
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

/// What a skill says instead of a list of files if those change all the time.
const DYNAMIC: &str = "dynamic";

object! {
    /// Params of `skills/list`.
    pub struct ListSkillsParams: params(ListSkills => ListSkillsResult) {
        /// Where to go on: `next_cursor` of the page before.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `skills/list`: one page of skills. Servers need not list all that they have.
    pub struct ListSkillsResult: result, since(V2025_11_25) {
        /// The skills.
        "skills" => skills: required Vec<Skill>;
        /// Where the next page starts. Without it this is the last page.
        "nextCursor" => next_cursor: optional String;
        /// For how many milliseconds the result can be reused. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// Who may reuse the result. Since 2026-07-28.
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
    /// The result of `skills/get`: one skill, as it is now.
    pub struct GetSkillResult: result, since(V2025_11_25) {
        /// The skill.
        "skill" => skill: required Skill;
        /// For how many milliseconds the result can be reused. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// Who may reuse the result. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `resources/directory/read`.
    pub struct ReadDirectoryParams: params(ReadDirectory => ReadDirectoryResult) {
        /// The URI of the directory, without a slash at its end.
        "uri" => uri: required String, is(Uri);
        /// Where to go on: `next_cursor` of the page before.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `resources/directory/read`: one page of what is directly in a directory.
    pub struct ReadDirectoryResult: result, since(V2025_11_25) {
        /// Files, and directories, which have the type [`DIRECTORY`].
        "resources" => resources: required Vec<Resource>;
        /// Where the next page starts. Without it this is the last page.
        "nextCursor" => next_cursor: optional String;
    }
}

/// The media type of a resource that is a directory.
pub const DIRECTORY: &str = "inode/directory";

/// How many files a skill can have, and how many bytes all of them together, so that every host loads it.
pub const SKILL_LIMITS: (usize, u64) = (512, 16 * 1024 * 1024);

object! {
    /// A skill: what it is, and all of its files.
    pub struct Skill: data, since(V2025_11_25) {
        /// The URI of its `SKILL.md`. The folder above it is called like the skill.
        "uri" => uri: required String, is(Uri);
        /// What stands at the beginning of its `SKILL.md`.
        "frontmatter" => frontmatter: required SkillFrontmatter;
        /// Its files.
        "resources" => resources: required SkillResources;
    }
}

object! {
    /// What stands at the beginning of a `SKILL.md`. Whatever else its author wrote there is in `extra`, as it was.
    pub struct SkillFrontmatter: data, since(V2025_11_25) {
        /// What it is called.
        "name" => name: required String;
        /// What it is for, and when to use it.
        "description" => description: required String;
    }
}

object! {
    /// A file of a skill.
    pub struct SkillResource: data, since(V2025_11_25) {
        /// The URI of the file.
        "uri" => uri: required String, is(Uri);
        /// The SHA-256 of its bytes: `sha256:` and 64 digits in lower case.
        "digest" => digest: required String, is(Digest);
        /// How many bytes it has.
        "size" => size: required u64;
    }
}

/// The files of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillResources {
    /// All of them, each once, with the `SKILL.md` itself and the files of skills that lie within.
    Listed(Vec<SkillResource>),
    /// They are made when they are read, so that there is nothing to compare them with: `"dynamic"`.
    Dynamic,
}

impl SkillResources {
    /// The files, if they are known.
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
    /// Nothing else is accepted: a skill of which one does not know what belongs to it is not to be loaded.
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
