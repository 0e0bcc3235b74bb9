//! Typed params and results of every method and revision.
//!
//! The types carry the names of the specification, and one type serves all revisions: decoding accepts what any
//! of them may send, and [encoding for a revision](Encode) writes what that revision can read. Every object keeps the
//! members that it does not know.

mod cache;
mod capabilities;
mod common;
mod content;
mod decode;
mod encode;
mod format;
mod input_required;
mod lifecycle;
mod logging;
mod macros;
mod map;
mod messages;
mod meta;
mod progress;
mod resources;
mod tasks;
mod tools;

#[cfg(feature = "arbitrary")]
mod arbitrary;

use serde_core::de::DeserializeOwned;

use crate::protocol::Method;

#[cfg(feature = "arbitrary")]
pub use arbitrary::ArbitraryAt;
pub use cache::CacheScope;
pub use capabilities::{
    ClientCapabilities, ClientTaskRequests, ClientTasksCapability, ElicitationCapability, ElicitationTasks,
    ListCapability, ResourcesCapability, RootsCapability, SamplingCapability, SamplingTasks, ServerCapabilities,
    ServerTaskRequests, ServerTasksCapability, TASKS_EXTENSION, ToolTasks,
};
pub use common::{Annotations, Icon, IconTheme, ResultType, Role};
pub use content::{AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent};
pub use encode::{At, Encode};
pub use format::{has_scheme, is_base64, is_fraction};
pub use input_required::InputResponses;
pub use lifecycle::{EmptyResult, Implementation, InitializeParams, InitializeResult, InitializedParams, PingParams};
pub use logging::{LogMessageParams, LoggingLevel, SetLevelParams};
pub use map::{Extra, Map, MapIter};
pub use meta::{Meta, RelatedTask, keys};
pub use progress::{CancelledParams, ProgressParams, ProgressToken};
pub use resources::{
    BlobResourceContents, ListResourceTemplatesParams, ListResourceTemplatesResult, ListResourcesParams,
    ListResourcesResult, ReadResourceParams, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    ResourceUpdatedParams, ResourcesListChangedParams, SubscribeParams, TextResourceContents, UnsubscribeParams,
};
pub use tasks::TaskMetadata;
pub use tools::{
    CallToolParams, CallToolResult, ListToolsParams, ListToolsResult, TaskSupport, Tool, ToolAnnotations,
    ToolExecution, ToolsListChangedParams, is_object_schema,
};

/// The params of a request.
pub trait Request: Encode + DeserializeOwned {
    /// The method that they are the params of.
    const METHOD: Method;
    /// What answers the request.
    type Result: Encode + DeserializeOwned;

    /// Whether there is nothing to say, so that the message can do without params.
    fn is_empty(&self) -> bool {
        false
    }
}

/// The params of a notification.
pub trait Notification: Encode + DeserializeOwned {
    /// The method that they are the params of.
    const METHOD: Method;

    /// Whether there is nothing to say, so that the message can do without params.
    fn is_empty(&self) -> bool {
        false
    }
}
