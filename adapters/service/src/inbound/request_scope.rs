//! The scope of the handler of a request: middleware and the span.

use std::pin::pin;

use mcp_proto::schema::Encode;

use super::{
    catch_panic::{catch_panic, catch_panic_async},
    context::Context,
    layered_call::{FunctionCall, SharedRequest, response_kind},
    middleware::{Layers, run_layers},
    replaceable::Replaceable,
    request::InboundRequest,
    rpc_result::{ResponseKind, RpcResult},
    span::Span,
    state::Role,
};
use crate::driver_api::deferred::Deferred;

/// The middleware and the span of one request.
pub(crate) struct RequestScope<E: Role> {
    /// `None` if the application has no middleware.
    layers: Option<Layers<E>>,
    span: Span,
}

impl<E: Role> RequestScope<E> {
    pub(crate) fn of(layers: &Layers<E>, inbound: &InboundRequest<'_, E>) -> Self {
        Self { layers: (!layers.is_empty()).then(|| layers.clone()), span: Span::of(inbound) }
    }

    pub(super) const fn has_layers(&self) -> bool {
        self.layers.is_some()
    }

    /// Runs the handler within the middleware and the span. A panic becomes an error.
    pub(crate) fn run<T: Encode + Send + Sync + 'static>(
        self,
        context: &Context<E>,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Deferred<RpcResult<Replaceable<T>>> {
        let Self { layers, span } = self;
        let Some(layers) = layers else {
            return Self { layers, span }.run_handler(context, f).map(|answer| answer.map(Replaceable::Handler));
        };
        let request = SharedRequest::new(context.clone(), layers);
        let call = Box::new(FunctionCall::new(request.clone(), f));
        let begun = span.within(|| run_layers(call, &request));
        ended(span, context, begun, |context, answer| match answer {
            Ok(Replaceable::Replaced(replaced)) => replaced.kind.clone(),
            Ok(Replaceable::Handler(result)) => response_kind(context, Ok(result)),
            Ok(Replaceable::Encoded(encoded)) => response_kind(context, Ok(&encoded.0)),
            Err(error) => ResponseKind::Error(error.clone()),
        })
    }

    /// Runs the handler of an application without middleware within the span. A panic becomes an error.
    pub(super) fn run_handler<T: Send + 'static>(
        self,
        context: &Context<E>,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Deferred<RpcResult<T>> {
        let begun = self.span.within(|| catch_panic(|| f(context)));
        ended(self.span, context, begun, |context, answer| response_kind(context, answer.as_ref()))
    }
}

/// Records the end of a handler in its span. `kind` returns the kind of the response.
#[inline]
fn ended<E: Role, T: Send + 'static>(
    span: Span,
    context: &Context<E>,
    begun: Deferred<RpcResult<T>>,
    kind: fn(&Context<E>, &RpcResult<T>) -> ResponseKind,
) -> Deferred<RpcResult<T>> {
    if let Some(answer) = begun.peek() {
        span.end(context.is_cancelled(), || kind(context, answer));
        return begun;
    }
    let context = context.clone();
    Deferred::new(async move {
        let answer = span.instrument(catch_panic_async(pin!(begun))).await;
        span.end(context.is_cancelled(), || kind(&context, &answer));
        answer
    })
}
