//! A method with the name of the function.

//~ MESSAGE the block has a method `handlers`: `#[handlers(fn ..)]` gives the function another name
//~ AT handlers

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[tool]
    fn handlers(&self) -> &'static str {
        "Ada"
    }
}

fn main() {}
