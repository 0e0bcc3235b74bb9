//! A client over HTTP, on a runtime.

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, poll_fn},
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use http::{Extensions, Request, Uri, response::Parts};
use mcp_proto::{
    connection::{ClientRole, Connection, Event},
    http::client::{Action, Client, ExchangeId},
    protocol::Phase,
    rpc::Timestamp,
};

use crate::{
    event_loop::{
        binding::Binding,
        run_loop::{BATCH, Dispatcher, TransportIo},
        shared::SharedConnection,
    },
    runtime::Runtime,
    sync::lock,
};

/// A boxed future that may borrow.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An HTTP client library.
pub trait HttpClient: Send + Sync + 'static {
    /// Sends one request unchanged, and passes its response to `response` as it arrives. It follows no redirects and
    /// does not retry. Dropping the future closes the connection of the request.
    ///
    /// The task of the connection may call it, so it must not block. The future runs in a task of its own. A panic of
    /// either ends the request.
    fn make(&self, request: Request<Arc<[u8]>>, response: ResponseHandler) -> BoxFuture<'static, ()>;
}

/// Provides the credentials of a client.
///
/// The time that a request waits for its credentials does not count against its timeouts, nor against those of the
/// handshake and of requests that wait for it. So the provider bounds that time: `OAuth` ends an
/// authorization after ten minutes. If the request is cancelled or the connection ends, the future is dropped.
///
/// On tokio and smol the futures must not block, as those of all tasks. On threads they may.
pub trait AuthProvider: Send + Sync + 'static {
    /// Checks that the credentials are for the server at this address, before a client connects to it. Default: they
    /// are.
    ///
    /// # Errors
    /// If they are not: the client does not connect.
    fn check_server(&self, url: &Uri) -> io::Result<()> {
        let _ = url;
        Ok(())
    }

    /// Adds credentials to the headers of a request before it is sent. Requests are only sent to the origin of the
    /// client's address. The body must stay as it is: `Content-Length` has its length.
    ///
    /// If the server refuses the request, the [`Refusal`] has the extensions that the provider has set. A request that
    /// is sent again after a refusal or a redirect has them as well.
    ///
    /// # Errors
    /// If no credentials are available: the request fails.
    fn authorize<'a>(&'a self, request: &'a mut Request<Arc<[u8]>>) -> BoxFuture<'a, io::Result<()>>;

    /// Handles the head of a response of the server, also of one that is a refusal. `extensions` are those of its
    /// request. It must not block: the other requests of the client wait for it.
    fn handle_response(&self, head: &Parts, extensions: &Extensions) {
        let _ = (head, extensions);
    }

    /// Handles a refusal of the server. Returns whether to send the request again with better credentials.
    fn challenged<'a>(&'a self, refusal: &'a mut Refusal) -> BoxFuture<'a, bool>;

    /// Returns an identifier of the user and permissions that [`authorize`](Self::authorize) adds to requests now, such
    /// as the name of the user with the scopes of the token. Default: `None`, for credentials that are always of the
    /// same user with the same permissions.
    ///
    /// A provider whose user or permissions can change returns another identifier from the change on. The client does
    /// not use private results that it has cached with one identifier while there is another. A new token for the same
    /// user and permissions is not a change.
    ///
    /// It is called for each use of the connection, on the thread that uses it and with locks of the client held. So it
    /// must neither block nor use the client.
    fn principal(&self) -> Option<Arc<str>> {
        None
    }
}

/// The refusal of a request by the server.
///
/// `Debug` does not show the challenges: they may quote the token that was sent.
#[non_exhaustive]
pub struct Refusal {
    /// The status: 401, or 403 if the server requires more permissions.
    pub status: u16,
    /// The values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// The extensions of the request. They are those of the request that is sent again.
    pub extensions: Extensions,
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Receives the response to one request. Dropping it before the end reports that the request was given up.
pub struct ResponseHandler {
    dispatcher: Arc<Dispatcher<ClientRole, HttpClientBinding>>,
    exchange: ExchangeId,
    credentials: Option<RequestCredentials>,
    /// Whether the end of the response was reported, or its failure.
    over: bool,
}

/// The credentials of one request.
#[derive(Clone)]
struct RequestCredentials {
    provider: Arc<dyn AuthProvider>,
    /// The extensions of the request, once the provider has added its credentials.
    extensions: Arc<Mutex<Extensions>>,
}

impl ResponseHandler {
    /// Passes on the head of the response.
    pub fn head(&mut self, head: &Parts) {
        self.note_head(head);
        self.dispatcher.shared.update(|binding, now| binding.client.handle_head(now, self.exchange, head));
    }

    /// Passes on a piece of the body.
    pub fn chunk(&mut self, chunk: &[u8]) {
        self.dispatcher.shared.update(|binding, now| binding.client.handle_body(now, self.exchange, chunk));
    }

    /// Passes on the end of the body.
    pub fn end(mut self) {
        self.report_end(|client, now, exchange| client.handle_end(now, exchange));
    }

    /// Passes on a whole response, under one lock. If its call is the only one in flight, the application receives the
    /// result here, without the event loop.
    #[cfg(feature = "net")]
    pub(super) fn whole(&mut self, head: &Parts, body: &[u8]) {
        self.note_head(head);
        if mem::replace(&mut self.over, true) {
            return;
        }
        let shared = &self.dispatcher.shared;
        let mut state = shared.lock();
        let (now, HttpClientBinding { client, over, .. }) = (shared.now(), &mut state.binding);
        client.handle_head(now, self.exchange, head);
        client.handle_body(now, self.exchange, body);
        client.handle_end(now, self.exchange);
        over.push(self.exchange);
        state.collect();
        let is_response = state.events.len() == 1 && matches!(state.events[0], Event::Response { .. });
        // With more calls in flight, the event loop passes several results on at once.
        let is_last = || state.binding.client.view().usage().calls == 0;
        let is_inline = is_response && is_last() && shared.dispatching.begin(false);
        let event = if is_inline { state.events.pop_front() } else { None };
        shared.wake_interested(state);
        if let Some(event) = event {
            self.dispatcher.dispatch_response(event);
        }
    }

    /// Reports that the request could not be made or that its response broke off, with the reason.
    pub fn fail(mut self, why: impl Into<String>) {
        self.abort(why.into());
    }

    /// Waits for the credentials of the request. The deadlines of its message are paused in this time.
    async fn authenticating<T>(&self, credentials: BoxFuture<'_, T>) -> T {
        let mut credentials = credentials;
        let at_once = poll_fn(|cx| Poll::Ready(credentials.as_mut().poll(cx))).await;
        if let Poll::Ready(credentials) = at_once {
            return credentials;
        }
        self.dispatcher.shared.update(|binding, now| binding.client.handle_authentication_started(now, self.exchange));
        let credentials = credentials.await;
        self.dispatcher.shared.update(|binding, now| binding.client.handle_authentication_ended(now, self.exchange));
        credentials
    }

    fn abort(&mut self, why: String) {
        self.report_end(|client, now, exchange| client.handle_failure(now, exchange, why));
    }

    /// Passes the head to the provider of the credentials.
    fn note_head(&self, head: &Parts) {
        if let Some(RequestCredentials { provider, extensions }) = &self.credentials {
            provider.handle_response(head, &lock(extensions));
        }
    }

    /// Reports the end of the exchange with `report`, unless it was reported before.
    fn report_end(&mut self, report: impl FnOnce(&mut Client, Timestamp, ExchangeId)) {
        if mem::replace(&mut self.over, true) {
            return;
        }
        self.dispatcher.shared.update(|binding, now| {
            report(&mut binding.client, now, self.exchange);
            binding.over.push(self.exchange);
        });
    }
}

impl Drop for ResponseHandler {
    fn drop(&mut self) {
        if !self.over {
            self.abort("the request was given up".into());
        }
    }
}

impl fmt::Debug for ResponseHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseHandler").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

/// When this many exchanges have ended, the event loop runs to free their memory.
const MAX_OVER: usize = 8;

/// A client, and its exchanges that have ended.
pub(crate) struct HttpClientBinding {
    pub(crate) client: Client,
    credentials: Option<Arc<dyn AuthProvider>>,
    /// The principal of the last use of the connection.
    principal: Option<Arc<str>>,
    /// Exchanges that have ended. The event loop takes them in its next iteration, to free their tasks and extensions.
    over: Vec<ExchangeId>,
    /// The extensions of the requests that are about to be sent again.
    again: BTreeMap<ExchangeId, Extensions>,
}

impl HttpClientBinding {
    pub(crate) const fn new(client: Client, credentials: Option<Arc<dyn AuthProvider>>) -> Self {
        Self { client, credentials, principal: None, over: Vec::new(), again: BTreeMap::new() }
    }

    /// Sets the principal of further requests, if it has changed.
    fn update_principal(&mut self, now: Timestamp) {
        let principal = self.credentials.as_ref().and_then(|credentials| credentials.principal());
        if self.principal != principal {
            self.principal.clone_from(&principal);
            self.client.connection(now).act_as(principal);
        }
    }
}

impl Binding<ClientRole> for HttpClientBinding {
    fn connection(&mut self, now: Timestamp) -> &mut Connection<ClientRole> {
        self.update_principal(now);
        self.client.connection(now)
    }

    fn view(&self) -> &Connection<ClientRole> {
        self.client.view()
    }

    fn poll_event(&mut self) -> Option<Event<'static>> {
        self.client.poll_event()
    }

    fn due(&self) -> Option<Timestamp> {
        self.client.poll_timeout().map(|deadline| deadline.at)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.client.handle_timeout(now);
    }

    fn has_output(&self) -> bool {
        // A client that is being closed ends with its last exchange.
        let most = if self.view().phase() < Phase::Draining { MAX_OVER } else { 1 };
        self.client.has_action() || self.over.len() >= most
    }
}

/// Sends the requests of a client, each in a task.
pub(crate) struct RequestRunner<R: Runtime> {
    runtime: R,
    requests: Arc<dyn HttpClient>,
    credentials: Option<Arc<dyn AuthProvider>>,
    /// The tasks of requests. Dropping one cancels its request.
    tasks: BTreeMap<ExchangeId, R::Task>,
    /// The tasks that get new credentials. They are separate, since the task of a refused request may still be running.
    authentications: BTreeMap<ExchangeId, R::Task>,
    /// The extensions of requests, once they have credentials.
    extensions: BTreeMap<ExchangeId, Arc<Mutex<Extensions>>>,
    /// Actions that were taken under one lock, with the extensions of requests that are sent again.
    actions: Vec<(Action, Option<Extensions>)>,
    /// Exchanges that have ended.
    over: Vec<ExchangeId>,
    /// Receives the responses. Set once a request was sent.
    dispatcher: Option<Arc<Dispatcher<ClientRole, HttpClientBinding>>>,
}

impl<R: Runtime> RequestRunner<R> {
    pub(crate) fn new(runtime: R, requests: Arc<dyn HttpClient>, credentials: Option<Arc<dyn AuthProvider>>) -> Self {
        let (tasks, authentications, extensions, actions, over, dispatcher) = Default::default();
        Self { runtime, requests, credentials, tasks, authentications, extensions, actions, over, dispatcher }
    }

    fn request(&mut self, exchange: ExchangeId, request: Request<Arc<[u8]>>, response: ResponseHandler) {
        let task = match response.credentials.clone() {
            None => {
                // A panic drops the receiver of the response, which ends the request.
                let make = AssertUnwindSafe(|| self.requests.make(request, response));
                let Ok(made) = catch_unwind(make) else { return };
                self.runtime.spawn(made)
            }
            Some(credentials) => {
                self.extensions.insert(exchange, credentials.extensions.clone());
                self.runtime.spawn(authorize(self.requests.clone(), credentials, request, response))
            }
        };
        self.tasks.insert(exchange, task);
    }

    fn authenticate(&self, state: AuthState) -> R::Task {
        let credentials = self.credentials.clone();
        self.runtime.spawn(async move {
            let mut state = state;
            state.is_there = match credentials {
                Some(credentials) => credentials.challenged(&mut state.refusal).await,
                None => false,
            };
        })
    }
}

/// Adds credentials to a request and sends it.
async fn authorize(
    requests: Arc<dyn HttpClient>,
    RequestCredentials { provider, extensions }: RequestCredentials,
    mut request: Request<Arc<[u8]>>,
    response: ResponseHandler,
) {
    if let Err(error) = response.authenticating(provider.authorize(&mut request)).await {
        return response.fail(error.to_string());
    }
    lock(&extensions).clone_from(request.extensions());
    // The result of a request with the token of another principal is not cached for the one that made it.
    response.dispatcher.shared.update(|binding, now| binding.update_principal(now));
    requests.make(request, response).await;
}

/// Reports, when it is dropped, whether there are new credentials: the request is then retried, or given up.
struct AuthState {
    shared: Arc<SharedConnection<ClientRole, HttpClientBinding>>,
    exchange: ExchangeId,
    refusal: Refusal,
    is_there: bool,
}

impl Drop for AuthState {
    fn drop(&mut self) {
        let (exchange, is_there) = (self.exchange, self.is_there);
        let extensions = mem::take(&mut self.refusal.extensions);
        self.shared.update(|HttpClientBinding { client, again, .. }, now| {
            if !is_there {
                client.fail_authentication(now, exchange);
            } else if let Some(next) = client.retry(now, exchange) {
                again.insert(next, extensions);
            }
        });
    }
}

impl<R: Runtime> RequestRunner<R> {
    /// Takes actions and exchanges that have ended. Returns whether there are no more actions.
    fn take(&mut self, binding: &mut HttpClientBinding) -> bool {
        while self.actions.len() < BATCH {
            let Some(action) = binding.client.poll_action() else {
                // The requests of these are not needed any more.
                binding.again.clear();
                break;
            };
            let again = match &action {
                Action::Request { exchange, .. } => binding.again.remove(exchange).or_else(|| {
                    let redirected = self.extensions.get(&binding.client.redirected_from(*exchange)?)?;
                    Some(mem::take(&mut *lock(redirected)))
                }),
                _ => None,
            };
            self.actions.push((action, again));
        }
        self.over.append(&mut binding.over);
        self.actions.len() < BATCH
    }

    /// Runs an action. `again` are the extensions of a request that is sent again.
    fn run(
        &mut self,
        dispatcher: &Dispatcher<ClientRole, HttpClientBinding>,
        action: Action,
        again: Option<Extensions>,
    ) {
        match action {
            Action::Request { exchange, mut request } => {
                if let Some(again) = again {
                    *request.extensions_mut() = again;
                }
                let with_extensions = |provider| RequestCredentials { provider, extensions: Arc::default() };
                let credentials = self.credentials.clone().map(with_extensions);
                let dispatcher = self.dispatcher.get_or_insert_with(|| Arc::new(dispatcher.clone())).clone();
                let response = ResponseHandler { dispatcher, exchange, credentials, over: false };
                self.request(exchange, request, response);
            }
            Action::Abort(exchange) => {
                self.extensions.remove(&exchange);
                drop((self.tasks.remove(&exchange), self.authentications.remove(&exchange)));
            }
            Action::Authenticate { exchange, status, challenges } => {
                let extensions = self.extensions.remove(&exchange).map(|it| mem::take(&mut *lock(&it)));
                let refusal = Refusal { status, challenges, extensions: extensions.unwrap_or_default() };
                let shared = dispatcher.shared.clone();
                let state = AuthState { shared, exchange, refusal, is_there: false };
                let task = self.authenticate(state);
                self.authentications.insert(exchange, task);
            }
        }
    }
}

impl<R: Runtime> TransportIo<ClientRole, HttpClientBinding> for RequestRunner<R> {
    const PROCESSES_TIMEOUTS: bool = true;

    fn write(
        &mut self,
        dispatcher: &Dispatcher<ClientRole, HttpClientBinding>,
        now: Timestamp,
        _cx: &mut Context<'_>,
    ) -> bool {
        let shared = &dispatcher.shared;
        shared.waiters.fire_timers(now);
        let (mut moved, mut has_events) = (false, false);
        loop {
            let known = self.over.len();
            let is_last = {
                let mut state = shared.lock();
                shared.handle_timeout(&mut state, now);
                let is_last = self.take(&mut state.binding);
                state.collect();
                has_events |= !state.events.is_empty();
                shared.wake_interested(state);
                is_last
            };
            // Outside of the lock: dropping a task may wake others.
            for exchange in &self.over[known..] {
                self.tasks.remove(exchange);
            }
            moved |= !self.actions.is_empty();
            let mut actions = mem::take(&mut self.actions);
            for (action, again) in actions.drain(..) {
                self.run(dispatcher, action, again);
            }
            self.actions = actions;
            if is_last {
                break;
            }
        }
        // Not earlier: the refusal of a request that has ended may be among the actions.
        for exchange in self.over.drain(..) {
            self.extensions.remove(&exchange);
        }
        has_events && dispatcher.dispatch_waiting() || moved
    }

    fn awaits_input(&mut self, _cx: &mut Context<'_>) -> bool {
        // Tasks read the responses, and wake the event loop.
        true
    }
}

/// Returns random bits that differ between clients and are not secret.
#[must_use]
pub fn seed() -> u64 {
    mcp_service::driver_api::Random::default().seed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An application that keeps the calls whose results it has received.
    #[cfg(feature = "net")]
    #[derive(Default)]
    struct Results(Mutex<Vec<mcp_proto::rpc::CallId>>);

    #[cfg(feature = "net")]
    impl mcp_service::driver_api::Application<ClientRole> for Results {
        fn handle(
            &self,
            _: &Arc<dyn mcp_service::driver_api::ConnectionHandle<ClientRole>>,
            event: Event<'_>,
        ) -> Option<mcp_service::driver_api::Job> {
            if let Event::Response { call, .. } = event {
                lock(&self.0).push(call);
            }
            None
        }
    }

    /// A result is dispatched at once if no other call is in flight and no event waits. No event loop runs here.
    #[cfg(feature = "net")]
    #[test]
    fn only_a_sole_call_bypasses_the_event_loop() {
        use mcp_proto::{connection::RequestOptions, http::client::ClientOptions, protocol::ProtocolVersion};

        let versions = mcp_proto::protocol::VersionSet::only(ProtocolVersion::V2025_11_25);
        let config = mcp_service::Host::builder("x", "1").versions(versions).build().config();
        let mut options = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
        options.listen = false;
        let binding = |now| HttpClientBinding::new(Client::new(config, options, now), None);
        let shared = SharedConnection::new(binding, &crate::options::DriverOptions::default());
        let application = Arc::<Results>::default();
        let dispatcher = Arc::new(Dispatcher::new(shared.clone(), application.clone()));
        let respond = |status: u16, body: &str| {
            let action = shared.update(|binding, _| binding.client.poll_action());
            let Some(Action::Request { exchange, .. }) = action else { panic!("{action:?}") };
            let head = http::Response::builder().status(status).header("content-type", "application/json");
            let head = head.header("mcp-session-id", "s");
            let mut response =
                ResponseHandler { dispatcher: dispatcher.clone(), exchange, credentials: None, over: false };
            response.whole(&head.body(()).expect("a response").into_parts().0, body.as_bytes());
            response.end();
        };
        let call = || {
            let options = RequestOptions::default();
            shared.update(|binding, now| binding.client.connection(now).request_raw(now, "tools/list", None, options))
        };
        let result = |id: u64| respond(200, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]}}}}"#));
        let session =
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
        respond(200, &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{session}}}"#));
        respond(202, "");
        dispatcher.dispatch_waiting();

        let mut calls = vec![call().expect("it is allowed"), call().expect("it is allowed")];
        // The first one is not alone, and the second one does not overtake the result of the first.
        result(2);
        result(3);
        assert!(lock(&application.0).is_empty());
        dispatcher.dispatch_waiting();
        assert_eq!(*lock(&application.0), calls);
        // While another event is being dispatched, the event loop dispatches the result after it.
        assert!(shared.dispatching.begin(true));
        calls.push(call().expect("it is allowed"));
        result(4);
        assert_eq!(lock(&application.0).len(), 2);
        shared.dispatching.end();
        dispatcher.dispatch_waiting();
        for id in 5..10 {
            calls.push(call().expect("it is allowed"));
            result(id);
            assert_eq!(*lock(&application.0), calls);
            // The event loop runs to free the tasks of ended requests, once there are several.
            assert_eq!(shared.lock().binding.has_output(), calls.len() + 2 >= MAX_OVER, "{id}");
        }
        shared.update(|binding, now| {
            binding.over.clear();
            binding.client.connection(now).close(now);
        });
        respond(200, "{}");
        assert!(!shared.lock().binding.client.has_action());
        assert!(shared.lock().binding.has_output(), "the client ends with the session");
    }

    #[test]
    fn deadlines_are_those_of_the_client() {
        let config = mcp_service::Host::builder("x", "1").build().config();
        let options = mcp_proto::http::client::ClientOptions::new("http://server.example/mcp", 1).expect("an address");
        let mut binding = HttpClientBinding::new(Client::new(config, options, Timestamp::ZERO), None);
        let due = binding.due().expect("the first request has a timeout");
        assert_eq!(Some(due), binding.client.poll_timeout().map(|deadline| deadline.at));
        assert!(due > Timestamp::ZERO);
        binding.handle_timeout(due);
        assert_ne!(binding.due(), Some(due));
    }

    #[test]
    fn refusal_hides_challenges() {
        let challenges = vec!["Bearer error_description=\"canary\"".to_owned()];
        let refusal = Refusal { status: 401, challenges, extensions: Extensions::new() };
        assert_eq!(format!("{refusal:?}"), "Refusal { status: 401, .. }");
    }
}
