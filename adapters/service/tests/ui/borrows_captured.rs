//! A closure that borrows what it captures.

//~ RUSTC E0373

use mcp_service::Tool;

fn main() {
    let name = "Ada".to_owned();
    Tool::new("greet", || format!("Hello, {name}"));
}
