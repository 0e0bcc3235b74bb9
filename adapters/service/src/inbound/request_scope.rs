//! The scope of the handler of a request: middleware and the span.

use std::pin::pin;

use mcp_proto::schema::Encode;

use super::{
    catch_panic::{catch_panic, catch_panic_async},
    context::Context,
    layered_call::{FunctionCall, LayeredCall, LayeredState, SharedRequest, response_kind},
    middleware::{Layers, run_layers},
    replaceable::Replaceable,
    request::InboundRequest,
    rpc_result::RpcResult,
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

    /// Runs the handler within the middleware and the span. A panic becomes an error.
    pub(crate) fn run<T: Encode + Send + Sync + 'static>(
        self,
        context: &Context<E>,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Deferred<RpcResult<Replaceable<T>>> {
        let Self { layers, span } = self;
        match layers {
            None => {
                let begun = span.within(|| catch_panic(|| f(context)));
                ended(span, context, begun, Replaceable::Handler)
            }
            Some(layers) => {
                let request = SharedRequest::new(context.clone(), layers, None);
                let call = Box::new(FunctionCall::new(request.clone(), f));
                let begun = span.within(|| run_layers(call, &request));
                ended(span, context, begun, |result| result)
            }
        }
    }

    /// Runs a call in memory of its own as [`run`](Self::run) does. The application has middleware. `memory` is that of
    /// an earlier call, and then that for the next one. The context is in `place` once the call waits or has ended.
    pub(super) fn run_call<C: LayeredCall<Role = E>>(
        self,
        context: Context<E>,
        place: &mut Option<Context<E>>,
        memory: &mut Option<SharedRequest<E>>,
        call: impl FnOnce(LayeredState<E, C::Result>) -> Box<C>,
    ) -> Deferred<RpcResult<Replaceable<C::Result>>> {
        let Self { layers, span } = self;
        let request = SharedRequest::new(context, layers.unwrap_or_default(), memory.take());
        let call = call(LayeredState::new(request.clone()));
        let begun = span.within(|| run_layers(call, &request));
        let answer = ended(span, request.context(), begun, |result| result);
        let (context, free) = request.into_parts();
        (*place, *memory) = (Some(context), free);
        answer
    }
}

/// Records the end of a handler in its span.
fn ended<E: Role, U: Send + 'static, T: Send + 'static>(
    span: Span,
    context: &Context<E>,
    begun: Deferred<RpcResult<U>>,
    map: fn(U) -> Replaceable<T>,
) -> Deferred<RpcResult<Replaceable<T>>> {
    let end = move |span: &Span, context: &Context<E>, answer: RpcResult<U>| {
        let answer = answer.map(map);
        span.end(context.is_cancelled(), || match &answer {
            Ok(Replaceable::Replaced(replaced)) => replaced.kind.clone(),
            Ok(Replaceable::Handler(result)) => response_kind(context, Ok(result)),
            Ok(Replaceable::Encoded(encoded)) => response_kind(context, Ok(&encoded.0)),
            Err(error) => response_kind::<E, T>(context, Err(error)),
        });
        answer
    };
    match begun.try_take() {
        Ok(answer) => Deferred::ready(end(&span, context, answer)),
        Err(running) => {
            let context = context.clone();
            Deferred::new(async move {
                let answer = span.instrument(catch_panic_async(pin!(running))).await;
                end(&span, &context, answer)
            })
        }
    }
}
