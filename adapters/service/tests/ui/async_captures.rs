//! An `async` closure that owns what it captures.

//~ RUSTC async closure does not implement `Fn` because it captures state from its environment

use std::sync::Arc;

use mcp_service::{Context, Tool};

fn main() {
    let names = Arc::new(vec!["Ada", "Grace"]);
    Tool::new_async("count", async move |_context: Context| names.len());
}
