//! A closure without `async` in a constructor for futures.

//~ MESSAGE is not an asynchronous handler
//~ NOTE a function that returns no future takes the constructor without `_async`

use mcp_service::{Context, Tool};

fn main() {
    Tool::new_async("wait", |_context: Context| "waited");
}
