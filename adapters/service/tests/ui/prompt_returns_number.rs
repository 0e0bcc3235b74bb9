//! A number as a prompt.

//~ MESSAGE `{integer}` cannot be the result of a prompt
//~ NOTE a result is a text, `PromptMessage`, several of them, `GetPromptResult`, or a `Result` of these

use mcp_service::Prompt;

fn main() {
    Prompt::new("count", || 5);
}
