//! A future with an `Rc`.

//~ RUSTC future cannot be sent between threads safely

use std::rc::Rc;

use mcp_service::{Context, Tool};

fn main() {
    Tool::new_async("wait", async |context: Context| {
        let name = Rc::new("Ada");
        let _ = context.sleep(std::time::Duration::from_secs(1)).await;
        name.to_string()
    });
}
