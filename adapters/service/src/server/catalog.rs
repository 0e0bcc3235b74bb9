//! The catalog of a service: its registered items.

#[cfg(feature = "skills")]
use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_proto::schema::Map;

#[cfg(feature = "skills")]
use super::skill::SkillEntry;
use super::{prompt::Prompt, resource::Resource, resource_template::ResourceTemplate, tool::Tool};
use crate::util::paged_list::Registry;

/// The kind of an item, and of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Tool,
    Prompt,
    Resource,
    Template,
    #[cfg(feature = "skills")]
    Skill,
}

/// All registered items.
pub(crate) struct Catalog {
    pub(super) tools: Registry<Tool>,
    pub(super) prompts: Registry<Prompt>,
    pub(super) resources: Registry<Resource>,
    pub(super) templates: Registry<ResourceTemplate>,
    #[cfg(feature = "skills")]
    pub(super) skills: Registry<SkillEntry>,
    /// The URIs of the resources that are files of skills.
    #[cfg(feature = "skills")]
    pub(super) files: FileIndex,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            tools: Registry::new('t'),
            prompts: Registry::new('p'),
            resources: Registry::new('r'),
            templates: Registry::new('u'),
            #[cfg(feature = "skills")]
            skills: Registry::new('s'),
            #[cfg(feature = "skills")]
            files: FileIndex::default(),
        }
    }
}

impl Catalog {
    pub(super) fn has(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Tool => self.tools.get(name).is_some(),
            Kind::Prompt => self.prompts.get(name).is_some(),
            Kind::Resource => self.resources.get(name).is_some(),
            Kind::Template => self.templates.get(name).is_some(),
            #[cfg(feature = "skills")]
            Kind::Skill => self.skills.get(name).is_some(),
        }
    }

    /// Returns the files of skills whose URIs begin with `prefix`.
    #[cfg(feature = "skills")]
    pub(super) fn files_below(&self, prefix: &str) -> Vec<Arc<Resource>> {
        self.files.below(prefix).filter_map(|uri| self.resources.get(uri).cloned()).collect()
    }

    /// Removes an item. Returns whether it was registered.
    pub(super) fn remove(&mut self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Tool => self.tools.remove(name).is_some(),
            Kind::Prompt => self.prompts.remove(name).is_some(),
            // A file of a skill is removed only with the skill.
            #[cfg(feature = "skills")]
            Kind::Resource if self.resources.get(name).is_some_and(|resource| resource.skill.is_some()) => false,
            Kind::Resource => self.resources.remove(name).is_some(),
            Kind::Template => self.templates.remove(name).is_some(),
            #[cfg(feature = "skills")]
            Kind::Skill => self.skills.remove(name).is_some(),
        }
    }

    /// Returns whether there are skills, and whether they have folders.
    pub(super) fn has_skills(&self) -> (bool, bool) {
        #[cfg(feature = "skills")]
        return (!self.skills.is_empty(), !self.files.is_empty());
        #[cfg(not(feature = "skills"))]
        (false, false)
    }

    /// Returns the handler of a URI: a resource, or else the first template that matches it.
    pub(super) fn find(&self, uri: &str) -> Option<ResourceHandler> {
        if let Some(resource) = self.resources.get(uri) {
            return Some(ResourceHandler::Resource(resource.clone()));
        }
        self.templates
            .iter()
            .find_map(|template| Some(ResourceHandler::Template(template.clone(), template.matches(uri)?)))
    }
}

/// The handler of a URI.
pub(super) enum ResourceHandler {
    Resource(Arc<Resource>),
    /// A template, and the values of its variables.
    Template(Arc<ResourceTemplate>, Map<String>),
}

impl ResourceHandler {
    /// Returns the scopes that a request for the resource needs.
    pub(super) fn scopes(&self) -> &[String] {
        match self {
            Self::Resource(resource) => &resource.scopes,
            Self::Template(template, _) => &template.scopes,
        }
    }
}

/// The URIs of all files of skills, in alphabetical order, so that a folder is a range.
#[cfg(feature = "skills")]
#[derive(Debug, Default)]
pub(super) struct FileIndex(BTreeSet<String>);

#[cfg(feature = "skills")]
impl FileIndex {
    pub(super) fn insert(&mut self, uri: &str) {
        self.0.insert(uri.to_owned());
    }

    pub(super) fn remove(&mut self, uri: &str) {
        self.0.remove(uri);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the URIs that begin with `prefix`.
    pub(super) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.range(prefix.to_owned()..).map(String::as_str).take_while(move |uri| uri.starts_with(prefix))
    }
}
