//! A client on smol that connects to any server over stdio, or over HTTP, and tries all of its features.
//!
//! ```sh
//! cargo run --example tour-smol                       # tours our own server, everything-smol
//! cargo run --example tour-smol -- COMMAND ARGS...    # tours another one
//! cargo run --example tour-smol -- http://127.0.0.1:8000/mcp
//! ```
//!
//! The stops of a tour are in `adapters/examples/tour`.

#[path = "../../examples/tour/mod.rs"]
mod tour;

use std::{error::Error, process::ExitCode};

use mcp_smol::{Client, shutdown_on_signals};

use crate::tour::{Target, Tour};

fn main() -> ExitCode {
    tour::exit(smol::block_on(run()))
}

/// Returns whether there were no failures.
async fn run() -> Result<bool, Box<dyn Error>> {
    // Ctrl-C must not leave the child process running.
    shutdown_on_signals()?;
    let mut tour = Tour::from_args()?;
    let client = match tour.target.clone() {
        Target::Command(command) => Client::spawn(command, &tour.host).await,
        Target::Url(url) => Client::connect_http(&url, &tour.host).await,
    };
    let client = client.map_err(|error| tour.refused(error))?;
    tour.visit(&client, client.server()).await;
    Ok(tour.sum_up(&client.close().await))
}
