//! Calls: arguments become a request, and a response becomes a result.

use std::sync::Arc;

use mcp_proto::{
    schema::{AudioContent, CallToolResult, ContentBlock, ImageContent},
    wire::{Json, JsonObject},
};
use serde_json::{Map, Value};

use super::{
    encode::is_dot_segment,
    http::{HttpRequest, HttpResponse, is_json},
    operation::{Operation, PathPart},
    parameter::ParameterLocation,
};
use crate::inbound::failure::Failure;

/// How many bytes of a response with an error the model reads.
const MAX_ERROR: usize = 4 << 10;

/// An operation at a base URL.
pub(super) struct Endpoint {
    operation: Arc<Operation>,
    base: Arc<str>,
    max_response_bytes: usize,
}

impl Endpoint {
    pub(super) const fn new(operation: Arc<Operation>, base: Arc<str>, max_response_bytes: usize) -> Self {
        Self { operation, base, max_response_bytes }
    }

    /// Returns the name and the input schema of the tool, and the rest of its definition.
    pub(super) fn tool_parts(&self) -> (String, JsonObject, Arc<Operation>) {
        let operation = &self.operation;
        (operation.name.clone(), operation.input_schema.clone(), operation.clone())
    }

    /// Returns the request of a call.
    pub(super) fn request(&self, arguments: &Map<String, Value>) -> Result<HttpRequest, Failure> {
        let operation = &*self.operation;
        // An argument that is `null` is left out.
        let value = |argument: &str| arguments.get(argument).filter(|value| !value.is_null());
        let mut path = String::new();
        for part in &operation.parts {
            match part {
                PathPart::Text(text) => path.push_str(text),
                PathPart::Parameter(number) => {
                    let parameter = &operation.parameters[*number];
                    let missing = || Failure::new(format!("the argument {:?} is missing", parameter.argument));
                    path.push_str(&parameter.in_path(value(&parameter.argument).ok_or_else(missing)?)?);
                }
            }
        }
        if path.split('/').any(is_dot_segment) {
            return Err(Failure::new("an argument would make a segment of the path \".\" or \"..\""));
        }
        let (mut query, mut headers) = (String::new(), Vec::new());
        for parameter in &operation.parameters {
            let Some(value) = value(&parameter.argument) else { continue };
            match parameter.location {
                ParameterLocation::Path => {}
                ParameterLocation::Query => parameter.push_query(value, &mut query)?,
                ParameterLocation::Header => {
                    headers.push((parameter.name.to_ascii_lowercase(), parameter.in_header(value)?))
                }
            }
        }
        if !query.is_empty() {
            query.replace_range(..1, "?");
        }
        let mut body = None;
        // The body may be `null`.
        if let Some(described) = &operation.body
            && let Some(value) = arguments.get(&described.argument)
        {
            headers.push(("content-type".into(), described.media_type.clone()));
            body = Some(value.to_string().into_bytes());
        }
        let url = format!("{}{path}{query}", self.base);
        Ok(HttpRequest { method: operation.method, url, headers, body, max_response_bytes: self.max_response_bytes })
    }

    /// Returns the result of a call.
    pub(super) fn result(&self, response: HttpResponse) -> Result<CallToolResult, Failure> {
        let failed = |why: String| Ok(CallToolResult::error(why));
        if response.body.len() > self.max_response_bytes {
            return failed(format!("the response has more than {} bytes", self.max_response_bytes));
        }
        if !(200..300).contains(&response.status) {
            let mut text = String::from_utf8_lossy(&response.body[..response.body.len().min(MAX_ERROR)]).into_owned();
            if response.body.len() > MAX_ERROR {
                text.push('…');
            }
            let between = if text.is_empty() { "" } else { ": " };
            return failed(format!("HTTP status {}{between}{text}", response.status));
        }
        let media_type = response.media_type();
        if self.operation.output_schema.is_some() {
            let text = String::from_utf8(response.body).ok().filter(|_| is_json(&media_type));
            let json = text.and_then(|text| Json::parse(text).ok()).filter(Json::is_object);
            return match json {
                Some(json) => Ok(CallToolResult { structured_content: Some(json), ..CallToolResult::new([]) }),
                None => failed("the response is not the JSON object that the API describes".into()),
            };
        }
        if media_type.starts_with("image/") && media_type != "image/svg+xml" {
            let image = ImageContent::from_bytes(&response.body, media_type);
            return Ok(CallToolResult::new([ContentBlock::from(image)]));
        }
        if media_type.starts_with("audio/") {
            let audio = AudioContent::from_bytes(&response.body, media_type);
            return Ok(CallToolResult::new([ContentBlock::from(audio)]));
        }
        match String::from_utf8(response.body) {
            Ok(text) if text.is_empty() => Ok(CallToolResult::new([])),
            Ok(text) => Ok(CallToolResult::text(text)),
            Err(_) => failed(format!("the response is not a text but {media_type:?}")),
        }
    }
}
