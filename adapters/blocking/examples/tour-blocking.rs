//! A client that connects to any server over stdio and tries all that it has: see `adapters/examples/tour`.

#[path = "../../examples/tour/mod.rs"]
mod tour;

use std::process::ExitCode;

fn main() -> ExitCode {
    tour::main()
}
