//! A service: what a server offers, registered once and served on any number of connections.

use std::{fmt, sync::Arc};

use mcp_proto::{
    connection::{SendError, ServerConfig},
    schema::{
        Implementation, Notification, PromptsListChangedParams, ResourceUpdatedParams, ResourcesListChangedParams,
        ToolsListChangedParams,
    },
};

use super::{
    catalog::Kind,
    catalog_update::{Changes, Entry},
    inner::Inner,
    register_error::RegisterError,
    tasks::store::Tasks,
};
use crate::{
    inbound::{session::ServerSession, session_tasks::TaskStore, task_policy::TaskPolicy},
    outbound::subscriptions::Subscriptions,
    util::lock::{read, write},
};

/// What a server offers: tools, prompts and resources.
///
/// It is built once, is cheap to clone, and serves any number of connections, each through a [`session`](Self::session)
/// of its own. What it offers can change while it runs; the clients hear of it.
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
pub struct Service(pub(super) Arc<Inner>);

impl Service {
    /// What a connection that begins now is configured with: who this is, and what it offers, which follows from what
    /// is registered.
    #[must_use]
    pub fn config(&self) -> ServerConfig {
        let inner = &*self.0;
        let mut config = ServerConfig::new(inner.common.info.clone(), inner.hash_seed);
        config.capabilities = inner.offers.capabilities(&read(&inner.catalog), &inner.common);
        config.instructions.clone_from(&inner.instructions);
        config.settings = inner.common.settings.clone();
        config
    }

    /// What runs on one connection.
    #[must_use]
    pub fn session(&self) -> ServerSession {
        ServerSession::new(
            self.clone(),
            TaskStore::new(self.0.tasks.clone(), self.0.common.random.clone()),
            Subscriptions::new(),
        )
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.0.shared_tasks
    }

    /// Returns the bounds of tasks, for drivers that add up what a service may hold.
    #[doc(hidden)]
    #[must_use]
    pub fn task_policy(&self) -> &TaskPolicy {
        &self.0.tasks
    }

    /// Who this is.
    #[must_use]
    pub fn info(&self) -> &Implementation {
        &self.0.common.info
    }

    /// Adds a tool, a prompt, a resource or a template. The clients hear of it.
    ///
    /// # Errors
    /// If there is one of this name, or something is wrong with it; nothing has changed then.
    pub fn add(&self, entry: impl Into<Entry>) -> Result<(), RegisterError> {
        self.change(Changes::new().add(entry))
    }

    /// Removes a tool. What it is doing goes on. Whether there was one.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.remove(Kind::Tool, name)
    }

    /// Removes a prompt. Whether there was one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.remove(Kind::Prompt, name)
    }

    /// Removes a resource. Whether there was one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.remove(Kind::Resource, uri)
    }

    /// Removes a template of resources. Whether there was one.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        self.remove(Kind::Template, uri_template)
    }

    /// Removes a skill, by the URI of its `SKILL.md`, with its files and the skills in it. Whether there was one.
    #[cfg(feature = "skills")]
    pub fn remove_skill(&self, uri: &str) -> bool {
        let Ok(prepared) = Changes::new().remove_skill(uri).prepare() else { return false };
        let changed = write(&self.0.catalog).apply(prepared, &self.0.desks).unwrap_or_default();
        self.tell(&changed);
        !changed.is_empty()
    }

    /// Makes several changes at once: all of them, or none. The clients hear of each list once.
    ///
    /// # Errors
    /// If one of them cannot be made; nothing has changed then.
    pub fn change(&self, changes: Changes) -> Result<(), RegisterError> {
        let changed = write(&self.0.catalog).apply(changes.prepare()?, &self.0.desks)?;
        self.tell(&changed);
        Ok(())
    }

    fn remove(&self, kind: Kind, name: &str) -> bool {
        let removed = write(&self.0.catalog).remove(kind, name);
        if removed {
            self.tell(&[kind]);
        }
        removed
    }

    /// Tells every client to look at all lists again: others may [see](ServiceBuilder::visible) other things from now on.
    pub fn visibility_changed(&self) {
        self.tell(&[Kind::Tool, Kind::Prompt, Kind::Resource]);
    }

    /// Tells every client which lists have changed. The core makes one notification out of many.
    fn tell(&self, changed: &[Kind]) {
        self.0.clients.each(|_, link| {
            link.run(|conn, _| {
                for kind in changed {
                    // It is not declared to clients that cannot hear of it.
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

    /// Notifies the clients that have subscribed to a resource, or listen to it (2026-07-28), of a change. Returns how
    /// many subscriptions that were.
    ///
    /// A client that does not read what it is sent ([`SendError::Busy`]) misses it.
    pub fn resource_updated(&self, uri: &str) -> usize {
        let mut told = 0;
        let params = ResourceUpdatedParams::new(uri);
        self.0.clients.each(|session, link| {
            let is_subscribed = session.state.subscriptions.contains(uri);
            // A subscriber that cannot see the resource is not notified. The check for a session is made when it
            // subscribes.
            let listeners = link.look(|conn| conn.listeners(uri));
            let listeners: Vec<_> = listeners.into_iter().filter(|key| self.0.may_hear(link, *key, uri)).collect();
            let sent = link.run(|conn, _| {
                // A session that has not subscribed must not hear what others on its connection listen to.
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
        told
    }

    /// Sends a notification to every client. Returns for how many clients it was queued.
    pub fn broadcast<N: Notification>(&self, params: &N) -> usize {
        let mut told = 0;
        self.0.clients.each(|_, link| {
            let sent: Result<(), SendError> = link.run(|conn, _| conn.notify(params));
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
