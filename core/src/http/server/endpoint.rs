//! The endpoint: it receives all requests, and refuses them or routes them to a session.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::fmt;

use http::request::Parts;

use super::{
    Caller, Request, RequestReader, Session,
    clients::{Client, Clients, Holder},
    head::transport,
    known_clients::KnownClients,
    options::EndpointOptions,
    target::{BodyKind, Target},
    tenants::{Activity, SessionCapacity, Tenants},
};
use crate::{
    connection::{Principal, ResultHead, ServerConfig, SessionSnapshot},
    http::{
        HttpResponse, SessionId,
        fields::Fields,
        response::{busy, no_session},
    },
    rpc::Timestamp,
};

/// The entry point of an HTTP server. It receives requests and keeps the table of sessions.
///
/// `T` is the driver's handle of a [`Session`], such as an `Arc` of a lock around it: sessions are independent of each
/// other and of the endpoint, and a failure of one does not affect the others. Each call of the endpoint returns at
/// once.
pub struct Endpoint<T> {
    options: Arc<EndpointOptions>,
    config: Arc<ServerConfig>,
    sessions: BTreeMap<SessionId, Entry<T>>,
    tenants: Tenants,
    /// Sessions that were closed for new ones, until the driver polls them.
    evicted: Vec<T>,
    /// Whether other processes may have sessions.
    shared: bool,
    /// A counter: each request of the modern era holds a clone.
    alone: Arc<()>,
    clients: Clients,
    known_clients: KnownClients,
    /// The beginning of the results of requests of the modern era, which their connections share.
    head: Option<ResultHead>,
}

struct Entry<T> {
    handle: T,
    /// The client to which requests of the session are charged. If that is a principal, it has begun the session, and
    /// no other may use it; if it is not, no principal may.
    client: Arc<Client>,
    /// Whether the session uses the old transport, whose messages are sent to another path.
    old: bool,
    activity: Arc<Activity>,
}

impl<T: Clone> Endpoint<T> {
    /// Creates the endpoint of a server.
    #[must_use]
    pub fn new(config: impl Into<Arc<ServerConfig>>, options: EndpointOptions) -> Self {
        let mut config = config.into();
        if config.settings.keepalive.is_some() {
            // A client that is gone is detected by writing to its streams. A ping would need a stream, which a client
            // need not open.
            Arc::make_mut(&mut config).settings.keepalive = None;
        }
        Self {
            head: ResultHead::new(&config.info).ok(),
            options: Arc::new(options),
            config,
            sessions: BTreeMap::new(),
            tenants: Tenants::default(),
            evicted: Vec::new(),
            shared: false,
            alone: Arc::default(),
            clients: Clients::new(),
            known_clients: KnownClients::default(),
        }
    }

    /// Declares that other processes may have sessions that are not in this table. A request for an unknown session is
    /// then not refused before the driver has looked it up, and [adopted](Self::adopt) it.
    pub fn share(&mut self) {
        self.shared = true;
    }

    /// Returns the handle of a session, if this principal may use it.
    pub fn find(&self, id: &SessionId, principal: Option<&Principal>) -> Option<T> {
        self.sessions.get(id).filter(|entry| !entry.old && entry.admits(principal)).map(|entry| entry.handle.clone())
    }

    /// Resumes a session that this principal has begun in another process. `part` is a number other than 0 that no
    /// other process has in this session, nor this one before; 0 is the process that began it. Returns the handle, and
    /// whether it is new: the session may have been adopted in between.
    ///
    /// # Errors
    /// Returns the response if there are too many sessions, if the server does not serve the revision of this one, or
    /// if the session is here and another principal has begun it.
    pub fn adopt(
        &mut self,
        now: Timestamp,
        (id, part): (&SessionId, u32),
        principal: Option<&Arc<Principal>>,
        snapshot: &SessionSnapshot,
        make: impl FnOnce(Session) -> T,
    ) -> Result<(T, bool), Box<HttpResponse>> {
        if self.sessions.contains_key(id) {
            let handle = self.find(id, principal.map(|it| &**it));
            return handle.map(|handle| (handle, false)).ok_or_else(|| Box::new(no_session()));
        }
        let client = self.clients.of_principal(principal).of_session();
        self.make_room(&client)?;
        let activity = Activity::new();
        let (config, options) = (&self.config, &self.options);
        let session = Session::resumed(now, (config, options), (id.clone(), part), snapshot, (&activity, &client));
        let handle = make(session.ok_or_else(|| Box::new(no_session()))?);
        self.enter(id, Entry { handle: handle.clone(), client, old: false, activity });
        Ok((handle, true))
    }

    /// Returns a session that was closed for a new one, and is not found any more. After [`route`](Self::route) and
    /// [`adopt`](Self::adopt), call it until it returns `None`, and [`evict`](Session::evict) each session.
    pub fn poll_evicted(&mut self) -> Option<T> {
        self.evicted.pop()
    }

    /// Makes room for another session of this client.
    fn make_room(&mut self, client: &Client) -> Result<(), Box<HttpResponse>> {
        let room = self.tenants.room(client.holder(), self.sessions.len(), &self.options.limits);
        if room == SessionCapacity::Free {
            return Ok(());
        }
        let Self { sessions, tenants, clients, .. } = self;
        let evictable = tenants.evictable(
            &room,
            |of, among| clients.has_idle(of, among),
            |id| sessions.get(id).map(|entry| &entry.activity),
            || sessions.iter().map(|(id, entry)| (id, &entry.activity)),
        );
        let too_many = || Box::new(busy("There are too many sessions"));
        let handle = evictable.and_then(|id| self.remove(&id)).ok_or_else(too_many)?;
        self.evicted.push(handle);
        Ok(())
    }

    fn enter(&mut self, id: &SessionId, entry: Entry<T>) {
        let Self { sessions, tenants, .. } = self;
        tenants.enter(entry.client.holder(), id, |id| sessions.get(id).map(|entry| &entry.activity));
        self.sessions.insert(id.clone(), entry);
    }

    /// Checks the host, the origin, the path and the size of the head of a request, as [`begin`](Self::begin) does. A
    /// driver calls it before an authentication of the sender that takes effort.
    ///
    /// # Errors
    /// Returns the response if the request is refused.
    pub fn check(&self, head: &Parts) -> Result<(), Box<HttpResponse>> {
        transport(&self.options, &self.config, head, &Fields::of(&head.headers)).map(drop)
    }

    /// Checks the head of a request and its sender, before the body is read. The endpoint keeps only the sender, as
    /// long as it holds resources.
    ///
    /// # Errors
    /// Returns the response if the request is refused. Its body need not be read.
    pub fn begin(&mut self, head: &Parts, caller: Caller) -> Result<RequestReader, Box<HttpResponse>> {
        let client = self.clients.of(&caller);
        let mut reader = RequestReader::begin(&self.options, &self.config, head, caller, client, |id, principal| {
            self.sessions.get(id).map(|entry| entry.admits(principal)).or((!self.shared).then_some(false))
        })?;
        if reader.stands_alone() {
            self.has_room_for_request()?;
            reader.expect_client(self.known_clients.of(reader.client()));
        }
        Ok(reader)
    }

    /// Routes a complete request to its session, or begins a session. `make` creates the handle of a new session, and
    /// `random` must be bits that cannot be predicted. Pass the request to [`Session::open`] next.
    ///
    /// A session of the modern era belongs to one request, and only its handle refers to it. A session of the legacy
    /// era is in the table until it is [removed](Self::remove). A request that ends a session removes it.
    ///
    /// # Errors
    /// Returns the response if there is no such session, or if there are too many sessions, requests or bytes in
    /// flight.
    pub fn route(
        &mut self,
        now: Timestamp,
        request: &Request,
        random: [u8; 24],
        make: impl FnOnce(Session) -> T,
    ) -> Result<T, Box<HttpResponse>> {
        let client = self.client_of(request);
        let has_requests = matches!(request.kind, BodyKind::Request | BodyKind::Batch);
        if has_requests && !client.has_room_for_request(request.weight, self.options.limits.request_bytes) {
            return Err(Box::new(busy("Too much is in flight")));
        }
        let (id, old) = match &request.target {
            Target::Modern(_) => {
                self.has_room_for_request()?;
                self.known_clients.note(request);
                return Ok(make(Session::modern(
                    now,
                    &self.config,
                    &self.options,
                    (self.alone.clone(), self.head.as_ref()),
                    &client,
                )));
            }
            Target::Initialize => (SessionId::new(random), false),
            Target::OldStream => (SessionId::new(random), true),
            Target::Message(id) | Target::Listen(id, _) => return self.known(id, request, false),
            Target::OldMessage(id) => return self.known(id, request, true),
            Target::End(id) => {
                let handle = self.known(id, request, false)?;
                // From now on, no request is routed to it.
                self.remove(id);
                return Ok(handle);
            }
        };
        if self.sessions.contains_key(&id) {
            // The bits were not random. A client must not get the session of another one.
            return Err(Box::new(busy("A new session cannot be created")));
        }
        self.make_room(&client)?;
        let (client, activity) = (client.of_session(), Activity::new());
        let session = if old { Session::old } else { Session::streamable };
        let handle = make(session(now, &self.config, &self.options, id.clone(), (&activity, &client)));
        self.enter(&id, Entry { handle: handle.clone(), client, old, activity });
        Ok(handle)
    }

    /// Removes a session that is over, and returns its handle.
    pub fn remove(&mut self, id: &SessionId) -> Option<T> {
        let Entry { handle, client, .. } = self.sessions.remove(id)?;
        self.tenants.remove_session(client.holder(), id);
        if self.sessions.is_empty() {
            // The rest refers to sessions that are over.
            self.tenants = Tenants::default();
        }
        Some(handle)
    }

    /// Removes a session as [`remove`](Self::remove) does, if `is_it` is true for its handle: another one may have
    /// taken its place.
    pub fn remove_if(&mut self, id: &SessionId, is_it: impl FnOnce(&T) -> bool) -> Option<T> {
        if self.sessions.get(id).is_some_and(|entry| is_it(&entry.handle)) { self.remove(id) } else { None }
    }

    /// Returns the handles of all sessions, in the order of their ids.
    pub fn sessions(&self) -> impl Iterator<Item = &T> {
        self.sessions.values().map(|entry| &entry.handle)
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns whether there are no sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns the number of requests of the modern era: their sessions that have not been dropped.
    #[must_use]
    pub fn requests(&self) -> usize {
        Arc::strong_count(&self.alone) - 1
    }

    fn has_room_for_request(&self) -> Result<(), Box<HttpResponse>> {
        if self.requests() < self.options.limits.requests {
            return Ok(());
        }
        Err(Box::new(busy("There are too many requests")))
    }

    /// Returns the client that a request is charged to: the owner of its session, or its sender if it has no session.
    /// An owner that is identified only by its session is replaced by the sender.
    fn client_of(&mut self, request: &Request) -> Arc<Client> {
        let principal = request.principal().map(|it| &**it);
        let found = request.target.session().and_then(|id| Some((id, self.sessions.get_mut(id)?)));
        let Some((id, entry)) = found.filter(|(_, entry)| entry.admits(principal)) else {
            return request.client.clone();
        };
        if !entry.client.is_reassigned_to(&request.client) {
            return entry.client.clone();
        }
        entry.client = request.client.clone();
        let Self { sessions, tenants, .. } = self;
        if let Some(holder) = request.client.holder() {
            tenants.assign(holder, id, |id| sessions.get(id).map(|entry| &entry.activity));
        }
        request.client.clone()
    }

    fn known(&self, id: &SessionId, request: &Request, old: bool) -> Result<T, Box<HttpResponse>> {
        let principal = request.principal().map(|it| &**it);
        let entry = self.sessions.get(id);
        if entry.is_none() && self.shared && request.is_known_here {
            // The session gave way here after the head arrived, and continues in another process.
            return Err(Box::new(busy("The session is not here any more")));
        }
        let entry = entry.filter(|entry| entry.old == old && entry.admits(principal));
        entry.map(|entry| entry.handle.clone()).ok_or_else(|| Box::new(no_session()))
    }
}

impl<T> Entry<T> {
    /// Returns whether this principal began the session, or none did and this is `None`.
    fn admits(&self, principal: Option<&Principal>) -> bool {
        let own = match self.client.holder() {
            Some(Holder::Principal(id)) => Some(&**id),
            Some(Holder::Address(_)) | None => None,
        };
        principal.map(|it| &*it.id) == own
    }
}

impl<T> fmt::Debug for Endpoint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("options", &self.options)
            .field("sessions", &self.sessions.len())
            .field("requests", &(Arc::strong_count(&self.alone) - 1))
            .finish_non_exhaustive()
    }
}
