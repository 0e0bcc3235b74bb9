//! Typed params and results of every method and revision.
//!
//! The types have the names of the specification, and one type serves all revisions. Decoding accepts the forms of all
//! of them; [encoding for a revision](Encode) writes a form that the revision can read. Every object keeps unknown
//! members.

mod base;
mod capabilities;
mod completion;
mod content;
mod discover;
mod elicitation;
mod errors;
mod extensions;
mod form;
mod input_required;
mod lifecycle;
mod logging;
mod messages;
mod progress;
mod prompts;
mod resource_contents;
mod resources;
mod roots;
mod sampling;
mod skills;
mod subscriptions;
mod tasks;
pub mod tasks_extension;
mod tools;
mod trace;

pub use crate::codec::{decode_base64, encode_base64, is_base64};
#[cfg(feature = "arbitrary")]
pub use base::arbitrary::ArbitraryAt;
pub use base::common::{Annotations, CacheHints, CacheScope, Icon, IconTheme, ResultType, Role};
pub use base::encode::{At, Encode, JsonLine};
pub use base::extra::{Extra, ExtraIter};
pub use base::format::{has_scheme, is_digest, is_fraction, is_media_type};
pub use base::logging_level::LoggingLevel;
pub use base::map::{Map, MapIter};
pub use base::meta::{Meta, ProgressToken, keys};
pub use base::one_or_many::OneOrMany;
pub use base::params::{Notification, Request};
pub use capabilities::{
    ClientCapabilities, ClientTaskRequests, ClientTasksCapability, ElicitationCapability, ElicitationTasks,
    ListCapability, ResourcesCapability, RootsCapability, SamplingCapability, SamplingTasks, ServerCapabilities,
    ServerTaskRequests, ServerTasksCapability, ToolTasks,
};
pub use completion::{
    CompleteParams, CompleteResult, Completion, CompletionArgument, CompletionContext, CompletionReference,
    PromptReference, ResourceTemplateReference,
};
pub use content::{AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent};
pub use discover::{DiscoverParams, DiscoverResult};
pub use elicitation::{
    ElicitAction, ElicitFormParams, ElicitMode, ElicitParams, ElicitResult, ElicitUrlParams, ElicitValue,
    ElicitationCompleteParams,
};
pub use errors::{MissingRequiredClientCapability, UnsupportedProtocolVersion, UrlElicitationRequired};
pub use extensions::{Extensions, SKILLS_EXTENSION, TASKS_EXTENSION};
pub use form::{
    BooleanSchema, ElicitSchema, EnumOption, LegacyTitledEnumSchema, NumberKind, NumberSchema, PrimitiveSchema,
    StringFormat, StringSchema, TitledItems, TitledMultiSelectEnumSchema, TitledSingleSelectEnumSchema, UntitledItems,
    UntitledMultiSelectEnumSchema, UntitledSingleSelectEnumSchema,
};
pub use input_required::{
    CreateMessageRequest, ElicitRequest, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    ListRootsRequest, answer,
};
pub use lifecycle::{EmptyResult, Implementation, InitializeParams, InitializeResult, InitializedParams, PingParams};
pub use logging::{LogMessageParams, SetLevelParams};
pub use messages::{ClientNotification, ClientRequest, ClientResult, ServerNotification, ServerRequest, ServerResult};
pub use progress::{CancelledParams, ProgressParams};
pub use prompts::{
    GetPromptParams, GetPromptResult, ListPromptsParams, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
    PromptsListChangedParams,
};
pub use resource_contents::{BlobResourceContents, ResourceContents, TextResourceContents};
pub use resources::{
    ListResourceTemplatesParams, ListResourceTemplatesResult, ListResourcesParams, ListResourcesResult,
    ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate, ResourceUpdatedParams,
    ResourcesListChangedParams, SubscribeParams, UnsubscribeParams,
};
pub use roots::{ListRootsParams, ListRootsResult, Root, RootsListChangedParams};
pub use sampling::{
    CreateMessageParams, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingContent,
    SamplingMessage, StopReason, ToolChoice, ToolChoiceMode, ToolResultContent, ToolResultFault, ToolUseContent,
    check_tool_results,
};
pub use skills::{
    DIRECTORY, GetSkillParams, GetSkillResult, ListSkillsParams, ListSkillsResult, ReadDirectoryParams,
    ReadDirectoryResult, SKILL_LIMITS, Skill, SkillFrontmatter, SkillResource, SkillResources,
};
pub(crate) use subscriptions::is_at_or_below;
pub use subscriptions::{
    SubscriptionFilter, SubscriptionsAcknowledgedParams, SubscriptionsListenParams, SubscriptionsListenResult,
};
pub use tasks::{
    CancelTaskParams, CancelTaskResult, CreateTaskResult, GetTaskParams, GetTaskPayloadParams, GetTaskPayloadResult,
    GetTaskResult, ListTasksParams, ListTasksResult, RelatedTask, Task, TaskMetadata, TaskOr, TaskStatus,
    TaskStatusParams,
};
pub use tools::{
    CallToolParams, CallToolResult, ListToolsParams, ListToolsResult, TaskSupport, TextResult, Tool, ToolAnnotations,
    ToolExecution, ToolsListChangedParams, is_object_schema,
};
pub use trace::{InvalidTrace, TraceContext};
