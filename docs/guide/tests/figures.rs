//! Checks that the figures of the README are those of `benches/RESULTS.md`, which a command writes.

use std::{fs, path::Path};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the rows of all tables under a heading of a page.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = page
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no section {heading}"));
    section
        .lines()
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|row| {
            row.split(" | ")
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect()
}

#[test]
fn figures_of_the_readme_are_those_of_the_results() {
    // The row of the README, and the column of the results with as many columns as that table has.
    const FIGURES: [(&str, usize, usize); 6] = [
        ("calls per second, one by one", 8, 1),
        ("calls per second, 64 unanswered", 8, 2),
        ("instructions per call", 8, 6),
        ("packages linked", 5, 2),
        ("clean build, seconds", 5, 1),
        ("peak memory with 64 MiB of unanswered calls, MiB", 8, 5),
    ];
    let readme = rows(&read("README.md"), "Beside other SDKs");
    let results = rows(
        &read("benches/RESULTS.md"),
        "Servers over standard input and output",
    );
    for (title, columns, column) in FIGURES {
        let shown = readme
            .iter()
            .find(|row| row[0] == title)
            .unwrap_or_else(|| panic!("no row {title}"));
        let measured = ["tokio", "rmcp", "rmcp, usual"].map(|server| {
            let row = results
                .iter()
                .find(|row| row.len() == columns && row[0] == server);
            row.unwrap_or_else(|| panic!("no row {server}"))[column].clone()
        });
        assert_eq!(shown[1..], measured, "{title}");
    }
}
