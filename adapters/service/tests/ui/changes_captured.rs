//! A closure that changes what it captures.

//~ RUSTC E0525

use mcp_service::Tool;

fn main() {
    let mut count = 0;
    Tool::new("count", move || {
        count += 1;
        count
    });
}
