//! A resource without a URI.

//~ MESSAGE a resource has a URI
//~ AT resource

use mcp_service::handlers;

struct Garden;

#[handlers]
impl Garden {
    #[resource(name = "depth")]
    fn depth(&self) -> &'static str {
        "2"
    }
}

fn main() {}
