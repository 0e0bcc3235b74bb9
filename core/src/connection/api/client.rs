//! The methods of a client.

use alloc::sync::Arc;
use core::marker::PhantomData;

use crate::{
    cache::Cache,
    connection::{
        api::{ClientRole, Connection},
        engine::{Engine, RoleState},
        steps::client::subscription::subscription_id,
        types::{ClientConfig, InputRequestOrigin, Opening, RequestOptions, SendError, Writable},
    },
    rpc::{CallId, ReplyKey, Timestamp},
    schema::InitializeResult,
    wire::RawJson,
};

impl Connection<ClientRole> {
    /// Creates a client and queues its first message. Any number of clients can share a configuration.
    #[must_use]
    pub fn new(config: impl Into<Arc<ClientConfig>>, now: Timestamp) -> Self {
        Self::with_opening(config, Opening::unknown(), now)
    }

    /// Creates a client as [`new`](Self::new) does, with knowledge about the server from an earlier connection.
    #[must_use]
    pub fn with_opening(config: impl Into<Arc<ClientConfig>>, opening: Opening, now: Timestamp) -> Self {
        let mut engine = Engine::new(RoleState::client(config.into(), opening), now);
        engine.open(now);
        Self { engine, role: PhantomData }
    }

    /// Polls a task of the extension by its id (2026-07-28), perhaps one of an earlier connection. The call behaves
    /// like a request that becomes a task: the client emits the input requests of the task as events, and exactly one
    /// [`Event::Response`](crate::connection::Event::Response) with the result of the original request. If several
    /// calls follow one task, each gets these events. Cancelling such a call does not cancel the task: send
    /// `tasks/cancel` for that.
    ///
    /// # Errors
    /// Returns a [`SendError`] if a request is not allowed now. Nothing has changed then.
    pub fn follow_task(&mut self, now: Timestamp, task: &str, options: RequestOptions) -> Result<CallId, SendError> {
        let followed = self.engine.follow_task(now, task, options);
        self.engine.record_busy(Writable::Request, followed)
    }

    /// Returns the server's part of the handshake: its response to `initialize`, or that to `server/discover` in its
    /// form.
    #[must_use]
    pub fn server(&self) -> Option<&InitializeResult> {
        match &self.engine.role_state {
            RoleState::Client { server, .. } => server.as_deref(),
            RoleState::Server { .. } => None,
        }
    }

    /// Returns how to begin the next connection if the server is started again after this one has ended; `None` if a
    /// new attempt would begin in the same way or is not worthwhile.
    ///
    /// A server that exits during the handshake is worth one further attempt. If this client has sent
    /// `server/discover`, the next one begins with `initialize`. If this client treated the server as a legacy one, the
    /// next one starts without that assumption.
    #[must_use]
    pub const fn next_opening(&self) -> Option<Opening> {
        match &self.engine.role_state {
            RoleState::Client { start_state, .. } => start_state.next,
            RoleState::Server { .. } => None,
        }
    }

    /// Returns the `subscriptions/listen` of this side to which a notification belongs, by the notification's params
    /// (2026-07-28). The id in them is the one under which the request was last sent.
    #[must_use]
    pub fn subscription(&self, params: &RawJson<'_>) -> Option<CallId> {
        let id = subscription_id(params)?;
        let call = self.engine.calls.by_wire(id.as_u64()?)?;
        self.engine.listens(call).then_some(call)
    }

    /// Returns where a request of the server comes from, if a result or a task has requested this input (2026-07-28);
    /// `None` for any other request.
    #[must_use]
    pub fn input_request(&self, key: ReplyKey) -> Option<InputRequestOrigin> {
        self.engine.input_request_origin(self.engine.requests.get(key)?.0.tag.input_request?)
    }

    /// Returns the request of this side on whose stream a request of the server arrived. Only for sessions over
    /// Streamable HTTP: other transports have no such streams. The request of this side may have ended. Servers should
    /// send only messages about it on the stream.
    #[must_use]
    pub fn related_call(&self, key: ReplyKey) -> Option<CallId> {
        self.engine.requests.get(key)?.0.tag.arrival.as_ref()?.related_call
    }

    /// Returns the cache of results. Change notifications of the server make its results stale.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.engine.cache
    }

    /// Drops every result in the cache. Results of requests in flight will not be stored.
    pub fn clear_cache(&mut self) {
        self.engine.cache().clear();
    }

    /// Sets the principal of all further requests, if the server derives it from data outside of the messages, such as
    /// a token. Private results of one principal are not used for another. Requests in flight may be sent with the old
    /// token or with the new one, so their results are not stored.
    pub fn act_as(&mut self, principal: Option<Arc<str>>) {
        let Engine { role_state, retries, .. } = &mut self.engine;
        let RoleState::Client { principal: own, start_state, .. } = role_state else { return };
        if *own != principal {
            *own = principal;
            start_state.principal_changed = true;
            if let Some(retries) = retries.allocated_mut() {
                retries.forbid_caching();
            }
        }
    }
}
