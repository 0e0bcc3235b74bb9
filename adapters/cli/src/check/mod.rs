//! Judges a server by the requirement tables: each check sends exact bytes over a connection that it controls.
//!
//! `catalogue` has the checks, `run` runs them with a `probe`, and `report` writes what they found.

mod catalogue;
mod client;
mod completion;
mod definition;
mod era;
mod events;
mod hostile;
mod legacy;
mod listing;
mod modern;
mod outcome;
mod passive;
mod probe;
mod process;
mod report;
mod run;
mod secrets;
#[cfg(test)]
mod selftest;
mod shapes;
mod socket;
mod wire;

use std::{fs, path::Path, process::ExitCode, time::Duration};

pub(crate) use client::relay;
use era::Era;
use mcp_service::config::ServerConfig;
use probe::{HostileLimits, Probe, Wire};
use process::{Process, Start};
use report::{Party, Report};
use run::Selection;
use socket::Address;

use crate::{
    address,
    error::Failed,
    options::{CheckOptions, ConnectionOptions, EraOption},
    sign_in::SignIn,
    target, text,
};

/// How long a response may take, unless the command line says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Judges a server. The exit code is 1 if a check failed, with `--strict` also if one warned.
pub(crate) fn check(options: &CheckOptions, connection: &ConnectionOptions) -> Result<ExitCode, Failed> {
    if let Some(command) = &options.client {
        return client::check(command, options, connection);
    }
    let eras = eras(connection);
    if options.list {
        return report::list(catalogue::checks().map(|check| &check.row), Party::Server, connection.json)
            .map(|()| ExitCode::SUCCESS);
    }
    for name in &options.only {
        let is_named = |check: &&definition::Check| check.has_name(name);
        if !catalogue::checks().any(|check| is_named(&check)) {
            return Err(Failed::usage(format!("there is no check `{name}`: --list has all")));
        }
        if !options.hostile && catalogue::checks().filter(is_named).all(|check| check.is_hostile) {
            return Err(Failed::usage(format!("`{name}` needs --hostile")));
        }
    }
    process::end_on_signals()?;
    let (wire, name) = wire(options.target.as_deref().unwrap_or_default(), connection)?;
    let limits = HostileLimits {
        bytes: options.hostile_bytes,
        depth: options.hostile_depth,
        messages: options.hostile_messages,
    };
    let mut probe = Probe::new(wire, connection.timeout.unwrap_or(TIMEOUT), limits);
    // Some rules depend on whether the server has the other era, too.
    run::reach(&mut probe);
    let is_there = |era: &Era| match era {
        Era::Legacy => probe.facts.legacy.is_some(),
        Era::Modern => probe.facts.modern.is_some(),
    };
    if !eras.iter().any(is_there) {
        probe.close();
        let notes = probe.mask(&probe.facts.notes.join("; "));
        let why = if notes.is_empty() { "it has another era than that of --era" } else { &notes };
        let failed = Failed::ended(format!("the server is not reached: {}", text::one_line(why)));
        return Err(if probe.facts.is_unauthorized { failed.unauthorized() } else { failed });
    }
    let selection = Selection { eras, is_hostile: options.hostile, only: &options.only };
    let is_text = !connection.json;
    let mut shown = Ok(());
    let findings = run::run(&mut probe, &selection, |finding| {
        if is_text && shown.is_ok() {
            shown = report::text_line(finding, connection.quiet);
        }
    });
    probe.close();
    let notes: Vec<String> = probe.facts.notes.iter().map(|note| probe.mask(note)).collect();
    let report = Report {
        party: Party::Server,
        subject: &name,
        identity: probe.mask(&probe.facts.identity()),
        revisions: probe.facts.revisions().iter().map(|revision| probe.mask(revision)).collect(),
        notes: &notes,
        findings: &findings,
    };
    let code = finish(&report, options, connection, shown)?;
    // A handshake without a known revision is judged, and nothing else can be.
    let speaks = |era: &Era| match era {
        Era::Legacy => probe.facts.has_known_session(),
        Era::Modern => probe.facts.modern.is_some(),
    };
    Ok(if eras.iter().any(speaks) { code } else { ExitCode::from(3) })
}

/// Returns the eras to judge.
fn eras(connection: &ConnectionOptions) -> &'static [Era] {
    match connection.era {
        Some(EraOption::Legacy) => &[Era::Legacy],
        Some(EraOption::Modern) => &[Era::Modern],
        Some(EraOption::Any) | None => &[Era::Modern, Era::Legacy],
    }
}

/// Writes what is left of a report, and returns the exit code. `shown` tells whether its lines could be written.
fn finish(
    report: &Report<'_>,
    options: &CheckOptions,
    connection: &ConnectionOptions,
    shown: Result<(), Failed>,
) -> Result<ExitCode, Failed> {
    let write = |path: &Path, text: String| {
        fs::write(path, text).map_err(|error| Failed::usage(format!("{} cannot be written: {error}", path.display())))
    };
    // The files do not depend on whether the output is read to its end.
    if let Some(path) = &options.junit {
        write(path, report::junit(report))?;
    }
    if let Some(path) = &options.html {
        write(path, report::html(report))?;
    }
    let shown = shown.and_then(|()| if connection.json { report::json(report) } else { report::summary(report) });
    match shown {
        Err(error) if !error.is_closed_output() => return Err(error),
        _ => {}
    }
    let is_bad = |it: &run::Finding| it.word() == "failed" || options.strict && it.word() == "warning";
    Ok(if report.findings.iter().any(is_bad) { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Returns how a target is reached, and a name for the report that has no secrets.
fn wire(target: &str, options: &ConnectionOptions) -> Result<(Wire, String), Failed> {
    if address::is_url(target) {
        return site(target, Vec::new(), options);
    }
    let Some(path) = &options.config else {
        let words = target::words(target)?;
        let Some((program, arguments)) = words.split_first() else { return Err(Failed::usage("the target is empty")) };
        return start(program, arguments, Vec::new(), None, options)
            .map_err(|failed| target::hinted(failed, target, options));
    };
    match target::configured(path, target, options.quiet)? {
        ServerConfig::Stdio(it) => start(&it.command, &it.args, it.env.clone(), it.cwd.clone(), options),
        ServerConfig::Http(it) => site(&it.url, it.headers.clone(), options),
        _ => Err(Failed::usage(format!("`{target}` is a server of an unknown kind"))),
    }
}

fn start(
    program: &str,
    arguments: &[String],
    mut variables: Vec<(String, String)>,
    folder: Option<String>,
    options: &ConnectionOptions,
) -> Result<(Wire, String), Failed> {
    let more = target::variables(options)?;
    variables.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    let (program, arguments, quiet) = (program.to_owned(), arguments.to_vec(), options.quiet);
    let name = program.clone();
    Ok((Wire::Program(Box::new(Process::new(Start { program, arguments, variables, folder, quiet })?)), name))
}

fn site(url: &str, mut headers: Vec<(String, String)>, options: &ConnectionOptions) -> Result<(Wire, String), Failed> {
    for header in &options.headers {
        let pair = header.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        let is_good = |(name, value): &(&str, &str)| {
            name.parse::<http::HeaderName>().is_ok() && value.parse::<http::HeaderValue>().is_ok()
        };
        let Some((name, value)) = pair.filter(is_good) else {
            return Err(Failed::usage("a header of --header is not `NAME: VALUE`"));
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
    if let Some(token) = target::bearer(options)? {
        headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
    }
    // A line break would begin another header.
    if let Some((name, _)) = headers.iter().find(|(_, value)| value.parse::<http::HeaderValue>().is_err()) {
        return Err(Failed::usage(format!("the header {} has characters that are not allowed", text::one_line(name))));
    }
    let sign_in = SignIn::of(url, &headers, options)?;
    let address = Address::new(url, headers)?.signed_in(sign_in);
    let name = address.name();
    Ok((Wire::Site(Box::new(address)), name))
}
