//! Two structs of arguments.

//~ MESSAGE is not a handler
//~ LABEL not a handler
//~ NOTE several arguments are the fields of one struct

use mcp_service::{Context, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Dig {
    depth: u32,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Place {
    name: String,
}

fn main() {
    Tool::new("dig", |dig: Dig, place: Place, _context: Context| format!("{} m at {}", dig.depth, place.name));
}
