//! Another state than that of the service.

//~ MESSAGE the handler needs `State<Garden>`, and the state of the service is `House`
//~ NOTE set the state with `.with_state(..)` before the items whose handlers use it
//~ NOTE for a part of the state, implement `FromState<House>` for `State<Garden>`

use mcp_service::{Service, State, Tool};

struct Garden;
struct House;

fn dig(_garden: State<Garden>) -> &'static str {
    "deep"
}

fn main() {
    Service::builder("digger", "1.0.0").with_state(House).tool(Tool::new("dig", dig));
}
