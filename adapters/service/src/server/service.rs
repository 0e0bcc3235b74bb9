//! A service: the tools, prompts and resources of a server, registered once and served on any number of connections.

use std::{collections::BTreeSet, fmt, sync::Arc};

use mcp_proto::{
    connection::{SendError, ServerConfig},
    schema::{
        Implementation, Notification, PromptsListChangedParams, ResourceUpdatedParams, ResourcesListChangedParams,
        ToolsListChangedParams,
    },
};

use super::{
    catalog::{ItemKey, Kind},
    catalog_update::{CatalogUpdate, IntoRegistration},
    inner::Inner,
    register_error::RegisterError,
    tasks::store::Tasks,
};
use crate::{
    driver_api::deferred::Deferred,
    inbound::{session::ServerSession, session_tasks::TaskStore, task_policy::TaskPolicy},
    outbound::subscriptions::Subscriptions,
    util::lock::{read, write},
};

/// A server application: its tools, prompts, resources and handlers.
///
/// It is built once, is cheap to clone, and serves any number of connections, each with its own
/// [`session`](Self::session). Items can be added and removed while it runs; the clients are notified.
///
/// ```
/// # #[cfg(feature = "schemas")] {
/// use mcp_service::{Service, Tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Echo {
///     /// What to say.
///     message: String,
/// }
///
/// let service = Service::builder("echo", "1.0.0")
///     .tool(Tool::new("echo", |echo: Echo| echo.message).description("Says it again"))
///     .build()?;
/// # }
/// # Ok::<(), mcp_service::RegisterError>(())
/// ```
#[derive(Clone)]
#[doc(alias = "ServerHandler")]
pub struct Service(pub(crate) Arc<Inner>);

impl Service {
    /// Returns the configuration of a new connection: the name and version of the service, its instructions, and its
    /// capabilities, which follow from the registered items.
    #[must_use]
    pub fn config(&self) -> ServerConfig {
        let inner = &*self.0;
        let mut config = ServerConfig::new(inner.common.info.clone(), inner.hash_seed);
        config.capabilities = inner.declared.capabilities(&read(&inner.catalog), &inner.common);
        config.instructions.clone_from(&inner.instructions);
        config.settings = inner.common.settings.clone();
        config.confirm_subscriptions = inner.declared.backends || inner.composition.has_parts();
        config
    }

    /// Creates the session of one connection.
    #[must_use]
    pub fn session(&self) -> ServerSession {
        ServerSession::new(
            self.clone(),
            TaskStore::new(self.0.tasks.clone(), self.0.common.random.clone(), Some(self.0.session_shares.clone())),
            Subscriptions::of_servers(),
        )
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.0.shared_tasks
    }

    /// Waits until no handler of a task runs (2026-07-28), nor of a request that may become one.
    ///
    /// A process that ends calls it after its server has stopped: a task whose handler still runs when the process
    /// exits is lost, or has [failed](crate::ServiceBuilder::task_store). Tasks of sessions (2025-11-25) end with their
    /// sessions.
    ///
    /// A handler may run without end, and one that waits for input runs as well, so limit the time. Dropping it changes
    /// nothing.
    pub fn tasks_ended(&self) -> Deferred<()> {
        let running = self.tasks().running.clone();
        Deferred::new(async move { running.ended().await })
    }

    /// Returns the bounds of tasks, for drivers that add up the memory of a service.
    #[doc(hidden)]
    #[must_use]
    pub fn task_policy(&self) -> &TaskPolicy {
        &self.0.tasks
    }

    /// Returns the name and version of the service.
    #[must_use]
    pub fn info(&self) -> &Implementation {
        &self.0.common.info
    }

    /// Adds a tool, a prompt, a resource, a template or a skill. The clients are notified.
    ///
    /// # Errors
    /// If the name is taken, or the item is invalid. Nothing was changed then.
    pub fn add(&self, entry: impl IntoRegistration) -> Result<(), RegisterError> {
        self.update(CatalogUpdate::new().add(entry))
    }

    /// Removes a tool. Running calls continue. Returns whether the tool was registered.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.remove(Kind::Tool, name)
    }

    /// Removes a prompt. Returns whether it was registered.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.remove(Kind::Prompt, name)
    }

    /// Removes a resource. Returns whether it was registered.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.remove(Kind::Resource, uri)
    }

    /// Removes a template of resources. Returns whether it was registered.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        self.remove(Kind::Template, uri_template)
    }

    /// Removes a skill, by the URI of its `SKILL.md`, with its files and nested skills. Returns whether it was
    /// registered.
    #[cfg(feature = "skills")]
    pub fn remove_skill(&self, uri: &str) -> bool {
        let Ok(prepared) = CatalogUpdate::new().remove_skill(uri).prepare() else { return false };
        let changed = write(&self.0.catalog).apply(prepared, &self.0.routes).unwrap_or_default();
        self.list_changed(&changed);
        !changed.is_empty()
    }

    /// Makes several changes at once: all of them, or none. The clients are notified once of each changed list.
    ///
    /// # Errors
    /// If one of the changes cannot be made. Nothing was changed then.
    pub fn update(&self, changes: CatalogUpdate) -> Result<(), RegisterError> {
        let changed = write(&self.0.catalog).apply(changes.prepare()?, &self.0.routes)?;
        self.list_changed(&changed);
        Ok(())
    }

    fn remove(&self, kind: Kind, name: &str) -> bool {
        let removed = write(&self.0.catalog).remove(kind, name);
        if removed {
            self.list_changed(&[(kind, name.to_owned())]);
        }
        removed
    }

    /// Notifies every client that all lists have changed, because the [predicate](crate::ServiceBuilder::visible) may
    /// have other results now.
    pub fn visibility_changed(&self) {
        self.notify_list_changed(&[Kind::Tool, Kind::Prompt, Kind::Resource]);
    }

    /// Notifies the clients of the lists of items that have changed, and updates the services in which this one is
    /// mounted. The caller holds no lock of items.
    pub(crate) fn list_changed(&self, changed: &[ItemKey]) {
        let kinds: BTreeSet<Kind> = changed.iter().map(|(kind, _)| *kind).collect();
        self.notify_list_changed(&kinds.into_iter().collect::<Vec<_>>());
        self.0.composition.follow(changed);
    }

    /// Notifies every client of the lists that have changed. The core merges pending notifications of one list.
    pub(crate) fn notify_list_changed(&self, changed: &[Kind]) {
        if changed.is_empty() {
            return;
        }
        self.0.clients.each(|_, connection| {
            connection.update(|conn, _| {
                for kind in changed {
                    // It fails for clients to which these notifications were not declared.
                    let _ = match kind {
                        Kind::Tool => conn.notify(&ToolsListChangedParams::default()),
                        Kind::Prompt => conn.notify(&PromptsListChangedParams::default()),
                        #[cfg(feature = "skills")]
                        Kind::Skill => conn.notify(&ResourcesListChangedParams::default()),
                        Kind::Resource | Kind::Template => conn.notify(&ResourcesListChangedParams::default()),
                    };
                }
            });
        });
    }

    /// Returns the number of the connection, if there is exactly one.
    pub(crate) fn only_client(&self) -> Option<u64> {
        let (mut clients, mut last) = (0, None);
        self.0.clients.each(|session, _| (clients, last) = (clients + 1, Some(session.calls.number())));
        last.filter(|_| clients == 1)
    }

    /// Notifies the clients that have subscribed to a resource, or listen to it (2026-07-28), of a change. Returns the
    /// number of notified subscriptions.
    ///
    /// A client whose outbox is full ([`SendError::Busy`]) misses the notification.
    pub fn resource_updated(&self, uri: &str) -> usize {
        let mut told = 0;
        let params = ResourceUpdatedParams::new(uri);
        self.0.clients.each(|session, connection| {
            let is_subscribed = session.state.subscriptions.contains(uri);
            // A subscriber that cannot see the resource is not notified. The check for a session is made when it
            // subscribes.
            let listeners = connection.read(|conn| conn.listeners(uri));
            let listeners: Vec<_> =
                listeners.into_iter().filter(|key| self.0.may_notify(connection, *key, uri)).collect();
            let sent = connection.update(|conn, _| {
                // A session without a subscription must not get updates of others on its connection.
                if is_subscribed {
                    conn.notify(&params)
                } else {
                    conn.notify_subscribers(&params, |key| listeners.contains(&key))
                }
            });
            if sent.is_ok() {
                told += listeners.len() + usize::from(is_subscribed);
            }
        });
        told + self.0.composition.resource_updated(uri)
    }

    /// Sends a notification to every client. Returns for how many clients it was queued.
    pub fn broadcast<N: Notification>(&self, params: &N) -> usize {
        let mut told = 0;
        self.0.clients.each(|_, connection| {
            let sent: Result<(), SendError> = connection.update(|conn, _| conn.notify(params));
            told += usize::from(sent.is_ok());
        });
        told
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("info", &self.0.common.info).finish_non_exhaustive()
    }
}
