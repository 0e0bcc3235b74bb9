//! The coverage report: which rows of the requirement tables the tests cite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use crate::citations::{Citation, Fault};
use crate::requirements::Requirement;

/// The input of the report.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The tables. Each has to be covered separately.
    pub tables: Vec<Table>,
    /// The reasons for rows that are not cited.
    pub reasons: BTreeMap<String, String>,
    /// Rows of several revisions that no test runs in each of them, with the reasons.
    pub untried: BTreeMap<String, String>,
    /// Rows of several revisions whose code is the same in each of them, with the reasons. A test in one of them is
    /// enough.
    pub independent: BTreeMap<String, String>,
    /// All citations.
    pub citations: Vec<Citation>,
    /// Lines that look like a citation and cannot be counted.
    pub faults: Vec<Fault>,
}

/// One table of requirements.
#[derive(Clone, Debug)]
pub struct Table {
    /// The name of the table in the report.
    pub name: String,
    /// Its rows.
    pub rows: Vec<Requirement>,
}

impl Table {
    /// Returns the rows that count.
    fn counted(&self) -> impl Iterator<Item = &Requirement> {
        self.rows.iter().filter(|row| row.counts())
    }

    /// Returns how many of the rows that count are cited, and how many there are.
    fn totals(&self, cited: &BTreeSet<&str>) -> (usize, usize) {
        self.counted().fold((0, 0), |(count, all), row| (count + usize::from(cited.contains(row.id.as_str())), all + 1))
    }
}

impl Coverage {
    fn cited(&self) -> BTreeSet<&str> {
        self.citations.iter().filter(|citation| citation.covers).map(|citation| citation.id.as_str()).collect()
    }

    /// Returns the revisions of a row in which no test that cites it runs.
    fn untried<'r>(&self, row: &'r Requirement) -> Vec<&'r str> {
        let citing = || self.citations.iter().filter(|citation| citation.covers && citation.id == row.id);
        let tried = |revision: &str| citing().any(|citation| citation.revisions.contains(revision));
        row.revisions.iter().map(String::as_str).filter(|revision| !tried(revision)).collect()
    }

    /// Returns the tables in which less than `percent` of the rows that count are cited.
    #[must_use]
    pub fn below(&self, percent: usize) -> Vec<&str> {
        let cited = self.cited();
        let falls_short = |table: &&Table| {
            let (count, all) = table.totals(&cited);
            count * 100 < all * percent
        };
        self.tables.iter().filter(falls_short).map(|table| table.name.as_str()).collect()
    }

    /// Returns whether less than `percent` of the rows of these areas that count are cited, in all tables together, or
    /// one of the areas has no rows that count.
    #[must_use]
    pub fn is_below(&self, percent: usize, areas: &[&str]) -> bool {
        let cited = self.cited();
        let rows = || self.tables.iter().flat_map(Table::counted);
        let rows_of = |area: &&str| rows().filter(|row| row.area == *area).count();
        let counted = rows().filter(|row| areas.contains(&row.area.as_str()));
        let count = counted.filter(|row| cited.contains(row.id.as_str())).count();
        let all: usize = areas.iter().map(rows_of).sum();
        areas.iter().any(|area| rows_of(area) == 0) || count * 100 < all * percent
    }

    /// Returns all errors of the input: citations that cannot be counted, stale reasons, and rows without a test and a
    /// reason.
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
        // A test that cites a row of one revision runs in that revision. Otherwise it would not fail without the rule.
        let several = |row: &&Requirement| row.counts() && row.revisions.len() > 1 && cited.contains(row.id.as_str());
        let (mut known_untried, mut independent) = (self.untried.clone(), self.independent.clone());
        for row in rows().filter(several) {
            let untried = self.untried(row);
            let mut has_reason = || independent.remove(&row.id).or_else(|| known_untried.remove(&row.id)).is_some();
            if !untried.is_empty() && !has_reason() {
                errors.push(format!("no test that cites {} runs in {}", row.id, untried.join(" ")));
            }
        }
        let lists = [("untried.csv", known_untried), ("independent.csv", independent)];
        for (file, id) in lists.into_iter().flat_map(|(file, ids)| ids.into_keys().map(move |id| (file, id))) {
            if file == "untried.csv" && self.independent.contains_key(&id) {
                errors.push(format!("untried.csv: {id} is in independent.csv as well"));
            } else if rows().filter(several).any(|row| row.id == id) {
                errors.push(format!("{file}: {id} is stale, its tests run in each of its revisions"));
            } else {
                errors.push(format!("{file}: {id} is not a cited row of several revisions that counts"));
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
                if !untried.is_empty() && !self.independent.contains_key(&row.id) {
                    partly += 1;
                    let reason = self.untried.get(&row.id).map_or("no reason given", String::as_str);
                    write!(list, "{} in {}\n    {reason}\n", row.id, untried.join(" "))?;
                }
            }
            if !list.is_empty() {
                write!(f, "\ncited, but not by a test that runs in these revisions, and why:\n{list}")?;
            }
            let (count, all) = table.totals(&cited);
            writeln!(f, "\n{}: covered {count} of {all}, {partly} of them not in each revision", table.name)?;
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
        ];
        let new = vec![row("M-META-001", "META", "MUST"), row("M-META-002", "META", "MUST")];
        Coverage {
            tables: vec![Table { name: "old".into(), rows: old }, Table { name: "new".into(), rows: new }],
            reasons: ["LIFE-001", "LIFE-002", "M-META-002"].map(|id| (id.into(), "untestable".into())).into(),
            untried: BTreeMap::new(),
            independent: BTreeMap::new(),
            citations: ["PING-001", "PING-001", "PING-002", "M-META-001"].map(citation).into(),
            faults: vec![],
        }
    }

    #[test]
    fn report_lists_areas_and_missing_rows() {
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
            old: covered 1 of 3, 0 of them not in each revision\n\
            \n\
            new\n  \
            META       1 of   2\n\
            \n\
            not cited, and why:\n\
            M-META-002 MUST: Text of M-META-002.\n    untestable\n\
            \n\
            new: covered 1 of 2, 0 of them not in each revision\n";
        assert_eq!(coverage.to_string(), expected);
        assert_eq!(sample().errors(), [""; 0]);
    }

    #[test]
    fn coverage_floor_applies_to_each_table() {
        assert_eq!(sample().below(33), [""; 0]);
        assert_eq!(sample().below(34), ["old"]);
        assert_eq!(sample().below(50), ["old"]);
        assert_eq!(sample().below(51), ["old", "new"]);
    }

    #[test]
    fn coverage_floor_of_areas_counts_all_tables() {
        for (areas, percent) in [(&["PING"][..], 100), (&["LIFE"], 0), (&["PING", "META"], 66), (&["LIFE", "PING"], 33)]
        {
            assert!(!sample().is_below(percent, areas), "{areas:?}");
            assert!(sample().is_below(percent + 1, areas), "{areas:?}");
        }
        assert!(sample().is_below(0, &["PING", "PONG"]), "an area that is not there");
    }

    #[test]
    fn reports_unknown_ids_and_citation_faults() {
        let mut coverage = sample();
        coverage.citations.push(citation("PING-999"));
        coverage.faults.push(Fault { path: "b.rs".into(), line: 2, what: "no test follows".into() });
        assert_eq!(coverage.errors(), ["b.rs:2: no test follows", "a.rs:7: PING-999 is in no table"]);
    }

    #[test]
    fn citations_outside_cargo_test_do_not_count() {
        let mut coverage = sample();
        for citation in coverage.citations.iter_mut().filter(|citation| citation.id == "M-META-001") {
            citation.covers = false;
        }
        assert_eq!(coverage.errors(), ["uncovered.csv: no test cites M-META-001, and nothing says why"]);
    }

    #[test]
    fn rows_must_be_cited_in_each_revision() {
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
    fn row_with_one_code_path_needs_a_test_in_one_revision() {
        let mut coverage = sample();
        coverage.tables[0].rows[0].revisions = ["2024-11-05", "2025-11-25"].map(String::from).into();
        coverage.independent.insert("PING-001".into(), "the code is the same".into());
        assert_eq!(coverage.errors(), [""; 0]);
        assert!(coverage.to_string().contains("old: covered 1 of 3, 0 of them not in each revision\n"), "{coverage}");
        coverage.untried.insert("PING-001".into(), "not yet".into());
        assert_eq!(coverage.errors(), ["untried.csv: PING-001 is in independent.csv as well"]);
        coverage.untried.clear();
        for citation in &mut coverage.citations {
            citation.revisions = ["2024-11-05", "2025-11-25"].into();
        }
        assert_eq!(coverage.errors(), ["independent.csv: PING-001 is stale, its tests run in each of its revisions"]);
        coverage.tables[0].rows[0].revisions = ["2024-11-05"].map(String::from).into();
        assert_eq!(
            coverage.errors(),
            ["independent.csv: PING-001 is not a cited row of several revisions that counts"]
        );
    }

    #[test]
    fn lists_rows_not_tested_in_each_revision() {
        let mut coverage = sample();
        coverage.tables[0].rows[0].revisions = ["2024-11-05", "2025-11-25"].map(String::from).into();
        coverage.untried.insert("PING-001".into(), "not yet".into());
        assert_eq!(coverage.errors(), [""; 0]);
        let report = coverage.to_string();
        let list =
            "cited, but not by a test that runs in these revisions, and why:\nPING-001 in 2024-11-05\n    not yet\n";
        assert!(report.contains(list), "{report}");
        assert!(report.contains("old: covered 1 of 3, 1 of them not in each revision\n"), "{report}");
        assert!(report.contains("new: covered 1 of 2, 0 of them not in each revision\n"), "{report}");
    }

    #[test]
    fn rejects_untried_entries_without_a_cited_row() {
        for (id, why) in [("PING-001", "one revision"), ("LIFE-001", "not cited"), ("PING-999", "in no table")] {
            let mut coverage = sample();
            coverage.untried.insert(id.into(), why.into());
            let error = format!("untried.csv: {id} is not a cited row of several revisions that counts");
            assert_eq!(coverage.errors(), [error], "{why}");
        }
    }

    #[test]
    fn reports_missing_and_stale_reasons() {
        let mut coverage = sample();
        coverage.reasons.remove("LIFE-001");
        for id in ["PING-001", "PING-002", "PING-999"] {
            coverage.reasons.insert(id.into(), "once".into());
        }
        let expected = [
            "uncovered.csv: PING-001 is stale, a test cites it",
            "uncovered.csv: PING-002 is not a row that counts",
            "uncovered.csv: PING-999 is not a row that counts",
            "uncovered.csv: no test cites LIFE-001, and nothing says why",
        ];
        assert_eq!(coverage.errors(), expected);
    }
}
