//! A method that is an `async fn` in a constructor for functions.

//~ MESSAGE is not a handler
//~ NOTE a method that is an `async fn` takes the constructor whose name ends in `_async`

use mcp_service::{Service, Tool};

struct Counter;

impl Counter {
    async fn get(&self) -> String {
        "0".to_owned()
    }
}

fn main() {
    Service::builder("counter", "1.0.0").with_state(Counter).tool(Tool::new("get", Counter::get));
}
