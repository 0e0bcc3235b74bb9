//! The code that responds to requests of clients, by topic. Registering an item links the code of its topic, so a
//! program with only tools does not contain the code of prompts, resources or tasks.

pub(crate) mod common;
pub(crate) mod completion;
pub(crate) mod prompts;
pub(crate) mod resources;
#[cfg(feature = "skills")]
pub(crate) mod skills;
pub(crate) mod tasks;
pub(crate) mod tools;

use super::routes::{Desks, Topic};
use super::tool::TaskDesk;

impl Desks {
    /// Enables the requests about tools.
    pub(super) fn open_tools(&self) {
        self.open(Topic::Tools, tools::answer);
    }

    /// Enables the requests about tasks.
    pub(super) fn open_tasks(&self, desk: &TaskDesk) {
        self.open(Topic::Tasks, desk.answer);
    }

    /// Enables the requests about prompts.
    pub(super) fn open_prompts(&self) {
        self.open(Topic::Prompts, prompts::answer);
        self.open(Topic::Completion, completion::answer);
    }

    /// Enables the requests about resources.
    pub(super) fn open_resources(&self) {
        self.open(Topic::Resources, resources::answer);
    }

    /// Enables the requests about resources and the completion of variables.
    pub(super) fn open_templates(&self) {
        self.open_resources();
        self.open(Topic::Completion, completion::answer);
    }

    /// Enables the requests about skills.
    #[cfg(feature = "skills")]
    pub(super) fn open_skills(&self) {
        self.open_resources();
        self.open(Topic::Skills, skills::answer);
    }
}
