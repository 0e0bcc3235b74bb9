//! The results of tools.

use std::borrow::Cow;

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{
        AudioContent, CallToolResult, ContentBlock, EmbeddedResource, Encode, ImageContent, JsonLine, ResourceLink,
        TextContent, TextResult,
    },
    wire::{Json, JsonObject},
};
#[cfg(feature = "schemas")]
use serde_core::Serialize;
use serde_core::Serializer;

use crate::inbound::failure::Failure;
#[cfg(feature = "schemas")]
use crate::inbound::handler::signature::HasSchema;

/// A type that can be the result of a tool.
///
/// It is one of these:
///
/// - a text: `String`, `&'static str`, `Cow<'static, str>`, or a number or a `bool`, which is written as a text
/// - content: a [`ContentBlock`], one of its kinds, such as an [`ImageContent`], or a `Vec` of blocks, kinds or texts
/// - a [`File`](crate::File) with its media type
/// - `Structured` data with a schema (with the feature `schemas`), or data without one: a [`serde_json::Value`]
/// - a whole [`CallToolResult`]
/// - nothing: `()`
/// - an `Option` of these, of which `None` is nothing
/// - a `Result` of these, whose error is anything that becomes a [`Failure`]
///
/// ```
/// use mcp_proto::schema::ImageContent;
/// use mcp_service::{Failure, Tool};
///
/// let half = Tool::new("half", || 0.5);
/// let names = Tool::new("names", || vec!["Ada", "Grace"]);
/// let dot = Tool::new("dot", || ImageContent::from_bytes(b"GIF89a..", "image/gif"));
/// let first = Tool::new("first", || Ok::<_, Failure>(std::env::args().next()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    label = "its handler returns `{Self}`",
    note = "a result is a text, a number, content, `Structured(..)` data, `serde_json::Value`, `CallToolResult`, `()`, or \
            an `Option` or `Result` of these",
    note = "data that implements `serde::Serialize` and `schemars::JsonSchema` is a result as `Structured(data)`",
    note = "a handler that is an `async fn` or returns a future takes the constructor whose name ends in `_async`"
)]
pub trait IntoToolResult {
    /// Converts it into the result of a call.
    ///
    /// # Errors
    /// The failure of the handler.
    fn into_tool_result(self) -> Result<CallToolResult, Failure>;

    /// Returns the JSON Schema of the structured content that it always has, if there is one. It becomes the output
    /// schema of the tool.
    fn output_schema() -> Option<JsonObject> {
        None
    }

    /// Converts it as [`into_tool_result`](Self::into_tool_result) does, but keeps a single text as a text.
    #[doc(hidden)]
    fn into_answer(self) -> Result<ToolAnswer, Failure>
    where
        Self: Sized,
    {
        self.into_tool_result().map(ToolAnswer::of)
    }
}

/// The result of a tool, or a single text.
#[derive(Debug)]
pub enum ToolAnswer {
    /// One text.
    Text(TextResult),
    /// Any other result. It is boxed because it is large and is moved often.
    Result(Box<CallToolResult>),
}

impl ToolAnswer {
    /// Creates the result of a failed call.
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self::of(CallToolResult::error(why))
    }

    pub(crate) fn of(result: CallToolResult) -> Self {
        Self::Result(Box::new(result))
    }

    pub(crate) fn is_error(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Result(result) => result.is_error(),
        }
    }

    pub(super) fn into_result(self) -> CallToolResult {
        match self {
            Self::Text(text) => text.into(),
            Self::Result(result) => *result,
        }
    }
}

impl Encode for ToolAnswer {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.encode_at(version, serializer),
            Self::Result(result) => result.encode_at(version, serializer),
        }
    }

    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        match self {
            Self::Text(text) => text.append_at(version, out),
            Self::Result(result) => result.append_at(version, out),
        }
    }
}

impl IntoToolResult for CallToolResult {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(self)
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(CallToolResult::new([]))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Into<ContentBlock>> IntoToolResult for Vec<T> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(CallToolResult::new(self.into_iter().map(Into::into).collect::<Vec<ContentBlock>>()))
    }
}

macro_rules! content {
    ($($Type:ty),*) => {
        $(impl IntoToolResult for $Type {
            fn into_tool_result(self) -> Result<CallToolResult, Failure> {
                Ok(CallToolResult::new([ContentBlock::from(self)]))
            }
        })*
    };
}

content!(ContentBlock, TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource);

macro_rules! text {
    ($($Type:ty),*) => {
        $(impl IntoToolResult for $Type {
            fn into_tool_result(self) -> Result<CallToolResult, Failure> {
                Ok(CallToolResult::text(self))
            }

            fn into_answer(self) -> Result<ToolAnswer, Failure> {
                Ok(ToolAnswer::Text(TextResult(self.into())))
            }
        })*
    };
}

text!(String, &'static str, Cow<'static, str>);

macro_rules! written {
    ($($Type:ty),*) => {
        $(impl IntoToolResult for $Type {
            fn into_tool_result(self) -> Result<CallToolResult, Failure> {
                self.to_string().into_tool_result()
            }

            fn into_answer(self) -> Result<ToolAnswer, Failure> {
                self.to_string().into_answer()
            }
        })*
    };
}

written!(bool, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64);

impl<T: IntoToolResult> IntoToolResult for Option<T> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        self.map_or_else(|| ().into_tool_result(), T::into_tool_result)
    }

    fn into_answer(self) -> Result<ToolAnswer, Failure> {
        self.map_or_else(|| ().into_answer(), T::into_answer)
    }
}

impl<T: IntoToolResult, E: Into<Failure>> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        self.map_err(Into::into)?.into_tool_result()
    }

    fn output_schema() -> Option<JsonObject> {
        T::output_schema()
    }

    fn into_answer(self) -> Result<ToolAnswer, Failure> {
        self.map_err(Into::into)?.into_answer()
    }
}

/// Data without a schema. For data with one, see `Structured`.
impl IntoToolResult for serde_json::Value {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        let json = Json::new(&self)?;
        Ok(CallToolResult { structured_content: Some(json), ..CallToolResult::new([]) })
    }
}

/// Data as a result: as structured content (2025-06-18), and the same as text. Data that is not serialized as a JSON
/// object is structured content since 2026-07-28, and only text before.
///
/// The output schema of the tool is that of its type as it is serialized:
///
/// ```
/// use mcp_service::{Structured, Tool};
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Weather {
///     celsius: f64,
/// }
///
/// let tool = Tool::new("weather", || Structured(Weather { celsius: 21.5 }));
/// ```
///
/// Data is checked against the schema before it is sent. Data that `Serialize` writes in another way than `JsonSchema`
/// describes it, such as a number that is not finite, is not sent: the call fails with the error -32603.
///
/// For data whose schema is not known before the program runs, return a [`serde_json::Value`], and set the schema with
/// [`Tool::output_schema`](crate::Tool::output_schema).
#[cfg(feature = "schemas")]
#[doc(alias = "json")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured<T>(pub T);

#[cfg(feature = "schemas")]
impl<T: Serialize + HasSchema> IntoToolResult for Structured<T> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        let json = Json::new(&self.0)?;
        Ok(CallToolResult { structured_content: Some(json), ..CallToolResult::new([]) })
    }

    fn output_schema() -> Option<JsonObject> {
        let schema = crate::json_schema::derive::output_schema::<T>();
        // A schema without any keyword allows everything.
        let is_rule = schema.as_object().is_some_and(|schema| schema.keys().any(|keyword| keyword != "$schema"));
        if is_rule { JsonObject::new(&schema).ok() } else { None }
    }
}
