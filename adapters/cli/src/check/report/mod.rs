//! Reports of checks, as text, JSON, JUnit and a page.

mod html;
mod junit;

use serde_json::{Value, json};

pub(super) use html::html;
pub(super) use junit::junit;

use super::{
    definition::{Level, On, Row},
    era::Era,
    run::Finding,
};
use crate::{error::Failed, rules, show, text};

/// The outcomes, from the best to the worst.
pub(super) const WORDS: [&str; 5] = ["passed", "not applicable", "not reachable", "warning", "failed"];

/// The content of a report.
pub(super) struct Report<'a> {
    /// The side that is judged.
    pub(super) party: Party,
    /// The name of the program or the address.
    pub(super) subject: &'a str,
    /// The name and the version that it gives itself.
    pub(super) identity: String,
    /// The revisions that were judged.
    pub(super) revisions: Vec<String>,
    /// The reason why each missing era is missing.
    pub(super) notes: &'a [String],
    pub(super) findings: &'a [Finding],
}

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    Client,
    Server,
}

impl Party {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl Report<'_> {
    /// Returns how many checks have an outcome.
    pub(super) fn count(&self, word: &str) -> usize {
        self.findings.iter().filter(|finding| finding.word() == word).count()
    }
}

/// Lists the catalogue.
pub(super) fn list(checks: impl Iterator<Item = &'static Row>, party: Party, is_json: bool) -> Result<(), Failed> {
    for check in checks {
        if is_json {
            show::line(&row(check, party).to_string())?;
        } else {
            show::line(&format!("{:<32} {}: {}", check.id, check.rules.join(" "), check.title))?;
        }
    }
    Ok(())
}

/// Returns a check as JSON.
fn row(check: &Row, party: Party) -> Value {
    let level = if check.level == Level::Must { "MUST" } else { "SHOULD" };
    let transport = match check.on {
        On::Any => "any",
        On::Stdio => "stdio",
        On::Http => "http",
    };
    let rules: Vec<_> = check.rules.iter().map(|id| json!({"id": id, "text": rules::text(id)})).collect();
    json!({
        "check": check.id, "party": party.name(), "title": check.title, "level": level, "era": check.era.name(), "transport": transport,
        "hostile": check.is_hostile, "rules": rules,
    })
}

/// Prints a check that was run. What passed or is not applicable is one line, unless the output is quiet.
pub(super) fn text_line(finding: &Finding, is_quiet: bool) -> Result<(), Failed> {
    let word = finding.word();
    if is_quiet && matches!(word, "passed" | "not applicable") {
        return Ok(());
    }
    let why = if finding.why().is_empty() { String::new() } else { format!(": {}", text::one_line(finding.why())) };
    show::line(&format!("{word:<14} {:<30} {}{why}", finding.check.id, finding.rules().join(" ")))?;
    if !matches!(word, "failed" | "warning") {
        return Ok(());
    }
    for id in finding.rules() {
        show::line(&format!("    {id}: {}", rules::text(id)))?;
    }
    for entry in last(finding) {
        let mark = if entry.is_sent { '>' } else { '<' };
        for line in entry.text.trim_end().lines().take(20) {
            show::line(&format!("    {mark} {}", text::one_line(line)))?;
        }
    }
    Ok(())
}

/// Returns the last messages of a check.
fn last(finding: &Finding) -> &[super::probe::Entry] {
    &finding.entries[finding.entries.len().saturating_sub(6)..]
}

/// Prints the sums.
pub(super) fn summary(report: &Report<'_>) -> Result<(), Failed> {
    for note in report.notes {
        show::line(&format!("not there: {}", text::one_line(note)))?;
    }
    let sums: Vec<_> = WORDS.iter().map(|word| format!("{} {word}", report.count(word))).collect();
    let (identity, revisions) = (text::one_line(&report.identity), text::one_line(&report.revisions.join(", ")));
    show::line(&format!("{identity} ({revisions}): {}", sums.join(", ")))
}

/// Prints the report as JSON: a line for each check, and one for the whole.
pub(super) fn json(report: &Report<'_>) -> Result<(), Failed> {
    for finding in report.findings {
        let mut line = row(finding.check, report.party);
        line["outcome"] = json!(finding.word());
        if matches!(finding.word(), "failed" | "warning") {
            line["broken"] = json!(finding.rules());
        }
        if !finding.why().is_empty() {
            line["why"] = json!(finding.why());
        }
        if !finding.entries.is_empty() {
            let entry = |it: &super::probe::Entry| json!({"sent": it.is_sent, "text": it.text});
            line["bytes"] = finding.entries.iter().map(entry).collect();
        }
        show::line(&show::for_stdout_json(&line.to_string()))?;
    }
    let sums: serde_json::Map<_, _> =
        WORDS.iter().map(|word| ((*word).to_owned(), json!(report.count(word)))).collect();
    let end = json!({
        "kind": "end", report.party.name(): report.subject, "identity": report.identity, "revisions": report.revisions,
        "notes": report.notes, "outcomes": sums,
    });
    show::line(&show::for_stdout_json(&end.to_string()))
}

/// Returns a title of an era for reports.
fn era_title(era: Era) -> &'static str {
    match era {
        Era::Legacy => "Sessions (2024-11-05 to 2025-11-25)",
        Era::Modern => "2026-07-28",
    }
}
