//! An error that is no text.

//~ RUSTC `Trouble` doesn't implement `std::fmt::Display`

use mcp_service::Tool;

#[derive(Debug)]
enum Trouble {
    TooDeep,
}

fn dig() -> Result<String, Trouble> {
    Err(Trouble::TooDeep)
}

fn main() {
    Tool::new("dig", dig);
}
