//! Completeness: every scenario runs on every adapter, and every row of `pitfalls.csv` has a scenario.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use libtest_mimic::{Failed, Trial};

use crate::{
    adapter::{Adapter, Blocking, Smol, Tokio},
    scenario,
};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("every_scenario_runs_on_every_adapter", || run(every_scenario)),
        Trial::test("every_pitfall_is_tried_somewhere", || run(every_pitfall)),
    ]
}

fn run(test: fn()) -> Result<(), Failed> {
    test();
    Ok(())
}

/// Returns scenarios by file and name.
fn listed<A: Adapter>() -> BTreeSet<String> {
    let name = |scenario: scenario::Scenario| scenario.on(A::NAME);
    let trials: Vec<_> = scenario::all::<A>().into_iter().map(name).collect();
    assert!(trials.iter().all(|trial| !trial.has_ignored_flag()));
    let names: BTreeSet<_> = trials
        .iter()
        .map(|trial| trial.name().strip_prefix(A::NAME).expect("the adapter comes first").to_owned())
        .collect();
    assert_eq!(names.len(), trials.len(), "names differ");
    names
}

fn every_scenario() {
    let listed = [listed::<Blocking>(), listed::<Smol>(), listed::<Tokio>()];
    assert!(listed.iter().all(|names| *names == listed[0]));
    // A scenario that is not listed would never run.
    let files = files();
    let written = files.iter().flat_map(|(file, text)| {
        let module = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let functions = text.lines().filter_map(|line| line.strip_prefix("fn ")?.strip_suffix("<A: Adapter>() {"));
        functions.map(move |name| format!("::{module}::{name}")).collect::<Vec<_>>()
    });
    assert_eq!(written.collect::<BTreeSet<_>>(), listed[0]);
    eprintln!("{} scenarios on {} adapters", listed[0].len(), listed.len());
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Returns the files of this program.
fn files() -> Vec<(PathBuf, String)> {
    let folder = fs::read_dir(here().join("suite")).expect("it is there");
    let paths = folder.map(|entry| entry.expect("it can be listed").path());
    let files = paths.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    files.map(|path| (path.clone(), fs::read_to_string(path).expect("it is text"))).collect()
}

/// Returns the scenarios of each row, from the comments above their names.
fn claims() -> BTreeMap<String, BTreeSet<String>> {
    let mut claims: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, text) in files() {
        let Some((_, list)) = text.split_once("\nscenarios![\n") else { continue };
        let mut rows = Vec::new();
        for line in list.lines().map(str::trim).take_while(|line| *line != "];") {
            match line.strip_prefix("// ") {
                Some(comment) if comment.starts_with("req:") => {}
                Some(comment) => rows.extend(comment.split(' ').map(str::to_owned)),
                None => {
                    for row in rows.drain(..) {
                        claims.entry(row).or_default().insert(line.trim_end_matches(',').to_owned());
                    }
                }
            }
        }
    }
    claims
}

fn every_pitfall() {
    let table = fs::read_to_string(here().join("pitfalls.csv")).expect("it is there");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("row,mistake,where,tests"));
    let mut claims = claims();
    // The rows of authorization, B41 to B57, have other tests.
    let b = (1..=40).chain(58..=60).map(|number| format!("B{number}"));
    let mut rows = (1..=69).map(|number| format!("A{number}")).chain(b);
    for line in lines {
        let [row, mistake, place, tests] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert_eq!(Some(row), rows.next().as_deref());
        assert!(!mistake.is_empty());
        let tests: BTreeSet<_> = tests.split(' ').map(str::to_owned).collect();
        if place == "suite" {
            assert_eq!(claims.remove(row).unwrap_or_default(), tests, "{row}");
            continue;
        }
        let root = here().join("../..");
        let read =
            |place| fs::read_to_string(root.join(place)).unwrap_or_else(|error| panic!("{row}: {place}: {error}"));
        let text: String = place.split(' ').map(read).collect();
        for test in tests {
            let ways = [format!("fn {test}("), format!("fn {test}<"), format!("\n{test}() {{")];
            let is_there = ways.iter().any(|test| text.contains(test));
            assert!(is_there, "{row}: {place}: {test}");
        }
    }
    assert_eq!(rows.next(), None, "a row that is missing");
    assert_eq!(claims, BTreeMap::new(), "rows that are in no table");
}
