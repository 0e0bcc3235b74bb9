//! Requirement citations: comments like `// req: LIFE-012 LIFE-013` directly above a test.
//!
//! In Rust the test is a function with a test attribute, a function or a row inside a macro call, or a `Trial`. In the
//! JavaScript of `tests/interop` it is a call of `task`. Between the comment and the test only comments and attributes may
//! stand. A citation above anything else is a fault, because it would count a row as tested that is not.

use std::path::PathBuf;

use crate::workspace::Source;

/// One cited row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// The id of the row.
    pub id: String,
    /// The file that holds the test.
    pub path: PathBuf,
    /// The line of the comment, from 1.
    pub line: usize,
}

/// A citation that cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

const MARK: &str = "// req:";

/// How far below the comment the test may start.
const REACH: usize = 6;

/// All citations of one file, and all lines that look like one and are none.
#[must_use]
pub fn scan(source: &Source) -> (Vec<Citation>, Vec<Fault>) {
    let lines: Vec<&str> = source.text.lines().collect();
    let script = source.path.extension().is_some_and(|end| end == "mjs");
    let mut citations = Vec::new();
    let mut faults = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let mut fault = |what: String| faults.push(Fault { path: source.path.clone(), line: at + 1, what });
        let Some(ids) = line.trim_start().strip_prefix(MARK) else {
            if looks_like_a_citation(line) {
                fault(format!("a citation is written `{MARK} ID ID`"));
            }
            continue;
        };
        let found = if script { script_test(&lines, at) } else { rust_test(&lines, at) };
        if let Err(what) = found {
            fault(what);
            continue;
        }
        let mut ids = ids.split_whitespace().peekable();
        if ids.peek().is_none() {
            fault("no id".to_owned());
        }
        citations.extend(ids.map(|id| Citation { id: id.to_owned(), path: source.path.clone(), line: at + 1 }));
    }
    (citations, faults)
}

fn looks_like_a_citation(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
    let comment = comment.trim_start_matches(['/', '!', ' ']).to_ascii_lowercase();
    ["req:", "reqs:", "req :"].iter().any(|start| comment.starts_with(start))
}

/// Confirms that the line after the citation at `at` calls `task`.
fn script_test(lines: &[&str], at: usize) -> Result<(), String> {
    let mut below = lines[at + 1..].iter().take(REACH).map(|line| line.trim_start());
    match below.find(|line| !line.starts_with("//")) {
        Some(line) if line.starts_with("task(") => Ok(()),
        _ => Err("no `task(` follows".to_owned()),
    }
}

/// Confirms that a Rust test follows the citation at `at`.
fn rust_test(lines: &[&str], at: usize) -> Result<(), String> {
    let mut attributes: Vec<&str> = lines[..at]
        .iter()
        .rev()
        .map(|line| line.trim_start())
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
        .filter(|line| line.starts_with("#["))
        .collect();
    let mut open = 0;
    for (below, line) in lines.iter().enumerate().skip(at + 1).take(REACH) {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        if open > 0 || code.starts_with("#[") {
            if open == 0 {
                attributes.push(code);
            }
            open += brackets(code);
            continue;
        }
        if attributes.iter().any(|line| attribute_name(line) == "ignore") {
            return Err("the test is ignored".to_owned());
        }
        let is_test = attributes.iter().any(|line| attribute_name(line).contains("test"));
        return if is_function(code) {
            if is_test || inside_macro_call(lines, below) { Ok(()) } else { Err("the function is no test".to_owned()) }
        } else if code.contains("Trial::") || starts_macro_call(code) || inside_macro_call(lines, below) {
            Ok(())
        } else {
            Err("no test follows".to_owned())
        };
    }
    Err("no test follows".to_owned())
}

/// How many square brackets `code` leaves open.
fn brackets(code: &str) -> i32 {
    code.chars().map(|c| i32::from(c == '[') - i32::from(c == ']')).sum()
}

/// `tokio::test` of `#[tokio::test(flavor = "..")]`.
fn attribute_name(line: &str) -> &str {
    line.trim_start_matches("#[").split(['(', ']', '=', ' ']).next().unwrap_or_default()
}

fn is_function(code: &str) -> bool {
    let words = code.split_whitespace();
    words.take_while(|word| !word.contains('(') || word.starts_with("pub(")).any(|word| word == "fn")
}

/// Macros that are statements inside of a test and never one by themselves.
const STATEMENTS: [&str; 14] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "prop_assert",
    "prop_assert_eq",
    "matches",
    "vec",
    "format",
    "print",
    "println",
    "eprintln",
    "write",
    "panic",
];

/// Whether a line begins like `each_revision! {`.
fn starts_macro_call(code: &str) -> bool {
    let Some((name, rest)) = code.split_once('!') else { return false };
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    !name.is_empty()
        && name.chars().all(is_path)
        && !STATEMENTS.contains(&name.rsplit(':').next().unwrap_or_default())
        && rest.trim_start().starts_with(['{', '(', '['])
}

/// Whether the nearest line above `at` that is indented less opens a macro call.
fn inside_macro_call(lines: &[&str], at: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let own = indent(lines[at]);
    lines[..at]
        .iter()
        .rev()
        .find(|line| !line.trim().is_empty() && indent(line) < own)
        .is_some_and(|line| starts_macro_call(line.trim_start()) && line.trim_end().ends_with(['{', '(', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, lines: &[&str]) -> (Vec<String>, Vec<String>) {
        let (citations, faults) = scan(&Source { path: path.into(), text: lines.join("\n") });
        (citations.into_iter().map(|c| c.id).collect(), faults.into_iter().map(|f| f.what).collect())
    }

    fn cited(lines: &[&str]) -> Vec<String> {
        let (ids, faults) = check("a.rs", lines);
        assert_eq!(faults, [""; 0], "{lines:?}");
        ids
    }

    fn refused(lines: &[&str]) -> String {
        let (ids, faults) = check("a.rs", lines);
        assert_eq!(ids, [""; 0], "{lines:?}");
        faults.join(", ")
    }

    #[test]
    fn test_functions_are_cited() {
        assert_eq!(cited(&["// req: A-001  A-002", "#[test]", "fn a() {"]), ["A-001", "A-002"]);
        assert_eq!(
            cited(&["    // req: A-001", "    // req: B-001", "    // Why.", "    #[test]", "    fn a() {"]),
            ["A-001", "B-001"]
        );
        assert_eq!(cited(&["#[test]", "// req: A-001", "fn a() {"]), ["A-001"]);
        assert_eq!(cited(&["// req: A-001", "#[tokio::test(flavor = \"x\")]", "pub(crate) async fn a() {"]), ["A-001"]);
        let long = ["// req: A-001", "#[cfg_attr(", "    feature = \"x\",", "    y", ")]", "#[test]", "fn a() {"];
        assert_eq!(cited(&long), ["A-001"]);
    }

    #[test]
    fn rows_of_test_tables_are_cited() {
        assert_eq!(cited(&["// req: A-001", "each_revision! {", "    fn a() {"]), ["A-001"]);
        assert_eq!(
            cited(&["each_revision! {", "    fn a() {}", "", "    // req: A-001", "    fn b() {}", "}"]),
            ["A-001"]
        );
        assert_eq!(cited(&["table![", "    // req: A-001", "    (\"b\", 1),", "]"]), ["A-001"]);
        assert_eq!(cited(&["vec![", "    // req: A-001", "    Trial::test(\"a\", a),", "]"]), ["A-001"]);
    }

    #[test]
    fn citations_of_nothing_are_faults() {
        assert_eq!(refused(&["// req: A-001"]), "no test follows");
        assert_eq!(refused(&["// req: A-001", "", "#[test]", "fn a() {"]), "no test follows");
        assert_eq!(refused(&["// req: A-001", "struct A;"]), "no test follows");
        assert_eq!(refused(&["// req: A-001", "let x = call(|| fn_like());"]), "no test follows");
        assert_eq!(refused(&["// req: A-001", "assert_eq!(a, b);"]), "no test follows");
        assert_eq!(refused(&["// req: A-001", "fn helper() {"]), "the function is no test");
        assert_eq!(refused(&["// req: A-001", "#[cfg(test)]", "fn helper() {"]), "the function is no test");
        assert_eq!(refused(&["mod a {", "    // req: A-001", "    fn helper() {"]), "the function is no test");
        assert_eq!(refused(&["// req: A-001", "#[test]", "#[ignore]", "fn a() {"]), "the test is ignored");
        assert_eq!(refused(&["// req:", "#[test]", "fn a() {"]), "no id");
    }

    #[test]
    fn near_misses_are_faults() {
        for line in ["//req: A-001", "/// req: A-001", "// Req: A-001", "// reqs: A-001"] {
            assert_eq!(refused(&[line, "#[test]", "fn a() {"]), "a citation is written `// req: ID ID`");
        }
        assert_eq!(cited(&["// required: nothing", "let text = \"// req: A-001\";"]), [""; 0]);
    }

    #[test]
    fn scripts_cite_above_tasks() {
        let (ids, faults) = check("a.mjs", &["// req: A-001", "// Why.", "task('ping', async () => {"]);
        assert_eq!((ids, faults), (vec!["A-001".to_owned()], vec![]));
        let (ids, faults) = check("a.mjs", &["// req: A-001", "const a = 1;"]);
        assert_eq!((ids, faults), (vec![], vec!["no `task(` follows".to_owned()]));
    }

    #[test]
    fn faults_say_where() {
        let (_, faults) = scan(&Source { path: "core/src/a.rs".into(), text: "\n// req: A-001\n".into() });
        let expected = Fault { path: "core/src/a.rs".into(), line: 2, what: "no test follows".into() };
        assert_eq!(faults, [expected]);
    }
}
