//! Results of tools that are read into a type.

use mcp_proto::{
    schema::{CallToolResult, ContentBlock},
    wire::Json,
};
use serde_core::{Serialize, de::DeserializeOwned};

use crate::{outbound::error::CallError, util::text_arguments::excerpt};

/// Reads the result of a tool into a type: its structured content, or else its only text as JSON, or else that text
/// itself; the first of them that the type accepts. A result without any content is null.
///
/// This is the same in every revision: structured content that is no object is only a text before 2026-07-28, and all
/// structured content is before 2025-06-18.
pub(super) fn read<T: DeserializeOwned>(result: &CallToolResult) -> Result<T, CallError> {
    if result.is_error() {
        let texts: Vec<_> = result.content.iter().filter_map(ContentBlock::as_text).collect();
        return Err(CallError::ToolFailed(texts.join("\n")));
    }
    let decode_error = |why: &str| CallError::Decode(why.into());
    let unreadable = |error: serde_json::Error| CallError::Decode(excerpt(&error));
    let no_structured = match result.structured_content.as_ref().map(Json::decode) {
        Some(Ok(value)) => return Ok(value),
        Some(Err(error)) => Some(unreadable(error)),
        None => None,
    };
    let value = match result.content.as_slice() {
        [content] => match content.as_text() {
            Some(text) => read_text(text).map_err(unreadable),
            None => Err(decode_error("the content of the result is not a text")),
        },
        [] if no_structured.is_none() => read_value(&()).map_err(|_| decode_error("the result has no content")),
        _ => Err(decode_error("the result has neither structured content nor a single text")),
    };
    value.map_err(|error| no_structured.unwrap_or(error))
}

/// Reads JSON in a text, or else the text itself, which types such as `String` accept.
fn read_text<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    let json = Json::parse(text).map(|json| json.decode());
    match json {
        Ok(Ok(value)) => Ok(value),
        // Of the two errors, that of the JSON is the one for which the text was sent.
        Ok(Err(error)) => read_value(text).map_err(|_| error),
        Err(_) => read_value(text),
    }
}

fn read_value<T: DeserializeOwned>(value: &(impl Serialize + ?Sized)) -> Result<T, serde_json::Error> {
    Json::new(value)?.decode()
}
