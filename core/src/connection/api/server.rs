//! The methods of a server.

use alloc::{sync::Arc, vec::Vec};
use core::{marker::PhantomData, time::Duration};

use crate::{
    connection::{
        api::{Connection, ServerRole},
        engine::{Engine, RoleState},
        steps::stateless::requests::header_mismatch,
        types::{RequestContext, SendError, ServerConfig, Writable},
    },
    protocol::{Era, HeaderParam},
    rpc::{ReplyKey, Timestamp},
    schema::{InitializeParams, LoggingLevel, ResourceUpdatedParams},
    wire::{ErrorObject, RawJson},
};

impl Connection<ServerRole> {
    /// Creates a server, which waits for the first message of its client. Any number of servers can share a
    /// configuration.
    #[must_use]
    pub fn new(config: impl Into<Arc<ServerConfig>>, now: Timestamp) -> Self {
        let role_state = RoleState::Server { config: config.into(), client: None };
        Self { engine: Engine::new(role_state, now), role: PhantomData }
    }

    /// Returns the client's part of the handshake, the params of `initialize`.
    #[must_use]
    pub const fn client(&self) -> Option<&InitializeParams> {
        match &self.engine.role_state {
            RoleState::Client { .. } => None,
            RoleState::Server { client, .. } => client.as_ref(),
        }
    }

    /// Returns the subscriptions (2026-07-28) that a change of this resource concerns, as the keys of the requests that
    /// opened them. [`context`](Self::context) returns their principals. Subscriptions of a legacy session are not
    /// among them: the application keeps those.
    #[must_use]
    pub fn listeners(&self, uri: &str) -> Vec<ReplyKey> {
        self.engine.listeners(uri).into_iter().map(|(key, _)| key).collect()
    }

    /// Notifies subscribers (2026-07-28) that a resource has changed: those of the [`listeners`](Self::listeners) for
    /// which `is_allowed` is true. A legacy session is not notified; [`notify`](Self::notify) notifies it and all
    /// subscribers.
    ///
    /// # Errors
    /// Returns a [`SendError`] if the capability was not declared, or too much waits to be written. No subscriber is
    /// notified then.
    pub fn notify_subscribers(
        &mut self,
        updated: &ResourceUpdatedParams,
        is_allowed: impl FnMut(ReplyKey) -> bool,
    ) -> Result<(), SendError> {
        let result = self.engine.notify_subscribers(&updated.uri, is_allowed);
        self.engine.record_busy(Writable::Message, result)
    }

    /// Opens a subscription that names tasks or resources (2026-07-28), and acknowledges those tasks for which
    /// `is_there` is true: they exist, and the client may see them.
    ///
    /// The connection reports such a subscription as an [`Event::Request`](crate::connection::Event::Request) with
    /// [`Method::Listen`](crate::protocol::Method::Listen). The application calls this method or responds with an
    /// error. The same happens to one that names resources, if the configuration
    /// [says so](crate::connection::ServerConfig::confirm_subscriptions). The connection accepts all other
    /// subscriptions without the application.
    ///
    /// # Errors
    /// Returns a [`SendError`] if the request is not of this kind, has a response already, or too much waits to be
    /// written.
    pub fn accept_subscription(&mut self, key: ReplyKey, is_there: impl FnMut(&str) -> bool) -> Result<(), SendError> {
        self.accept_subscription_with(key, is_there, |_| true)
    }

    /// Opens a subscription as [`accept_subscription`](Self::accept_subscription) does, and leaves out those resources
    /// for which `is_notified` is false: the server cannot notify of their changes.
    ///
    /// # Errors
    /// The same.
    pub fn accept_subscription_with(
        &mut self,
        key: ReplyKey,
        is_there: impl FnMut(&str) -> bool,
        is_notified: impl FnMut(&str) -> bool,
    ) -> Result<(), SendError> {
        let accepted = self.engine.accept_subscription(key, is_there, is_notified);
        self.engine.record_busy(Writable::Message, accepted)
    }

    /// Returns the context of a request: its revision, the client's capabilities, its principal and more.
    ///
    /// Returns `None` once the request has ended and its response, if any, was polled.
    #[must_use]
    pub fn context(&self, key: ReplyKey) -> Option<RequestContext<'_>> {
        let (entry, _) = self.engine.requests.get(key)?;
        let (progress_token, trace) = (entry.token(), entry.tag.trace.as_deref());
        let arrival = entry.tag.arrival.as_deref();
        let principal = arrival.and_then(|arrival| arrival.principal.as_deref());
        let extension = arrival.and_then(|arrival| arrival.extension.as_ref());
        let has_stream = arrival.is_some_and(|arrival| arrival.stream.is_some());
        if let Some(modern) = &entry.tag.stateless {
            return Some(RequestContext {
                version: modern.version,
                client_capabilities: &modern.capabilities,
                client_info: modern.info.as_ref(),
                log_level: entry.tag.log_level,
                progress_token,
                trace,
                principal,
                extension,
                has_stream,
            });
        }
        let client = self.client()?;
        Some(RequestContext {
            version: self.engine.version?,
            client_capabilities: &client.capabilities,
            client_info: Some(&client.client_info),
            log_level: self.engine.log_level,
            progress_token,
            trace,
            principal,
            extension,
            has_stream,
        })
    }

    /// Returns whether the client gets a log message of this level with [`log`](Self::log). In a session it gets all
    /// messages before it sets a level; without a session it gets only those that the request asks for (2026-07-28).
    #[must_use]
    pub fn wants_log(&self, key: ReplyKey, level: LoggingLevel) -> bool {
        self.is_open(key)
            && self.context(key).is_some_and(|context| match context.era() {
                Era::Modern => context.log_level.is_some_and(|least| level >= least),
                Era::Legacy => context.log_level.is_none_or(|least| level >= least),
            })
    }

    /// Checks the headers of a request against the arguments that they repeat (2026-07-28 over HTTP). `params` are the
    /// header params of the tool's input schema. Requests without headers pass.
    ///
    /// # Errors
    /// Returns the error for the response.
    pub fn verify_headers(
        &self,
        key: ReplyKey,
        params: &[HeaderParam],
        arguments: Option<&RawJson<'_>>,
    ) -> Result<(), ErrorObject> {
        let arrival = self.engine.requests.get(key).and_then(|(entry, _)| entry.tag.arrival.as_ref());
        let Some(headers) = arrival.and_then(|arrival| arrival.headers.as_ref()) else { return Ok(()) };
        HeaderParam::verify_all(params, arguments, headers).map_err(|mismatch| header_mismatch(&mismatch))
    }

    /// Closes the stream of a request whose response will take a while, if the client can fetch the response later
    /// (2025-11-25 over HTTP). It advises the client to reconnect after `retry`. With other bindings and revisions it
    /// does nothing.
    pub fn release_stream(&mut self, key: ReplyKey, retry: Option<Duration>) {
        self.engine.release_stream(key, retry);
    }
}
