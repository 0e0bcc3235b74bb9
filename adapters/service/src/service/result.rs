//! What tools return.

use mcp_proto::{
    schema::{CallToolResult, ContentBlock},
    wire::Json,
};
use serde_core::Serialize;

use crate::Failure;

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

macro_rules! one_block {
    ($($Type:ty),*) => {
        $(impl IntoToolResult for $Type {
            fn into_tool_result(self) -> Result<CallToolResult, Failure> {
                Ok(CallToolResult::new([ContentBlock::from(self)]))
            }
        })*
    };
}

one_block!(ContentBlock, String, &'static str);

impl<T: IntoToolResult, E: Into<Failure>> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        self.map_err(Into::into)?.into_tool_result()
    }
}

/// Data as a result: as structured content (2025-06-18), and the same as text. What is not written as a JSON object is
/// structured content since 2026-07-28, and only text before.
///
/// What it looks like can be declared with [`Tool::output`](super::Tool::output_schema).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured<T>(pub T);

impl<T: Serialize> IntoToolResult for Structured<T> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        let json = Json::new(&self.0)?;
        Ok(CallToolResult { structured_content: Some(json), ..CallToolResult::new([]) })
    }
}
