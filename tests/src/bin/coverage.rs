//! Prints which MUST and MUST NOT rows of the requirement table are cited by a test.
//!
//! ```text
//! cargo run -p mcp-tests --bin coverage [-- --min PERCENT]
//! ```
//!
//! Exit status: 0 all is well, 1 a wrong citation or fewer than PERCENT cited, 2 wrong usage or unreadable files.

use std::io::{self, Write as _};
use std::process::ExitCode;

use mcp_tests::citations::scan;
use mcp_tests::coverage::Coverage;
use mcp_tests::requirements::{parse_reasons, read_table};
use mcp_tests::workspace;

fn main() -> ExitCode {
    let mut min = 0;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let percent = args.next().and_then(|value| value.parse().ok()).filter(|percent| *percent <= 100);
        match (arg.as_str(), percent) {
            ("--min", Some(percent)) => min = percent,
            _ => return fail(2, "usage: coverage [--min PERCENT]"),
        }
    }
    let coverage = match gather() {
        Ok(coverage) => coverage,
        Err(error) => return fail(2, &error.to_string()),
    };
    let errors = coverage.errors();
    for error in &errors {
        complain(error);
    }
    if !coverage.reaches(min) {
        complain(&format!("fewer than {min} percent of the rows are cited"));
    }
    if io::stdout().write_all(coverage.to_string().as_bytes()).is_err() {
        return ExitCode::from(2);
    }
    if errors.is_empty() && coverage.reaches(min) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn gather() -> io::Result<Coverage> {
    let root = workspace::root();
    let tables = root.join("tests/requirements");
    let rows = read_table(&tables.join("requirements-legacy.csv"))?;
    let modern = read_table(&tables.join("requirements-modern.csv"))?;
    let reasons = parse_reasons(&std::fs::read_to_string(tables.join("uncovered.csv"))?)?;
    let other_ids = modern.into_iter().map(|row| row.id).collect();
    let mut coverage = Coverage { rows, other_ids, reasons, ..Coverage::default() };
    let mut sources = workspace::sources(&root, &workspace::CODE, &["rs"])?;
    sources.extend(workspace::sources(&root, &["tests/interop"], &["mjs"])?);
    for source in &sources {
        let (citations, faults) = scan(source);
        coverage.citations.extend(citations);
        coverage.faults.extend(faults);
    }
    Ok(coverage)
}

fn fail(status: u8, message: &str) -> ExitCode {
    complain(message);
    ExitCode::from(status)
}

fn complain(message: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(io::stderr(), "coverage: {message}");
}
