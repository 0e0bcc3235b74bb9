//! Two tools with one name.

//~ MESSAGE the block has a tool "dig" already
//~ AT "dig"

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool]
    fn dig(&self) -> &'static str {
        "dug"
    }

    // A prompt may have the name of a tool.
    #[prompt(name = "dig")]
    fn dig_prompt(&self) -> &'static str {
        "Dig!"
    }

    #[tool(name = "dig")]
    fn dig_again(&self) -> &'static str {
        "dug"
    }
}

fn main() {}
