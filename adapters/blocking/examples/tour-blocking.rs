//! A client with threads that connects to any server over stdio and tries all that it has.
//!
//! ```sh
//! cargo run --example tour-blocking                       # tours our own server, everything-blocking
//! cargo run --example tour-blocking -- COMMAND ARGS...    # tours another one
//! ```
//!
//! What it does there is in `adapters/examples/tour`.

#[path = "../../examples/tour/mod.rs"]
mod tour;

use std::{error::Error, process::ExitCode};

use mcp_blocking::{Client, shutdown_on_signals};
use mcp_service::block_on;

use crate::tour::Tour;

fn main() -> ExitCode {
    tour::exit(run())
}

/// Whether all went well.
fn run() -> Result<bool, Box<dyn Error>> {
    // Ctrl-C must not leave a server behind.
    shutdown_on_signals()?;
    let mut tour = Tour::from_args()?;
    let client = Client::spawn(tour.command()?, &tour.host).map_err(|error| tour.refused(error))?;
    // The stops are the same on every adapter, and wait in the way of tasks.
    block_on(tour.visit(&client, client.server()));
    Ok(tour.sum_up(&client.close()))
}
