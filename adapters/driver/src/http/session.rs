//! A session of a server, or a single request without a session.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Weak},
    task::Waker,
};

use mcp_proto::{
    connection::{Connection, Event, ServerRole},
    http::{
        HttpResponse,
        server::{ExchangeId, ReplayChunk, Request, Session},
    },
    rpc::{ReplyKey, Timestamp},
    schema::LoggingLevel,
};

use crate::http::{client_shares::ClientUsage, protection::Protection, store::scoped_message};
use crate::{
    event_loop::{binding::Binding, shared::SharedConnection},
    limits::functions::Functions,
};
use mcp_service::driver_api::Application;
use mcp_service::driver_api::Holder;

/// The state of a session that was last written to the store.
pub(super) type StoredSettings = (bool, Option<LoggingLevel>);

/// A session, and the wakers of the tasks that write its responses.
pub(super) struct HttpSession {
    pub(super) session: Session,
    readers: BTreeMap<ExchangeId, Waker>,
    /// The application of the session, while its event loop runs.
    pub(super) application: Option<Weak<dyn Application<ServerRole>>>,
    /// The state that was last written to the store, if there is one.
    pub(super) stored: Option<StoredSettings>,
    /// Its part of the quotas of its client.
    held: ClientUsage,
    protection: Protection,
}

/// A session that its event loop and the tasks of its requests share.
pub(super) type SharedSession = SharedConnection<ServerRole, HttpSession>;

impl HttpSession {
    pub(super) const fn new(session: Session, held: ClientUsage, protection: Protection) -> Self {
        Self { session, readers: BTreeMap::new(), application: None, stored: None, held, protection }
    }

    /// Refuses a request that resumes a stream without the scopes that the stream needs.
    pub(super) fn check_resumption(&self, request: &Request) -> Result<(), Box<HttpResponse>> {
        let refusal = self.session.missing_scopes(request).map(|scopes| self.protection.lacks_scopes(&scopes));
        refusal.map_or(Ok(()), |refusal| Err(Box::new(refusal.response(None))))
    }

    /// Passes on stored messages of a stream that another process has sent, if the principal of the exchange has the
    /// scopes for them.
    pub(super) fn handle_replay(&mut self, now: Timestamp, id: ExchangeId, found: io::Result<ReplayChunk>) {
        if found
            .as_ref()
            .is_err_and(|error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::BrokenPipe))
        {
            return self.session.end_replay(now, id);
        }
        match found.ok().and_then(scoped_message::unpack) {
            Some((_, scopes)) if !self.session.has_replay_scopes(id, &scopes) => {
                self.session.refuse_replay(now, id, &self.protection.lacks_scopes(&scopes));
            }
            found => self.session.handle_replay(now, id, found.as_ref().map(|(chunk, _)| chunk)),
        }
    }

    /// Registers the waker of the task that writes an exchange. Returns the waker that was registered before.
    #[must_use = "it may own the last reference to a task"]
    pub(super) fn wait(&mut self, exchange: ExchangeId, waker: &Waker) -> Option<Waker> {
        self.readers.insert(exchange, waker.clone())
    }

    /// Removes the waker of an exchange whose response is no longer written.
    #[must_use = "it may own the last reference to a task"]
    pub(super) fn disconnect(&mut self, exchange: ExchangeId) -> Option<Waker> {
        let before = self.readers.remove(&exchange);
        self.shrink();
        before
    }

    /// Frees the memory of the map if it is empty.
    fn shrink(&mut self) {
        if self.readers.is_empty() {
            self.readers = BTreeMap::new();
        }
    }
}

impl Binding<ServerRole> for HttpSession {
    fn connection(&mut self, now: Timestamp) -> &mut Connection<ServerRole> {
        self.session.connection(now)
    }

    fn view(&self) -> &Connection<ServerRole> {
        self.session.view()
    }

    fn poll_event(&mut self) -> Option<Event<'static>> {
        self.session.poll_event()
    }

    fn due(&self) -> Option<Timestamp> {
        if self.held.is_too_much() {
            return Some(Timestamp::ZERO);
        }
        self.session.poll_timeout().map(|deadline| deadline.at)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.held.mark_reported();
        self.session.handle_timeout(now);
    }

    fn has_output(&self) -> bool {
        self.session.has_replay_request()
    }

    fn authenticates(&self) -> bool {
        true
    }

    fn needs_scopes(&mut self, now: Timestamp, key: ReplyKey, scopes: &[String]) -> bool {
        let challenge = self.protection.lacks_scopes(scopes);
        self.session.challenge(now, key, challenge).is_ok()
    }

    fn require_scopes(&mut self, now: Timestamp, key: ReplyKey, scopes: &[String]) {
        self.session.require_scopes(now, key, scopes);
    }

    fn functions(&self) -> Option<(&Arc<Functions>, &Holder)> {
        Some(self.held.functions())
    }

    fn woken(&mut self) -> Vec<Waker> {
        self.held.recount(&mut self.session);
        let mut woken = Vec::new();
        while let Some(exchange) = self.session.poll_ready() {
            woken.extend(self.readers.remove(&exchange));
        }
        if !woken.is_empty() {
            self.shrink();
        }
        woken
    }
}
