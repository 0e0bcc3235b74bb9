//! Processes, with smol. What is tried is in `adapters/tests/process`.

#[path = "../../tests/process/mod.rs"]
mod process;

use std::process::ExitCode;

pub(crate) use mcp_smol::{Client, Command, Error, Options, Restart, Supervisor, serve_stdio, shutdown_on_signals};

pub(crate) const NAME: &str = "smol";

/// Whether nothing is left of a client when it was dropped.
pub(crate) const DROP_WAITS: bool = false;

fn main() -> ExitCode {
    process::main()
}

/// What a future comes to.
pub(crate) fn done<T>(future: impl Future<Output = T>) -> T {
    smol::block_on(future)
}
