//! An `async fn` in a constructor for functions.

//~ MESSAGE `impl Future<Output = String>` cannot be the result of a tool
//~ NOTE takes the constructor whose name ends in `_async`

use mcp_service::{Context, Tool};

async fn wait(_context: Context) -> String {
    "waited".to_owned()
}

fn main() {
    Tool::new("wait", wait);
}
