//! Middleware: code that runs around every response.

use std::{
    fmt,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{self, Poll, Waker},
    time::Duration,
};

use mcp_proto::{
    connection::ServerRole,
    protocol::Method,
    rpc::Timestamp,
    wire::{ErrorObject, JsonObject, RawJson, RequestId},
};
use serde_core::de::DeserializeOwned;

use super::{
    context::Context,
    failure::Failure,
    layered_request::{Answered, Layered, RequestData},
    log,
    request::{params, subject},
    rpc_result::ResponseKind,
    state::Role,
};
use crate::driver_api::deferred::Deferred;

/// A request of the peer before it is handled, for [middleware](crate::ServiceBuilder::layer).
pub struct IncomingRequest<E: Role = ServerRole> {
    request: Arc<dyn Layered<E>>,
    /// The arguments that middleware has set in place of those of the request.
    arguments: Option<Arc<JsonObject>>,
}

impl<E: Role> IncomingRequest<E> {
    /// Returns the method, for example `tools/call`.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.request.data().method
    }

    /// Returns the subject of the request: the name of a tool or a prompt, the URI of a resource, the id of a task. It
    /// may be unknown.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let RequestData { name, known, params, .. } = self.request.data();
        name.get_or_init(|| subject((*known)?, params.as_ref()?)).as_deref()
    }

    /// Returns the id that the peer has assigned to the request.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.request.data().id.as_ref()
    }

    /// Returns the params as the peer has sent them, if there are any. They are not checked: the request may be one
    /// that is about to be refused.
    #[must_use]
    pub fn params(&self) -> Option<&RawJson<'_>> {
        self.request.data().params.as_ref()
    }

    /// Returns the arguments of a `tools/call` or a `prompts/get`, if it has any: those of the peer, or those that an
    /// outer middleware [has set](Next::with_arguments). They are not checked yet.
    #[must_use]
    pub fn arguments(&self) -> Option<RawJson<'_>> {
        if let Some(arguments) = &self.arguments {
            return Some(RawJson::from(&**arguments));
        }
        let RequestData { known, params, .. } = self.request.data();
        params.as_ref().filter(|_| has_arguments(*known))?.member("arguments")
    }

    /// Decodes the [arguments](Self::arguments). Absent arguments are decoded like `{}`.
    ///
    /// # Errors
    /// If they do not fit `T`: as a failure, -32602.
    pub fn decode_arguments<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        params(self.arguments().as_ref()).map_err(Failure::rpc)
    }

    /// Returns the context that its handler gets.
    #[must_use]
    pub fn context(&self) -> &Context<E> {
        &self.request.data().context
    }
}

impl<E: Role> IncomingRequest<E> {
    /// Returns whether the request has a handler of the application: a tool, a prompt or a resource that the peer may
    /// use, for example. Lists have none, and requests that are about to be refused, such as calls of unknown tools and
    /// of tools that the peer [cannot see](crate::ServiceBuilder::visible).
    ///
    /// Middleware that responds itself checks it, so that the peer gets no result of an item that it may not use.
    #[must_use]
    pub fn has_handler(&self) -> bool {
        self.request.data().has_handler
    }
}

impl<E: Role> Clone for IncomingRequest<E> {
    fn clone(&self) -> Self {
        Self { request: self.request.clone(), arguments: self.arguments.clone() }
    }
}

impl<E: Role> fmt::Debug for IncomingRequest<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingRequest")
            .field("id", &self.id())
            .field("method", &self.method())
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// The rest of the chain after a [middleware](crate::ServiceBuilder::layer): further middleware, and the handler. If it
/// is dropped without being run, the handler does not run.
#[must_use = "nothing happens before it is run"]
pub struct Next<E: Role = ServerRole> {
    handler: Handler<E>,
    /// The number of layers that have run.
    behind: usize,
    arguments: Option<Arc<JsonObject>>,
}

impl<E: Role> Next<E> {
    /// Creates the whole chain of a request.
    pub(super) const fn new(request: Arc<dyn Layered<E>>) -> Self {
        Self { handler: Handler(request), behind: 0, arguments: None }
    }

    /// Runs the rest of the chain, and returns the outcome. A panic in it is an error outcome.
    pub async fn run(self) -> Completed {
        self.begin().await
    }

    /// Replaces the arguments of a `tools/call` or a `prompts/get` for the rest of the chain. They are checked against
    /// the schema of the tool as arguments of the peer are. A request of another method gets an internal error when it
    /// is run.
    ///
    /// Name and URI of a request cannot be replaced: whether the peer may use the item was decided by them. For the
    /// repetition of a request with the required input (2026-07-28) middleware should set the same arguments again,
    /// since the handler runs again from its start.
    pub fn with_arguments(mut self, arguments: JsonObject) -> Self {
        self.arguments = Some(Arc::new(arguments));
        self
    }

    /// Responds with a result, without running the rest of the chain. The rules are those of
    /// [`Completed::with_result`].
    pub fn respond(self, result: JsonObject) -> Completed {
        let Handler(request) = &self.handler;
        let completed = Completed {
            source: request.clone(),
            method: request.data().known,
            kind: ResponseKind::Result,
            elapsed: Duration::ZERO,
            answer: Answer::Handler(OnceLock::new()),
        };
        completed.with_result(result)
    }

    /// Begins to run. Most chains have ended then, and no future is made.
    pub(crate) fn begin(self) -> Deferred<Completed> {
        let request = self.handler.0.clone();
        let data = request.data();
        if self.arguments.is_some() && !has_arguments(data.known) {
            log::failed("middleware has set arguments of a request that has none");
            return Deferred::ready(Completed::failed(&request, ErrorObject::internal("Internal error"), None));
        }
        let Some(layer) = data.layers.get(self.behind) else { return self.handler.begin(self.arguments) };
        let began = now(&data.context);
        let incoming = IncomingRequest { request: request.clone(), arguments: self.arguments.clone() };
        let next = Self { behind: self.behind + 1, ..self };
        let mut running = match catch_unwind(AssertUnwindSafe(|| layer(incoming, next))) {
            Ok(running) => running,
            Err(_) => Deferred::ready(Err(panicked())),
        };
        let mut poll = move |cx: &mut task::Context<'_>| {
            let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut running).poll(cx)));
            polled.unwrap_or_else(|_| Poll::Ready(Err(panicked()))).map(|outcome| {
                outcome.unwrap_or_else(|failure| {
                    let error = request.data().context.explain(failure);
                    Completed::failed(&request, error, Some(began))
                })
            })
        };
        match poll(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(completed) => Deferred::ready(completed),
            Poll::Pending => Deferred::new(poll_fn(poll)),
        }
    }
}

/// Logs a panic, and returns the failure of its request.
fn panicked() -> Failure {
    log::panicked();
    Failure::rpc(ErrorObject::internal("Internal error"))
}

impl<E: Role> fmt::Debug for Next<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("method", &self.handler.0.data().method).finish_non_exhaustive()
    }
}

/// The handler at the end of the chain. Dropping it drops the handler.
struct Handler<E: Role>(Arc<dyn Layered<E>>);

impl<E: Role> Handler<E> {
    fn begin(self, arguments: Option<Arc<JsonObject>>) -> Deferred<Completed> {
        let data = self.0.data();
        if let Some(arguments) = arguments {
            // A request has one handler, which runs once.
            let _ = data.context.in_flight.arguments.set(arguments);
        }
        let began = now(&data.context);
        let poll = move |cx: &mut task::Context<'_>| {
            let Self(request) = &self;
            request.poll(cx).map(|kind| Completed {
                source: request.clone(),
                method: request.data().known,
                kind,
                elapsed: elapsed(&request.data().context, began),
                answer: Answer::Handler(OnceLock::new()),
            })
        };
        match poll(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(completed) => Deferred::ready(completed),
            Poll::Pending => Deferred::new(poll_fn(poll)),
        }
    }
}

impl<E: Role> Drop for Handler<E> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The outcome of a request. Only [`Next`] returns one.
pub struct Completed {
    /// The request that it belongs to.
    pub(super) source: Arc<dyn Answered>,
    method: Option<Method>,
    pub(super) kind: ResponseKind,
    elapsed: Duration,
    pub(super) answer: Answer,
}

pub(super) enum Answer {
    /// The outcome of the handler; its result, once middleware has asked for it.
    Handler(OnceLock<Option<JsonObject>>),
    /// The error of middleware, which is in the kind.
    Error,
    /// The result that middleware has set.
    Replaced(JsonObject),
}

impl Completed {
    fn failed<E: Role>(request: &Arc<dyn Layered<E>>, error: ErrorObject, began: Option<Timestamp>) -> Self {
        let data = request.data();
        Self {
            source: request.clone(),
            method: data.known,
            kind: ResponseKind::Error(error),
            elapsed: began.map_or(Duration::ZERO, |began| elapsed(&data.context, began)),
            answer: Answer::Error,
        }
    }

    /// Returns the kind of the response.
    #[must_use]
    pub const fn kind(&self) -> &ResponseKind {
        &self.kind
    }

    /// Returns the error of the response, if it is one.
    #[must_use]
    pub const fn error(&self) -> Option<&ErrorObject> {
        match &self.kind {
            ResponseKind::Error(error) => Some(error),
            _ => None,
        }
    }

    /// Returns how long it took, by the clock of the connection: the handler, or the middleware that has replaced its
    /// outcome.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the result, in the form of the request's revision and without the members that the connection adds to
    /// every result (2026-07-28). `None` if the outcome is an error or requires input.
    ///
    /// The first call encodes the result, and that text is sent. Without a call nothing is encoded early.
    #[must_use]
    pub fn result(&self) -> Option<&JsonObject> {
        match &self.answer {
            Answer::Handler(encoded) if matches!(self.kind, ResponseKind::Result | ResponseKind::Failed) => {
                encoded.get_or_init(|| self.source.encode()).as_ref()
            }
            Answer::Replaced(result) => Some(result),
            _ => None,
        }
    }

    /// Returns the outcome with another result, also in place of an error. A tool with `isError` has failed.
    ///
    /// The result is sent as it is: it has to be one of the method and of the request's revision, and is not checked
    /// against the output schema of a tool. A result with a `resultType` other than `complete` becomes an internal
    /// error, which is logged. An outcome that requires input (2026-07-28) has no result yet and stays as it is: the
    /// client sends the request again. Of a request that becomes a task, it is the result of the task.
    #[must_use]
    pub fn with_result(mut self, result: JsonObject) -> Self {
        if self.kind == ResponseKind::InputRequired {
            return self;
        }
        let raw = RawJson::from(&result);
        let is_complete =
            raw.member("resultType").is_none_or(|kind| kind.into_text().is_some_and(|kind| kind == "complete"));
        if !is_complete {
            log::failed("middleware has set a result that is not complete");
            self.kind = ResponseKind::Error(ErrorObject::internal("Internal error"));
            self.answer = Answer::Error;
            return self;
        }
        let has_failed = || raw.member("isError").is_some_and(|is| is.decode().unwrap_or(false));
        let is_failure = self.method == Some(Method::CallTool) && has_failed();
        self.kind = if is_failure { ResponseKind::Failed } else { ResponseKind::Result };
        self.answer = Answer::Replaced(result);
        self
    }
}

impl fmt::Debug for Completed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completed").field("kind", &self.kind).field("elapsed", &self.elapsed).finish_non_exhaustive()
    }
}

/// A middleware of a type of its own, for [`with_layer`](crate::ServiceBuilder::with_layer). A closure is registered
/// with [`layer`](crate::ServiceBuilder::layer) instead; the rules are the same.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no middleware for the role `{E}`",
    note = "a closure is added with `layer`, and `with_layer` takes a type that implements `Middleware`"
)]
pub trait Middleware<E: Role = ServerRole>: Send + Sync + 'static {
    /// Handles a request: runs `next`, responds itself, or refuses the request with an error.
    fn handle(&self, request: IncomingRequest<E>, next: Next<E>) -> Deferred<Result<Completed, Failure>>;
}

impl<E: Role, M: Middleware<E>> Middleware<E> for Arc<M> {
    fn handle(&self, request: IncomingRequest<E>, next: Next<E>) -> Deferred<Result<Completed, Failure>> {
        (**self).handle(request, next)
    }
}

/// A registered middleware.
pub(crate) type Layer<E> =
    Arc<dyn Fn(IncomingRequest<E>, Next<E>) -> Deferred<Result<Completed, Failure>> + Send + Sync>;

/// All middleware, the outermost first.
pub(crate) type Layers<E> = Arc<Vec<Layer<E>>>;

pub(crate) fn layer<E: Role, T>(f: impl Fn(IncomingRequest<E>, Next<E>) -> T + Send + Sync + 'static) -> Layer<E>
where
    T: Future<Output = Result<Completed, Failure>> + Send + 'static,
{
    Arc::new(move |incoming, next| Deferred::new(f(incoming, next)))
}

pub(crate) fn layer_of<E: Role>(middleware: impl Middleware<E>) -> Layer<E> {
    Arc::new(move |incoming, next| middleware.handle(incoming, next))
}

/// Returns whether requests of this method have arguments.
const fn has_arguments(method: Option<Method>) -> bool {
    matches!(method, Some(Method::CallTool | Method::GetPrompt))
}

fn now<E: Role>(context: &Context<E>) -> Timestamp {
    context.connection.update(|_, now| now)
}

fn elapsed<E: Role>(context: &Context<E>, since: Timestamp) -> Duration {
    now(context).saturating_since(since)
}
