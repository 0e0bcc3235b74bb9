//! Dispatch: finds the code that handles a request or a notification, and runs it.

use std::{
    fmt,
    pin::pin,
    sync::{Arc, atomic::Ordering},
};

use mcp_proto::{
    connection::{CancelCause, Violation},
    protocol::MethodName,
    rpc::ReplyKey,
    schema::{Encode, Meta},
    wire::{ErrorObject, RawJson},
};

use super::{
    answer::{Answer, AnyResult, Refusal, respond},
    catch_panic::{caught, guarded},
    context::{Context, NO_LONGER_NEEDED},
    custom_methods::Dispatch,
    fault::Fault,
    in_flight::Work,
    log,
    middleware::{RequestScope, outcome},
    request::Asked,
    responder::{Reply, of_any_result},
    span::Span,
    state::{Role, Shared},
};
use crate::{
    driver_api::{
        connection_handle::ConnectionHandle,
        deferred::Deferred,
        job::{HandlerKind, Job, Schedule},
    },
    outbound::peer::Peer,
};

impl<E: Dispatch> Shared<E> {
    pub(super) fn asked(self: &Arc<Self>, asked: Asked<'_, E>) -> Option<Job> {
        let asked = match E::asked(self, asked) {
            Ok(job) => return job,
            Err(asked) => asked,
        };
        let method = asked.method.as_str();
        let Some(answerer) = E::custom(&self.home).answerer(method).cloned() else {
            return self.refuse(&asked, ErrorObject::method_not_found(method));
        };
        let params = asked.params.clone().map(RawJson::into_owned);
        Some(self.work(&asked, asked.meta(), answerer.kind, move |context| {
            let request = context.clone();
            let answer = (answerer.run)(params, context.clone());
            answer.map(move |answer| answer.map_err(|failure| request.explain(failure)))
        }))
    }

    /// Responds to a request without a handler: at once if all earlier notifications were handled.
    pub(crate) fn answer<T: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        asked: &Asked<'_, E>,
        f: impl FnOnce(&Self) -> Answer<T> + Send + 'static,
    ) -> Option<Job> {
        let Asked { connection, key, .. } = *asked;
        if E::custom(&self.home).has_layers() {
            let shared = self.clone();
            let run = of_any_result(move |_: &Context<E>| Deferred::ready(f(&shared)));
            return Some(self.work(asked, asked.meta(), HandlerKind::Async, run));
        }
        let span = Span::of(asked);
        let answer = move |shared: &Self| {
            let answer = span.within(|| f(shared));
            span.end(false, || outcome::<E, T>(&answer));
            answer
        };
        if self.sequenced.load(Ordering::Acquire) > 0 {
            let (shared, reply) = (self.clone(), Reply::new(self, connection, key));
            return Some(Job::of(HandlerKind::Async, Schedule::Concurrent, move || {
                reply.send(answer(&shared).map(AnyResult::new))
            }));
        }
        let answer = answer(self);
        if connection.update(|conn, _| respond(conn, key, &answer)) {
            return None;
        }
        let (reply, answer) = (Reply::new(self, connection, key), answer.map(AnyResult::new));
        Some(Job::of(HandlerKind::Async, Schedule::Concurrent, move || reply.send(answer)))
    }

    /// Responds to a request with an error.
    pub(crate) fn refuse(self: &Arc<Self>, asked: &Asked<'_, E>, error: ErrorObject) -> Option<Job> {
        self.answer(asked, move |_| Refusal::Err(error))
    }

    /// Creates the job of this kind that runs the handler of a request.
    ///
    /// The handler of a cancelled request runs to its end: it is not dropped in between.
    pub(crate) fn work<T: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        asked: &Asked<'_, E>,
        meta: Option<Meta>,
        kind: HandlerKind,
        f: impl FnOnce(&Context<E>) -> Deferred<Answer<T>> + Send + 'static,
    ) -> Job {
        let Asked { connection, key, .. } = *asked;
        let scope = self.request_scope(asked);
        let reply = Reply::of(self.context(connection, self.works.begin(key, meta)), key);
        Job::of(kind, Schedule::Concurrent, move || reply.earn(scope, f))
    }

    /// Returns the middleware and the span of a request.
    pub(crate) fn request_scope(&self, asked: &Asked<'_, E>) -> RequestScope<E> {
        RequestScope::of(&E::custom(&self.home).layers, asked)
    }

    pub(super) fn told(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<E>>,
        method: &MethodName<'_>,
        params: Option<RawJson<'_>>,
    ) -> Option<Job> {
        if !E::is_news(self, method, params.as_ref()) {
            return None;
        }
        let listener = E::custom(&self.home).listener(method.as_str())?.clone();
        let peer = Peer::new(connection.clone(), self.calls.clone());
        let params = params.map(RawJson::into_owned);
        let (shared, known) = (self.clone(), method.known());
        Some(self.serial_job(listener.kind, move || {
            (listener.run)(&params, peer).unwrap_or_else(|| {
                if let (Some(critic), Some(method)) = (&E::custom(&shared.home).critic, known) {
                    critic(Fault::Violation(Violation::BadParams(method)));
                }
                Deferred::ready(())
            })
        }))
    }

    pub(super) fn fault(self: &Arc<Self>, fault: Fault) -> Option<Job> {
        log::fault(&fault);
        let critic = E::custom(&self.home).critic.clone()?;
        Some(self.serial_job(HandlerKind::Blocking, move || {
            critic(fault);
            Deferred::ready(())
        }))
    }

    /// Creates the job of a handler that sends no response.
    fn serial_job(self: &Arc<Self>, kind: HandlerKind, f: impl FnOnce() -> Deferred<()> + Send + 'static) -> Job {
        let running = Sequenced::new(self.clone());
        Job::of(kind, Schedule::Serial, move || match caught(|| f().map(Ok)).try_take() {
            // A panic does not affect other jobs.
            Ok(_) => {
                drop(running);
                Deferred::ready(())
            }
            Err(rest) => Deferred::new(async move {
                let _running = running;
                let _ = guarded(pin!(rest)).await;
            }),
        })
    }
}

impl<E: Role> Shared<E> {
    pub(crate) fn context(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<E>>,
        work: Arc<Work<E::Work>>,
    ) -> Context<E> {
        Context::new(self.clone(), connection.clone(), work)
    }

    pub(super) fn cancelled(&self, connection: &Arc<dyn ConnectionHandle<E>>, key: ReplyKey, cause: CancelCause<'_>) {
        if let Some(work) = self.works.get(key) {
            self.stop(connection, &work, own(cause));
        } else if self.tasks.no_longer_awaited(key) {
            // No handler will respond. This response is not sent, but frees the slot of the request.
            connection.update(|conn, _| respond(conn, key, &Refusal::Err(ErrorObject::internal("Cancelled"))));
        }
    }

    /// Cancels all requests and tasks in flight, because the connection has ended.
    pub(super) fn close(&self) {
        self.works.close();
        self.tasks.close();
    }

    /// Cancels a handler and the requests that it waits for.
    pub(crate) fn stop(
        &self,
        connection: &Arc<dyn ConnectionHandle<E>>,
        work: &Work<E::Work>,
        cause: CancelCause<'static>,
    ) {
        let questions = work.cancel(cause);
        if !questions.is_empty() {
            connection.update(|conn, _| {
                for call in questions {
                    // It may have ended meanwhile.
                    let _ = conn.cancel(call, Some(NO_LONGER_NEEDED));
                }
            });
        }
    }
}

impl<E: Role> fmt::Debug for Shared<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("home", &self.home).finish_non_exhaustive()
    }
}

fn own(cause: CancelCause<'_>) -> CancelCause<'static> {
    match cause {
        CancelCause::Peer(reason) => CancelCause::Peer(reason.map(|reason| reason.into_owned().into())),
        CancelCause::Closed => CancelCause::Closed,
        CancelCause::TimedOut => CancelCause::TimedOut,
    }
}

/// A sequential job that has not ended, started or not.
struct Sequenced<E: Role>(Arc<Shared<E>>);

impl<E: Role> Sequenced<E> {
    fn new(shared: Arc<Shared<E>>) -> Self {
        shared.sequenced.fetch_add(1, Ordering::AcqRel);
        Self(shared)
    }
}

impl<E: Role> Drop for Sequenced<E> {
    fn drop(&mut self) {
        self.0.sequenced.fetch_sub(1, Ordering::AcqRel);
    }
}
