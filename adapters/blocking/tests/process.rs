//! Processes, with threads. What is tried is in `adapters/tests/process`.

#[path = "../../tests/process/mod.rs"]
mod process;

use std::process::ExitCode;

pub(crate) use mcp_blocking::{Client, Command, Error, Options, Restart, Supervisor, serve_stdio, shutdown_on_signals};

pub(crate) const NAME: &str = "blocking";

/// Whether nothing is left of a client when it was dropped.
pub(crate) const DROP_WAITS: bool = true;

fn main() -> ExitCode {
    process::main()
}

/// What was waited for.
pub(crate) fn done<T>(result: T) -> T {
    result
}
