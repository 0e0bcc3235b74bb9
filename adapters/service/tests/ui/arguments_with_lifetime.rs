//! Arguments that borrow. The compiler finds it when it checks lifetimes.

//~ RUSTC is not general enough

use mcp_service::Tool;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet<'a> {
    name: &'a str,
}

fn greet(greet: Greet<'_>) -> String {
    format!("Hello, {}", greet.name)
}

fn main() {
    Tool::new("greet", greet);
}
