//! The capabilities that a server declares.

use mcp_proto::{
    connection::ServerRole,
    protocol::{Capability, CapabilitySet},
    schema::{ServerCapabilities, TaskSupport},
};

use super::catalog::Catalog;
use crate::inbound::builder_common::{Common, declared};

/// The capabilities that are declared even if nothing is registered for them.
#[derive(Debug, Default)]
pub(super) struct DeclaredCapabilities {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) subscriptions: bool,
    /// All capabilities of servers, because backends may have any of them.
    pub(super) backends: bool,
}

impl DeclaredCapabilities {
    /// Returns all capabilities: those that follow from the catalog and the handlers, and those declared explicitly.
    pub(super) fn capabilities(&self, catalog: &Catalog, common: &Common<ServerRole>) -> ServerCapabilities {
        let tools = self.tools || self.backends || !catalog.tools.is_empty();
        let prompts = self.prompts || self.backends || !catalog.prompts.is_empty();
        let (skills, directories) = catalog.has_skills();
        let resources =
            self.resources || self.backends || !catalog.resources.is_empty() || !catalog.templates.is_empty() || skills;
        let completes = self.backends
            || catalog.prompts.iter().any(|prompt| prompt.completers.is_there())
            || catalog.templates.iter().any(|template| template.completers.is_there());
        let tasks = catalog.tools.iter().any(|tool| *tool.about.task_support() != TaskSupport::Forbidden);
        let there = [
            (Capability::Tools, tools),
            (Capability::ToolsListChanged, tools),
            (Capability::Prompts, prompts),
            (Capability::PromptsListChanged, prompts),
            (Capability::Resources, resources),
            (Capability::ResourcesListChanged, resources),
            (Capability::ResourcesSubscribe, resources && (self.subscriptions || self.backends)),
            // Handlers can log through their context.
            (Capability::Logging, tools || prompts || resources),
            (Capability::Completions, completes),
            (Capability::TasksList, tasks),
            (Capability::TasksCancel, tasks),
            (Capability::TasksToolsCall, tasks),
            (Capability::TasksExtension, tasks),
            (Capability::SkillsExtension, skills),
            (Capability::SkillsDirectories, directories),
        ];
        let withheld: CapabilitySet = common.withheld;
        let mut capabilities: ServerCapabilities = declared(&there, withheld).collect();
        if !common.experimental.is_empty() {
            capabilities.experimental = Some(common.experimental.clone());
        }
        capabilities
    }
}
