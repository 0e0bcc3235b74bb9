//! Sampling: servers that ask the model of the client.
//!
//! Spec: [sampling](https://modelcontextprotocol.io/specification/2025-11-25/client/sampling)

use alloc::{collections::BTreeSet, string::String, vec::Vec};
use core::fmt;

use serde_json::Number;

use super::{AudioContent, ContentBlock, ImageContent, Meta, OneOrMany, Role, TaskMetadata, TextContent, Tool};
use crate::{
    protocol::{Capability, CapabilitySet},
    schema::base::{format::is_fraction, macros::*},
    wire::{Json, JsonObject},
};

object! {
    /// Params of `sampling/createMessage`. In 2026-07-28 the question travels inside of a result.
    pub struct CreateMessageParams: params(CreateMessage => CreateMessageResult) {
        /// The conversation so far. It is only sent if it passes [`check_tool_results`].
        "messages" => messages: required Vec<SamplingMessage>, has_to(|messages, _| check_tool_results(messages).is_ok());
        /// Which model would be good; the client decides.
        "modelPreferences" => model_preferences: optional ModelPreferences;
        /// What the model should be told first; the client may change it.
        "systemPrompt" => system_prompt: optional String;
        /// What the client should add from its servers; the client may ignore it.
        "includeContext" => include_context: optional IncludeContext, fits(|context, _| context.is_known());
        /// How free the model is.
        "temperature" => temperature: optional Number;
        /// How many tokens the answer may have.
        "maxTokens" => max_tokens: required u64;
        /// Texts at which the model stops.
        "stopSequences" => stop_sequences: optional Vec<String>;
        /// For the maker of the model, kept byte for byte.
        "metadata" => metadata: optional JsonObject;
        /// Tools that the model may use. Since 2025-11-25.
        "tools" => tools: optional Vec<Tool>, since(V2025_11_25), or_refuse;
        /// Whether the model has to use them. Since 2025-11-25.
        "toolChoice" => tool_choice: optional ToolChoice, since(V2025_11_25), or_refuse;
        /// Run the request as a task. Only 2025-11-25.
        "task" => task: optional TaskMetadata, only(V2025_11_25), or_refuse;
    }
    gates {
        fn needs(&self) -> CapabilitySet {
            CapabilitySet::EMPTY
                .with_if(Capability::SamplingTools, self.tools.is_some() || self.tool_choice.is_some())
                .with_if(Capability::TasksSampling, self.task.is_some())
        }

        fn is_task(&self) -> bool {
            self.task.is_some()
        }
    }
}

impl CreateMessageParams {
    /// What the client should add from its servers; nothing, if the params do not say.
    #[must_use]
    pub fn context(&self) -> &IncludeContext {
        self.include_context.as_ref().unwrap_or(&IncludeContext::None)
    }

    /// Whether the model has to use tools; as it likes, if the params do not say.
    #[must_use]
    pub fn tool_mode(&self) -> &ToolChoiceMode {
        self.tool_choice.as_ref().and_then(|choice| choice.mode.as_ref()).unwrap_or(&ToolChoiceMode::Auto)
    }
}

object! {
    /// The result of `sampling/createMessage`: what the model said.
    pub struct CreateMessageResult: answer {
        /// Whose message it is.
        "role" => role: required Role, has_to(|role, _| role.is_known());
        /// What it says. Several pieces and tools only since 2025-11-25.
        "content" => content: required OneOrMany<SamplingContent>;
        /// The model that said it.
        "model" => model: required String;
        /// Why the model stopped, if known.
        "stopReason" => stop_reason: optional StopReason;
    }
}

open_enum! {
    /// Why a model stopped.
    pub enum StopReason {
        /// It had said everything.
        EndTurn = "endTurn",
        /// It came to one of the texts at which it should stop.
        StopSequence = "stopSequence",
        /// It had used all tokens.
        MaxTokens = "maxTokens",
        /// It wants to use a tool. Since 2025-11-25.
        ToolUse = "toolUse",
    }
}

open_enum! {
    /// What a client should add from its servers. Values other than `None` need `sampling.context` since 2025-11-25.
    pub enum IncludeContext {
        /// Nothing.
        None = "none",
        /// From the server that asks.
        ThisServer = "thisServer",
        /// From all servers.
        AllServers = "allServers",
    }
}

object! {
    /// One message of a conversation with a model.
    pub struct SamplingMessage: data {
        /// Whose message it is.
        "role" => role: required Role, has_to(|role, _| role.is_known());
        /// What it says. Several pieces and tools only since 2025-11-25.
        "content" => content: required OneOrMany<SamplingContent>;
        /// Metadata. Since 2025-11-25.
        "_meta" => meta: optional Meta, since(V2025_11_25);
    }
}

impl SamplingMessage {
    /// A message of the user.
    #[must_use]
    pub fn user(content: impl Into<OneOrMany<SamplingContent>>) -> Self {
        Self::new(Role::User, content)
    }

    /// A message of the model.
    #[must_use]
    pub fn assistant(content: impl Into<OneOrMany<SamplingContent>>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

union! {
    /// One piece of content in a conversation with a model. Resources are not part of it.
    pub enum SamplingContent by "type" {
        /// Text.
        Text(TextContent) = "text",
        /// A picture.
        Image(ImageContent) = "image",
        /// Sound. Since 2025-03-26.
        Audio(AudioContent) = "audio",
        /// The model uses a tool. Since 2025-11-25.
        ToolUse(ToolUseContent) = "tool_use",
        /// What the tool had to say. Since 2025-11-25.
        ToolResult(ToolResultContent) = "tool_result",
    }
}

impl SamplingContent {
    /// A piece of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        TextContent::new(text).into()
    }
}

impl From<&str> for SamplingContent {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<&str> for OneOrMany<SamplingContent> {
    fn from(text: &str) -> Self {
        Self::One(text.into())
    }
}

impl From<SamplingContent> for OneOrMany<SamplingContent> {
    fn from(content: SamplingContent) -> Self {
        Self::One(content)
    }
}

object! {
    /// The model uses a tool. Since 2025-11-25.
    pub struct ToolUseContent: data("type" = "tool_use"), since(V2025_11_25) {
        /// The name of this use, to which the result refers.
        "id" => id: required String;
        /// The name of the tool.
        "name" => name: required String;
        /// What the tool gets, kept byte for byte.
        "input" => input: required JsonObject;
        /// Metadata.
        "_meta" => meta: optional Meta;
    }
}

object! {
    /// What a tool had to say to the model. Since 2025-11-25.
    pub struct ToolResultContent: data("type" = "tool_result"), since(V2025_11_25) {
        /// The `id` of the use.
        "toolUseId" => tool_use_id: required String;
        /// What the tool had to say.
        "content" => content: required Vec<ContentBlock>;
        /// The same as data, kept byte for byte; in 2025-11-25 an object.
        "structuredContent" => structured_content: optional Json,
            fits(|content, version| version >= V2026_07_28 || content.is_object());
        /// Whether the tool failed.
        "isError" => is_error: optional bool;
        /// Metadata.
        "_meta" => meta: optional Meta;
    }
}

impl ToolResultContent {
    /// Whether the tool failed; not, if the result does not say.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.is_error.unwrap_or(false)
    }
}

object! {
    /// Whether the model has to use tools. Since 2025-11-25.
    pub struct ToolChoice: data, since(V2025_11_25) {
        /// As it likes, if missing.
        "mode" => mode: optional ToolChoiceMode, has_to(|mode, _| mode.is_known());
    }
}

open_enum! {
    /// Whether the model has to use tools. Since 2025-11-25.
    pub enum ToolChoiceMode {
        /// As it likes.
        Auto = "auto",
        /// It has to use at least one.
        Required = "required",
        /// It must not use any.
        None = "none",
    }
}

object! {
    /// Which model would be good. The numbers go from 0 (does not matter) to 1 (matters most).
    pub struct ModelPreferences: data {
        /// Names of models or parts of them, the best first.
        "hints" => hints: optional Vec<ModelHint>;
        /// How much a low price matters.
        "costPriority" => cost_priority: optional Number, fits(|priority, _| is_fraction(priority)), is(Fraction);
        /// How much speed matters.
        "speedPriority" => speed_priority: optional Number, fits(|priority, _| is_fraction(priority)), is(Fraction);
        /// How much cleverness matters.
        "intelligencePriority" => intelligence_priority: optional Number, fits(|priority, _| is_fraction(priority)), is(Fraction);
    }
}

object! {
    /// What a good model is called.
    pub struct ModelHint: data {
        /// The name of a model, or a part of it.
        "name" => name: optional String;
    }
}

impl ModelPreferences {
    /// Whether all numbers are from 0 to 1.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let priorities = [&self.cost_priority, &self.speed_priority, &self.intelligence_priority];
        priorities.into_iter().flatten().all(is_fraction)
    }

    /// The model that the first matching hint leads to, if any: one that has the hint in its name.
    ///
    /// Hints come before priorities, so these only count where this is `None`.
    #[must_use]
    pub fn hinted<'a>(&self, models: &[&'a str]) -> Option<&'a str> {
        let mut hints = self.hints.iter().flatten().filter_map(|hint| hint.name.as_deref());
        hints.find_map(|hint| models.iter().copied().find(|model| model.contains(hint)))
    }
}

/// What is wrong with the tool results of a conversation. The number is the place of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolResultFault {
    /// A message of the user has tool results next to other content.
    Mixed(usize),
    /// A message of the model uses a tool, and the message behind it has no result for it.
    Missing(usize),
}

impl fmt::Display for ToolResultFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mixed(at) => write!(f, "message {at} mixes tool results with other content"),
            Self::Missing(at) => write!(f, "message {at} uses a tool, but its result does not follow"),
        }
    }
}

impl core::error::Error for ToolResultFault {}

/// The id of the tool use whose result this is.
fn result_of(content: &SamplingContent) -> Option<&str> {
    if let SamplingContent::ToolResult(result) = content { Some(&result.tool_use_id) } else { None }
}

/// Checks that each use of a tool is followed by its result, and that results come alone.
///
/// # Errors
/// The first fault.
pub fn check_tool_results(messages: &[SamplingMessage]) -> Result<(), ToolResultFault> {
    let is_result = |content: &SamplingContent| matches!(content, SamplingContent::ToolResult(_));
    for (at, message) in messages.iter().enumerate() {
        let content = message.content.as_slice();
        if message.role == Role::User && content.iter().any(is_result) && !content.iter().all(is_result) {
            return Err(ToolResultFault::Mixed(at));
        }
        if message.role != Role::Assistant {
            continue;
        }
        let answers = messages.get(at + 1).filter(|next| next.role == Role::User);
        let answers = answers.map_or(&[][..], |next| next.content.as_slice());
        // There may be very many of both.
        let mut known: Option<(BTreeSet<&str>, bool)> = None;
        for used in content {
            let SamplingContent::ToolUse(used) = used else { continue };
            let read = || (answers.iter().filter_map(result_of).collect(), !answers.iter().all(is_result));
            let (ids, are_mixed) = known.get_or_insert_with(read);
            if !ids.contains(used.id.as_str()) {
                return Err(ToolResultFault::Missing(at));
            }
            if *are_mixed {
                return Err(ToolResultFault::Mixed(at + 1));
            }
        }
    }
    Ok(())
}
