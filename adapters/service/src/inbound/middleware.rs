//! Middleware: code that runs around every response.

use std::{
    any::Any,
    convert::identity,
    fmt,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use mcp_proto::{
    connection::ServerRole,
    protocol::Method,
    wire::{ErrorObject, JsonObject, RawJson, RequestId},
};
use serde_core::de::DeserializeOwned;

use super::{
    context::{Context, RequestContext},
    custom_methods::Dispatch,
    failure::Failure,
    in_flight::RequestOrigin,
    layered_call::{AnyAnswer, AnyCall, Chain, LayeredCall, RequestIdentity, SharedRequest, take_answer},
    log,
    received::Received,
    replaceable::{Replaceable, Replaced},
    request::params,
    rpc_result::{ResponseKind, RpcResult},
    state::Role,
};
use crate::driver_api::deferred::{Deferred, FutureSlot};

/// A request of the peer before it is handled, for [middleware](crate::ServiceBuilder::layer).
///
/// Everything is read when it is asked for. Middleware that asks for nothing costs nearly nothing.
pub struct IncomingRequest<E: Role = ServerRole> {
    request: SharedRequest<E>,
    /// The arguments that middleware has set in place of those of the request.
    arguments: Option<Arc<JsonObject>>,
}

impl<E: Role> IncomingRequest<E> {
    fn received(&self) -> Option<&Received> {
        self.context().in_flight.received.get().map(|received| &**received)
    }

    /// Returns the method, for example `tools/call`.
    #[must_use]
    pub fn method(&self) -> &str {
        self.received().map_or("", Received::method)
    }

    /// Returns the subject of the request: the name of a tool or a prompt, the URI of a resource, the id of a task. It
    /// may be unknown.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.received()?.name()
    }

    /// Returns the id that the peer has assigned to the request. `None` if the request has ended and this was not
    /// called before.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        let Context { connection, in_flight, .. } = self.context();
        self.received()?.id(|| match in_flight.origin {
            RequestOrigin::Request(key) => connection.read(|conn| conn.request_id(key).cloned()),
            RequestOrigin::Task(_) => None,
        })
    }

    /// Returns the params as the peer has sent them, if there are any. They are not checked: the request may be one
    /// that is about to be refused.
    #[must_use]
    pub fn params(&self) -> Option<RawJson<'_>> {
        self.received()?.params()
    }

    /// Returns the arguments of a `tools/call` or a `prompts/get`, if it has any: those of the peer, or those that an
    /// outer middleware [has set](Next::with_arguments). They are not checked yet.
    #[must_use]
    pub fn arguments(&self) -> Option<RawJson<'_>> {
        if let Some(arguments) = &self.arguments {
            return Some(RawJson::from(&**arguments));
        }
        self.received().filter(|received| has_arguments(received.known()))?.arguments()
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
        self.request.context()
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
        self.received().is_some_and(Received::has_handler)
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
pub struct Next<E: Role = ServerRole>(Box<dyn AnyCall<E>>);

impl<E: Role> Next<E> {
    /// Runs the rest of the chain, and returns the outcome. A panic in it is an error outcome.
    ///
    /// The chain begins at once. Most chains have ended when this returns; the rest runs while the outcome is awaited.
    /// Dropping it before it is ready drops the handler.
    pub fn run(self) -> Deferred<Completed> {
        self.0.proceed()
    }

    /// Replaces the arguments of a `tools/call` or a `prompts/get` for the rest of the chain. They are checked against
    /// the schema of the tool as arguments of the peer are. A request of another method gets an internal error when it
    /// is run.
    ///
    /// Name and URI of a request cannot be replaced: whether the peer may use the item was decided by them. For the
    /// repetition of a request with the required input (2026-07-28) middleware should set the same arguments again,
    /// since the handler runs again from its start.
    pub fn with_arguments(mut self, arguments: JsonObject) -> Self {
        self.0.chain_mut().arguments = Some(Arc::new(arguments));
        self
    }

    /// Responds with a result, without running the rest of the chain. The rules are those of
    /// [`Completed::with_result`].
    pub fn respond(self, result: JsonObject) -> Completed {
        let request = RequestIdentity::of(self.0.chain().request.context());
        Completed(Outcome::Layer(Box::new(LayerOutcome::with_result(request, result))))
    }
}

/// Logs a panic, and returns the failure of its request.
fn panicked() -> Failure {
    log::panicked();
    Failure::rpc(ErrorObject::internal("Internal error"))
}

impl<E: Role> fmt::Debug for Next<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = RequestIdentity::of(self.0.chain().request.context()).method;
        f.debug_struct("Next").field("method", &method).finish_non_exhaustive()
    }
}

/// The outcome of a request. Only [`Next`] returns one.
pub struct Completed(Outcome);

/// The call with the response of the handler, or the response that middleware has set.
pub(super) type CallOutcome<C> = Result<Box<C>, Box<RpcResult<Replaced>>>;

enum Outcome {
    /// The response of the handler.
    Handler(Box<dyn AnyAnswer>),
    /// The error or the result of a middleware.
    Layer(Box<LayerOutcome>),
}

/// The outcome that a middleware has set.
struct LayerOutcome {
    request: RequestIdentity,
    kind: ResponseKind,
    /// The result, unless the kind is an error.
    result: Option<JsonObject>,
}

impl LayerOutcome {
    fn with_result(request: RequestIdentity, result: JsonObject) -> Self {
        let raw = RawJson::from(&result);
        let is_complete =
            raw.member("resultType").is_none_or(|kind| kind.into_text().is_some_and(|kind| kind == "complete"));
        if !is_complete {
            log::failed("middleware has set a result that is not complete");
            let kind = ResponseKind::Error(ErrorObject::internal("Internal error"));
            return Self { request, kind, result: None };
        }
        let has_failed = || raw.member("isError").is_some_and(|is| is.decode().unwrap_or(false));
        let is_failure = request.method == Some(Method::CallTool) && has_failed();
        let kind = if is_failure { ResponseKind::Failed } else { ResponseKind::Result };
        Self { request, kind, result: Some(result) }
    }
}

impl LayerOutcome {
    /// Returns the response to a request, if it is the one of this outcome.
    #[cold]
    fn into_answer<E: Role>(self, context: &Context<E>) -> Box<RpcResult<Replaced>> {
        if !self.request.is(context) {
            return foreign();
        }
        match (self.kind, self.result) {
            (ResponseKind::Error(error), _) => Box::new(Err(error)),
            (kind, Some(result)) => Box::new(Ok(Replaced { result, kind })),
            (_, None) => foreign(),
        }
    }
}

/// Returns the response to a request whose middleware has kept the outcome of another request and returned it.
#[cold]
fn foreign() -> Box<RpcResult<Replaced>> {
    Box::new(Err(ErrorObject::internal("Internal error")))
}

impl Completed {
    pub(super) fn of(call: Box<dyn AnyAnswer>) -> Self {
        Self(Outcome::Handler(call))
    }

    /// Creates the outcome of a middleware that has failed.
    #[cold]
    fn failed<E: Role>(context: &Context<E>, failure: Failure) -> Self {
        let (request, kind) = (RequestIdentity::of(context), ResponseKind::Error(context.explain(failure)));
        Self(Outcome::Layer(Box::new(LayerOutcome { request, kind, result: None })))
    }

    /// Returns the kind of the response.
    #[must_use]
    pub fn kind(&self) -> &ResponseKind {
        match &self.0 {
            Outcome::Handler(answer) => answer.kind(),
            Outcome::Layer(outcome) => &outcome.kind,
        }
    }

    /// Returns the error of the response, if it is one.
    #[must_use]
    pub fn error(&self) -> Option<&ErrorObject> {
        match self.kind() {
            ResponseKind::Error(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the result, in the form of the request's revision and without the members that the connection adds to
    /// every result (2026-07-28). `None` if the outcome is an error or requires input.
    ///
    /// The first call encodes the result, and that text is sent. Without a call nothing is encoded early.
    #[must_use]
    pub fn result(&self) -> Option<&JsonObject> {
        match &self.0 {
            Outcome::Handler(answer) => answer.result(),
            Outcome::Layer(outcome) => outcome.result.as_ref(),
        }
    }

    /// Returns the outcome with another result, also in place of an error. A tool with `isError` has failed.
    ///
    /// The result is sent as it is: it has to be one of the method and of the request's revision, and is not checked
    /// against the output schema of a tool. A result with a `resultType` other than `complete` becomes an internal
    /// error, which is logged. An outcome that requires input (2026-07-28) has no result yet and stays as it is: the
    /// client sends the request again. Of a request that becomes a task, it is the result of the task.
    #[must_use]
    pub fn with_result(self, result: JsonObject) -> Self {
        if *self.kind() == ResponseKind::InputRequired {
            return self;
        }
        let request = match self.0 {
            Outcome::Handler(answer) => answer.request(),
            Outcome::Layer(outcome) => outcome.request,
        };
        Self(Outcome::Layer(Box::new(LayerOutcome::with_result(request, result))))
    }

    /// Returns the call with the response to this request, whose handler is in a `C`, or the response of middleware.
    #[inline(always)]
    pub(super) fn into_call<C: LayeredCall>(self, request: &SharedRequest<C::Role>) -> CallOutcome<C> {
        match self.0 {
            Outcome::Handler(answer) => match (answer as Box<dyn Any>).downcast::<C>() {
                Ok(call) if call.chain().request.is(request) => Ok(call),
                _ => Err(foreign()),
            },
            Outcome::Layer(outcome) => Err(outcome.into_answer(request.context())),
        }
    }

    /// Returns the response to this request, whose handler is in a `C`.
    fn into_answer<C: LayeredCall>(self, request: &SharedRequest<C::Role>) -> RpcResult<Replaceable<C::Result>> {
        match self.into_call::<C>(request) {
            Ok(mut call) => take_answer(&mut *call),
            Err(answer) => answer.map(|replaced| Replaceable::Replaced(Box::new(replaced))),
        }
    }
}

impl fmt::Debug for Completed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completed").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

/// Runs the next middleware of a request. The call has the same reference to the request.
#[inline(always)]
fn run_layer<E: Role>(
    layer: &dyn Layer<E>,
    incoming: IncomingRequest<E>,
    call: Box<dyn AnyCall<E>>,
    request: &SharedRequest<E>,
) -> Result<Completed, Deferred<Completed>> {
    let begun = catch_unwind(AssertUnwindSafe(|| layer.run(incoming, Next(call))));
    match begun.unwrap_or_else(|_| Deferred::ready(Err(panicked()))).try_take() {
        Ok(Ok(completed)) => Ok(completed),
        Ok(Err(failure)) => Ok(Completed::failed(request.context(), failure)),
        Err(running) => Err(rest_of_layer(running, request.clone())),
    }
}

/// Runs a middleware that waits.
#[cold]
fn rest_of_layer<E: Role>(
    mut running: Deferred<Result<Completed, Failure>>,
    request: SharedRequest<E>,
) -> Deferred<Completed> {
    Deferred::new(poll_fn(move |cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut running).poll(cx)));
        let polled = polled.unwrap_or_else(|_| Poll::Ready(Err(panicked())));
        polled.map(|outcome| outcome.unwrap_or_else(|failure| Completed::failed(request.context(), failure)))
    }))
}

/// Runs the next middleware of a call that has begun.
pub(super) fn run_inner_layer<E: Dispatch>(mut call: Box<dyn AnyCall<E>>) -> Deferred<Completed> {
    let Chain { request, depth, arguments, .. } = call.chain_mut();
    let request = request.clone();
    let Some(layer) = request.layer(*depth) else { return call.proceed() };
    *depth += 1;
    let incoming = IncomingRequest { request: request.clone(), arguments: arguments.clone() };
    run_layer(layer, incoming, call, &request).map_or_else(identity, Deferred::ready)
}

/// Runs a call through its middleware. `request` is that of the call. Returns the rest if it has to wait.
#[inline(always)]
pub(super) fn run_layers<C: LayeredCall>(
    mut call: Box<C>,
    request: &SharedRequest<C::Role>,
) -> Result<Completed, Deferred<Completed>> {
    let Some(layer) = request.layer(0) else { return Err(call.proceed()) };
    call.chain_mut().depth = 1;
    let incoming = IncomingRequest { request: request.clone(), arguments: None };
    run_layer(layer, incoming, call, request)
}

/// Returns the outcome of a call whose middleware has set arguments that its request cannot have.
#[cold]
pub(super) fn unexpected_arguments<E: Role>(context: &Context<E>) -> Completed {
    log::failed("middleware has set arguments of a request that has none");
    Completed::failed(context, Failure::rpc(ErrorObject::internal("Internal error")))
}

/// Runs a call through its middleware, and returns the response. `request` is that of the call.
pub(super) fn answer_of_layers<C: LayeredCall>(
    call: Box<C>,
    request: &SharedRequest<C::Role>,
) -> Deferred<RpcResult<Replaceable<C::Result>>> {
    match run_layers(call, request) {
        Ok(completed) => Deferred::ready(completed.into_answer::<C>(request)),
        Err(running) => {
            let request = request.clone();
            Deferred::new(async move { running.await.into_answer::<C>(&request) })
        }
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

/// A registered middleware, of any type.
pub(crate) trait Layer<E: Role>: Send + Sync {
    /// Runs the middleware. It may panic.
    fn run(&self, request: IncomingRequest<E>, next: Next<E>) -> Deferred<Result<Completed, Failure>>;
}

/// All middleware, the outermost first.
pub(crate) type Layers<E> = Vec<Box<dyn Layer<E>>>;

/// A middleware that is a function.
pub(crate) struct FunctionLayer<F, T> {
    function: F,
    /// The memory of its futures, which most requests reuse.
    futures: FutureSlot<T>,
}

impl<F, T: Future + Send + 'static> FunctionLayer<F, T> {
    pub(crate) fn new(function: F) -> Self {
        Self { function, futures: FutureSlot::default() }
    }
}

impl<E: Role, F, T> Layer<E> for FunctionLayer<F, T>
where
    F: Fn(IncomingRequest<E>, Next<E>) -> T + Send + Sync,
    T: Future<Output = Result<Completed, Failure>> + Send + 'static,
{
    fn run(&self, request: IncomingRequest<E>, next: Next<E>) -> Deferred<Result<Completed, Failure>> {
        self.futures.poll_once(|| (self.function)(request, next))
    }
}

/// A middleware of a type of its own.
pub(crate) struct MiddlewareLayer<M>(pub(crate) M);

impl<E: Role, M: Middleware<E>> Layer<E> for MiddlewareLayer<M> {
    fn run(&self, request: IncomingRequest<E>, next: Next<E>) -> Deferred<Result<Completed, Failure>> {
        self.0.handle(request, next)
    }
}

/// Returns whether requests of this method have arguments.
pub(super) const fn has_arguments(method: Option<Method>) -> bool {
    matches!(method, Some(Method::CallTool | Method::GetPrompt))
}
