//! Plays a record through the state machines of both roles.

mod against;
mod finding;
mod headers;
mod http;
mod judge;
mod live_server;
mod player;
mod report;
mod roles;
mod routes;

use std::{collections::BTreeMap, path::Path, process::ExitCode};

pub(crate) use against::{AgainstOptions, replay_against};
pub(crate) use finding::Finding;
pub(crate) use judge::Judge;
pub(crate) use player::{Plan, Played, PlayedMessage, Player};
use report::Report;
pub(crate) use report::{describe, event_text, place_text};
pub(crate) use roles::Setup;

use crate::{
    error::Failed,
    record::{Origin, What},
};

/// Plays a record, and prints what happened. The exit code is 1 if a rule was broken.
pub(crate) fn replay(path: &Path, json: bool) -> Result<ExitCode, Failed> {
    let mut player = Player::open(path)?;
    let mut report = Report::new(json, player.header())?;
    let mut totals = Totals::default();
    let mut end = None;
    while let Some(played) = player.next_played()? {
        match played {
            Played::Message(message) => {
                totals.count(&message.judged.findings);
                for step in &message.judged.steps {
                    *totals.kinds.entry(step.kind).or_default() += 1;
                }
                report.message(&message)?;
            }
            Played::Log { at, text } => report.log(at, &text)?,
            Played::Exchange { at, from, scope, text, findings } => {
                totals.count(&findings);
                report.exchange(at, from, scope, &text, &findings)?;
            }
            Played::Event { at, what } => {
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
    report.end(&player.unanswered(), &totals, &why, player.is_cut(), player.not_judged())?;
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
