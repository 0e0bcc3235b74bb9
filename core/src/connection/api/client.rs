//! The methods of a client.

use alloc::sync::Arc;
use core::marker::PhantomData;

use crate::{
    cache::Cache,
    connection::{
        api::{ClientEnd, Connection},
        engine::{Engine, RoleState},
        steps::client::subscription::subscription_id,
        types::{ClientConfig, Opening, RequestOptions, Room, SendError},
    },
    rpc::{CallId, Timestamp},
    schema::InitializeResult,
    wire::RawJson,
};

impl Connection<ClientEnd> {
    /// A client whose first message waits to be written. A configuration can be shared by any number of them.
    #[must_use]
    pub fn new(config: impl Into<Arc<ClientConfig>>, now: Timestamp) -> Self {
        Self::knowing(config, Opening::unknown(), now)
    }

    /// [`new`](Self::new) for a client that knows something of the server.
    #[must_use]
    pub fn knowing(config: impl Into<Arc<ClientConfig>>, opening: Opening, now: Timestamp) -> Self {
        let mut engine = Engine::new(RoleState::client(config.into(), opening), now);
        engine.open(now);
        Self { engine, end: PhantomData }
    }

    /// Polls a task of the extension whose id is known (2026-07-28), perhaps from an earlier connection. It behaves
    /// like a request that becomes a task: the input requests of the task come as events, and exactly one
    /// [`Event::Response`](crate::connection::Event::Response) with the result of the original request. If several
    /// calls follow one task, each gets these events. Cancelling such a call does not cancel the task: send
    /// `tasks/cancel` for that.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has changed then.
    pub fn follow_task(&mut self, now: Timestamp, task: &str, options: RequestOptions) -> Result<CallId, SendError> {
        let pursued = self.engine.pursue(now, task, options);
        self.engine.noted(Room::Request, pursued)
    }

    /// What the server said of itself in the handshake.
    #[must_use]
    pub fn server(&self) -> Option<&InitializeResult> {
        match &self.engine.role_state {
            RoleState::Client { server, .. } => server.as_deref(),
            RoleState::Server { .. } => None,
        }
    }
}

impl Connection<ClientEnd> {
    /// How to begin if the server is started once more, now that the connection has ended: `None` if that would change
    /// nothing.
    ///
    /// A server that leaves before it has answered `initialize` may have been asked something that it did not know. It
    /// is started again once, and then it is not asked.
    #[must_use]
    pub const fn next_opening(&self) -> Option<Opening> {
        match &self.engine.role_state {
            RoleState::Client { start_state, .. } => start_state.next,
            RoleState::Server { .. } => None,
        }
    }
}

impl Connection<ClientEnd> {
    /// Which `subscriptions/listen` of ours a notification belongs to, by its params (2026-07-28). The id in them is
    /// the one that the request was last sent under.
    #[must_use]
    pub fn subscription(&self, params: &RawJson<'_>) -> Option<CallId> {
        let id = subscription_id(params)?;
        let call = self.engine.calls.by_wire(id.as_u64()?)?;
        self.engine.listens(call).then_some(call)
    }
}

impl Connection<ClientEnd> {
    /// The results that may be used again. What changes is made stale without being asked.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.engine.cache
    }

    /// Drops every result that may be used again.
    pub fn clear_cache(&mut self) {
        self.engine.cache().clear();
    }

    /// As whom requests are made from now on, where the server knows that from something outside of the messages, such
    /// as a token. Results that are private to one are not used for another. Requests in flight may be sent with the
    /// old token or with the new one, so what they are answered with is not kept at all.
    pub fn act_as(&mut self, principal: Option<Arc<str>>) {
        let Engine { role_state, retries, .. } = &mut self.engine;
        let RoleState::Client { principal: own, start_state, .. } = role_state else { return };
        if *own != principal {
            *own = principal;
            start_state.principal_changed = true;
            if let Some(retries) = retries.made() {
                retries.forget_who_asked();
            }
        }
    }
}
