//! The definition of a check: a row of the catalogue.

use std::ops::Deref;

use super::{
    era::Era,
    outcome::{Rules, Verdict},
    probe::Probe,
};

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
    pub(super) rules: Rules,
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

/// A row of the catalogue, whose check is run with an `S`.
pub(super) struct Definition<S> {
    pub(super) row: Row,
    pub(super) run: fn(&mut S) -> Verdict,
    /// Whether the check opens its own connections, so that it does not need the one that others share.
    pub(super) is_alone: bool,
}

/// A check of servers.
pub(super) type Check = Definition<Probe>;

impl<S> Deref for Definition<S> {
    type Target = Row;

    fn deref(&self) -> &Row {
        &self.row
    }
}

impl Row {
    /// Returns whether a name is that of the check, or of one of its rules.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.id == name || self.rules.contains(&name)
    }
}

/// Returns the row of a check of rules that are MUST.
pub(super) const fn row(id: &'static str, title: &'static str, rules: Rules, era: Era) -> Row {
    let since = match era {
        Era::Legacy => "2024-11-05",
        Era::Modern => "",
    };
    Row { id, title, rules, level: Level::Must, era, on: On::Any, since, needs: None, is_hostile: false }
}

/// Returns a check of rules that are MUST, for sessions.
pub(super) const fn legacy<S>(
    id: &'static str,
    title: &'static str,
    rules: Rules,
    run: fn(&mut S) -> Verdict,
) -> Definition<S> {
    Definition { row: row(id, title, rules, Era::Legacy), run, is_alone: false }
}

/// Returns a check of rules that are MUST, for 2026-07-28.
pub(super) const fn modern<S>(
    id: &'static str,
    title: &'static str,
    rules: Rules,
    run: fn(&mut S) -> Verdict,
) -> Definition<S> {
    Definition { row: row(id, title, rules, Era::Modern), run, is_alone: false }
}

impl<S> Definition<S> {
    /// Marks a check that opens its own connections.
    pub(super) const fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

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

    pub(super) const fn needs(mut self, what: &'static str) -> Self {
        self.row.needs = Some(what);
        self
    }

    pub(super) const fn hostile(mut self) -> Self {
        self.row.is_hostile = true;
        self
    }
}
