//! A client with threads that connects to any server over stdio, or over HTTP, and tries all of its features.
//!
//! ```sh
//! cargo run --example tour-blocking                       # tours our own server, everything-blocking
//! cargo run --example tour-blocking -- COMMAND ARGS...    # tours another one
//! tour-blocking http://127.0.0.1:8000/mcp                 # tours one that is there
//! ```
//!
//! The stops of a tour are in `adapters/examples/tour`.

#[path = "../../examples/tour/mod.rs"]
mod tour;

use std::{error::Error, process::ExitCode};

use mcp_blocking::{Client, shutdown_on_signals};
use mcp_service::block_on;

use crate::tour::{Target, Tour};

fn main() -> ExitCode {
    tour::exit(run())
}

/// Returns whether there were no failures.
fn run() -> Result<bool, Box<dyn Error>> {
    // Ctrl-C must not leave the child process running.
    shutdown_on_signals()?;
    let mut tour = Tour::from_args()?;
    let client = match tour.target.clone() {
        Target::Command(command) => Client::spawn(command, &tour.host),
        Target::Url(url) => Client::connect_http(&url, &tour.host),
    };
    let client = client.map_err(|error| tour.refused(error))?;
    // The stops are the same on every adapter, and are async.
    block_on(tour.visit(&client, client.server()));
    Ok(tour.sum_up(&client.close()))
}
