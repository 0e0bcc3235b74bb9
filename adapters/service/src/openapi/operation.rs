//! Operations: what a tool needs to know about a request.

use mcp_proto::{schema::ToolAnnotations, wire::JsonObject};

use super::parameter::Parameter;
use crate::server::tool::Tool;

/// An operation that can be a tool.
#[derive(Debug)]
pub(super) struct Operation {
    /// The name of the tool.
    pub(super) name: String,
    pub(super) description: String,
    /// The method, in upper case.
    pub(super) method: &'static str,
    /// The path in the document.
    pub(super) path: String,
    pub(super) parts: Vec<PathPart>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) input_schema: JsonObject,
    pub(super) output_schema: Option<JsonObject>,
}

/// A part of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathPart {
    /// A text, percent-encoded.
    Text(String),
    /// The number of the parameter whose value is there.
    Parameter(usize),
}

/// A request body, which is JSON.
#[derive(Debug)]
pub(super) struct Body {
    /// The name of the argument.
    pub(super) argument: String,
    pub(super) media_type: String,
}

impl Operation {
    /// Completes the definition of the tool.
    pub(super) fn describe(&self, tool: Tool) -> Tool {
        let is_idempotent = matches!(self.method, "GET" | "PUT" | "DELETE");
        let annotations = ToolAnnotations {
            read_only_hint: Some(self.method == "GET"),
            idempotent_hint: Some(is_idempotent),
            open_world_hint: Some(true),
            ..ToolAnnotations::default()
        };
        let mut tool = tool.annotations(annotations).with_foreign_schemas();
        if !self.description.is_empty() {
            tool = tool.description(&self.description);
        }
        match &self.output_schema {
            Some(schema) => tool.output_schema(schema.clone()),
            None => tool,
        }
    }
}
