//! An error that is no text, and `?` into `Failure`.

//~ RUSTC E0277
//~ NOTE `Failure`

use mcp_service::{Failure, Tool};

#[derive(Debug)]
enum Trouble {
    TooDeep,
}

fn check() -> Result<(), Trouble> {
    Err(Trouble::TooDeep)
}

fn dig() -> Result<String, Failure> {
    check()?;
    Ok("deep".to_owned())
}

fn main() {
    Tool::new("dig", dig);
}
