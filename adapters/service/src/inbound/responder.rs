//! Answers.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use mcp_proto::{
    connection::{Connection, SendError},
    protocol::{Phase, ProtocolVersion},
    rpc::ReplyKey,
    schema::{EmptyResult, Encode, JsonLine},
    wire::{ErrorObject, Json},
};
use serde_core::{Serialize, Serializer, ser::Error as _};

use super::{context::Context, in_flight::Work, middleware::Around, session::Shared, span, state::Role};
use crate::driver_api::{connection_handle::Link, deferred::Later};

/// What became of a request.
pub(crate) type Answer<T> = Result<T, ErrorObject>;

/// An answer that is an error for sure.
pub(crate) type Refusal = Answer<EmptyResult>;

/// A result of any type. Most methods are not asked for all the time: what becomes of their results is the same code for all of
/// them, and not some for each type, which would be most of a small server.
pub(crate) struct AnyResult(Box<dyn Sendable>);

trait Sendable: Send + Sync {
    fn append(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error>;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Encode + Send + Sync + 'static> Sendable for T {
    fn append(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        self.append_at(version, out)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl AnyResult {
    pub(crate) fn new(result: impl Encode + Send + Sync + 'static) -> Self {
        Self(Box::new(result))
    }

    /// What it is.
    pub(crate) fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }
}

impl Encode for AnyResult {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = Vec::new();
        self.0.append(version, &mut JsonLine::new(&mut text)).map_err(S::Error::custom)?;
        serde_json::from_slice::<Json>(&text).map_err(S::Error::custom)?.serialize(serializer)
    }

    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        self.0.append(version, out)
    }
}

/// What answers a request, whatever the type of its result.
pub(crate) type Run<E> = Box<dyn FnOnce(&Context<E>) -> Later<Answer<AnyResult>> + Send>;

pub(crate) fn of_any_result<E: Role, T: Encode + Send + Sync + 'static>(
    run: impl FnOnce(&Context<E>) -> Later<Answer<T>> + Send + 'static,
) -> Run<E> {
    Box::new(move |context| run(context).map(|answer| answer.map(AnyResult::new)))
}

/// Begins code of the user. If it panics, that is the failure of this request alone, and nobody hears details.
pub(crate) fn caught<T>(begin: impl FnOnce() -> Later<Answer<T>>) -> Later<Answer<T>> {
    // As below.
    catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| {
        span::panicked();
        Later::ready(Err(ErrorObject::internal("Internal error")))
    })
}

/// Goes on with code of the user. If it panics, that is the failure of this request alone, and nobody hears details.
pub(crate) fn guarded<T>(mut f: Pin<&mut impl Future<Output = Answer<T>>>) -> impl Future<Output = Answer<T>> {
    // What `f` leaves behind half-done is its own: nothing of this crate is under a lock while it runs.
    poll_fn(move |cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| f.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| {
            span::panicked();
            Poll::Ready(Err(ErrorObject::internal("Internal error")))
        })
    })
}

/// Answers a request; `false` if there is no room now. An answer that cannot be sent becomes an error that can.
pub(crate) fn respond<E, T: Encode>(conn: &mut Connection<E>, key: ReplyKey, answer: &Answer<T>) -> bool {
    let sent = match answer {
        Ok(result) => conn.respond_or_error(key, result).map(|unsent| unsent.iter().for_each(span::unsent)),
        Err(error) => match conn.respond_error(key, error) {
            Err(why @ SendError::TooLarge) => {
                span::unsent(&why);
                conn.respond_error(key, &ErrorObject::internal("Internal error: the error is larger than the limit"))
            }
            sent => sent,
        },
    };
    // Beside that, there is nothing to answer any more, or no way to do so.
    sent != Err(SendError::Busy)
}

/// The answer that a request is owed. It is given once, whatever becomes of whoever should give it.
pub(crate) struct Reply<E: Role> {
    key: ReplyKey,
    /// What is known of the work on it. Absent once it is given.
    context: Option<Context<E>>,
    /// Whether work on it has begun.
    begun: bool,
}

impl<E: Role> Reply<E> {
    /// Where no handler works on it.
    pub(crate) fn new(shared: &Arc<Shared<E>>, link: &Arc<dyn Link<E>>, key: ReplyKey) -> Self {
        Self::of(shared.context(link, Work::of_request(key, None)), key)
    }

    /// What comes of this work.
    pub(crate) const fn of(context: Context<E>, key: ReplyKey) -> Self {
        Self { key, context: Some(context), begun: false }
    }

    pub(crate) const fn key(&self) -> ReplyKey {
        self.key
    }

    /// It was answered in another way.
    pub(crate) fn given(mut self) {
        self.context = None;
    }

    /// The work on the answer begins.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// Does the work, and answers with what comes of it.
    pub(crate) fn earn<T: Encode + Send + Sync + 'static>(
        mut self,
        around: Around<E>,
        f: impl FnOnce(&Context<E>) -> Later<Answer<T>> + Send + 'static,
    ) -> Later<()> {
        self.begin();
        let answer = match &self.context {
            Some(context) if !context.is_cancelled() => around.run(context, f),
            // The answer goes nowhere, but it is what frees the request's place.
            _ => Later::ready(Err(ErrorObject::internal("Cancelled"))),
        };
        match answer.now() {
            Ok(answer) => self.send(answer),
            Err(running) => Later::new(async move {
                let answer = running.await;
                self.send(answer).await;
            }),
        }
    }

    /// Answers, as soon as there is room for it.
    pub(crate) fn send<T: Encode + Send + Sync + 'static>(mut self, answer: Answer<T>) -> Later<()> {
        if self.try_send(&answer) {
            return Later::ready(());
        }
        Later::new(async move {
            let Some(link) = self.context.as_ref().map(|context| context.link.clone()) else { return };
            let attempt = || if self.try_send(&answer) { Ok(()) } else { Err(SendError::Busy) };
            // It is sent, or there is nobody to send it to.
            let _ = link.say(attempt).await;
        })
    }

    fn try_send<T: Encode>(&mut self, answer: &Answer<T>) -> bool {
        let context = self.context.take_if(|context| context.link.change(|conn| respond(conn, self.key, answer)));
        if let Some(Context { shared, work, .. }) = context {
            shared.works.end(self.key);
            work.over();
        }
        self.context.is_none()
    }

    /// Why nobody answers, if that is so.
    fn excuse(&self, link: &Arc<dyn Link<E>>) -> &'static str {
        let ends = link.look(|conn| conn.phase() >= Phase::Draining);
        match (ends, self.begun) {
            (true, _) => "The connection ends before this request was served",
            (false, true) => "The work on this request was given up",
            (false, false) => "Too many requests wait to be served",
        }
    }
}

impl<E: Role> Drop for Reply<E> {
    fn drop(&mut self) {
        if let Some(context) = &self.context {
            // A driver drops the jobs that it does not run, or not to their ends.
            let (shared, excuse) = (context.shared.clone(), self.excuse(&context.link));
            self.try_send(&Refusal::Err(ErrorObject::internal(excuse)));
            shared.works.end(self.key);
        }
    }
}
