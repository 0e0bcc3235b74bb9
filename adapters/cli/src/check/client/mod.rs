//! Judges a client that this program starts: each check is a server that does one thing that a rule is about.
//!
//! `stage` is that server, over a `link` to the client: `process` with `http` or `relay`. `judge` judges each message,
//! and the catalogue has the checks.

mod answers;
mod calls;
mod catalogue;
mod definition;
mod http;
mod inbox;
mod judge;
mod legacy;
mod link;
mod modern;
mod passive;
mod process;
mod relay;
mod run;
#[cfg(test)]
mod selftest;
mod session;
mod stage;
mod web;

use std::{process::ExitCode, time::Duration};

use process::{Client, Start};
pub(crate) use relay::relay;
use stage::{Facts, Stage};

use super::{
    TIMEOUT,
    era::Era,
    eras, finish,
    process::end_on_signals,
    report::{self, Party, Report},
};
use crate::{
    error::Failed,
    options::{CheckOptions, ConnectionOptions},
    target, text,
};

/// Judges a client. The exit code is 1 if a check failed, with `--strict` also if one warned.
pub(super) fn check(command: &str, options: &CheckOptions, connection: &ConnectionOptions) -> Result<ExitCode, Failed> {
    if options.list {
        let rows = catalogue::checks().map(|check| &check.row);
        return report::list(rows, Party::Client, connection.json).map(|()| ExitCode::SUCCESS);
    }
    for name in &options.only {
        if !catalogue::checks().any(|check| check.has_name(name)) {
            return Err(Failed::usage(format!("there is no check `{name}` of clients: --client --list has all")));
        }
    }
    let words = shell_words::split(command).map_err(|error| Failed::usage(format!("`{command}`: {error}")))?;
    let Some(name) = words.first().cloned() else { return Err(Failed::usage("the command of the client is empty")) };
    let variables = target::variables(connection)?;
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    end_on_signals()?;
    let timeout = connection.timeout.unwrap_or(TIMEOUT);
    let client = Client::new(Start { words, variables, is_shown: !connection.quiet });
    judge(client, &name, timeout, options, connection)
}

fn judge(
    client: Client,
    name: &str,
    timeout: Duration,
    options: &CheckOptions,
    connection: &ConnectionOptions,
) -> Result<ExitCode, Failed> {
    let eras = eras(connection);
    let mut stage = Stage::new(Box::new(client), timeout);
    run::reach(&mut stage);
    let is_there = |era: &Era| match era {
        Era::Legacy => stage.facts.legacy.is_some(),
        Era::Modern => stage.facts.modern.is_some(),
    };
    if !eras.iter().any(is_there) {
        let notes = stage.facts.notes.join("; ");
        let why = if notes.is_empty() { "it has another era than that of --era" } else { &notes };
        return Err(Failed::ended(format!("the client does not connect: {}", text::one_line(why))));
    }
    let is_text = !connection.json;
    let mut shown = Ok(());
    let findings = run::run(&mut stage, eras, &options.only, |finding| {
        if is_text && shown.is_ok() {
            shown = report::text_line(finding, connection.quiet);
        }
    });
    let report = Report {
        party: Party::Client,
        subject: name,
        identity: identity(&stage.facts),
        revisions: stage.facts.accepted.iter().cloned().collect(),
        notes: &stage.facts.notes,
        findings: &findings,
    };
    finish(&report, options, connection, shown)
}

/// Returns the name and the version that the client gives itself.
fn identity(facts: &Facts) -> String {
    let legacy = facts.legacy.as_ref().map(|params| &params["clientInfo"]);
    let modern = facts.modern.as_ref().map(|meta| &meta[format!("{}clientInfo", answers::META)]);
    let Some(info) = legacy.or(modern) else { return String::new() };
    let text = |name: &str| info[name].as_str().unwrap_or_default();
    format!("{} {}", text("name"), text("version"))
}
