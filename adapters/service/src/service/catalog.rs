//! What a service has registered.

use std::{collections::HashMap, fmt, sync::Arc};

use mcp_proto::schema::Map;

use super::{Prompt, Resource, ResourceTemplate, Tool};
use crate::registry::Registry;

/// Why something cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// There is one of this name already.
    Taken(String),
    /// This cannot be a name. Those of tools have 1 to 128 letters, digits and `_-.`.
    Name(String),
    /// This is no URI.
    Uri(String),
    /// This is no URI template that can be matched.
    Template {
        /// The template.
        template: String,
        /// What is wrong with it.
        why: String,
    },
    /// The schema of a tool cannot be used.
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(name) => write!(f, "there is a {name:?} already"),
            Self::Name(name) => write!(f, "{name:?} cannot be a name"),
            Self::Uri(uri) => write!(f, "{uri:?} is no URI"),
            Self::Template { template, why } => write!(f, "{template:?} cannot be matched: {why}"),
            Self::Schema { tool, why } => write!(f, "the schema of {tool:?} cannot be used: {why}"),
        }
    }
}

impl std::error::Error for RegisterError {}

/// Which of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Tool,
    Prompt,
    Resource,
    Template,
}

/// Something that can be registered.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "entries are handed on once")]
pub enum Entry {
    /// A tool.
    Tool(Tool),
    /// A prompt.
    Prompt(Prompt),
    /// A resource.
    Resource(Resource),
    /// A template of resources.
    Template(ResourceTemplate),
}

impl Entry {
    fn key(&self) -> (Kind, &str) {
        match self {
            Self::Tool(tool) => (Kind::Tool, &tool.about.name),
            Self::Prompt(prompt) => (Kind::Prompt, &prompt.about.name),
            Self::Resource(resource) => (Kind::Resource, &resource.about.uri),
            Self::Template(template) => (Kind::Template, &template.about.uri_template),
        }
    }

    /// Checks it, and does what takes time.
    fn prepare(&mut self) -> Result<(), RegisterError> {
        match self {
            Self::Tool(tool) => tool.prepare(),
            Self::Prompt(prompt) => prompt.check(),
            Self::Resource(resource) => resource.check(),
            Self::Template(template) => template.prepare(),
        }
    }
}

macro_rules! entries {
    ($($Variant:ident($Type:ident),)*) => {
        $(impl From<$Type> for Entry {
            fn from(entry: $Type) -> Self {
                Self::$Variant(entry)
            }
        })*
    };
}

entries! { Tool(Tool), Prompt(Prompt), Resource(Resource), Template(ResourceTemplate), }

/// Several changes of what a service offers. They are made in their order, and all of them or none.
#[derive(Debug, Default)]
#[must_use = "changes are made by `Service::change`"]
pub struct Changes(Vec<Change>);

#[derive(Debug)]
enum Change {
    Add(Box<Entry>),
    Remove(Kind, String),
}

impl Changes {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool, a prompt, a resource or a template.
    #[allow(clippy::should_implement_trait, reason = "it adds as `Service::add` does")]
    pub fn add(mut self, entry: impl Into<Entry>) -> Self {
        self.0.push(Change::Add(Box::new(entry.into())));
        self
    }

    /// Removes a tool if there is one.
    pub fn remove_tool(self, name: impl Into<String>) -> Self {
        self.remove(Kind::Tool, name.into())
    }

    /// Removes a prompt if there is one.
    pub fn remove_prompt(self, name: impl Into<String>) -> Self {
        self.remove(Kind::Prompt, name.into())
    }

    /// Removes a resource if there is one.
    pub fn remove_resource(self, uri: impl Into<String>) -> Self {
        self.remove(Kind::Resource, uri.into())
    }

    /// Removes a template of resources if there is one.
    pub fn remove_template(self, uri_template: impl Into<String>) -> Self {
        self.remove(Kind::Template, uri_template.into())
    }

    fn remove(mut self, kind: Kind, name: String) -> Self {
        self.0.push(Change::Remove(kind, name));
        self
    }

    /// Does everything that can be done without the catalog.
    pub(super) fn prepare(mut self) -> Result<Prepared, RegisterError> {
        for change in &mut self.0 {
            if let Change::Add(entry) = change {
                entry.prepare()?;
            }
        }
        Ok(Prepared(self.0))
    }
}

/// Changes that were found to be good in themselves.
pub(super) struct Prepared(Vec<Change>);

/// Everything that is registered.
pub(crate) struct Catalog {
    pub(super) tools: Registry<Tool>,
    pub(super) prompts: Registry<Prompt>,
    pub(super) resources: Registry<Resource>,
    pub(super) templates: Registry<ResourceTemplate>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            tools: Registry::new('t'),
            prompts: Registry::new('p'),
            resources: Registry::new('r'),
            templates: Registry::new('u'),
        }
    }
}

impl Catalog {
    fn has(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Tool => self.tools.get(name).is_some(),
            Kind::Prompt => self.prompts.get(name).is_some(),
            Kind::Resource => self.resources.get(name).is_some(),
            Kind::Template => self.templates.get(name).is_some(),
        }
    }

    /// Makes all changes or none, and hands back which lists are others now.
    pub(super) fn apply(&mut self, Prepared(changes): Prepared) -> Result<Vec<Kind>, RegisterError> {
        let mut will_have: HashMap<(Kind, &str), bool> = HashMap::new();
        for change in &changes {
            let (key, is_there) = match change {
                Change::Add(entry) => (entry.key(), true),
                Change::Remove(kind, name) => ((*kind, name.as_str()), false),
            };
            let was_there = will_have.insert(key, is_there).unwrap_or_else(|| self.has(key.0, key.1));
            if is_there && was_there {
                return Err(RegisterError::Taken(key.1.to_owned()));
            }
        }
        let mut changed = Vec::new();
        for change in changes {
            let (kind, is_other) = match change {
                Change::Add(entry) => (entry.key().0, self.insert(*entry)),
                Change::Remove(kind, name) => (kind, self.remove(kind, &name)),
            };
            if is_other && !changed.contains(&kind) {
                changed.push(kind);
            }
        }
        Ok(changed)
    }

    fn insert(&mut self, entry: Entry) -> bool {
        let name = entry.key().1.to_owned();
        match entry {
            Entry::Tool(tool) => self.tools.insert(&name, Arc::new(tool)),
            Entry::Prompt(prompt) => self.prompts.insert(&name, Arc::new(prompt)),
            Entry::Resource(resource) => self.resources.insert(&name, Arc::new(resource)),
            Entry::Template(template) => self.templates.insert(&name, Arc::new(template)),
        }
    }

    /// Removes something. Whether it was there.
    pub(super) fn remove(&mut self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Tool => self.tools.remove(name).is_some(),
            Kind::Prompt => self.prompts.remove(name).is_some(),
            Kind::Resource => self.resources.remove(name).is_some(),
            Kind::Template => self.templates.remove(name).is_some(),
        }
    }

    /// What can read a URI: a resource, else the first template that it comes from.
    pub(super) fn find(&self, uri: &str) -> Option<Found> {
        if let Some(resource) = self.resources.get(uri) {
            return Some(Found::Resource(resource.clone()));
        }
        self.templates.iter().find_map(|template| Some(Found::Template(template.clone(), template.matches(uri)?)))
    }
}

/// What can read a URI.
pub(super) enum Found {
    Resource(Arc<Resource>),
    /// A template, and what it was filled in with.
    Template(Arc<ResourceTemplate>, Map<String>),
}
