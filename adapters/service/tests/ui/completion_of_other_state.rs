//! A completion with another state than that of the prompt.

//~ RUSTC E0631

use mcp_service::{CompletionRequest, Prompt, State};

struct Garden;
struct House;

fn greet(_garden: State<Garden>) -> &'static str {
    "Hello"
}

fn names(_house: State<House>, _request: CompletionRequest) -> Vec<String> {
    Vec::new()
}

fn main() {
    Prompt::new("greet", greet).complete("name", names);
}
