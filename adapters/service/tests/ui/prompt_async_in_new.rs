//! An `async` closure in a constructor for functions.

//~ MESSAGE cannot be the result of a prompt
//~ NOTE takes the constructor whose name ends in `_async`

use mcp_service::Prompt;

fn main() {
    Prompt::new("count", async || "Count!");
}
