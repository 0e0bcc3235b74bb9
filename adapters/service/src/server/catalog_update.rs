//! Changes of a service's catalog: each is checked alone, and then all are made together.

use std::{collections::HashMap, fmt, sync::Arc};

#[cfg(feature = "skills")]
use super::skill::{ExpandedSkill, Skill, SkillEntry};
use super::{
    catalog::{Catalog, ItemKey, Kind},
    prompt::Prompt,
    register_error::RegisterError,
    resource::Resource,
    resource_template::ResourceTemplate,
    routes::Routes,
    tool::Tool,
};

/// An item that can be registered: a tool, a prompt, a resource, a template of resources, or a skill with all of its
/// files.
pub struct Registration(Box<dyn Register>);

/// An item that was checked by itself, without the catalog.
pub(super) struct Prepared(Registration);

impl Registration {
    /// Checks the item, and does the work that takes time.
    pub(super) fn prepared(self) -> Result<Prepared, RegisterError> {
        let mut changes = Vec::new();
        self.0.prepare(&mut changes)?;
        match changes.pop() {
            Some(Change::Add(item)) if changes.is_empty() => Ok(Prepared(item)),
            // Skills consist of several items.
            _ => Err(RegisterError::Mount("skills cannot be offered for another server".into())),
        }
    }
}

impl Prepared {
    /// Adds the item to the catalog.
    pub(super) fn insert(self, catalog: &mut Catalog, routes: &Routes) {
        self.0.0.insert(catalog, routes);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A type that can be registered: [`Tool`], [`Prompt`], [`Resource`], [`ResourceTemplate`] or `Skill`, with the state
/// of its handlers.
///
/// It is implemented for every type that becomes a [`Registration`] with `into`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be registered",
    label = "not an item with the state of its handlers",
    note = "an item is a `Tool`, a `Prompt`, a `Resource`, a `ResourceTemplate` or a `Skill`",
    note = "handlers with a shared state get it from `.with_state(..)` of the item, or `.with_state(..)` of the \
            `ServiceBuilder` if the builder registers the item"
)]
pub trait IntoRegistration {
    /// Converts it into a registration.
    fn into_registration(self) -> Registration;
}

#[diagnostic::do_not_recommend]
impl<T: Into<Registration>> IntoRegistration for T {
    fn into_registration(self) -> Registration {
        self.into()
    }
}

/// An item that can be registered. A program links the code only for the types that it registers.
trait Register: fmt::Debug + Send + Sync {
    fn key(&self) -> (Kind, &str);

    /// Checks the item, does the work that takes time, and appends the changes to make.
    fn prepare(self: Box<Self>, into: &mut Vec<Change>) -> Result<(), RegisterError>;

    /// Adds it to the catalog, and enables the requests about items of its type. Returns whether its name was free.
    fn insert(self: Box<Self>, catalog: &mut Catalog, routes: &Routes) -> bool;

    /// Returns whether it is a file of a skill, which is removed only with the skill.
    #[cfg(feature = "skills")]
    fn is_file(&self) -> bool {
        false
    }
}

macro_rules! entries {
    ($($Type:ty),*) => {
        $(impl From<$Type> for Registration {
            fn from(entry: $Type) -> Self {
                Self(Box::new(entry))
            }
        })*
    };
}

entries!(Tool, Prompt, Resource, ResourceTemplate);
#[cfg(feature = "skills")]
entries!(Skill);

impl Register for Tool {
    fn key(&self) -> (Kind, &str) {
        (Kind::Tool, &self.about.name)
    }

    fn prepare(mut self: Box<Self>, into: &mut Vec<Change>) -> Result<(), RegisterError> {
        Self::prepare(&mut self)?;
        into.push(Change::Add(Registration(self)));
        Ok(())
    }

    fn insert(self: Box<Self>, catalog: &mut Catalog, routes: &Routes) -> bool {
        routes.enable_tools();
        if let Some(tasks) = self.tasks {
            routes.enable_tasks(tasks);
        }
        let name = self.about.name.clone();
        catalog.tools.insert(&name, Arc::from(self))
    }
}

impl Register for Prompt {
    fn key(&self) -> (Kind, &str) {
        (Kind::Prompt, &self.about.name)
    }

    fn prepare(self: Box<Self>, into: &mut Vec<Change>) -> Result<(), RegisterError> {
        self.check()?;
        into.push(Change::Add(Registration(self)));
        Ok(())
    }

    fn insert(self: Box<Self>, catalog: &mut Catalog, routes: &Routes) -> bool {
        routes.enable_prompts();
        let name = self.about.name.clone();
        catalog.prompts.insert(&name, Arc::from(self))
    }
}

impl Register for Resource {
    fn key(&self) -> (Kind, &str) {
        (Kind::Resource, &self.about.uri)
    }

    fn prepare(self: Box<Self>, into: &mut Vec<Change>) -> Result<(), RegisterError> {
        self.check()?;
        into.push(Change::Add(Registration(self)));
        Ok(())
    }

    fn insert(self: Box<Self>, catalog: &mut Catalog, routes: &Routes) -> bool {
        routes.enable_resources();
        let uri = self.about.uri.clone();
        if !self.scopes.is_empty() {
            catalog.has_scopes = true;
            catalog.scoped.insert(&uri);
        }
        #[cfg(feature = "skills")]
        if self.is_file() {
            catalog.files.insert(&uri);
        }
        catalog.resources.insert(&uri, Arc::from(self))
    }

    #[cfg(feature = "skills")]
    fn is_file(&self) -> bool {
        self.skill.is_some()
    }
}

impl Register for ResourceTemplate {
    fn key(&self) -> (Kind, &str) {
        (Kind::Template, &self.about.uri_template)
    }

    fn prepare(mut self: Box<Self>, into: &mut Vec<Change>) -> Result<(), RegisterError> {
        Self::prepare(&mut self)?;
        into.push(Change::Add(Registration(self)));
        Ok(())
    }

    fn insert(self: Box<Self>, catalog: &mut Catalog, routes: &Routes) -> bool {
        routes.enable_templates();
        catalog.has_scopes |= !self.scopes.is_empty();
        let template = self.about.uri_template.clone();
        catalog.templates.insert(&template, Arc::from(self))
    }
}

#[cfg(feature = "skills")]
impl Register for Skill {
    fn key(&self) -> (Kind, &str) {
        (Kind::Skill, self.uri())
    }

    fn prepare(self: Box<Self>, into: &mut Vec<Change>) -> Result<(), RegisterError> {
        let ExpandedSkill { skills, files } = self.publish()?;
        into.extend(skills.into_iter().map(|skill| Change::List(Box::new(skill), Routes::enable_skills)));
        into.extend(files.into_iter().map(|file| Change::Add(file.into())));
        Ok(())
    }

    /// Does nothing: a [prepared](Register::prepare) update is applied by its entries.
    fn insert(self: Box<Self>, _: &mut Catalog, _: &Routes) -> bool {
        false
    }
}

/// A batch of changes of a service's items. They are made in their order, and all of them or none.
#[derive(Debug, Default)]
#[must_use = "`Service::update` applies it"]
pub struct CatalogUpdate(Vec<Change>);

#[derive(Debug)]
enum Change {
    Add(Registration),
    Remove(Kind, String),
    /// A skill, and the function that enables the requests about skills. Its files are added one by one.
    #[cfg(feature = "skills")]
    List(Box<SkillEntry>, fn(&Routes)),
    /// Removes a file of a skill, together with the skill.
    #[cfg(feature = "skills")]
    RemoveFile(String),
}

impl Change {
    /// Returns the key of the item, and whether it is registered afterwards.
    fn outcome(&self) -> ((Kind, &str), bool) {
        match self {
            Self::Add(entry) => (entry.0.key(), true),
            Self::Remove(kind, name) => ((*kind, name.as_str()), false),
            #[cfg(feature = "skills")]
            Self::List(skill, _) => ((Kind::Skill, &skill.about.uri), true),
            #[cfg(feature = "skills")]
            Self::RemoveFile(uri) => ((Kind::Resource, uri), false),
        }
    }
}

impl CatalogUpdate {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool, a prompt, a resource or a template.
    #[allow(clippy::should_implement_trait, reason = "it adds as `Service::add` does")]
    pub fn add(mut self, entry: impl IntoRegistration) -> Self {
        self.0.push(Change::Add(entry.into_registration()));
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

    /// Removes a skill if there is one, by the URI of its `SKILL.md`, with its files and the skills in it.
    #[cfg(feature = "skills")]
    pub fn remove_skill(self, uri: impl Into<String>) -> Self {
        self.remove(Kind::Skill, uri.into())
    }

    fn remove(mut self, kind: Kind, name: String) -> Self {
        self.0.push(Change::Remove(kind, name));
        self
    }

    /// Checks and prepares all changes, as far as that is possible without the catalog.
    pub(super) fn prepare(self) -> Result<ValidatedUpdate, RegisterError> {
        let mut prepared = Vec::with_capacity(self.0.len());
        for change in self.0 {
            match change {
                Change::Add(entry) => entry.0.prepare(&mut prepared)?,
                other => prepared.push(other),
            }
        }
        Ok(ValidatedUpdate(prepared))
    }
}

/// Changes that were checked by themselves, without the catalog.
pub(super) struct ValidatedUpdate(Vec<Change>);

impl Catalog {
    /// Makes all changes or none, and returns the items that have changed.
    pub(super) fn apply(
        &mut self,
        ValidatedUpdate(changes): ValidatedUpdate,
        routes: &Routes,
    ) -> Result<Vec<ItemKey>, RegisterError> {
        #[cfg(feature = "skills")]
        let changes = self.with_files(changes);
        let mut will_have: HashMap<(Kind, &str), bool> = HashMap::new();
        for change in &changes {
            let (key, is_there) = change.outcome();
            let was_there = will_have.insert(key, is_there).unwrap_or_else(|| self.has(key.0, key.1));
            if is_there && was_there {
                return Err(RegisterError::Taken(key.1.to_owned()));
            }
        }
        let mut changed = Vec::new();
        for change in changes {
            let ((kind, name), _) = change.outcome();
            let key = (kind, name.to_owned());
            let is_other = match change {
                Change::Add(Registration(entry)) => entry.insert(self, routes),
                Change::Remove(kind, name) => self.remove(kind, &name),
                #[cfg(feature = "skills")]
                Change::List(skill, enable) => {
                    enable(routes);
                    self.skills.insert(&key.1, Arc::from(skill))
                }
                #[cfg(feature = "skills")]
                Change::RemoveFile(uri) => {
                    self.files.remove(&uri);
                    self.resources.remove(&uri).is_some()
                }
            };
            if is_other {
                changed.push(key);
            }
        }
        Ok(changed)
    }

    /// Removes the files and nested skills of each skill that is removed. A file is never removed alone.
    #[cfg(feature = "skills")]
    fn with_files(&self, changes: Vec<Change>) -> Vec<Change> {
        let mut all: Vec<Change> = Vec::with_capacity(changes.len());
        for change in changes {
            match change {
                Change::Remove(Kind::Skill, uri) => {
                    let added = all.iter().rev().find_map(|change| match change {
                        Change::List(skill, _) if skill.about.uri == uri => Some(&**skill),
                        _ => None,
                    });
                    let Some(skill) = added.or_else(|| self.skills.get(&uri).map(|skill| &**skill)) else { continue };
                    let nested = skill.nested.iter().cloned().map(|uri| Change::Remove(Kind::Skill, uri));
                    let files = skill.files.iter().cloned().map(Change::RemoveFile);
                    let more: Vec<_> = nested.chain(files).collect();
                    all.push(Change::Remove(Kind::Skill, uri));
                    all.extend(more);
                }
                Change::Remove(Kind::Resource, uri) => {
                    let added = all.iter().rev().find_map(|change| match change {
                        Change::Add(Registration(entry)) if entry.key() == (Kind::Resource, &*uri) => {
                            Some(entry.is_file())
                        }
                        Change::RemoveFile(removed) if *removed == uri => Some(false),
                        _ => None,
                    });
                    let is_file = || self.resources.get(&uri).is_some_and(|resource| resource.is_file());
                    if !added.unwrap_or_else(is_file) {
                        all.push(Change::Remove(Kind::Resource, uri));
                    }
                }
                other => all.push(other),
            }
        }
        all
    }
}
