//! The state is set after the tool.

//~ MESSAGE the handler needs `State<Garden>`, and the state of the service is `()`
//~ NOTE set the state with `.with_state(..)` before the items whose handlers use it

use mcp_service::{Service, State, Tool};

struct Garden;

fn dig(_garden: State<Garden>) -> &'static str {
    "deep"
}

fn main() {
    Service::builder("digger", "1.0.0").tool(Tool::new("dig", dig)).with_state(Garden);
}
