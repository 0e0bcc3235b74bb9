//! Prompts: templates of messages that users choose and fill in.
//!
//! Spec: [prompts](https://modelcontextprotocol.io/specification/2025-11-25/server/prompts)

use alloc::{string::String, vec::Vec};

use super::{CacheScope, ContentBlock, Icon, InputResponses, Map, Meta, Role};
use crate::schema::base::macros::*;

object! {
    /// Params of `prompts/list`.
    pub struct ListPromptsParams: params(ListPrompts => ListPromptsResult) {
        /// The `next_cursor` of the previous page; absent for the first page.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `prompts/list`: one page of prompts.
    pub struct ListPromptsResult: result {
        /// The prompts.
        "prompts" => prompts: required Vec<Prompt>;
        /// The cursor of the next page; absent on the last page.
        "nextCursor" => next_cursor: optional String;
        /// The time for which the result may be cached, in milliseconds. Since 2026-07-28.
        "ttlMs" => ttl_ms: optional u64, since(V2026_07_28), or(|| 0);
        /// The users for whom the cached result may be used. Since 2026-07-28.
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
        /// The name, for programs, as in `prompts/get`.
        "name" => name: required String;
        /// The name, for people. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
        /// The purpose of the prompt.
        "description" => description: optional String;
        /// The arguments of the prompt.
        "arguments" => arguments: optional Vec<PromptArgument>;
        /// Pictures for user interfaces. Since 2025-11-25.
        "icons" => icons: optional Vec<Icon>, since(V2025_11_25), fits(|icons, _| Icon::all_valid(icons));
        /// Metadata. Since 2025-06-18.
        "_meta" => meta: optional Meta, since(V2025_06_18);
    }
}

object! {
    /// An argument of a prompt.
    pub struct PromptArgument: data {
        /// The name, for programs.
        "name" => name: required String;
        /// The name, for people. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
        /// A description of the argument.
        "description" => description: optional String;
        /// Whether the prompt needs the argument.
        "required" => required: optional bool;
    }
}

object! {
    /// Params of `prompts/get`.
    pub struct GetPromptParams: params(GetPrompt => GetPromptResult) {
        /// The name of the prompt.
        "name" => name: required String;
        /// The arguments; all values are texts.
        "arguments" => arguments: optional Map<String>;
        /// The responses to the input requests of the previous result. Since 2026-07-28.
        "inputResponses" => input_responses: optional InputResponses, since(V2026_07_28), or_refuse,
            is(Answer);
        /// The `request_state` of the previous result. Since 2026-07-28.
        "requestState" => request_state: optional String, since(V2026_07_28), or_refuse;
    }
}

object! {
    /// The result of `prompts/get`: the prompt with its arguments filled in.
    pub struct GetPromptResult: result {
        /// The purpose of the prompt.
        "description" => description: optional String;
        /// The messages for the model.
        "messages" => messages: required Vec<PromptMessage>;
    }
}

object! {
    /// One message of a prompt.
    pub struct PromptMessage: data {
        /// The sender of the message.
        "role" => role: required Role, has_to(|role, _| role.is_known());
        /// The content. An embedded resource has a media type.
        "content" => content: required ContentBlock;
    }
}

impl PromptMessage {
    /// Creates a message of the user.
    #[must_use]
    pub fn user(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    #[must_use]
    pub fn assistant(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::Assistant, content)
    }
}
