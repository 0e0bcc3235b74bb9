//! The scope of the handler of a request: middleware and the span.

use std::pin::pin;

use mcp_proto::schema::Encode;

use super::{
    catch_panic::{catch_panic, catch_panic_async},
    context::Context,
    custom_methods::Dispatch,
    layered_call::{FunctionCall, SharedRequest, response_kind},
    middleware::answer_of_layers,
    replaceable::Replaceable,
    request::InboundRequest,
    rpc_result::{ResponseKind, RpcResult},
    span::Span,
    state::Role,
};
use crate::driver_api::deferred::Deferred;

/// The scope of the handler of one request.
pub(crate) struct RequestScope {
    /// Whether the application has middleware.
    has_layers: bool,
    span: Span,
}

impl RequestScope {
    pub(crate) fn new<E: Role>(has_layers: bool, inbound: &InboundRequest<'_, E>) -> Self {
        Self { has_layers, span: Span::of(inbound) }
    }

    pub(super) const fn has_layers(&self) -> bool {
        self.has_layers
    }

    /// Runs the handler within the middleware and the span. A panic becomes an error.
    pub(crate) fn run<E: Dispatch, T: Encode + Send + Sync + 'static>(
        self,
        context: &Context<E>,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Deferred<RpcResult<Replaceable<T>>> {
        if !self.has_layers {
            return self.run_handler(context, f).map(|answer| answer.map(Replaceable::Handler));
        }
        let request = SharedRequest::new(context.clone());
        let call = Box::new(FunctionCall::new(request.clone(), f));
        let begun = self.span.within(|| answer_of_layers(call, &request));
        ended(self.span, context, begun, |context, answer| match answer {
            Ok(Replaceable::Replaced(replaced)) => replaced.kind.clone(),
            Ok(Replaceable::Handler(result)) => response_kind(context, Ok(result)),
            Ok(Replaceable::Encoded(encoded)) => response_kind(context, Ok(&encoded.0)),
            Err(error) => ResponseKind::Error(error.clone()),
        })
    }

    /// Runs the handler of an application without middleware within the span. A panic becomes an error.
    pub(super) fn run_handler<E: Role, T: Send + 'static>(
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
