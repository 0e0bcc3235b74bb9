//! The state by value.

//~ MESSAGE is not a handler
//~ NOTE the shared state is `&S`, `State<S>` or `Arc<S>`, also that of a method, and not `S` or `&mut S`

use mcp_service::{Service, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Dig {
    depth: u32,
}

#[derive(Clone)]
struct Garden;

fn dig(_garden: Garden, dig: Dig) -> String {
    format!("{} m", dig.depth)
}

fn main() {
    Service::builder("digger", "1.0.0").with_state(Garden).tool(Tool::new("dig", dig));
}
