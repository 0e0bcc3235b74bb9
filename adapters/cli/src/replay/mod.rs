//! Plays a record through the state machines of both roles.

mod against;
mod finding;
mod judge;
mod report;
mod roles;

use std::{collections::BTreeMap, path::Path, process::ExitCode};

pub(crate) use against::{AgainstOptions, replay_against};
pub(crate) use finding::Finding;
pub(crate) use judge::{Judge, read_setup};
use report::Report;
pub(crate) use roles::Setup;

use crate::{
    error::Failed,
    messages::{Item, Lines},
    record::{Origin, Reader, What},
};

/// Plays a record, and prints what happened. The exit code is 1 if a rule was broken.
pub(crate) fn replay(path: &Path, json: bool) -> Result<ExitCode, Failed> {
    let setup = read_setup(Lines::new(Reader::open(path)?)?)?;
    let mut lines = Lines::new(Reader::open(path)?)?;
    let header = lines.reader().header().clone();
    let mut report = Report::new(json, &header)?;
    let mut judge = Judge::new(setup, header.masked);
    let mut totals = Totals::default();
    let mut end = None;
    while let Some(item) = lines.next_item()? {
        match item {
            Item::Line(line) => {
                let judged = judge.take(&line);
                totals.count(&judged.findings);
                for step in &judged.steps {
                    *totals.kinds.entry(step.kind).or_default() += 1;
                }
                report.line(&line, &judged, &judge)?;
            }
            Item::Log { at, text } => report.log(at, &text)?,
            Item::Event { at, what } => {
                report.event(at, &what)?;
                end = Some(what).filter(|what| !matches!(what, What::End { .. })).or(end);
            }
        }
    }
    let why = match &end {
        Some(What::Exit(code)) => format!("the server ended with the exit code {code}"),
        Some(What::Signal(signal)) => format!("the server was ended by the signal {signal}"),
        Some(What::Stopped(why)) => format!("the recording stopped: {why}"),
        _ => "the record ends here: the recorder was ended".into(),
    };
    report.end(&judge, &totals, &why, lines.reader().is_cut())?;
    Ok(if totals.broken == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Numbers of a record.
#[derive(Debug, Default)]
struct Totals {
    kinds: BTreeMap<&'static str, u64>,
    broken: u64,
    rules: BTreeMap<(Origin, &'static str), u64>,
}

impl Totals {
    fn count(&mut self, findings: &[Finding]) {
        for finding in findings {
            self.broken += 1;
            *self.rules.entry((finding.by, finding.rule.unwrap_or_default())).or_default() += 1;
        }
    }
}
