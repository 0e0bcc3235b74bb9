//! Visibility of registered items.

use std::{fmt, sync::Arc};

#[cfg(feature = "skills")]
use super::skill::SkillEntry;
use super::{prompt::Prompt, resource::Resource, resource_template::ResourceTemplate, tool::Tool};
use crate::inbound::request::RequestInfo;

/// An item of a service, as the [visibility predicate](crate::ServiceBuilder::visible) gets it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum CatalogItem<'a> {
    /// A tool.
    Tool(&'a mcp_proto::schema::Tool),
    /// A prompt.
    Prompt(&'a mcp_proto::schema::Prompt),
    /// A resource.
    Resource(&'a mcp_proto::schema::Resource),
    /// A template of resources, and with it all resources that it describes.
    Template(&'a mcp_proto::schema::ResourceTemplate),
    /// A skill. The predicate also gets each of its files, as a resource: a caller that cannot see the skill cannot see
    /// its files either.
    #[cfg(feature = "skills")]
    Skill(&'a mcp_proto::schema::Skill),
}

impl CatalogItem<'_> {
    /// Returns the name by which requests refer to the item: the name of a tool or a prompt, the URI of a resource or
    /// of a skill's `SKILL.md`, or the URI template.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => &tool.name,
            Self::Prompt(prompt) => &prompt.name,
            Self::Resource(resource) => &resource.uri,
            Self::Template(template) => &template.uri_template,
            #[cfg(feature = "skills")]
            Self::Skill(skill) => &skill.uri,
        }
    }
}

/// The predicate, and the sender of a request.
pub(super) type Audience = (Predicate, RequestInfo);

/// The predicate that decides which callers can see an item.
#[derive(Clone)]
pub(super) struct Predicate(pub(super) Arc<Filter>);

type Filter = dyn Fn(CatalogItem<'_>, &RequestInfo) -> bool + Send + Sync;

impl Predicate {
    pub(super) fn new(f: impl Fn(CatalogItem<'_>, &RequestInfo) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

/// An item of the catalog that lists can contain.
pub(super) trait Registered {
    type Description: Clone;

    /// Returns its entry in lists.
    fn listed(&self) -> &Self::Description;

    fn as_item(&self) -> CatalogItem<'_>;

    /// Returns its scopes. A request for a resource needs those of all items that match it.
    fn scopes(&self) -> &[String];

    /// Returns the item of which it is a part.
    fn parent(&self) -> Option<CatalogItem<'_>> {
        None
    }
}

macro_rules! registered {
    ($($Type:ident($Description:ident) => $Variant:ident, $scopes:expr;)*) => {
        $(impl Registered for $Type {
            type Description = mcp_proto::schema::$Description;

            fn listed(&self) -> &Self::Description {
                &self.about
            }

            fn as_item(&self) -> CatalogItem<'_> {
                CatalogItem::$Variant(&self.about)
            }

            fn scopes(&self) -> &[String] {
                let scopes: fn(&Self) -> &[String] = $scopes;
                scopes(self)
            }
        })*
    };
}

registered! {
    Tool(Tool) => Tool, |tool| &tool.scopes;
    Prompt(Prompt) => Prompt, |prompt| &prompt.scopes;
    ResourceTemplate(ResourceTemplate) => Template, |template| &template.scopes;
}
#[cfg(feature = "skills")]
registered! { SkillEntry(Skill) => Skill, |_| &[]; }

impl Registered for Resource {
    type Description = mcp_proto::schema::Resource;

    fn listed(&self) -> &Self::Description {
        &self.about
    }

    fn as_item(&self) -> CatalogItem<'_> {
        CatalogItem::Resource(&self.about)
    }

    fn scopes(&self) -> &[String] {
        &self.scopes
    }

    #[cfg(feature = "skills")]
    fn parent(&self) -> Option<CatalogItem<'_>> {
        self.skill.as_deref().map(CatalogItem::Skill)
    }
}
