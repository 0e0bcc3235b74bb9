//! All arguments, and another one.

//~ MESSAGE `#[arguments]` is all arguments: there are no others beside it
//~ AT depth

use mcp_service::handlers;

struct Garden;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Plant {
    kind: String,
}

#[handlers]
impl Garden {
    #[tool]
    fn plant(&self, #[arguments] plant: Plant, depth: u32) -> String {
        format!("{} at {depth}", plant.kind)
    }
}

fn main() {}
