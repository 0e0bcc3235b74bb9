//! Backends, and the code that runs their connections.

use std::{
    fmt,
    future::Future,
    ops::Deref,
    sync::{Arc, Weak},
};

use mcp_proto::{connection::ClientRole, protocol::Era};

use super::{
    calls::has_responded,
    error::{BackendError, BackendFault},
    limits::ProxyLimits,
    listing::KINDS,
    shared::Shared,
};
use crate::{
    client::Host,
    driver_api::deferred::{Deferred, select_biased},
    outbound::peer::Peer,
    server::{composition::LogSource, register_error::RegisterError, service::Service},
    util::{
        lock::{lock, write},
        prefix::Prefix,
    },
};

/// A server whose items a [`Service`] offers. See the [module](super).
///
/// Clones are handles of the same backend. It stays until it is [removed](Self::remove).
#[derive(Clone)]
pub struct Backend(Arc<Shared>);

/// The configuration of a [`Backend`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `join`"]
pub struct BackendBuilder {
    name: String,
    prefix: Option<String>,
    limits: ProxyLimits,
}

impl BackendBuilder {
    /// Sets the prefix: names become `prefix__name`, URIs `prefix+uri`. An empty prefix changes nothing. Default: the
    /// name of the backend, with `-` in place of characters that a prefix cannot have.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: ProxyLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Creates the backend in a service. The service offers its items once it is [run](Backend::run).
    ///
    /// # Errors
    /// If the prefix is [invalid](RegisterError::Prefix), or the name or the prefix is [in use](RegisterError::Taken).
    pub fn join(self, service: &Service) -> Result<Backend, RegisterError> {
        let text = self.prefix.unwrap_or_else(|| Backend::prefix_of(&self.name));
        let prefix = Prefix::parse(&text).ok_or(RegisterError::Prefix(text))?;
        service.0.composition.claim_server(&self.name, &prefix)?;
        let shared = Shared::new(self.name, prefix, self.limits, service);
        let source: Weak<dyn LogSource> = shared.this.clone();
        service.0.composition.add_server(source);
        shared.offer_unlisted();
        Ok(Backend(shared))
    }
}

impl Backend {
    /// Creates the configuration of a backend. The name is part of errors, and no other backend of the service has it.
    pub fn builder(name: impl Into<String>) -> BackendBuilder {
        BackendBuilder { name: name.into(), prefix: None, limits: ProxyLimits::default() }
    }

    /// Returns the prefix of a name: the name with `-` in place of characters that a prefix cannot have, cut to 64
    /// bytes.
    #[must_use]
    pub fn prefix_of(name: &str) -> String {
        let fits = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' };
        let mut prefix: String = name.chars().map(fits).collect();
        if !prefix.starts_with(|first: char| first.is_ascii_alphabetic()) {
            prefix.insert_str(0, "s-");
        }
        prefix.truncate(64);
        while prefix.contains("__") {
            prefix = prefix.replace("__", "_");
        }
        prefix.trim_end_matches('_').to_owned()
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the host to connect with: only connections of this host are those of the backend.
    #[must_use]
    pub fn host(&self) -> &Host {
        self.0.host()
    }

    /// Runs the backend: connects, offers the items of the server, follows their changes, and connects again when the
    /// connection has ended. Ends with the error of a connection attempt, or with `Ok` when the backend was removed.
    ///
    /// `connect` returns a client that was connected with the [host](Self::host). It decides about the number of
    /// attempts and the delays between them, as a supervisor of a driver does. An attempt is dropped when the backend
    /// is removed. Between two connections requests fail with a [`BackendError`], and the items stay in the lists. On
    /// each new connection the lists are read again, and the clients are notified of them.
    ///
    /// A task awaits it, or a thread [blocks](crate::block_on) on it. A backend has one connection at a time: run it
    /// once.
    ///
    /// # Cancel safety
    /// Dropping the future ends the use of the connection, also if the connection stays open: new calls fail, and those
    /// that wait for the next request of their client are cancelled. Other calls in flight continue as long as the
    /// connection.
    ///
    /// # Errors
    /// The error of `connect`.
    pub async fn run<C, E, F>(&self, connect: impl Fn() -> F) -> Result<(), E>
    where
        C: Deref<Target = Peer<ClientRole>>,
        E: fmt::Display,
        F: Future<Output = Result<C, E>>,
    {
        let shared = &self.0;
        while !lock(&shared.link).is_removed {
            let removed = shared.wake.wait_for(|| lock(&shared.link).is_removed.then_some(()));
            let client = match select_biased(removed, connect()).await {
                Ok(()) => return Ok(()),
                Err(Ok(client)) => client,
                Err(Err(error)) => {
                    shared.disconnected(BackendFault::NotConnected(Some(error.to_string())));
                    return Err(error);
                }
            };
            let peer: Peer<ClientRole> = (*client).clone();
            let guard = Connected::begin(shared, peer.clone());
            // A large future, which is moved several times on the way to the stack of a thread.
            let ended = select_biased(Box::pin(shared.work(&peer)), peer.closed()).await;
            if let Err(reason) = ended {
                guard.end(BackendFault::NotConnected(Some(reason.to_string())));
            }
        }
        Ok(())
    }

    /// Waits until the items of the server are offered, or the first attempt to do so has failed.
    ///
    /// The future fails with the error of the connection, or of a list that could not be read. A list to whose request
    /// the server has responded with an error, or not in time, is read again after a pause that grows up to
    /// [`list_time`](ProxyLimits::list_time). A list whose method the server does not have is empty.
    pub fn ready(&self) -> Deferred<Result<(), BackendError>> {
        let shared = self.0.clone();
        Deferred::new(async move {
            let outcome = || {
                let link = lock(&shared.link);
                let error = link.error.clone();
                (link.is_listed || error.is_some()).then(|| error.map_or(Ok(()), Err))
            };
            shared.changed.wait_for(outcome).await
        })
    }

    /// Returns the reason why the server is not connected, or why one of its lists could not be read.
    #[must_use]
    pub fn error(&self) -> Option<BackendError> {
        let link = lock(&self.0.link);
        let unconnected = link.peer.is_none().then(|| self.0.error(BackendFault::NotConnected(None)));
        link.error.clone().or(unconnected)
    }

    /// Returns the reasons why items of the latest lists are not offered: their names are taken, for example.
    #[must_use]
    pub fn refused(&self) -> Vec<RegisterError> {
        lock(&self.0.link).refused.values().flatten().cloned().collect()
    }

    /// Returns the number of requests of clients in flight at the server.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.0.calls.len()
    }

    /// Removes the backend: its items are not offered any more, and [`run`](Self::run) ends. Calls in flight continue
    /// as long as the connection, except those that wait for the next request of their client, which are cancelled.
    pub fn remove(&self) {
        let shared = &self.0;
        let Some(service) = shared.service() else { return };
        if std::mem::replace(&mut lock(&shared.link).is_removed, true) {
            return;
        }
        let offered = lock(&shared.offers).clear(&service);
        let own = Arc::as_ptr(shared).addr();
        write(&service.0.catalog).remove_unlisted(|template| template.is_of(own));
        service.list_changed(&offered.changed);
        service.0.composition.follow_unlisted();
        service.0.composition.release_server(&shared.name, &shared.prefix);
        shared.wake.notify_all();
        shared.changed.notify_all();
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("name", &self.0.name).field("calls", &self.calls()).finish_non_exhaustive()
    }
}

/// A guard of the connection of a backend. Dropping it ends the use of the connection.
struct Connected<'a> {
    shared: &'a Arc<Shared>,
    is_over: bool,
}

impl<'a> Connected<'a> {
    fn begin(shared: &'a Arc<Shared>, peer: Peer<ClientRole>) -> Self {
        {
            let mut work = lock(&shared.work);
            work.lists.extend(KINDS);
            work.reading.clear();
        }
        lock(&shared.watches).disconnected();
        let mut link = lock(&shared.link);
        (link.peer, link.error) = (Some(peer), None);
        drop(link);
        Self { shared, is_over: false }
    }

    fn end(mut self, fault: BackendFault) {
        self.is_over = true;
        self.shared.disconnected(fault);
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.disconnected(BackendFault::NotConnected(None));
        }
    }
}

impl Shared {
    fn disconnected(&self, fault: BackendFault) {
        let mut link = lock(&self.link);
        let peer = link.peer.take();
        link.error = Some(self.error(fault));
        drop(link);
        if let Some(peer) = peer {
            // Their timer ends with the use of the connection, which may still be open.
            self.calls.abandon(peer.calls().number());
        }
        self.calls.expire();
        self.changed.notify_all();
    }

    /// Performs the pending work on a connection, until the backend is removed. Lists, subscriptions and calls do not
    /// wait for each other.
    async fn work(self: &Arc<Self>, peer: &Peer<ClientRole>) {
        let is_modern = peer.version().is_some_and(|version| version.era() == Era::Modern);
        if !is_modern {
            self.set_level(peer);
        }
        let removed = self.wake.wait_for(|| lock(&self.link).is_removed.then_some(()));
        let lists = Box::pin(self.keep_lists(peer, is_modern));
        let subscriptions = select_biased(Box::pin(self.keep_subscriptions(peer, is_modern)), lists);
        let calls = select_biased(self.expire_calls(peer), self.confirm_ends(peer));
        let _ = select_biased(removed, select_biased(subscriptions, calls)).await;
    }

    /// Sends a ping after the cancellations of calls without a response. Its response shows that the backend has read
    /// them, and servers respond to pings at any time.
    async fn confirm_ends(&self, peer: &Peer<ClientRole>) {
        let (number, peer) = (peer.calls().number(), peer.within(self.limits.late_time));
        loop {
            self.calls.unconfirmed(number).await;
            let sent = peer.connection().when_request_slot(|| peer.ping()).await;
            let Ok(pending) = sent else { continue };
            if has_responded(&pending.await) {
                let until = peer.connection().update(|_, now| now) + self.limits.grace_period;
                self.calls.confirmed(number, until);
            }
        }
    }

    /// Ends the calls whose clients have not sent their next request in time.
    async fn expire_calls(&self, peer: &Peer<ClientRole>) {
        let number = peer.calls().number();
        loop {
            self.calls.expire();
            let next = self.calls.next_expiry(number);
            let changed = self.wake.wait_for(|| (self.calls.next_expiry(number) != next).then_some(()));
            match next {
                Some(until) => _ = select_biased(changed, peer.connection().sleep_until(until)).await,
                None => changed.await,
            }
        }
    }
}
