//! Prints which MUST and MUST NOT rows of the requirement tables are cited by a test.
//!
//! ```text
//! cargo run -p mcp-tests --bin coverage [-- [--min PERCENT] [--min AREA,AREA=PERCENT]...]
//! ```
//!
//! Without areas, the minimum is that of each table. Otherwise, it is that of the rows of these areas in all tables.
//!
//! The test programs are built first and list their tests: a citation counts if its test is run.
//!
//! Exit status: 0 success, 1 a wrong citation, a row without test or reason, or fewer than PERCENT of the rows cited, 2
//! wrong usage or unreadable files.

use std::io::{self, Write as _};
use std::process::ExitCode;

use mcp_tests::citations::Scanner;
use mcp_tests::coverage::{Coverage, Table};
use mcp_tests::listing::programs;
use mcp_tests::requirements::{parse_reasons, read_table};
use mcp_tests::workspace;

fn main() -> ExitCode {
    let (mut min, mut areas) = (0, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().unwrap_or_default();
        let (names, percent) = value.rsplit_once('=').unwrap_or(("", &value));
        let percent = percent.parse().ok().filter(|percent| *percent <= 100);
        match (arg.as_str(), names, percent) {
            ("--min", "", Some(percent)) => min = percent,
            ("--min", names, Some(percent)) => areas.push((names.to_owned(), percent)),
            _ => return fail(2, "usage: coverage [--min PERCENT] [--min AREA,AREA=PERCENT]..."),
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
    let below = coverage.below(min);
    for table in &below {
        complain(&format!("fewer than {min} percent of the rows of {table} are cited"));
    }
    areas.retain(|(names, percent)| coverage.is_below(*percent, &names.split(',').collect::<Vec<_>>()));
    for (names, percent) in &areas {
        complain(&format!("fewer than {percent} percent of the rows of the areas {names} are cited"));
    }
    if io::stdout().write_all(coverage.to_string().as_bytes()).is_err() {
        return ExitCode::from(2);
    }
    if errors.is_empty() && below.is_empty() && areas.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn gather() -> io::Result<Coverage> {
    let root = workspace::root();
    let folder = root.join("tests/requirements");
    let table = |name: &str| -> io::Result<Table> {
        Ok(Table { name: name.to_owned(), rows: read_table(&folder.join(name))? })
    };
    let tables = vec![table("requirements-legacy.csv")?, table("requirements-modern.csv")?];
    let reasons = parse_reasons(&std::fs::read_to_string(folder.join("uncovered.csv"))?)?;
    let untried = parse_reasons(&std::fs::read_to_string(folder.join("untried.csv"))?)?;
    let independent = parse_reasons(&std::fs::read_to_string(folder.join("independent.csv"))?)?;
    let mut coverage = Coverage { tables, reasons, untried, independent, ..Coverage::default() };
    let mut sources = workspace::sources(&root, &workspace::CODE, &["rs"])?;
    sources.extend(workspace::sources(&root, &["tests/interop"], &["mjs"])?);
    let programs = programs(&root)?;
    let scanner = Scanner::new(&sources, &programs).map_err(io::Error::other)?;
    for source in &sources {
        let (citations, faults) = scanner.scan(source);
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
    // A closed standard error is not an error.
    let _ = writeln!(io::stderr(), "coverage: {message}");
}
