//! The methods of 2026-07-28, taken from the specification and not from the method table of the core.

use mcp_proto::protocol::Capability::{self, *};

/// Which side sends a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Clients only.
    Client,
    /// Servers only.
    Server,
    /// Clients and servers.
    Both,
    /// None: the revision does not have the method.
    Removed,
}

/// The rules of 2026-07-28 for one method name.
#[derive(Clone, Copy, Debug)]
pub struct ModernMethod {
    /// The name on the wire.
    pub name: &'static str,
    /// Which side sends it in 2026-07-28.
    pub sender: Sender,
    /// The capability of the server that it requires.
    pub needs: Option<Capability>,
    /// Whether the client has to declare the capability too.
    pub mutual: bool,
}

impl ModernMethod {
    /// Returns whether a message with this name is a notification.
    #[must_use]
    pub fn is_notification(&self) -> bool {
        self.name.starts_with("notifications/")
    }
}

const fn row(name: &'static str, sender: Sender, needs: Option<Capability>) -> ModernMethod {
    ModernMethod { name, sender, needs, mutual: false }
}

const fn extension(name: &'static str, sender: Sender, needs: Capability) -> ModernMethod {
    ModernMethod { name, sender, needs: Some(needs), mutual: true }
}

/// All method names of all revisions, with their rules in 2026-07-28.
pub const MODERN: [ModernMethod; 39] = [
    row("server/discover", Sender::Client, None),
    row("subscriptions/listen", Sender::Client, None),
    row("tools/list", Sender::Client, Some(Tools)),
    row("tools/call", Sender::Client, Some(Tools)),
    row("prompts/list", Sender::Client, Some(Prompts)),
    row("prompts/get", Sender::Client, Some(Prompts)),
    row("resources/list", Sender::Client, Some(Resources)),
    row("resources/templates/list", Sender::Client, Some(Resources)),
    row("resources/read", Sender::Client, Some(Resources)),
    row("completion/complete", Sender::Client, Some(Completions)),
    extension("tasks/get", Sender::Client, TasksExtension),
    extension("tasks/update", Sender::Client, TasksExtension),
    extension("tasks/cancel", Sender::Client, TasksExtension),
    row("skills/list", Sender::Client, Some(SkillsExtension)),
    row("skills/get", Sender::Client, Some(SkillsExtension)),
    row("resources/directory/read", Sender::Client, Some(SkillsDirectories)),
    row("initialize", Sender::Removed, None),
    row("ping", Sender::Removed, None),
    row("logging/setLevel", Sender::Removed, None),
    row("resources/subscribe", Sender::Removed, None),
    row("resources/unsubscribe", Sender::Removed, None),
    row("roots/list", Sender::Removed, None),
    row("sampling/createMessage", Sender::Removed, None),
    row("elicitation/create", Sender::Removed, None),
    row("tasks/result", Sender::Removed, None),
    row("tasks/list", Sender::Removed, None),
    row("notifications/initialized", Sender::Removed, None),
    row("notifications/roots/list_changed", Sender::Removed, None),
    row("notifications/elicitation/complete", Sender::Removed, None),
    row("notifications/tasks/status", Sender::Removed, None),
    row("notifications/cancelled", Sender::Both, None),
    row("notifications/progress", Sender::Server, None),
    row("notifications/message", Sender::Server, Some(Logging)),
    row("notifications/tools/list_changed", Sender::Server, Some(ToolsListChanged)),
    row("notifications/prompts/list_changed", Sender::Server, Some(PromptsListChanged)),
    row("notifications/resources/list_changed", Sender::Server, Some(ResourcesListChanged)),
    row("notifications/resources/updated", Sender::Server, Some(ResourcesSubscribe)),
    row("notifications/subscriptions/acknowledged", Sender::Server, None),
    extension("notifications/tasks", Sender::Server, TasksExtension),
];

/// Returns the requests that 2026-07-28 removed.
pub fn removed_requests() -> impl Iterator<Item = &'static str> {
    let removed = |method: &ModernMethod| method.sender == Sender::Removed && !method.is_notification();
    MODERN.into_iter().filter(removed).map(|method| method.name)
}
