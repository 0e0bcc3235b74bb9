//! Arguments without `JsonSchema`.

//~ MESSAGE `Dig` has no JSON Schema
//~ LABEL `Dig` does not implement `schemars::JsonSchema`
//~ NOTE a type with `#[derive(schemars::JsonSchema)]` has one, with version 1 of `schemars`
//~ NOTE `Tool::with_schema` and `Prompt::with_arguments` take arguments without a schema

use mcp_service::Tool;

#[derive(serde::Deserialize)]
struct Dig {
    depth: u32,
}

fn main() {
    Tool::new("dig", |dig: Dig| format!("{} m", dig.depth));
}
