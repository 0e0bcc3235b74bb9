//! A method with two attributes.

//~ MESSAGE a method is a handler of one kind
//~ AT #[prompt]

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool]
    #[prompt]
    fn dig(&self) -> &'static str {
        "dug"
    }
}

fn main() {}
