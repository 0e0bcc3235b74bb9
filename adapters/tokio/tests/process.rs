//! Processes, with tokio. What is tried is in `adapters/tests/process`.

#[path = "../../tests/process/mod.rs"]
mod process;

use std::{process::ExitCode, sync::OnceLock};

pub(crate) use mcp_tokio::{Client, Command, Error, Options, Restart, Supervisor, serve_stdio, shutdown_on_signals};
use tokio::runtime::{Handle, Runtime};

pub(crate) const NAME: &str = "tokio";

/// Whether nothing is left of a client when it was dropped.
pub(crate) const DROP_WAITS: bool = false;

static RUNTIME: OnceLock<Handle> = OnceLock::new();

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("there are threads");
    RUNTIME.get_or_init(|| runtime.handle().clone());
    // The runtime ends after that, as it does behind `#[tokio::main]`.
    process::main()
}

/// What a future comes to.
pub(crate) fn done<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.get().expect("it was begun").block_on(future)
}
