//! The state as a parameter of the context.

//~ MESSAGE `Garden` is not a role
//~ NOTE a handler has the shared state as a parameter of its own
//~ MESSAGE is not a handler

use mcp_service::{Context, Tool};

struct Garden;

fn dig(_context: Context<Garden>) -> &'static str {
    "deep"
}

fn main() {
    Tool::new("dig", dig);
}
