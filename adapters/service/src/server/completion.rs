//! Completion: proposals for the value of an argument.

use std::{collections::HashMap, sync::Arc};

use mcp_proto::schema::Completion;

use crate::{
    driver_api::{deferred::Deferred, job::HandlerKind},
    inbound::{
        completion_request::CompletionRequest,
        context::Context,
        failure::Failure,
        handler::{Arguments, BadArguments, Call},
        shared_state::HandlerState,
    },
};

/// A type that can be proposals: texts, the best first, a whole [`Completion`], or a `Result` of these.
///
/// Of texts, the first 100 and their total number are sent.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be proposals for an argument",
    label = "its handler returns `{Self}`",
    note = "proposals are a `Vec` of texts, `Completion`, or a `Result` of these",
    note = "a handler that is an `async fn` or returns a future takes `complete_async`"
)]
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

/// An item with arguments that can be completed.
pub(super) trait Completable: Send + Sync {
    /// Returns whether it has this argument.
    fn has(&self, argument: &str) -> bool;
    /// Returns the completers of its arguments.
    fn completers(&self) -> &Completers;
    /// Returns the scopes that a request for completion needs.
    fn scopes(&self) -> &[String];
}

/// The completers of the arguments of one prompt or template, by their names.
pub(super) struct Completers<S: HandlerState = ()> {
    by_argument: HashMap<String, Call<Completion, S>>,
    /// The completer of all other arguments, which gets their names: another server knows the arguments.
    forward: Option<ForwardCompletion>,
}

/// Completes an argument, by its name, on another server.
pub(crate) type ForwardCompletion =
    Arc<dyn Fn(&str, &CompletionRequest) -> Deferred<Result<Completion, Failure>> + Send + Sync>;

impl<S: HandlerState> Default for Completers<S> {
    fn default() -> Self {
        Self { by_argument: HashMap::new(), forward: None }
    }
}

impl<S: HandlerState> Completers<S> {
    pub(super) fn insert(&mut self, argument: String, completer: Call<Completion, S>) {
        self.by_argument.insert(argument, completer);
    }

    /// Returns completers that get their state out of another one.
    pub(super) fn of_state<T: HandlerState>(self, part: fn(&T) -> &S) -> Completers<T> {
        let of_state = |(argument, completer): (String, Call<Completion, S>)| (argument, completer.of_state(part));
        Completers { by_argument: self.by_argument.into_iter().map(of_state).collect(), forward: self.forward }
    }

    /// Returns the completers with their state.
    pub(super) fn with_state(self, state: &S) -> Completers {
        let bound =
            |(argument, completer): (String, Call<Completion, S>)| (argument, completer.with_state(state.clone()));
        Completers { by_argument: self.by_argument.into_iter().map(bound).collect(), forward: self.forward }
    }
}

impl Completers {
    /// Returns completers of which another server completes all arguments.
    pub(super) fn forwarded(forward: ForwardCompletion) -> Self {
        Self { forward: Some(forward), ..Self::default() }
    }

    /// Returns completers that are those of another item.
    pub(super) fn mounted<T: Completable + 'static>(item: &Arc<T>) -> Self {
        let item = item.clone();
        let kind = |argument: &str| item.completers().kind(argument);
        let by_argument = item.completers().by_argument.keys().map(|argument| {
            let (item, name) = (item.clone(), argument.clone());
            let run = move |(): &(), arguments: Arguments<'_>, _: &Context| match arguments {
                Arguments::Completion(request) => Ok(item.completers().complete(&name, request)),
                _ => Err(BadArguments("the request is not for completion".into())),
            };
            (argument.clone(), Call { kind: kind(argument), run: Box::new(run) })
        });
        Self { by_argument: by_argument.collect(), forward: item.completers().forward.clone() }
    }

    /// Returns whether another server knows the arguments.
    pub(super) const fn are_forwarded(&self) -> bool {
        self.forward.is_some()
    }

    pub(super) fn is_there(&self) -> bool {
        !self.by_argument.is_empty() || self.forward.is_some()
    }

    /// Returns the kind of the completer of an argument: a function or a future.
    pub(super) fn kind(&self, argument: &str) -> HandlerKind {
        self.by_argument.get(argument).map_or(HandlerKind::Async, |completer| completer.kind)
    }

    /// Completes an argument. Returns no proposals for an argument without a completer.
    pub(super) fn complete(
        &self,
        argument: &str,
        request: &CompletionRequest,
    ) -> Deferred<Result<Completion, Failure>> {
        if let Some(forward) = &self.forward {
            return forward(argument, request);
        }
        match self.by_argument.get(argument) {
            Some(completer) => completer
                .call(Arguments::Completion(request), &request.context)
                .unwrap_or_else(|BadArguments(why)| Deferred::ready(Err(Failure::new(why)))),
            None => Deferred::ready(Ok(Completion::of([""; 0]))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_more_only_if_values_are_cut() {
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
