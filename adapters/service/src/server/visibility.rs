//! Who gets to see what.

use std::{fmt, sync::Arc};

#[cfg(feature = "skills")]
use super::skill::Listed;
use super::{prompt::Prompt, resource::Resource, resource_template::ResourceTemplate, tool::Tool};
use crate::inbound::request::RequestInfo;

/// Something that a service offers, as a [predicate](crate::ServiceBuilder::visible) sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Offer<'a> {
    /// A tool.
    Tool(&'a mcp_proto::schema::Tool),
    /// A prompt.
    Prompt(&'a mcp_proto::schema::Prompt),
    /// A resource.
    Resource(&'a mcp_proto::schema::Resource),
    /// A template of resources, and with it all resources that it describes.
    Template(&'a mcp_proto::schema::ResourceTemplate),
    /// A skill. Its files are asked for one by one as well, as resources: who sees a file but not its skill sees neither.
    #[cfg(feature = "skills")]
    Skill(&'a mcp_proto::schema::Skill),
}

impl Offer<'_> {
    /// What it goes by: the name of a tool or a prompt, the URI of a resource, of a template, or of a skill's `SKILL.md`.
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

/// Decides who sees what.
#[derive(Clone)]
pub(super) struct Predicate(pub(super) Arc<Decide>);

type Decide = dyn Fn(Offer<'_>, &RequestInfo) -> bool + Send + Sync;

impl Predicate {
    pub(super) fn new(f: impl Fn(Offer<'_>, &RequestInfo) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

/// What is registered and can be shown.
pub(super) trait Registered {
    type About: Clone;

    /// What lists say of it.
    fn listed(&self) -> &Self::About;

    fn offer(&self) -> Offer<'_>;

    /// What it is a part of.
    fn whole(&self) -> Option<Offer<'_>> {
        None
    }
}

macro_rules! registered {
    ($($Type:ident($About:ident) => $Variant:ident,)*) => {
        $(impl Registered for $Type {
            type About = mcp_proto::schema::$About;

            fn listed(&self) -> &Self::About {
                &self.about
            }

            fn offer(&self) -> Offer<'_> {
                Offer::$Variant(&self.about)
            }
        })*
    };
}

registered! { Tool(Tool) => Tool, Prompt(Prompt) => Prompt, ResourceTemplate(ResourceTemplate) => Template, }
#[cfg(feature = "skills")]
registered! { Listed(Skill) => Skill, }

impl Registered for Resource {
    type About = mcp_proto::schema::Resource;

    fn listed(&self) -> &Self::About {
        &self.about
    }

    fn offer(&self) -> Offer<'_> {
        Offer::Resource(&self.about)
    }

    #[cfg(feature = "skills")]
    fn whole(&self) -> Option<Offer<'_>> {
        self.skill.as_deref().map(Offer::Skill)
    }
}
