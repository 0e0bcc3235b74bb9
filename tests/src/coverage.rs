//! The coverage report: which rows of the requirement tables the tests cite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use crate::citations::{Citation, Fault};
use crate::requirements::Requirement;

/// What the report is made from.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The tables, each of which has to be covered by itself.
    pub tables: Vec<Table>,
    /// Why rows are not cited.
    pub reasons: BTreeMap<String, String>,
    /// Rows of several revisions which no test runs in each, and why.
    pub untried: BTreeMap<String, String>,
    /// Every citation found.
    pub citations: Vec<Citation>,
    /// Everything that looks like a citation and cannot be counted.
    pub faults: Vec<Fault>,
}

/// One table of requirements.
#[derive(Clone, Debug)]
pub struct Table {
    /// What the report calls it.
    pub name: String,
    /// Its rows.
    pub rows: Vec<Requirement>,
}

impl Table {
    /// The rows that count.
    fn counted(&self) -> impl Iterator<Item = &Requirement> {
        self.rows.iter().filter(|row| row.counts())
    }

    /// How many of the rows that count are cited, and how many there are.
    fn totals(&self, cited: &BTreeSet<&str>) -> (usize, usize) {
        self.counted().fold((0, 0), |(count, all), row| (count + usize::from(cited.contains(row.id.as_str())), all + 1))
    }
}

impl Coverage {
    fn cited(&self) -> BTreeSet<&str> {
        self.citations.iter().filter(|citation| citation.covers).map(|citation| citation.id.as_str()).collect()
    }

    /// The revisions of a row in which no test that cites it runs.
    fn untried<'r>(&self, row: &'r Requirement) -> Vec<&'r str> {
        let citing = || self.citations.iter().filter(|citation| citation.covers && citation.id == row.id);
        let tried = |revision: &str| citing().any(|citation| citation.revisions.contains(revision));
        row.revisions.iter().map(String::as_str).filter(|revision| !tried(revision)).collect()
    }

    /// The tables of whose rows that count less than `percent` are cited.
    #[must_use]
    pub fn below(&self, percent: usize) -> Vec<&str> {
        let cited = self.cited();
        let falls_short = |table: &&Table| {
            let (count, all) = table.totals(&cited);
            count * 100 < all * percent
        };
        self.tables.iter().filter(falls_short).map(|table| table.name.as_str()).collect()
    }

    /// Everything that makes the count wrong: bad citations, reasons that are stale, and rows that have neither a test nor
    /// a reason.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let rows = || self.tables.iter().flat_map(|table| &table.rows);
        let known: BTreeSet<&str> = rows().map(|row| row.id.as_str()).collect();
        let cited = self.cited();
        let mut errors = Vec::new();
        for Fault { path, line, what } in &self.faults {
            errors.push(format!("{}:{line}: {what}", path.display()));
        }
        for Citation { id, path, line, .. } in &self.citations {
            if !known.contains(id.as_str()) {
                errors.push(format!("{}:{line}: {id} is in no table", path.display()));
            }
        }
        // What a row of one revision is cited by runs in that one, or it would not fail without the rule.
        let several = |row: &&Requirement| row.counts() && row.revisions.len() > 1 && cited.contains(row.id.as_str());
        let mut known_untried = self.untried.clone();
        for row in rows().filter(several) {
            let untried = self.untried(row);
            if !untried.is_empty() && known_untried.remove(&row.id).is_none() {
                errors.push(format!("no test that cites {} runs in {}", row.id, untried.join(" ")));
            }
        }
        for id in known_untried.into_keys() {
            if rows().filter(several).any(|row| row.id == id) {
                errors.push(format!("untried.csv: {id} is stale, its tests run in each of its revisions"));
            } else {
                errors.push(format!("untried.csv: {id} is not a cited row of several revisions that counts"));
            }
        }
        let counted: BTreeSet<&str> = rows().filter(|row| row.counts()).map(|row| row.id.as_str()).collect();
        for id in self.reasons.keys().map(String::as_str) {
            if !counted.contains(id) {
                errors.push(format!("uncovered.csv: {id} is not a row that counts"));
            } else if cited.contains(id) {
                errors.push(format!("uncovered.csv: {id} is stale, a test cites it"));
            }
        }
        for id in counted.into_iter().filter(|id| !cited.contains(id) && !self.reasons.contains_key(*id)) {
            errors.push(format!("uncovered.csv: no test cites {id}, and nothing says why"));
        }
        errors
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cited = self.cited();
        for (index, table) in self.tables.iter().enumerate() {
            let mut areas: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
            let mut missing = String::new();
            for row in table.counted() {
                let (count, all) = areas.entry(&row.area).or_default();
                *all += 1;
                if cited.contains(row.id.as_str()) {
                    *count += 1;
                } else {
                    let reason = self.reasons.get(&row.id).map_or("no reason given", String::as_str);
                    write!(missing, "{} {}: {}\n    {reason}\n", row.id, row.level, row.text)?;
                }
            }
            let gap = if index == 0 { "" } else { "\n" };
            writeln!(f, "{gap}{}", table.name)?;
            for (area, (count, all)) in areas {
                writeln!(f, "  {area:8} {count:3} of {all:3}")?;
            }
            if !missing.is_empty() {
                write!(f, "\nnot cited, and why:\n{missing}")?;
            }
            let several = table.counted().filter(|row| row.revisions.len() > 1 && cited.contains(row.id.as_str()));
            let (mut partly, mut list) = (0, String::new());
            for row in several {
                let untried = self.untried(row);
                if !untried.is_empty() {
                    partly += 1;
                    let reason = self.untried.get(&row.id).map_or("no reason given", String::as_str);
                    write!(list, "{} in {}\n    {reason}\n", row.id, untried.join(" "))?;
                }
            }
            if !list.is_empty() {
                write!(f, "\ncited, but not by a test that runs in these revisions, and why:\n{list}")?;
            }
            let (count, all) = table.totals(&cited);
            let waiting = table.rows.iter().filter(|row| row.is_testable() && row.needs_oauth()).count();
            writeln!(
                f,
                "\n{}: covered {count} of {all}, {partly} of them not in each revision; {waiting} more need OAuth",
                table.name
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, area: &str, level: &str) -> Requirement {
        let text = format!("Text of {id}.");
        let revisions = vec!["2025-11-25".into()];
        Requirement { id: id.into(), area: area.into(), level: level.into(), revisions, text, source: "basic".into() }
    }

    fn citation(id: &str) -> Citation {
        Citation { id: id.into(), path: "a.rs".into(), line: 7, revisions: ["2025-11-25"].into(), covers: true }
    }

    fn sample() -> Coverage {
        let old = vec![
            row("PING-001", "PING", "MUST"),
            row("PING-002", "PING", "SHOULD"),
            row("LIFE-001", "LIFE", "MUST NOT"),
            row("LIFE-002", "LIFE", "MUST"),
            row("AUTH-001", "AUTH", "MUST"),
        ];
        let new = vec![row("M-META-001", "META", "MUST"), row("M-META-002", "META", "MUST")];
        Coverage {
            tables: vec![Table { name: "old".into(), rows: old }, Table { name: "new".into(), rows: new }],
            reasons: ["LIFE-001", "LIFE-002", "M-META-002"].map(|id| (id.into(), "untestable".into())).into(),
            untried: BTreeMap::new(),
            citations: ["PING-001", "PING-001", "PING-002", "AUTH-001", "M-META-001"].map(citation).into(),
            faults: vec![],
        }
    }

    #[test]
    fn the_report_lists_areas_and_what_is_missing() {
        let mut coverage = sample();
        coverage.reasons.remove("LIFE-001");
        let expected = "old\n  \
            LIFE       0 of   2\n  \
            PING       1 of   1\n\
            \n\
            not cited, and why:\n\
            LIFE-001 MUST NOT: Text of LIFE-001.\n    no reason given\n\
            LIFE-002 MUST: Text of LIFE-002.\n    untestable\n\
            \n\
            old: covered 1 of 3, 0 of them not in each revision; 1 more need OAuth\n\
            \n\
            new\n  \
            META       1 of   2\n\
            \n\
            not cited, and why:\n\
            M-META-002 MUST: Text of M-META-002.\n    untestable\n\
            \n\
            new: covered 1 of 2, 0 of them not in each revision; 0 more need OAuth\n";
        assert_eq!(coverage.to_string(), expected);
        assert_eq!(sample().errors(), [""; 0]);
    }

    #[test]
    fn the_floor_is_met_exactly_or_not_at_all_by_each_table() {
        assert_eq!(sample().below(33), [""; 0]);
        assert_eq!(sample().below(34), ["old"]);
        assert_eq!(sample().below(50), ["old"]);
        assert_eq!(sample().below(51), ["old", "new"]);
    }

    #[test]
    fn unknown_ids_and_faults_are_errors() {
        let mut coverage = sample();
        coverage.citations.push(citation("PING-999"));
        coverage.faults.push(Fault { path: "b.rs".into(), line: 2, what: "no test follows".into() });
        assert_eq!(coverage.errors(), ["b.rs:2: no test follows", "a.rs:7: PING-999 is in no table"]);
    }

    #[test]
    fn what_cargo_test_does_not_run_covers_nothing() {
        let mut coverage = sample();
        for citation in coverage.citations.iter_mut().filter(|citation| citation.id == "M-META-001") {
            citation.covers = false;
        }
        assert_eq!(coverage.errors(), ["uncovered.csv: no test cites M-META-001, and nothing says why"]);
    }

    #[test]
    fn a_row_of_several_revisions_is_cited_in_each() {
        let mut coverage = sample();
        coverage.tables[0].rows[0].revisions = ["2024-11-05", "2025-06-18", "2025-11-25"].map(String::from).into();
        assert_eq!(coverage.errors(), ["no test that cites PING-001 runs in 2024-11-05 2025-06-18"]);
        coverage.citations[0].revisions = ["2024-11-05", "2025-06-18"].into();
        assert_eq!(coverage.errors(), [""; 0]);
        coverage.citations[0].covers = false;
        assert_eq!(coverage.errors(), ["no test that cites PING-001 runs in 2024-11-05 2025-06-18"]);
        coverage.untried.insert("PING-001".into(), "not yet".into());
        assert_eq!(coverage.errors(), [""; 0]);
        coverage.citations[0].covers = true;
        assert_eq!(coverage.errors(), ["untried.csv: PING-001 is stale, its tests run in each of its revisions"]);
    }

    #[test]
    fn rows_that_are_not_tried_in_each_revision_are_counted_and_listed() {
        let mut coverage = sample();
        coverage.tables[0].rows[0].revisions = ["2024-11-05", "2025-11-25"].map(String::from).into();
        coverage.untried.insert("PING-001".into(), "not yet".into());
        assert_eq!(coverage.errors(), [""; 0]);
        let report = coverage.to_string();
        let list =
            "cited, but not by a test that runs in these revisions, and why:\nPING-001 in 2024-11-05\n    not yet\n";
        assert!(report.contains(list), "{report}");
        assert!(report.contains("old: covered 1 of 3, 1 of them not in each revision;"), "{report}");
        assert!(report.contains("new: covered 1 of 2, 0 of them not in each revision;"), "{report}");
    }

    #[test]
    fn only_rows_of_several_revisions_that_are_cited_are_untried() {
        for (id, why) in [("PING-001", "one revision"), ("LIFE-001", "not cited"), ("PING-999", "in no table")] {
            let mut coverage = sample();
            coverage.untried.insert(id.into(), why.into());
            let error = format!("untried.csv: {id} is not a cited row of several revisions that counts");
            assert_eq!(coverage.errors(), [error], "{why}");
        }
    }

    #[test]
    fn reasons_that_are_missing_or_not_needed_are_errors() {
        let mut coverage = sample();
        coverage.reasons.remove("LIFE-001");
        for id in ["PING-001", "PING-002", "AUTH-001", "PING-999"] {
            coverage.reasons.insert(id.into(), "once".into());
        }
        let expected = [
            "uncovered.csv: AUTH-001 is not a row that counts",
            "uncovered.csv: PING-001 is stale, a test cites it",
            "uncovered.csv: PING-002 is not a row that counts",
            "uncovered.csv: PING-999 is not a row that counts",
            "uncovered.csv: no test cites LIFE-001, and nothing says why",
        ];
        assert_eq!(coverage.errors(), expected);
    }
}
