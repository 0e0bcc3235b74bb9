//! Arguments by reference: they become the state.

//~ MESSAGE the handler needs `State<Dig>`, and the state of the service is `()`
//~ LABEL its handler needs `State<Dig>`
//~ NOTE a parameter that is a reference is the state; arguments are taken by value

use mcp_service::{Context, Service, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Dig {
    depth: u32,
}

fn main() {
    let dig = Tool::new("dig", |dig: &Dig, _context: Context| format!("{} m", dig.depth));
    Service::builder("digger", "1.0.0").tool(dig);
}
