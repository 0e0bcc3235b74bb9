//! The definition of a check of a client: a row of the catalogue.

use super::stage::Stage;
use crate::check::{
    definition::{Level, On, Row, Rules, row},
    era::Era,
    outcome::Verdict,
};

/// A row of the catalogue. `needs` is what the client has to do: a method, or the name of a situation.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) row: Row,
    pub(super) run: fn(&mut Stage) -> Verdict,
}

/// Returns a check of rules that are MUST, for sessions.
pub(super) const fn legacy(
    id: &'static str,
    title: &'static str,
    rules: Rules,
    run: fn(&mut Stage) -> Verdict,
) -> Check {
    Check { row: row(id, title, rules, Era::Legacy), run }
}

/// Returns a check of rules that are MUST, for 2026-07-28.
pub(super) const fn modern(
    id: &'static str,
    title: &'static str,
    rules: Rules,
    run: fn(&mut Stage) -> Verdict,
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

    pub(super) const fn needs(mut self, situation: &'static str) -> Self {
        self.row.needs = Some(situation);
        self
    }
}
