//! How a service is put together.

use std::{
    fmt,
    sync::{Arc, RwLock},
    time::Duration,
};

use mcp_proto::{
    connection::ServerEnd,
    schema::{CacheHints, CacheScope},
};

use super::{
    capabilities::Offers,
    catalog::Catalog,
    catalog_update::Changes,
    inner::Inner,
    input_required::request_state::Seal,
    prompt::Prompt,
    register_error::RegisterError,
    resource::{Resource, hints},
    resource_subscriptions::SubscriptionLimits,
    resource_template::ResourceTemplate,
    routes::Desks,
    service::Service,
    tasks::store::Tasks,
    tool::Tool,
    visibility::{Offer, Predicate},
};
use crate::inbound::{
    builder_common::{Common, common_methods},
    request::RequestInfo,
    task_policy::TaskPolicy,
};

/// Puts a [`Service`] together.
#[must_use = "nothing happens before `build`"]
pub struct ServiceBuilder {
    common: Common<ServerEnd>,
    instructions: Option<String>,
    offers: Offers,
    page_size: usize,
    subscription_limits: SubscriptionLimits,
    tasks: TaskPolicy,
    state_key: Option<[u8; 32]>,
    state_lifetime: Duration,
    list_hints: CacheHints,
    visible: Option<Predicate>,
    entries: Changes,
    desks: Desks,
}

impl ServiceBuilder {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            common: Common::new(name, version),
            instructions: None,
            offers: Offers::default(),
            page_size: 1000,
            subscription_limits: SubscriptionLimits { number: 1024, bytes: 256 << 10 },
            tasks: TaskPolicy::default(),
            state_key: None,
            state_lifetime: Duration::from_secs(3600),
            list_hints: hints(Duration::ZERO, CacheScope::Private),
            visible: None,
            entries: Changes::new(),
            desks: Desks::default(),
        }
    }

    /// Offers a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.entries = self.entries.add(tool);
        self
    }

    /// Offers a prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.entries = self.entries.add(prompt);
        self
    }

    /// Offers a resource.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.entries = self.entries.add(resource);
        self
    }

    /// Offers all resources that a template describes.
    pub fn template(mut self, template: ResourceTemplate) -> Self {
        self.entries = self.entries.add(template);
        self
    }

    /// Offers a skill, with all of its files.
    #[cfg(feature = "skills")]
    pub fn skill(mut self, skill: super::skill::Skill) -> Self {
        self.entries = self.entries.add(skill);
        self
    }

    /// Offers tools from the beginning, although there may be none yet.
    pub fn tools_may_come(mut self) -> Self {
        self.offers.tools = true;
        self.desks.open_tools();
        self
    }

    /// Offers prompts from the beginning, although there may be none yet.
    pub fn prompts_may_come(mut self) -> Self {
        self.offers.prompts = true;
        self.desks.open_prompts();
        self
    }

    /// Offers resources from the beginning, although there may be none yet.
    pub fn resources_may_come(mut self) -> Self {
        self.offers.resources = true;
        self.desks.open_resources();
        self
    }

    /// Lets clients subscribe to resources. Call [`Service::resource_updated`] when one changes.
    pub fn subscriptions(mut self) -> Self {
        self.offers.subscriptions = true;
        self
    }

    /// How many resources one client can subscribe to. Default 1,024.
    pub fn max_subscriptions(mut self, max: usize) -> Self {
        self.subscription_limits.number = max;
        self
    }

    /// How many bytes the URIs may take together that one client of a session (2025-11-25 and before) can subscribe to. Beyond
    /// that, and beyond [`max_subscriptions`](Self::max_subscriptions), subscriptions are refused. Default 256 KiB.
    pub fn max_subscription_bytes(mut self, max: usize) -> Self {
        self.subscription_limits.bytes = max;
        self
    }

    /// Advice to the model on how to use this server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// How many tools, prompts or resources a page of a list has. Default 1,000: some clients look at one page only.
    pub fn page_size(mut self, size: usize) -> Self {
        self.page_size = size;
        self
    }

    /// How many tasks are kept, and for how long (2025-11-25, 2026-07-28).
    pub fn task_policy(mut self, policy: TaskPolicy) -> Self {
        self.tasks = policy;
        self
    }

    /// What the state of requests is sealed with that wait for answers (2026-07-28). A client brings its state back
    /// with the answers, to whichever process serves it then: all that share the work need the same key and the same
    /// [name](Service::builder). Default: a random one.
    ///
    /// A state that comes back is proof of what was asked of whom, and when: it is worth something only for a service of this
    /// name, within the [lifetime](Self::state_lifetime), and with the principal, the method and the params that it was made
    /// for. It is no proof against replay: within its lifetime it can be used more than once. Nor is it needed for an answer: a
    /// client that foresees a question can answer it without being asked. So what a user has confirmed in an elicitation is
    /// what the client says of it. Where a client is not trusted, have users confirm elsewhere, for example on a page of yours.
    pub fn state_key(mut self, key: [u8; 32]) -> Self {
        self.state_key = Some(key);
        self
    }

    /// How long a client may take to answer before it has to begin anew (2026-07-28). Default 1 hour.
    pub fn state_lifetime(mut self, lifetime: Duration) -> Self {
        self.state_lifetime = lifetime;
        self
    }

    /// For how long clients may use the lists of tools, prompts and resources again, and whether for everybody
    /// (2026-07-28). They are told of changes all the same, if they want to be. Default: not at all.
    pub fn lists_good_for(mut self, time: Duration, scope: CacheScope) -> Self {
        self.list_hints = hints(time, scope);
        self
    }

    /// Decides who gets to see a tool, a prompt, a resource or a template. To everybody else it does not exist: it is in no
    /// list, and a request for it is answered as one for something that was never there. Lists, calls, completions and
    /// subscriptions all ask this, each time, so it can change its mind; clients hear of that by
    /// [`Service::visibility_changed`].
    ///
    /// ```
    /// use mcp_service::{Offer, Service, Tool};
    ///
    /// let service = Service::builder("vault", "1.0.0")
    ///     .tool(Tool::new("look", || "gold"))
    ///     .tool(Tool::new("admin.open", || "open"))
    ///     .visible(|offer, caller| match offer {
    ///         Offer::Tool(tool) if tool.name.starts_with("admin.") => {
    ///             caller.principal.as_ref().is_some_and(|who| who.scopes.iter().any(|scope| scope == "admin"))
    ///         }
    ///         _ => true,
    ///     })
    ///     .build()?;
    /// # Ok::<(), mcp_service::RegisterError>(())
    /// ```
    ///
    /// It runs wherever requests come in, between those of everybody: it is quick and does not block. If it panics, nothing is
    /// seen. With it, no list and no resource is good for anybody but who has asked (2026-07-28), whatever
    /// [`lists_good_for`](Self::lists_good_for) and [`good_for`](Resource::good_for) say.
    ///
    /// A change of something is told to everybody, also to those who do not see it; they only find the list as it was.
    pub fn visible(mut self, f: impl Fn(Offer<'_>, &RequestInfo) -> bool + Send + Sync + 'static) -> Self {
        self.visible = Some(Predicate::new(f));
        self
    }

    common_methods!(ServerEnd);

    /// The service.
    ///
    /// # Errors
    /// If two things have one name, or something is wrong with one.
    pub fn build(mut self) -> Result<Service, RegisterError> {
        let mut catalog = Catalog::default();
        catalog.apply(self.entries.prepare()?, &self.desks)?;
        self.common.settings = self.common.chosen_settings();
        let hash_seed = self.common.random.seed();
        // Without randomness, requests that ask will fail, and all others will not.
        let key = self.state_key.or_else(|| self.common.random.bytes().ok());
        let name = self.common.info.name.clone();
        let shared_tasks = Tasks::new(self.tasks.clone(), self.common.random.clone());
        Ok(Service(Arc::new(Inner {
            shared_tasks,
            common: self.common,
            hash_seed,
            instructions: self.instructions,
            offers: self.offers,
            page_size: self.page_size,
            subscription_limits: self.subscription_limits,
            tasks: self.tasks,
            seal: Seal::new(name, key, self.state_lifetime),
            list_hints: self.list_hints,
            visible: self.visible,
            catalog: RwLock::new(catalog),
            desks: self.desks,
            clients: Default::default(),
        })))
    }
}

impl Service {
    /// Begins a service with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ServiceBuilder {
        ServiceBuilder::new(name.into(), version.into())
    }
}

impl fmt::Debug for ServiceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBuilder").field("info", &self.common.info).finish_non_exhaustive()
    }
}
