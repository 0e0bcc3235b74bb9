//! Arguments without `Deserialize`.

//~ MESSAGE is not a handler
//~ NOTE one type that implements `serde::Deserialize` and owns its data

use mcp_service::Tool;

#[derive(schemars::JsonSchema)]
struct Dig {
    depth: u32,
}

fn main() {
    Tool::new("dig", |dig: Dig| format!("{} m", dig.depth));
}
