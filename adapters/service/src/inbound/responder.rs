//! Responders of requests.

use std::{marker::PhantomData, sync::Arc};

use mcp_proto::{
    connection::{Connection, SendError},
    protocol::Phase,
    rpc::ReplyKey,
    schema::Encode,
    wire::ErrorObject,
};

use super::{
    context::{Context, RequestContext},
    custom_methods::Dispatch,
    in_flight::InFlight,
    layered_call::{LayeredCall, SharedRequest},
    middleware::{CallOutcome, Completed, run_layers},
    request_scope::RequestScope,
    rpc_result::{AnyResult, EmptyRpcResult, ResponseKind, RpcResult, refuse, respond},
    span::Span,
    state::{Role, SessionState},
};
use crate::driver_api::{connection_handle::ConnectionHandle, deferred::Deferred};

/// The code that responds to a request, for results of any type.
pub(crate) type Run<E> = Box<dyn FnOnce(&Context<E>) -> Deferred<RpcResult<AnyResult>> + Send>;

pub(crate) fn of_any_result<E: Role, T: Encode + Send + Sync + 'static>(
    run: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
) -> Run<E> {
    Box::new(move |context| run(context).map(|answer| answer.map(AnyResult::new)))
}

/// The context of a request without middleware.
pub(crate) struct OwnContext<E: Role>(Context<E>);

impl<E: Role> RequestContext<E> for OwnContext<E> {
    fn context(&self) -> &Context<E> {
        &self.0
    }

    fn recycle(self) {
        self.0.recycle();
    }
}

/// The right to respond to one request. It responds exactly once: dropping it sends an error.
pub(crate) struct Responder<E: Role, C: RequestContext<E> = OwnContext<E>> {
    key: ReplyKey,
    /// The context of the request. Taken when the response is sent.
    context: Option<C>,
    /// Whether its handler has started.
    begun: bool,
    role: PhantomData<fn() -> E>,
}

impl<E: Dispatch> Responder<E> {
    /// Creates a responder of a request without a handler.
    pub(crate) fn new(shared: &Arc<SessionState<E>>, connection: &Arc<dyn ConnectionHandle<E>>, key: ReplyKey) -> Self {
        Self::of(shared.context(connection, InFlight::of_request(InFlight::from_pool(), key, None, |_| {})), key)
    }

    /// Creates a responder with the context of the request.
    pub(crate) const fn of(context: Context<E>, key: ReplyKey) -> Self {
        Self::with(OwnContext(context), key)
    }

    /// Runs the handler, and responds with its result.
    pub(crate) fn run_and_respond<T: Encode + Send + Sync + 'static>(
        mut self,
        scope: RequestScope,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Deferred<()> {
        self.begin();
        match &self.context {
            Some(OwnContext(context)) if !context.is_cancelled() && scope.has_layers() => {
                let answer = scope.run(context, f);
                self.send_when_ready(answer)
            }
            Some(OwnContext(context)) if !context.is_cancelled() => {
                let answer = scope.run_handler(context, f);
                self.send_when_ready(answer)
            }
            _ => self.send(cancelled()),
        }
    }

    #[inline]
    fn send_when_ready<T: Encode + Send + Sync + 'static>(mut self, answer: Deferred<RpcResult<T>>) -> Deferred<()> {
        if let Some(answer) = answer.peek()
            && self.try_send(answer)
        {
            return Deferred::ready(());
        }
        Deferred::new(async move { self.send_when_writable(&answer.await).await })
    }
}

impl<E: Dispatch> Responder<E, SharedRequest<E>> {
    /// Creates a responder of a request with middleware.
    pub(crate) const fn of_shared(request: SharedRequest<E>, key: ReplyKey) -> Self {
        Self::with(request, key)
    }

    /// Runs a call in memory of its own through its middleware, and responds with its result.
    #[inline]
    pub(crate) fn run_call_and_respond<C: LayeredCall<Role = E>>(mut self, span: Span, call: Box<C>) -> Deferred<()> {
        self.begin();
        let request = self.context.as_ref().filter(|request| !request.context().is_cancelled());
        let Some(request) = request else { return self.send_cancelled() };
        match span.within(|| run_layers(call, request)) {
            Ok(completed) => match ended::<C>(&span, request, completed) {
                Ok(call) if self.try_send_call(&*call) => {
                    call.recycle();
                    Deferred::ready(())
                }
                outcome => self.send_outcome(outcome),
            },
            Err(running) => self.send_when_completed::<C>(span, running),
        }
    }

    /// Waits for the outcome of a call, and responds with its result. Panics of user code are caught within.
    #[cold]
    fn send_when_completed<C: LayeredCall<Role = E>>(self, span: Span, running: Deferred<Completed>) -> Deferred<()> {
        Deferred::new(async move {
            let completed = span.instrument(running).await;
            let Some(request) = &self.context else { return };
            let outcome = ended::<C>(&span, request, completed);
            self.send_outcome(outcome).await;
        })
    }

    #[cold]
    fn send_cancelled(self) -> Deferred<()> {
        self.send(cancelled())
    }

    /// Sends the response of a handler, or the one that middleware has set.
    #[cold]
    fn send_outcome<C: LayeredCall<Role = E>>(self, outcome: CallOutcome<C>) -> Deferred<()> {
        match outcome {
            Ok(call) => self.send_call(call),
            Err(answer) => self.send(*answer),
        }
    }

    /// Sends the response of a handler from the memory of its call, as soon as there is room for it.
    fn send_call<C: LayeredCall<Role = E>>(mut self, call: Box<C>) -> Deferred<()> {
        if self.try_send_call(&*call) {
            call.recycle();
            return Deferred::ready(());
        }
        Deferred::new(async move {
            let Some(connection) = self.context.as_ref().map(|request| request.context().connection.clone()) else {
                return;
            };
            let attempt = || if self.try_send_call(&*call) { Ok(()) } else { Err(SendError::Busy) };
            // As below.
            let _ = connection.when_writable(attempt).await;
            call.recycle();
        })
    }

    #[inline]
    fn try_send_call<C: LayeredCall<Role = E>>(&mut self, call: &C) -> bool {
        let key = self.key;
        // The call recycles the entry of its request.
        self.respond_and_end(|conn| call.state().respond(conn, key)).is_some()
    }
}

impl<E: Role, C: RequestContext<E>> Responder<E, C> {
    const fn with(context: C, key: ReplyKey) -> Self {
        Self { key, context: Some(context), begun: false, role: PhantomData }
    }

    pub(crate) const fn key(&self) -> ReplyKey {
        self.key
    }

    /// Disarms the responder: another response was sent.
    pub(crate) fn disarm(mut self) {
        self.context = None;
    }

    /// Notes that the handler starts.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// Sends the response, as soon as there is room for it.
    pub(crate) fn send<T: Encode + Send + Sync + 'static>(mut self, answer: RpcResult<T>) -> Deferred<()> {
        if self.try_send(&answer) {
            return Deferred::ready(());
        }
        Deferred::new(async move { self.send_when_writable(&answer).await })
    }

    /// Waits for room, and sends the response.
    pub(crate) async fn send_when_writable<T: Encode>(mut self, answer: &RpcResult<T>) {
        let Some(connection) = self.context.as_ref().map(|context| context.context().connection.clone()) else {
            return;
        };
        let attempt = || if self.try_send(answer) { Ok(()) } else { Err(SendError::Busy) };
        // The response is sent, or the request has ended.
        let _ = connection.when_writable(attempt).await;
    }

    #[inline]
    fn try_send<T: Encode>(&mut self, answer: &RpcResult<T>) -> bool {
        let key = self.key;
        let ended = self.respond_and_end(|conn| respond(conn, key, answer.as_ref()));
        ended.map(C::recycle).is_some()
    }

    /// Sends the response with `respond`, which returns `false` if the outbox has no room. Returns the context if the
    /// request has ended.
    #[inline]
    fn respond_and_end(&mut self, respond: impl FnOnce(&mut Connection<E>) -> bool) -> Option<C> {
        let Context { shared, connection, .. } = self.context.as_ref()?.context();
        let sent = if E::CONTINUES_CALLS {
            connection.update(|conn, now| {
                conn.handle_timeout(now);
                respond(conn)
            })
        } else {
            // Without a look at the clock.
            connection.update_untimed(respond)
        };
        if !sent {
            return None;
        }
        shared.in_flight.end(self.key);
        self.context.take()
    }

    /// Responds to a request that was dropped. Nothing waits for room any more.
    #[cold]
    fn refuse(&self, Context { shared, connection, .. }: &Context<E>) {
        let error = ErrorObject::internal(self.drop_reason(connection));
        connection.update_untimed(|conn| refuse(conn, self.key, &error));
        shared.in_flight.end(self.key);
    }

    /// Returns the reason that a request gets if it is dropped.
    fn drop_reason(&self, connection: &Arc<dyn ConnectionHandle<E>>) -> &'static str {
        let ends = connection.read(|conn| conn.phase() >= Phase::Draining);
        match (ends, self.begun) {
            (true, _) => "The connection ends before this request was served",
            (false, true) => "The handler of this request was dropped",
            (false, false) => "Too many requests wait to be served",
        }
    }
}

/// Returns the outcome of a request, and records its end in the span.
#[inline(always)]
fn ended<C: LayeredCall>(span: &Span, request: &SharedRequest<C::Role>, completed: Completed) -> CallOutcome<C> {
    let outcome = completed.into_call::<C>(request);
    span.end(request.context().is_cancelled(), || match &outcome {
        Ok(call) => call.state().response_kind(),
        Err(answer) => match &**answer {
            Ok(replaced) => replaced.kind.clone(),
            Err(error) => ResponseKind::Error(error.clone()),
        },
    });
    outcome
}

/// Returns the response to a cancelled request. It is not sent, but it frees the slot of the request.
fn cancelled() -> EmptyRpcResult {
    Err(ErrorObject::internal("Cancelled"))
}

impl<E: Role, C: RequestContext<E>> Drop for Responder<E, C> {
    fn drop(&mut self) {
        if let Some(context) = &self.context {
            // A driver drops the jobs that it does not run, or not to their ends.
            self.refuse(context.context());
        }
    }
}
