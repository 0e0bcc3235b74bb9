//! The request of a completion as the arguments of a tool.

//~ MESSAGE the arguments of the handler have no JSON Schema
//~ LABEL its handler has arguments without a JSON Schema
//~ NOTE a `CompletionRequest` is the parameter of a completion, and not that of a tool or a prompt

use mcp_service::{CompletionRequest, Tool};

fn main() {
    Tool::new("names", |_request: CompletionRequest| vec!["Ada"]);
}
