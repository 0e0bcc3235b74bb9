//! A text that cannot be the name of a tool.

//~ MESSAGE the name of a tool has 1 to 128 ASCII letters, digits and `_-.`
//~ AT "dig a hole"

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool(name = "dig a hole")]
    fn dig(&self) -> &'static str {
        "dug"
    }
}

fn main() {}
