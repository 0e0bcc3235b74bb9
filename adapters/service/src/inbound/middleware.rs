//! Middleware: code that runs around every answer.

use std::{
    any::Any,
    fmt,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{
    connection::ServerEnd,
    wire::{ErrorObject, RequestId},
};

use super::{
    answer::{Answer, Answered, AnyResult},
    catch_panic::{caught, guarded},
    context::Context,
    failure::Failure,
    in_flight::RoleWork,
    request::{Asked, Subject, subject},
    span::Span,
    state::Role,
};
use crate::{driver_api::deferred::Deferred, util::lock::lock};

/// A request of the peer before it is handled, as [middleware](crate::ServiceBuilder::around) sees it.
pub struct Incoming<E: Role = ServerEnd> {
    subject: Arc<Subject>,
    context: Context<E>,
}

impl<E: Role> Incoming<E> {
    /// The method, for example `tools/call`.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.subject.method
    }

    /// What it is about: the name of a tool or a prompt, the URI of a resource, the id of a task. There need not be one of
    /// that name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.subject.name.as_deref()
    }

    /// The id that the peer has given it.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.subject.id.as_ref()
    }

    /// What its handler is going to see: who asks, in which revision, whether anybody still waits.
    #[must_use]
    pub const fn context(&self) -> &Context<E> {
        &self.context
    }
}

impl<E: Role> Clone for Incoming<E> {
    fn clone(&self) -> Self {
        Self { subject: self.subject.clone(), context: self.context.clone() }
    }
}

impl<E: Role> fmt::Debug for Incoming<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject { id, method, name } = &*self.subject;
        f.debug_struct("Incoming").field("id", id).field("method", method).field("name", name).finish_non_exhaustive()
    }
}

/// What comes behind a piece of [middleware](crate::ServiceBuilder::around): more of it, and the handler. Dropping it without
/// running it means that the handler never runs.
#[must_use = "nothing happens before it is run"]
pub struct Rest<E: Role = ServerEnd> {
    layers: Layers<E>,
    /// How many of them are behind us.
    behind: usize,
    incoming: Incoming<E>,
    handler: Deferred<Ended>,
}

impl<E: Role> Rest<E> {
    /// Runs it; how it ended. A panic in it has become an error by then.
    pub async fn run(self) -> Ended {
        let Self { layers, behind, incoming, handler } = self;
        let Some(layer) = layers.get(behind).cloned() else { return handler.await };
        let (context, began) = (incoming.context.clone(), now(&incoming.context));
        let rest = Self { layers, behind: behind + 1, incoming: incoming.clone(), handler };
        let ended = pin!(async {
            let ended = layer(incoming, rest).await;
            ended.map_err(|failure| context.explain(failure))
        });
        guarded(ended).await.unwrap_or_else(|error| Ended {
            answered: Answered::Error(error),
            took: elapsed(&context, began),
            replaced: true,
        })
    }
}

impl<E: Role> fmt::Debug for Rest<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").field("incoming", &self.incoming).finish_non_exhaustive()
    }
}

/// How a handler ended. It is only to be had by [running](Rest::run) one.
#[derive(Debug)]
pub struct Ended {
    answered: Answered,
    took: Duration,
    /// Middleware has put this in the place of what the handler came to.
    replaced: bool,
}

impl Ended {
    /// What the request is answered with.
    #[must_use]
    pub const fn answered(&self) -> &Answered {
        &self.answered
    }

    /// The error that the request is answered with.
    #[must_use]
    pub const fn error(&self) -> Option<&ErrorObject> {
        match &self.answered {
            Answered::Error(error) => Some(error),
            _ => None,
        }
    }

    /// How long it took, by the clock of the connection.
    #[must_use]
    pub const fn took(&self) -> Duration {
        self.took
    }
}

/// A piece of middleware.
pub(crate) type Layer<E> = Arc<dyn Fn(Incoming<E>, Rest<E>) -> Deferred<Result<Ended, Failure>> + Send + Sync>;

/// All of it, the outermost first.
pub(crate) type Layers<E> = Arc<Vec<Layer<E>>>;

pub(crate) fn layer<E: Role, T>(f: impl Fn(Incoming<E>, Rest<E>) -> T + Send + Sync + 'static) -> Layer<E>
where
    T: Future<Output = Result<Ended, Failure>> + Send + 'static,
{
    Arc::new(move |incoming, rest| Deferred::new(f(incoming, rest)))
}

/// What is around the answer to one request.
pub(crate) struct Around<E: Role> {
    /// There is none of it unless there is middleware.
    middleware: Option<(Layers<E>, Arc<Subject>)>,
    span: Span,
}

impl<E: Role> Around<E> {
    pub(crate) fn of(layers: &Layers<E>, asked: &Asked<'_, E>) -> Self {
        let middleware = (!layers.is_empty()).then(|| (layers.clone(), Arc::new(subject(asked))));
        Self { middleware, span: Span::of(asked) }
    }

    /// Answers a request. A panic on the way is an error.
    pub(crate) fn run<T: Send + 'static>(
        self,
        context: &Context<E>,
        f: impl FnOnce(&Context<E>) -> Deferred<Answer<T>> + Send + 'static,
    ) -> Deferred<Answer<T>> {
        let Self { middleware, span } = self;
        let begun = span.within(|| match middleware {
            None => caught(|| f(context)),
            Some((layers, subject)) => {
                Deferred::poll_once(through(layers, Incoming { subject, context: context.clone() }, f))
            }
        });
        let end = |span: &Span, context: &Context<E>, answer: &Answer<T>| {
            span.end(context.is_cancelled(), || answered(context, answer));
        };
        match begun.try_take() {
            Ok(answer) => {
                end(&span, context, &answer);
                Deferred::ready(answer)
            }
            Err(running) => {
                let context = context.clone();
                Deferred::new(async move {
                    let answer = span.around(guarded(pin!(running))).await;
                    end(&span, &context, &answer);
                    answer
                })
            }
        }
    }
}

/// Answers a request through all the middleware.
async fn through<E: Role, T: Send + 'static>(
    layers: Layers<E>,
    incoming: Incoming<E>,
    f: impl FnOnce(&Context<E>) -> Deferred<Answer<T>> + Send + 'static,
) -> Answer<T> {
    let (place, context) = (Arc::new(Mutex::new(None)), incoming.context.clone());
    let handler = {
        let place = place.clone();
        Deferred::new(async move {
            let began = now(&context);
            let answer = guarded(pin!(caught(|| f(&context)))).await;
            let answered = answered(&context, &answer);
            *lock(&place) = Some(answer);
            Ended { answered, took: elapsed(&context, began), replaced: false }
        })
    };
    let Ended { answered, replaced, .. } = Rest { layers, behind: 0, incoming, handler }.run().await;
    let answer = lock(&place).take();
    match (answered, answer) {
        (Answered::Error(error), _) if replaced => Err(error),
        (_, Some(answer)) => answer,
        // A layer kept the outcome of another request and returned it for this one.
        (_, None) => Err(ErrorObject::internal("Internal error")),
    }
}

fn now<E: Role>(context: &Context<E>) -> mcp_proto::rpc::Timestamp {
    context.connection.update(|_, now| now)
}

fn elapsed<E: Role>(context: &Context<E>, since: mcp_proto::rpc::Timestamp) -> Duration {
    now(context).saturating_since(since)
}

/// What an answer that was given without a handler is.
pub(crate) fn outcome<E: Role, T: 'static>(answer: &Answer<T>) -> Answered {
    match answer {
        Err(error) => Answered::Error(error.clone()),
        Ok(result) if E::has_failed(of_any(result)) => Answered::Failed,
        Ok(_) => Answered::Result,
    }
}

/// What the answer of a handler is.
fn answered<E: Role, T: 'static>(context: &Context<E>, answer: &Answer<T>) -> Answered {
    if context.work.role.has_asked() {
        return Answered::Questions;
    }
    outcome::<E, T>(answer)
}

/// The result itself, if it is of any type.
fn of_any<T: 'static>(result: &T) -> &dyn Any {
    let result: &dyn Any = result;
    result.downcast_ref().map_or(result, AnyResult::as_any)
}
