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
    /// The revisions that have it. A row of an extension names the extension.
    pub revisions: Vec<String>,
    /// The sentence that a test confirms or refutes.
    pub text: String,
    /// Where the specification says so: places, separated by `; `.
    pub source: String,
}

impl Requirement {
    /// Whether the row counts for the coverage of the protocol: a MUST or MUST NOT which a library can be tested for
    /// without OAuth.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.is_testable() && !self.needs_oauth()
    }

    /// Whether the row is a MUST or MUST NOT which a library can be tested for, over whatever transport.
    #[must_use]
    pub fn is_testable(&self) -> bool {
        self.level.starts_with("MUST") && !self.text.starts_with("(withdrawn)") && !self.area.ends_with("-HOST")
    }

    /// Whether the row speaks of OAuth alone: its area is that, or every place that it comes from is about it.
    #[must_use]
    pub fn needs_oauth(&self) -> bool {
        if WITHOUT_OAUTH.contains(&self.id.as_str()) {
            return false;
        }
        self.area.trim_end_matches("-HOST") == OAUTH_AREA
            || self.source.split("; ").all(|place| OAUTH_SOURCES.iter().any(|source| place.contains(source)))
    }
}

/// Rows of the area of OAuth about challenges and headers, which are the same for any kind of token.
const WITHOUT_OAUTH: [&str; 13] = [
    "AUTH-010",
    "AUTH-018",
    "AUTH-019",
    "AUTH-020",
    "AUTH-021",
    "AUTH-022",
    "AUTH-023",
    "M-AUTH-029",
    "M-AUTH-030",
    "M-AUTH-032",
    "M-AUTH-033",
    "M-AUTH-035",
    "M-AUTH-055",
];

/// The area of OAuth.
const OAUTH_AREA: &str = "AUTH";

/// Pages and sections of the specification about bearer tokens and the URLs of OAuth.
const OAUTH_SOURCES: [&str; 4] = [
    "basic/authorization",
    "security_best_practices#token-passthrough",
    "security_best_practices#server-side-request-forgery-ssrf",
    "security_best_practices#oauth-authorization-url-validation",
];

/// The rows of the table at `path`, in its order.
///
/// # Errors
/// If the file cannot be read, is not such a table, or has an id twice.
pub fn read_table(path: &Path) -> io::Result<Vec<Requirement>> {
    parse_table(&std::fs::read_to_string(path)?)
}

/// The rows of a table given as text.
///
/// # Errors
/// If it is not such a table or has an id twice.
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

/// The reasons why rows are not cited, by id: the table `uncovered.csv`.
///
/// # Errors
/// If it is not such a table, has an id twice, or has an empty reason.
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

/// The named columns of every row.
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
        SEC-002,SEC,server,MUST,2025-11-25,Passes on.,security_best_practices#token-passthrough\n\
        SEC-015,SEC,server,MUST NOT,2025-11-25,Trusts.,security_best_practices#mcp\n\
        SUBS-001,SUBS,server,MUST,2026-07-28,It ends by a message.,basic/x; basic/authorization#y\n\
        AUTH-001,AUTH,server,MUST,2026-07-28,It is challenged.,basic/x\n\
        SUBS-003,SUBS,server,MUST,2026-07-28,The token is there.,basic/authorization#z; basic/authorization#y\n";

    #[test]
    fn a_table_is_read_with_its_quotes() {
        let rows = parse_table(TABLE).expect("a table");
        assert_eq!(rows.len(), 10);
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
    fn only_testable_musts_away_from_oauth_count() {
        for id in WITHOUT_OAUTH {
            let tables = ["requirements-legacy.csv", "requirements-modern.csv"];
            let folder = crate::workspace::root().join("tests/requirements");
            let found =
                tables.iter().flat_map(|name| read_table(&folder.join(name)).expect(name)).find(|row| row.id == id);
            assert!(found.is_some_and(|row| row.counts() && row.area == OAUTH_AREA), "{id}");
        }
        let rows = parse_table(TABLE).expect("a table");
        let counted: Vec<_> = rows.iter().filter(|row| row.counts()).map(|row| row.id.as_str()).collect();
        assert_eq!(counted, ["PING-001", "HTTP-001", "SEC-015", "SUBS-001"]);
    }

    /// What is taken for OAuth in areas that are not about it: the list shows that the rule takes no row with it that can
    /// be kept or broken without.
    #[test]
    fn the_rows_that_wait_for_oauth_are_these() {
        let folder = crate::workspace::root().join("tests/requirements");
        let waiting = |name: &str| -> Vec<String> {
            let rows = read_table(&folder.join(name)).expect(name);
            let waits = |row: &Requirement| row.is_testable() && row.needs_oauth() && row.area != OAUTH_AREA;
            rows.into_iter().filter(waits).map(|row| row.id).collect()
        };
        assert_eq!(waiting("requirements-legacy.csv"), ["SEC-004", "SEC-005", "SEC-009"]);
        assert_eq!(waiting("requirements-modern.csv"), [""; 0]);
    }

    #[test]
    fn broken_tables_are_refused() {
        let twice = format!("{TABLE}PING-001,PING,both,MUST,2025-11-25,Again.,basic\n");
        assert!(parse_table(&twice).is_err());
        assert!(parse_table("id,area\nA,B\n").is_err());
        assert!(parse_table("id,area,level,revisions,requirement,source\nA,B\n").is_err());
    }

    #[test]
    fn every_reason_has_a_text_and_one_row() {
        let reasons = parse_reasons("id,reason\nA-001,\"by design, see B\"\n").expect("a table");
        assert_eq!(reasons["A-001"], "by design, see B");
        assert!(parse_reasons("id,reason\nA-001, \n").is_err());
        assert!(parse_reasons("id,reason\nA-001,x\nA-001,y\n").is_err());
    }

    #[test]
    fn the_tables_of_the_project_are_sound() {
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
