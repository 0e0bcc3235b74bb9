//! An argument whose type has no schema.

//~ RUSTC the trait bound `Depth: JsonSchema` is not satisfied
//~ AT Depth

use mcp_service::handlers;

struct Garden;

#[derive(serde::Deserialize)]
struct Depth(u32);

#[handlers]
impl Garden {
    #[tool]
    fn dig(&self, depth: Depth) -> u32 {
        depth.0
    }
}

fn main() {}
