//! One text as proposals.

//~ MESSAGE `&str` cannot be proposals for an argument
//~ LABEL its handler returns `&str`
//~ NOTE proposals are a `Vec` of texts

use mcp_service::{CompletionRequest, Prompt};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    Prompt::new("greet", |greet: Greet| format!("Greet {}", greet.name))
        .complete("name", |_request: CompletionRequest| "Ada");
}
