//! The handler is called, and its result is registered.

//~ MESSAGE `String` is not a handler
//~ LABEL not a handler

use mcp_service::Tool;

fn dig() -> String {
    "deep".to_owned()
}

fn main() {
    Tool::new("dig", dig());
}
