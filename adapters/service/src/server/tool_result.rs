//! The results of tools.

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{CallToolResult, ContentBlock, Encode, JsonLine, TextResult},
    wire::Json,
};
use serde_core::{Serialize, Serializer};

use crate::inbound::failure::Failure;

/// A type that can be the result of a tool.
///
/// It is a text, a piece of content or several, [`Structured`] data, a whole [`CallToolResult`], nothing, or a `Result`
/// of these whose error is anything that becomes a [`Failure`].
pub trait IntoToolResult {
    /// Converts it into the result of a call.
    ///
    /// # Errors
    /// The failure of the handler.
    fn into_tool_result(self) -> Result<CallToolResult, Failure>;

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

    pub(super) fn of(result: CallToolResult) -> Self {
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

impl IntoToolResult for Vec<ContentBlock> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(CallToolResult::new(self))
    }
}

impl IntoToolResult for ContentBlock {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(CallToolResult::new([self]))
    }
}

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

text!(String, &'static str);

impl<T: IntoToolResult, E: Into<Failure>> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        self.map_err(Into::into)?.into_tool_result()
    }

    fn into_answer(self) -> Result<ToolAnswer, Failure> {
        self.map_err(Into::into)?.into_answer()
    }
}

/// Data as a result: as structured content (2025-06-18), and the same as text. Data that is not serialized as a JSON
/// object is structured content since 2026-07-28, and only text before.
///
/// Its schema can be declared with [`Tool::output`](crate::Tool::output_schema).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured<T>(pub T);

impl<T: Serialize> IntoToolResult for Structured<T> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        let json = Json::new(&self.0)?;
        Ok(CallToolResult { structured_content: Some(json), ..CallToolResult::new([]) })
    }
}
