//! A method without `async` in a constructor for futures.

//~ MESSAGE is not an asynchronous handler
//~ NOTE a function that returns no future takes the constructor without `_async`

use mcp_service::{Context, Tool};

struct Counter;

impl Counter {
    fn get(&self, _context: Context) -> String {
        "0".to_owned()
    }
}

fn main() {
    Tool::new_async("get", Counter::get);
}
