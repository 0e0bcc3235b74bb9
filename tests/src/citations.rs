//! Requirement citations: comments like `// req: LIFE-012 LIFE-013` directly above a test.
//!
//! In Rust the test is a function with the attribute `#[test]`, a row of `scenarios! { }`, or a `Trial`. Only comments
//! and attributes may stand between the citation and the test. A citation counts if a test program was compiled from
//! that file, lists the test as not ignored, and the test or an item that it uses in its file contains an assertion. A
//! citation above anything else is a fault, because it would count an untested row as tested.
//!
//! The scanner cannot check whether the assertion is about the rule. Only breaking the rule shows that.
//!
//! In the JavaScript of `tests/interop` a citation stands above a call of `task`. It names the subject of the task and
//! covers no row, because `cargo test` does not run it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    listing::Program,
    outline::{Item, Kind, items},
    workspace::Source,
};

/// One cited row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// The id of the row.
    pub id: String,
    /// The file that holds the test.
    pub path: PathBuf,
    /// The line of the comment, from 1.
    pub line: usize,
    /// The revisions that the test or the items that it uses name. Without any, the newest revision that has a session.
    pub revisions: BTreeSet<&'static str>,
    /// Whether it covers the row: whether `cargo test` runs it.
    pub covers: bool,
}

/// A citation that cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub what: String,
}

/// The sources, and the test programs that are compiled from them.
pub struct Scanner<'a> {
    programs: &'a [Program],
    items: BTreeMap<&'a Path, Vec<Item>>,
}

const MARK: &str = "// req:";

/// The revision of a test that names none.
const NEWEST_SESSION: &str = "2025-11-25";

impl<'a> Scanner<'a> {
    /// Reads all Rust sources.
    ///
    /// # Errors
    /// If a source is not valid Rust.
    pub fn new(sources: &'a [Source], programs: &'a [Program]) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for source in sources.iter().filter(|source| !is_script(source)) {
            let read = items(source).map_err(|error| format!("{}: {error}", source.path.display()))?;
            all.insert(&*source.path, read);
        }
        Ok(Self { programs, items: all })
    }

    /// Returns all citations of one file, and all lines that look like a citation but cannot be counted.
    #[must_use]
    pub fn scan(&self, source: &Source) -> (Vec<Citation>, Vec<Fault>) {
        let lines: Vec<&str> = source.text.lines().collect();
        let script = is_script(source);
        let (mut citations, mut faults) = (Vec::new(), Vec::new());
        for (at, line) in lines.iter().enumerate() {
            let mut fault = |what: String| faults.push(Fault { path: source.path.clone(), line: at + 1, what });
            let Some(ids) = line.trim_start().strip_prefix(MARK) else {
                if looks_like_a_citation(line) {
                    fault(format!("a citation is written `{MARK} ID ID`"));
                }
                continue;
            };
            let found = if script { script_test(&lines, at) } else { self.rust_test(source, &lines, at) };
            let revisions = match found {
                Ok(revisions) => revisions,
                Err(what) => {
                    fault(what.to_owned());
                    continue;
                }
            };
            let mut ids = ids.split_whitespace().peekable();
            if ids.peek().is_none() {
                fault("no id".to_owned());
            }
            let citation = |id: &str| Citation {
                id: id.to_owned(),
                path: source.path.clone(),
                line: at + 1,
                revisions: revisions.clone(),
                covers: !script,
            };
            citations.extend(ids.map(citation));
        }
        (citations, faults)
    }

    /// Returns the revisions of the Rust test that follows the citation at `at`.
    fn rust_test(&self, source: &Source, lines: &[&str], at: usize) -> Result<BTreeSet<&'static str>, &'static str> {
        let items = self.items.get(&*source.path).map_or(&[][..], Vec::as_slice);
        let is_comment = |line: usize| lines.get(line - 1).is_some_and(|line| line.trim_start().starts_with("//"));
        // The comment has the number `at + 1`: before the first attribute, or between the attributes and the name.
        let follows = |item: &&Item| {
            (item.start > at + 1 && (at + 2..item.start).all(is_comment)) || (item.start <= at && at + 1 < item.head)
        };
        let mut found = items.iter().filter(|item| item.kind != Kind::Constant).filter(follows);
        let Some(item) = found.next() else { return Err("no test follows") };
        let same_name =
            |other: &&Item| (other.kind, &other.modules, &other.name) == (item.kind, &item.modules, &item.name);
        match item.kind {
            Kind::Function if !item.attributes.iter().any(|attribute| attribute == "test") => {
                return Err("the function is no test");
            }
            Kind::Method | Kind::Constant => return Err("no test follows"),
            // The compiled function could be the other one.
            Kind::Function if items.iter().filter(same_name).count() > 1 => return Err("two functions have this name"),
            _ => {}
        }
        if !self.runs(&source.path, item) {
            return Err("no test program lists this test, or it is ignored");
        }
        let (asserts, revisions) = self.reach(&source.path, item);
        if !asserts {
            return Err("the test asserts nothing");
        }
        Ok(revisions)
    }

    /// Returns whether a program that is compiled from this file lists the item as a test that is not ignored.
    fn runs(&self, path: &Path, item: &Item) -> bool {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let lists = |program: &Program, test: &str| match item.kind {
            Kind::Trial => test == item.name || test.ends_with(&format!("::{}", item.name)),
            Kind::Scenario => test.ends_with(&format!("::{stem}::{}", item.name)),
            _ => {
                let inner = item.modules.iter().chain([&item.name]).cloned().collect::<Vec<_>>().join("::");
                match module(&program.root, path) {
                    Some(outer) if outer.is_empty() => test == inner,
                    Some(outer) => test == format!("{outer}::{inner}"),
                    // A file outside the program's folder is a module under its own name.
                    None => test == format!("{stem}::{inner}") || test.ends_with(&format!("::{stem}::{inner}")),
                }
            }
        };
        let compiled = self.programs.iter().filter(|program| program.files.contains(path));
        compiled.into_iter().any(|program| program.tests.iter().any(|test| lists(program, test)))
    }

    /// Returns whether an item contains an assertion, and which revisions it names, including the items of its file
    /// that it mentions.
    fn reach(&self, path: &Path, item: &Item) -> (bool, BTreeSet<&'static str>) {
        let own = self.items.get(path).map_or(&[][..], Vec::as_slice);
        let (mut asserts, mut revisions) = (item.asserts, item.revisions.clone());
        let mut seen = BTreeSet::from([item.name.as_str()]);
        let mut open: Vec<&str> = item.words.iter().map(String::as_str).collect();
        if item.kind == Kind::Scenario {
            seen.clear();
        }
        while let Some(word) = open.pop() {
            if !seen.insert(word) {
                continue;
            }
            let named = |item: &&Item| item.name == word && !matches!(item.kind, Kind::Scenario | Kind::Trial);
            let mut found: Vec<&Item> = own.iter().filter(named).collect();
            if found.is_empty() {
                // A shared item counts if its name identifies it.
                let shared = self.items.iter().filter(|(other, _)| shares(path, other));
                found = shared.flat_map(|(_, items)| items).filter(named).collect();
                if found.len() > 1 || found.iter().any(|item| item.kind == Kind::Method) {
                    continue;
                }
            }
            for item in found {
                asserts |= item.asserts;
                revisions.extend(&item.revisions);
                open.extend(item.words.iter().map(String::as_str));
            }
        }
        if revisions.is_empty() {
            revisions.insert(NEWEST_SESSION);
        }
        (asserts, revisions)
    }
}

/// Returns whether a test in `path` can use the items of `other`: a file of the test support crate, one of the same
/// folder, or one that several programs share.
fn shares(path: &Path, other: &Path) -> bool {
    let supports = other.parent().is_some_and(|folder| folder.to_string_lossy().ends_with("_support"));
    supports || other.starts_with("tests/src") || other.parent() == path.parent()
}

/// Returns the module path of a file below the root module of its program, or `None` if the file lies elsewhere.
fn module(root: &Path, path: &Path) -> Option<String> {
    if root == path {
        return Some(String::new());
    }
    let inner = path.strip_prefix(root.parent()?).ok()?.with_extension("");
    let mut parts: Vec<_> = inner.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    Some(parts.join("::"))
}

fn is_script(source: &Source) -> bool {
    source.path.extension().is_some_and(|end| end == "mjs")
}

fn looks_like_a_citation(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
    let comment = comment.trim_start_matches(['/', '!', ' ']).to_ascii_lowercase();
    ["req:", "reqs:", "req :"].iter().any(|start| comment.starts_with(start))
}

/// Confirms that the line after the citation at `at` calls `task`.
fn script_test(lines: &[&str], at: usize) -> Result<BTreeSet<&'static str>, &'static str> {
    let mut below = lines[at + 1..].iter().map(|line| line.trim_start());
    match below.find(|line| !line.starts_with("//")) {
        Some(line) if line.starts_with("task(") => Ok(BTreeSet::new()),
        _ => Err("no `task(` follows"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of a program that lists `listed`.
    fn check(path: &str, lines: &[&str], listed: &[&str]) -> (Vec<Citation>, Vec<String>) {
        let sources = [Source { path: path.into(), text: lines.join("\n") }];
        let programs = [Program {
            root: "tests/main.rs".into(),
            files: ["tests/main.rs", "tests/a.rs", "elsewhere/a.rs"].map(PathBuf::from).into(),
            tests: listed.iter().map(|test| (*test).to_owned()).collect(),
        }];
        let scanner = Scanner::new(&sources, &programs).expect("Rust");
        let (citations, faults) = scanner.scan(&sources[0]);
        (citations, faults.into_iter().map(|fault| fault.what).collect())
    }

    fn ids(citations: Vec<Citation>) -> Vec<String> {
        citations.into_iter().map(|citation| citation.id).collect()
    }

    fn cited(lines: &[&str]) -> Vec<String> {
        let (citations, faults) = check("tests/a.rs", lines, &["a::a", "a::b::a", "x::a::row", "name"]);
        assert_eq!(faults, [""; 0], "{lines:?}");
        ids(citations)
    }

    fn refused(lines: &[&str]) -> String {
        let (citations, faults) = check("tests/a.rs", lines, &["a::a"]);
        assert_eq!(ids(citations), [""; 0], "{lines:?}");
        faults.join(", ")
    }

    const BODY: &str = "fn a() { assert!(b); }";

    #[test]
    fn finds_citations_of_test_functions() {
        assert_eq!(cited(&["// req: A-001  A-002", "#[test]", BODY]), ["A-001", "A-002"]);
        assert_eq!(cited(&["// req: A-001", "// req: B-001", "// Why.", "#[test]", BODY]), ["A-001", "B-001"]);
        assert_eq!(cited(&["#[test]", "// req: A-001", BODY]), ["A-001"]);
        assert_eq!(cited(&["/// Text.", "// req: A-001", "#[test]", BODY]), ["A-001"]);
        assert_eq!(cited(&["mod b {", "    // req: A-001", "    #[test]", BODY, "}"]), ["A-001"]);
        let long = ["// req: A-001", "#[cfg_attr(", "    feature = \"x\",", "    y", ")]", "#[test]", BODY];
        assert_eq!(cited(&long), ["A-001"]);
    }

    #[test]
    fn resolves_modules_included_by_path() {
        let lines = ["// req: A-001", "#[test]", BODY];
        for (listed, is_cited) in
            [("x::a::a", true), ("a::a", true), ("ba::a", false), ("a::b::a", false), ("a", false)]
        {
            assert_eq!(check("elsewhere/a.rs", &lines, &[listed]).1.is_empty(), is_cited, "{listed}");
        }
    }

    #[test]
    fn finds_citations_of_scenarios_and_trials() {
        let scenario = ["scenarios! {", "    // req: A-001", "    row,", "}", "fn row() { assert!(b); }"];
        assert_eq!(cited(&scenario), ["A-001"]);
        let trial = ["fn main() {", "vec![", "    // req: A-001", "    Trial::test(\"name\", a),", "]", "}", BODY];
        assert_eq!(cited(&trial), ["A-001"]);
    }

    #[test]
    fn assertions_may_be_in_a_helper_of_the_file() {
        assert_eq!(
            cited(&["// req: A-001", "#[test]", "fn a() { b(1); }", "fn b(x: u8) { assert_eq!(x, 1); }"]),
            ["A-001"]
        );
        let nothing = ["// req: A-001", "#[test]", "fn a() { b(1); }", "fn b(x: u8) { assert!(true); }"];
        assert_eq!(refused(&nothing), "the test asserts nothing");
    }

    #[test]
    fn reports_citations_of_tests_that_do_not_run() {
        const UNLISTED: &str = "no test program lists this test, or it is ignored";
        let lines = ["// req: A-001", "#[test]", BODY];
        // A file that is in no module tree.
        assert_eq!(check("tests/fake.rs", &lines, &["fake::a", "a"]).1, [UNLISTED]);
        // Not compiled, or ignored by an attribute: the program does not list it.
        assert_eq!(check("tests/a.rs", &["// req: A-001", "#[test]", "#[cfg(any())]", BODY], &[]).1, [UNLISTED]);
        assert_eq!(
            check("tests/a.rs", &["// req: A-001", "#[test]", "#[cfg_attr(all(), ignore)]", BODY], &[]).1,
            [UNLISTED]
        );
        let trial = ["fn main() {", "// req: A-001", "Trial::test(\"name\", a).with_ignored_flag(true);", "}", BODY];
        assert_eq!(check("tests/a.rs", &trial, &[]).1, [UNLISTED]);
        // Two functions with the same name.
        let duplicates = ["// req: A-001", "#[test]", "#[cfg(any())]", BODY, "#[test]", BODY];
        assert_eq!(refused(&duplicates), "two functions have this name");
        assert_eq!(check("tests/a.rs", &lines, &["b::a", "a::b::a", "a::a::a"]).1, [UNLISTED]);
    }

    #[test]
    fn reports_citations_above_other_items() {
        assert_eq!(refused(&["// req: A-001"]), "no test follows");
        assert_eq!(refused(&["// req: A-001", "", "#[test]", BODY]), "no test follows");
        assert_eq!(refused(&["// req: A-001", "struct A;"]), "no test follows");
        assert_eq!(refused(&["// req: A-001", "fn a() { assert!(b); }"]), "the function is no test");
        assert_eq!(refused(&["// req: A-001", "#[cfg(test)]", BODY]), "the function is no test");
        assert_eq!(refused(&["// req: A-001", "#[my::test]", BODY]), "the function is no test");
        assert_eq!(refused(&["struct S; impl S {", "// req: A-001", "#[test]", BODY, "}"]), "no test follows");
        assert_eq!(refused(&["thread_local! {", "    // req: A-001", "    static A: u8 = 1;", "}"]), "no test follows");
        assert_eq!(refused(&["fn b() {", "    // req: A-001", "    log_it!(\"a\");", "}"]), "no test follows");
        assert_eq!(refused(&["helpers! {", "    // req: A-001", "    fn a() { assert!(b); }", "}"]), "no test follows");
        assert_eq!(
            refused(&["helpers! {", "    // req: A-001", "    #[test]", "    fn a() { assert!(b); }", "}"]),
            "no test follows"
        );
        assert_eq!(refused(&["// req: A-001", "#[test]", "fn a() { b(); }"]), "the test asserts nothing");
        assert_eq!(refused(&["// req: A-001", "#[test]", "fn a() { assert_eq!(1, 1); }"]), "the test asserts nothing");
        assert_eq!(refused(&["// req:", "#[test]", BODY]), "no id");
    }

    #[test]
    fn reads_the_revisions_named_in_a_test() {
        let of = |body: &str| check("tests/a.rs", &["// req: A-001", "#[test]", body], &["a::a"]).0.remove(0).revisions;
        assert_eq!(of(BODY), ["2025-11-25"].into());
        assert_eq!(of("fn a() { assert!(V2024_11_05 == \"2025-06-18\"); }"), ["2024-11-05", "2025-06-18"].into());
        assert_eq!(of("fn a() { assert!(ProtocolVersion::LEGACY); }").len(), 4);
        assert_eq!(of("fn a() { assert!(VersionSet::ALL.iter()); }").len(), 5);
        assert_eq!(of("fn a() { assert!(VersionSet::LEGACY); }"), ["2025-11-25"].into());
        assert_eq!(of("fn a() { assert!(SINCE); } const SINCE: X = X::since(V2025_06_18);").len(), 3);
        assert_eq!(of("fn a() { assert!(b()); } fn b() { X::between(V2025_03_26, V2025_06_18) }").len(), 2);
    }

    #[test]
    fn reports_malformed_citations() {
        for line in ["//req: A-001", "/// req: A-001", "// Req: A-001", "// reqs: A-001"] {
            assert_eq!(refused(&[line, "#[test]", "fn a() {}"]), "a citation is written `// req: ID ID`");
        }
        assert_eq!(cited(&["// required: nothing", "const TEXT: &str = \"// req: A-001\";"]), [""; 0]);
    }

    #[test]
    fn citations_in_scripts_do_not_count() {
        let (citations, faults) = check("a.mjs", &["// req: A-001", "// Why.", "task('ping', async () => {"], &[]);
        assert_eq!((citations[0].covers, ids(citations), faults), (false, vec!["A-001".to_owned()], vec![]));
        let (citations, faults) = check("a.mjs", &["// req: A-001", "const a = 1;"], &[]);
        assert_eq!((citations, faults), (vec![], vec!["no `task(` follows".to_owned()]));
    }
}
