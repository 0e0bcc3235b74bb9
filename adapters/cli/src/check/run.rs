//! Runs the checks.

use serde_json::Value;

use super::{
    catalogue::checks,
    definition::{Check, Level, On, Row},
    era::Era,
    outcome::{Outcome, Verdict, not_applicable},
    probe::{Entry, MODERN, Mode, NEWEST, Probe, brief, shorten},
    report::Party,
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
    /// Creates a finding. Only a failure keeps its entries.
    pub(super) fn new(check: &'static Row, verdict: Verdict, mut entries: Vec<Entry>) -> Self {
        // It may have names of any length.
        let verdict = verdict.map_err(|outcome| outcome.map(|why| shorten(&why)));
        if !matches!(verdict, Err(Outcome::Failed { .. } | Outcome::NoResponse(_))) {
            entries.clear();
        }
        Self { check, verdict, entries }
    }

    /// Returns the word for the outcome.
    pub(super) fn word(&self) -> &'static str {
        match (&self.verdict, self.check.level) {
            (Ok(()), _) => "passed",
            (Err(Outcome::Failed { .. } | Outcome::NoResponse(_)), Level::Must) => "failed",
            (Err(Outcome::Failed { .. } | Outcome::NoResponse(_)), Level::Should) => "warning",
            (Err(Outcome::NotApplicable(_)), _) => "not applicable",
            (Err(Outcome::NotReachable(_)), _) => "not reachable",
        }
    }

    /// Returns why it did not pass.
    pub(super) fn why(&self) -> &str {
        self.verdict.as_ref().err().map_or("", Outcome::why)
    }

    /// Returns the rules that the bytes show as broken, and all rules of the check if it did not fail.
    pub(super) fn rules(&self) -> &[&'static str] {
        match &self.verdict {
            Err(Outcome::Failed { broken, .. }) if !broken.is_empty() => broken,
            // A check that expects a response begins with the rule about what the server returns.
            Err(Outcome::NoResponse(_)) => self.check.rules.get(..1).unwrap_or_default(),
            _ => self.check.rules,
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
        if let Err(outcome) = found {
            probe.facts.notes.push(format!("{}: {}", era.name(), outcome.why()));
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
    probe.facts.is_unauthorized |= reply.status == Some(401);
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
    probe.facts.is_unauthorized |= reply.status == Some(401);
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
        let is_named = only.is_empty() || only.iter().any(|name| check.has_name(name));
        eras.contains(&check.era) && (is_hostile || !check.is_hostile) && is_named
    };
    let mut findings = Vec::new();
    for check in checks().filter(is_wanted) {
        probe.begin(check.id, check.era);
        let verdict = applies(probe, check)
            .and_then(|()| if check.is_alone { Ok(()) } else { probe.enter() })
            .and_then(|()| (check.run)(probe));
        let verdict = verdict.map_err(|outcome| outcome.map(|why| probe.mask(&why)));
        let entries = probe.end(&verdict);
        let finding = Finding::new(&check.row, verdict, entries);
        each(&finding);
        findings.push(finding);
    }
    findings
}

/// The properties of a server or a client that decide which checks concern it.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) party: Party,
    pub(super) is_http: bool,
    pub(super) is_modern: bool,
    /// The newest revision with sessions, if it has sessions.
    pub(super) newest_session: Option<&'a str>,
}

impl Known<'_> {
    /// Returns why a check of another transport, era or revision does not apply.
    pub(super) fn applies(&self, row: &Row) -> Verdict {
        let party = self.party.name();
        match row.on {
            On::Stdio if self.is_http => return not_applicable("it is about standard input and output"),
            On::Http if !self.is_http => return not_applicable("it is about HTTP"),
            _ => {}
        }
        match (row.era, self.newest_session) {
            (Era::Modern, _) if !self.is_modern => not_applicable(format!("the {party} does not speak 2026-07-28")),
            (Era::Legacy, None) => not_applicable(format!("the {party} has no sessions")),
            (Era::Legacy, Some(newest)) if newest < row.since => {
                not_applicable(format!("the rule is there from {} on", row.since))
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether a check concerns the server.
fn applies(probe: &Probe, check: &Check) -> Verdict {
    let known = Known {
        party: Party::Server,
        is_http: probe.is_http(),
        is_modern: probe.facts.modern.is_some(),
        newest_session: probe.facts.legacy.as_ref().map(|_| probe.newest_session()),
    };
    known.applies(check)?;
    match check.needs {
        Some(name) if probe.capability(name).is_none() => {
            not_applicable(format!("the server does not declare `{name}`"))
        }
        _ => Ok(()),
    }
}
