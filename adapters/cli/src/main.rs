//! `mcp`: a client of Model Context Protocol servers for the command line and for scripts.
//!
//! The command line is described in `options`; `commands` runs a command on a connection that `target` opens with the
//! client of `host`. `generate` writes typed clients.

mod arguments;
mod commands;
mod error;
mod generate;
mod host;
mod options;
mod show;
mod target;

use std::{io, process::ExitCode, sync::mpsc};

use clap::{CommandFactory, Parser};
use error::Failed;
use options::{Command, Options};

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            let why = failed.to_string();
            if !why.is_empty() {
                show::note(&why);
            }
            failed.exit_code()
        }
    }
}

fn run(options: &Options) -> Result<(), Failed> {
    let Options { command, connection } = options;
    if let Command::Completions { shell } = command {
        clap_complete::generate(*shell, &mut Options::command(), "mcp", &mut io::stdout());
        return Ok(());
    }
    let Some(target) = command.target() else { return Ok(()) };
    // Ends programs of servers on SIGINT, SIGTERM and SIGHUP.
    mcp_blocking::shutdown_on_signals()?;
    let (sender, notifications) = mpsc::sync_channel(1024);
    let prints = matches!(command, Command::Subscribe { .. });
    let host = host::host(connection, prints.then_some(sender))?;
    let client = target::connect(target, connection, &host)?;
    drop(host);
    let outcome = commands::run(command, connection, &client, prints.then_some(&notifications));
    client.close();
    outcome
}
