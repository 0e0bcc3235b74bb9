//! An argument that `#[arg]` does not have.

//~ MESSAGE unknown argument `rename`: #[arg] takes `name`, `description`, `default`
//~ AT rename

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool]
    fn dig(&self, #[arg(rename = "d")] depth: u32) -> u32 {
        depth
    }
}

fn main() {}
