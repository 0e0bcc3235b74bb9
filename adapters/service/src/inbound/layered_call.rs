//! The handler of a request that middleware wraps, and its response.

use std::{
    any::Any,
    pin::pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use mcp_proto::{
    connection::Connection,
    protocol::Method,
    rpc::ReplyKey,
    schema::{At, Encode},
    wire::{ErrorObject, JsonObject},
};

use super::{
    catch_panic::{catch_panic, catch_panic_async},
    context::{Context, RequestContext},
    custom_methods::Dispatch,
    in_flight::{InFlight, RoleInFlight},
    middleware::{Completed, Layer, has_arguments, run_inner_layer, unexpected_arguments},
    replaceable::Replaceable,
    rpc_result::{AnyResult, ResponseKind, RpcResult, respond},
    state::Role,
};
use crate::driver_api::deferred::Deferred;

/// The context of a request, which its handler, its middleware and its responder share. Its memory can be reused.
pub(crate) struct SharedRequest<E: Role>(Arc<Option<Context<E>>>);

impl<E: Role> SharedRequest<E> {
    pub(crate) fn new(context: Context<E>) -> Self {
        Self(Arc::new(Some(context)))
    }

    /// Takes the context, unless the request is still shared.
    fn take(&mut self) -> Option<Context<E>> {
        Arc::get_mut(&mut self.0)?.take()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<E: Dispatch> SharedRequest<E> {
    /// Returns the middleware with this number.
    pub(super) fn layer(&self, number: usize) -> Option<&dyn Layer<E>> {
        E::custom(&self.context().shared.app).layers.get(number).map(|layer| &**layer)
    }
}

impl<E: Role> RequestContext<E> for SharedRequest<E> {
    fn context(&self) -> &Context<E> {
        (*self.0).as_ref().expect("a request that is shared is not cleared")
    }

    fn recycle(mut self) {
        if let Some(context) = self.take() {
            context.recycle();
        }
    }
}

impl<E: Role> Clone for SharedRequest<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The progress of a request through its middleware, and the response of its handler.
///
/// It is moved from one middleware to the next and back, with the handler, in one box: no middleware allocates.
pub(crate) struct LayeredState<E: Role, T> {
    chain: Chain<E>,
    /// The response of the handler, once it has ended.
    answer: Option<RpcResult<T>>,
    /// The entry of the last request, for reuse.
    entry: Option<Arc<InFlight<E::InFlight>>>,
}

/// The progress of a request through its middleware.
pub(super) struct Chain<E: Role> {
    pub(super) request: SharedRequest<E>,
    /// The number of layers that have begun.
    pub(super) depth: usize,
    /// The arguments that middleware has set in place of those of the request.
    pub(super) arguments: Option<Arc<JsonObject>>,
    /// The response as middleware sees it, once middleware has asked for it.
    seen: OnceLock<Box<Seen>>,
}

/// The response of a handler as middleware sees it.
struct Seen {
    kind: ResponseKind,
    /// The encoded result, once middleware has asked for it.
    result: OnceLock<Option<JsonObject>>,
}

impl<E: Dispatch> Chain<E> {
    /// Hands the arguments that middleware has set to the handler, if it is next. Returns the outcome if the request
    /// cannot have arguments.
    #[cold]
    fn pass_arguments(&mut self) -> Result<(), Completed> {
        let context = self.request.context();
        if !has_arguments(context.in_flight.received.get().and_then(|received| received.known())) {
            return Err(unexpected_arguments(context));
        }
        if self.request.layer(self.depth).is_none()
            && let Some(arguments) = self.arguments.take()
        {
            // A request has one handler, which runs once.
            let _ = context.in_flight.arguments.set(arguments);
        }
        Ok(())
    }
}

impl<E: Role, T> LayeredState<E, T> {
    const fn new(request: SharedRequest<E>) -> Self {
        Self { chain: Chain { request, depth: 0, arguments: None, seen: OnceLock::new() }, answer: None, entry: None }
    }

    pub(crate) fn context(&self) -> &Context<E> {
        self.chain.request.context()
    }

    /// Prepares the state for a request. The state has not begun another one, or has ended it.
    pub(crate) fn begin(&mut self, context: Context<E>) -> SharedRequest<E> {
        match Arc::get_mut(&mut self.chain.request.0) {
            Some(free) => *free = Some(context),
            None => self.chain.request = SharedRequest::new(context),
        }
        self.chain.request.clone()
    }

    /// Returns the entry of the last request, for the next one.
    pub(crate) const fn take_entry(&mut self) -> Option<Arc<InFlight<E::InFlight>>> {
        self.entry.take()
    }

    /// Clears the state for another request, after the response was sent. Returns `false` if middleware still has the
    /// request.
    pub(crate) fn end(&mut self) -> bool {
        self.answer = None;
        self.chain.depth = 0;
        self.chain.arguments = None;
        drop(self.chain.seen.take());
        let Some(context) = self.chain.request.take() else { return false };
        self.entry = context.into_entry();
        true
    }

    /// Returns the result that was encoded for middleware.
    fn encoded(&self) -> Option<&JsonObject> {
        self.chain.seen.get()?.result.get()?.as_ref()
    }

    fn answer(&self) -> Result<&T, ErrorObject> {
        match &self.answer {
            Some(answer) => answer.as_ref().map_err(Clone::clone),
            None => Err(ErrorObject::internal("Internal error")),
        }
    }
}

impl<E: Role, T: Encode + 'static> LayeredState<E, T> {
    pub(super) fn response_kind(&self) -> ResponseKind {
        response_kind(self.context(), self.answer().as_ref().copied())
    }

    /// Sends the response of the handler; returns `false` if the outbox has no room.
    pub(super) fn respond(&self, conn: &mut Connection<E>, key: ReplyKey) -> bool {
        match (self.encoded(), &self.answer) {
            (Some(encoded), _) => respond(conn, key, Ok(encoded)),
            (None, Some(answer)) => respond(conn, key, answer.as_ref()),
            (None, None) => respond::<_, T>(conn, key, Err(&ErrorObject::internal("Internal error"))),
        }
    }
}

impl<E: Role, T> Default for LayeredState<E, T> {
    fn default() -> Self {
        Self::new(SharedRequest(Arc::new(None)))
    }
}

/// A handler that middleware wraps, with its state.
pub(crate) trait LayeredCall: Send + Sync + 'static {
    type Role: Dispatch;
    type Result: Encode + Send + Sync + 'static;

    fn state(&self) -> &LayeredState<Self::Role, Self::Result>;

    fn state_mut(&mut self) -> &mut LayeredState<Self::Role, Self::Result>;

    /// Starts the handler. This is called once.
    fn start(&mut self) -> Deferred<RpcResult<Self::Result>>;

    /// Keeps the memory for another call, after the response was sent.
    fn recycle(self: Box<Self>) {}
}

/// A handler of any type that middleware wraps.
pub(super) trait AnyCall<E: Role>: AnyAnswer {
    fn chain(&self) -> &Chain<E>;

    fn chain_mut(&mut self) -> &mut Chain<E>;

    /// Runs the next middleware, or the handler after the last one.
    fn proceed(self: Box<Self>) -> Deferred<Completed>;
}

/// The response of a handler of any type.
pub(super) trait AnyAnswer: Any + Send + Sync {
    fn kind(&self) -> &ResponseKind;

    /// Returns the encoded result.
    fn result(&self) -> Option<&JsonObject>;

    fn request(&self) -> RequestIdentity;
}

/// The request that a response belongs to.
pub(super) struct RequestIdentity {
    pub(super) method: Option<Method>,
    in_flight: Arc<dyn Any + Send + Sync>,
}

impl RequestIdentity {
    pub(super) fn of<E: Role>(context: &Context<E>) -> Self {
        let method = context.in_flight.received.get().and_then(|received| received.known());
        Self { method, in_flight: context.in_flight.clone() }
    }

    pub(super) fn is<E: Role>(&self, context: &Context<E>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.in_flight), Arc::as_ptr(&context.in_flight))
    }
}

impl<C: LayeredCall> AnyCall<C::Role> for C {
    fn chain(&self) -> &Chain<C::Role> {
        &self.state().chain
    }

    fn chain_mut(&mut self) -> &mut Chain<C::Role> {
        &mut self.state_mut().chain
    }

    fn proceed(mut self: Box<Self>) -> Deferred<Completed> {
        let chain = self.chain_mut();
        if chain.arguments.is_some()
            && let Err(completed) = chain.pass_arguments()
        {
            return Deferred::ready(completed);
        }
        if chain.request.layer(chain.depth).is_some() {
            return run_inner_layer(self);
        }
        let running = self.start();
        match running.ready_into(&mut self.state_mut().answer) {
            None => Deferred::ready(Completed::of(self)),
            Some(running) => when_ended(self, running),
        }
    }
}

/// Waits for the end of a handler.
#[cold]
fn when_ended<C: LayeredCall>(mut call: Box<C>, running: Deferred<RpcResult<C::Result>>) -> Deferred<Completed> {
    Deferred::new(async move {
        let answer = catch_panic_async(pin!(running)).await;
        call.state_mut().answer = Some(answer);
        Completed::of(call)
    })
}

impl<C: LayeredCall> AnyAnswer for C {
    fn kind(&self) -> &ResponseKind {
        &seen(self).kind
    }

    fn result(&self) -> Option<&JsonObject> {
        let Seen { kind, result } = seen(self);
        let encode = || {
            let LayeredState { chain, answer, .. } = self.state();
            let result = answer.as_ref()?.as_ref().ok()?;
            At(result, Some(chain.request.context().version())).to_json().ok()?.try_into().ok()
        };
        matches!(kind, ResponseKind::Result | ResponseKind::Failed).then(|| result.get_or_init(encode).as_ref())?
    }

    fn request(&self) -> RequestIdentity {
        RequestIdentity::of(self.state().context())
    }
}

fn seen<C: LayeredCall>(call: &C) -> &Seen {
    let state = call.state();
    state.chain.seen.get_or_init(|| Box::new(Seen { kind: state.response_kind(), result: OnceLock::new() }))
}

/// Takes the response of the handler.
pub(super) fn take_answer<C: LayeredCall>(call: &mut C) -> RpcResult<Replaceable<C::Result>> {
    let LayeredState { chain, answer, .. } = call.state_mut();
    let (answer, seen) = (answer.take(), chain.seen.take());
    let result = answer.unwrap_or_else(|| Err(ErrorObject::internal("Internal error")))?;
    Ok(match seen.and_then(|seen| seen.result.into_inner().flatten()) {
        Some(encoded) => Replaceable::Encoded(Box::new((result, encoded))),
        None => Replaceable::Handler(result),
    })
}

/// A handler that is a function of any type.
pub(super) struct FunctionCall<E: Role, F, T> {
    state: LayeredState<E, T>,
    /// Never locked: it makes the call `Sync`.
    handler: Mutex<Option<F>>,
}

impl<E: Role, F, T> FunctionCall<E, F, T> {
    pub(super) const fn new(request: SharedRequest<E>, handler: F) -> Self {
        Self { state: LayeredState::new(request), handler: Mutex::new(Some(handler)) }
    }
}

impl<E: Dispatch, F, T> LayeredCall for FunctionCall<E, F, T>
where
    F: FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    T: Encode + Send + Sync + 'static,
{
    type Role = E;
    type Result = T;

    fn state(&self) -> &LayeredState<E, T> {
        &self.state
    }

    fn state_mut(&mut self) -> &mut LayeredState<E, T> {
        &mut self.state
    }

    fn start(&mut self) -> Deferred<RpcResult<T>> {
        match self.handler.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            Some(handler) => catch_panic(|| handler(self.state.context())),
            None => Deferred::ready(Err(ErrorObject::internal("Internal error"))),
        }
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
    if answer.is_ok() && context.in_flight.role.requires_input() {
        return ResponseKind::InputRequired;
    }
    outcome::<E, T>(answer)
}

/// Returns the result itself, also from within an [`AnyResult`].
fn of_any<T: 'static>(result: &T) -> &dyn Any {
    let result: &dyn Any = result;
    result.downcast_ref().map_or(result, AnyResult::as_any)
}
