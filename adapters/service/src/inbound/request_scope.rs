//! What surrounds the handler of a request: middleware and the span.

use std::{
    borrow::Cow,
    pin::pin,
    sync::{Arc, Mutex, OnceLock},
};

use mcp_proto::{
    protocol::Method,
    schema::Encode,
    wire::{RawJson, RequestId},
};

use super::{
    catch_panic::{catch_panic, catch_panic_async},
    context::Context,
    layered_request::{LayeredRequest, RequestData, Slot, response_kind},
    middleware::{Layers, Next},
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
    middleware: Option<Arrived<E>>,
    span: Span,
}

/// A request for middleware, before it has a context.
struct Arrived<E: Role> {
    layers: Layers<E>,
    id: Option<RequestId>,
    known: Option<Method>,
    method: Cow<'static, str>,
    params: Option<RawJson<'static>>,
    has_handler: bool,
}

impl<E: Role> Arrived<E> {
    fn new(layers: &Layers<E>, inbound: &InboundRequest<'_, E>) -> Self {
        let known = inbound.method.known();
        Self {
            layers: layers.clone(),
            id: inbound.connection.read(|conn| conn.request_id(inbound.key).cloned()),
            known,
            method: known.map_or_else(|| inbound.method.as_str().to_owned().into(), |known| known.as_str().into()),
            params: inbound.params.clone().map(RawJson::into_owned),
            has_handler: true,
        }
    }
}

impl<E: Role> RequestScope<E> {
    pub(crate) fn of(layers: &Layers<E>, inbound: &InboundRequest<'_, E>) -> Self {
        let middleware = (!layers.is_empty()).then(|| Arrived::new(layers, inbound));
        Self { middleware, span: Span::of(inbound) }
    }

    /// Notes that the application has no handler for the request.
    pub(super) fn without_handler(mut self) -> Self {
        self.middleware.iter_mut().for_each(|arrived| arrived.has_handler = false);
        self
    }

    /// Runs the handler within the middleware and the span. A panic becomes an error.
    pub(crate) fn run<T: Encode + Send + 'static>(
        self,
        context: &Context<E>,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Deferred<RpcResult<Replaceable<T>>> {
        let Self { middleware, span } = self;
        match middleware {
            None => {
                let begun = span.within(|| catch_panic(|| f(context)));
                ended(span, context, begun, Replaceable::Handler)
            }
            Some(arrived) => {
                let begun = span.within(|| run_layers(arrived, context.clone(), f));
                ended(span, context, begun, |result| result)
            }
        }
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

/// Runs the handler through all middleware.
fn run_layers<E: Role, T: Encode + Send + 'static>(
    Arrived { layers, id, known, method, params, has_handler }: Arrived<E>,
    context: Context<E>,
    f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
) -> Deferred<RpcResult<Replaceable<T>>> {
    let data = RequestData { layers, id, known, method, params, name: OnceLock::new(), has_handler, context };
    let request = Arc::new(LayeredRequest { data, slot: Mutex::new(Slot::Waiting(f)) });
    match Next::new(request.clone()).begin().try_take() {
        Ok(completed) => Deferred::ready(request.end(completed)),
        Err(running) => Deferred::new(async move { request.end(running.await) }),
    }
}
