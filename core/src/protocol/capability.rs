//! Capabilities that a peer can declare, as a set of bits. The method table names them.

use core::{fmt, iter};

macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident = $path:literal,)*) => {
        /// A capability that a client or a server can declare.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Capability { $($(#[$doc])* $name,)* }

        impl Capability {
            /// Every capability.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the path of the declaration inside the capabilities object, for example `resources.subscribe`.
            #[must_use]
            pub const fn path(self) -> &'static str {
                match self { $(Self::$name => $path,)* }
            }
        }
    };
}

capabilities! {
    /// A client that answers `roots/list`.
    Roots = "roots",
    /// A client that sends a notification when its roots change.
    RootsListChanged = "roots.listChanged",
    /// A client that answers `sampling/createMessage`.
    Sampling = "sampling",
    /// A client that understands `includeContext` in sampling.
    SamplingContext = "sampling.context",
    /// A client that accepts tools in sampling.
    SamplingTools = "sampling.tools",
    /// A client that answers `elicitation/create`.
    Elicitation = "elicitation",
    /// A client that shows forms. `elicitation: {}` means this one.
    ElicitationForm = "elicitation.form",
    /// A client that opens URLs.
    ElicitationUrl = "elicitation.url",
    /// A server with prompts.
    Prompts = "prompts",
    /// A server that sends a notification when its list of prompts changes.
    PromptsListChanged = "prompts.listChanged",
    /// A server with resources.
    Resources = "resources",
    /// A server that accepts subscriptions to resources.
    ResourcesSubscribe = "resources.subscribe",
    /// A server that sends a notification when its list of resources changes.
    ResourcesListChanged = "resources.listChanged",
    /// A server with tools.
    Tools = "tools",
    /// A server that sends a notification when its list of tools changes.
    ToolsListChanged = "tools.listChanged",
    /// A server that sends log messages.
    Logging = "logging",
    /// A server that completes arguments.
    Completions = "completions",
    /// Either side: tasks of 2025-11-25.
    Tasks = "tasks",
    /// Either side: `tasks/list`.
    TasksList = "tasks.list",
    /// Either side: `tasks/cancel`.
    TasksCancel = "tasks.cancel",
    /// A server whose `tools/call` can become a task.
    TasksToolsCall = "tasks.requests.tools.call",
    /// A client whose `sampling/createMessage` can become a task.
    TasksSampling = "tasks.requests.sampling.createMessage",
    /// A client whose `elicitation/create` can become a task.
    TasksElicitation = "tasks.requests.elicitation.create",
    /// Either side, 2026-07-28: the extension `io.modelcontextprotocol/tasks`.
    TasksExtension = "extensions.io.modelcontextprotocol/tasks",
    /// A server with skills: the extension `io.modelcontextprotocol/skills`.
    SkillsExtension = "extensions.io.modelcontextprotocol/skills",
    /// A server with skills that reads directories.
    SkillsDirectories = "extensions.io.modelcontextprotocol/skills.directoryRead",
}

impl Capability {
    /// Returns whether both sides have to declare the capability before a request or a notification can use it.
    #[must_use]
    pub const fn is_mutual(self) -> bool {
        matches!(self, Self::TasksExtension)
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CapabilitySet(u32);

impl CapabilitySet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Returns whether `capability` is in the set.
    #[must_use]
    pub const fn contains(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u32) != 0
    }

    /// Returns the set with `capability` added.
    #[must_use]
    pub const fn with(self, capability: Capability) -> Self {
        Self(self.0 | (1 << capability as u32))
    }

    /// Returns the set with `capability` added if `declared` is true.
    #[must_use]
    pub const fn with_if(self, capability: Capability, declared: bool) -> Self {
        if declared { self.with(capability) } else { self }
    }

    /// Returns an iterator over the members, in the order of [`Capability::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        let Self(mut left) = self;
        iter::from_fn(move || {
            let lowest = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            Capability::ALL.get(lowest).copied()
        })
    }
}

impl FromIterator<Capability> for CapabilitySet {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        capabilities.into_iter().fold(Self::EMPTY, CapabilitySet::with)
    }
}

impl fmt::Debug for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Capability::path)).finish()
    }
}
