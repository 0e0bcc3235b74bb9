//! A block without handlers.

//~ MESSAGE no method of the block has `#[tool]`
//~ AT Garden

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    fn dig(&self) -> &'static str {
        "dug"
    }
}

fn main() {}
