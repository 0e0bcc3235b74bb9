//! Requests of a client about skills and folders.

use mcp_proto::{
    connection::{ClientRole, SendError},
    schema::{GetSkillParams, GetSkillResult, ReadDirectoryParams, ReadDirectoryResult, Resource},
};

use super::pages::Pages;
use crate::outbound::{peer::Peer, pending::Pending};
#[cfg(feature = "skills")]
use crate::{
    outbound::error::CallError,
    skills::verify::{SkillFile, announced, verified},
};
#[cfg(feature = "skills")]
use mcp_proto::schema::Skill;

impl Peer<ClientRole> {
    /// Sends a request for the current entry of one skill, by the URI of its `SKILL.md`. The skill need not be in a
    /// list.
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn get_skill(&self, uri: &str) -> Result<Pending<GetSkillResult>, SendError> {
        self.request(&GetSkillParams::new(uri))
    }

    /// Reads the `SKILL.md` of a skill. Call it only when a model uses the skill. The file is only returned if its
    /// size, digest and frontmatter match the skill's entry.
    ///
    /// It is text of a third party for a model: show its origin to the user, and run no part of it without consent. If
    /// it is refused because it has changed in between, [`get_skill`](Self::get_skill) with
    /// [`bypass_cache`](Peer::bypass_cache) returns the current version, which the user has not approved yet.
    ///
    /// # Errors
    /// If the request is not allowed now, or the skill's entry contradicts itself. It was not sent then.
    #[cfg(feature = "skills")]
    pub fn load_skill(&self, skill: &Skill) -> Result<Pending<SkillFile>, CallError> {
        self.read_skill_file(skill, &skill.uri)
    }

    /// Reads another file of a skill, when the model needs it, and checks it as [`load_skill`](Self::load_skill) does.
    ///
    /// # Errors
    /// If the request is not allowed now, the file does not belong to the skill, or the skill's entry contradicts
    /// itself. It was not sent then.
    #[cfg(feature = "skills")]
    pub fn read_skill_file(&self, skill: &Skill, uri: &str) -> Result<Pending<SkillFile>, CallError> {
        let announced = announced(skill, uri)?;
        let (skill, uri) = (skill.clone(), uri.to_owned());
        let pending = self.read_resource(&uri)?;
        Ok(pending.and_then(move |result| Ok(verified(&skill, uri, announced, result)?)))
    }

    /// Lists the direct contents of a folder: the first page, or the page of a cursor. Folders have the media type
    /// [`DIRECTORY`](mcp_proto::schema::DIRECTORY).
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn read_directory(&self, uri: &str, cursor: Option<&str>) -> Result<Pending<ReadDirectoryResult>, SendError> {
        self.request(&ReadDirectoryParams { cursor: cursor.map(Into::into), ..ReadDirectoryParams::new(uri) })
    }

    /// Lists all direct contents of a folder. Pages are requested as their items are taken.
    pub fn all_in_directory(&self, uri: &str) -> Pages<Resource> {
        let (peer, uri) = (self.clone(), uri.to_owned());
        Pages::new(self, move |cursor| {
            Ok(peer.read_directory(&uri, cursor)?.and_then(|page| Ok((page.resources, page.next_cursor))))
        })
    }
}
