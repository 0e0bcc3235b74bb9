//! Middleware: code that runs around every response.

use std::{
    any::Any,
    fmt,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{
    connection::ServerRole,
    wire::{ErrorObject, RequestId},
};

use super::{
    catch_panic::{catch_panic, catch_panic_async},
    context::Context,
    failure::Failure,
    in_flight::RoleInFlight,
    request::{InboundRequest, RequestSummary, summary},
    rpc_result::{AnyResult, ResponseKind, RpcResult},
    span::Span,
    state::Role,
};
use crate::{driver_api::deferred::Deferred, util::lock::lock};

/// A request of the peer before it is handled, for [middleware](crate::ServiceBuilder::layer).
pub struct IncomingRequest<E: Role = ServerRole> {
    summary: Arc<RequestSummary>,
    context: Context<E>,
}

impl<E: Role> IncomingRequest<E> {
    /// Returns the method, for example `tools/call`.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.summary.method
    }

    /// Returns the subject of the request: the name of a tool or a prompt, the URI of a resource, the id of a task. It
    /// may be unknown.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.summary.name.as_deref()
    }

    /// Returns the id that the peer has assigned to the request.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.summary.id.as_ref()
    }

    /// Returns the context that its handler gets.
    #[must_use]
    pub const fn context(&self) -> &Context<E> {
        &self.context
    }
}

impl<E: Role> Clone for IncomingRequest<E> {
    fn clone(&self) -> Self {
        Self { summary: self.summary.clone(), context: self.context.clone() }
    }
}

impl<E: Role> fmt::Debug for IncomingRequest<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestSummary { id, method, name } = &*self.summary;
        f.debug_struct("IncomingRequest")
            .field("id", id)
            .field("method", method)
            .field("name", name)
            .finish_non_exhaustive()
    }
}

/// The rest of the chain after a [middleware](crate::ServiceBuilder::layer): further middleware, and the handler. If it
/// is dropped without being run, the handler does not run.
#[must_use = "nothing happens before it is run"]
pub struct Next<E: Role = ServerRole> {
    layers: Layers<E>,
    /// The number of layers that have run.
    behind: usize,
    incoming: IncomingRequest<E>,
    handler: Deferred<Completed>,
}

impl<E: Role> Next<E> {
    /// Runs the rest of the chain, and returns the outcome. A panic in it is an error outcome.
    pub async fn run(self) -> Completed {
        let Self { layers, behind, incoming, handler } = self;
        let Some(layer) = layers.get(behind).cloned() else { return handler.await };
        let (context, began) = (incoming.context.clone(), now(&incoming.context));
        let next = Self { layers, behind: behind + 1, incoming: incoming.clone(), handler };
        let completed = pin!(async {
            let completed = layer(incoming, next).await;
            completed.map_err(|failure| context.explain(failure))
        });
        catch_panic_async(completed).await.unwrap_or_else(|error| Completed {
            kind: ResponseKind::Error(error),
            elapsed: elapsed(&context, began),
            replaced: true,
        })
    }
}

impl<E: Role> fmt::Debug for Next<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("incoming", &self.incoming).finish_non_exhaustive()
    }
}

/// The outcome of a request. Only [`Next::run`] returns one.
#[derive(Debug)]
pub struct Completed {
    kind: ResponseKind,
    elapsed: Duration,
    /// Set if middleware has replaced the outcome of the handler.
    replaced: bool,
}

impl Completed {
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
}

/// A middleware.
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

/// The middleware and the span of one request.
pub(crate) struct RequestScope<E: Role> {
    /// `None` if the application has no middleware.
    middleware: Option<(Layers<E>, Arc<RequestSummary>)>,
    span: Span,
}

impl<E: Role> RequestScope<E> {
    pub(crate) fn of(layers: &Layers<E>, inbound: &InboundRequest<'_, E>) -> Self {
        let middleware = (!layers.is_empty()).then(|| (layers.clone(), Arc::new(summary(inbound))));
        Self { middleware, span: Span::of(inbound) }
    }

    /// Runs the handler within the middleware and the span. A panic becomes an error.
    pub(crate) fn run<T: Send + 'static>(
        self,
        context: &Context<E>,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Deferred<RpcResult<T>> {
        let Self { middleware, span } = self;
        let begun = span.within(|| match middleware {
            None => catch_panic(|| f(context)),
            Some((layers, summary)) => {
                Deferred::poll_once(run_layers(layers, IncomingRequest { summary, context: context.clone() }, f))
            }
        });
        let end = |span: &Span, context: &Context<E>, answer: &RpcResult<T>| {
            span.end(context.is_cancelled(), || response_kind(context, answer));
        };
        match begun.try_take() {
            Ok(answer) => {
                end(&span, context, &answer);
                Deferred::ready(answer)
            }
            Err(running) => {
                let context = context.clone();
                Deferred::new(async move {
                    let answer = span.instrument(catch_panic_async(pin!(running))).await;
                    end(&span, &context, &answer);
                    answer
                })
            }
        }
    }
}

/// Runs the handler through all middleware.
async fn run_layers<E: Role, T: Send + 'static>(
    layers: Layers<E>,
    incoming: IncomingRequest<E>,
    f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
) -> RpcResult<T> {
    let (place, context) = (Arc::new(Mutex::new(None)), incoming.context.clone());
    let handler = {
        let place = place.clone();
        Deferred::new(async move {
            let began = now(&context);
            let answer = catch_panic_async(pin!(catch_panic(|| f(&context)))).await;
            let kind = response_kind(&context, &answer);
            *lock(&place) = Some(answer);
            Completed { kind, elapsed: elapsed(&context, began), replaced: false }
        })
    };
    let Completed { kind, replaced, .. } = Next { layers, behind: 0, incoming, handler }.run().await;
    let answer = lock(&place).take();
    match (kind, answer) {
        (ResponseKind::Error(error), _) if replaced => Err(error),
        (_, Some(answer)) => answer,
        // A layer kept the outcome of another request and returned it for this one.
        (_, None) => Err(ErrorObject::internal("Internal error")),
    }
}

fn now<E: Role>(context: &Context<E>) -> mcp_proto::rpc::Timestamp {
    context.connection.update(|_, now| now)
}

fn elapsed<E: Role>(context: &Context<E>, since: mcp_proto::rpc::Timestamp) -> Duration {
    now(context).saturating_since(since)
}

/// Returns the kind of a response without a handler.
pub(crate) fn outcome<E: Role, T: 'static>(answer: &RpcResult<T>) -> ResponseKind {
    match answer {
        Err(error) => ResponseKind::Error(error.clone()),
        Ok(result) if E::has_failed(of_any(result)) => ResponseKind::Failed,
        Ok(_) => ResponseKind::Result,
    }
}

/// Returns the kind of a handler's response.
fn response_kind<E: Role, T: 'static>(context: &Context<E>, answer: &RpcResult<T>) -> ResponseKind {
    if context.in_flight.role.has_asked() {
        return ResponseKind::InputRequired;
    }
    outcome::<E, T>(answer)
}

/// Returns the result itself, also from within an [`AnyResult`].
fn of_any<T: 'static>(result: &T) -> &dyn Any {
    let result: &dyn Any = result;
    result.downcast_ref().map_or(result, AnyResult::as_any)
}
