//! A tool without the state of its handler is added to a service.

//~ MESSAGE cannot be registered
//~ LABEL not an item with the state of its handlers
//~ NOTE handlers with a shared state get it from `.with_state(..)` of the item

use mcp_service::{Service, State, Tool};

struct Garden;

fn dig(_garden: State<Garden>) -> &'static str {
    "deep"
}

fn main() {
    let service = Service::builder("digger", "1.0.0").with_state(Garden).build().expect("a service");
    service.add(Tool::new("dig", dig)).expect("a new tool");
}
