//! The coverage report: which rows of the requirement table the tests cite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use crate::citations::{Citation, Fault};
use crate::requirements::Requirement;

/// What the report is made from.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The table that is counted.
    pub rows: Vec<Requirement>,
    /// The ids of the tables that may be cited as well but are not counted.
    pub other_ids: BTreeSet<String>,
    /// Why rows are not cited.
    pub reasons: BTreeMap<String, String>,
    /// Every citation found.
    pub citations: Vec<Citation>,
    /// Everything that looks like a citation and cannot be counted.
    pub faults: Vec<Fault>,
}

impl Coverage {
    /// The rows that count, each with whether it is cited.
    fn counted(&self) -> impl Iterator<Item = (&Requirement, bool)> {
        let cited: BTreeSet<&str> = self.citations.iter().map(|citation| citation.id.as_str()).collect();
        self.rows.iter().filter(|row| row.counts()).map(move |row| (row, cited.contains(row.id.as_str())))
    }

    /// How many of the rows that count are cited, and how many there are.
    #[must_use]
    pub fn totals(&self) -> (usize, usize) {
        self.counted().fold((0, 0), |(cited, all), (_, is_cited)| (cited + usize::from(is_cited), all + 1))
    }

    /// Whether at least `percent` of the rows that count are cited.
    #[must_use]
    pub fn reaches(&self, percent: usize) -> bool {
        let (cited, all) = self.totals();
        cited * 100 >= all * percent
    }

    /// Everything that makes the count wrong.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let own: BTreeSet<&str> = self.rows.iter().map(|row| row.id.as_str()).collect();
        let mut errors = Vec::new();
        for Fault { path, line, what } in &self.faults {
            errors.push(format!("{}:{line}: {what}", path.display()));
        }
        for Citation { id, path, line } in &self.citations {
            if !own.contains(id.as_str()) && !self.other_ids.contains(id) {
                errors.push(format!("{}:{line}: {id} is in no table", path.display()));
            }
        }
        let counted: BTreeMap<&str, bool> = self.counted().map(|(row, cited)| (row.id.as_str(), cited)).collect();
        for id in self.reasons.keys() {
            match counted.get(id.as_str()) {
                Some(true) => errors.push(format!("uncovered.csv: {id} is stale, a test cites it")),
                Some(false) => {}
                None => errors.push(format!("uncovered.csv: {id} is not a row that counts")),
            }
        }
        errors
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut areas: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut missing = String::new();
        for (row, cited) in self.counted() {
            let (count, all) = areas.entry(&row.area).or_default();
            *all += 1;
            if cited {
                *count += 1;
            } else {
                let reason = self.reasons.get(&row.id).map_or("no reason given", String::as_str);
                write!(missing, "{} {}: {}\n    {reason}\n", row.id, row.level, row.text)?;
            }
        }
        for (area, (cited, all)) in areas {
            writeln!(f, "{area:8} {cited:3} of {all:3}")?;
        }
        if !missing.is_empty() {
            write!(f, "\nnot cited, and why:\n{missing}")?;
        }
        let (cited, all) = self.totals();
        writeln!(f, "\ncovered {cited} of {all}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, area: &str, level: &str) -> Requirement {
        Requirement { id: id.into(), area: area.into(), level: level.into(), text: format!("Text of {id}.") }
    }

    fn citation(id: &str) -> Citation {
        Citation { id: id.into(), path: "a.rs".into(), line: 7 }
    }

    fn sample() -> Coverage {
        Coverage {
            rows: vec![
                row("PING-001", "PING", "MUST"),
                row("PING-002", "PING", "SHOULD"),
                row("LIFE-001", "LIFE", "MUST NOT"),
                row("LIFE-002", "LIFE", "MUST"),
                row("HTTP-001", "HTTP", "MUST"),
            ],
            other_ids: ["M-PING-001".to_owned()].into(),
            reasons: [("LIFE-002".to_owned(), "untestable".to_owned())].into(),
            citations: ["PING-001", "PING-001", "PING-002", "HTTP-001", "M-PING-001"].map(citation).into(),
            faults: vec![],
        }
    }

    #[test]
    fn the_report_lists_areas_and_what_is_missing() {
        let expected = "LIFE       0 of   2\n\
            PING       1 of   1\n\
            \n\
            not cited, and why:\n\
            LIFE-001 MUST NOT: Text of LIFE-001.\n    no reason given\n\
            LIFE-002 MUST: Text of LIFE-002.\n    untestable\n\
            \n\
            covered 1 of 3\n";
        assert_eq!(sample().to_string(), expected);
        assert_eq!(sample().errors(), [""; 0]);
    }

    #[test]
    fn the_floor_is_met_exactly_or_not_at_all() {
        assert!(sample().reaches(33));
        assert!(!sample().reaches(34));
    }

    #[test]
    fn unknown_ids_and_faults_are_errors() {
        let mut coverage = sample();
        coverage.citations.push(citation("PING-999"));
        coverage.faults.push(Fault { path: "b.rs".into(), line: 2, what: "no test follows".into() });
        assert_eq!(coverage.errors(), ["b.rs:2: no test follows", "a.rs:7: PING-999 is in no table"]);
    }

    #[test]
    fn reasons_for_rows_that_need_none_are_errors() {
        let mut coverage = sample();
        for id in ["PING-001", "PING-002", "HTTP-001", "PING-999"] {
            coverage.reasons.insert(id.into(), "once".into());
        }
        let expected = [
            "uncovered.csv: HTTP-001 is not a row that counts",
            "uncovered.csv: PING-001 is stale, a test cites it",
            "uncovered.csv: PING-002 is not a row that counts",
            "uncovered.csv: PING-999 is not a row that counts",
        ];
        assert_eq!(coverage.errors(), expected);
    }
}
