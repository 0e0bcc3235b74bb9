//! The block of a trait.

//~ MESSAGE the methods of a trait are no handlers
//~ AT Dig

use mcp_service::handlers;

struct Garden;

trait Dig {
    fn dig(&self) -> &'static str;
}

#[handlers]
impl Dig for Garden {
    #[tool]
    fn dig(&self) -> &'static str {
        "dug"
    }
}

fn main() {}
