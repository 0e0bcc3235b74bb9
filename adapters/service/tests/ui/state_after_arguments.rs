//! The state behind the arguments.

//~ MESSAGE is not a handler
//~ NOTE in this order: the shared state, the arguments, and a `Context`

use mcp_service::{Service, State, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Dig {
    depth: u32,
}

struct Garden;

fn dig(dig: Dig, _garden: State<Garden>) -> String {
    format!("{} m", dig.depth)
}

fn main() {
    Service::builder("digger", "1.0.0").with_state(Garden).tool(Tool::new("dig", dig));
}
