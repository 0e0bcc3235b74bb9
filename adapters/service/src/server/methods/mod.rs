//! Who answers what clients ask. What is offered brings along the code that answers for it: so a program that offers nothing but
//! tools has none in it that knows of prompts, resources or tasks.

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
    /// There are tools, or may be.
    pub(super) fn open_tools(&self) {
        self.open(Topic::Tools, tools::answer);
    }

    /// There are tools that run as tasks.
    pub(super) fn open_tasks(&self, desk: &TaskDesk) {
        self.open(Topic::Tasks, desk.answer);
    }

    /// There are prompts, or may be.
    pub(super) fn open_prompts(&self) {
        self.open(Topic::Prompts, prompts::answer);
        self.open(Topic::Completion, completion::answer);
    }

    /// There are resources, or may be.
    pub(super) fn open_resources(&self) {
        self.open(Topic::Resources, resources::answer);
    }

    /// There are templates of resources.
    pub(super) fn open_templates(&self) {
        self.open_resources();
        self.open(Topic::Completion, completion::answer);
    }

    /// There are skills.
    #[cfg(feature = "skills")]
    pub(super) fn open_skills(&self) {
        self.open_resources();
        self.open(Topic::Skills, skills::answer);
    }
}
