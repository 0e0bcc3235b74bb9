//! What a client asks for skills and folders.

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
    /// Asks for one skill as it is now, by the URI of its `SKILL.md`: also for one that is in no list.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn get_skill(&self, uri: &str) -> Result<Pending<GetSkillResult>, SendError> {
        self.request(&GetSkillParams::new(uri))
    }

    /// Reads the `SKILL.md` of a skill, when a model is to act on it, and not before. What comes is only handed out if it has
    /// the size, the digest and the frontmatter that the skill says.
    ///
    /// It is text from a third party for a model: show the user where it comes from, and run nothing that it says
    /// without asking. If it is refused because it has changed in between, [`get_skill`](Self::get_skill) with
    /// [`bypass_cache`](Peer::bypass_cache) returns the current version, to which the user has not agreed yet.
    ///
    /// # Errors
    /// If it is not allowed now, or the skill contradicts itself; nothing has been sent then.
    #[cfg(feature = "skills")]
    pub fn load_skill(&self, skill: &Skill) -> Result<Pending<SkillFile>, CallError> {
        self.read_skill_file(skill, &skill.uri)
    }

    /// Reads another file of a skill, when the model wants it, and checks it as [`load_skill`](Self::load_skill) does.
    ///
    /// # Errors
    /// If it is not allowed now, the file does not belong to the skill, or the skill contradicts itself; nothing has been
    /// sent then.
    #[cfg(feature = "skills")]
    pub fn read_skill_file(&self, skill: &Skill, uri: &str) -> Result<Pending<SkillFile>, CallError> {
        let announced = announced(skill, uri)?;
        let (skill, uri) = (skill.clone(), uri.to_owned());
        let pending = self.read_resource(&uri)?;
        Ok(pending.and_then(move |result| Ok(verified(&skill, uri, announced, result)?)))
    }

    /// A page of what is directly in a folder: the first one, or the one that a cursor leads to. Folders have the type
    /// [`DIRECTORY`](mcp_proto::schema::DIRECTORY).
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn read_directory(&self, uri: &str, cursor: Option<&str>) -> Result<Pending<ReadDirectoryResult>, SendError> {
        self.request(&ReadDirectoryParams { cursor: cursor.map(Into::into), ..ReadDirectoryParams::new(uri) })
    }

    /// All that is directly in a folder, page by page as far as it is looked at.
    pub fn all_in_directory(&self, uri: &str) -> Pages<Resource> {
        let (peer, uri) = (self.clone(), uri.to_owned());
        Pages::new(self, move |cursor| {
            Ok(peer.read_directory(&uri, cursor)?.and_then(|page| Ok((page.resources, page.next_cursor))))
        })
    }
}
