//! The variables of a template as several parameters.

//~ MESSAGE is not a handler
//~ NOTE several arguments are the fields of one struct

use mcp_service::ResourceTemplate;

fn main() {
    ResourceTemplate::new("log://{year}/{day}", "log", |year: u32, day: u32| format!("{year}-{day}"));
}
