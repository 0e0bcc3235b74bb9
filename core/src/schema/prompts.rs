//! Prompts: texts that users pick and fill in.
//!
//! Spec: [prompts](https://modelcontextprotocol.io/specification/2025-11-25/server/prompts)

use alloc::{string::String, vec::Vec};

use super::{CacheScope, ContentBlock, Icon, InputResponses, Map, Meta, Role};
use crate::schema::base::macros::*;

object! {
    /// Params of `prompts/list`.
    pub struct ListPromptsParams: params(ListPrompts => ListPromptsResult) {
        /// Where to go on: `next_cursor` of the page before.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `prompts/list`: one page of prompts.
    pub struct ListPromptsResult: result {
        /// The prompts.
        "prompts" => prompts: required Vec<Prompt>;
        /// Where the next page starts. Without it this is the last page.
        "nextCursor" => next_cursor: optional String;
        /// For how many milliseconds the result can be reused. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// Who may reuse the result. Since 2026-07-28.
        "cacheScope" => cache_scope: optional CacheScope, since(V2026_07_28), fits(|scope, _| scope.is_known()),
            or(|| CacheScope::Private);
    }
}

object! {
    /// Params of `notifications/prompts/list_changed`.
    pub struct PromptsListChangedParams: params(PromptsListChanged) {}
}

object! {
    /// A prompt that a server offers.
    pub struct Prompt: data {
        /// The name, for programs: what `prompts/get` asks for.
        "name" => name: required String;
        /// The name, for people. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
        /// What it is for.
        "description" => description: optional String;
        /// What can be filled in.
        "arguments" => arguments: optional Vec<PromptArgument>;
        /// Pictures for user interfaces. Since 2025-11-25.
        "icons" => icons: optional Vec<Icon>, since(V2025_11_25), fits(|icons, _| Icon::all_valid(icons));
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

object! {
    /// Something to be filled in.
    pub struct PromptArgument: data {
        /// The name, for programs.
        "name" => name: required String;
        /// The name, for people. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
        /// What it is.
        "description" => description: optional String;
        /// Whether the prompt cannot do without it.
        "required" => required: optional bool;
    }
}

object! {
    /// Params of `prompts/get`.
    pub struct GetPromptParams: params(GetPrompt => GetPromptResult) {
        /// The name of the prompt.
        "name" => name: required String;
        /// What is filled in; always texts.
        "arguments" => arguments: optional Map<String>;
        /// The answers to the questions of the result before. Since 2026-07-28.
        "inputResponses" => input_responses: optional InputResponses, since(V2026_07_28), or_refuse,
            is(Answer);
        /// The state from the result before. Since 2026-07-28.
        "requestState" => request_state: optional String, since(V2026_07_28), or_refuse;
    }
}

object! {
    /// The result of `prompts/get`: the prompt with everything filled in.
    pub struct GetPromptResult: result {
        /// What it is for.
        "description" => description: optional String;
        /// The messages for the model.
        "messages" => messages: required Vec<PromptMessage>;
    }
}

object! {
    /// One message of a prompt.
    pub struct PromptMessage: data {
        /// Whose message it is.
        "role" => role: required Role, has_to(|role, _| role.is_known());
        /// What it says. An embedded resource names its MIME type.
        "content" => content: required ContentBlock;
    }
}

impl PromptMessage {
    /// A message of the user.
    #[must_use]
    pub fn user(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::User, content)
    }

    /// A message of the model.
    #[must_use]
    pub fn assistant(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::Assistant, content)
    }
}
