//! A handler without `&self`.

//~ MESSAGE a handler is a method: its first parameter is `&self`
//~ AT dig

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool]
    fn dig(depth: u32) -> u32 {
        depth
    }
}

fn main() {}
