//! Responders of requests.

use std::sync::Arc;

use mcp_proto::{connection::SendError, protocol::Phase, rpc::ReplyKey, schema::Encode, wire::ErrorObject};

use super::{
    context::Context,
    in_flight::InFlight,
    layered_call::{LayeredCall, LayeredState, SharedRequest},
    request_scope::RequestScope,
    rpc_result::{AnyResult, EmptyRpcResult, RpcResult, refuse, respond},
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

/// The right to respond to one request. It responds exactly once: dropping it sends an error.
pub(crate) struct Responder<E: Role> {
    key: ReplyKey,
    /// The context of the request. Taken when the response is sent.
    context: Option<Context<E>>,
    /// Whether its handler has started.
    begun: bool,
}

impl<E: Role> Responder<E> {
    /// Creates a responder of a request without a handler.
    pub(crate) fn new(shared: &Arc<SessionState<E>>, connection: &Arc<dyn ConnectionHandle<E>>, key: ReplyKey) -> Self {
        Self::of(shared.context(connection, InFlight::of_request(key, None, |_| {})), key)
    }

    /// Creates a responder with the context of the request.
    pub(crate) const fn of(context: Context<E>, key: ReplyKey) -> Self {
        Self { key, context: Some(context), begun: false }
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

    /// Runs the handler, and responds with its result.
    pub(crate) fn run_and_respond<T: Encode + Send + Sync + 'static>(
        mut self,
        scope: RequestScope<E>,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Deferred<()> {
        self.begin();
        match &self.context {
            Some(context) if !context.is_cancelled() => {
                let answer = scope.run(context, f);
                self.send_when_ready(answer)
            }
            _ => self.send(cancelled()),
        }
    }

    /// Runs a call in memory of its own through its middleware, and responds with its result. `memory` is that of an
    /// earlier call, and then that for the next one.
    pub(crate) fn run_call_and_respond<C: LayeredCall<Role = E>>(
        mut self,
        scope: RequestScope<E>,
        memory: &mut Option<SharedRequest<E>>,
        call: impl FnOnce(LayeredState<E, C::Result>) -> Box<C>,
    ) -> Deferred<()> {
        self.begin();
        let Some(context) = self.context.take_if(|context| !context.is_cancelled()) else {
            return self.send(cancelled());
        };
        // Panics of user code are caught within, so the context comes back.
        let answer = scope.run_call(context, &mut self.context, memory, call);
        self.send_when_ready(answer)
    }

    fn send_when_ready<T: Encode + Send + Sync + 'static>(self, answer: Deferred<RpcResult<T>>) -> Deferred<()> {
        match answer.try_take() {
            Ok(answer) => self.send(answer),
            Err(running) => Deferred::new(async move {
                let answer = running.await;
                self.send(answer).await;
            }),
        }
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
        let Some(connection) = self.context.as_ref().map(|context| context.connection.clone()) else { return };
        let attempt = || if self.try_send(answer) { Ok(()) } else { Err(SendError::Busy) };
        // The response is sent, or the request has ended.
        let _ = connection.when_writable(attempt).await;
    }

    fn try_send<T: Encode>(&mut self, answer: &RpcResult<T>) -> bool {
        let key = self.key;
        let send = |context: &mut Context<E>| {
            if E::CONTINUES_CALLS {
                context.connection.update(|conn, now| {
                    conn.handle_timeout(now);
                    respond(conn, key, answer)
                })
            } else {
                // Without a look at the clock.
                context.connection.update_untimed(|conn| respond(conn, key, answer))
            }
        };
        let context = self.context.take_if(send);
        if let Some(Context { shared, in_flight, .. }) = context {
            shared.in_flight.end(self.key);
            in_flight.recycle();
        }
        self.context.is_none()
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

/// Returns the response to a cancelled request. It is not sent, but it frees the slot of the request.
fn cancelled() -> EmptyRpcResult {
    Err(ErrorObject::internal("Cancelled"))
}

impl<E: Role> Drop for Responder<E> {
    fn drop(&mut self) {
        if let Some(context) = &self.context {
            // A driver drops the jobs that it does not run, or not to their ends. Nothing waits for room any more.
            let error = ErrorObject::internal(self.drop_reason(&context.connection));
            context.connection.update_untimed(|conn| refuse(conn, self.key, &error));
            context.shared.in_flight.end(self.key);
        }
    }
}
