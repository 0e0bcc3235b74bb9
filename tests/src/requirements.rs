//! The requirement tables of `tests/requirements` and the rows that count for coverage.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// One row of a requirement table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Area and number, for example `LIFE-012`.
    pub id: String,
    /// The topic.
    pub area: String,
    /// `MUST`, `MUST NOT`, `SHOULD`, `SHOULD NOT` or `MAY`.
    pub level: String,
    /// The revisions that contain the requirement. A row of an extension names the extension.
    pub revisions: Vec<String>,
    /// The sentence that a test confirms or refutes.
    pub text: String,
    /// The places in the specification, separated by `; `.
    pub source: String,
}

impl Requirement {
    /// Returns whether the row counts for the coverage: a MUST or MUST NOT that can be tested in a library.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.level.starts_with("MUST") && !self.text.starts_with("(withdrawn)") && !self.area.ends_with("-HOST")
    }
}

/// Returns the rows of the table at `path`, in its order.
///
/// # Errors
/// If the file cannot be read, is not a requirement table, or contains an id twice.
pub fn read_table(path: &Path) -> io::Result<Vec<Requirement>> {
    parse_table(&std::fs::read_to_string(path)?)
}

/// Returns the rows of a table given as text.
///
/// # Errors
/// If the text is not a requirement table or contains an id twice.
pub fn parse_table(text: &str) -> io::Result<Vec<Requirement>> {
    let mut rows = Vec::new();
    let mut seen = BTreeMap::new();
    for row in records(text, &["id", "area", "level", "revisions", "requirement", "source"])? {
        let [id, area, level, revisions, text, source] = row.try_into().expect("as many as asked for");
        if seen.insert(id.clone(), ()).is_some() {
            return Err(io::Error::other(format!("{id} is there twice")));
        }
        let revisions = revisions.split_whitespace().map(str::to_owned).collect();
        rows.push(Requirement { id, area, level, revisions, text, source });
    }
    Ok(rows)
}

/// Returns the reasons of rows that are not cited, by id: the table `uncovered.csv`.
///
/// # Errors
/// If the text is not such a table, contains an id twice, or contains an empty reason.
pub fn parse_reasons(text: &str) -> io::Result<BTreeMap<String, String>> {
    let mut reasons = BTreeMap::new();
    for row in records(text, &["id", "reason"])? {
        let [id, reason] = row.try_into().expect("as many as asked for");
        if reason.trim().is_empty() {
            return Err(io::Error::other(format!("{id} has no reason")));
        }
        if reasons.insert(id.clone(), reason).is_some() {
            return Err(io::Error::other(format!("{id} is there twice")));
        }
    }
    Ok(reasons)
}

/// Returns the named columns of each row.
fn records(text: &str, columns: &[&str]) -> io::Result<Vec<Vec<String>>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers()?.clone();
    let places = columns
        .iter()
        .map(|column| {
            headers
                .iter()
                .position(|header| header == *column)
                .ok_or_else(|| io::Error::other(format!("no column {column}")))
        })
        .collect::<io::Result<Vec<usize>>>()?;
    reader
        .records()
        .map(|record| {
            let record = record?;
            Ok(places.iter().map(|place| record.get(*place).unwrap_or_default().to_owned()).collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "id,area,party,level,revisions,requirement,source\n\
        PING-001,PING,both,MUST,2025-11-25,\"Answers, \"\"promptly\"\".\",basic\n\
        PING-002,PING,both,SHOULD,2025-11-25,Pings.,basic\n\
        PING-003,PING-HOST,host,MUST,2025-11-25,Shows it.,basic\n\
        HTTP-001,HTTP,server,MUST NOT,2025-11-25,Listens.,basic\n\
        PING-004,PING,both,MUST,2025-11-25,(withdrawn) The text says so nowhere.,basic\n\
        AUTH-001,AUTH,server,MUST,2025-11-25,It is challenged.,basic/authorization\n";

    #[test]
    fn parses_quoted_table_fields() {
        let rows = parse_table(TABLE).expect("a table");
        assert_eq!(rows.len(), 6);
        let first = Requirement {
            id: "PING-001".into(),
            area: "PING".into(),
            level: "MUST".into(),
            revisions: vec!["2025-11-25".into()],
            text: "Answers, \"promptly\".".into(),
            source: "basic".into(),
        };
        assert_eq!(rows[0], first);
    }

    #[test]
    fn only_testable_must_rows_count() {
        let rows = parse_table(TABLE).expect("a table");
        let counted: Vec<_> = rows.iter().filter(|row| row.counts()).map(|row| row.id.as_str()).collect();
        assert_eq!(counted, ["PING-001", "HTTP-001", "AUTH-001"]);
    }

    #[test]
    fn rejects_malformed_tables() {
        let twice = format!("{TABLE}PING-001,PING,both,MUST,2025-11-25,Again.,basic\n");
        assert!(parse_table(&twice).is_err());
        assert!(parse_table("id,area\nA,B\n").is_err());
        assert!(parse_table("id,area,level,revisions,requirement,source\nA,B\n").is_err());
    }

    #[test]
    fn rejects_empty_and_duplicate_reasons() {
        let reasons = parse_reasons("id,reason\nA-001,\"by design, see B\"\n").expect("a table");
        assert_eq!(reasons["A-001"], "by design, see B");
        assert!(parse_reasons("id,reason\nA-001, \n").is_err());
        assert!(parse_reasons("id,reason\nA-001,x\nA-001,y\n").is_err());
    }

    #[test]
    fn requirement_tables_are_well_formed() {
        let folder = crate::workspace::root().join("tests/requirements");
        for (name, prefix) in [("requirements-legacy.csv", ""), ("requirements-modern.csv", "M-")] {
            let rows = read_table(&folder.join(name)).expect(name);
            assert!(rows.len() > 600, "{name}");
            for row in rows {
                let area = row.area.trim_end_matches("-HOST");
                assert!(row.id.starts_with(&format!("{prefix}{area}-")), "{} in {area}", row.id);
                assert!(
                    ["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"].contains(&row.level.as_str()),
                    "{}",
                    row.id
                );
                assert!(!row.text.is_empty(), "{}", row.id);
            }
        }
    }
}
