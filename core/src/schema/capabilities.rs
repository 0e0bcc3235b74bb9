//! Capabilities that clients and servers declare.
//!
//! An object that is present, even an empty one, declares a capability. The methods `set` convert the objects to the
//! [bits](CapabilitySet) that the [method table](crate::protocol::Method::needs) uses. Unknown keys are kept and have
//! no effect.
//!
//! Spec:
//! [capabilities](https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation)

use super::{
    At, Extensions, Map,
    extensions::{SKILLS_EXTENSION, TASKS_EXTENSION},
};
use crate::{
    protocol::{Capability, CapabilitySet, ProtocolVersion},
    schema::base::macros::*,
    wire::{JsonObject, RawJson},
};

object! {
    /// The capabilities of a client.
    pub struct ClientCapabilities: data {
        /// The client has roots and handles `roots/list`.
        "roots" => roots: optional RootsCapability;
        /// The client has a model and handles `sampling/createMessage`.
        "sampling" => sampling: optional SamplingCapability;
        /// The client has a user and handles `elicitation/create`. Since 2025-06-18.
        "elicitation" => elicitation: optional ElicitationCapability, since(V2025_06_18),
            fits(ElicitationCapability::exists_in);
        /// This side can run requests as tasks. Only 2025-11-25.
        "tasks" => tasks: optional ClientTasksCapability, only(V2025_11_25);
        /// Capabilities outside of the specification.
        "experimental" => experimental: optional Map<JsonObject>;
        /// Extensions and their settings. Since 2026-07-28, but peers of 2025-11-25 also send them.
        "extensions" => extensions: optional Extensions, since(V2025_11_25), fits(Extensions::exist_in);
    }
}

object! {
    /// The capabilities of a server.
    pub struct ServerCapabilities: data {
        /// The server has prompts.
        "prompts" => prompts: optional ListCapability;
        /// The server has resources.
        "resources" => resources: optional ResourcesCapability;
        /// The server has tools.
        "tools" => tools: optional ListCapability;
        /// The server sends log messages.
        "logging" => logging: optional JsonObject;
        /// The server completes arguments. Since 2025-03-26; servers of 2024-11-05 may do so without a declaration.
        "completions" => completions: optional JsonObject, since(V2025_03_26);
        /// This side can run requests as tasks. Only 2025-11-25.
        "tasks" => tasks: optional ServerTasksCapability, only(V2025_11_25);
        /// Capabilities outside of the specification.
        "experimental" => experimental: optional Map<JsonObject>;
        /// Extensions and their settings. Since 2026-07-28, but peers of 2025-11-25 also send them.
        "extensions" => extensions: optional Extensions, since(V2025_11_25), fits(Extensions::exist_in);
    }
}

object! {
    /// Client capability `roots`.
    pub struct RootsCapability: data {
        /// The client sends a notification when its roots change. Up to 2025-11-25.
        "listChanged" => list_changed: optional bool, until(V2025_11_25);
    }
}

object! {
    /// Client capability `sampling`.
    pub struct SamplingCapability: data {
        /// The client supports `includeContext`. Since 2025-11-25.
        "context" => context: optional JsonObject, since(V2025_11_25);
        /// The client accepts tools in requests. Since 2025-11-25.
        "tools" => tools: optional JsonObject, since(V2025_11_25);
    }
}

object! {
    /// Client capability `elicitation`. An object without members declares forms.
    pub struct ElicitationCapability: data {
        /// The client shows forms. Since 2025-11-25; before, the object itself declares them.
        "form" => form: optional JsonObject, since(V2025_11_25);
        /// The client opens URLs. Since 2025-11-25.
        "url" => url: optional JsonObject, since(V2025_11_25);
    }
}

impl ElicitationCapability {
    /// Returns whether forms are declared: by `form`, or by the absence of `url`.
    #[must_use]
    pub const fn has_form(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }

    /// Returns whether `version` can express the capability. 2025-06-18 cannot declare a client that opens URLs but
    /// shows no forms.
    fn exists_in(&self, version: ProtocolVersion) -> bool {
        self.has_form() || version >= ProtocolVersion::V2025_11_25
    }
}

object! {
    /// Server capabilities `prompts` and `tools`.
    pub struct ListCapability: data {
        /// The server sends a notification when the list changes.
        "listChanged" => list_changed: optional bool;
    }
}

object! {
    /// Server capability `resources`.
    pub struct ResourcesCapability: data {
        /// The server accepts subscriptions to changes of a resource.
        "subscribe" => subscribe: optional bool;
        /// The server sends a notification when the list changes.
        "listChanged" => list_changed: optional bool;
    }
}

object! {
    /// Client capability `tasks`. Only 2025-11-25.
    pub struct ClientTasksCapability: data, only(V2025_11_25) {
        /// This side handles `tasks/list`.
        "list" => list: optional JsonObject;
        /// This side handles `tasks/cancel`.
        "cancel" => cancel: optional JsonObject;
        /// The requests that can become tasks.
        "requests" => requests: optional ClientTaskRequests;
    }
}

object! {
    /// The requests to a client that can become tasks. Only 2025-11-25.
    pub struct ClientTaskRequests: data, only(V2025_11_25) {
        /// Requests of sampling.
        "sampling" => sampling: optional SamplingTasks;
        /// Requests of elicitation.
        "elicitation" => elicitation: optional ElicitationTasks;
    }
}

object! {
    /// The requests of sampling that can become tasks. Only 2025-11-25.
    pub struct SamplingTasks: data, only(V2025_11_25) {
        /// `sampling/createMessage` can become a task.
        "createMessage" => create_message: optional JsonObject;
    }
}

object! {
    /// The requests of elicitation that can become tasks. Only 2025-11-25.
    pub struct ElicitationTasks: data, only(V2025_11_25) {
        /// `elicitation/create` can become a task.
        "create" => create: optional JsonObject;
    }
}

object! {
    /// Server capability `tasks`. Only 2025-11-25.
    pub struct ServerTasksCapability: data, only(V2025_11_25) {
        /// This side handles `tasks/list`.
        "list" => list: optional JsonObject;
        /// This side handles `tasks/cancel`.
        "cancel" => cancel: optional JsonObject;
        /// The requests that can become tasks.
        "requests" => requests: optional ServerTaskRequests;
    }
}

object! {
    /// The requests to a server that can become tasks. Only 2025-11-25.
    pub struct ServerTaskRequests: data, only(V2025_11_25) {
        /// Requests of tools.
        "tools" => tools: optional ToolTasks;
    }
}

object! {
    /// The requests of tools that can become tasks. Only 2025-11-25.
    pub struct ToolTasks: data, only(V2025_11_25) {
        /// `tools/call` can become a task.
        "call" => call: optional JsonObject;
    }
}

/// The setting of the skills extension that declares `resources/directory/read`.
const DIRECTORY_READ: &str = "directoryRead";

fn declared(extensions: Option<&Extensions>) -> bool {
    extensions.is_some_and(|extensions| extensions.get(TASKS_EXTENSION).is_some())
}

fn reads_directories(settings: &JsonObject) -> bool {
    RawJson::from(settings).member(DIRECTORY_READ).is_some_and(|value| value.decode().is_ok_and(|reads: bool| reads))
}

impl ClientCapabilities {
    /// Returns the declared capabilities as a set.
    #[must_use]
    pub fn set(&self) -> CapabilitySet {
        let mut set = CapabilitySet::EMPTY;
        if let Some(roots) = &self.roots {
            set = set.with(Capability::Roots).with_if(Capability::RootsListChanged, roots.list_changed == Some(true));
        }
        if let Some(sampling) = &self.sampling {
            set = set
                .with(Capability::Sampling)
                .with_if(Capability::SamplingContext, sampling.context.is_some())
                .with_if(Capability::SamplingTools, sampling.tools.is_some());
        }
        if let Some(elicitation) = &self.elicitation {
            set = set
                .with(Capability::Elicitation)
                .with_if(Capability::ElicitationForm, elicitation.has_form())
                .with_if(Capability::ElicitationUrl, elicitation.url.is_some());
        }
        if let Some(tasks) = &self.tasks {
            let requests = tasks.requests.as_ref();
            let sampling = requests.and_then(|requests| requests.sampling.as_ref()?.create_message.as_ref());
            let elicitation = requests.and_then(|requests| requests.elicitation.as_ref()?.create.as_ref());
            set = set
                .with(Capability::Tasks)
                .with_if(Capability::TasksList, tasks.list.is_some())
                .with_if(Capability::TasksCancel, tasks.cancel.is_some())
                .with_if(Capability::TasksSampling, sampling.is_some())
                .with_if(Capability::TasksElicitation, elicitation.is_some());
        }
        set.with_if(Capability::TasksExtension, declared(self.extensions.as_ref()))
    }

    /// Declares one more capability, together with those that contain it. Ignores capabilities of servers.
    #[must_use]
    pub fn with(mut self, capability: Capability) -> Self {
        let empty = JsonObject::empty;
        match capability {
            Capability::Roots => _ = self.roots.get_or_insert_default(),
            Capability::RootsListChanged => self.roots.get_or_insert_default().list_changed = Some(true),
            Capability::Sampling => _ = self.sampling.get_or_insert_default(),
            Capability::SamplingContext => self.sampling.get_or_insert_default().context = Some(empty()),
            Capability::SamplingTools => self.sampling.get_or_insert_default().tools = Some(empty()),
            Capability::Elicitation => _ = self.elicitation.get_or_insert_default(),
            Capability::ElicitationForm => self.elicitation.get_or_insert_default().form = Some(empty()),
            Capability::ElicitationUrl => self.elicitation.get_or_insert_default().url = Some(empty()),
            Capability::Tasks => _ = self.tasks.get_or_insert_default(),
            Capability::TasksList => self.tasks.get_or_insert_default().list = Some(empty()),
            Capability::TasksCancel => self.tasks.get_or_insert_default().cancel = Some(empty()),
            Capability::TasksSampling => {
                let requests = self.tasks.get_or_insert_default().requests.get_or_insert_default();
                requests.sampling.get_or_insert_default().create_message = Some(empty());
            }
            Capability::TasksElicitation => {
                let requests = self.tasks.get_or_insert_default().requests.get_or_insert_default();
                requests.elicitation.get_or_insert_default().create = Some(empty());
            }
            Capability::TasksExtension => {
                _ = self.extensions.get_or_insert_default().insert(TASKS_EXTENSION, empty());
            }
            _ => {}
        }
        self
    }
}

impl ServerCapabilities {
    /// Returns the declared capabilities as a set.
    #[must_use]
    pub fn set(&self) -> CapabilitySet {
        let mut set = CapabilitySet::EMPTY;
        if let Some(prompts) = &self.prompts {
            set = set
                .with(Capability::Prompts)
                .with_if(Capability::PromptsListChanged, prompts.list_changed == Some(true));
        }
        if let Some(resources) = &self.resources {
            set = set
                .with(Capability::Resources)
                .with_if(Capability::ResourcesSubscribe, resources.subscribe == Some(true))
                .with_if(Capability::ResourcesListChanged, resources.list_changed == Some(true));
        }
        if let Some(tools) = &self.tools {
            set = set.with(Capability::Tools).with_if(Capability::ToolsListChanged, tools.list_changed == Some(true));
        }
        if let Some(tasks) = &self.tasks {
            let call = tasks.requests.as_ref().and_then(|requests| requests.tools.as_ref()?.call.as_ref());
            set = set
                .with(Capability::Tasks)
                .with_if(Capability::TasksList, tasks.list.is_some())
                .with_if(Capability::TasksCancel, tasks.cancel.is_some())
                .with_if(Capability::TasksToolsCall, call.is_some());
        }
        set.with_if(Capability::Logging, self.logging.is_some())
            .with_if(Capability::Completions, self.completions.is_some())
            .with_if(Capability::TasksExtension, declared(self.extensions.as_ref()))
            .with_if(Capability::SkillsExtension, self.skills().is_some())
            .with_if(Capability::SkillsDirectories, self.skills().is_some_and(reads_directories))
    }

    /// Returns the settings of the skills extension.
    fn skills(&self) -> Option<&JsonObject> {
        self.extensions.as_ref()?.get(SKILLS_EXTENSION)
    }

    /// Declares one more capability, together with those that contain it. Ignores capabilities of clients.
    #[must_use]
    pub fn with(mut self, capability: Capability) -> Self {
        let empty = JsonObject::empty;
        match capability {
            Capability::Prompts => _ = self.prompts.get_or_insert_default(),
            Capability::PromptsListChanged => self.prompts.get_or_insert_default().list_changed = Some(true),
            Capability::Resources => _ = self.resources.get_or_insert_default(),
            Capability::ResourcesSubscribe => self.resources.get_or_insert_default().subscribe = Some(true),
            Capability::ResourcesListChanged => self.resources.get_or_insert_default().list_changed = Some(true),
            Capability::Tools => _ = self.tools.get_or_insert_default(),
            Capability::ToolsListChanged => self.tools.get_or_insert_default().list_changed = Some(true),
            Capability::Logging => self.logging = Some(empty()),
            Capability::Completions => self.completions = Some(empty()),
            Capability::Tasks => _ = self.tasks.get_or_insert_default(),
            Capability::TasksList => self.tasks.get_or_insert_default().list = Some(empty()),
            Capability::TasksCancel => self.tasks.get_or_insert_default().cancel = Some(empty()),
            Capability::TasksToolsCall => {
                let requests = self.tasks.get_or_insert_default().requests.get_or_insert_default();
                requests.tools.get_or_insert_default().call = Some(empty());
            }
            Capability::TasksExtension => {
                _ = self.extensions.get_or_insert_default().insert(TASKS_EXTENSION, empty());
            }
            Capability::SkillsExtension => {
                let extensions = self.extensions.get_or_insert_default();
                if extensions.get(SKILLS_EXTENSION).is_none() {
                    _ = extensions.insert(SKILLS_EXTENSION, empty());
                }
            }
            Capability::SkillsDirectories => {
                let settings = [(DIRECTORY_READ, true)].into_iter().collect::<Map<bool>>();
                let settings = At(&settings, None).to_json().and_then(JsonObject::try_from).unwrap_or_else(|_| empty());
                _ = self.extensions.get_or_insert_default().insert(SKILLS_EXTENSION, settings);
            }
            _ => {}
        }
        self
    }
}

impl FromIterator<Capability> for ClientCapabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        capabilities.into_iter().fold(Self::default(), Self::with)
    }
}

impl FromIterator<Capability> for ServerCapabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        capabilities.into_iter().fold(Self::default(), Self::with)
    }
}
