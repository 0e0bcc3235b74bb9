//! An `async` closure in a constructor for functions.

//~ MESSAGE cannot be the result of a tool
//~ LABEL its handler returns
//~ NOTE takes the constructor whose name ends in `_async`

use mcp_service::{Context, Tool};

fn main() {
    Tool::new("wait", async |_context: Context| "waited");
}
