//! Texts as a prompt.

//~ MESSAGE `Vec<&str>` cannot be the result of a prompt

use mcp_service::Prompt;

fn main() {
    Prompt::new("count", || vec!["Count!", "Now!"]);
}
