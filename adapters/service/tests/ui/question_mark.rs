//! A closure with `?` whose type of errors is not written.

//~ RUSTC E0282

use mcp_service::Tool;

fn main() {
    Tool::new("read", || {
        let text = std::fs::read_to_string("notes.txt")?;
        Ok(text)
    });
}
