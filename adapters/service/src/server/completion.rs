//! Completion: proposals for the value of an argument.

use std::{collections::HashMap, future::Future};

use mcp_proto::schema::{Completion, Map};

use crate::{
    driver_api::{
        deferred::Deferred,
        job::{BoxedHandler, HandlerKind},
    },
    inbound::{context::Context, failure::Failure},
};

/// A request for proposals for the value of an argument.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// The value so far.
    pub value: String,
    /// The other arguments, as far as the client sent them (2025-06-18).
    pub known: Map<String>,
    /// The context of the request.
    pub context: Context,
}

/// A type that can be proposals: texts, the best first, a whole [`Completion`], or a `Result` of these.
///
/// Of texts, the first 100 and their total number are sent.
pub trait IntoCompletion {
    /// Converts it into a completion.
    ///
    /// # Errors
    /// The failure of the completer.
    fn into_completion(self) -> Result<Completion, Failure>;
}

impl IntoCompletion for Completion {
    fn into_completion(mut self) -> Result<Completion, Failure> {
        if self.values.len() > Self::MAX_VALUES {
            self.total = self.total.or_else(|| u64::try_from(self.values.len()).ok());
            self.has_more = Some(true);
            self.values.truncate(Self::MAX_VALUES);
        }
        Ok(self)
    }
}

macro_rules! texts {
    ($($Type:ty),*) => {
        $(impl IntoCompletion for Vec<$Type> {
            fn into_completion(self) -> Result<Completion, Failure> {
                Ok(Completion::of(self))
            }
        })*
    };
}

texts!(String, &'static str);

impl<T: IntoCompletion, E: Into<Failure>> IntoCompletion for Result<T, E> {
    fn into_completion(self) -> Result<Completion, Failure> {
        self.map_err(Into::into)?.into_completion()
    }
}

type Completer = BoxedHandler<dyn Fn(CompletionRequest) -> Deferred<Result<Completion, Failure>> + Send + Sync>;

/// An item with arguments that can be completed.
pub(super) trait Completable: Send + Sync {
    /// Returns whether it has this argument.
    fn has(&self, argument: &str) -> bool;
    /// Returns the completers of its arguments.
    fn completers(&self) -> &Completers;
}

/// The completers of the arguments of one prompt or template, by their names.
#[derive(Default)]
pub(super) struct Completers(HashMap<String, Completer>);

impl Completers {
    pub(super) fn insert<R: IntoCompletion>(
        &mut self,
        argument: String,
        f: impl Fn(CompletionRequest) -> R + Send + Sync + 'static,
    ) {
        let run = move |request| Deferred::ready(f(request).into_completion());
        self.0.insert(argument, BoxedHandler { kind: HandlerKind::Blocking, run: Box::new(run) });
    }

    pub(super) fn insert_async<R>(
        &mut self,
        argument: String,
        f: impl Fn(CompletionRequest) -> R + Send + Sync + 'static,
    ) where
        R: Future<Output: IntoCompletion + 'static> + Send + 'static,
    {
        let run = move |request| {
            let future = f(request);
            Deferred::poll_once(async move { future.await.into_completion() })
        };
        self.0.insert(argument, BoxedHandler { kind: HandlerKind::Async, run: Box::new(run) });
    }

    pub(super) fn is_there(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the kind of the completer of an argument: a function or a future.
    pub(super) fn kind(&self, argument: &str) -> HandlerKind {
        self.0.get(argument).map_or(HandlerKind::Async, |completer| completer.kind)
    }

    /// Completes an argument. Returns no proposals for an argument without a completer.
    pub(super) fn complete(&self, argument: &str, request: CompletionRequest) -> Deferred<Result<Completion, Failure>> {
        match self.0.get(argument) {
            Some(completer) => (completer.run)(request),
            None => Deferred::ready(Ok(Completion::of([""; 0]))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_said_to_be_there_only_if_it_is() {
        for (count, sent, has_more) in [(0, 0, false), (99, 99, false), (100, 100, false), (101, 100, true)] {
            let texts = vec!["x"; count];
            let of_texts = texts.clone().into_completion().expect("a completion");
            let all = (of_texts.values.len(), of_texts.total, of_texts.has_more);
            assert_eq!(all, (sent, Some(count as u64), Some(has_more)));
            // A whole completion has its own `has_more`, unless it has too many values.
            let whole = Completion::new(texts.iter().map(ToString::to_string).collect::<Vec<_>>());
            let whole = whole.into_completion().expect("a completion");
            let all = (whole.values.len(), whole.total, whole.has_more);
            let total = has_more.then_some(count as u64);
            assert_eq!(all, (sent, total, has_more.then_some(true)));
        }
    }
}
