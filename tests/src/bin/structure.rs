//! Prints the structure of each published crate: import circles with the imports that tie them, arrows upward between
//! rooms, imports through the crate's own `lib.rs`, files without a room, and files and functions that are too long.
//!
//! `cargo run -p mcp-tests --bin structure` prints all crates; a package name as argument selects one, and `--imports`
//! prints every import between files. The line `faults` is the expected entry of the table in `tests/tests/layers.rs`.

use std::io::Write as _;

use mcp_tests::structure::{CRATES, check, sources};

fn main() -> std::io::Result<()> {
    let (flags, names): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let wanted = names.first();
    let mut out = std::io::stdout().lock();
    for member in CRATES.iter().filter(|member| wanted.is_none_or(|name| name == member.name)) {
        let sources = sources(member.folder);
        if sources.is_empty() {
            continue;
        }
        let report = check(&sources, member.rooms);
        writeln!(out, "{}: {} files\n{report}  faults: {:?}", member.name, sources.len(), report.faults())?;
        for (from, to) in report.imports.iter().filter(|_| flags.iter().any(|flag| flag == "--imports")) {
            writeln!(out, "  {from} -> {to}")?;
        }
    }
    Ok(())
}
