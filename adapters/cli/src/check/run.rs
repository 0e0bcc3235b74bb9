//! Runs the checks.

use serde_json::Value;

use super::{
    catalogue::checks,
    definition::{Check, Level, On, Row},
    era::Era,
    outcome::{Outcome, Verdict, not_applicable},
    probe::{Entry, MODERN, Mode, NEWEST, Probe, brief, shorten},
};

/// A check that was run.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) check: &'static Row,
    pub(super) verdict: Verdict,
    /// The bytes of the check, if it failed.
    pub(super) entries: Vec<Entry>,
}

impl Finding {
    /// Returns the word for the outcome.
    pub(super) fn word(&self) -> &'static str {
        match (&self.verdict, self.check.level) {
            (Ok(()), _) => "passed",
            (Err(Outcome::Failed(_)), Level::Must) => "failed",
            (Err(Outcome::Failed(_)), Level::Should) => "warning",
            (Err(Outcome::NotApplicable(_)), _) => "not applicable",
            (Err(Outcome::NotReachable(_)), _) => "not reachable",
        }
    }

    /// Returns why it did not pass.
    pub(super) fn why(&self) -> &str {
        match &self.verdict {
            Ok(()) => "",
            Err(Outcome::Failed(why) | Outcome::NotApplicable(why) | Outcome::NotReachable(why)) => why,
        }
    }
}

/// Finds out which eras the server speaks.
pub(super) fn reach(probe: &mut Probe) {
    for era in [Era::Modern, Era::Legacy] {
        probe.begin("", era);
        let found = match era {
            Era::Modern => discover(probe),
            Era::Legacy => initialize(probe),
        };
        if let Err(Outcome::Failed(why) | Outcome::NotReachable(why) | Outcome::NotApplicable(why)) = found {
            probe.facts.notes.push(format!("{}: {why}", era.name()));
        }
        probe.mode = Mode::Unknown;
    }
}

fn discover(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    let reply = probe.call("server/discover", Value::Null)?;
    let versions = reply.message["result"]["supportedVersions"].as_array();
    if versions.is_some_and(|all| all.iter().any(|it| it == MODERN)) {
        probe.facts.modern = Some(reply.message["result"].clone());
        return Ok(());
    }
    let status = reply.status.map(|status| format!(" (status {status})")).unwrap_or_default();
    not_applicable(format!("server/discover{status}: {}", brief(&reply.message)))
}

fn initialize(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    let reply = probe.initialize(NEWEST)?;
    if reply.message["result"].is_object() {
        probe.facts.legacy = Some(reply.message["result"].clone());
        return Ok(());
    }
    let status = reply.status.map(|status| format!(" (status {status})")).unwrap_or_default();
    not_applicable(format!("initialize{status}: {}", brief(&reply.message)))
}

/// The checks that are run.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    pub(super) eras: &'a [Era],
    pub(super) is_hostile: bool,
    /// Ids of checks, and rules. Empty is all.
    pub(super) only: &'a [String],
}

/// Runs checks.
pub(super) fn run(probe: &mut Probe, selection: &Selection<'_>, mut each: impl FnMut(&Finding)) -> Vec<Finding> {
    let Selection { eras, is_hostile, only } = *selection;
    let is_wanted = |check: &&Check| {
        let is_named = |name: &String| name == check.id || check.rules.contains(&name.as_str());
        eras.contains(&check.era) && (is_hostile || !check.is_hostile) && (only.is_empty() || only.iter().any(is_named))
    };
    let mut findings = Vec::new();
    for check in checks().filter(is_wanted) {
        probe.begin(check.id, check.era);
        let verdict = applies(probe, check).and_then(|()| probe.enter()).and_then(|()| (check.run)(probe));
        // It may have names of any length.
        let verdict = verdict.map_err(|outcome| outcome.map(|why| shorten(&why)));
        let mut entries = probe.end(&verdict);
        if !matches!(verdict, Err(Outcome::Failed(_))) {
            entries.clear();
        }
        let finding = Finding { check: &check.row, verdict, entries };
        each(&finding);
        findings.push(finding);
    }
    findings
}

/// Returns whether a check concerns the server.
fn applies(probe: &Probe, check: &Check) -> Verdict {
    match check.on {
        On::Stdio if probe.is_http() => return not_applicable("it is about standard input and output"),
        On::Http if !probe.is_http() => return not_applicable("it is about HTTP"),
        _ => {}
    }
    match check.era {
        Era::Modern if probe.facts.modern.is_none() => return not_applicable("the server does not speak 2026-07-28"),
        Era::Legacy if probe.facts.legacy.is_none() => return not_applicable("the server has no sessions"),
        Era::Legacy if probe.newest_session() < check.since => {
            return not_applicable(format!("the rule is there from {} on", check.since));
        }
        _ => {}
    }
    match check.needs {
        Some(name) if probe.capability(name).is_none() => {
            not_applicable(format!("the server does not declare `{name}`"))
        }
        _ => Ok(()),
    }
}
