//! The handler of a request that middleware wraps.

use std::{
    any::Any,
    borrow::Cow,
    future::Future,
    mem,
    pin::{Pin, pin},
    ptr,
    sync::{Arc, Mutex, OnceLock},
    task::{self, Poll},
};

use mcp_proto::{
    protocol::Method,
    schema::{At, Encode},
    wire::{ErrorObject, JsonObject, RawJson, RequestId},
};

use super::{
    catch_panic::{catch_panic, catch_panic_async},
    context::Context,
    in_flight::RoleInFlight,
    middleware::{Answer, Completed, Layers},
    replaceable::{Replaceable, Replaced},
    rpc_result::{AnyResult, ResponseKind, RpcResult},
    state::Role,
};
use crate::{driver_api::deferred::Deferred, util::lock::lock};

/// A request that middleware wraps.
pub(super) struct RequestData<E: Role> {
    pub(super) layers: Layers<E>,
    pub(super) id: Option<RequestId>,
    /// The method, if it is in the specification.
    pub(super) known: Option<Method>,
    pub(super) method: Cow<'static, str>,
    pub(super) params: Option<RawJson<'static>>,
    /// The subject, once middleware has asked for it.
    pub(super) name: OnceLock<Option<String>>,
    /// Whether the application has a handler for it. Lists have none, nor requests that are refused.
    pub(super) has_handler: bool,
    pub(super) context: Context<E>,
}

/// The handler of a request that middleware wraps, of any type.
pub(super) trait Layered<E: Role>: Answered {
    fn data(&self) -> &RequestData<E>;

    /// Runs the handler, and returns the kind of its response.
    fn poll(&self, cx: &mut task::Context<'_>) -> Poll<ResponseKind>;

    /// Drops the handler, unless it has ended.
    fn abandon(&self);
}

/// The result of a handler, of any type.
pub(super) trait Answered: Send + Sync {
    /// Encodes the result.
    fn encode(&self) -> Option<JsonObject>;
}

/// A request that middleware wraps, and its handler.
pub(super) struct LayeredRequest<E: Role, F, T> {
    pub(super) data: RequestData<E>,
    pub(super) slot: Mutex<Slot<F, T>>,
}

pub(super) enum Slot<F, T> {
    Waiting(F),
    Running(Deferred<RpcResult<T>>),
    Ended(RpcResult<T>),
    /// The handler runs on this thread, was dropped, or its outcome was taken.
    Empty,
}

impl<E: Role, F, T> LayeredRequest<E, F, T> {
    /// Returns the response: the outcome of the handler, or that of middleware.
    pub(super) fn end(self: Arc<Self>, completed: Completed) -> RpcResult<Replaceable<T>> {
        let answer = mem::replace(&mut *lock(&self.slot), Slot::Empty);
        // A layer may have kept the outcome of another request and returned it for this one.
        if !ptr::addr_eq(Arc::as_ptr(&completed.source), Arc::as_ptr(&self)) {
            return Err(ErrorObject::internal("Internal error"));
        }
        match (completed.answer, completed.kind, answer) {
            (Answer::Error, ResponseKind::Error(error), _) => Err(error),
            (Answer::Replaced(result), kind, _) => Ok(Replaceable::Replaced(Box::new(Replaced { result, kind }))),
            (Answer::Handler(encoded), _, Slot::Ended(answer)) => {
                answer.map(|result| match encoded.into_inner().flatten() {
                    Some(encoded) => Replaceable::Encoded(Box::new((result, encoded))),
                    None => Replaceable::Handler(result),
                })
            }
            _ => Err(ErrorObject::internal("Internal error")),
        }
    }
}

impl<E: Role, F, T> Layered<E> for LayeredRequest<E, F, T>
where
    F: FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    T: Encode + Send + 'static,
{
    fn data(&self) -> &RequestData<E> {
        &self.data
    }

    fn poll(&self, cx: &mut task::Context<'_>) -> Poll<ResponseKind> {
        let context = &self.data.context;
        // The handler does not run under the lock.
        let slot = mem::replace(&mut *lock(&self.slot), Slot::Empty);
        let mut running = match slot {
            Slot::Waiting(f) => catch_panic(|| f(context)),
            Slot::Running(running) => running,
            Slot::Ended(_) | Slot::Empty => return Poll::Pending,
        };
        let polled = pin!(catch_panic_async(Pin::new(&mut running))).poll(cx);
        match polled {
            Poll::Ready(answer) => {
                let kind = response_kind(context, answer.as_ref());
                *lock(&self.slot) = Slot::Ended(answer);
                Poll::Ready(kind)
            }
            Poll::Pending => {
                *lock(&self.slot) = Slot::Running(running);
                Poll::Pending
            }
        }
    }

    fn abandon(&self) {
        let slot = {
            let mut slot = lock(&self.slot);
            match *slot {
                Slot::Ended(_) => Slot::Empty,
                _ => mem::replace(&mut *slot, Slot::Empty),
            }
        };
        drop(slot);
    }
}

impl<E: Role, F: Send, T: Encode + Send> Answered for LayeredRequest<E, F, T> {
    fn encode(&self) -> Option<JsonObject> {
        let version = self.data.context.version();
        let Slot::Ended(Ok(result)) = &*lock(&self.slot) else { return None };
        At(result, Some(version)).to_json().ok()?.try_into().ok()
    }
}

/// Returns the kind of a response without a handler.
pub(crate) fn outcome<E: Role, T: 'static>(answer: Result<&T, &ErrorObject>) -> ResponseKind {
    match answer {
        Err(error) => ResponseKind::Error(error.clone()),
        Ok(result) if E::has_failed(of_any(result)) => ResponseKind::Failed,
        Ok(_) => ResponseKind::Result,
    }
}

/// Returns the kind of a handler's response.
pub(super) fn response_kind<E: Role, T: 'static>(
    context: &Context<E>,
    answer: Result<&T, &ErrorObject>,
) -> ResponseKind {
    if context.in_flight.role.requires_input() {
        return ResponseKind::InputRequired;
    }
    outcome::<E, T>(answer)
}

/// Returns the result itself, also from within an [`AnyResult`].
fn of_any<T: 'static>(result: &T) -> &dyn Any {
    let result: &dyn Any = result;
    result.downcast_ref().map_or(result, AnyResult::as_any)
}
