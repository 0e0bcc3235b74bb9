//! Sampling: requests of servers to the model of the client.
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
    /// Params of `sampling/createMessage`. In 2026-07-28 they are part of an `input_required` result.
    pub struct CreateMessageParams: params(CreateMessage => CreateMessageResult) {
        /// The conversation so far. Encoding fails unless it passes [`check_tool_results`].
        "messages" => messages: required Vec<SamplingMessage>, has_to(|messages, _| check_tool_results(messages).is_ok());
        /// Preferences for the model. The client decides.
        "modelPreferences" => model_preferences: optional ModelPreferences;
        /// The system prompt. The client may change it.
        "systemPrompt" => system_prompt: optional String;
        /// The context that the client adds from its servers. The client may ignore it.
        "includeContext" => include_context: optional IncludeContext, fits(|context, _| context.is_known());
        /// The temperature of the model.
        "temperature" => temperature: optional Number;
        /// The most tokens of the response.
        "maxTokens" => max_tokens: required u64;
        /// Texts at which the model stops.
        "stopSequences" => stop_sequences: optional Vec<String>;
        /// Metadata for the provider of the model, kept byte for byte.
        "metadata" => metadata: optional JsonObject;
        /// Tools that the model may use. Since 2025-11-25.
        "tools" => tools: optional Vec<Tool>, since(V2025_11_25), or_refuse;
        /// How the model uses the tools. Since 2025-11-25.
        "toolChoice" => tool_choice: optional ToolChoice, since(V2025_11_25), or_refuse;
        /// Requests a task instead of a result. Only 2025-11-25.
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
    /// Returns the context that the client adds from its servers. Missing means none.
    #[must_use]
    pub fn context(&self) -> &IncludeContext {
        self.include_context.as_ref().unwrap_or(&IncludeContext::None)
    }

    /// Returns how the model uses tools. Missing means [`Auto`](ToolChoiceMode::Auto).
    #[must_use]
    pub fn tool_mode(&self) -> &ToolChoiceMode {
        self.tool_choice.as_ref().and_then(|choice| choice.mode.as_ref()).unwrap_or(&ToolChoiceMode::Auto)
    }
}

object! {
    /// The result of `sampling/createMessage`: the message of the model.
    pub struct CreateMessageResult: answer {
        /// The sender of the message.
        "role" => role: required Role, has_to(|role, _| role.is_known());
        /// The content. Several blocks, and tools, only since 2025-11-25.
        "content" => content: required OneOrMany<SamplingContent>;
        /// The name of the model.
        "model" => model: required String;
        /// The reason why the model stopped, if known.
        "stopReason" => stop_reason: optional StopReason;
    }
}

impl CreateMessageResult {
    /// Returns the text of the message, if each of its content blocks is a text.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        let texts = self.content.as_slice().iter().map(|content| match content {
            SamplingContent::Text(content) => Some(content.text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

open_enum! {
    /// The reason why a model stopped.
    pub enum StopReason {
        /// The message is complete.
        EndTurn = "endTurn",
        /// The model reached one of the stop sequences.
        StopSequence = "stopSequence",
        /// The model reached the limit of tokens.
        MaxTokens = "maxTokens",
        /// The model uses a tool. Since 2025-11-25.
        ToolUse = "toolUse",
    }
}

open_enum! {
    /// The context that a client adds from its servers. Values other than `None` need `sampling.context` since
    /// 2025-11-25.
    pub enum IncludeContext {
        /// No context.
        None = "none",
        /// Context from the server that sends the request.
        ThisServer = "thisServer",
        /// Context from all servers.
        AllServers = "allServers",
    }
}

object! {
    /// One message of a conversation with a model.
    pub struct SamplingMessage: data {
        /// The sender of the message.
        "role" => role: required Role, has_to(|role, _| role.is_known());
        /// The content. Several blocks, and tools, only since 2025-11-25.
        "content" => content: required OneOrMany<SamplingContent>;
        /// Metadata. Since 2025-11-25.
        "_meta" => meta: optional Meta, since(V2025_11_25);
    }
}

impl SamplingMessage {
    /// Creates a message of the user.
    #[must_use]
    pub fn user(content: impl Into<OneOrMany<SamplingContent>>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    #[must_use]
    pub fn assistant(content: impl Into<OneOrMany<SamplingContent>>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

union! {
    /// One content block in a conversation with a model. Resources are not part of it.
    pub enum SamplingContent by "type" {
        /// Text.
        Text(TextContent) = "text",
        /// A picture.
        Image(ImageContent) = "image",
        /// Sound. Since 2025-03-26.
        Audio(AudioContent) = "audio",
        /// The model uses a tool. Since 2025-11-25.
        ToolUse(ToolUseContent) = "tool_use",
        /// The result of a tool. Since 2025-11-25.
        ToolResult(ToolResultContent) = "tool_result",
    }
}

impl SamplingContent {
    /// Creates a block of text.
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

impl From<String> for SamplingContent {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<String> for OneOrMany<SamplingContent> {
    fn from(text: String) -> Self {
        Self::One(text.into())
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
        /// The id of this use, to which the result refers.
        "id" => id: required String;
        /// The name of the tool.
        "name" => name: required String;
        /// The arguments of the tool, kept byte for byte.
        "input" => input: required JsonObject;
        /// Metadata.
        "_meta" => meta: optional Meta;
    }
}

object! {
    /// The result of a tool for the model. Since 2025-11-25.
    pub struct ToolResultContent: data("type" = "tool_result"), since(V2025_11_25) {
        /// The `id` of the use.
        "toolUseId" => tool_use_id: required String;
        /// The content of the result.
        "content" => content: required Vec<ContentBlock>;
        /// The result as structured data, kept byte for byte; in 2025-11-25 an object.
        "structuredContent" => structured_content: optional Json,
            fits(|content, version| version >= V2026_07_28 || content.is_object());
        /// Whether the tool failed.
        "isError" => is_error: optional bool;
        /// Metadata.
        "_meta" => meta: optional Meta;
    }
}

impl ToolResultContent {
    /// Returns whether the tool failed. Missing means no.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.is_error.unwrap_or(false)
    }
}

object! {
    /// How the model uses tools. Since 2025-11-25.
    pub struct ToolChoice: data, since(V2025_11_25) {
        /// The mode. Missing means [`Auto`](ToolChoiceMode::Auto).
        "mode" => mode: optional ToolChoiceMode, has_to(|mode, _| mode.is_known());
    }
}

open_enum! {
    /// How the model uses tools. Since 2025-11-25.
    pub enum ToolChoiceMode {
        /// The model decides.
        Auto = "auto",
        /// The model uses at least one tool.
        Required = "required",
        /// The model uses no tool.
        None = "none",
    }
}

object! {
    /// Preferences for a model. The priorities are from 0 (not important) to 1 (most important).
    pub struct ModelPreferences: data {
        /// Names of models or parts of them, the best first.
        "hints" => hints: optional Vec<ModelHint>;
        /// The importance of a low price.
        "costPriority" => cost_priority: optional Number, fits(|priority, _| is_fraction(priority)), is(Fraction);
        /// The importance of speed.
        "speedPriority" => speed_priority: optional Number, fits(|priority, _| is_fraction(priority)), is(Fraction);
        /// The importance of intelligence.
        "intelligencePriority" => intelligence_priority: optional Number, fits(|priority, _| is_fraction(priority)), is(Fraction);
    }
}

object! {
    /// A hint to a model by its name.
    pub struct ModelHint: data {
        /// The name of a model, or a part of it.
        "name" => name: optional String;
    }
}

impl ModelPreferences {
    /// Returns whether all priorities are from 0 to 1.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let priorities = [&self.cost_priority, &self.speed_priority, &self.intelligence_priority];
        priorities.into_iter().flatten().all(is_fraction)
    }

    /// Returns the first of `models` whose name contains a hint. Earlier hints have precedence.
    ///
    /// Hints take precedence over priorities, which count only if the result is `None`.
    #[must_use]
    pub fn hinted<'a>(&self, models: &[&'a str]) -> Option<&'a str> {
        let mut hints = self.hints.iter().flatten().filter_map(|hint| hint.name.as_deref());
        hints.find_map(|hint| models.iter().copied().find(|model| model.contains(hint)))
    }
}

/// The error in the tool results of a conversation. The number is the index of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolResultFault {
    /// A message of the user has tool results next to other content.
    Mixed(usize),
    /// A message of the model uses a tool, and the next message has no result for it.
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

/// Returns the id of the tool use to which the result belongs, if this is a result.
fn result_of(content: &SamplingContent) -> Option<&str> {
    if let SamplingContent::ToolResult(result) = content { Some(&result.tool_use_id) } else { None }
}

/// Checks that the message after each use of a tool has its result, and that messages of the user with results have no
/// other content.
///
/// # Errors
/// Returns the first error.
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
