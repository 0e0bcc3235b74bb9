//! Finds out what a client speaks, and runs the checks.

use std::time::Instant;

use serde_json::Value;

use super::{
    answers::claim,
    catalogue::checks,
    definition::Check,
    modern::digest,
    stage::{Stage, Step, exit},
};
use crate::check::{
    definition::{Row, row},
    era::Era,
    outcome::{Verdict, not_applicable, not_reachable},
    probe::{LEGACY, NEWEST, shorten},
    report::Party,
    run::{Finding, Known},
};

/// The rows of the runs that find out what the client does when nothing happens.
const REACH: [Row; 2] = [row("", "", &[], Era::Modern), row("", "", &[], Era::Legacy)];

/// Finds out which eras the client speaks, and what it does.
pub(super) fn reach(stage: &mut Stage) {
    stage.needed = checks().filter_map(|check| check.row.needs).collect();
    for reached in &REACH {
        stage.begin(reached);
        let found = plain(stage);
        if let Err(outcome) = found {
            stage.facts.notes.push(format!("{}: {}", reached.era.name(), shorten(outcome.why())));
        }
        stage.end();
    }
    if stage.facts.legacy.is_some() {
        stage.begin(&REACH[1]);
        stage.facts.answers_ping = stage.hold().is_ok()
            && stage.ask("ping", &Value::Null).is_ok_and(|response| response["result"].is_object());
        stage.end();
    }
    // The other runs would show the same again.
    stage.link.hide();
}

/// Serves the client until it is idle, or for a limited time.
fn plain(stage: &mut Stage) -> Verdict {
    stage.start()?;
    let last = stage.deadline(stage.timeout.saturating_mul(5));
    let mut ended = None;
    loop {
        let deadline: Instant = last.min(stage.deadline(stage.quiet()));
        match stage.step(deadline)? {
            Step::Message(message) => {
                if let Some(meta) = message.value["params"].get("_meta").filter(|_| stage.session.is_modern) {
                    stage.facts.modern.get_or_insert_with(|| meta.clone());
                }
                stage.facts.tries_sessions |= stage.era == Era::Modern && message.method() == "initialize";
                if message.is_request() && claim(&message.value).is_some() {
                    *stage.facts.repeats.entry(digest(&message)).or_default() += 1;
                }
                stage.serve(&message);
            }
            Step::Get(request) => stage.serve_get(&request),
            Step::Other => {}
            Step::Silence => break,
            Step::Ended(code) => {
                ended = Some(code);
                break;
            }
        }
    }
    let era = stage.era;
    if let Some(code) = ended {
        stage.facts.ends.insert(era, code);
    }
    let calls = std::mem::take(&mut stage.calls);
    let has_calls = !calls.is_empty();
    stage.facts.calls.insert(era, calls);
    let how = ended.map_or_else(String::new, |code| format!(", and ends{}", exit(code)));
    match era {
        Era::Modern if stage.facts.modern.is_some() => {
            stage.facts.accepted.insert(crate::check::probe::MODERN.to_owned());
            Ok(())
        }
        Era::Modern => not_applicable(format!("the client sends no request of 2026-07-28{how}")),
        Era::Legacy if stage.session.is_ready || has_calls && stage.session.version.is_some() => {
            let initialize = stage.session.initialize.as_deref().unwrap_or_default();
            let request: Value = serde_json::from_str(initialize).unwrap_or_default();
            stage.facts.legacy = Some(request["params"].clone());
            stage.facts.accepted.extend(stage.session.version.clone());
            stage.facts.deletes = stage.is_deleted;
            Ok(())
        }
        Era::Legacy if stage.session.initialize.is_some() => {
            not_applicable(format!("the client does not go on after the answer to initialize{how}"))
        }
        Era::Legacy => not_applicable(format!("the client does not send initialize{how}")),
    }
}

/// Runs checks.
pub(super) fn run(stage: &mut Stage, eras: &[Era], only: &[String], mut each: impl FnMut(&Finding)) -> Vec<Finding> {
    let is_wanted =
        |check: &&Check| eras.contains(&check.era) && (only.is_empty() || only.iter().any(|name| check.has_name(name)));
    let mut findings = Vec::new();
    for check in checks().filter(is_wanted) {
        stage.begin(&check.row);
        let verdict = applies(stage, &check.row).and_then(|()| (check.run)(stage));
        let finding = Finding::new(&check.row, verdict, stage.end());
        each(&finding);
        findings.push(finding);
    }
    findings
}

/// Returns the revision that the client offers.
fn newest(stage: &Stage) -> &str {
    let offered = stage.facts.legacy.as_ref().and_then(|params| params["protocolVersion"].as_str());
    offered.filter(|version| LEGACY.contains(version)).unwrap_or(NEWEST)
}

/// Returns whether a check concerns the client.
fn applies(stage: &Stage, row: &Row) -> Verdict {
    let known = Known {
        party: Party::Client,
        is_http: stage.is_http(),
        is_modern: stage.facts.modern.is_some(),
        newest_session: stage.facts.legacy.as_ref().map(|_| newest(stage)),
    };
    known.applies(row)?;
    match row.needs {
        Some(what) if !stage.has_seen(what) => not_reachable(format!("the client has sent no {what}")),
        _ => Ok(()),
    }
}
