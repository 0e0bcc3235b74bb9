//! A completion of a text in place of a request.

//~ MESSAGE is not a handler
//~ NOTE the handler of a completion has a `CompletionRequest` in place of the arguments and the `Context`

use mcp_service::{Prompt, Context};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    Prompt::new("greet", |greet: Greet| format!("Greet {}", greet.name))
        .complete("name", |typed: String, _context: Context| vec![format!("{typed}!")]);
}
