//! The builder of a service.

use std::{
    fmt,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::ServerRole,
    schema::{CacheHints, CacheScope},
};

use super::{
    capabilities::DeclaredCapabilities,
    catalog::Catalog,
    catalog_update::CatalogUpdate,
    inner::Inner,
    input_required::request_state::StateSigner,
    prompt::Prompt,
    register_error::RegisterError,
    resource::{Resource, hints},
    resource_subscriptions::SubscriptionLimits,
    resource_template::ResourceTemplate,
    routes::Routes,
    service::Service,
    tasks::{
        store::Tasks,
        task_store::{LocalTasks, TaskStore},
    },
    tool::Tool,
    visibility::{CatalogItem, Predicate},
};
use crate::inbound::{
    builder_common::{Common, common_methods},
    request::RequestInfo,
    session_tasks::SessionShares,
    shared_state::{FromState, State},
    task_policy::TaskPolicy,
};

/// A builder of a [`Service`].
#[must_use = "nothing happens before `build`"]
pub struct ServiceBuilder<S = ()> {
    state: State<S>,
    common: Common<ServerRole>,
    instructions: Option<String>,
    declared: DeclaredCapabilities,
    page_size: usize,
    subscription_limits: SubscriptionLimits,
    tasks: TaskPolicy,
    task_store: Option<Arc<dyn TaskStore>>,
    state_key: Option<[u8; 32]>,
    state_lifetime: Duration,
    list_hints: CacheHints,
    visible: Option<Predicate>,
    hides_without_scopes: bool,
    masks_failures: bool,
    entries: CatalogUpdate,
    routes: Routes,
    mounted: Vec<Mount>,
}

/// Mounts a service. Only a program that mounts services links the code for that, which handles items of all types.
type Mount = Box<dyn FnOnce(&Service) -> Result<(), RegisterError> + Send + Sync>;

impl ServiceBuilder {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            state: State::from(()),
            common: Common::new(name, version),
            instructions: None,
            declared: DeclaredCapabilities::default(),
            page_size: 1000,
            subscription_limits: SubscriptionLimits { number: 1024, bytes: 256 << 10 },
            tasks: TaskPolicy::default(),
            task_store: None,
            state_key: None,
            state_lifetime: Duration::from_secs(3600),
            list_hints: hints(Duration::ZERO, CacheScope::Private),
            visible: None,
            hides_without_scopes: false,
            masks_failures: false,
            entries: CatalogUpdate::new(),
            routes: Routes::default(),
            mounted: Vec::new(),
        }
    }
}

impl<S: Send + Sync + 'static> ServiceBuilder<S> {
    /// Sets the state that handlers share. Items that are registered after it can have handlers with this state: as
    /// `&S`, which makes methods of `S` handlers, as [`State<S>`](State), or as `Arc<S>`.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicI64, Ordering};
    ///
    /// use mcp_service::{Service, Tool};
    ///
    /// #[derive(Default)]
    /// struct Counter(AtomicI64);
    ///
    /// impl Counter {
    ///     async fn increment(&self) -> String {
    ///         (self.0.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    ///     }
    /// }
    ///
    /// let service = Service::builder("counter", "1.0.0")
    ///     .with_state(Counter::default())
    ///     .tool(Tool::new_async("increment", Counter::increment).description("Increments the counter"))
    ///     .build()?;
    /// # Ok::<(), mcp_service::RegisterError>(())
    /// ```
    ///
    /// A builder has one state at a time. Items that are registered before it keep the state that they have. For
    /// handlers with a part of the state, see [`FromState`].
    pub fn with_state<T: Send + Sync + 'static>(self, state: T) -> ServiceBuilder<T> {
        self.with_shared_state(Arc::new(state))
    }

    /// Sets the state as [`with_state`](Self::with_state) does, and shares it with the rest of the program.
    pub fn with_shared_state<T: Send + Sync + 'static>(self, state: Arc<T>) -> ServiceBuilder<T> {
        ServiceBuilder {
            state: State(state),
            common: self.common,
            instructions: self.instructions,
            declared: self.declared,
            page_size: self.page_size,
            subscription_limits: self.subscription_limits,
            tasks: self.tasks,
            task_store: self.task_store,
            state_key: self.state_key,
            state_lifetime: self.state_lifetime,
            list_hints: self.list_hints,
            visible: self.visible,
            hides_without_scopes: self.hides_without_scopes,
            masks_failures: self.masks_failures,
            entries: self.entries,
            routes: self.routes,
            mounted: self.mounted,
        }
    }

    /// Registers a tool.
    pub fn tool<T: FromState<S>>(mut self, tool: Tool<T>) -> Self {
        self.entries = self.entries.add(tool.bind(T::from_state(&self.state)));
        self
    }

    /// Registers a prompt.
    pub fn prompt<T: FromState<S>>(mut self, prompt: Prompt<T>) -> Self {
        self.entries = self.entries.add(prompt.bind(T::from_state(&self.state)));
        self
    }

    /// Registers a resource.
    pub fn resource<T: FromState<S>>(mut self, resource: Resource<T>) -> Self {
        self.entries = self.entries.add(resource.bind(T::from_state(&self.state)));
        self
    }

    /// Registers a template, with all resources that it describes.
    pub fn template<T: FromState<S>>(mut self, template: ResourceTemplate<T>) -> Self {
        self.entries = self.entries.add(template.bind(T::from_state(&self.state)));
        self
    }

    /// Applies a function that registers items. It keeps a chain of calls whole, for example with the function that the
    /// attribute `handlers` writes (feature `macros`).
    ///
    /// ```
    /// use mcp_service::{Service, ServiceBuilder, Tool};
    ///
    /// fn greetings(builder: ServiceBuilder) -> ServiceBuilder {
    ///     builder.tool(Tool::new("hello", || "Hello!")).tool(Tool::new("bye", || "Bye!"))
    /// }
    ///
    /// let service = Service::builder("greeter", "1.0.0").register(greetings).build()?;
    /// # Ok::<(), mcp_service::RegisterError>(())
    /// ```
    pub fn register(self, f: impl FnOnce(Self) -> Self) -> Self {
        f(self)
    }

    /// Registers a skill, with all of its files.
    #[cfg(feature = "skills")]
    pub fn skill(mut self, skill: super::skill::Skill) -> Self {
        self.entries = self.entries.add(skill);
        self
    }

    /// Declares the capability for tools even if none is registered yet.
    pub fn enable_tools(mut self) -> Self {
        self.declared.tools = true;
        self.routes.enable_tools();
        self
    }

    /// Declares the capability for prompts even if none is registered yet.
    pub fn enable_prompts(mut self) -> Self {
        self.declared.prompts = true;
        self.routes.enable_prompts();
        self
    }

    /// Declares the capability for resources even if none is registered yet.
    pub fn enable_resources(mut self) -> Self {
        self.declared.resources = true;
        self.routes.enable_resources();
        self
    }

    /// Declares the capabilities for everything that [backends](crate::proxy::Backend) may offer, since clients may
    /// connect before the backends are connected.
    pub fn enable_backends(mut self) -> Self {
        self.declared.backends = true;
        self.routes.enable_tools();
        self.routes.enable_prompts();
        self.routes.enable_templates();
        self
    }

    /// Offers the items of another service under a prefix, as [`Service::mount`] does.
    pub fn mount(mut self, prefix: impl Into<String>, service: &Service) -> Self {
        let (prefix, service) = (prefix.into(), service.clone());
        self.mounted.push(Box::new(move |whole| whole.mount(&prefix, &service)));
        self
    }

    /// Lets clients subscribe to resources. Call [`Service::resource_updated`] when a resource changes.
    ///
    /// In a session (2025-11-25 and before), notifications are sent on the stream of the session. If the resource has
    /// [scopes](Resource::scope), the request to subscribe needs them. The stream does not: another token of the same
    /// subject may have opened it. A notification contains the URI and no contents.
    pub fn subscriptions(mut self) -> Self {
        self.declared.subscriptions = true;
        self
    }

    /// Sets how many resources one client can subscribe to. Default 1,024.
    pub fn max_subscriptions(mut self, max: usize) -> Self {
        self.subscription_limits.number = max;
        self
    }

    /// Sets how many bytes the URIs of all subscriptions of one client of a session (2025-11-25 and before) may have
    /// together. Subscriptions beyond that, and beyond [`max_subscriptions`](Self::max_subscriptions), are refused.
    /// Default 256 KiB.
    pub fn max_subscription_bytes(mut self, max: usize) -> Self {
        self.subscription_limits.bytes = max;
        self
    }

    /// Sets the instructions for the model on how to use this server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Sets how many items a page of a list has. Default 1,000, since some clients read only the first page.
    pub fn page_size(mut self, size: usize) -> Self {
        self.page_size = size;
        self
    }

    /// Sets a store that the processes of this service share, so that clients may send requests about a task to any of
    /// them (2026-07-28). Default: each process knows its own tasks only.
    ///
    /// A task is stored before its client learns its id. If that fails, the call fails, or goes on without a task if
    /// its handler [decides](crate::Context::become_task). The tasks of a process that has ended have failed, except
    /// those that had ended before. A process notifies clients of its own tasks only: a subscription at another process
    /// does not contain the task, and its client has to poll.
    pub fn task_store(mut self, store: impl TaskStore) -> Self {
        self.task_store = Some(Arc::new(store));
        self
    }

    /// Sets how many tasks are kept, and for how long (2025-11-25, 2026-07-28).
    pub fn task_policy(mut self, policy: TaskPolicy) -> Self {
        self.tasks = policy;
        self
    }

    /// Sets the key that authenticates the state of requests that wait for input (2026-07-28). A client sends the state
    /// back with its responses, to any process of the service: all processes that share the work need the same key and
    /// the same [name](Service::builder). Default: a random key.
    ///
    /// An accepted state proves the input requests, the principal and the time. It is valid only for a service of this
    /// name, within the [lifetime](Self::state_lifetime), and for the principal, the method and the params that it was
    /// made for. It does not prevent replay: within its lifetime it can be used more than once. A client does not need
    /// a state to respond: it can foresee a request for input and respond to it unasked. So the response to an
    /// elicitation is a statement of the client, and no proof of what its user has confirmed. If a client is not
    /// trusted, have users confirm elsewhere, for example on a page of yours.
    pub fn state_key(mut self, key: [u8; 32]) -> Self {
        self.state_key = Some(key);
        self
    }

    /// Sets how long the client may take to respond to a request for input before it has to start the request again
    /// (2026-07-28). Default 1 hour.
    pub fn state_lifetime(mut self, lifetime: Duration) -> Self {
        self.state_lifetime = lifetime;
        self
    }

    /// Sets how long clients may cache the lists of tools, prompts and resources, and whether caches may share them
    /// between users (2026-07-28). Clients that subscribe to changes are still notified. Default: no caching.
    #[doc(alias = "ttl")]
    pub fn cache_lists_for(mut self, time: Duration, scope: CacheScope) -> Self {
        self.list_hints = hints(time, scope);
        self
    }

    /// Sets the predicate that decides which callers can see an item: a tool, a prompt, a resource or a template. For
    /// other callers the item does not exist: it is in no list, and the response to a request for it is the one for an
    /// unknown item. Lists, calls, completions and subscriptions call the predicate each time, so its result may
    /// change; call [`Service::visibility_changed`] then.
    ///
    /// ```
    /// use mcp_service::{CatalogItem, Service, Tool};
    ///
    /// let service = Service::builder("vault", "1.0.0")
    ///     .tool(Tool::new("look", || "gold"))
    ///     .tool(Tool::new("admin.open", || "open"))
    ///     .visible(|item, caller| match item {
    ///         CatalogItem::Tool(tool) if tool.name.starts_with("admin.") => {
    ///             caller.principal.as_ref().is_some_and(|who| who.scopes.iter().any(|scope| scope == "admin"))
    ///         }
    ///         _ => true,
    ///     })
    ///     .build()?;
    /// # Ok::<(), mcp_service::RegisterError>(())
    /// ```
    ///
    /// It runs on the thread that processes incoming requests, so it must be fast and must not block. If it panics, the
    /// item is hidden. With a predicate, the cache scope of all lists and resources is private (2026-07-28), also with
    /// another scope in [`cache_lists_for`](Self::cache_lists_for) and [`cache_for`](Resource::cache_for).
    ///
    /// A resource of a backend that is in no list, or in none yet, is requested from the backend only if the predicate
    /// allows a resource with its URI, whose name is the URI. A backend may have several URIs for one resource: a
    /// predicate that names the hidden ones does not hide the others, one that names the visible ones does.
    ///
    /// All clients are notified of a change of a list, also those that cannot see the changed item.
    #[doc(alias = "auth")]
    #[doc(alias = "authorization")]
    pub fn visible(mut self, f: impl Fn(CatalogItem<'_>, &RequestInfo) -> bool + Send + Sync + 'static) -> Self {
        self.visible = Some(Predicate::new(f));
        self
    }

    /// Leaves items out of the lists of callers that lack a [scope](Tool::scope) of the item: tools, prompts, templates
    /// and resources, also those of folders. Lists and requests are decided by the same check, but for templates, whose
    /// resources may need the scopes of other items as well. Default: the items are listed, since many clients request
    /// more scopes only after they have called a tool that they found in a list.
    ///
    /// A request for such an item is refused with the scopes that it needs, as without this setting; hide it with
    /// [`visible`](Self::visible) if its name must not be known. A caller that has got more scopes requests the lists
    /// again: the server does not see that its token has changed. The cache scope of all lists and resources is private
    /// (2026-07-28). Where the transport authenticates no requests, as over pipes, all items are listed.
    ///
    /// ```
    /// use mcp_service::{Service, Tool};
    ///
    /// let service = Service::builder("notes", "1.0.0")
    ///     .tool(Tool::new("read", || "a note").scope("notes:read"))
    ///     .tool(Tool::new("forget", || "forgotten").scope("notes:write"))
    ///     .hide_without_scopes()
    ///     .build()?;
    /// # Ok::<(), mcp_service::RegisterError>(())
    /// ```
    pub fn hide_without_scopes(mut self) -> Self {
        self.hides_without_scopes = true;
        self
    }

    /// Masks failures: clients and models do not get the texts of errors and of their causes, which may name files,
    /// hosts or queries. Default: they get them.
    ///
    /// A masked tool fails with the text "The tool failed", and another request with the error -32603 and the message
    /// "Internal error". The same holds for tasks and for middleware. With the feature `tracing`, the whole text is an
    /// event of the level `ERROR` in the span of the request.
    ///
    /// Not masked is what handlers write for clients: [`Failure::new`](crate::Failure::new), text literals, an
    /// [`ErrorObject`](mcp_proto::wire::ErrorObject), and results that are failed, such as
    /// [`CallToolResult::error`](mcp_proto::schema::CallToolResult::error). A `String` is masked, since it may be the
    /// text of an error.
    ///
    /// ```
    /// use mcp_service::{Failure, Service, Tool};
    ///
    /// fn read(path: String) -> Result<String, Failure> {
    ///     if path.contains("..") {
    ///         return Err(Failure::new("the path leaves the folder")); // sent
    ///     }
    ///     Ok(std::fs::read_to_string(path)?) // masked
    /// }
    ///
    /// let tool = Tool::new("settings", || read("settings.json".into()));
    /// let service = Service::builder("files", "1.0.0").tool(tool).mask_failures().build()?;
    /// # Ok::<(), mcp_service::RegisterError>(())
    /// ```
    #[doc(alias = "mask_error_details")]
    pub fn mask_failures(mut self) -> Self {
        self.masks_failures = true;
        self
    }

    common_methods!(ServerRole);

    /// Builds the service.
    ///
    /// # Errors
    /// If two items have the same name, an item is invalid, or a service cannot be [mounted](Service::mount).
    pub fn build(mut self) -> Result<Service, RegisterError> {
        let mut catalog = Catalog::default();
        catalog.apply(self.entries.prepare()?, &self.routes)?;
        self.common.settings = self.common.chosen_settings();
        let hash_seed = self.common.random.seed();
        // Without randomness, only requests that require input fail.
        let key = self.state_key.or_else(|| self.common.random.bytes().ok());
        let name = self.common.info.name.clone();
        let shared_tasks = Arc::new(Tasks::new(self.tasks.clone(), self.common.random.clone(), self.task_store));
        let tasks = Arc::new(self.tasks);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let service = Service(Arc::new(Inner {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            shared_tasks,
            session_shares: SessionShares::new(tasks.clone()),
            common: self.common,
            hash_seed,
            instructions: self.instructions,
            declared: self.declared,
            page_size: self.page_size,
            subscription_limits: self.subscription_limits,
            tasks,
            state_signer: StateSigner::new(name, key, self.state_lifetime),
            list_hints: self.list_hints,
            visible: self.visible,
            hides_without_scopes: self.hides_without_scopes,
            masks_failures: self.masks_failures,
            catalog: RwLock::new(catalog),
            routes: self.routes,
            clients: Default::default(),
            composition: Default::default(),
        }));
        for mount in self.mounted {
            mount(&service)?;
        }
        if let Some(store) = service.tasks().store() {
            store.attach(LocalTasks::new(&service.0.shared_tasks));
        }
        Ok(service)
    }
}

impl Service {
    /// Creates a builder of a service with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ServiceBuilder {
        ServiceBuilder::new(name.into(), version.into())
    }
}

impl<S> fmt::Debug for ServiceBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBuilder").field("info", &self.common.info).finish_non_exhaustive()
    }
}
