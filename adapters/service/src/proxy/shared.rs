//! The state of a backend.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::RandomState,
    sync::{Arc, Mutex, OnceLock, Weak},
};

use mcp_proto::{
    connection::ClientRole,
    protocol::{Era, Method, MethodName},
    rpc::CallId,
    schema::{ElicitationCompleteParams, EmptyResult, LogMessageParams, LoggingLevel, ResourceUpdatedParams},
    wire::RawJson,
};

use super::{
    call_table::CallTable,
    error::{BackendError, BackendFault},
    limits::ProxyLimits,
    questions::{self, OpenPage},
    watches::Watches,
};
use crate::{
    client::Host,
    inbound::context::Context,
    outbound::{peer::Peer, pending::Pending},
    server::{
        catalog::Kind, composition::LogSource, inner::Inner, offers::Offers, register_error::RegisterError,
        service::Service,
    },
    util::{lock::lock, prefix::Prefix, wait_queue::WaitQueue},
};

/// The state of a backend, which its connections, its items and its handles share.
pub(super) struct Shared {
    pub(super) this: Weak<Self>,
    pub(super) name: String,
    pub(super) prefix: Prefix,
    pub(super) limits: ProxyLimits,
    /// The service that offers the items. The handlers of its items have strong references to this state.
    service: Weak<Inner>,
    host: OnceLock<Host>,
    pub(super) calls: Arc<CallTable>,
    pub(super) offers: Mutex<Offers>,
    pub(super) hasher: RandomState,
    pub(super) link: Mutex<Link>,
    /// The waiters for a change of the link or of the subscriptions.
    pub(super) changed: WaitQueue,
    pub(super) work: Mutex<PendingWork>,
    /// The subscriptions of clients, and those at the backend.
    pub(super) watches: Mutex<Watches>,
    /// The waiters for pending work.
    pub(super) wake: WaitQueue,
    /// The pages of URL elicitations, the oldest first.
    pub(super) pages: Mutex<VecDeque<OpenPage>>,
}

/// The connection to the backend.
#[derive(Default)]
pub(super) struct Link {
    pub(super) peer: Option<Peer<ClientRole>>,
    /// The reason why there is no connection, or why its lists could not be read.
    pub(super) error: Option<BackendError>,
    /// Whether the lists of a connection were read, or could not be read.
    pub(super) is_listed: bool,
    /// The items of the latest lists that are not offered.
    pub(super) refused: BTreeMap<Kind, Vec<RegisterError>>,
    pub(super) is_removed: bool,
}

/// The pending work on the connection to the backend.
#[derive(Default)]
pub(super) struct PendingWork {
    /// The lists to read.
    pub(super) lists: BTreeSet<Kind>,
    /// The lists that are being read.
    pub(super) reading: BTreeSet<Kind>,
    /// The most verbose level of log messages that a client has requested.
    level: Option<LoggingLevel>,
    /// The request that sets the level.
    setting_level: Option<Pending<EmptyResult>>,
}

impl Shared {
    pub(super) fn new(name: String, prefix: Prefix, limits: ProxyLimits, service: &Service) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            name,
            prefix,
            limits,
            service: Arc::downgrade(&service.0),
            host: OnceLock::new(),
            calls: Arc::default(),
            offers: Mutex::default(),
            hasher: RandomState::new(),
            link: Mutex::default(),
            changed: WaitQueue::default(),
            work: Mutex::default(),
            watches: Mutex::default(),
            wake: WaitQueue::default(),
            pages: Mutex::default(),
        })
    }

    pub(super) fn host(&self) -> &Host {
        self.host.get_or_init(|| {
            let (name, version) = match self.service() {
                Some(service) => (service.info().name.clone(), service.info().version.clone()),
                None => ("proxy".into(), env!("CARGO_PKG_VERSION").into()),
            };
            questions::host(&self.this, &name, &version)
        })
    }

    pub(super) fn service(&self) -> Option<Service> {
        self.service.upgrade().map(Service)
    }

    pub(super) fn new_id(&self) -> Option<String> {
        self.service.upgrade()?.random().name().ok()
    }

    /// Returns the connection, if there is one.
    pub(super) fn connected(&self) -> Result<Peer<ClientRole>, BackendError> {
        let link = lock(&self.link);
        match &link.peer {
            Some(peer) => Ok(peer.clone()),
            None => Err(link.error.clone().unwrap_or_else(|| self.error(BackendFault::NotConnected(None)))),
        }
    }

    /// Handles a notification of the backend when it arrives, so that messages about a call reach the client before its
    /// result. It does not wait: a message for which a client has no room is dropped.
    pub(super) fn observe(
        &self,
        method: &MethodName<'_>,
        params: Option<&RawJson<'_>>,
        connection: u64,
        related: Option<CallId>,
    ) {
        match (method.known(), params) {
            (Some(Method::ToolsListChanged), _) => self.list(&[Kind::Tool]),
            (Some(Method::PromptsListChanged), _) => self.list(&[Kind::Prompt]),
            (Some(Method::ResourcesListChanged), _) => self.list(&[Kind::Resource, Kind::Template]),
            (Some(Method::ResourceUpdated), Some(params)) => {
                if let Ok(ResourceUpdatedParams { uri, .. }) = params.decode() {
                    self.resource_updated(&uri);
                }
            }
            (Some(Method::LogMessage), Some(params)) => {
                if let Ok(message) = params.decode() {
                    self.log(&message, connection, related);
                }
            }
            (Some(Method::ElicitationComplete), Some(params)) => {
                if let Ok(ElicitationCompleteParams { elicitation_id, .. }) = params.decode() {
                    self.page_completed(&elicitation_id);
                }
            }
            _ => {}
        }
    }

    /// Records that lists have changed.
    pub(super) fn list(&self, kinds: &[Kind]) {
        lock(&self.work).lists.extend(kinds);
        self.wake.notify_all();
    }

    /// Returns whether all lists are read.
    pub(super) fn is_listed(&self) -> bool {
        let work = lock(&self.work);
        work.lists.is_empty() && work.reading.is_empty()
    }

    /// Notifies the clients that are subscribed to a resource.
    pub(super) fn resource_updated(&self, uri: &str) {
        let is_wanted = lock(&self.watches).concerns(uri);
        if let Some(service) = self.service().filter(|_| is_wanted) {
            service.resource_updated(&self.prefix.uri(uri));
        }
    }

    /// Passes a log message to the client of the call on whose stream it has arrived. Otherwise it passes the message
    /// to the client of all calls in flight, or to the only client if there is no call. With several clients the
    /// message is dropped, because it may belong to a call of any of them, also to one that has ended. A message on the
    /// stream of another request is dropped, because the request may be a call that has ended.
    fn log(&self, message: &LogMessageParams, connection: u64, related: Option<CallId>) {
        if let Some(related) = related {
            if let Some(call) = self.calls.get((connection, related)) {
                let _ = call.context().send_log(message);
            }
            return;
        }
        let callers = self.calls.callers(connection);
        if let Some(call) = callers.sole() {
            // It may belong to any call of the client that has requested this level.
            let wants = |context: &Context| context.info().log_level.as_ref().is_some_and(|it| message.level >= *it);
            let contexts = callers.calls.iter().rev().map(|call| call.context());
            let context = contexts.into_iter().find(wants).unwrap_or_else(|| call.context());
            // The message is dropped if the client does not read.
            let _ = context.send_log(message);
        } else if let Some(service) = self.service()
            && service.only_client().is_some_and(|client| callers.have_left(client))
        {
            service.broadcast(message);
        }
    }

    /// Records the level of log messages that a request asks for (2026-07-28).
    pub(super) fn want_log(&self, peer: &Peer<ClientRole>, context: &Context) {
        let is_legacy = peer.version().is_some_and(|version| version.era() == Era::Legacy);
        if let Some(level) = context.info().log_level.as_ref().filter(|_| is_legacy) {
            self.wants_log(level);
        }
    }

    /// Sets the level of log messages at a backend with sessions, if a client has requested one.
    pub(super) fn set_level(&self, peer: &Peer<ClientRole>) {
        let mut work = lock(&self.work);
        let level = work.level;
        // Before the lock of the connection is taken.
        let earlier = work.setting_level.take();
        drop(work);
        drop(earlier);
        let set = level.and_then(|level| peer.set_log_level(level).ok());
        // Another thread may have set the level in between. Dropping its request takes the lock of the connection.
        let other = std::mem::replace(&mut lock(&self.work).setting_level, set);
        drop(other);
    }
}

impl LogSource for Shared {
    fn wants_log(&self, level: &LoggingLevel) {
        {
            let mut work = lock(&self.work);
            if work.level.as_ref().is_some_and(|known| known <= level) {
                return;
            }
            work.level = Some(*level);
        }
        let peer = lock(&self.link).peer.clone();
        let has_sessions = |peer: &Peer<ClientRole>| peer.version().is_some_and(|version| version.era() == Era::Legacy);
        if let Some(peer) = peer.filter(has_sessions) {
            self.set_level(&peer);
        }
    }
}
