//! A resource with arguments.

//~ MESSAGE the handler of a resource takes no arguments
//~ LABEL its handler takes arguments
//~ NOTE resources with variables in their URIs are a `ResourceTemplate`

use mcp_service::{Context, Resource};

fn main() {
    Resource::new("count://now", "count", |_uri: String, _context: Context| "5");
}
