//! `mcp`: a client of Model Context Protocol servers for the command line and for scripts.
//!
//! The command line is described in `options`; `commands` runs a command on a connection that `target` opens with the
//! client of `host`. `sign_in` has the credentials of servers over HTTP. `generate` writes typed clients. `recorder`
//! writes records in the format of `record`; `messages` reads them as messages, `replay` judges these, `trace` draws
//! them, and `step` shows them one by one. `bridge`, `bench` and `inspect` use any server.

mod address;
mod arguments;
mod bench;
mod bridge;
mod check;
mod commands;
mod error;
mod generate;
mod host;
mod inspect;
mod markup;
mod messages;
mod options;
mod project;
mod record;
mod recorder;
mod replay;
mod rules;
mod show;
mod sign_in;
mod step;
mod target;
mod text;
mod trace;

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    sync::mpsc,
};

use bridge::BridgeOptions;
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use error::Failed;
use options::{Command, ConnectionOptions, Options};
use recorder::{ListenOptions, RecordOptions};
use replay::AgainstOptions;
use target::Target;

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(code) => code,
        Err(failed) => {
            let why = failed.to_string();
            if !why.is_empty() {
                show::note(&why);
            }
            failed.exit_code()
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, Failed> {
    let Options { command, connection } = options;
    if let Some(outcome) = run_without_target(command, connection) {
        return outcome;
    }
    let Some(target) = command.target() else { return Ok(ExitCode::SUCCESS) };
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

/// Runs a command that connects to no server. `None` is another command.
fn run_without_target(command: &Command, connection: &ConnectionOptions) -> Option<Result<ExitCode, Failed>> {
    match command {
        Command::Completions { shell } => Some(completions(*shell).map(|()| ExitCode::SUCCESS)),
        Command::Record { output, no_mask, max_bytes, listen: Some(listen), no_compression, url, .. } => {
            let options = ListenOptions {
                output,
                is_masked: !no_mask,
                max_bytes: *max_bytes,
                quiet: connection.quiet,
                listen,
                url: url.as_deref().unwrap_or_default(),
                no_compression: *no_compression,
            };
            Some(recorder::record_http(&options))
        }
        Command::Record { output, no_mask, max_bytes, command, .. } => {
            let record = |variables| {
                let (max_bytes, quiet) = (*max_bytes, connection.quiet);
                recorder::record_stdio(&RecordOptions {
                    output,
                    is_masked: !no_mask,
                    max_bytes,
                    quiet,
                    command,
                    variables,
                })
            };
            Some(target::variables(connection).and_then(record))
        }
        Command::Bridge { target, listen, shared, name, command } => {
            let unused = connection.of_client();
            if !unused.is_empty() {
                let why = "the bridge does not use it, because the clients that connect to it decide";
                return Some(Err(Failed::usage(format!("{}: {why}", unused.join(", ")))));
            }
            let server = match target {
                Some(target) => Target::parse(target, connection),
                None => Target::of_words(command, connection),
            };
            let (listen, is_shared, quiet) = (listen.as_deref(), *shared, connection.quiet);
            Some(server.and_then(|target| bridge::bridge(BridgeOptions { target, name, listen, is_shared, quiet })))
        }
        Command::Login(options) => Some(sign_in::login(options, connection)),
        Command::Logout { server } => Some(sign_in::logout(server, connection)),
        Command::Inspect { target } => Some(inspect::inspect(target, connection)),
        Command::New(options) => Some(project::create(options).map(|()| ExitCode::SUCCESS)),
        Command::Man { folder } => Some(manual(folder).map(|()| ExitCode::SUCCESS)),
        Command::Check(options) => Some(check::check(options, connection)),
        Command::CheckRelay { port, file } => Some(check::relay(*port, file)),
        Command::Trace { file, output } => Some(trace::trace(file, output, connection.quiet)),
        Command::Replay { file, step: true, .. } if connection.json => {
            Some(Err(Failed::usage(format!("{}: --step has no output in JSON", file.display()))))
        }
        Command::Replay { file, step: true, .. } => Some(step::step(file)),
        Command::Replay { file, against: None, .. } => Some(replay::replay(file, connection.json)),
        Command::Replay { file, against: Some(command), ignore, .. } => {
            let play = |variables| {
                replay::replay_against(&AgainstOptions {
                    record: file,
                    command,
                    ignore,
                    timeout: connection.timeout(),
                    json: connection.json,
                    quiet: connection.quiet,
                    variables,
                })
            };
            Some(target::variables(connection).and_then(play))
        }
        _ => None,
    }
}

/// Prints the completions of a shell, without the commands that the help does not show.
fn completions(shell: Shell) -> Result<(), Failed> {
    let all = Options::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut command = clap::Command::new("mcp")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(shown.collect::<Vec<_>>());
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "mcp", &mut text);
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    Ok(out.flush()?)
}

/// Writes a man page for the program and one for each command.
fn manual(folder: &Path) -> Result<(), Failed> {
    let wrong = |error: io::Error| Failed::usage(format!("{} cannot be written: {error}", folder.display()));
    clap_mangen::generate_to(Options::command(), folder).map_err(wrong)
}
