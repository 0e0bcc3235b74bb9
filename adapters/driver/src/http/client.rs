//! A client over HTTP, on a runtime.

use std::{collections::BTreeMap, fmt, future::Future, io, pin::Pin, sync::Arc, task::Context};

use http::{Request, response::Parts};
use mcp_proto::{
    connection::{ClientRole, Connection, Event},
    http::client::{Action, Client, ExchangeId},
    rpc::Timestamp,
};

use crate::{
    event_loop::{
        binding::Binding,
        run_loop::{Dispatcher, TransportIo},
        shared::SharedConnection,
    },
    runtime::Runtime,
};

/// A boxed future that may borrow.
type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An HTTP client library.
pub trait HttpClient: Send + Sync + 'static {
    /// Sends one request unchanged, and passes its response to `response` as it arrives. It follows no redirects and
    /// does not retry. Dropping the future closes the connection of the request.
    fn make(&self, request: Request<Arc<[u8]>>, response: ResponseHandler) -> Soon<'static, ()>;
}

/// Provides the credentials of a client.
pub trait AuthProvider: Send + Sync + 'static {
    /// Adds credentials to the headers of a request before it is sent. Requests are only sent to the origin of the
    /// client's address.
    ///
    /// # Errors
    /// If no credentials are available: the request fails.
    fn authorize<'a>(&'a self, request: &'a mut Request<Arc<[u8]>>) -> Soon<'a, io::Result<()>>;

    /// Handles a refusal of the server: 401, or 403 if it requires more permissions. `challenges` are the values of
    /// `WWW-Authenticate`. Returns whether to send the request again with better credentials.
    fn challenged<'a>(&'a self, status: u16, challenges: &'a [String]) -> Soon<'a, bool>;
}

/// Receives the response to one request. Dropping it before the end reports that the request was given up.
pub struct ResponseHandler {
    shared: Arc<SharedConnection<ClientRole, HttpClientBinding>>,
    exchange: ExchangeId,
    over: bool,
}

impl ResponseHandler {
    /// Passes on the head of the response.
    pub fn head(&mut self, head: &Parts) {
        self.shared.update(|binding, now| binding.client.handle_head(now, self.exchange, head));
    }

    /// Passes on a piece of the body.
    pub fn chunk(&mut self, chunk: &[u8]) {
        self.shared.update(|binding, now| binding.client.handle_body(now, self.exchange, chunk));
    }

    /// Passes on the end of the body.
    pub fn end(mut self) {
        self.over = true;
        self.shared.update(|binding, now| binding.client.handle_end(now, self.exchange));
    }

    /// Reports that the request could not be made or that its response broke off, with the reason.
    pub fn fail(mut self, why: impl Into<String>) {
        self.give_up(why.into());
    }

    fn give_up(&mut self, why: String) {
        self.over = true;
        self.shared.update(|binding, now| binding.client.handle_failure(now, self.exchange, why));
    }
}

impl Drop for ResponseHandler {
    fn drop(&mut self) {
        if !self.over {
            self.give_up("the request was given up".into());
        }
        self.shared.update(|binding, _| binding.over.push(self.exchange));
    }
}

impl fmt::Debug for ResponseHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseHandler").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

/// A client, and its exchanges that have ended.
pub(crate) struct HttpClientBinding {
    pub(crate) client: Client,
    over: Vec<ExchangeId>,
}

impl HttpClientBinding {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client, over: Vec::new() }
    }
}

impl Binding<ClientRole> for HttpClientBinding {
    fn connection(&mut self, now: Timestamp) -> &mut Connection<ClientRole> {
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
        self.client.has_action() || !self.over.is_empty()
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
    proofs: BTreeMap<ExchangeId, R::Task>,
}

impl<R: Runtime> RequestRunner<R> {
    pub(crate) fn new(runtime: R, requests: Arc<dyn HttpClient>, credentials: Option<Arc<dyn AuthProvider>>) -> Self {
        Self { runtime, requests, credentials, tasks: BTreeMap::new(), proofs: BTreeMap::new() }
    }

    fn request(&self, request: Request<Arc<[u8]>>, response: ResponseHandler) -> R::Task {
        let (requests, credentials) = (self.requests.clone(), self.credentials.clone());
        self.runtime.spawn(async move {
            let mut request = request;
            if let Some(credentials) = credentials
                && let Err(error) = credentials.authorize(&mut request).await
            {
                return response.fail(error.to_string());
            }
            requests.make(request, response).await;
        })
    }

    fn prove(&self, proof: AuthState, status: u16, challenges: Vec<String>) -> R::Task {
        let credentials = self.credentials.clone();
        self.runtime.spawn(async move {
            let mut proof = proof;
            proof.is_there = match credentials {
                Some(credentials) => credentials.challenged(status, &challenges).await,
                None => false,
            };
        })
    }
}

/// Reports, when it is dropped, whether there are new credentials: the request is then retried, or given up.
struct AuthState {
    shared: Arc<SharedConnection<ClientRole, HttpClientBinding>>,
    exchange: ExchangeId,
    is_there: bool,
}

impl Drop for AuthState {
    fn drop(&mut self) {
        let (exchange, is_there) = (self.exchange, self.is_there);
        self.shared.update(
            |HttpClientBinding { client, .. }, now| {
                if is_there { client.retry(now, exchange) } else { client.give_up(now, exchange) }
            },
        );
    }
}

impl<R: Runtime> TransportIo<ClientRole, HttpClientBinding> for RequestRunner<R> {
    fn write(&mut self, dispatcher: &Dispatcher<ClientRole, HttpClientBinding>, _cx: &mut Context<'_>) -> bool {
        let shared = &dispatcher.shared;
        let mut moved = false;
        loop {
            let (action, over) =
                shared.update(|binding, _| (binding.client.poll_action(), std::mem::take(&mut binding.over)));
            for exchange in over {
                self.tasks.remove(&exchange);
            }
            let Some(action) = action else { return moved };
            moved = true;
            match action {
                Action::Request { exchange, request } => {
                    let response = ResponseHandler { shared: shared.clone(), exchange, over: false };
                    let task = self.request(request, response);
                    self.tasks.insert(exchange, task);
                }
                Action::Abort(exchange) => drop((self.tasks.remove(&exchange), self.proofs.remove(&exchange))),
                Action::Prove { exchange, status, challenges } => {
                    let proof = AuthState { shared: shared.clone(), exchange, is_there: false };
                    let task = self.prove(proof, status, challenges);
                    self.proofs.insert(exchange, task);
                }
            }
        }
    }
}

/// Returns random bits that differ between clients and are not secret.
#[must_use]
pub fn seed() -> u64 {
    mcp_service::driver_api::Random::default().seed()
}
