//! Completion of arguments while the user types.
//!
//! Spec: [completion](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion)

use alloc::{string::String, vec::Vec};

use super::Map;
use crate::schema::base::macros::*;

object! {
    /// Params of `completion/complete`.
    pub struct CompleteParams: params(Complete => CompleteResult) {
        /// The prompt or the template that has the argument.
        "ref" => reference: required CompletionReference;
        /// The argument, as far as the user has typed it.
        "argument" => argument: required CompletionArgument;
        /// Further context. Since 2025-06-18.
        "context" => context: optional CompletionContext, since(V2025_06_18);
    }
}

union! {
    /// The prompt or the resource template that has an argument.
    pub enum CompletionReference by "type" {
        /// A prompt.
        Prompt(PromptReference) = "ref/prompt",
        /// A resource template.
        Resource(ResourceTemplateReference) = "ref/resource",
    }
}

object! {
    /// The name of a prompt.
    pub struct PromptReference: data("type" = "ref/prompt") {
        /// The name, for programs.
        "name" => name: required String;
        /// The name, for people; not used here. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
    }
}

object! {
    /// The URI of a resource or of a template. Called `ResourceReference` before 2025-06-18.
    pub struct ResourceTemplateReference: data("type" = "ref/resource") {
        /// The URI or the template.
        "uri" => uri: required String, is(UriTemplate);
    }
}

object! {
    /// An argument that the user is typing.
    pub struct CompletionArgument: data {
        /// The name of the argument.
        "name" => name: required String;
        /// The value so far.
        "value" => value: required String;
    }
}

object! {
    /// The context of an argument. Since 2025-06-18.
    pub struct CompletionContext: data, since(V2025_06_18) {
        /// The arguments that already have a value.
        "arguments" => arguments: optional Map<String>;
    }
}

object! {
    /// The result of `completion/complete`.
    pub struct CompleteResult: result {
        /// The completion.
        "completion" => completion: required Completion;
    }
}

object! {
    /// The possible values of an argument.
    pub struct Completion: data {
        /// The values, the best first, at most [100](Self::MAX_VALUES).
        "values" => values: required Vec<String>, has_to(|values, _| values.len() <= Completion::MAX_VALUES);
        /// The number of all possible values, if known.
        "total" => total: optional u64;
        /// Whether there are more values.
        "hasMore" => has_more: optional bool;
    }
}

impl Completion {
    /// The most values of one result.
    pub const MAX_VALUES: usize = 100;

    /// Creates a completion with the first 100 of all possible values, and their total number.
    #[must_use]
    pub fn of(all: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut values: Vec<String> = all.into_iter().map(Into::into).collect();
        let total = values.len();
        values.truncate(Self::MAX_VALUES);
        Self { total: u64::try_from(total).ok(), has_more: Some(total > Self::MAX_VALUES), ..Self::new(values) }
    }
}
