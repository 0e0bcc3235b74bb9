//! A service behind an HTTP endpoint.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    io,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use http::request::Parts;
use mcp_proto::{
    connection::{Event, ServerRole},
    http::{
        HttpResponse, Policy, SessionId,
        server::{Caller, Endpoint, EndpointOptions, Request, RequestReader, Session},
    },
    rpc::Timestamp,
};

#[cfg(feature = "auth")]
use crate::http::resource_server::ResourceServer;
use crate::http::{
    client_shares::{ClientUsage, Shares, holder},
    peer_addr::PeerAddr,
    protection::Protection,
    refusals::{busy, not_stored, unavailable},
    replication::{ReplicationIo, SessionReplication},
    response_stream::ResponseStream,
    session::{HttpSession, SharedSession},
    store::{self, Store},
};
use crate::{
    event_loop::{
        binding::Binding,
        run_loop::{Dispatcher, EventLoop},
        shared::SharedConnection,
    },
    options::DriverOptions,
    runtime::{Runtime, timeout},
    sync::lock,
    watched::Watched,
};
use mcp_service::driver_api::Holder;
use mcp_service::{
    Deferred, Service,
    driver_api::{Application, ConnectionHandle, Instant, Random, SystemTime},
};

/// The most scopes in a challenge to several requests, and the most bytes of them.
const MAX_CHALLENGED: usize = 128;
const MAX_CHALLENGE: usize = 4 << 10;

/// How long a closed server waits for the messages that are not in the store yet. Clients that have lost their
/// connection resume their streams from there.
const WRITING_GRACE: Duration = Duration::from_secs(5);

/// A service behind an HTTP endpoint, and its sessions. It is cheap to clone. When the last clone is dropped, it begins
/// to [close](Self::begin_close).
///
/// For each request, an adapter calls [`begin`](Self::begin) with its head, [`feed`](RequestReader::feed) with its
/// body, [`end`](RequestReader::end), and [`open`](Self::open). Each of these may refuse the request with a response.
/// The rest of the request need not be read then.
pub struct HttpServer<R: Runtime>(Arc<Inner<R>>);

/// The shared state of the clones. Dropping it closes all sessions.
struct Inner<R: Runtime> {
    sessions: Arc<Sessions>,
    service: Service,
    options: DriverOptions,
    random: Random,
    runtime: R,
    replication: Option<Arc<SessionReplication>>,
    /// The quotas that all clients share.
    shares: Arc<Shares>,
    policy: Policy,
    protection: Protection,
}

/// The endpoint and the running sessions.
struct Sessions {
    endpoint: Mutex<Endpoint<Arc<SharedSession>>>,
    table: Watched<SessionTable>,
    /// Set before the running sessions are closed. Requests read it without the lock of the table.
    is_closing: AtomicBool,
    epoch: Instant,
}

/// The running sessions, and the pending requests without a session.
#[derive(Default)]
struct SessionTable {
    next: u64,
    all: BTreeMap<u64, Weak<SharedSession>>,
}

impl<R: Runtime> HttpServer<R> {
    /// Creates the server of a service. `options` apply to each session. With `shared`, the sessions are shared with
    /// other processes.
    #[must_use]
    pub fn new(
        service: &Service,
        endpoint: EndpointOptions,
        options: &DriverOptions,
        runtime: R,
        shared: Option<Store>,
    ) -> Self {
        let replication = shared.map(|shared| {
            let (replication, writing) = SessionReplication::new(shared, &endpoint.limits);
            // The task ends after `SessionReplication` was dropped and all queued messages were written.
            R::detach(runtime.spawn(writing));
            Arc::new(replication)
        });
        let (shares, policy) = (Shares::new(options), endpoint.policy.clone());
        let mut endpoint = Endpoint::new(service.config(), endpoint);
        if replication.is_some() {
            endpoint.share();
        }
        let (endpoint, is_closing) = (Mutex::new(endpoint), AtomicBool::new(false));
        let sessions = Sessions { endpoint, table: Watched::default(), is_closing, epoch: Instant::now() };
        Self(Arc::new(Inner {
            sessions: Arc::new(sessions),
            service: service.clone(),
            options: options.clone(),
            random: Random::default(),
            runtime,
            replication,
            shares,
            policy,
            protection: Protection::default(),
        }))
    }

    /// Returns the host names and origins from which it may be reached.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Sets what authorizes requests. An adapter calls it for the principal of each request.
    #[cfg(feature = "auth")]
    pub(super) fn protect(&self, server: ResourceServer) {
        self.0.protection.set(server);
    }

    /// Returns the time of the sessions.
    #[cfg(feature = "auth")]
    pub(super) fn now(&self) -> Timestamp {
        self.0.sessions.now()
    }

    /// Returns a time by the clock of the sessions, for [`Principal::expires`]. A time in the past is the current one.
    ///
    /// [`Principal::expires`]: mcp_proto::connection::Principal::expires
    #[must_use]
    pub fn timestamp(&self, at: SystemTime) -> Timestamp {
        self.0.sessions.now() + at.duration_since(SystemTime::now()).unwrap_or_default()
    }

    /// Returns what authorizes requests.
    #[cfg(feature = "auth")]
    pub(super) fn resource_server(&self) -> Option<&ResourceServer> {
        self.0.protection.get()
    }

    /// Checks the host, the origin, the path and the size of the head of a request, as [`begin`](Self::begin) does. An
    /// adapter calls it before an authentication of the sender that takes effort.
    ///
    /// # Errors
    /// The answer, if it is refused.
    pub fn check(&self, head: &Parts) -> Result<(), Box<HttpResponse>> {
        lock(&self.0.sessions.endpoint).check(head)
    }

    /// Begins a request with its head and its sender.
    ///
    /// # Errors
    /// The response, if the request is refused.
    pub fn begin(&self, head: &Parts, caller: Caller) -> Result<RequestReader, Box<HttpResponse>> {
        let sessions = &self.0.sessions;
        if sessions.is_closing.load(Ordering::Relaxed) {
            return Err(unavailable());
        }
        lock(&sessions.endpoint).begin(head, caller)
    }

    /// Resumes the session of a request from the store, if it is not in this process. It is called before the body is
    /// read. A client without a principal is identified by its address, as in [`handle`](Self::handle).
    ///
    /// # Errors
    /// The response, if there is no such session or the store fails.
    pub async fn admit(&self, reader: &RequestReader, peer: Option<PeerAddr>) -> Result<(), Box<HttpResponse>> {
        let (Some(replication), Some(id)) = (&self.0.replication, reader.session()) else { return Ok(()) };
        // Boxed for the same reason as in `handle`.
        Box::pin(self.0.admit(replication, id, (reader, peer))).await
    }

    /// Routes a request to its session, calls `routed`, and waits for the head of the response. Clients without
    /// principals are identified by their addresses. Changes of a shared session are written to the store.
    ///
    /// # Errors
    /// The response, if the request is refused.
    pub async fn handle(
        &self,
        request: &mut Request,
        peer: Option<PeerAddr>,
        routed: impl FnOnce(),
    ) -> Result<(http::response::Parts, ResponseStream), Box<HttpResponse>> {
        let mut response = self.route(request, peer, self.0.replication.is_none())?;
        routed();
        // The session has taken the message from the body.
        request.drop_body();
        let head = response.head().await;
        if let Some(replication) = &self.0.replication {
            // Boxed, since its state is large: without a store, nothing of that size is moved for a request.
            let stored = Box::pin(async {
                match request.ends() {
                    Some(id) => replication.store.sessions.end(id.as_str()).await,
                    None => replication.store_changes(&response.session, request.principal().map(|it| &**it)).await,
                }
            });
            if let Err(error) = stored.await {
                self.0.discard_session(&response.session);
                return Err(not_stored(&error));
            }
        }
        Ok((head, response))
    }

    /// Routes a request to its session.
    ///
    /// # Errors
    /// The response, if the request is refused.
    pub fn open(&self, mut request: Request, peer: Option<PeerAddr>) -> Result<ResponseStream, Box<HttpResponse>> {
        let response = self.route(&mut request, peer, false)?;
        // The response may be polled much later.
        response.session.wake_interested(response.session.lock());
        Ok(response)
    }

    /// Routes a request to its session. The caller polls the response next, and the event loop learns new deadlines
    /// then.
    fn route(
        &self,
        request: &mut Request,
        peer: Option<PeerAddr>,
        at_once: bool,
    ) -> Result<ResponseStream, Box<HttpResponse>> {
        let inner = &*self.0;
        let holder = holder(request.principal(), peer);
        // Responses and notifications, such as cancellations, are accepted in any case.
        if request.id().is_some() && !inner.shares.unread.has_room(&holder, 1) {
            return Err(busy());
        }
        let (sessions, now) = (&inner.sessions, inner.sessions.now());
        let random = if request.begins() { inner.random.bytes().map_err(|_| unavailable())? } else { [0; 24] };
        let mut is_new = false;
        let (session, take_evicted) = {
            let mut endpoint = lock(&sessions.endpoint);
            let session = endpoint.route(now, request, random, |session| {
                is_new = true;
                inner.new_session(session, &holder)
            });
            (session, take_evicted(&mut endpoint))
        };
        evict(take_evicted);
        let session = session?;
        let response = if is_new {
            inner.begin(session, now, request, at_once)
        } else {
            inner.open_request(session, now, request, at_once)
        };
        Ok(response?.counted(inner.shares.unread.clone(), holder))
    }

    /// Begins to end all sessions, and does not wait. New requests are refused; requests in flight may still get
    /// responses for a bounded time.
    pub fn begin_close(&self) {
        self.0.sessions.close();
    }

    /// Waits until the server was closed and all sessions have ended, and then, for a bounded time, until the messages
    /// of shared sessions are in the store. After the close, all of that takes a bounded time however clients behave.
    pub fn wait(&self) -> Deferred<()> {
        let (sessions, replication) = (self.0.sessions.clone(), self.0.replication.clone());
        let runtime = self.0.runtime.clone();
        Deferred::new(async move {
            let is_closed = |table: &SessionTable| sessions.is_closing.load(Ordering::Relaxed) && table.all.is_empty();
            sessions.table.wait_for(|table| is_closed(table).then_some(())).await;
            if let Some(replication) = replication {
                timeout(&runtime, WRITING_GRACE, replication.written()).await;
            }
        })
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        lock(&self.0.sessions.endpoint).len()
    }
}

impl<R: Runtime> Inner<R> {
    fn new_session(&self, mut session: Session, holder: &Holder) -> Arc<SharedSession> {
        self.replication.iter().for_each(|replication| replication.store_messages(&mut session, holder));
        let held = ClientUsage::new(self.shares.clone(), holder.clone());
        let binding = HttpSession::new(session, held, self.protection.clone());
        SharedConnection::since(self.sessions.epoch, binding, &self.options)
    }

    /// Ends a new session that could not be written to the store. Its client gets no response that contains its id.
    fn discard_session(&self, session: &Arc<SharedSession>) {
        let state = session.lock();
        let begun = state.binding.stored.is_none();
        let Some(id) = state.binding.session.id().filter(|_| begun).cloned() else { return };
        drop(state);
        let forgotten = lock(&self.sessions.endpoint).remove_if(&id, |it| Arc::ptr_eq(it, session));
        forgotten.inspect(|session| session.update(|binding, now| binding.session.close(now)));
    }

    /// Updates a session from the store, or resumes it here if it runs only in other processes.
    async fn admit(
        &self,
        replication: &SessionReplication,
        id: &SessionId,
        (reader, peer): (&RequestReader, Option<PeerAddr>),
    ) -> Result<(), Box<HttpResponse>> {
        let (sessions, principal) = (&*self.sessions, reader.principal());
        let found = replication.store.sessions.find(id.as_str(), replication.ttl).await.map_err(|_| unavailable())?;
        let Some(record) = found else {
            // If the session is in this process, another process has ended it.
            let ended = lock(&sessions.endpoint).remove(id);
            ended.inspect(|session| session.update(|binding, now| binding.session.close(now)));
            return Err(reader.lost());
        };
        let known = store::read(&record).filter(|(whose, _)| *whose == principal.map(|it| &*it.id));
        let Some((_, snapshot)) = known else { return Err(reader.lost()) };
        let here = lock(&sessions.endpoint).find(id, principal.map(|it| &**it));
        if let Some(session) = here {
            let goes_on = session.update(|binding, now| {
                binding.apply_snapshot(now, &snapshot);
                !binding.session.is_closed()
            });
            if goes_on {
                return Ok(());
            }
            // It has ended only in this process, because it was idle here. It is resumed like a session of another
            // process.
            lock(&sessions.endpoint).remove_if(id, |it| Arc::ptr_eq(it, &session));
        }
        let part = replication.store.sessions.enter(id.as_str()).await.map_err(|error| match error.kind() {
            // It has ended since it was found.
            io::ErrorKind::NotFound => reader.lost(),
            _ => unavailable(),
        })?;
        let holder = holder(principal, peer);
        let make = |session| self.new_session(session, &holder);
        let (adopted, take_evicted) = {
            let mut endpoint = lock(&sessions.endpoint);
            let adopted = endpoint.adopt(sessions.now(), (id, part), principal, &snapshot, make);
            (adopted, take_evicted(&mut endpoint))
        };
        evict(take_evicted);
        let (session, is_new) = adopted?;
        if is_new {
            session.update(|binding, _| binding.stored = binding.session.mutable_state());
            self.run(self.dispatcher(&session), &session);
        }
        Ok(())
    }

    /// Begins the application of a session.
    fn dispatcher(&self, session: &Arc<SharedSession>) -> Dispatcher<ServerRole, HttpSession> {
        let application: Arc<dyn Application<ServerRole>> = Arc::new(self.service.session());
        session.lock().binding.application = Some(Arc::downgrade(&application));
        application.begin(&(session.clone() as Arc<dyn ConnectionHandle<ServerRole>>));
        Dispatcher::new(session.clone(), application)
    }

    /// Starts a session with its first request, or a request without a session. One of the latter
    /// needs no event loop if it is over when its job was polled once.
    fn begin(
        &self,
        session: Arc<SharedSession>,
        now: Timestamp,
        request: &mut Request,
        at_once: bool,
    ) -> Result<ResponseStream, Box<HttpResponse>> {
        let dispatcher = self.dispatcher(&session);
        let mut state = session.lock();
        let opened = state.binding.session.open(now, request);
        let opened = opened.map(|(exchange, event)| (exchange, state.binding.slot(exchange, at_once), event));
        let is_alone = state.binding.session.id().is_none();
        let is_request = matches!(&opened, Ok((.., Some(Event::Request { .. }))));
        let runs_inline = is_alone && is_request && session.dispatching.begin(true);
        drop(state);
        let opened = opened.map(|(exchange, slot, event)| {
            match event {
                Some(event) if runs_inline => dispatcher.dispatch_inline(&self.runtime, event),
                Some(event) => dispatcher.dispatch(event),
                None => {}
            }
            (exchange, slot)
        });
        if !is_alone || !dispatcher.end_if_over() {
            self.run(dispatcher, &session);
        }
        let (exchange, slot) = opened?;
        Ok(ResponseStream::new(session, exchange, (slot, at_once)))
    }

    /// Opens a request in a running session. If no other event is queued, and nothing but other requests is being
    /// dispatched, the calling task dispatches it inline, without switching to the event loop.
    fn open_request(
        &self,
        session: Arc<SharedSession>,
        now: Timestamp,
        request: &mut Request,
        at_once: bool,
    ) -> Result<ResponseStream, Box<HttpResponse>> {
        self.check_scopes(&session, request)?;
        let mut state = session.lock();
        state.binding.check_resumption(request)?;
        let (exchange, event) = match state.binding.session.open(now, request) {
            Ok(opened) => opened,
            Err(refused) => {
                session.wake_interested(state);
                return Err(refused);
            }
        };
        let slot = (state.binding.slot(exchange, at_once), at_once);
        let application = state.binding.application.as_ref().and_then(Weak::upgrade);
        let is_request = matches!(event, Some(Event::Request { .. }));
        match (event, application) {
            (Some(event), Some(application)) if state.events.is_empty() && session.dispatching.begin(is_request) => {
                drop(state);
                let response = ResponseStream::new(session.clone(), exchange, slot);
                Dispatcher::new(session, application).dispatch_inline(&self.runtime, event);
                Ok(response)
            }
            (event, _) => {
                state.events.extend(event.map(Event::into_owned));
                session.wake_interested(state);
                Ok(ResponseStream::new(session, exchange, slot))
            }
        }
    }

    /// Refuses requests that lack scopes and could not be refused with a status later. Nothing of them was done then,
    /// so the client can get the scopes and send all of them again.
    fn check_scopes(&self, session: &Arc<SharedSession>, request: &Request) -> Result<(), Box<HttpResponse>> {
        let mut requests = request.requests_without_status().peekable();
        if requests.peek().is_none() {
            return Ok(());
        }
        let application = session.lock().binding.application.as_ref().and_then(Weak::upgrade);
        let Some(application) = application else { return Ok(()) };
        let connection: Arc<dyn ConnectionHandle<ServerRole>> = session.clone();
        let sender = request.principal().map(|principal| &**principal);
        let required = application.required_scopes(&connection, sender, &mut requests);
        let has = |scope: &String| sender.is_some_and(|sender| sender.has_scope(scope));
        let Some(refused) = required.iter().find(|scopes| !scopes.iter().all(has)) else { return Ok(()) };
        // All of them, so that a token with the challenged scopes is enough for each request. Where they are too many
        // for a challenge, the client gets those of the first refused request.
        let all: BTreeSet<&String> = required.iter().flatten().collect();
        let fits = all.len() <= MAX_CHALLENGED && all.iter().map(|scope| scope.len()).sum::<usize>() <= MAX_CHALLENGE;
        let needed = if fits { all.into_iter().cloned().collect() } else { refused.clone() };
        Err(Box::new(self.protection.lacks_scopes(&needed).response(request.id())))
    }

    /// Runs a session. It gets a task only if it is pending after its first poll.
    fn run(&self, dispatcher: Dispatcher<ServerRole, HttpSession>, session: &Arc<SharedSession>) {
        let event_loop = EventLoop::of(dispatcher, self.runtime.clone());
        let id = session.lock().binding.session.id().cloned();
        let replication_io = ReplicationIo::new(self.replication.as_ref(), id.as_ref(), session.now());
        let known = id.map(|id| (id, Arc::downgrade(session)));
        let guard = SessionGuard { sessions: self.sessions.clone(), known, number: None };
        let mut run_session = Box::pin(run_session(event_loop, replication_io));
        if run_session.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            let guard = guard.register(session);
            let run_session = async move {
                run_session.await;
                drop(guard);
            };
            R::detach(self.runtime.spawn(run_session));
        }
    }
}

/// Takes the sessions that were evicted in favour of new ones. The caller ends them outside of the lock.
fn take_evicted(endpoint: &mut Endpoint<Arc<SharedSession>>) -> Vec<Arc<SharedSession>> {
    std::iter::from_fn(|| endpoint.poll_evicted()).collect()
}

fn evict(sessions: Vec<Arc<SharedSession>>) {
    for session in sessions {
        session.update(|binding, now| binding.session.evict(now));
    }
}

/// Runs a session to its end.
///
/// The future exists once per session. It is an `async` block, since an `async fn` would store its parameters twice.
#[expect(clippy::manual_async_fn, reason = "its parameters would be kept twice")]
fn run_session<R: Runtime>(
    mut event_loop: EventLoop<ServerRole, HttpSession, R>,
    mut replication_io: ReplicationIo,
) -> impl Future<Output = ()> + Send + 'static {
    async move {
        event_loop.run_until_closed(&mut replication_io).await;
        let is_drained = |event_loop: &EventLoop<ServerRole, HttpSession, R>| {
            let now = event_loop.dispatcher.shared.now();
            event_loop.dispatcher.shared.lock().binding.connection(now).is_drained()
        };
        // The limits of the core bound this wait. The tasks of the connections write the remaining output.
        if !is_drained(&event_loop) {
            event_loop.run_until(&mut replication_io, None, |event_loop, _, _| is_drained(event_loop)).await;
        }
        event_loop.end_jobs(&mut replication_io).await;
    }
}

impl Sessions {
    fn now(&self) -> Timestamp {
        Timestamp::after_zero(self.epoch.elapsed())
    }

    fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        let all: Vec<_> = self.table.update(|table| table.all.values().filter_map(Weak::upgrade).collect());
        for session in all {
            session.update(|binding, now| binding.session.close(now));
        }
    }
}

/// The registration of a session. Dropping it removes the session from the endpoint and from the table of running
/// sessions.
struct SessionGuard {
    sessions: Arc<Sessions>,
    /// The id of the session in the endpoint, and the session.
    known: Option<(SessionId, Weak<SharedSession>)>,
    number: Option<u64>,
}

impl SessionGuard {
    fn register(mut self, session: &Arc<SharedSession>) -> Self {
        let closing = self.sessions.table.update(|table| {
            table.next += 1;
            table.all.insert(table.next, Arc::downgrade(session));
            self.number = Some(table.next);
            self.sessions.is_closing.load(Ordering::Relaxed)
        });
        if closing {
            // The server was closed in the meantime, so this session is closed like the others.
            session.update(|binding, now| binding.session.close(now));
        }
        self
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let forgotten = self.known.as_ref().and_then(|(id, session)| {
            lock(&self.sessions.endpoint).remove_if(id, |it| std::ptr::eq(Arc::as_ptr(it), session.as_ptr()))
        });
        drop(forgotten);
        if let Some(number) = self.number {
            self.sessions.table.update(|table| table.all.remove(&number));
        }
    }
}

impl<R: Runtime> Drop for Inner<R> {
    fn drop(&mut self) {
        self.sessions.close();
    }
}

impl<R: Runtime> Clone for HttpServer<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Runtime> fmt::Debug for HttpServer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sessions, running) = (self.sessions(), self.0.sessions.table.read(|table| table.all.len()));
        f.debug_struct("HttpServer").field("sessions", &sessions).field("running", &running).finish_non_exhaustive()
    }
}
