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
        self.citations.iter().map(|citation| citation.id.as_str()).collect()
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
        for Citation { id, path, line } in &self.citations {
            if !known.contains(id.as_str()) {
                errors.push(format!("{}:{line}: {id} is in no table", path.display()));
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
            let (count, all) = table.totals(&cited);
            let waiting = table.rows.iter().filter(|row| row.is_testable() && row.needs_oauth()).count();
            writeln!(f, "\n{}: covered {count} of {all}; {waiting} more need OAuth", table.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, area: &str, level: &str) -> Requirement {
        let text = format!("Text of {id}.");
        Requirement { id: id.into(), area: area.into(), level: level.into(), text, source: "basic".into() }
    }

    fn citation(id: &str) -> Citation {
        Citation { id: id.into(), path: "a.rs".into(), line: 7 }
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
            old: covered 1 of 3; 1 more need OAuth\n\
            \n\
            new\n  \
            META       1 of   2\n\
            \n\
            not cited, and why:\n\
            M-META-002 MUST: Text of M-META-002.\n    untestable\n\
            \n\
            new: covered 1 of 2; 0 more need OAuth\n";
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
