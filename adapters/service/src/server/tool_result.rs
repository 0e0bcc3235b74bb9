//! What tools return.

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{CallToolResult, ContentBlock, Encode, JsonLine, TextResult},
    wire::Json,
};
use serde_core::{Serialize, Serializer};

use crate::inbound::failure::Failure;

/// What can be the result of a tool.
///
/// A text, a piece of content or several, [`Structured`] data, a whole [`CallToolResult`], nothing, or a `Result` of these
/// whose error is anything that becomes a [`Failure`].
pub trait IntoToolResult {
    /// The result.
    ///
    /// # Errors
    /// Why there is none.
    fn into_tool_result(self) -> Result<CallToolResult, Failure>;

    /// The same, without making more of a text than it is.
    #[doc(hidden)]
    fn into_answer(self) -> Result<ToolAnswer, Failure>
    where
        Self: Sized,
    {
        self.into_tool_result().map(ToolAnswer::of)
    }
}

/// What a tool answers.
#[derive(Debug)]
pub enum ToolAnswer {
    /// One text.
    Text(TextResult),
    /// Anything else. Boxed, since it is handed on from one to the next as most answers are, and is large.
    Result(Box<CallToolResult>),
}

impl ToolAnswer {
    /// The tool has failed; why.
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

/// Data as a result: as structured content (2025-06-18), and the same as text. What is not written as a JSON object is
/// structured content since 2026-07-28, and only text before.
///
/// What it looks like can be declared with [`Tool::output`](crate::Tool::output_schema).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured<T>(pub T);

impl<T: Serialize> IntoToolResult for Structured<T> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        let json = Json::new(&self.0)?;
        Ok(CallToolResult { structured_content: Some(json), ..CallToolResult::new([]) })
    }
}
