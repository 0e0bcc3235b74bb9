//! A pattern in place of the name of an argument.

//~ MESSAGE an argument has a name
//~ AT (depth, width)

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool]
    fn dig(&self, (depth, width): (u32, u32)) -> u32 {
        depth * width
    }
}

fn main() {}
