//! A method that takes the state by value.

//~ MESSAGE is not a handler
//~ NOTE the shared state is `&S`, `State<S>` or `Arc<S>`, also that of a method, and not `S` or `&mut S`

use mcp_service::{Service, Tool};

struct Counter(i64);

impl Counter {
    fn get(self) -> i64 {
        self.0
    }
}

fn main() {
    Service::builder("counter", "1.0.0").with_state(Counter(0)).tool(Tool::new("get", Counter::get));
}
