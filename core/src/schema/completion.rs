//! Completion of arguments while the user types.
//!
//! Spec: [completion](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion)

use alloc::{string::String, vec::Vec};

use super::Map;
use crate::schema::base::macros::*;

object! {
    /// Params of `completion/complete`.
    pub struct CompleteParams: params(Complete => CompleteResult) {
        /// What the argument belongs to.
        "ref" => reference: required CompletionReference;
        /// The argument, as far as it is written.
        "argument" => argument: required CompletionArgument;
        /// What is known besides. Since 2025-06-18.
        "context" => context: optional CompletionContext, since(V2025_06_18);
    }
}

union! {
    /// What an argument belongs to.
    pub enum CompletionReference by "type" {
        /// A prompt.
        Prompt(PromptReference) = "ref/prompt",
        /// A template of resources.
        Resource(ResourceTemplateReference) = "ref/resource",
    }
}

object! {
    /// The name of a prompt.
    pub struct PromptReference: data("type" = "ref/prompt") {
        /// The name, for programs.
        "name" => name: required String;
        /// The name, for people; without meaning here. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
    }
}

object! {
    /// The URI of a resource or of a template. It was called `ResourceReference` before 2025-06-18.
    pub struct ResourceTemplateReference: data("type" = "ref/resource") {
        /// The URI or the template.
        "uri" => uri: required String, is(UriTemplate);
    }
}

object! {
    /// An argument that is being written.
    pub struct CompletionArgument: data {
        /// The name of the argument.
        "name" => name: required String;
        /// What is written so far.
        "value" => value: required String;
    }
}

object! {
    /// What is known besides the argument that is being written. Since 2025-06-18.
    pub struct CompletionContext: data, since(V2025_06_18) {
        /// The arguments that are already complete.
        "arguments" => arguments: optional Map<String>;
    }
}

object! {
    /// The result of `completion/complete`.
    pub struct CompleteResult: result {
        /// The proposals.
        "completion" => completion: required Completion;
    }
}

object! {
    /// Proposals for an argument.
    pub struct Completion: data {
        /// At most [100](Self::MAX_VALUES) of them, the best first.
        "values" => values: required Vec<String>, has_to(|values, _| values.len() <= Completion::MAX_VALUES);
        /// How many there are in all, if known.
        "total" => total: optional u64;
        /// Whether there are more than these.
        "hasMore" => has_more: optional bool;
    }
}

impl Completion {
    /// How many values fit into one result.
    pub const MAX_VALUES: usize = 100;

    /// The first of all possible values, as many as fit, and how many there are.
    #[must_use]
    pub fn of(all: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut values: Vec<String> = all.into_iter().map(Into::into).collect();
        let total = values.len();
        values.truncate(Self::MAX_VALUES);
        Self { total: u64::try_from(total).ok(), has_more: Some(total > Self::MAX_VALUES), ..Self::new(values) }
    }
}
