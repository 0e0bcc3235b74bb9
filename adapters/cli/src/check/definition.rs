//! The definition of a check: a row of the catalogue.

use std::ops::Deref;

use super::{era::Era, outcome::Verdict, probe::Probe};

/// The transport of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    Any,
    Stdio,
    Http,
}

/// How much a broken rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// All rules of the check are MUST or MUST NOT, in the words of the specification: a failure.
    Must,
    /// A rule is SHOULD, or follows from the text only: a warning.
    Should,
}

/// The part of a check that a report shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) id: &'static str,
    /// The rule that holds if the check passes.
    pub(super) title: &'static str,
    /// Rows of the requirement tables.
    pub(super) rules: &'static [&'static str],
    pub(super) level: Level,
    pub(super) era: Era,
    pub(super) on: On,
    /// The first revision with sessions that has the rule.
    pub(super) since: &'static str,
    /// The capability of the server, or the method of the client, that it needs.
    pub(super) needs: Option<&'static str>,
    /// Only with `--hostile`.
    pub(super) is_hostile: bool,
}

/// A row of the catalogue.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) row: Row,
    pub(super) run: fn(&mut Probe) -> Verdict,
}

impl Deref for Check {
    type Target = Row;

    fn deref(&self) -> &Row {
        &self.row
    }
}

pub(super) type Rules = &'static [&'static str];

/// Returns the row of a check of rules that are MUST.
pub(super) const fn row(id: &'static str, title: &'static str, rules: Rules, era: Era) -> Row {
    let since = match era {
        Era::Legacy => "2024-11-05",
        Era::Modern => "",
    };
    Row { id, title, rules, level: Level::Must, era, on: On::Any, since, needs: None, is_hostile: false }
}

/// Returns a check of rules that are MUST, for sessions.
pub(super) const fn legacy(
    id: &'static str,
    title: &'static str,
    rules: Rules,
    run: fn(&mut Probe) -> Verdict,
) -> Check {
    Check { row: row(id, title, rules, Era::Legacy), run }
}

/// Returns a check of rules that are MUST, for 2026-07-28.
pub(super) const fn modern(
    id: &'static str,
    title: &'static str,
    rules: Rules,
    run: fn(&mut Probe) -> Verdict,
) -> Check {
    Check { row: row(id, title, rules, Era::Modern), run }
}

impl Check {
    pub(super) const fn should(mut self) -> Self {
        self.row.level = Level::Should;
        self
    }

    pub(super) const fn stdio(mut self) -> Self {
        self.row.on = On::Stdio;
        self
    }

    pub(super) const fn http(mut self) -> Self {
        self.row.on = On::Http;
        self
    }

    pub(super) const fn since(mut self, revision: &'static str) -> Self {
        self.row.since = revision;
        self
    }

    pub(super) const fn needs(mut self, capability: &'static str) -> Self {
        self.row.needs = Some(capability);
        self
    }

    pub(super) const fn hostile(mut self) -> Self {
        self.row.is_hostile = true;
        self
    }
}
