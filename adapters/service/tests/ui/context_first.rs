//! The context in front of the arguments.

//~ MESSAGE is not a handler
//~ NOTE in this order: the shared state, the arguments, and a `Context`

use mcp_service::{Context, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Dig {
    depth: u32,
}

fn dig(_context: Context, dig: Dig) -> String {
    format!("{} m", dig.depth)
}

fn main() {
    Tool::new("dig", dig);
}
