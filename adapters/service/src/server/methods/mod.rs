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

use super::routes::{RouteKey, Routes};
use super::tool::TaskRoutes;

impl Routes {
    /// Enables the requests about tools.
    pub(super) fn enable_tools(&self) {
        self.enable(RouteKey::Tools, tools::ROUTE);
    }

    /// Enables the requests about tasks.
    pub(super) fn enable_tasks(&self, route: &TaskRoutes) {
        self.enable(RouteKey::Tasks, route.route);
    }

    /// Enables the requests about prompts.
    pub(super) fn enable_prompts(&self) {
        self.enable(RouteKey::Prompts, prompts::ROUTE);
        self.enable(RouteKey::Completion, completion::ROUTE);
    }

    /// Enables the requests about resources.
    pub(super) fn enable_resources(&self) {
        self.enable(RouteKey::Resources, resources::ROUTE);
    }

    /// Enables the requests about resources and the completion of variables.
    pub(super) fn enable_templates(&self) {
        self.enable_resources();
        self.enable(RouteKey::Completion, completion::ROUTE);
    }

    /// Enables the requests about skills.
    #[cfg(feature = "skills")]
    pub(super) fn enable_skills(&self) {
        self.enable_resources();
        self.enable(RouteKey::Skills, skills::ROUTE);
    }
}
