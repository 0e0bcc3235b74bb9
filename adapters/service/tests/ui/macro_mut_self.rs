//! A handler that changes the state.

//~ MESSAGE a handler takes `&self`, since handlers run at the same time
//~ AT &mut self

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool]
    fn dig(&mut self, depth: u32) -> u32 {
        depth
    }
}

fn main() {}
