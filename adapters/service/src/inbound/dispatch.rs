//! Dispatch: finds the code that handles a request or a notification, and runs it.

use std::{
    fmt,
    ops::ControlFlow,
    pin::pin,
    sync::{Arc, atomic::Ordering},
};

use mcp_proto::{
    connection::{CancelCause, Violation},
    protocol::MethodName,
    rpc::{CallId, ReplyKey},
    schema::{EmptyResult, Encode},
    wire::{ErrorObject, RawJson},
};

use super::{
    catch_panic::{catch_panic, catch_panic_async},
    context::{Context, NO_LONGER_NEEDED},
    custom_methods::Dispatch,
    fault::Fault,
    in_flight::InFlight,
    layered_call::outcome,
    log,
    received::Received,
    request::InboundRequest,
    request_scope::RequestScope,
    responder::{Responder, of_any_result},
    rpc_result::{AnyResult, EmptyRpcResult, RpcResult, respond},
    span::Span,
    state::{Role, SessionState},
};
use crate::{
    driver_api::{
        connection_handle::ConnectionHandle,
        deferred::Deferred,
        job::{HandlerKind, Job, Schedule},
    },
    outbound::peer::Peer,
};

impl<E: Dispatch> SessionState<E> {
    pub(super) fn handle_request(self: &Arc<Self>, inbound: &InboundRequest<'_, E>) -> Option<Job> {
        if let ControlFlow::Break(job) = E::handle_request(self, inbound) {
            return job;
        }
        let method = inbound.method.as_str();
        let Some(request_handler) = E::custom(&self.app).request_handler(method).cloned() else {
            return self.refuse(inbound, ErrorObject::method_not_found(method));
        };
        let params = inbound.params.clone().map(RawJson::into_owned);
        Some(self.handler_job(inbound, request_handler.kind, move |context| {
            let request = context.clone();
            let answer = (request_handler.run)(params, context.clone());
            answer.map(move |answer| answer.map_err(|failure| request.explain(failure)))
        }))
    }

    /// Responds to a request without a handler: at once if all earlier notifications were handled.
    pub(crate) fn answer<T: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        inbound: &InboundRequest<'_, E>,
        f: impl FnOnce(&Self) -> RpcResult<T> + Send + 'static,
    ) -> Option<Job> {
        let InboundRequest { connection, key, .. } = *inbound;
        if self.has_layers() {
            let shared = self.clone();
            let run = of_any_result(move |_: &Context<E>| Deferred::ready(f(&shared)));
            let in_flight = self.begin_request(inbound, inbound.meta().as_ref(), false);
            return Some(self.scoped_job(inbound, in_flight, HandlerKind::Async, run));
        }
        let span = Span::of(inbound);
        let answer = move |shared: &Self| {
            let answer = span.within(|| f(shared));
            span.end(false, || outcome::<E, T>(answer.as_ref()));
            answer
        };
        if self.serial_jobs.load(Ordering::Acquire) > 0 {
            let (shared, responder) = (self.clone(), Responder::new(self, connection, key));
            return Some(Job::of(HandlerKind::Async, Schedule::Concurrent, move || {
                responder.send(answer(&shared).map(AnyResult::new))
            }));
        }
        let answer = answer(self);
        if connection.update(|conn, _| respond(conn, key, answer.as_ref())) {
            return None;
        }
        let (responder, answer) = (Responder::new(self, connection, key), answer.map(AnyResult::new));
        Some(Job::of(HandlerKind::Async, Schedule::Concurrent, move || responder.send(answer)))
    }

    /// Responds to a request with an error.
    pub(crate) fn refuse(self: &Arc<Self>, inbound: &InboundRequest<'_, E>, error: ErrorObject) -> Option<Job> {
        self.answer(inbound, move |_| EmptyRpcResult::Err(error))
    }

    /// Creates the job of this kind that runs the handler of a request.
    ///
    /// The handler of a cancelled request runs to its end: it is not dropped in between.
    pub(crate) fn handler_job<T: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        inbound: &InboundRequest<'_, E>,
        kind: HandlerKind,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Job {
        self.scoped_job(inbound, self.begin_request(inbound, inbound.meta().as_ref(), true), kind, f)
    }

    /// Creates the job of this kind that responds to a request whose entry exists.
    pub(crate) fn scoped_job<T: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        inbound: &InboundRequest<'_, E>,
        in_flight: Arc<InFlight<E::InFlight>>,
        kind: HandlerKind,
        f: impl FnOnce(&Context<E>) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> Job {
        let InboundRequest { connection, key, .. } = *inbound;
        let scope = self.request_scope(inbound);
        let responder = Responder::of(self.context(connection, in_flight), key);
        Job::of(kind, Schedule::Concurrent, move || responder.run_and_respond(scope, f))
    }

    /// Adds the entry of a request, and records the request for middleware, if there is any.
    pub(crate) fn begin_request(
        &self,
        inbound: &InboundRequest<'_, E>,
        meta: Option<&RawJson<'_>>,
        has_handler: bool,
    ) -> Arc<InFlight<E::InFlight>> {
        self.in_flight.begin(InFlight::from_pool(), inbound.key, meta, |in_flight| {
            E::on_request(self, inbound, &mut in_flight.role);
            if self.has_layers() {
                in_flight.record(|received| received.record(inbound, None, has_handler));
            }
        })
    }

    /// Adds the entry of a request with a handler and middleware. `arguments` are those in its params. `entry` is
    /// reused, if there is one.
    pub(crate) fn begin_layered_request(
        &self,
        entry: Option<Arc<InFlight<E::InFlight>>>,
        inbound: &InboundRequest<'_, E>,
        meta: Option<&RawJson<'_>>,
        arguments: &RawJson<'_>,
    ) -> Arc<InFlight<E::InFlight>> {
        self.in_flight.begin(entry.or_else(InFlight::from_pool), inbound.key, meta, |in_flight| {
            E::on_request(self, inbound, &mut in_flight.role);
            in_flight.record(|received| received.record(inbound, Some(arguments), true));
        })
    }

    /// Returns the request of a task of a session, for the middleware that wraps the task. Its connection will not know
    /// the request any more.
    pub(crate) fn received_for_task(&self, inbound: &InboundRequest<'_, E>) -> Option<Box<Received>> {
        self.has_layers().then(|| {
            let mut received = Box::<Received>::default();
            received.record(inbound, None, true);
            received.id(|| inbound.connection.read(|conn| conn.request_id(inbound.key).cloned()));
            received
        })
    }

    /// Returns whether the application has middleware.
    pub(crate) fn has_layers(&self) -> bool {
        E::custom(&self.app).has_layers()
    }

    /// Returns the scope of a request.
    pub(crate) fn request_scope(&self, inbound: &InboundRequest<'_, E>) -> RequestScope {
        RequestScope::new(self.has_layers(), inbound)
    }

    pub(super) fn handle_notification(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<E>>,
        method: &MethodName<'_>,
        params: Option<RawJson<'_>>,
        related_call: Option<CallId>,
    ) -> Option<Job> {
        if !E::accepts_notification(self, method, params.as_ref(), related_call) {
            return None;
        }
        let notification_handler = E::custom(&self.app).notification_handler(method.as_str())?.clone();
        let peer = Peer::new(connection.clone(), self.calls.clone());
        let params = params.map(RawJson::into_owned);
        let (shared, known) = (self.clone(), method.known());
        Some(self.serial_job(notification_handler.kind, move || {
            (notification_handler.run)(&params, peer).unwrap_or_else(|| {
                if let (Some(fault_handler), Some(method)) = (&E::custom(&shared.app).fault_handler, known) {
                    fault_handler(Fault::Violation(Violation::BadParams(method)));
                }
                Deferred::ready(())
            })
        }))
    }

    pub(super) fn fault(self: &Arc<Self>, fault: Fault) -> Option<Job> {
        log::fault(&fault);
        let fault_handler = E::custom(&self.app).fault_handler.clone()?;
        Some(self.serial_job(HandlerKind::Blocking, move || {
            fault_handler(fault);
            Deferred::ready(())
        }))
    }

    /// Creates the job of a handler that sends no response.
    fn serial_job(self: &Arc<Self>, kind: HandlerKind, f: impl FnOnce() -> Deferred<()> + Send + 'static) -> Job {
        let running = SerialGuard::new(self.clone());
        Job::of(kind, Schedule::Serial, move || match catch_panic(|| f().map(Ok)).try_take() {
            // A panic does not affect other jobs.
            Ok(_) => {
                drop(running);
                Deferred::ready(())
            }
            Err(rest) => Deferred::new(async move {
                let _running = running;
                let _ = catch_panic_async(pin!(rest)).await;
            }),
        })
    }
}

impl<E: Role> SessionState<E> {
    pub(crate) fn context(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<E>>,
        in_flight: Arc<InFlight<E::InFlight>>,
    ) -> Context<E> {
        Context::new(self.clone(), connection.clone(), in_flight)
    }

    pub(super) fn cancelled(&self, connection: &Arc<dyn ConnectionHandle<E>>, key: ReplyKey, cause: CancelCause<'_>) {
        E::on_cancelled(self, key);
        if let Some(in_flight) = self.in_flight.get(key) {
            self.stop(connection, &in_flight, into_static(cause));
        } else if self.tasks.no_longer_awaited(key) {
            // No handler will respond. This response is not sent, but frees the slot of the request.
            let error = ErrorObject::internal("Cancelled");
            connection.update(|conn, _| respond::<_, EmptyResult>(conn, key, Err(&error)));
        }
    }

    /// Cancels all requests and tasks in flight, because the connection has ended.
    pub(super) fn close(&self) {
        self.in_flight.close();
        self.tasks.close();
        E::on_closed(self);
    }

    /// Cancels a handler and the requests that it waits for.
    pub(crate) fn stop(
        &self,
        connection: &Arc<dyn ConnectionHandle<E>>,
        in_flight: &InFlight<E::InFlight>,
        cause: CancelCause<'static>,
    ) {
        let calls = in_flight.cancel(cause);
        if !calls.is_empty() {
            connection.update(|conn, _| {
                for call in calls {
                    // The call may have ended in the meantime.
                    let _ = conn.cancel(call, Some(NO_LONGER_NEEDED));
                }
            });
        }
    }
}

impl<E: Role> fmt::Debug for SessionState<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionState").field("app", &self.app).finish_non_exhaustive()
    }
}

fn into_static(cause: CancelCause<'_>) -> CancelCause<'static> {
    match cause {
        CancelCause::Peer(reason) => CancelCause::Peer(reason.map(|reason| reason.into_owned().into())),
        CancelCause::Closed => CancelCause::Closed,
        CancelCause::TimedOut => CancelCause::TimedOut,
    }
}

/// A sequential job that has not ended, started or not.
struct SerialGuard<E: Role>(Arc<SessionState<E>>);

impl<E: Role> SerialGuard<E> {
    fn new(shared: Arc<SessionState<E>>) -> Self {
        shared.serial_jobs.fetch_add(1, Ordering::AcqRel);
        Self(shared)
    }
}

impl<E: Role> Drop for SerialGuard<E> {
    fn drop(&mut self) {
        self.0.serial_jobs.fetch_sub(1, Ordering::AcqRel);
    }
}
