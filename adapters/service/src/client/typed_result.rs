//! Results of tools that are read into a type.

use mcp_proto::{
    schema::{CallToolResult, ContentBlock},
    wire::Json,
};
use serde_core::de::{DeserializeOwned, IntoDeserializer, value::Error};

use crate::{outbound::error::CallError, util::text_arguments::excerpt};

/// Reads the result of a tool.
pub(super) fn read<T: DeserializeOwned>(result: &CallToolResult) -> Result<T, CallError> {
    if result.is_error() {
        let texts: Vec<_> = result.content.iter().filter_map(ContentBlock::as_text).collect();
        return Err(CallError::ToolFailed(texts.join("\n")));
    }
    if let Some(content) = &result.structured_content {
        return content.decode().map_err(unreadable);
    }
    let [content] = result.content.as_slice() else {
        return Err(CallError::Decode("the result has neither structured content nor a single text".into()));
    };
    let Some(text) = content.as_text() else {
        return Err(CallError::Decode("the content of the result is not a text".into()));
    };
    // Types such as `String` are the text itself. In early revisions structured content is JSON in the text.
    let own: Result<T, Error> = T::deserialize(text.into_deserializer());
    own.or_else(|_| Json::parse(text).and_then(|json| json.decode()).map_err(unreadable))
}

fn unreadable(error: serde_json::Error) -> CallError {
    CallError::Decode(excerpt(&error))
}
