//! The catalog of a service: its registered items.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use mcp_proto::schema::Map;

#[cfg(feature = "skills")]
use super::skill::SkillEntry;
use super::{
    prompt::Prompt,
    resource::{Origin, Resource},
    resource_template::ResourceTemplate,
    tool::Tool,
};
use crate::util::{paged_list::PagedList, uri::normalized};

/// The kind of an item, and of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Tool,
    Prompt,
    Resource,
    Template,
    #[cfg(feature = "skills")]
    Skill,
}

/// The kind of an item, and its name or URI.
pub(crate) type ItemKey = (Kind, String);

/// All registered items.
pub(crate) struct Catalog {
    pub(super) tools: PagedList<Tool>,
    pub(super) prompts: PagedList<Prompt>,
    pub(super) resources: PagedList<Resource>,
    pub(super) templates: PagedList<ResourceTemplate>,
    #[cfg(feature = "skills")]
    pub(super) skills: PagedList<SkillEntry>,
    /// Templates that are in no list, for the resources of other servers that are in no list: all URIs with a prefix.
    pub(super) unlisted: Vec<(String, Arc<ResourceTemplate>)>,
    /// Whether a resource or a template with scopes was ever added. If not, no URI is looked up for its scopes.
    pub(super) has_scopes: bool,
    /// The URIs of the resources with scopes.
    pub(super) scoped: ScopedUris,
    /// The URIs of the resources that are files of skills.
    #[cfg(feature = "skills")]
    pub(super) files: FileIndex,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            tools: PagedList::new('t'),
            prompts: PagedList::new('p'),
            resources: PagedList::new('r'),
            templates: PagedList::new('u'),
            #[cfg(feature = "skills")]
            skills: PagedList::new('s'),
            unlisted: Vec::new(),
            has_scopes: false,
            scoped: ScopedUris::default(),
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
            Kind::Resource => {
                self.scoped.remove(name);
                self.resources.remove(name).is_some()
            }
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

    /// Removes several tools, prompts, resources or templates.
    pub(super) fn remove_all(&mut self, items: &[ItemKey]) {
        let of = |wanted| items.iter().filter(move |(kind, _)| *kind == wanted).map(|(_, name)| name.as_str());
        self.tools.remove_all(of(Kind::Tool));
        self.prompts.remove_all(of(Kind::Prompt));
        of(Kind::Resource).for_each(|uri| self.scoped.remove(uri));
        self.resources.remove_all(of(Kind::Resource));
        self.templates.remove_all(of(Kind::Template));
    }

    /// Replaces the templates for unlisted resources whose prefixes begin with `prefix`.
    pub(super) fn set_unlisted(&mut self, prefix: &str, templates: Vec<(String, Arc<ResourceTemplate>)>) {
        if !prefix.is_empty() {
            self.unlisted.retain(|(known, _)| !known.starts_with(prefix));
            self.unlisted.extend(templates);
        }
    }

    /// Adds the template for the unlisted resources with a prefix.
    pub(crate) fn add_unlisted(&mut self, prefix: &str, template: ResourceTemplate) {
        self.unlisted.push((prefix.to_owned(), Arc::new(template)));
    }

    /// Removes the templates for the unlisted resources of a server.
    pub(crate) fn remove_unlisted(&mut self, is_of: impl Fn(&ResourceTemplate) -> bool) {
        self.unlisted.retain(|(_, template)| !is_of(template));
    }

    /// Returns the template for the unlisted resources of the server to which a URI belongs. A prefix decides; a URI
    /// without a prefix belongs to the only server without a prefix.
    pub(super) fn find_unlisted(&self, uri: &str) -> Option<&Arc<ResourceTemplate>> {
        let mut with_prefix = self.unlisted.iter().filter(|(prefix, _)| !prefix.is_empty());
        if let Some((_, template)) = with_prefix.find(|(prefix, _)| uri.starts_with(prefix)) {
            return Some(template);
        }
        let mut without = self.unlisted.iter().filter(|(prefix, _)| prefix.is_empty());
        let (_, template) = without.next()?;
        without.next().is_none().then_some(template)
    }

    /// Returns the handler of a URI: a resource, or else the first template that matches it.
    pub(super) fn find(&self, uri: &str) -> Option<ResourceHandler> {
        if let Some(resource) = self.resources.get(uri) {
            return Some(ResourceHandler::Resource(resource.clone()));
        }
        self.templates
            .iter()
            .find_map(|template| Some(ResourceHandler::Template(template.clone(), template.matches(uri)?)))
            .or_else(|| Some(ResourceHandler::Template(self.find_unlisted(uri)?.clone(), Map::new())))
    }

    /// Returns the scopes that a request for a URI needs: those of its handler, and of all other
    /// items that match the URI, hidden ones as well. So they depend neither on the order of the items nor on the
    /// spelling of the URI. It takes time in proportion to the URI for each template with scopes.
    pub(super) fn required_scopes(&self, uri: &str, own: &[String]) -> Vec<String> {
        let mut scopes = own.to_vec();
        if !self.has_scopes {
            return scopes;
        }
        let normalized = normalized(uri);
        let resources = self.scoped.of(&normalized).filter_map(|uri| self.resources.get(uri));
        let templates = self.templates.iter().filter(|template| !template.scopes.is_empty());
        let templates = templates.filter(|template| template.covers(uri, &normalized));
        let of_templates = templates.flat_map(|template| &template.scopes);
        let mut known: BTreeSet<String> = scopes.iter().cloned().collect();
        for scope in resources.flat_map(|resource| &resource.scopes).chain(of_templates) {
            if known.insert(scope.clone()) {
                scopes.push(scope.clone());
            }
        }
        scopes
    }
}

/// The URIs of the resources with scopes, by their normalized forms.
#[derive(Debug, Default)]
pub(super) struct ScopedUris(BTreeMap<String, BTreeSet<String>>);

impl ScopedUris {
    pub(super) fn insert(&mut self, uri: &str) {
        self.0.entry(normalized(uri)).or_default().insert(uri.to_owned());
    }

    fn remove(&mut self, uri: &str) {
        // Most services have no scopes.
        if self.0.is_empty() {
            return;
        }
        let key = normalized(uri);
        let Some(uris) = self.0.get_mut(&key) else { return };
        uris.remove(uri);
        if uris.is_empty() {
            self.0.remove(&key);
        }
    }

    /// Returns the registered forms of a normalized URI.
    fn of(&self, normalized: &str) -> impl Iterator<Item = &str> {
        self.0.get(normalized).into_iter().flatten().map(String::as_str)
    }
}

/// A resource that was found by its URI.
pub(super) struct FoundResource {
    pub(super) handler: ResourceHandler,
    /// The scopes that a request for it needs.
    pub(super) scopes: Vec<String>,
}

/// The handler of a URI.
pub(super) enum ResourceHandler {
    Resource(Arc<Resource>),
    /// A template, and the values of its variables.
    Template(Arc<ResourceTemplate>, Map<String>),
}

impl ResourceHandler {
    /// Returns the server to which the resource belongs, if that is another one.
    pub(super) fn origin(&self) -> Option<Arc<dyn Origin>> {
        match self {
            Self::Resource(resource) => resource.origin.clone(),
            Self::Template(template, _) => template.origin.clone(),
        }
    }

    /// Returns its scopes. A request needs those of [`FoundResource`].
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
